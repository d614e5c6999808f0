"""How a trial lays arrays out in memory: in any order of dimensions, with spare elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate import LaunchError
from pipeloom.machine.dtypes import I32, DType
from pipeloom.program.nodes import Node

Array = npt.NDArray[Any]
UNTOUCHED = 0x5A


def storage(dtype: DType) -> type[np.generic]:
    """How NumPy holds its codes, or f32 and i32 themselves."""
    kinds: dict[int, type[np.generic]] = {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.float32}
    return np.int32 if dtype == I32 else kinds[dtype.bits]


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """An array in memory: ``order`` has its dimensions, outermost first, ``shape`` their lengths
    there, in codes, spare ones of rows included. One number is an array of one."""

    node: Node
    sizes: Mapping[str, int]
    order: tuple[str, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls,
        node: Node,
        sizes: Mapping[str, int],
        extra: Mapping[str, int],
        order: tuple[str, ...] | None,
    ) -> ArrayPlace:
        dims = order or node.dims
        if sorted(dims) != sorted(node.dims) or dims[-1:] != node.dims[-1:]:
            raise LaunchError(
                f"{node.name} cannot lie as {dims}",
                hint=f"order its dimensions {node.dims}, the last one last",
                field="order",
            )
        shape = [sizes[dim] for dim in dims] or [1]
        shape[-1] = -(-shape[-1] // node.type.dtype.covers)
        shape[-1] += extra.get(node.name, 0) if len(node.array_dims) > 1 else 0
        return cls(node, sizes, dims, tuple(shape))

    @property
    def row(self) -> int:
        """Elements along the last dimension."""
        return self.sizes[self.order[-1]] if self.order else 1

    @property
    def pitch(self) -> int:
        """The leading dimension."""
        dims = self.node.array_dims
        return self.stride(dims[-2]) if len(dims) > 1 else 1

    def stride(self, dim: str) -> int:
        """Elements between neighbours along a dimension."""
        return prod(self.shape[self.order.index(dim) + 1 :])

    def _own(self, array: Array) -> Array:
        """In the order of the array's own dimensions."""
        if not self.order:
            return array.reshape(())
        return array.transpose([self.order.index(dim) for dim in self.node.dims])

    def _moved(self, array: Array) -> Array:
        if not self.order:
            return array
        return array.transpose([self.node.dims.index(dim) for dim in self.order])

    def encoded(self, values: Array) -> Array:
        """Bit patterns, those of 4 bits two to a byte; NaN where rows have spare elements."""
        dtype = self.node.type.dtype
        kind = storage(dtype)
        values = values[..., :: dtype.covers] if self.order else np.reshape(values, 1)
        codes = values.astype(kind) if dtype.bits == 32 else dtype.encode(values).astype(kind)
        poison = np.array([dtype.largest if dtype.is_integer else np.nan])
        nan = dtype.encode(poison)[0] if dtype.bits < 32 else np.nan
        nan = np.iinfo(np.int32).min if dtype == I32 else nan
        wide = np.full(self.shape, nan, kind)
        wide[..., : values.shape[-1]] = self._moved(codes)
        return wide if dtype.bits >= 8 else wide[..., ::2] | wide[..., 1::2] << dtype.bits

    def blank(self) -> Array:
        """Nothing written yet."""
        kind = np.dtype(storage(self.node.type.dtype))
        shape = (*self.shape[:-1], self.shape[-1] * kind.itemsize)
        return np.full(shape, UNTOUCHED, np.uint8).view(kind)

    def shown(self, stored: Array) -> Array:
        """The array itself, without spare elements, its dimensions in their own order."""
        dtype = self.node.type.dtype
        codes = -(-self.row // dtype.covers)
        part = stored[..., : -(-codes * dtype.bits // 8) if dtype.bits < 8 else codes]
        return self._own(part)

    def decoded(self, stored: Array) -> Array:
        """Values in the order of the array's own dimensions."""
        dtype = self.node.type.dtype
        size = self.row
        back = self._own(stored[..., : -(-size // dtype.covers)])
        wide = dtype.bits == 32
        values = back.astype(dtype.held) if wide else dtype.decode(back.astype(np.uint16))
        if not self.order:
            return values
        return np.repeat(values, dtype.covers, axis=-1)[..., :size]
