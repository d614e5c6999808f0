"""Which bytes an array has, as far as it takes to say that two have none in common.

Arrays whose bytes lie in each other's range may still be apart: columns of one matrix, or heads
of one tensor, are. Both then repeat after so many bytes, and take other ones of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from .tensors import TensorView


@dataclass(frozen=True, slots=True)
class ArrayBytes:
    """An array's bytes from where it begins."""

    size: int
    """To the end of the last element."""
    run: int
    """That lie together, at the least."""
    step: int
    """Of which the beginnings of runs are multiples; 0 of a single run."""
    axes: tuple[tuple[int, int], ...]
    """Bytes and elements along each dimension: equal ones that begin together are one array."""

    @classmethod
    def of(cls, view: TensorView) -> ArrayBytes:
        """Of an array that goes forwards."""
        element = -(-view.bits * view.lanes // 8)
        both = zip(view.strides, view.shape, strict=True)
        axes = tuple((stride * element, count) for stride, count in both if count > 1)
        run, step = element, 0
        for stride, count in sorted(axes):
            if stride == run and not step:
                run *= count
            else:
                step = gcd(step, stride)
        return cls(view.bytes_to_end, run, step, axes)

    def meets(self, other: ArrayBytes, apart: int) -> bool:
        """Whether it may have bytes of another, which begins so many behind it."""
        if not self.size or not other.size or not -other.size < apart < self.size:
            return False
        step = gcd(self.step, other.step)
        first = apart % step if step else apart
        return not step or first < self.run or first + other.run > step
