"""The matrix unit: D = A B + C with the true register layouts.

For an n x n tile (n = 16 or 32) lane l holds row l % n of A (column l % n of B) and K block l // n.
Of the result, register r of lane l is column l % n and row

    n = 16:  4 (l // 16) + r            n = 32:  8 (r // 4) + 4 (l // 32) + r % 4

Worked example, 16x16x32 bf16: four registers are eight elements of a lane, so lane 17 holds
A[1, 8:16] and, of the result, D[4:8, 1].

Products are exact in f32 for 16-bit and narrower inputs; sums are f32 in an order of NumPy's
choosing, where hardware has its own. MFMA ignores EXEC.
Source: AMD matrix instruction calculator, CDNA3/CDNA4 ISA "MFMA".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeloom.emulate.decode import Instruction
from pipeloom.emulate.formats import bf16_to_f32, float_table, fp8_names, unpack_bits
from pipeloom.emulate.operands import constant, unsupported, word_reader
from pipeloom.emulate.registers import AGPR, LANES, VGPR, register_bits
from pipeloom.emulate.step import Step
from pipeloom.emulate.wave import Wave

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]
Widen = Callable[[Words], Floats]

_NAME = re.compile(r"v_mfma(?:_scale)?_f32_(16|32)x\1x(\d+)_(\w+)$")
_F8F6F4 = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
"""Formats of the f8f6f4 instructions, by cbsz (A) and blgp (B); always OCP."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Tile side, depth, registers of A and B per lane, and how their bits widen to f32."""

    side: int
    depth: int
    words_a: int
    words_b: int
    widen_a: Widen
    widen_b: Widen

    @property
    def words_d(self) -> int:
        return self.side * self.side // LANES


def _from_bf16(rows: Words) -> Floats:
    return bf16_to_f32(rows.view(np.uint16))


def _from_f16(rows: Words) -> Floats:
    return rows.view(np.float16).astype(np.float32)


def _from_f32(rows: Words) -> Floats:
    return rows.view(np.float32)


def _from_xf32(rows: Words) -> Floats:
    """TF32-like inputs: ten mantissa bits, rounded to nearest even."""
    rounded = rows + 0xFFF + (rows >> 13 & 1) & 0xFFFFE000
    return rounded.astype(np.uint32).view(np.float32)


def _from_float8(name: str) -> Widen:
    table = float_table(name)
    return lambda rows: table[rows.view(np.uint8)]


def _from_narrow(name: str, width: int) -> Widen:
    table = float_table(name)
    return lambda rows: table[unpack_bits(rows.view(np.uint8), width)]


def _narrow_format(code: int, instruction: Instruction) -> tuple[int, Widen]:
    """(registers for 32 elements, widening) of an f8f6f4 operand format."""
    if code >= len(_F8F6F4):
        raise unsupported(instruction, f"operand format {code}")
    name = _F8F6F4[code]
    if code < 2:
        return 8, _from_float8(name)
    return (6, _from_narrow(name, 6)) if code < 4 else (4, _from_narrow(name, 4))


def _shape(instruction: Instruction, arch: str) -> Shape:
    match = _NAME.match(instruction.name)
    if match is None:
        raise unsupported(instruction)
    side, depth, kind = int(match[1]), int(match[2]), match[3]
    per_lane = side * depth // LANES
    if kind == "f8f6f4":
        words_a, widen_a = _narrow_format(instruction.fields["cbsz"], instruction)
        words_b, widen_b = _narrow_format(instruction.fields["blgp"], instruction)
        return Shape(side, depth, words_a, words_b, widen_a, widen_b)
    if any(instruction.fields[name] for name in ("cbsz", "abid", "blgp") if kind != "xf32"):
        raise unsupported(instruction, "broadcast modifiers cbsz, abid, blgp")
    fp8, bf8 = fp8_names(arch)
    plain: dict[str, tuple[int, Widen, Widen]] = {
        "bf16": (2, _from_bf16, _from_bf16),
        "f16": (2, _from_f16, _from_f16),
        "f32": (4, _from_f32, _from_f32),
        "xf32": (4, _from_xf32, _from_xf32),
    }
    for first, name_a in (("fp8", fp8), ("bf8", bf8)):
        for second, name_b in (("fp8", fp8), ("bf8", bf8)):
            plain[f"{first}_{second}"] = (1, _from_float8(name_a), _from_float8(name_b))
    if kind not in plain:
        raise unsupported(instruction)
    size, widen_a, widen_b = plain[kind]
    words = per_lane * size // 4
    return Shape(side, depth, words, words, widen_a, widen_b)


