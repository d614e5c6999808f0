"""Softmax of scores times values, online over tiles of keys: what attention kernels share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from math import log2 as log2_of

from pipeloom.declare.composed import LN2
from pipeloom.declare.functions import exp2, fma, log2, maximum, rcp
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import Tensor
from pipeloom.machine.dtypes import F32, DType, dtype_for

LOWEST = -1e30
"""Below every score: a row without keys keeps it, and (unlike infinity) it can be subtracted."""
TINY = 1e-30
"""Below every sum of a row that has a key: each sum has a term of 2^0."""
SLACK = 8.0
"""By how much a score may exceed the maximum that a row is scaled by, to base 2, where the type of
weights has room for its power."""


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
    factors: Tensor | None = None,
) -> Attended:
    """One iteration: the scores of a tile of keys, masked, and its values.

    Args:
        loop: The loop, over the keys, with rows ``q``.
        scores: Gives the masked scores, before ``scale``.
        values: The tile's values, of ``dtype`` or converted to it.
        scale: What scores are multiplied with, to base 2; above 0.
        dtype: What weights are rounded to for the product.
        rows: The tile's size along ``q``.
        factors: What the values of each key are multiplied with.
    """
    top = loop.carry("m", F32, start=LOWEST, q=rows)
    weight = loop.carry("l", F32, start=0, q=rows)
    columns = next((dim, size) for dim, size in values.type.sizes.items() if dim != loop.over)
    out = loop.carry("O", F32, start=0, q=rows, **dict([columns]))
    found = scores()
    best = found.max(loop.over).named("best")
    slack = min(SLACK, floor(log2_of(dtype_for(dtype).largest)))
    with loop.when(best > top + slack / scale):  # exponents stay below 2^slack without it
        shrink = exp2((top - maximum(top, best)) * scale).named("alpha")
        weight = weight.becomes(weight * shrink)
        out = out.becomes(out * shrink)
        top = top.becomes(maximum(top, best))
    p = exp2(fma(found, scale, top * -scale)).named("P")
    weight += p.sum(loop.over)
    weights = p if factors is None else p * factors
    out += weights.to(dtype) @ of_type(values.staged(), dtype)
    return Attended(out, weight, top, scale)


def of_type(value: Tensor, dtype: DType | str) -> Tensor:
    """The same value, converted where its type is another."""
    return value if value.type.dtype == dtype_for(dtype) else value.to(dtype)
