"""Dot products of packed values: v_dot2, v_dot4, v_dot8 and the accumulating v_dot*c forms.

v_dot4_i32_i8 v0, v1, v2, v3       v0 = v3 + sum of four byte products
v_dot2c_f32_f16 v0, v1, v2         v0 = v0 + sum of two half products
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.formats import bf16_to_f32
from pipeloom.judge.emulate.operands import source_bits, unsupported, word_reader
from pipeloom.judge.emulate.register_numbers import VGPR
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.valu import source_codes
from pipeloom.judge.emulate.wave import Wave

Values = npt.NDArray[Any]

_NAME = re.compile(r"v_dot([248])(c)?_(f32|i32|u32)_(f16|bf16|i16|u16|i8|u8|i4|u4)$")


def build(instruction: Decoded) -> MicroOp | None:
    """The step of a dot product, or None."""
    match = _NAME.match(instruction.name)
    if match is None:
        return None
    fields = instruction.fields
    count, kind = int(match[1]), match[4]
    codes = source_codes(instruction)[:2]
    row = fields["vdst"]
    addend = VGPR + row if match[2] else source_codes(instruction)[2]
    modifiers = ("neg", "neg_hi", "opsel", "abs", "omod")
    if instruction.variant not in ("", "LIT") or any(fields.get(name) for name in modifiers):
        raise unsupported(instruction, "modifiers")
    clamp = bool(fields.get("clmp"))
    is_float = match[3] == "f32"
    if is_float and clamp:
        raise unsupported(instruction, "clamp")
    readers = [word_reader(code, "u32", instruction) for code in codes]
    read_addend = word_reader(addend, "f32" if is_float else "u32", instruction)
    limits = (0, 0xFFFFFFFF) if match[3] == "u32" else (-(1 << 31), (1 << 31) - 1)

    def run(wave: Wave) -> None:
        a, b = (_parts(read(wave), count, kind) for read in readers)
        if is_float:
            total = (a * b).sum(axis=0) + read_addend(wave).view(np.float32)
            wave.write_vector(row, total.astype(np.float32).view(np.uint32))
            return
        start = read_addend(wave)
        wide = start.view(np.int32) if match[3] == "i32" else start
        exact = (a * b).sum(axis=0) + wide.astype(np.int64)
        if clamp:
            exact = np.clip(exact, *limits)
        wave.write_vector(row, exact.astype(np.uint32))

    reads = source_bits(codes[0]) | source_bits(codes[1]) | source_bits(addend)
    return MicroOp(instruction, run, reads, 1 << (VGPR + row))


def _parts(words: npt.NDArray[np.uint32], count: int, kind: str) -> Values:
    """The packed values of each lane, one row each: float64 or int64."""
    bits = 32 // count
    fields = [words >> np.uint32(bits * i) & np.uint32((1 << bits) - 1) for i in range(count)]
    if kind == "f16":
        return np.stack([f.astype(np.uint16).view(np.float16).astype(np.float64) for f in fields])
    if kind == "bf16":
        return np.stack([bf16_to_f32(f.astype(np.uint16)).astype(np.float64) for f in fields])
    whole = np.stack(fields).astype(np.int64)
    if kind.startswith("i"):
        half = 1 << (bits - 1)
        whole = (whole ^ half) - half
    return whole
