"""Integer and bitwise vector operations of 16, 32 and 64 bits (rows for ``valu``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pipeloom.array_kinds import Array, Places
from pipeloom.judge.emulate.register_numbers import LANES
from pipeloom.judge.emulate.valu import VecOp, comparing

Function = Callable[..., Array]

_U32 = ("u32", "u32")
_I32 = ("i32", "i32")
_U16 = ("u16", "u16")
_U32_3 = ("u32", "u32", "u32")


def _low(value: Array) -> Array:
    return value.astype(np.uint32)


def _wide(value: Array) -> npt.NDArray[np.uint64]:
    return value.astype(np.uint64)


def _signed_wide(value: Array) -> Places:
    return value.astype(np.int64)


def _low24(value: Array) -> Array:
    return value & 0xFFFFFF


def _signed24(value: npt.NDArray[np.int32]) -> Places:
    return _signed_wide((value << 8) >> 8)


def _extract_unsigned(a: Array, offset: Array, width: Array) -> Array:
    size = width & 31
    mask = _low((np.uint64(1) << _wide(size)) - np.uint64(1))
    field: Array = a >> (offset & 31) & mask
    return field


def _extract_signed(a: Array, offset: Array, width: Array) -> Array:
    size = width & 31
    shift = (32 - size) & 31
    field = _extract_unsigned(a, offset, width)
    extended = ((field << shift).view(np.int32) >> shift.view(np.int32)).view(np.uint32)
    return np.where(size == 0, np.uint32(0), extended)


def _reverse_bits(a: Array) -> Array:
    value = a.copy()
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        value = value >> shift & mask | (value & mask) << shift
    return value >> 16 | value << 16


def _leading_zeros(a: Array) -> Array:
    exponent = np.frexp(a.astype(np.float64))[1]
    return np.where(a == 0, 0xFFFFFFFF, 32 - exponent).astype(np.uint32)


def _trailing_zeros(a: Array) -> Array:
    lowest = a & (~a + np.uint32(1))
    exponent = np.frexp(lowest.astype(np.float64))[1]
    return np.where(a == 0, 0xFFFFFFFF, exponent - 1).astype(np.uint32)


def _leading_sign(a: Array) -> Array:
    folded = np.where(a >> 31 == 1, ~a, a)
    return _leading_zeros(folded)


def permute_bytes(a: Array, b: Array, select: Array) -> Array:
    """v_perm_b32: each selector byte picks one of eight bytes (a above b) or a constant."""
    a, b, select = np.broadcast_arrays(a, b, select)
    pool = np.empty((a.size, 13), np.uint32)
    for i in range(4):
        pool[:, i] = b >> (8 * i) & 0xFF
        pool[:, 4 + i] = a >> (8 * i) & 0xFF
    for i, source in enumerate((1, 3, 5, 7)):
        pool[:, 8 + i] = np.where(pool[:, source] & 0x80, 0xFF, 0)
    pool[:, 12] = 0
    rows = np.arange(a.size)
    result = np.zeros(a.size, np.uint32)
    for i in range(4):
        choice = select >> (8 * i) & 0xFF
        byte = np.where(choice >= 13, 0xFF, pool[rows, np.minimum(choice, 12)])
        result |= (byte << (8 * i)).astype(np.uint32)
    return result


def _align(a: Array, b: Array, shift: Array) -> Array:
    return _low((_wide(a) << np.uint64(32) | _wide(b)) >> _wide(shift))


def _bit_count(a: Array, b: Array) -> Array:
    return _low(np.bitwise_count(a)) + b


def _count_below(first: int) -> Function:
    """v_mbcnt: bits of a mask, which stands for lanes from ``first`` on, below each lane."""
    below = np.clip(np.arange(LANES) - first, 0, 32).astype(np.uint64)
    window = _low((np.uint64(1) << below) - np.uint64(1))
    return lambda mask, base: _bit_count(mask & window, base)


def _bytes_of(value: Array) -> Places:
    """The four bytes of each lane, in rows."""
    return np.stack([(value >> (8 * i) & 0xFF).astype(np.int64) for i in range(4)])


def _byte_distance(a: Array, b: Array) -> Array:
    return _low(np.abs(_bytes_of(a) - _bytes_of(b)).sum(axis=0))


def _masked_distance(a: Array, b: Array, c: Array) -> Array:
    """v_msad_u8: bytes where the reference b is zero do not count."""
    wanted = _bytes_of(b) != 0
    return _low((np.abs(_bytes_of(a) - _bytes_of(b)) * wanted).sum(axis=0)) + c


def _mean_bytes(a: Array, b: Array, c: Array) -> Array:
    """v_lerp_u8: averages of bytes, rounding up where the low bit of c's byte is set."""
    mean = _bytes_of(a) + _bytes_of(b) + (_bytes_of(c) & 1) >> 1
    return _low(sum(mean[i] << (8 * i) for i in range(4)))


