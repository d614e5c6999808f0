"""Launch with arrays of the host: copied to the device, and what was written copied back.

    launch_copied(prepared, {"A": a, "B": b, "out": c}, guard=4096)

With a guard, known bytes lie around every array there, and what wrote to them is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from .device_memory import DeviceArray
from .fixed_launches import linked_addresses
from .hip_errors import DeviceError
from .prepared_kernel import PreparedKernel, stream_handle
from .tensors import TensorView, view_of


def launch_copied(
    kernel: PreparedKernel, given: Mapping[str, Any], stream: Any = None, guard: int = 0
) -> dict[str, int]:
    """Launch, and wait where an array lies on the host; spoilt bytes around each that does."""
    views = {name: view_of(given[name], name) for name in kernel.rules if name in given}
    on_host = {name: view for name, view in views.items() if view.on_host}
    for name, view in on_host.items():
        _check_copied(kernel, name, view)
        _check_apart(kernel, name, on_host)
    if not on_host:
        kernel(stream=stream, **given)
        return {}
    torch = any(hasattr(given[name], "data_ptr") for name in views)
    queue = stream_handle(stream, kernel.device, torch)
    with ExitStack() as stack, kernel.hip.on(kernel.device):
        there: dict[tuple[int, int], DeviceArray] = {}
        placed: dict[str, DeviceArray] = {}
        for name, view in on_host.items():
            key = view.address, view.bytes_to_end
            if key not in there:
                array = DeviceArray(kernel.hip, kernel.device, view, guard)
                there[key] = stack.enter_context(array)
                array.fill(view.address)
            placed[name] = there[key].seen_as(view)
        known = {name: view.address for name, view in views.items()}
        known |= {name: array.address for name, array in placed.items()}
        for name, at, address in linked_addresses(kernel.record, known):
            if name in placed:
                placed[name].poke(at, address)
        kernel(stream=queue, **{**given, **placed})
        kernel.hip.call("hipStreamSynchronize", queue or None)
        kernel.hip.launched.clear()
        spoilt = {name: array.spoilt() for name, array in placed.items()}
        for name, view in on_host.items():
            if kernel.rules[name].output:
                placed[name].fetch(view.address)
    return spoilt


def check_guards(kernel: str, spoilt: Mapping[str, int]) -> None:
    """Refuse what wrote outside of its arrays: so many bytes around each."""
    wrong = [f"{count} bytes around {name}" for name, count in spoilt.items() if count]
    if wrong:
        raise DeviceError(
            f"{kernel} wrote outside of its arrays: {', '.join(wrong)}",
            hint="pipeloom run emulates it and says which instruction does",
            field="kernel",
        )


def _check_copied(kernel: PreparedKernel, name: str, view: TensorView) -> None:
    if any(stride < 0 for stride in view.strides):
        raise DeviceError(f"{name} goes backwards", hint="pass np.ascontiguousarray(x)", field=name)
    if view.read_only and kernel.rules[name].output:
        raise DeviceError(f"{name} cannot be written", hint="pass an array of your own", field=name)


def _check_apart(kernel: PreparedKernel, output: str, views: Mapping[str, TensorView]) -> None:
    """Copied back, an output would bring along what lies between its rows."""
    if not kernel.rules[output].output:
        return
    own = views[output]

    def places(view: TensorView) -> tuple[object, ...]:
        """The same elements are the same, whoever has them: codes of NumPy, numbers of PyTorch."""
        return view.address, view.shape, view.strides, view.bits * view.lanes

    for name, view in views.items():
        begin, end = view.address, view.address + view.bytes_to_end
        same = name == output or places(view) == places(own)
        if not same and begin < own.address + own.bytes_to_end and own.address < end:
            raise DeviceError(
                f"{output} shares memory of the host with {name}",
                hint="pass arrays of their own",
                field=output,
            )
