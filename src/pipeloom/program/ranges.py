"""Which numbers a value can be: an interval, and whether it can be NaN.

    exp2 of -3 to 200      from 0.125 to infinity
    0 times that           0 or NaN
    maximum of -1e30 and of anything    from -1e30 to infinity, never NaN

Bounds hold for what instructions give, not only for exact numbers: sums are widened by what their
order can change, results of the transcendental unit by its error, and a denormal may be zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, copysign, exp2, floor, inf, isinf, isnan, log2, sqrt, trunc
from types import MappingProxyType

import numpy as np

from pipeloom.machine.dtypes import F32, DType, Specials
from pipeloom.program.vocabulary import SMALLEST, VOCABULARY, OpDef, Reduce

UNIT = 2.0**-23
NEAR = 2.0**-20
"""More than what the transcendental unit is off by: 1 unit (CDNA3 ISA), and a product after it."""
WHOLE = 2.0**24
"""Up to which sums of whole numbers are exact."""


@dataclass(frozen=True, slots=True)
class Range:
    """From ``low`` to ``high``, both included; infinities are numbers like any other."""

    low: float
    high: float
    nan: bool = False

    @property
    def number(self) -> float | None:
        """The one number that it is, if there is one."""
        return self.low if self.low == self.high and not self.nan else None

    @property
    def infinite(self) -> bool:
        """Whether it can be an infinity."""
        return isinf(self.low) or isinf(self.high)

    def has(self, number: float) -> bool:
        """Whether it can be this number."""
        return self.low <= number <= self.high

    def __or__(self, other: Range) -> Range:
        """One or the other."""
        return Range(min(self.low, other.low), max(self.high, other.high), self.nan or other.nan)

    def beyond(self, before: Range) -> Range:
        """As far as it may come if it goes on as from ``before``: for what repeats without end."""
        low = self.low if self.low >= before.low else -inf
        return Range(low, self.high if self.high <= before.high else inf, self.nan)


ANYTHING = Range(-inf, inf, nan=True)
TRUTH = Range(0.0, 1.0)


def exactly(number: float) -> Range:
    """One number."""
    return ANYTHING if isnan(number) else Range(float(number), float(number))


def held(dtype: DType, *, finite: bool) -> Range:
    """What an array of the type can hold; only its ``finite`` numbers."""
    if dtype.bits > F32.bits or (not finite and dtype.specials is not Specials.NONE):
        return ANYTHING
    if dtype.scale is not None:
        return Range(-F32.largest, F32.largest)
    least = 0.0 if dtype.unsigned or dtype.is_bool else -dtype.largest - dtype.is_integer
    return Range(least, dtype.largest)


def stored(dtype: DType, value: Range) -> Range:
    """A value as the type holds it: rounded, saturated or infinite."""
    if dtype.is_bool:
        return _truth(value)
    if value.number == 0:
        return value
    if dtype.scale is not None or dtype.bits > F32.bits:
        return ANYTHING
    if value.nan and dtype.specials is Specials.NONE:
        return ANYTHING
    signs = copysign(1, value.low), copysign(1, value.high)
    low, high = _nearest(dtype, value.low, value.high, signs)
    return Range(low, high, value.nan)


@lru_cache(maxsize=4096)
def _nearest(
    dtype: DType, low: float, high: float, signs: tuple[float, float]
) -> tuple[float, float]:
    """Two numbers rounded; ``signs`` are theirs, in which zeros that compare equal may differ."""
    rounded = dtype.round(np.array([low, high], np.float32))
    return float(rounded[0]), float(rounded[1])


def _truth(value: Range) -> Range:
    """Whether it is not 0, which a NaN is not."""
    if value.number == 0:
        return value
    return TRUTH if value.has(0) else exactly(1)


def result(op: str, operands: Sequence[Range], count: int) -> Range:
    """What an op gives, reduced over ``count`` elements: anything, if it is not of ours."""
    if op not in VOCABULARY:
        return ANYTHING
    each = _EACH[op](*operands) if op in _EACH else ANYTHING
    return reduced(VOCABULARY[op], each, count)


def reduced(op: OpDef, each: Range, count: int) -> Range:
    """So many elements, summed; the largest or smallest of some is one of them."""
    if op.reduce is not Reduce.ADD or count == 1:
        return each
    low, high = each.low * count, each.high * count
    number = each.number
    exact = number is not None and number.is_integer() and abs(number) * count <= WHOLE
    if not exact:
        low, high = _wider(low, high, count * UNIT)
    total = _rounded(low, high, each.nan)
    return ANYTHING if (total.low, total.high) == (-inf, inf) else total


def joined(reduce: Reduce | None, start: Range, value: Range) -> Range:
    """A reduction's result combined with what it starts from."""
    join = {Reduce.ADD: _add, Reduce.MAX: _max, Reduce.MIN: _min}.get(reduce or Reduce.ANY)
    return ANYTHING if join is None else join(start, value)


