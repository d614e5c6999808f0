"""Scalar ALU: what each operation computes, as tables of functions on ints.

A row has operand widths in words and a function that returns the result and the new SCC, or None
where SCC is kept. ``salu`` turns rows into steps.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeloom.judge.emulate.register_numbers import WORD

LONG = 0xFFFFFFFFFFFFFFFF
Binary = Callable[[int, int], tuple[int, int | None]]


def signed(value: int, bits: int = 32) -> int:
    """Two's complement value of ``bits`` bits."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _add(a: int, b: int) -> tuple[int, int]:
    total = a + b
    return total & WORD, total >> 32


def _sub(a: int, b: int) -> tuple[int, int]:
    return (a - b) & WORD, int(b > a)


def _add_signed(a: int, b: int) -> tuple[int, int]:
    total = signed(a) + signed(b)
    return total & WORD, int(total != signed(total & WORD))


def _sub_signed(a: int, b: int) -> tuple[int, int]:
    total = signed(a) - signed(b)
    return total & WORD, int(total != signed(total & WORD))


def _logic(function: Callable[[int, int], int], mask: int) -> Binary:
    def run(a: int, b: int) -> tuple[int, int]:
        value = function(a, b) & mask
        return value, int(value != 0)

    return run


def _shift_add(shift: int) -> Binary:
    def run(a: int, b: int) -> tuple[int, int]:
        total = (a << shift) + b
        return total & WORD, int(total > WORD)

    return run


def _field(a: int, b: int, bits: int, *, sign: bool) -> tuple[int, int]:
    offset, width = b & (bits - 1), b >> 16 & 0x7F
    value = (signed(a, bits) if sign else a) >> offset & ((1 << width) - 1)
    if sign and width and value >> (width - 1) & 1:
        value -= 1 << width
    value &= (1 << bits) - 1
    return value, int(value != 0)


def _pick(choose_second: bool, a: int, b: int) -> tuple[int, int]:
    return (b if choose_second else a), int(choose_second is False)


# name: (words of source 0, words of source 1, words of destination, function)
SOP2: dict[str, tuple[int, int, int, Binary]] = {
    "s_add_u32": (1, 1, 1, _add),
    "s_sub_u32": (1, 1, 1, _sub),
    "s_add_i32": (1, 1, 1, _add_signed),
    "s_sub_i32": (1, 1, 1, _sub_signed),
    "s_min_i32": (1, 1, 1, lambda a, b: _pick(signed(b) <= signed(a), a, b)),
    "s_min_u32": (1, 1, 1, lambda a, b: _pick(b <= a, a, b)),
    "s_max_i32": (1, 1, 1, lambda a, b: _pick(signed(b) >= signed(a), a, b)),
    "s_max_u32": (1, 1, 1, lambda a, b: _pick(b >= a, a, b)),
    "s_lshl_b32": (1, 1, 1, _logic(lambda a, b: a << (b & 31), WORD)),
    "s_lshr_b32": (1, 1, 1, _logic(lambda a, b: a >> (b & 31), WORD)),
    "s_ashr_i32": (1, 1, 1, _logic(lambda a, b: signed(a) >> (b & 31), WORD)),
    "s_lshl_b64": (2, 1, 2, _logic(lambda a, b: a << (b & 63), LONG)),
    "s_lshr_b64": (2, 1, 2, _logic(lambda a, b: a >> (b & 63), LONG)),
    "s_ashr_i64": (2, 1, 2, _logic(lambda a, b: signed(a, 64) >> (b & 63), LONG)),
    "s_bfm_b32": (1, 1, 1, lambda a, b: ((((1 << (a & 31)) - 1) << (b & 31)) & WORD, None)),
    "s_bfm_b64": (1, 1, 2, lambda a, b: ((((1 << (a & 63)) - 1) << (b & 63)) & LONG, None)),
    "s_mul_i32": (1, 1, 1, lambda a, b: (a * b & WORD, None)),
    "s_mul_hi_u32": (1, 1, 1, lambda a, b: (a * b >> 32, None)),
    "s_mul_hi_i32": (1, 1, 1, lambda a, b: (signed(a) * signed(b) >> 32 & WORD, None)),
    "s_bfe_u32": (1, 1, 1, lambda a, b: _field(a, b, 32, sign=False)),
    "s_bfe_i32": (1, 1, 1, lambda a, b: _field(a, b, 32, sign=True)),
    "s_bfe_u64": (2, 1, 2, lambda a, b: _field(a, b, 64, sign=False)),
    "s_bfe_i64": (2, 1, 2, lambda a, b: _field(a, b, 64, sign=True)),
    "s_absdiff_i32": (1, 1, 1, _logic(lambda a, b: abs(signed(a) - signed(b)), WORD)),
    "s_lshl1_add_u32": (1, 1, 1, _shift_add(1)),
    "s_lshl2_add_u32": (1, 1, 1, _shift_add(2)),
    "s_lshl3_add_u32": (1, 1, 1, _shift_add(3)),
    "s_lshl4_add_u32": (1, 1, 1, _shift_add(4)),
    "s_pack_ll_b32_b16": (1, 1, 1, lambda a, b: (a & 0xFFFF | (b & 0xFFFF) << 16, None)),
    "s_pack_lh_b32_b16": (1, 1, 1, lambda a, b: (a & 0xFFFF | b & 0xFFFF0000, None)),
    "s_pack_hh_b32_b16": (1, 1, 1, lambda a, b: (a >> 16 | b & 0xFFFF0000, None)),
}
BITWISE: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
for _name, _function in BITWISE.items():
    SOP2[f"s_{_name}_b32"] = (1, 1, 1, _logic(_function, WORD))
    SOP2[f"s_{_name}_b64"] = (2, 2, 2, _logic(_function, LONG))


