"""Packed math (VOP3P): two halves, or two f32, per instruction; also the AGPR transfers.

op_sel picks, per source, which half feeds the low result, op_sel_hi which feeds the high one. For
the f32 forms the halves are the two registers of a pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.fma import fused_f16, fused_f32
from pipeloom.judge.emulate.operands import (
    all_source_bits,
    constant,
    source_bits,
    unsupported,
    word_reader,
)
from pipeloom.judge.emulate.register_numbers import AGPR, VGPR, register_bits
from pipeloom.judge.emulate.screening import screen_copy
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.valu import source_codes
from pipeloom.judge.emulate.valu_float import largest, smallest
from pipeloom.judge.emulate.valu_short import saturating
from pipeloom.judge.emulate.wave import Wave

Values = npt.NDArray[Any]
HalfReader = Callable[[Wave], Values]

_HALVES: dict[str, tuple[type[np.generic], int, Callable[..., Values]]] = {
    "v_pk_add_f16": (np.float16, 2, np.add),
    "v_pk_mul_f16": (np.float16, 2, np.multiply),
    "v_pk_fma_f16": (np.float16, 3, fused_f16),
    "v_pk_min_f16": (np.float16, 2, smallest),
    "v_pk_max_f16": (np.float16, 2, largest),
    "v_pk_minimum3_f16": (np.float16, 3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_pk_maximum3_f16": (np.float16, 3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "v_pk_add_u16": (np.uint16, 2, np.add),
    "v_pk_sub_u16": (np.uint16, 2, np.subtract),
    "v_pk_add_i16": (np.int16, 2, np.add),
    "v_pk_sub_i16": (np.int16, 2, np.subtract),
    "v_pk_mul_lo_u16": (np.uint16, 2, np.multiply),
    "v_pk_mad_u16": (np.uint16, 3, lambda a, b, c: a * b + c),
    "v_pk_mad_i16": (np.int16, 3, lambda a, b, c: a * b + c),
    "v_pk_lshlrev_b16": (np.uint16, 2, lambda a, b: b << (a & 15)),
    "v_pk_lshrrev_b16": (np.uint16, 2, lambda a, b: b >> (a & 15)),
    "v_pk_ashrrev_i16": (np.int16, 2, lambda a, b: b >> (a & 15)),
    "v_pk_min_u16": (np.uint16, 2, np.minimum),
    "v_pk_max_u16": (np.uint16, 2, np.maximum),
    "v_pk_min_i16": (np.int16, 2, np.minimum),
    "v_pk_max_i16": (np.int16, 2, np.maximum),
}
_PAIRS: dict[str, tuple[int, Callable[..., Values]]] = {
    "v_pk_add_f32": (2, np.add),
    "v_pk_mul_f32": (2, np.multiply),
    "v_pk_fma_f32": (3, fused_f32),
    "v_pk_mov_b32": (2, np.add),
}


def build(instruction: Decoded) -> MicroOp | None:
    """The step of a packed instruction or AGPR transfer, or None."""
    name = instruction.name
    if name in ("v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"):
        return _transfer(instruction)
    if instruction.encoding != "VOP3P" or instruction.variant == "MFMA":
        return None
    if name in _HALVES:
        return _halves(instruction, *_HALVES[name])
    if name in _PAIRS:
        return _pairs(instruction, *_PAIRS[name])
    if name.startswith("v_mad_mix"):
        return _mixed(instruction)
    return None


def _transfer(instruction: Decoded) -> MicroOp:
    name, target = instruction.name, instruction.fields["vdst"]
    source = source_codes(instruction)[0]
    from_accumulator = name != "v_accvgpr_write_b32"
    to_accumulator = name != "v_accvgpr_read_b32"
    if from_accumulator and source >= VGPR:
        source += AGPR - VGPR
    read = word_reader(source, "u32", instruction)
    row = target + (AGPR - VGPR if to_accumulator else 0)
    return MicroOp(
        instruction,
        lambda wave: wave.write_vector(row, read(wave)),
        source_bits(source),
        1 << (row + VGPR),
        screen_copy,
    )


def _selects(instruction: Decoded, position: int) -> tuple[bool, bool]:
    """(op_sel, op_sel_hi) of a source."""
    fields = instruction.fields
    low = bool(fields["opsel"] >> position & 1)
    if position == 2:
        return low, bool(fields["opsel_hi2"])
    return low, bool(fields["opsel_hi"] >> position & 1)


def _negations(instruction: Decoded, position: int) -> tuple[bool, bool]:
    fields = instruction.fields
    return bool(fields["neg"] >> position & 1), bool(fields["neg_hi"] >> position & 1)


def _halves(
    instruction: Decoded,
    dtype: type[np.generic],
    count: int,
    function: Callable[..., Values],
) -> MicroOp:
    codes = source_codes(instruction)[:count]
    kind = "f16" if dtype is np.float16 else "u16"
    readers = []
    for position, code in enumerate(codes):
        read = word_reader(code, kind, instruction)
        low, high = _selects(instruction, position)
        minus_low, minus_high = _negations(instruction, position)
        readers.append((_half(read, low, minus_low, dtype), _half(read, high, minus_high, dtype)))
    row, clamp = instruction.fields["vdst"], bool(instruction.fields["clmp"])
    if clamp and dtype is not np.float16:
        if instruction.name.split("_")[2] not in ("add", "sub", "mad"):
            raise unsupported(instruction, "clamp on an integer result")
        function, clamp = saturating(function), False

    def run(wave: Wave) -> None:
        low = function(*[pair[0](wave) for pair in readers])
        high = function(*[pair[1](wave) for pair in readers])
        if clamp:
            low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
        bits = low.astype(dtype).view(np.uint16).astype(np.uint32)
        wave.write_vector(row, bits | high.astype(dtype).view(np.uint16).astype(np.uint32) << 16)

    return MicroOp(instruction, run, all_source_bits(codes), 1 << (VGPR + row))


def _half(
    read: Callable[[Wave], npt.NDArray[np.uint32]],
    upper: bool,
    negate: bool,
    dtype: type[np.generic],
) -> HalfReader:
    def half(wave: Wave) -> Values:
        words = read(wave)
        value = (words >> 16 if upper else words).astype(np.uint16).view(dtype)
        return -value if negate else value

    return half


def _pairs(instruction: Decoded, count: int, function: Callable[..., Values]) -> MicroOp:
    codes = source_codes(instruction)[:count]
    readers = [
        tuple(
            _one_of_pair(instruction, code, upper, negate)
            for upper, negate in zip(
                _selects(instruction, position), _negations(instruction, position), strict=True
            )
        )
        for position, code in enumerate(codes)
    ]
    row = instruction.fields["vdst"]
    move = instruction.name == "v_pk_mov_b32"

    def run(wave: Wave) -> None:
        if move:
            low, high = readers[0][0](wave), readers[1][0](wave)
        else:
            low = function(*[pair[0](wave) for pair in readers])
            high = function(*[pair[1](wave) for pair in readers])
        # Both halves are computed before either is written: the destination may be a source.
        low_bits = np.array(low, np.float32).view(np.uint32)
        high_bits = np.array(high, np.float32).view(np.uint32)
        wave.write_vector(row, low_bits)
        wave.write_vector(row + 1, high_bits)

    if move:
        reads = 0
        for position, code in enumerate(codes):
            upper = _selects(instruction, position)[0]
            reads |= source_bits(code + 1 if upper and code >= VGPR else code)
        return MicroOp(instruction, run, reads, register_bits(VGPR + row, 2), screen_copy)
    reads = 0
    for position, code in enumerate(codes):
        for upper in _selects(instruction, position):
            is_constant = constant(code, "f32", instruction) is not None
            reads |= 0 if is_constant else source_bits(code + upper)
    return MicroOp(instruction, run, reads, register_bits(VGPR + row, 2))


def _one_of_pair(instruction: Decoded, code: int, upper: bool, negate: bool) -> HalfReader:
    """One f32 of a register pair; a constant fills both halves."""
    is_constant = constant(code, "f32", instruction) is not None
    words = word_reader(code if is_constant else code + upper, "f32", instruction)

    def one(wave: Wave) -> Values:
        value = words(wave).view(np.float32)
        return -value if negate else value

    return one


def _mixed(instruction: Decoded) -> MicroOp:
    """v_mad_mix*: each source is an f32, or the half that op_sel picks."""
    codes = source_codes(instruction)
    fields = instruction.fields
    readers: list[HalfReader] = []
    for position, code in enumerate(codes):
        half_precision = _selects(instruction, position)[1]
        upper = bool(fields["opsel"] >> position & 1)
        if half_precision:
            halves = word_reader(code, "f16", instruction)
            read = _half(halves, upper, False, np.float16)
        else:
            read = _one_of_pair(instruction, code, False, False)
        readers.append(_mixed_signs(instruction, position, read))
    row, name = fields["vdst"], instruction.name

    def run(wave: Wave) -> None:
        a, b, c = (read(wave).astype(np.float64) for read in readers)
        total = a * b + c
        if fields["clmp"]:
            total = np.clip(total, 0, 1)
        if name == "v_mad_mix_f32":
            wave.write_vector(row, total.astype(np.float32).view(np.uint32))
            return
        bits = total.astype(np.float16).view(np.uint16).astype(np.uint32)
        if name == "v_mad_mixhi_f16":
            wave.write_vector(row, bits << 16 | wave.v[row] & 0xFFFF)
        else:
            wave.write_vector(row, bits | wave.v[row] & 0xFFFF0000)

    reads = source_bits(codes[0]) | source_bits(codes[1]) | source_bits(codes[2])
    return MicroOp(instruction, run, reads, 1 << (VGPR + row))


def _mixed_signs(instruction: Decoded, position: int, read: HalfReader) -> HalfReader:
    """In the mixed forms neg_hi means absolute value."""
    negate, absolute = _negations(instruction, position)

    def signed(wave: Wave) -> Values:
        value = read(wave)
        if absolute:
            value = np.abs(value)
        return -value if negate else value

    return signed if negate or absolute else read
