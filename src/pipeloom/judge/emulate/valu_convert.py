"""Conversions between number formats (rows for ``valu``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pipeloom.array_kinds import Array, Places
from pipeloom.judge.emulate.formats import (
    bf16_to_f32,
    encode_float,
    f32_to_bf16,
    float_table,
    fp8_names,
)
from pipeloom.judge.emulate.valu import VecOp
from pipeloom.judge.emulate.vector_values import DTYPES

_F32 = ("f32", "f32")


def to_integer(values: Array, low: int, high: int) -> Places:
    """Truncate towards zero and saturate; NaN gives 0."""
    clean = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=high, neginf=low)
    return np.clip(np.trunc(clean), low, high).astype(np.int64)


def _pack(low: Array, high: Array) -> Array:
    return low.astype(np.uint32) | high.astype(np.uint32) << 16


def _half_bits(values: Array) -> npt.NDArray[np.uint16]:
    return values.astype(np.float16).view(np.uint16)


def _toward_zero(values: Array) -> npt.NDArray[np.uint16]:
    """float32 to half-precision bits, rounding towards zero."""
    nearest = values.astype(np.float16)
    over = np.abs(nearest.astype(np.float32)) > np.abs(values)
    bits = nearest.view(np.uint16)
    return np.where(over & np.isfinite(values), bits - 1, bits).astype(np.uint16)


def _pack_byte(value: Array, place: Array, old: Array) -> Array:
    """A float to the byte of ``old`` that ``place`` names, rounded to nearest even, saturated."""
    byte = to_integer(np.rint(value), 0, 255).astype(np.uint32)
    shift = (place & 3) * 8
    packed: Array = old & ~(np.uint32(0xFF) << shift) | byte << shift
    return packed


def _byte_to_float(index: int) -> VecOp:
    return VecOp("f32", ("u32",), lambda a: (a >> (8 * index) & 0xFF).astype(np.float32))


def _cast(to: str) -> Callable[[Array], Array]:
    return lambda a: a.astype(DTYPES[to])


def _whole(to: str) -> Callable[[Array], Array]:
    limits = np.iinfo(np.dtype(DTYPES[to]))
    return lambda a: to_integer(a, limits.min, limits.max).astype(DTYPES[to])


_CASTS = (
    *(("f32", of) for of in ("u32", "i32", "f16", "f64")),
    *(("f16", of) for of in ("u16", "i16", "f32")),
    *(("f64", of) for of in ("u32", "i32", "f32")),
)
_WHOLES = (
    *((to, of) for to in ("u32", "i32") for of in ("f32", "f64")),
    ("u16", "f16"),
    ("i16", "f16"),
)
CONVERT_OPS: dict[str, VecOp] = {
    **{f"v_cvt_{to}_{of}": VecOp(to, (of,), _cast(to)) for to, of in _CASTS},
    **{f"v_cvt_{to}_{of}": VecOp(to, (of,), _whole(to)) for to, of in _WHOLES},
    "v_cvt_f32_bf16": VecOp("f32", ("u16",), bf16_to_f32),
    "v_cvt_pk_f16_f32": VecOp("u32", _F32, lambda a, b: _pack(_half_bits(a), _half_bits(b))),
    "v_cvt_pk_bf16_f32": VecOp("u32", _F32, lambda a, b: _pack(f32_to_bf16(a), f32_to_bf16(b))),
    "v_cvt_pkrtz_f16_f32": VecOp("u32", _F32, lambda a, b: _pack(_toward_zero(a), _toward_zero(b))),
    # Rounds as MODE says, which is to nearest even here (GCN3 ISA, "V_CVT_PK_U8_F32").
    "v_cvt_pk_u8_f32": VecOp("u32", ("f32", "u32", "u32"), _pack_byte),
    "v_cvt_f32_ubyte0": _byte_to_float(0),
    "v_cvt_f32_ubyte1": _byte_to_float(1),
    "v_cvt_f32_ubyte2": _byte_to_float(2),
    "v_cvt_f32_ubyte3": _byte_to_float(3),
}


def float8_ops(arch: str) -> dict[str, VecOp]:
    """The fp8 and bf8 conversions; their encoding depends on the target."""
    fp8, bf8 = fp8_names(arch)
    ops: dict[str, VecOp] = {}
    for suffix, name in (("fp8", fp8), ("bf8", bf8)):

        def pack(a: Array, b: Array, name: str = name) -> npt.NDArray[np.uint16]:
            low, high = encode_float(a, name), encode_float(b, name)
            return (low.astype(np.uint32) | high.astype(np.uint32) << 8).astype(np.uint16)

        def widen(a: Array, name: str = name) -> npt.NDArray[np.float32]:
            return float_table(name).take(a & 0xFF)

        def widen_pair(a: npt.NDArray[np.uint16], name: str = name) -> npt.NDArray[np.uint64]:
            table = float_table(name)
            pair = np.stack([table[a & 0xFF], table[a >> 8]], axis=1)
            return np.ascontiguousarray(pair).view(np.uint64)[:, 0]

        ops[f"v_cvt_pk_{suffix}_f32"] = VecOp("u16", _F32, pack, keeps_half=True)
        ops[f"v_cvt_f32_{suffix}"] = VecOp("f32", ("u32",), widen)
        ops[f"v_cvt_pk_f32_{suffix}"] = VecOp("u64", ("u16",), widen_pair)
    return ops