def _reverse(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def _first_set(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else WORD


def _leading(value: int, bits: int) -> int:
    return bits - value.bit_length() if value else WORD


def _leading_sign(value: int, bits: int) -> int:
    flipped = value ^ ((1 << bits) - 1) if value >> (bits - 1) & 1 else value
    return bits - flipped.bit_length() if flipped else WORD


def _quads(value: int, bits: int, width: int) -> int:
    """One field of ``width`` ones for each group of four bits that is not zero."""
    ones = (1 << width) - 1
    groups = range(bits // 4)
    return sum(ones << (width * i) for i in groups if value >> (4 * i) & 15)


def _twice(value: int) -> int:
    """Every bit doubled."""
    return sum(3 << (2 * i) for i in range(32) if value >> i & 1)


def _nonzero(value: int) -> tuple[int, int]:
    return value, int(value != 0)


# name: (words of source, words of destination, function)
SOP1: dict[str, tuple[int, int, Callable[[int], tuple[int, int | None]]]] = {
    "s_not_b32": (1, 1, lambda a: _nonzero(~a & WORD)),
    "s_not_b64": (2, 2, lambda a: _nonzero(~a & LONG)),
    "s_brev_b32": (1, 1, lambda a: (_reverse(a, 32), None)),
    "s_brev_b64": (2, 2, lambda a: (_reverse(a, 64), None)),
    "s_bcnt0_i32_b32": (1, 1, lambda a: _nonzero(32 - a.bit_count())),
    "s_bcnt0_i32_b64": (2, 1, lambda a: _nonzero(64 - a.bit_count())),
    "s_bcnt1_i32_b32": (1, 1, lambda a: _nonzero(a.bit_count())),
    "s_bcnt1_i32_b64": (2, 1, lambda a: _nonzero(a.bit_count())),
    "s_ff0_i32_b32": (1, 1, lambda a: (_first_set(~a & WORD), None)),
    "s_ff0_i32_b64": (2, 1, lambda a: (_first_set(~a & LONG), None)),
    "s_ff1_i32_b32": (1, 1, lambda a: (_first_set(a), None)),
    "s_ff1_i32_b64": (2, 1, lambda a: (_first_set(a), None)),
    "s_flbit_i32_b32": (1, 1, lambda a: (_leading(a, 32), None)),
    "s_flbit_i32_b64": (2, 1, lambda a: (_leading(a, 64), None)),
    "s_flbit_i32": (1, 1, lambda a: (_leading_sign(a, 32), None)),
    "s_flbit_i32_i64": (2, 1, lambda a: (_leading_sign(a, 64), None)),
    "s_sext_i32_i8": (1, 1, lambda a: (signed(a & 0xFF, 8) & WORD, None)),
    "s_sext_i32_i16": (1, 1, lambda a: (signed(a & 0xFFFF, 16) & WORD, None)),
    "s_abs_i32": (1, 1, lambda a: _nonzero(abs(signed(a)) & WORD)),
    "s_quadmask_b32": (1, 1, lambda a: _nonzero(_quads(a, 32, 1))),
    "s_quadmask_b64": (2, 2, lambda a: _nonzero(_quads(a, 64, 1))),
    "s_wqm_b32": (1, 1, lambda a: _nonzero(_quads(a, 32, 4))),
    "s_wqm_b64": (2, 2, lambda a: _nonzero(_quads(a, 64, 4))),
    "s_bitreplicate_b64_b32": (1, 2, lambda a: (_twice(a), None)),
    "s_mov_b32": (1, 1, lambda a: (a, None)),
    "s_mov_b64": (2, 2, lambda a: (a, None)),
}

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
