"""Floating-point vector operations (rows for ``valu``).

Results are IEEE, rounded to nearest even, denormals kept. The transcendental operations (exp, log,
rcp, rsq, sqrt, sin, cos) are exact to the last place here, where hardware allows about 1 ulp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.emulate.valu import Op

Values = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

_F32 = ("f32", "f32")
_F32_3 = ("f32", "f32", "f32")
_F16 = ("f16", "f16")
_F64 = ("f64", "f64")


def fused_f32(a: Values, b: Values, c: Values) -> Floats:
    """a*b + c with one rounding from float64; the product is exact there."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


def fused_f16(a: Values, b: Values, c: Values) -> npt.NDArray[np.float16]:
    """a*b + c of half precision; exact in float64."""
    return (a.astype(np.float64) * b + c).astype(np.float16)


def smallest(a: Values, b: Values) -> Values:
    """minNum: a number wins over a NaN."""
    return np.fmin(a, b)


def largest(a: Values, b: Values) -> Values:
    """maxNum: a number wins over a NaN."""
    return np.fmax(a, b)


def _median(a: Values, b: Values, c: Values) -> Values:
    return largest(smallest(a, b), smallest(largest(a, b), c))


def _exp2(a: Values) -> Values:
    return np.exp2(a.astype(np.float64)).astype(a.dtype)


def _log2(a: Values) -> Values:
    return np.log2(a.astype(np.float64)).astype(a.dtype)


def _reciprocal(a: Values) -> Values:
    return (1.0 / a.astype(np.float64)).astype(a.dtype)


def _reciprocal_root(a: Values) -> Values:
    return (1.0 / np.sqrt(a.astype(np.float64))).astype(a.dtype)


def _turns(function: Any) -> Any:
    """sin and cos take their argument in revolutions."""
    return lambda a: function(a.astype(np.float64) * 2 * np.pi).astype(a.dtype)


def _exponent(a: Floats) -> npt.NDArray[np.int32]:
    """The biased exponent field."""
    return (a.view(np.uint32) >> 23 & 0xFF).astype(np.int32)


def _is_denormal(a: Floats) -> npt.NDArray[np.bool_]:
    bits = a.view(np.uint32) & 0x7FFFFFFF
    found: npt.NDArray[np.bool_] = (bits != 0) & (bits < 0x00800000)
    return found


