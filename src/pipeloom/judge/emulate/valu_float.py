"""Single-precision vector operations (rows for ``valu``), and what other precisions share.

Results are IEEE, rounded to nearest even, denormals kept. The transcendental operations (exp, log,
rcp, rsq, sqrt, sin, cos) are exact to the last place here, where hardware allows about 1 ulp. The
first five take denormals for zeros and make none in f32, whatever the mode; in f16 they do. (LLVM:
AMDGPUCodeGenPrepare.cpp of rcp, rsq and sqrt, AMDGPUInstCombineIntrinsic.cpp of exp and log.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.division import division_fixup
from pipeloom.judge.emulate.fused import fused_f32
from pipeloom.judge.emulate.valu import Op

Values = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

_F32 = ("f32", "f32")
_F32_3 = ("f32", "f32", "f32")


def smallest(a: Values, b: Values) -> Values:
    """minNum: a number wins over a NaN."""
    return np.fmin(a, b)


def largest(a: Values, b: Values) -> Values:
    """maxNum: a number wins over a NaN."""
    return np.fmax(a, b)


def median(a: Values, b: Values, c: Values) -> Values:
    return largest(smallest(a, b), smallest(largest(a, b), c))


def exp2(a: Values) -> Values:
    return np.exp2(a.astype(np.float64)).astype(a.dtype)


def log2(a: Values) -> Values:
    return np.log2(a.astype(np.float64)).astype(a.dtype)


def reciprocal(a: Values) -> Values:
    return (1.0 / a.astype(np.float64)).astype(a.dtype)


def reciprocal_root(a: Values) -> Values:
    return (1.0 / np.sqrt(a.astype(np.float64))).astype(a.dtype)


def flushed(function: Any) -> Any:
    """With zeros of the same sign for denormals, taken and made."""
    smallest_normal = np.finfo(np.float32).smallest_normal

    def zeroed(a: Values) -> Values:
        zeros: Values = np.where(np.abs(a) < smallest_normal, np.copysign(a.dtype.type(0), a), a)
        return zeros

    return lambda a: zeroed(function(zeroed(a)))


def turns(function: Any) -> Any:
    """sin and cos take their argument in revolutions."""
    return lambda a: function(a.astype(np.float64) * 2 * np.pi).astype(a.dtype)


def scale_by_power(a: Values, exponent: Values) -> Values:
    scaled: Values = np.ldexp(a, np.clip(exponent, -5000, 5000)).astype(a.dtype)
    return scaled


def fraction_of(a: Values) -> Values:
    part = a - np.floor(a)
    below_one: Values = np.minimum(part, np.nextafter(a.dtype.type(1), a.dtype.type(0)))
    return below_one


def exponent_of(a: Values) -> npt.NDArray[np.int32]:
    """The power of two that brings the mantissa into [0.5, 1); 0 for infinity and NaN."""
    return np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(np.int32)


def _to_i32(a: Values) -> npt.NDArray[np.int32]:
    clean = np.nan_to_num(a.astype(np.float64), nan=0.0)
    return np.clip(clean, -(2**31), 2**31 - 1).astype(np.int32)


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
    "v_med3_f32": Op("f32", _F32_3, median),
    "v_minimum3_f32": Op("f32", _F32_3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_maximum3_f32": Op("f32", _F32_3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "v_exp_f32": Op("f32", ("f32",), flushed(exp2)),
    "v_log_f32": Op("f32", ("f32",), flushed(log2)),
    "v_rcp_f32": Op("f32", ("f32",), flushed(reciprocal)),
    "v_rcp_iflag_f32": Op("f32", ("f32",), flushed(reciprocal)),
    "v_rsq_f32": Op("f32", ("f32",), flushed(reciprocal_root)),
    "v_sqrt_f32": Op("f32", ("f32",), flushed(np.sqrt)),
    "v_sin_f32": Op("f32", ("f32",), turns(np.sin)),
    "v_cos_f32": Op("f32", ("f32",), turns(np.cos)),
    "v_floor_f32": Op("f32", ("f32",), np.floor),
    "v_ceil_f32": Op("f32", ("f32",), np.ceil),
    "v_trunc_f32": Op("f32", ("f32",), np.trunc),
    "v_rndne_f32": Op("f32", ("f32",), np.rint),
    "v_fract_f32": Op("f32", ("f32",), fraction_of),
    "v_ldexp_f32": Op("f32", ("f32", "i32"), scale_by_power),
    "v_frexp_mant_f32": Op("f32", ("f32",), lambda a: np.frexp(a)[0]),
    "v_frexp_exp_i32_f32": Op("i32", ("f32",), exponent_of),
    "v_exp_legacy_f32": Op("f32", ("f32",), exp2),
    "v_log_legacy_f32": Op("f32", ("f32",), log2),
    "v_cvt_rpi_i32_f32": Op("i32", ("f32",), lambda a: _to_i32(np.floor(a + np.float32(0.5)))),
    "v_cvt_flr_i32_f32": Op("i32", ("f32",), lambda a: _to_i32(np.floor(a))),
    "v_div_fixup_f32": Op("f32", _F32_3, division_fixup),
}
