"""Vector operations on half, single and double precision (rows for ``valu``).

Results are IEEE, rounded to nearest even, denormals kept. The transcendental operations (exp, log,
rcp, rsq, sqrt, sin, cos) are exact to the last place here, where hardware allows about 1 ulp, and
of f64 gives about half of the bits, which compilers refine in either case. The
first five take denormals for zeros and make none in f32, whatever the mode; in f16 they do. (LLVM:
AMDGPUCodeGenPrepare.cpp of rcp, rsq and sqrt, AMDGPUInstCombineIntrinsic.cpp of exp and log.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.array_kinds import Array, Words
from pipeloom.judge.emulate.division import division_fixup, fused_f16, fused_f32, fused_f64
from pipeloom.judge.emulate.valu import VecOp, comparing, in_turn

Function = Callable[..., Array]


def exp2(a: Array) -> Array:
    return np.exp2(a.astype(np.float64)).astype(a.dtype)


def log2(a: Array) -> Array:
    return np.log2(a.astype(np.float64)).astype(a.dtype)


def reciprocal(a: Array) -> Array:
    return (1.0 / a.astype(np.float64)).astype(a.dtype)


def reciprocal_root(a: Array) -> Array:
    return (1.0 / np.sqrt(a.astype(np.float64))).astype(a.dtype)


def flushed(function: Any) -> Any:
    """With zeros of the same sign for denormals, taken and made."""
    smallest_normal = np.finfo(np.float32).smallest_normal

    def zeroed(a: Array) -> Array:
        zeros: Array = np.where(np.abs(a) < smallest_normal, np.copysign(a.dtype.type(0), a), a)
        return zeros

    return lambda a: zeroed(function(zeroed(a)))


def turns(function: Any) -> Any:
    """sin and cos take their argument in revolutions."""
    return lambda a: function(a.astype(np.float64) * 2 * np.pi).astype(a.dtype)


def scale_by_power(a: Array, exponent: Array) -> Array:
    scaled: Array = np.ldexp(a, np.clip(exponent, -5000, 5000)).astype(a.dtype)
    return scaled


def fraction_of(a: Array) -> Array:
    part = a - np.floor(a)
    below_one: Array = np.minimum(part, np.nextafter(a.dtype.type(1), a.dtype.type(0)))
    return below_one


def exponent_of(a: Array) -> npt.NDArray[np.int32]:
    """The power of two that brings the mantissa into [0.5, 1); 0 for infinity and NaN."""
    return np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(np.int32)


def _to_i32(a: Array) -> npt.NDArray[np.int32]:
    clean = np.nan_to_num(a.astype(np.float64), nan=0.0)
    return np.clip(clean, -(2**31), 2**31 - 1).astype(np.int32)


_PI_BITS = 1201


@lru_cache(maxsize=1)
def _two_over_pi() -> int:
    """The first 1201 fraction bits of 2/pi, by Machin's formula in integers."""
    scale = 1 << (_PI_BITS + 64)

    def arctan_inverse(x: int) -> int:
        term = scale // x
        total, n, sign = term, 3, -1
        while term:
            term //= x * x
            total += sign * (term // n)
            n, sign = n + 2, -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return ((2 * scale) << _PI_BITS) // pi


def _trig_preop(a: npt.NDArray[np.float64], part: Words) -> npt.NDArray[np.float64]:
    """v_trig_preop_f64: 53 bits of 2/pi, chosen by the argument's size (for range reduction)."""
    bits = np.ascontiguousarray(a).view(np.uint64)
    exponents = (bits >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)
    exponents, parts = np.broadcast_arrays(exponents, part)
    result = []
    for exponent, chunk in zip(exponents.tolist(), parts.tolist(), strict=True):
        shift = (chunk & 31) * 53 + max(exponent - 1077, 0)
        whole = (_two_over_pi() << shift) >> (_PI_BITS - 53) & ((1 << 53) - 1)
        power = -53 - shift + (128 if exponent >= 1968 else 0)
        result.append(float(np.ldexp(float(whole), power)))
    return np.array(result)


_EVERY: dict[str, tuple[int, Function]] = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "subrev": (2, lambda a, b: b - a),
    "mul": (2, np.multiply),
    **comparing(np.fmin, np.fmax),
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
"""Operations by name, their sources and what they compute; the decoder knows which there are.

Of the smaller and the larger (minNum, maxNum) a number wins over a NaN.
"""
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
    "v_trig_preop_f64": VecOp("f64", ("f64", "u32"), _trig_preop),
    "v_fmamk_f32": VecOp("f32", ("f32",) * 3, fused_f32),
    "v_fmaak_f32": VecOp("f32", ("f32",) * 3, fused_f32),
    "v_madmk_f16": VecOp("f16", ("f16",) * 3, fused_f16),
    "v_madak_f16": VecOp("f16", ("f16",) * 3, fused_f16),
    "v_mad_f16": VecOp("f16", ("f16",) * 3, lambda a, b, c: a * b + c),
    "v_mac_f16": VecOp("f16", ("f16",) * 3, lambda a, b, c: a * b + c, accumulates=True),
    "v_mul_legacy_f32": VecOp(
        "f32", ("f32",) * 2, lambda a, b: np.where((a == 0) | (b == 0), 0, a * b)
    ),
    "v_minimum3_f32": VecOp("f32", ("f32",) * 3, in_turn(np.minimum)),
    "v_maximum3_f32": VecOp("f32", ("f32",) * 3, in_turn(np.maximum)),
    "v_rcp_iflag_f32": VecOp("f32", ("f32",), flushed(reciprocal)),
    "v_exp_legacy_f32": VecOp("f32", ("f32",), exp2),
    "v_log_legacy_f32": VecOp("f32", ("f32",), log2),
    "v_cvt_rpi_i32_f32": VecOp("i32", ("f32",), lambda a: _to_i32(np.floor(a + np.float32(0.5)))),
    "v_cvt_flr_i32_f32": VecOp("i32", ("f32",), lambda a: _to_i32(np.floor(a))),
}