def build(instruction: Instruction, arch: str) -> Step | None:
    """The step of an MFMA, or None."""
    if not instruction.name.startswith(("v_mfma", "v_smfmac")):
        return None
    shape = _shape(instruction, arch)
    fields = instruction.fields
    accumulators = fields.get("acc", fields.get("opsel_hi", 0))
    # The decoder has no matrix class for the xf32 opcodes: acc and acc_cd arrive under the names
    # of the packed encoding, in the same bits.
    in_agprs = bool(fields.get("acc_cd", fields.get("clmp", 0)))
    a = _matrix_row(fields["src0"], bool(accumulators & 1), instruction)
    b = _matrix_row(fields["src1"], bool(accumulators & 2), instruction)
    d = fields["vdst"] + (AGPR - VGPR if in_agprs else 0)
    read_c = _addend(fields["src2"], in_agprs, shape.words_d, instruction)
    side, words_a, words_b, words_d = shape.side, shape.words_a, shape.words_b, shape.words_d
    widen_a, widen_b, depth = shape.widen_a, shape.widen_b, shape.depth
    blocks = LANES // side
    scale = _scales(instruction, side, depth) if "_scale_" in instruction.name else None

    def run(wave: Wave) -> None:
        v = wave.v
        left = widen_a(np.ascontiguousarray(v[a : a + words_a].T))
        right = widen_b(np.ascontiguousarray(v[b : b + words_b].T))
        left = left.reshape(blocks, side, -1).transpose(1, 0, 2).reshape(side, depth)
        right = right.reshape(blocks, side, -1).transpose(1, 0, 2).reshape(side, depth)
        if scale is not None:
            left, right = scale(wave, left, right)
        product = left @ right.T
        if side == 16:
            product = product.reshape(4, 4, 16).transpose(1, 0, 2)
        else:
            product = product.reshape(4, 2, 4, 32).transpose(0, 2, 1, 3)
        total = product.reshape(words_d, LANES) + read_c(wave)
        v[d : d + words_d] = total.view(np.uint32)

    reads = register_bits(VGPR + a, words_a) | register_bits(VGPR + b, words_b)
    reads |= _addend_bits(fields["src2"], in_agprs, words_d)
    if scale is not None:
        for name in ("scale_src0", "scale_src1"):
            if fields[name] >= VGPR:
                reads |= 1 << fields[name]
    writes = register_bits(VGPR + d, words_d)
    return Step(instruction, run, reads, writes, whole_wave=True)


def _matrix_row(code: int, in_agpr: bool, instruction: Instruction) -> int:
    if code < VGPR:
        raise unsupported(instruction, "matrix operand that is no vector register")
    return code - VGPR + (AGPR - VGPR if in_agpr else 0)


def _addend(
    code: int, in_agprs: bool, words: int, instruction: Instruction
) -> Callable[[Wave], Floats]:
    if code >= VGPR:
        row = code - VGPR + (AGPR - VGPR if in_agprs else 0)
        return lambda wave: wave.v[row : row + words].view(np.float32)
    value = constant(code, "f32", instruction)
    if value is None:
        raise unsupported(instruction, "scalar addend")
    fixed = np.array([[value & 0xFFFFFFFF]], np.uint32).view(np.float32)
    return lambda wave: fixed


def _addend_bits(code: int, in_agprs: bool, words: int) -> int:
    if code < VGPR:
        return 0
    return register_bits(code + (AGPR - VGPR if in_agprs else 0), words)


def _scales(
    instruction: Instruction, side: int, depth: int
) -> Callable[[Wave, Floats, Floats], tuple[Floats, Floats]]:
    """Block scales: lane l's byte scales its own block of 32 along K (E8M0, bias 127)."""
    fields = instruction.fields
    readers = []
    for position, name in enumerate(("scale_src0", "scale_src1")):
        byte = (fields["opsel"] >> position & 1) | (fields["opsel_hi"] >> position & 1) << 1
        readers.append((word_reader(fields[name], "u32", instruction), byte))
    blocks = depth // 32

    def factors(wave: Wave, position: int) -> Floats:
        read, byte = readers[position]
        codes = np.broadcast_to(read(wave) >> (8 * byte) & 0xFF, (LANES,)).astype(np.float64)
        powers = np.where(codes == 255, np.nan, np.exp2(codes - 127)).astype(np.float32)
        return np.repeat(powers[: blocks * side].reshape(blocks, side).T, 32, axis=1)

    return lambda wave, left, right: (left * factors(wave, 0), right * factors(wave, 1))
