"""Double-precision vector operations (rows for ``valu``).

v_rcp_f64, v_rsq_f64 and v_sqrt_f64 are exact to the last place here; hardware gives about half of
the bits, and compilers refine the result in either case.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.division import division_fixup
from pipeloom.judge.emulate.fused import fused_f64
from pipeloom.judge.emulate.valu import Op
from pipeloom.judge.emulate.valu_convert import to_integer
from pipeloom.judge.emulate.valu_float import (
    exponent_of,
    fraction_of,
    largest,
    reciprocal,
    reciprocal_root,
    scale_by_power,
    smallest,
)

Doubles = npt.NDArray[np.float64]

_ONE = ("f64",)
_TWO = ("f64", "f64")
_THREE = ("f64", "f64", "f64")
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


def _trig_preop(a: Doubles, part: npt.NDArray[np.uint32]) -> Doubles:
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


DOUBLE_OPS: dict[str, Op] = {
    "v_add_f64": Op("f64", _TWO, np.add),
    "v_mul_f64": Op("f64", _TWO, np.multiply),
    "v_min_f64": Op("f64", _TWO, smallest),
    "v_max_f64": Op("f64", _TWO, largest),
    "v_fma_f64": Op("f64", _THREE, fused_f64),
    "v_fmac_f64": Op("f64", _THREE, fused_f64, accumulates=True),
    "v_div_fixup_f64": Op("f64", _THREE, division_fixup),
    "v_rcp_f64": Op("f64", _ONE, reciprocal),
    "v_rsq_f64": Op("f64", _ONE, reciprocal_root),
    "v_sqrt_f64": Op("f64", _ONE, np.sqrt),
    "v_floor_f64": Op("f64", _ONE, np.floor),
    "v_ceil_f64": Op("f64", _ONE, np.ceil),
    "v_trunc_f64": Op("f64", _ONE, np.trunc),
    "v_rndne_f64": Op("f64", _ONE, np.rint),
    "v_fract_f64": Op("f64", _ONE, fraction_of),
    "v_frexp_mant_f64": Op("f64", _ONE, lambda a: np.frexp(a)[0]),
    "v_frexp_exp_i32_f64": Op("i32", _ONE, exponent_of),
    "v_ldexp_f64": Op("f64", ("f64", "i32"), scale_by_power),
    "v_trig_preop_f64": Op("f64", ("f64", "u32"), _trig_preop),
    "v_cvt_i32_f64": Op(
        "i32", _ONE, lambda a: to_integer(a, -0x80000000, 0x7FFFFFFF).astype(np.int32)
    ),
    "v_cvt_u32_f64": Op("u32", _ONE, lambda a: to_integer(a, 0, 0xFFFFFFFF).astype(np.uint32)),
}
