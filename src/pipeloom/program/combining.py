"""How ops combine elements: those of a dimension that a result lacks, or those of a block."""

from __future__ import annotations

from enum import Enum
from math import inf

import numpy as np

from pipeloom.array_kinds import Array


class Reduce(Enum):
    """How parts of a reduction combine: associative and commutative in exact numbers."""

    ADD = "add"
    """Sum."""
    MAX = "max"
    """The largest; of a number and a NaN, the number."""
    MIN = "min"
    """The smallest; of a number and a NaN, the number."""
    ANY = "any"
    """Whether any is true."""

    @property
    def ufunc(self) -> np.ufunc:
        """The NumPy function that combines two parts."""
        return {"add": np.add, "max": np.fmax, "min": np.fmin, "any": np.logical_or}[self.value]

    @property
    def neutral(self) -> float:
        """The number that changes nothing."""
        return {"add": 0.0, "max": -inf, "min": inf, "any": 0.0}[self.value]


class InBlocks(Enum):
    """What an op does with the elements of a block, all of which it sees."""

    SWAP = "swap"
    """The halves change places."""
    MAX = "max"
    """The largest, for each of them; of a number and a NaN, the number."""

    def apply(self, value: Array, axis: int, size: int) -> Array:
        """It, of every block of ``size`` along an axis.

        Args:
            value: The elements.
            axis: Along which blocks lie, one behind the other.
            size: Elements of a block.
        """
        before, behind = value.shape[:axis], value.shape[axis + 1 :]
        if self is InBlocks.SWAP:
            halves = value.reshape(*before, -1, 2, size // 2, *behind)
            return np.flip(halves, axis + 1).reshape(value.shape)
        blocks = value.reshape(*before, -1, size, *behind)
        most = np.fmax.reduce(blocks, axis=axis + 1, keepdims=True)
        return np.broadcast_to(most, blocks.shape).reshape(value.shape)
