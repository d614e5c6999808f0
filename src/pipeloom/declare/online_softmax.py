"""Softmax of scores times values, online over tiles of keys: what attention kernels share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeloom.declare.composed import LN2
from pipeloom.declare.functions import exp2, fma, log2, maximum, rcp
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import Tensor
from pipeloom.machine.dtypes import F32, DType

LOWEST = -1e30
"""Below every score: a row without keys keeps it, and (unlike infinity) it can be subtracted."""
TINY = 1e-30
"""Below every sum of a row that has a key: each sum has a term of 2^0."""
SLACK = 8.0
"""By how much a score may exceed the maximum that a row is scaled by, to base 2."""


@dataclass(frozen=True, slots=True)
class Attended:
    """What is carried over the keys: the rows' sums of values, of weights, and what scales them."""

    values: Tensor
    weight: Tensor
    top: Tensor
    scale: Tensor

    @property
    def rows(self) -> Tensor:
        """Softmax times values; 0 in a row without keys."""
        return self.values * rcp(maximum(self.weight, TINY))

    @property
    def lse(self) -> Tensor:
        """ln of the sum of exponentials; minus infinity in a row without keys."""
        return (self.top * self.scale + log2(self.weight)) * LN2


def attend(
    loop: Loop,
    scores: Callable[[], Tensor],
    values: Tensor,
    scale: Tensor,
    dtype: DType | str,
    rows: int,
) -> Attended:
    """One iteration: the scores of a tile of keys, masked, and its values.

    Args:
        loop: The loop, over the keys, with rows ``q``.
        scores: Gives the masked scores, before ``scale``.
        values: The tile's values.
        scale: What scores are multiplied with, to base 2; above 0.
        dtype: What weights are rounded to for the product.
        rows: The tile's size along ``q``.
    """
    top = loop.carry("m", F32, start=LOWEST, q=rows)
    weight = loop.carry("l", F32, start=0, q=rows)
    columns = next((dim, size) for dim, size in values.type.sizes.items() if dim != loop.over)
    out = loop.carry("O", F32, start=0, q=rows, **dict([columns]))
    found = scores()
    best = found.max(loop.over).named("best")
    with loop.when(best > top + SLACK / scale):  # exponents stay below 2^SLACK without it
        shrink = exp2((top - maximum(top, best)) * scale).named("alpha")
        weight = weight.becomes(weight * shrink)
        out = out.becomes(out * shrink)
        top = top.becomes(maximum(top, best))
    p = exp2(fma(found, scale, top * -scale)).named("P")
    weight += p.sum(loop.over)
    out += p.to(dtype) @ values.staged()
    return Attended(out, weight, top, scale)
