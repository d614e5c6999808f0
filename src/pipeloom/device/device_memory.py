"""Memory of a device: arrays there, copies to and fro, and known bytes around what is written.

with DeviceArray(hip, 0, view, guard=4096) as there:
    there.fill(view.address)
    ...
    there.spoilt()            # bytes that something wrote before or behind the array
"""

from __future__ import annotations

import copy
import ctypes
from dataclasses import replace
from types import TracebackType
from typing import Any

from .hip import TO_DEVICE, TO_HOST, Hip
from .hip_errors import DeviceError
from .tensors import TensorView

KNOWN = 0x5A
"""The byte that guards hold."""
_KINDS = {0: "i", 1: "u", 2: "f"}


class DeviceArray:
    """An array in the memory of a device, freed with ``close`` or at the end of a ``with``.

    It has ``__cuda_array_interface__``, so others take it as it is.
    """

    def __init__(self, hip: Hip, device: int, view: TensorView, guard: int = 0) -> None:
        self._hip, self.device, self._guard = hip, device, guard
        self.nbytes = view.bytes_to_end
        with hip.on(device):
            self._base = hip.handle("hipMalloc", max(self.nbytes + 2 * guard, 4))
            if guard:
                hip.call("hipMemset", self._base, KNOWN, guard)
                hip.call("hipMemset", self._base + guard + self.nbytes, KNOWN, guard)
        self.view = replace(
            view, address=self._base + guard, on_host=False, device=device, owner=self
        )

    @property
    def address(self) -> int:
        """Of the first element."""
        return self.view.address

    def seen_as(self, view: TensorView) -> DeviceArray:
        """The same memory with the shape and type of another array of the same bytes."""
        other = copy.copy(self)
        there = self.view
        other.view = replace(view, address=there.address, on_host=False, device=there.device)
        return other

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        view = self.view
        size = view.bits * view.lanes // 8
        return {
            "shape": view.shape,
            "typestr": f"<{_KINDS.get(view.code, 'u')}{size}",
            "data": (self.address, False),
            "strides": tuple(stride * size for stride in view.strides),
            "version": 3,
        }

    def fill(self, address: int) -> None:
        """Copy from the host."""
        if self.nbytes:
            self._hip.call("hipMemcpy", self.address, address, self.nbytes, TO_DEVICE)

    def poke(self, byte: int, address: int) -> None:
        """Write an address at a byte of the array."""
        word = ctypes.c_uint64(address)
        self._hip.call("hipMemcpy", self.address + byte, ctypes.byref(word), 8, TO_DEVICE)

    def fetch(self, address: int) -> None:
        """Copy to the host, when everything before it is done."""
        if self.nbytes:
            self._hip.call("hipMemcpy", address, self.address, self.nbytes, TO_HOST)

    def spoilt(self) -> int:
        """Bytes around the array that are not what they were."""
        count = 0
        for at in (self._base, self._base + self._guard + self.nbytes) if self._guard else ():
            found = ctypes.create_string_buffer(self._guard)
            self._hip.call("hipMemcpy", found, at, self._guard, TO_HOST)
            count += self._guard - found.raw.count(KNOWN)
        return count

    def close(self) -> None:
        """Give the memory back."""
        base, self._base = self._base, 0
        if base:
            self.view = replace(self.view, address=0)
            self._hip.call("hipFree", base)

    def __enter__(self) -> DeviceArray:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except DeviceError:
            if error is None:
                raise


class Workspaces:
    """Memory between kernels of one call: one for each stream, whose kernels follow in order.

    One that is too small is kept until ``close``: to free it would wait for the device, and a graph
    may hold its address.
    """

    def __init__(self, hip: Hip) -> None:
        self._hip = hip
        self._of: dict[tuple[int, int], tuple[int, int]] = {}
        self._all: list[int] = []

    def get(self, device: int, stream: int, size: int) -> int:
        """At least so many bytes."""
        address, had = self._of.get((device, stream), (0, 0))
        if had < size:
            address = self._hip.handle("hipMalloc", size)
            self._all.append(address)
            self._of[device, stream] = address, size
        return address

    def close(self) -> None:
        """Free all; kernels that use them must be done."""
        self._of.clear()
        while self._all:
            self._hip.call("hipFree", self._all.pop())
