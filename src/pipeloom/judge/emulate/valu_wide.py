"""Vector instructions with a lane mask beside their result: carries, 64-bit sums, division.

Also v_mad_u64_u32 and v_mad_i64_i32, whose addend and result are register pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.division import DOUBLE, SINGLE, division_fused, division_scale
from pipeloom.judge.emulate.operands import (
    all_source_bits,
    long_reader,
    source_bits,
    unsupported,
    word_reader,
)
from pipeloom.judge.emulate.register_numbers import LANES, VCC, VGPR, WORD, register_bits
from pipeloom.judge.emulate.screening import screen_reads, screen_upper
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.valu import VecOp, result_writer, source_codes, source_reader, words_of
from pipeloom.judge.emulate.wave import Lanes, Wave, lanes_of, mask_of

# name: (subtract, reversed operands, takes a carry in)
_CARRY = {
    "v_add_co_u32": (False, False, False),
    "v_sub_co_u32": (True, False, False),
    "v_subrev_co_u32": (True, True, False),
    "v_addc_co_u32": (False, False, True),
    "v_subb_co_u32": (True, False, True),
    "v_subbrev_co_u32": (True, True, True),
}


def build_wide(instruction: Decoded) -> MicroOp | None:
    """The step of an instruction of this file, or None."""
    name = instruction.name
    if name in _CARRY:
        return _carry(instruction, *_CARRY[name])
    builders: dict[str, Callable[[Decoded], MicroOp]] = {
        "v_mad_u64_u32": lambda i: _multiply_add_long(i, signed=False),
        "v_mad_i64_i32": lambda i: _multiply_add_long(i, signed=True),
        "v_div_scale_f32": _division_scale,
        "v_div_scale_f64": _division_scale,
        "v_div_fmas_f32": _division_fused,
        "v_div_fmas_f64": _division_fused,
    }
    builder = builders.get(name)
    return None if builder is None else builder(instruction)


def _target(instruction: Decoded) -> int:
    return VGPR + instruction.fields["vdst"]


def _carry(instruction: Decoded, subtract: bool, swapped: bool, takes_carry: bool) -> MicroOp:
    codes = source_codes(instruction)
    carry_in = codes[2] if len(codes) > 2 else VCC
    carry_out = instruction.fields.get("sdst", VCC)
    first = word_reader(codes[1] if swapped else codes[0], "u32", instruction)
    second = word_reader(codes[0] if swapped else codes[1], "u32", instruction)
    if instruction.variant not in ("", "LIT"):
        raise unsupported(instruction, instruction.variant)
    target = _target(instruction)
    one = np.int64(1)

    def run(wave: Wave) -> None:
        a, b = first(wave).astype(np.int64), second(wave).astype(np.int64)
        extra = lanes_of(wave.read_mask(carry_in)) * one if takes_carry else np.int64(0)
        total = a - b - extra if subtract else a + b + extra
        over: Lanes = np.broadcast_to((total < 0) | (total > WORD), (LANES,))
        wave.write_vector(target - VGPR, total.astype(np.uint32))
        wave.write_mask(carry_out, mask_of(over) & wave.exec_mask)

    reads = source_bits(codes[0]) | source_bits(codes[1])
    if takes_carry:
        reads |= register_bits(carry_in, 2)
    return MicroOp(instruction, run, reads, 1 << target | register_bits(carry_out, 2))


def _multiply_add_long(instruction: Decoded, *, signed: bool) -> MicroOp:
    codes = source_codes(instruction)
    a = word_reader(codes[0], "u32", instruction)
    b = word_reader(codes[1], "u32", instruction)
    c = long_reader(codes[2], "u64", instruction)
    target, carry = _target(instruction), instruction.fields["sdst"]
    row = target - VGPR

    def run(wave: Wave) -> None:
        addend = c(wave)
        if signed:
            left, right = a(wave).view(np.int32), b(wave).view(np.int32)
            product = (left.astype(np.int64) * right.astype(np.int64)).view(np.uint64)
        else:
            product = a(wave).astype(np.uint64) * b(wave).astype(np.uint64)
        total = np.broadcast_to(product + addend, (LANES,))
        over: Lanes = np.broadcast_to(total < addend, (LANES,))
        if signed:
            # The 65-bit signed sum's top bit: sign extension of both, plus the carry.
            over = over ^ (product >> np.uint64(63) == 1) ^ (addend >> np.uint64(63) == 1)
        wave.write_vector(row, total.astype(np.uint32))
        wave.write_vector(row + 1, (total >> np.uint64(32)).astype(np.uint32))
        wave.write_mask(carry, mask_of(over) & wave.exec_mask)

    reads = source_bits(codes[0]) | source_bits(codes[1]) | source_bits(codes[2], 2)
    writes = register_bits(target, 2) | register_bits(carry, 2)
    screen = screen_upper([codes[2] + 1], target + 1) if codes[2] >= VGPR else screen_reads
    return MicroOp(instruction, run, reads, writes, screen)


# --- division helpers -----------------------------------------------------------------------------


def _division_scale(instruction: Decoded) -> MicroOp:
    codes = source_codes(instruction)
    kind = instruction.name[-3:]
    precision = SINGLE if kind == "f32" else DOUBLE
    readers = [source_reader(instruction, i, code, kind) for i, code in enumerate(codes)]
    target, flags = _target(instruction), instruction.fields["sdst"]
    write = result_writer(instruction, VecOp(kind, (), np.add))

    def run(wave: Wave) -> None:
        value, flag = division_scale(precision, *[read(wave) for read in readers])
        write(wave, value)
        wave.write_mask(flags, mask_of(np.broadcast_to(flag, (LANES,))) & wave.exec_mask)

    width = words_of(kind)
    reads = all_source_bits(codes, width)
    return MicroOp(instruction, run, reads, register_bits(target, width) | register_bits(flags, 2))


def _division_fused(instruction: Decoded) -> MicroOp:
    codes = source_codes(instruction)
    kind = instruction.name[-3:]
    precision = SINGLE if kind == "f32" else DOUBLE
    readers = [source_reader(instruction, i, code, kind) for i, code in enumerate(codes)]
    write = result_writer(instruction, VecOp(kind, (), np.add))

    def run(wave: Wave) -> None:
        a, b, c = (read(wave) for read in readers)
        write(wave, division_fused(precision, a, b, c, lanes_of(wave.read_mask(VCC))))

    width = words_of(kind)
    reads = register_bits(VCC, 2) | all_source_bits(codes, width)
    return MicroOp(instruction, run, reads, register_bits(_target(instruction), width))
