"""v_cvt_scalef32_*: conversions of gfx950 between wide floats and scaled fp8, bf8 and fp4.

The scale is a power of two: only the exponent field of an f32 operand counts. To a narrow type the
value is divided by it, from a narrow type multiplied. op_sel picks the part of a register that
holds the narrow pair: bits 1:0 of the source, 3:2 of the destination (a half for 8-bit pairs, a
byte for fp4 pairs); other bits of the destination stay.

    v_cvt_scalef32_pk_fp8_f16 v0, v1, v2      v0[15:0] = fp8 pair of v1's two halves / 2**k
"""

from __future__ import annotations

import re

import numpy as np

from pipeloom.array_kinds import Array, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.formats import (
    Floats,
    bf16_to_f32,
    encode_float,
    f32_to_bf16,
    float_table,
)
from pipeloom.judge.emulate.operands import all_registers, unsupported
from pipeloom.judge.emulate.register_numbers import VGPR, register_bits
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.vector_values import vector_sources
from pipeloom.judge.emulate.wave import Wave

_NAME = re.compile(r"v_cvt_scalef32_(pk_)?(f32|f16|bf16|fp8|bf8|fp4)_(f32|f16|bf16|fp8|bf8|fp4)$")
_NARROW = {"fp8": ("e4m3", 8), "bf8": ("e5m2", 8), "fp4": ("e2m1", 4)}


def build_scaled(instruction: Decoded) -> MicroOp | None:
    """The step of a scaled conversion, or None."""
    if not instruction.name.startswith("v_cvt_scalef32_"):
        return None
    match = _NAME.match(instruction.name)
    if match is None or (match[2] in _NARROW) == (match[3] in _NARROW):
        raise unsupported(instruction)
    if match[2] in _NARROW:
        return _narrow(instruction, match[2], match[3])
    return _widen(instruction, match[2], match[3], bool(match[1]))


def _power(scale: Array) -> Floats:
    """The power of two in a scale operand: its exponent alone counts."""
    bits = np.ascontiguousarray(scale).view(np.uint32) & 0x7F800000
    return bits.view(np.float32)


def _halves(words: Words, kind: str) -> tuple[Floats, Floats]:
    """Two packed f16 or bf16 as float32."""
    low, high = words.astype(np.uint16), (words >> 16).astype(np.uint16)
    if kind == "bf16":
        return bf16_to_f32(low), bf16_to_f32(high)
    return low.view(np.float16).astype(np.float32), high.view(np.float16).astype(np.float32)


def _narrow(instruction: Decoded, target: str, source: str) -> MicroOp:
    name, bits = _NARROW[target]
    place = instruction.fields["opsel"] >> 2 & 3
    if bits == 8:
        place &= 2
    shift, mask = 8 * place, (1 << 2 * bits) - 1
    row = instruction.fields["vdst"]
    kinds = ("f32", "f32", "f32") if source == "f32" else ("u32", "f32")
    sources = vector_sources(instruction, kinds)
    *values, read_scale = (one.read for one in sources)

    def run(wave: Wave) -> None:
        scale = _power(read_scale(wave)).astype(np.float64)
        found = [read(wave) for read in values]
        low, high = (
            encode_float((x.astype(np.float64) / scale).astype(np.float32), name)
            for x in (found if source == "f32" else _halves(found[0], source))
        )
        packed = (low.astype(np.uint32) | high.astype(np.uint32) << bits) << shift
        kept = wave.v[row] & np.uint32(~(mask << shift) & 0xFFFFFFFF)
        wave.write_vector(row, packed | kept)

    here = 1 << (VGPR + row)
    return MicroOp(instruction, run, all_registers(sources), here, keeps=here)


def _widen(instruction: Decoded, target: str, source: str, pair: bool) -> MicroOp:
    name, bits = _NARROW[source]
    table = float_table(name)
    place = instruction.fields["opsel"] & 3
    if pair and bits == 8:
        place = 2 * (place & 1)
    sources = vector_sources(instruction, ("u32", "f32"))
    words, read_scale = (one.read for one in sources)
    row = instruction.fields["vdst"]
    upper = bool(instruction.fields["opsel"] >> 3 & 1)
    mask = (1 << bits) - 1

    def run(wave: Wave) -> None:
        narrow = words(wave) >> np.uint32(8 * place)
        factor = _power(read_scale(wave))
        low: Floats = table[narrow & mask] * factor
        high: Floats = table[narrow >> bits & mask] * factor
        if target == "f32":
            wave.write_vector(row, low.view(np.uint32))
            if pair:
                wave.write_vector(row + 1, high.view(np.uint32))
            return
        first, second = _half_bits(low, target), _half_bits(high, target)
        if pair:
            wave.write_vector(row, first | second << 16)
        elif upper:
            wave.write_vector(row, first << 16 | wave.v[row] & 0xFFFF)
        else:
            wave.write_vector(row, first | wave.v[row] & 0xFFFF0000)

    registers = 2 if pair and target == "f32" else 1
    writes = register_bits(VGPR + row, registers)
    keeps = 0 if pair or target == "f32" else writes
    return MicroOp(instruction, run, all_registers(sources), writes, keeps=keeps)


def _half_bits(values: Floats, kind: str) -> Words:
    if kind == "bf16":
        return f32_to_bf16(values).astype(np.uint32)
    return values.astype(np.float16).view(np.uint16).astype(np.uint32)