def division_scale(
    a: Floats, denominator: Floats, numerator: Floats
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """v_div_scale_f32: scale an operand away from overflow; the flag asks for rescaling.

    Cases in order, from the CDNA ISA's description of the instruction.
    """
    a, denominator, numerator = (
        np.ascontiguousarray(x) for x in np.broadcast_arrays(a, denominator, numerator)
    )
    up, down = np.ldexp(a, 64), np.ldexp(a, -64)
    zero = (numerator == 0) | (denominator == 0)
    huge = _exponent(numerator) - _exponent(denominator) >= 96
    small_denominator = _is_denormal(denominator)
    reciprocal_tiny = np.abs(1.0 / denominator.astype(np.float64)) < 2.0**-126
    quotient = np.abs(numerator.astype(np.float64) / denominator.astype(np.float64))
    quotient_tiny = (quotient > 0) & (quotient < 2.0**-126)
    tiny_numerator = _exponent(numerator) <= 23
    is_denominator, is_numerator = a == denominator, a == numerator
    result = np.select(
        [
            zero,
            huge,
            small_denominator,
            reciprocal_tiny & quotient_tiny,
            reciprocal_tiny,
            quotient_tiny,
            tiny_numerator,
        ],
        [
            np.full_like(a, np.nan),
            np.where(is_denominator, up, a),
            up,
            np.where(is_denominator, up, a),
            down,
            np.where(is_numerator, up, a),
            up,
        ],
        a,
    ).astype(np.float32)
    plain = zero | ~huge & small_denominator
    flag = ~zero & (huge | ~plain & quotient_tiny)
    return result, flag


def division_fused(a: Floats, b: Floats, c: Floats, scaled: npt.NDArray[np.bool_]) -> Floats:
    """v_div_fmas_f32: a fused multiply-add, rescaled where v_div_scale asked for it."""
    exact = a.astype(np.float64) * b + c
    factor = np.where(_exponent(np.ascontiguousarray(c)) > 127, 2.0**64, 2.0**-64)
    return np.where(scaled, exact * factor, exact).astype(np.float32)


def _division_fixup(quotient: Floats, denominator: Floats, numerator: Floats) -> Floats:
    """v_div_fixup_f32: the special cases of a division, and the sign."""
    negative = np.signbit(denominator) ^ np.signbit(numerator)
    sign = np.where(negative, np.float32(-1), np.float32(1))
    invalid = (denominator == 0) & (numerator == 0)
    invalid |= np.isinf(denominator) & np.isinf(numerator)
    return np.select(
        [
            np.isnan(numerator) | np.isnan(denominator) | invalid,
            (denominator == 0) | np.isinf(numerator),
            np.isinf(denominator) | (numerator == 0),
        ],
        [np.float32(np.nan), sign * np.float32(np.inf), sign * np.float32(0)],
        sign * np.abs(quotient),
    ).astype(np.float32)


def _scale(a: Values, exponent: Values) -> Values:
    scaled: Values = np.ldexp(a, np.clip(exponent, -1000, 1000)).astype(a.dtype)
    return scaled


def _fraction(a: Values) -> Values:
    part: Values = a - np.floor(a)
    return part


FLOAT_OPS: dict[str, Op] = {
    "v_add_f32": Op("f32", _F32, np.add),
    "v_sub_f32": Op("f32", _F32, np.subtract),
    "v_subrev_f32": Op("f32", _F32, lambda a, b: b - a),
    "v_mul_f32": Op("f32", _F32, np.multiply),
    "v_mul_legacy_f32": Op("f32", _F32, lambda a, b: np.where((a == 0) | (b == 0), 0, a * b)),
    "v_min_f32": Op("f32", _F32, smallest),
    "v_max_f32": Op("f32", _F32, largest),
    "v_fma_f32": Op("f32", _F32_3, fused_f32),
    "v_fmac_f32": Op("f32", _F32_3, fused_f32, accumulates=True),
    "v_min3_f32": Op("f32", _F32_3, lambda a, b, c: smallest(smallest(a, b), c)),
    "v_max3_f32": Op("f32", _F32_3, lambda a, b, c: largest(largest(a, b), c)),
    "v_med3_f32": Op("f32", _F32_3, _median),
    "v_minimum3_f32": Op("f32", _F32_3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_maximum3_f32": Op("f32", _F32_3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "v_exp_f32": Op("f32", ("f32",), _exp2),
    "v_log_f32": Op("f32", ("f32",), _log2),
    "v_rcp_f32": Op("f32", ("f32",), _reciprocal),
    "v_rcp_iflag_f32": Op("f32", ("f32",), _reciprocal),
    "v_rsq_f32": Op("f32", ("f32",), _reciprocal_root),
    "v_sqrt_f32": Op("f32", ("f32",), np.sqrt),
    "v_sin_f32": Op("f32", ("f32",), _turns(np.sin)),
    "v_cos_f32": Op("f32", ("f32",), _turns(np.cos)),
    "v_floor_f32": Op("f32", ("f32",), np.floor),
    "v_ceil_f32": Op("f32", ("f32",), np.ceil),
    "v_trunc_f32": Op("f32", ("f32",), np.trunc),
    "v_rndne_f32": Op("f32", ("f32",), np.rint),
    "v_fract_f32": Op("f32", ("f32",), _fraction),
    "v_ldexp_f32": Op("f32", ("f32", "i32"), _scale),
    "v_frexp_mant_f32": Op("f32", ("f32",), lambda a: np.frexp(a)[0]),
    "v_frexp_exp_i32_f32": Op("i32", ("f32",), lambda a: np.frexp(a)[1]),
    "v_div_fixup_f32": Op("f32", _F32_3, _division_fixup),
    "v_add_f16": Op("f16", _F16, np.add),
    "v_sub_f16": Op("f16", _F16, np.subtract),
    "v_subrev_f16": Op("f16", _F16, lambda a, b: b - a),
    "v_mul_f16": Op("f16", _F16, np.multiply),
    "v_min_f16": Op("f16", _F16, smallest),
    "v_max_f16": Op("f16", _F16, largest),
    "v_fma_f16": Op("f16", ("f16",) * 3, fused_f16),
    "v_fmac_f16": Op("f16", ("f16",) * 3, fused_f16, accumulates=True),
    "v_min3_f16": Op("f16", ("f16",) * 3, lambda a, b, c: smallest(smallest(a, b), c)),
    "v_max3_f16": Op("f16", ("f16",) * 3, lambda a, b, c: largest(largest(a, b), c)),
    "v_exp_f16": Op("f16", ("f16",), _exp2),
    "v_log_f16": Op("f16", ("f16",), _log2),
    "v_rcp_f16": Op("f16", ("f16",), _reciprocal),
    "v_rsq_f16": Op("f16", ("f16",), _reciprocal_root),
    "v_sqrt_f16": Op("f16", ("f16",), np.sqrt),
    "v_floor_f16": Op("f16", ("f16",), np.floor),
    "v_rndne_f16": Op("f16", ("f16",), np.rint),
    "v_ldexp_f16": Op("f16", ("f16", "i16"), _scale),
    "v_add_f64": Op("f64", _F64, np.add),
    "v_mul_f64": Op("f64", _F64, np.multiply),
    "v_min_f64": Op("f64", _F64, smallest),
    "v_max_f64": Op("f64", _F64, largest),
}
