"""The division helpers v_div_scale, v_div_fmas and v_div_fixup, in f16, f32 and f64.

A compiler divides by a reciprocal and Newton steps. v_div_scale moves operands away from overflow
and denormals, v_div_fmas undoes it in the last step, v_div_fixup puts in the special cases.
Cases and limits: CDNA3 ISA, the descriptions of these instructions. Where its text would not give
the quotient of IEEE 754, which LLVM promises of the sequence (`fdiv` without `!fpmath`), a comment
says what is done instead.

Fused multiply-add with one rounding, in every precision.

a*b + c is first brought to float64 *rounded to odd*: truncated, with the last bit set when anything
was cut off. Rounding that to a format at least two bits narrower gives the correctly rounded result
(Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). For float64 itself the
product and the sum are carried as unevaluated pairs first.

    fused_f32(1 + 2**-12, 1 + 2**-12, -1)   # 2**-11 + 2**-24, exact
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pipeloom.array_kinds import Array, Flags, Places

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


def fused_f32(a: Array, b: Array, c: Array) -> npt.NDArray[np.float32]:
    """a*b + c of single precision; the product is exact in float64."""
    return _odd_sum(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float32)


def fused_f16(a: Array, b: Array, c: Array) -> npt.NDArray[np.float16]:
    """a*b + c of half precision."""
    return _odd_sum(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float16)


def _split(a: Doubles) -> tuple[Doubles, Doubles]:
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def fused_f64(a: Array, b: Array, c: Array) -> Doubles:
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


def scaled_f32(a: Array, b: Array, c: Array, shift: Array) -> npt.NDArray[np.float32]:
    """(a*b + c) 2**shift of single precision, rounded once."""
    odd = _odd_sum(a.astype(np.float64) * b, c.astype(np.float64))
    return np.ldexp(odd, shift).astype(np.float32)


def scaled_f64(a: Array, b: Array, c: Array, shift: Array) -> Doubles:
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


@dataclass(frozen=True, slots=True)
class Precision:
    """Limits of one float format.

    ``far`` is the distance of exponents from which a quotient may overflow, ``vanishes`` that below
    which it rounds to zero.
    """

    float_type: type[np.generic]
    word_type: type[np.generic]
    mantissa: int
    exponents: int
    far: int
    shift: int
    vanishes: int

    def exponent(self, value: Array) -> Places:
        """The biased exponent field."""
        words = np.ascontiguousarray(value).view(self.word_type).astype(np.uint64)
        return (words >> np.uint64(self.mantissa) & np.uint64(self.exponents)).astype(np.int64)

    def is_denormal(self, value: Array) -> Flags:
        found: Flags = (self.exponent(value) == 0) & (value != 0)
        return found


SINGLE = Precision(np.float32, np.uint32, 23, 0xFF, 96, 64, -150)
DOUBLE = Precision(np.float64, np.uint64, 52, 0x7FF, 768, 128, -1075)


def division_scale(
    precision: Precision, a: Array, denominator: Array, numerator: Array
) -> tuple[Array, Flags]:
    """v_div_scale: scale an operand away from overflow; the flag asks for rescaling."""
    a, denominator, numerator = (
        np.ascontiguousarray(x) for x in np.broadcast_arrays(a, denominator, numerator)
    )
    up, down = np.ldexp(a, precision.shift), np.ldexp(a, -precision.shift)
    zero = (numerator == 0) | (denominator == 0)
    distance = precision.exponent(numerator) - precision.exponent(denominator)
    small_denominator = precision.is_denormal(denominator)
    reciprocal_tiny = precision.is_denormal(1 / denominator)
    # The text asks whether the quotient is a denormal. One below half of the smallest, which rounds
    # to zero, must count too: unscaled, it would be rounded twice, first in the Newton steps.
    quotient_tiny = precision.exponent(numerator / denominator) == 0
    tiny_numerator = precision.exponent(numerator) <= precision.mantissa + (
        precision is DOUBLE  # the ISA's limits are 23 and 53
    )
    is_denominator = a == denominator
    cases = [
        zero,
        distance >= precision.far,
        small_denominator,
        reciprocal_tiny & quotient_tiny,
        reciprocal_tiny,
        quotient_tiny,
        tiny_numerator,
    ]
    results = [
        np.full_like(a, np.nan),
        np.where(is_denominator, up, a),
        up,
        # The ISA's text scales up here, which would make a denominator this large infinite and
        # the quotient NaN; only scaling down leaves the division correctly rounded.
        np.where(is_denominator, down, a),
        down,
        np.where(a == numerator, up, a),
        up,
    ]
    flagged = np.select(cases, [np.full(a.shape, i in (1, 3, 5)) for i in range(7)], False)
    return np.select(cases, results, a).astype(precision.float_type), flagged


def division_fused(precision: Precision, a: Array, b: Array, c: Array, scaled: Flags) -> Array:
    """v_div_fmas: a fused multiply-add, rescaled where v_div_scale asked for it."""
    bias = precision.exponents >> 1
    shift = np.where(precision.exponent(c) > bias, precision.shift, -precision.shift)
    single = precision is SINGLE
    fused: Array = fused_f32(a, b, c) if single else fused_f64(a, b, c)
    if not scaled.any():
        return fused
    rescale = scaled_f32 if single else scaled_f64
    return np.where(scaled, rescale(a, b, c, shift.astype(np.int32)), fused)


def division_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """v_div_fixup: the special cases of a division, and the sign."""
    kind = quotient.dtype.type
    negative = np.signbit(denominator) ^ np.signbit(numerator)
    sign = np.where(negative, kind(-1), kind(1))
    invalid = (denominator == 0) & (numerator == 0)
    invalid |= np.isinf(denominator) & np.isinf(numerator)
    vanishes = np.zeros(negative.shape, np.bool_)  # the text of v_div_fixup_f16 has no such case
    for precision in (SINGLE, DOUBLE):
        if kind is precision.float_type:
            distance = precision.exponent(numerator) - precision.exponent(denominator)
            vanishes = distance < precision.vanishes
    result: Array = np.select(
        [
            np.isnan(numerator) | np.isnan(denominator) | invalid,
            (denominator == 0) | np.isinf(numerator),
            np.isinf(denominator) | (numerator == 0) | vanishes,
            # A quotient that overflows has become infinity minus infinity in the Newton steps. The
            # text passes that on; tinygrad's emulator gives the overflow here, too.
            np.isnan(quotient),
        ],
        [kind(np.nan), sign * kind(np.inf), sign * kind(0), sign * kind(np.inf)],
        sign * np.abs(quotient),
    ).astype(kind)
    return result
