"""Vector operations on half, single and double precision (rows for ``valu``).

Results are IEEE, rounded to nearest even, denormals kept. The transcendental operations (exp, log,
rcp, rsq, sqrt, sin, cos) are exact to the last place here, where hardware allows about 1 ulp, and
of f64 gives about half of the bits, which compilers refine in either case. The
first five take denormals for zeros and make none in f32, whatever the mode; in f16 they do. (LLVM:
AMDGPUCodeGenPrepare.cpp of rcp, rsq and sqrt, AMDGPUInstCombineIntrinsic.cpp of exp and log.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.division import division_fixup
from pipeloom.judge.emulate.fma import fused_f16, fused_f32, fused_f64
from pipeloom.judge.emulate.valu import VecOp

Values = npt.NDArray[Any]
Function = Callable[..., Values]


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


def _three(function: Function) -> Function:
    return lambda a, b, c: function(function(a, b), c)


_EVERY: dict[str, tuple[int, Function]] = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "subrev": (2, lambda a, b: b - a),
    "mul": (2, np.multiply),
    "min": (2, smallest),
    "max": (2, largest),
    "min3": (3, _three(smallest)),
    "max3": (3, _three(largest)),
    "med3": (3, median),
    "div_fixup": (3, division_fixup),
    "exp": (1, exp2),
    "log": (1, log2),
    "rcp": (1, reciprocal),
    "rsq": (1, reciprocal_root),
    "sqrt": (1, np.sqrt),
    "sin": (1, turns(np.sin)),
    "cos": (1, turns(np.cos)),
    "floor": (1, np.floor),
    "ceil": (1, np.ceil),
    "trunc": (1, np.trunc),
    "rndne": (1, np.rint),
    "fract": (1, fraction_of),
    "frexp_mant": (1, lambda a: np.frexp(a)[0]),
}
"""Operations by name, their sources and what they compute; the decoder knows which there are."""
_FLUSHED = ("exp", "log", "rcp", "rsq", "sqrt")
"""Of f32 alone."""


def _precision(kind: str, fused: Function, exponent: str) -> dict[str, VecOp]:
    """The rows of one precision; ``exponent`` is the type of its exponents."""
    found = {
        f"v_{name}_{kind}": VecOp(
            kind,
            (kind,) * count,
            flushed(function) if kind == "f32" and name in _FLUSHED else function,
        )
        for name, (count, function) in _EVERY.items()
    }
    return found | {
        f"v_fma_{kind}": VecOp(kind, (kind,) * 3, fused),
        f"v_fmac_{kind}": VecOp(kind, (kind,) * 3, fused, accumulates=True),
        f"v_ldexp_{kind}": VecOp(kind, (kind, exponent), scale_by_power),
        f"v_frexp_exp_{exponent}_{kind}": VecOp(exponent, (kind,), exponent_of),
    }


FLOAT_OPS: dict[str, VecOp] = {
    **_precision("f16", fused_f16, "i16"),
    **_precision("f32", fused_f32, "i32"),
    **_precision("f64", fused_f64, "i32"),
    "v_fmamk_f32": VecOp("f32", ("f32",) * 3, fused_f32),
    "v_fmaak_f32": VecOp("f32", ("f32",) * 3, fused_f32),
    "v_madmk_f16": VecOp("f16", ("f16",) * 3, fused_f16),
    "v_madak_f16": VecOp("f16", ("f16",) * 3, fused_f16),
    "v_mad_f16": VecOp("f16", ("f16",) * 3, lambda a, b, c: a * b + c),
    "v_mac_f16": VecOp("f16", ("f16",) * 3, lambda a, b, c: a * b + c, accumulates=True),
    "v_mul_legacy_f32": VecOp(
        "f32", ("f32",) * 2, lambda a, b: np.where((a == 0) | (b == 0), 0, a * b)
    ),
    "v_minimum3_f32": VecOp("f32", ("f32",) * 3, _three(np.minimum)),
    "v_maximum3_f32": VecOp("f32", ("f32",) * 3, _three(np.maximum)),
    "v_rcp_iflag_f32": VecOp("f32", ("f32",), flushed(reciprocal)),
    "v_exp_legacy_f32": VecOp("f32", ("f32",), exp2),
    "v_log_legacy_f32": VecOp("f32", ("f32",), log2),
    "v_cvt_rpi_i32_f32": VecOp("i32", ("f32",), lambda a: _to_i32(np.floor(a + np.float32(0.5)))),
    "v_cvt_flr_i32_f32": VecOp("i32", ("f32",), lambda a: _to_i32(np.floor(a))),
}