def _shift_pack(a: Array, b: Array, shift: Array, low: int, high: int) -> Array:
    """v_ashr_pk: two shifted values, saturated to bytes."""
    amount = (shift & 31).astype(np.int64)
    first, second = (np.clip(_signed_wide(x) >> amount, low, high) & 0xFF for x in (a, b))
    packed: Array = (first | second << 8).astype(np.uint16)
    return packed


def saturating(function: Function) -> Function:
    """The function on exact integers, clipped to the range of its arguments' type."""

    def run(*values: Array) -> Array:
        info = np.iinfo(values[0].dtype)
        exact = function(*[_signed_wide(value) for value in values])
        clipped: Array = np.clip(exact, info.min, info.max).astype(values[0].dtype)
        return clipped

    return run


def _unsigned_byte(a: Array) -> Places:
    return np.clip(a.astype(np.uint16).view(np.int16).astype(np.int64), 0, 255)


_CLAMPED: dict[str, tuple[str, int, Function]] = {
    "add": ("u16 i16 u32 i32", 2, np.add),
    "sub": ("u16 i16 u32 i32", 2, np.subtract),
    "subrev": ("u16 u32", 2, lambda a, b: b - a),
    "mad": ("u16 i16", 3, lambda a, b, c: a * b + c),
}
"""Operations that the clamp bit saturates: of which types, their sources and what they compute."""
INTEGER_OPS: dict[str, VecOp] = {
    **{
        f"v_{name}_{kind}": VecOp(kind, (kind,) * count, function)
        for kind in ("u32", "i32", "u16", "i16")
        for name, (count, function) in comparing(np.minimum, np.maximum).items()
    },
    **{
        f"v_{name}_{kind}": VecOp(kind, (kind,) * count, function, saturated=saturating(function))
        for name, (kinds, count, function) in _CLAMPED.items()
        for kind in kinds.split()
    },
    "v_mov_b32": VecOp("u32", ("u32",), lambda a: a, copies=True),
    "v_mov_b64": VecOp("u64", ("u64",), lambda a: a, copies=True),
    "v_not_b32": VecOp("u32", ("u32",), np.invert),
    "v_bfrev_b32": VecOp("u32", ("u32",), _reverse_bits),
    "v_ffbh_u32": VecOp("u32", ("u32",), _leading_zeros),
    "v_ffbl_b32": VecOp("u32", ("u32",), _trailing_zeros),
    "v_ffbh_i32": VecOp("u32", ("u32",), _leading_sign),
    "v_and_b32": VecOp("u32", _U32, np.bitwise_and, moves_bits=True),
    "v_or_b32": VecOp("u32", _U32, np.bitwise_or, moves_bits=True),
    "v_xor_b32": VecOp("u32", _U32, np.bitwise_xor),
    "v_xnor_b32": VecOp("u32", _U32, lambda a, b: ~(a ^ b)),
    "v_mul_lo_u16": VecOp("u16", _U16, np.multiply),
    "v_lshlrev_b16": VecOp("u16", _U16, lambda a, b: b << (a & 15)),
    "v_lshrrev_b16": VecOp("u16", _U16, lambda a, b: b >> (a & 15)),
    "v_ashrrev_i16": VecOp("i16", ("i16", "i16"), lambda a, b: b >> (a & 15)),
    "v_sat_pk_u8_i16": VecOp(
        "u16",
        ("u32",),
        lambda a: (_unsigned_byte(a) | _unsigned_byte(a >> 16) << 8).astype(np.uint16),
    ),
    "v_lshlrev_b32": VecOp("u32", _U32, lambda a, b: b << (a & 31), moves_bits=True),
    "v_lshrrev_b32": VecOp("u32", _U32, lambda a, b: b >> (a & 31), moves_bits=True),
    "v_ashrrev_i32": VecOp("i32", _I32, lambda a, b: b >> (a & 31)),
    "v_mul_u32_u24": VecOp("u32", _U32, lambda a, b: _low24(a) * _low24(b)),
    "v_mul_hi_u32_u24": VecOp(
        "u32", _U32, lambda a, b: _low(_wide(_low24(a)) * _wide(_low24(b)) >> np.uint64(32))
    ),
    "v_mul_i32_i24": VecOp("u32", _I32, lambda a, b: _low(_signed24(a) * _signed24(b))),
    "v_mul_hi_i32_i24": VecOp("u32", _I32, lambda a, b: _low(_signed24(a) * _signed24(b) >> 32)),
    "v_mul_lo_u32": VecOp("u32", _U32, np.multiply),
    "v_mul_hi_u32": VecOp("u32", _U32, lambda a, b: _low(_wide(a) * _wide(b) >> np.uint64(32))),
    "v_mul_hi_i32": VecOp("u32", _I32, lambda a, b: _low(_signed_wide(a) * _signed_wide(b) >> 32)),
    "v_mad_u32_u24": VecOp("u32", _U32_3, lambda a, b, c: _low24(a) * _low24(b) + c),
    "v_mad_i32_i24": VecOp(
        "u32", ("i32",) * 3, lambda a, b, c: _low(_signed24(a) * _signed24(b) + c)
    ),
    "v_bfe_u32": VecOp("u32", _U32_3, _extract_unsigned, moves_bits=True),
    "v_bfe_i32": VecOp("u32", _U32_3, _extract_signed),
    "v_bfi_b32": VecOp("u32", _U32_3, lambda a, b, c: a & b | ~a & c, moves_bits=True),
    "v_bfm_b32": VecOp("u32", _U32, lambda a, b: (np.uint32(1) << (a & 31)) - 1 << (b & 31)),
    "v_alignbit_b32": VecOp("u32", _U32_3, lambda a, b, c: _align(a, b, c & 31), moves_bits=True),
    "v_alignbyte_b32": VecOp(
        "u32", _U32_3, lambda a, b, c: _align(a, b, (c & 3) * 8), moves_bits=True
    ),
    "v_perm_b32": VecOp("u32", _U32_3, permute_bytes, moves_bits=True),
    "v_lshl_add_u32": VecOp("u32", _U32_3, lambda a, b, c: (a << (b & 31)) + c),
    "v_add_lshl_u32": VecOp("u32", _U32_3, lambda a, b, c: (a + b) << (c & 31)),
    "v_add3_u32": VecOp("u32", _U32_3, lambda a, b, c: a + b + c),
    "v_lshl_or_b32": VecOp("u32", _U32_3, lambda a, b, c: a << (b & 31) | c, moves_bits=True),
    "v_and_or_b32": VecOp("u32", _U32_3, lambda a, b, c: a & b | c, moves_bits=True),
    "v_or3_b32": VecOp("u32", _U32_3, lambda a, b, c: a | b | c, moves_bits=True),
    "v_xad_u32": VecOp("u32", _U32_3, lambda a, b, c: (a ^ b) + c),
    "v_sad_u32": VecOp("u32", _U32_3, lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c),
    "v_sad_u8": VecOp("u32", _U32_3, lambda a, b, c: _byte_distance(a, b) + c),
    "v_sad_hi_u8": VecOp("u32", _U32_3, lambda a, b, c: (_byte_distance(a, b) << 16) + c),
    "v_msad_u8": VecOp("u32", _U32_3, _masked_distance),
    "v_lerp_u8": VecOp("u32", _U32_3, _mean_bytes),
    "v_ashr_pk_i8_i32": VecOp(
        "u16",
        ("i32", "i32", "u32"),
        lambda a, b, c: _shift_pack(a, b, c, -128, 127),
    ),
    "v_ashr_pk_u8_i32": VecOp(
        "u16",
        ("i32", "i32", "u32"),
        lambda a, b, c: _shift_pack(a, b, c, 0, 255),
    ),
    "v_bcnt_u32_b32": VecOp("u32", _U32, _bit_count),
    "v_mbcnt_lo_u32_b32": VecOp("u32", _U32, _count_below(0)),
    "v_mbcnt_hi_u32_b32": VecOp("u32", _U32, _count_below(32)),
    "v_lshlrev_b64": VecOp("u64", ("u32", "u64"), lambda a, b: b << _wide(a & 63)),
    "v_lshrrev_b64": VecOp("u64", ("u32", "u64"), lambda a, b: b >> _wide(a & 63)),
    "v_ashrrev_i64": VecOp("i64", ("u32", "i64"), lambda a, b: b >> _signed_wide(a & 63)),
    "v_lshl_add_u64": VecOp("u64", ("u64", "u32", "u64"), lambda a, b, c: (a << _wide(b & 7)) + c),
    "v_mad_i32_i16": VecOp(
        "i32", ("i16", "i16", "i32"), lambda a, b, c: a.astype(np.int32) * b.astype(np.int32) + c
    ),
    "v_mad_u32_u16": VecOp("u32", ("u16", "u16", "u32"), lambda a, b, c: _low(a) * _low(b) + c),
    "v_cvt_pk_u16_u32": VecOp(
        "u32", _U32, lambda a, b: np.minimum(a, 0xFFFF) | np.minimum(b, 0xFFFF) << 16
    ),
    "v_cvt_pk_i16_i32": VecOp(
        "u32",
        _I32,
        lambda a, b: (
            _low(np.clip(_signed_wide(a), -32768, 32767) & 0xFFFF)
            | _low(np.clip(_signed_wide(b), -32768, 32767) & 0xFFFF) << 16
        ),
    ),
    "v_pack_b32_f16": VecOp("u32", _U16, lambda a, b: _low(a) | _low(b) << 16, moves_bits=True),
}