def _wider(low: float, high: float, by: float) -> tuple[float, float]:
    lower = low if isinf(low) else low - abs(low) * by
    return lower, high if isinf(high) else high + abs(high) * by


def _rounded(low: float, high: float, nan: bool) -> Range:
    """As f32; a denormal may be zero."""
    with np.errstate(over="ignore"):
        low, high = float(np.float32(low)), float(np.float32(high))
    low = 0.0 if 0 < low < SMALLEST else low
    return Range(low, 0.0 if -SMALLEST < high < 0 else high, nan)


def _near(low: float, high: float, nan: bool) -> Range:
    """What the transcendental unit gives, which is exact where the result is 0, 1 or infinite."""
    if low == high and (low in (0.0, 1.0, -1.0) or isinf(low)):
        return Range(low, high, nan)
    return _rounded(*_wider(low, high, NEAR), nan)


def _add(a: Range, b: Range) -> Range:
    nan = a.nan or b.nan or (a.has(inf) and b.has(-inf)) or (a.has(-inf) and b.has(inf))
    low, high = a.low + b.low, a.high + b.high
    return _rounded(-inf if isnan(low) else low, inf if isnan(high) else high, nan)


def _neg(a: Range) -> Range:
    return Range(-a.high, -a.low, a.nan)


def _corners(function: Callable[[float, float], float], a: Range, b: Range) -> list[float]:
    found = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return [0.0 if isnan(x) else x for x in found]


def _product(a: Range, b: Range) -> Range:
    """Not yet rounded."""
    nan = a.nan or b.nan or (a.has(0) and b.infinite) or (b.has(0) and a.infinite)
    corners = _corners(lambda x, y: x * y, a, b)
    return Range(min(corners), max(corners), nan)


def _mul(a: Range, b: Range) -> Range:
    product = _product(a, b)
    return _rounded(product.low, product.high, product.nan)


def _square(a: Range) -> Range:
    ends = a.low * a.low, a.high * a.high
    return _rounded(0.0 if a.has(0) else min(ends), max(ends), a.nan)


def _scaled(a: Range, b: Range, of_a: Range, of_b: Range) -> Range:
    """In one order or another, one of which may overflow on the way."""
    scaled = _mul(a, of_a)
    found = _mul(scaled, _mul(b, of_b)) | _mul(_mul(scaled, b), of_b)
    return ANYTHING if found.infinite else found


def _fma(a: Range, b: Range, c: Range) -> Range:
    """Rounded once, or twice."""
    return _add(_product(a, b), c) | _add(_mul(a, b), c)


def _div(a: Range, b: Range) -> Range:
    nan = a.nan or b.nan or (a.has(0) and b.has(0)) or (a.infinite and b.infinite)
    if not b.has(0):
        corners = _corners(lambda x, y: x / y, a, b)
        return _near(min(corners), max(corners), nan)
    return Range(0.0 if a.low >= 0 and b.low >= 0 else -inf, inf, nan)


def _max(a: Range, b: Range) -> Range:
    """Of a number and a NaN the number."""
    both = Range(max(a.low, b.low), max(a.high, b.high))
    both = both | Range(b.low, b.high) if a.nan else both
    both = both | Range(a.low, a.high) if b.nan else both
    return Range(both.low, both.high, a.nan and b.nan)


def _min(a: Range, b: Range) -> Range:
    return _neg(_max(_neg(a), _neg(b)))


def _power(x: float) -> float:
    return inf if x >= 1024 else exp2(x)


def _logarithm(x: float) -> float:
    return log2(x) if 0 < x < inf else -inf if x == 0 else inf


