"""Fused multiply-add with one rounding, in every precision.

a*b + c is first brought to float64 *rounded to odd*: truncated, with the last bit set when anything
was cut off. Rounding that to a format at least two bits narrower gives the correctly rounded result
(Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). For float64 itself the
product and the sum are carried as unevaluated pairs first.

    fused_f32(1 + 2**-12, 1 + 2**-12, -1)   # 2**-11 + 2**-24, exact
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

_SPLITTER = 134217729.0  # 2**27 + 1
_SAFE = 2.0**500
_TINY = 2.0**-450


def _two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a + b as a rounded sum and its exact error (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _odd_sum(a: Doubles, b: Doubles) -> Doubles:
    """a + b rounded to odd."""
    total, error = _two_sum(a, b)
    even = np.ascontiguousarray(total).view(np.uint64) & np.uint64(1) == 0
    inexact = (error != 0) & even & np.isfinite(total)
    if not inexact.any():
        return total
    return np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total)


def fused_f32(a: Values, b: Values, c: Values) -> npt.NDArray[np.float32]:
    """a*b + c of single precision; the product is exact in float64."""
    return _odd_sum(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float32)


def fused_f16(a: Values, b: Values, c: Values) -> npt.NDArray[np.float16]:
    """a*b + c of half precision."""
    return _odd_sum(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float16)


def _split(a: Doubles) -> tuple[Doubles, Doubles]:
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def fused_f64(a: Values, b: Values, c: Values) -> Doubles:
    """a*b + c of double precision; lanes near the ends of the range go through fractions."""
    a, b, c = (np.array(x, np.float64) for x in np.broadcast_arrays(a, b, c))
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    high, low = _two_sum(c, rest)
    top, tail = _two_sum(product, high)
    result: Doubles = top + _odd_sum(low, tail)
    extreme = np.zeros(result.shape, np.bool_)
    for part in (a, b, product, c):
        size = np.abs(part)
        extreme |= ~(size < _SAFE) | ((size < _TINY) & (size > 0))
    extreme |= (product == 0) & (a != 0) & (b != 0)
    result = np.where((product == 0) & ~extreme, product + c, result)
    for at in np.flatnonzero(extreme).tolist():
        result[at] = _fused_exactly(float(a[at]), float(b[at]), float(c[at]))
    return result


def scaled_f32(a: Values, b: Values, c: Values, shift: Values) -> npt.NDArray[np.float32]:
    """(a*b + c) 2**shift of single precision, rounded once."""
    odd = _odd_sum(a.astype(np.float64) * b, c.astype(np.float64))
    return np.ldexp(odd, shift).astype(np.float32)


def scaled_f64(a: Values, b: Values, c: Values, shift: Values) -> Doubles:
    """(a*b + c) 2**shift of double precision, rounded once; lane by lane."""
    lanes = zip(*[x.tolist() for x in np.broadcast_arrays(a, b, c, shift)], strict=True)
    return np.array([_fused_exactly(*lane) for lane in lanes], np.float64)


def _fused_exactly(a: float, b: float, c: float, shift: int = 0) -> float:
    if not all(map(np.isfinite, (a, b, c))) or a == 0 or b == 0:
        return float(np.ldexp(np.float64(a) * np.float64(b) + np.float64(c), shift))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return float(np.copysign(1.0, a) * np.copysign(0.0, b) + c) if c == 0 else 0.0
    try:
        return float(exact * Fraction(2) ** shift)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
