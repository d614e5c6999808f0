"""v_cvt_scalef32_*: conversions of gfx950 between wide floats and scaled fp8, bf8 and fp4.

The scale is a power of two: only the exponent field of an f32 operand counts. To a narrow type the
value is divided by it, from a narrow type multiplied. op_sel picks the part of a register that
holds the narrow pair: bits 1:0 of the source, 3:2 of the destination (a half for 8-bit pairs, a
byte for fp4 pairs); other bits of the destination stay.

    v_cvt_scalef32_pk_fp8_f16 v0, v1, v2      v0[15:0] = fp8 pair of v1's two halves / 2**k
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.formats import bf16_to_f32, encode_float, f32_to_bf16, float_table
from pipeloom.judge.emulate.operands import all_source_bits, unsupported, word_reader
from pipeloom.judge.emulate.register_numbers import VGPR, register_bits
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.valu import source_codes, source_reader
from pipeloom.judge.emulate.wave import Wave

Values = npt.NDArray[Any]
Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

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


def _power(scale: Values) -> Floats:
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
    codes = source_codes(instruction)
    name, bits = _NARROW[target]
    place = instruction.fields["opsel"] >> 2 & 3
    if bits == 8:
        place &= 2
    shift, mask = 8 * place, (1 << 2 * bits) - 1
    row = instruction.fields["vdst"]
    used = 3 if source == "f32" else 2
    read_scale = source_reader(instruction, used - 1, codes[used - 1], "f32")
    read_pair = _pair_reader(instruction, source)

    def run(wave: Wave) -> None:
        scale = _power(read_scale(wave)).astype(np.float64)
        low, high = (
            encode_float((x.astype(np.float64) / scale).astype(np.float32), name)
            for x in read_pair(wave)
        )
        packed = (low.astype(np.uint32) | high.astype(np.uint32) << bits) << shift
        kept = wave.v[row] & np.uint32(~(mask << shift) & 0xFFFFFFFF)
        wave.write_vector(row, packed | kept)

    return MicroOp(instruction, run, all_source_bits(codes[:used]), 1 << (VGPR + row))


def _pair_reader(instruction: Decoded, kind: str) -> Callable[[Wave], tuple[Floats, Floats]]:
    codes = source_codes(instruction)
    if kind == "f32":
        first, second = (source_reader(instruction, i, codes[i], "f32") for i in range(2))
        return lambda wave: (first(wave), second(wave))
    words = word_reader(codes[0], "u32", instruction)
    return lambda wave: _halves(words(wave), kind)


def _widen(instruction: Decoded, target: str, source: str, pair: bool) -> MicroOp:
    codes = source_codes(instruction)
    name, bits = _NARROW[source]
    table = float_table(name)
    place = instruction.fields["opsel"] & 3
    if pair and bits == 8:
        place = 2 * (place & 1)
    words = word_reader(codes[0], "u32", instruction)
    read_scale = source_reader(instruction, 1, codes[1], "f32")
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
    reads = all_source_bits(codes[:2])
    return MicroOp(instruction, run, reads, register_bits(VGPR + row, registers))


def _half_bits(values: Floats, kind: str) -> Words:
    if kind == "bf16":
        return f32_to_bf16(values).astype(np.uint32)
    return values.astype(np.float16).view(np.uint16).astype(np.uint32)
