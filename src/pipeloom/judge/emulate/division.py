"""The division helpers v_div_scale, v_div_fmas and v_div_fixup, in f16, f32 and f64.

A compiler divides by a reciprocal and Newton steps. v_div_scale moves operands away from overflow
and denormals, v_div_fmas undoes it in the last step, v_div_fixup puts in the special cases.
Cases and limits: CDNA3 ISA, the descriptions of these instructions. Where its text would not give
the quotient of IEEE 754, which LLVM promises of the sequence (`fdiv` without `!fpmath`), a comment
says what is done instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.fma import fused_f32, fused_f64, scaled_f32, scaled_f64

Values = npt.NDArray[Any]
Lanes = npt.NDArray[np.bool_]


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

    def exponent(self, value: Values) -> npt.NDArray[np.int64]:
        """The biased exponent field."""
        words = np.ascontiguousarray(value).view(self.word_type).astype(np.uint64)
        return (words >> np.uint64(self.mantissa) & np.uint64(self.exponents)).astype(np.int64)

    def is_denormal(self, value: Values) -> Lanes:
        found: Lanes = (self.exponent(value) == 0) & (value != 0)
        return found


SINGLE = Precision(np.float32, np.uint32, 23, 0xFF, 96, 64, -150)
DOUBLE = Precision(np.float64, np.uint64, 52, 0x7FF, 768, 128, -1075)


def division_scale(
    precision: Precision, a: Values, denominator: Values, numerator: Values
) -> tuple[Values, Lanes]:
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


def division_fused(precision: Precision, a: Values, b: Values, c: Values, scaled: Lanes) -> Values:
    """v_div_fmas: a fused multiply-add, rescaled where v_div_scale asked for it."""
    bias = precision.exponents >> 1
    shift = np.where(precision.exponent(c) > bias, precision.shift, -precision.shift)
    single = precision is SINGLE
    fused: Values = fused_f32(a, b, c) if single else fused_f64(a, b, c)
    if not scaled.any():
        return fused
    rescale = scaled_f32 if single else scaled_f64
    return np.where(scaled, rescale(a, b, c, shift.astype(np.int32)), fused)


def division_fixup(quotient: Values, denominator: Values, numerator: Values) -> Values:
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
    result: Values = np.select(
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
