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
from pipeloom.judge.emulate.operands import (
    all_source_bits,
    constant,
    source_bits,
    unsupported,
    word_reader,
)
from pipeloom.judge.emulate.register_numbers import AGPR, VGPR, register_bits
from pipeloom.judge.emulate.screening import screen_copy, screen_reads
from pipeloom.judge.emulate.step import MicroOp, Run
from pipeloom.judge.emulate.valu import DTYPES, VecOp, clamped, source_codes, with_signs
from pipeloom.judge.emulate.valu_float import FLOAT_OPS
from pipeloom.judge.emulate.valu_integer import INTEGER_OPS
from pipeloom.judge.emulate.wave import Wave

_WHOLE = {**INTEGER_OPS, **FLOAT_OPS}
Values = npt.NDArray[Any]
HalfReader = Callable[[Wave], Values]

_TWICE = {
    "f16": ("add", "mul", "fma", "min", "max"),
    "u16": ("add", "sub", "mul_lo", "mad", "min", "max"),
    "i16": ("add", "sub", "mad", "min", "max", "ashrrev"),
    "b16": ("lshlrev", "lshrrev"),
}
_HALVES: dict[str, VecOp] = {
    **{
        f"v_pk_{name}_{kind}": _WHOLE[f"v_{name}_{kind}"]
        for kind, names in _TWICE.items()
        for name in names
    },
    "v_pk_minimum3_f16": VecOp("f16", ("f16",) * 3, _WHOLE["v_minimum3_f32"].function),
    "v_pk_maximum3_f16": VecOp("f16", ("f16",) * 3, _WHOLE["v_maximum3_f32"].function),
}
"""Twice what the instruction of the same name does with a half."""
_PAIRS: dict[str, VecOp] = {
    **{f"v_pk_{name}": _WHOLE[f"v_{name}"] for name in ("add_f32", "mul_f32", "fma_f32")},
    "v_pk_mov_b32": _WHOLE["v_mov_b32"],
}


def build(instruction: Decoded) -> MicroOp | None:
    """The step of a packed instruction or AGPR transfer, or None."""
    name = instruction.name
    if name in ("v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"):
        return _transfer(instruction)
    if instruction.encoding != "VOP3P" or instruction.variant == "MFMA":
        return None
    if name in _HALVES:
        return _halves(instruction, _HALVES[name])
    if name in _PAIRS:
        return _pairs(instruction, _PAIRS[name])
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


def _halves(instruction: Decoded, op: VecOp) -> MicroOp:
    codes, dtype = source_codes(instruction)[: len(op.sources)], DTYPES[op.result]
    readers = []
    for position, code in enumerate(codes):
        read = word_reader(code, "f16" if op.result == "f16" else "u16", instruction)
        low, high = _selects(instruction, position)
        minus_low, minus_high = _negations(instruction, position)
        readers.append((_half(read, low, minus_low, dtype), _half(read, high, minus_high, dtype)))
    row = instruction.fields["vdst"]

    def write(wave: Wave, low: Values, high: Values) -> None:
        bits = low.astype(dtype).view(np.uint16).astype(np.uint32)
        wave.write_vector(row, bits | high.astype(dtype).view(np.uint16).astype(np.uint32) << 16)

    run = _twice(instruction, op, readers, write)
    return MicroOp(instruction, run, all_source_bits(codes), 1 << (VGPR + row))


def _twice(
    instruction: Decoded,
    op: VecOp,
    readers: list[tuple[HalfReader, HalfReader]],
    write: Callable[[Wave, Values, Values], None],
) -> Run:
    """``op`` on what is read for the low result, and on what is read for the high one."""
    function, clamp = op.function, bool(instruction.fields["clmp"])
    if clamp and not op.result.startswith("f"):
        if op.saturated is None:
            raise unsupported(instruction, "clamp on an integer result")
        function, clamp = op.saturated, False

    def run(wave: Wave) -> None:
        low = function(*[pair[0](wave) for pair in readers])
        high = function(*[pair[1](wave) for pair in readers])
        if clamp:
            low, high = clamped(low), clamped(high)
        write(wave, low, high)

    return run


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


def _pairs(instruction: Decoded, op: VecOp) -> MicroOp:
    """Two results of ``op``; v_pk_mov_b32 takes its results from one source each."""
    codes = source_codes(instruction)
    moves = op.copies
    chosen = [
        [
            (code, *pick)
            for pick in zip(_selects(instruction, n), _negations(instruction, n), strict=True)
        ]
        for n, code in enumerate(codes[: 2 if moves else len(op.sources)])
    ]
    if moves:
        chosen = [[chosen[0][0], chosen[1][0]]]
    readers = [
        (_one_of_pair(instruction, *low), _one_of_pair(instruction, *high)) for low, high in chosen
    ]
    row = instruction.fields["vdst"]

    def write(wave: Wave, low: Values, high: Values) -> None:
        # Both halves are computed before either is written: the destination may be a source.
        low_bits = np.array(low, np.float32).view(np.uint32)
        high_bits = np.array(high, np.float32).view(np.uint32)
        wave.write_vector(row, low_bits)
        wave.write_vector(row + 1, high_bits)

    reads = 0
    for code, upper, _ in (one for pair in chosen for one in pair):
        if constant(code, "f32", instruction) is None:
            reads |= source_bits(code + upper)
    run = _twice(instruction, op, readers, write)
    screen = screen_copy if moves else screen_reads
    return MicroOp(instruction, run, reads, register_bits(VGPR + row, 2), screen)


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
        # In the mixed forms neg_hi means absolute value.
        readers.append(with_signs(read, *_negations(instruction, position)))
    row, name = fields["vdst"], instruction.name

    def run(wave: Wave) -> None:
        a, b, c = (read(wave).astype(np.float64) for read in readers)
        total = a * b + c
        if fields["clmp"]:
            total = clamped(total)
        if name == "v_mad_mix_f32":
            wave.write_vector(row, total.astype(np.float32).view(np.uint32))
            return
        bits = total.astype(np.float16).view(np.uint16).astype(np.uint32)
        if name == "v_mad_mixhi_f16":
            wave.write_vector(row, bits << 16 | wave.v[row] & 0xFFFF)
        else:
            wave.write_vector(row, bits | wave.v[row] & 0xFFFF0000)

    reads = all_source_bits(codes)
    return MicroOp(instruction, run, reads, 1 << (VGPR + row))
