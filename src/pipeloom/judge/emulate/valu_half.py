"""Half-precision vector operations (rows for ``valu``)."""

from __future__ import annotations

import numpy as np

from pipeloom.judge.emulate.division import division_fixup
from pipeloom.judge.emulate.fused import fused_f16
from pipeloom.judge.emulate.valu import Op
from pipeloom.judge.emulate.valu_float import (
    exp2,
    exponent_of,
    fraction_of,
    largest,
    log2,
    median,
    reciprocal,
    reciprocal_root,
    scale_by_power,
    smallest,
    turns,
)

_ONE = ("f16",)
_TWO = ("f16", "f16")
_THREE = ("f16", "f16", "f16")

HALF_OPS: dict[str, Op] = {
    "v_add_f16": Op("f16", _TWO, np.add),
    "v_sub_f16": Op("f16", _TWO, np.subtract),
    "v_subrev_f16": Op("f16", _TWO, lambda a, b: b - a),
    "v_mul_f16": Op("f16", _TWO, np.multiply),
    "v_min_f16": Op("f16", _TWO, smallest),
    "v_max_f16": Op("f16", _TWO, largest),
    "v_fma_f16": Op("f16", _THREE, fused_f16),
    "v_fmac_f16": Op("f16", _THREE, fused_f16, accumulates=True),
    "v_mad_f16": Op("f16", _THREE, lambda a, b, c: a * b + c),
    "v_mac_f16": Op("f16", _THREE, lambda a, b, c: a * b + c, accumulates=True),
    "v_min3_f16": Op("f16", _THREE, lambda a, b, c: smallest(smallest(a, b), c)),
    "v_max3_f16": Op("f16", _THREE, lambda a, b, c: largest(largest(a, b), c)),
    "v_med3_f16": Op("f16", _THREE, median),
    "v_div_fixup_f16": Op("f16", _THREE, division_fixup),
    "v_exp_f16": Op("f16", _ONE, exp2),
    "v_log_f16": Op("f16", _ONE, log2),
    "v_rcp_f16": Op("f16", _ONE, reciprocal),
    "v_rsq_f16": Op("f16", _ONE, reciprocal_root),
    "v_sqrt_f16": Op("f16", _ONE, np.sqrt),
    "v_sin_f16": Op("f16", _ONE, turns(np.sin)),
    "v_cos_f16": Op("f16", _ONE, turns(np.cos)),
    "v_floor_f16": Op("f16", _ONE, np.floor),
    "v_ceil_f16": Op("f16", _ONE, np.ceil),
    "v_trunc_f16": Op("f16", _ONE, np.trunc),
    "v_rndne_f16": Op("f16", _ONE, np.rint),
    "v_fract_f16": Op("f16", _ONE, fraction_of),
    "v_frexp_mant_f16": Op("f16", _ONE, lambda a: np.frexp(a)[0]),
    "v_frexp_exp_i16_f16": Op("i16", _ONE, exponent_of),
    "v_ldexp_f16": Op("f16", ("f16", "i16"), scale_by_power),
}