def _exp2(a: Range) -> Range:
    return _near(_power(a.low), _power(a.high), a.nan)


def _normal(a: Range) -> Range:
    """A denormal operand of the transcendental unit is zero."""
    low = 0.0 if 0 < a.low < SMALLEST else a.low
    return Range(low, 0.0 if -SMALLEST < a.high < 0 else a.high, a.nan)


def _log2(a: Range) -> Range:
    if a.low < 0:
        return ANYTHING
    a = _normal(a)
    return _near(_logarithm(a.low), _logarithm(a.high), a.nan)


def _rcp(a: Range) -> Range:
    a = _normal(a)
    if a.low < 0 <= a.high:
        return Range(-inf, inf, a.nan)
    low = 0.0 if isinf(a.high) else 1 / a.high if a.high else inf
    high = 0.0 if isinf(a.low) else 1 / a.low if a.low else inf
    return _near(low, high, a.nan)


def _rsqrt(a: Range) -> Range:
    if a.low < 0:
        return ANYTHING
    root = _rcp(_normal(a))
    return _near(sqrt(root.low), sqrt(root.high), a.nan)


def _sqrt(a: Range) -> Range:
    if a.low < 0:
        return ANYTHING
    a = _normal(a)
    return _near(sqrt(a.low), sqrt(a.high), a.nan)


def _whole(rounded: Callable[[float], int]) -> Callable[[Range], Range]:
    def of(a: Range) -> Range:
        low, high = (x if isinf(x) else float(rounded(x)) for x in (a.low, a.high))
        return Range(low, high, a.nan)

    return of


def _wave(a: Range) -> Range:
    return Range(-1.0, 1.0, a.nan or isinf(a.low) or isinf(a.high))


def _exceeds(a: Range, b: Range) -> Range:
    """a > b, which of NaN is false."""
    always = a.low > b.high and not (a.nan or b.nan)
    return exactly(1) if always else exactly(0) if a.high <= b.low else TRUTH


def _reaches(a: Range, b: Range) -> Range:
    """a >= b."""
    always = a.low >= b.high and not (a.nan or b.nan)
    return exactly(1) if always else exactly(0) if a.high < b.low else TRUTH


def _equals(a: Range, b: Range) -> Range:
    if a.high < b.low or b.high < a.low:
        return exactly(0)
    return exactly(1) if a.number is not None and a.number == b.number else TRUTH


def _select(condition: Range, a: Range, b: Range) -> Range:
    if condition.number is not None:
        return a if condition.number else b
    return a | b


def _keep(a: Range, left: Range, least: Range) -> Range:
    return _select(_reaches(left, least), a, exactly(-inf))


_EACH: Mapping[str, Callable[..., Range]] = MappingProxyType(
    {
        "matmul": _mul,
        "scaled_matmul": _scaled,
        "sum": lambda a: a,
        "sum_squares": _square,
        "amax": lambda a: a,
        "amin": lambda a: a,
        "any": _truth,
        "convert": lambda a: a,
        "swapped": lambda a: a,
        "block_max": lambda a: a,
        "block_amax": lambda a: _max(a, _neg(a)),
        "power_below": lambda a: Range(0.0, inf if a.nan else max(abs(a.low), abs(a.high))),
        "add": _add,
        "sub": lambda a, b: _add(a, _neg(b)),
        "mul": _mul,
        "max": _max,
        "min": _min,
        "fma": _fma,
        "div": _div,
        "neg": _neg,
        "exp2": _exp2,
        "log2": _log2,
        "rcp": _rcp,
        "sqrt": _sqrt,
        "rsqrt": _rsqrt,
        "floor": _whole(floor),
        "ceil": _whole(ceil),
        "trunc": _whole(trunc),
        "round": _whole(round),
        "sin": _wave,
        "cos": _wave,
        "gt": _exceeds,
        "ge": _reaches,
        "lt": lambda a, b: _exceeds(b, a),
        "le": lambda a, b: _reaches(b, a),
        "eq": _equals,
        "select": _select,
        "within": lambda a, left: _select(_reaches(left, exactly(1)), a, exactly(0)),
        "clear": lambda a, left, least: _select(_reaches(left, least), a, exactly(0)),
        "keep": _keep,
    }
)
"""What an op gives of one element of each operand."""
