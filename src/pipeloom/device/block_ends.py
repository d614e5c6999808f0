"""Where matrices in blocks end, which the numbers of their blocks leave open: the last block may be
filled in part. Declarations and launches both decide it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockedEnd:
    """What the blocks of one array say of the size along one dimension."""

    dim: str
    unit: int
    """Elements of a block; 1 where the array says it exactly."""
    whole: int
    """Elements of all blocks."""

    def allows(self, size: int) -> bool:
        """Whether a matrix of that size ends in the last block."""
        return self.whole - self.unit < size <= self.whole


def with_ends(sizes: Mapping[str, int], ends: Iterable[BlockedEnd]) -> dict[str, int]:
    """``sizes``, and along each other dimension what the smallest blocks say."""
    found = dict(sizes)
    for end in sorted(ends, key=lambda one: one.unit):
        found.setdefault(end.dim, end.whole)
    return found
