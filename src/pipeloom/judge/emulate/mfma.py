"""The matrix unit: D = A B + C with the true register layouts.

An instruction multiplies ``blocks`` independent n x n x depth problems (n = 4, 16 or 32; mostly one
block). Lane l holds row l % n of A (column l % n of B), of block l // n % blocks, and a share of K:
neighbours in one lane, then lane group after lane group. Of the result, register r of lane l is
column l % n and row

    n = 4:   r                          n = 16:  4 (l // 16) + r
    n = 32:  8 (r // 4) + 4 (l // 32) + r % 4        f64, n = 16:  4 r + l // 16

with one set of registers per block for n = 16 and 32, and block l // 4 for n = 4 (f64: one element
per lane, row l // 16, block l // 4 % 4).

Worked example, 16x16x32 bf16: four registers are eight elements of a lane, so lane 17 holds
A[1, 8:16] and, of the result, D[4:8, 1].

Sums are f32 (f64, i32) in an order of NumPy's choosing, where hardware has its own. MFMA ignores
EXEC. Source: AMD matrix instruction calculator, CDNA3/CDNA4 ISA "MFMA".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.decode import Instruction
from pipeloom.judge.emulate.mfma_formats import Format, operand_formats
from pipeloom.judge.emulate.operands import constant, unsupported, word_reader
from pipeloom.judge.emulate.registers import AGPR, LANES, VGPR, register_bits
from pipeloom.judge.emulate.step import Step
from pipeloom.judge.emulate.wave import Wave

Words = npt.NDArray[np.uint32]
Values = npt.NDArray[Any]

_NAME = re.compile(r"v_mfma(?:_scale)?_(f32|i32|f64)_(4|16|32)x\2x(\d+)(?:_(\d+)b)?_(\w+)$")
_RESULTS: dict[str, type[np.generic]] = {"f32": np.float32, "i32": np.int32, "f64": np.float64}


@dataclass(frozen=True, slots=True)
class Shape:
    """Side, depth and blocks of the product; the formats of A and B; the type of C and D."""

    side: int
    depth: int
    blocks: int
    a: Format
    b: Format
    result: str

    @property
    def groups(self) -> int:
        """Lane groups that share the K dimension of one block."""
        return LANES // (self.side * self.blocks)

    def words(self, operand: Format) -> int:
        """Registers of an operand per lane."""
        return self.depth // self.groups * operand.bits // 32

    @property
    def words_d(self) -> int:
        size = 2 if self.result == "f64" else 1
        return self.side * self.side * self.blocks // LANES * size


def _shape(instruction: Instruction, arch: str) -> Shape:
    match = _NAME.match(instruction.name)
    if match is None:
        raise unsupported(instruction)
    result, kind = match[1], match[5]
    a, b = operand_formats(kind, instruction, arch)
    blocks = int(match[4] or 1)
    fields = instruction.fields
    if kind not in ("f8f6f4", "xf32"):
        if fields["blgp"]:
            raise unsupported(instruction, f"blgp:{fields['blgp']}")
        if fields["cbsz"] and not (fields["abid"] < 1 << fields["cbsz"] <= blocks):
            raise unsupported(instruction, f"cbsz:{fields['cbsz']} abid:{fields['abid']}")
    return Shape(int(match[2]), int(match[3]), blocks, a, b, result)


def build(instruction: Instruction, arch: str) -> Step | None:
    """The step of an MFMA, or None."""
    if not instruction.name.startswith("v_mfma"):
        return None
    shape = _shape(instruction, arch)
    fields = instruction.fields
    accumulators = fields.get("acc", fields.get("opsel_hi", 0))
    # The decoder has no matrix class for the xf32 opcodes: acc and acc_cd arrive under the names
    # of the packed encoding, in the same bits.
    in_agprs = bool(fields.get("acc_cd", fields.get("clmp", 0)))
    a = matrix_row(fields["src0"], bool(accumulators & 1), instruction)
    b = matrix_row(fields["src1"], bool(accumulators & 2), instruction)
    d = fields["vdst"] + (AGPR - VGPR if in_agprs else 0)
    words_a, words_b, words_d = shape.words(shape.a), shape.words(shape.b), shape.words_d
    read_c = _addend(fields["src2"], in_agprs, shape, instruction)
    scale = None
    if "_scale_" in instruction.name:
        scale = _scales(instruction, shape.side, shape.depth)
    left_of, right_of = gatherer(shape, shape.a), gatherer(shape, shape.b)
    if shape.blocks > 1 and fields["cbsz"]:
        left_of = _broadcast(left_of, shape.blocks, fields["cbsz"], fields["abid"])
    spread = spreader(shape)

    def run(wave: Wave) -> None:
        v = wave.v
        left = left_of(np.ascontiguousarray(v[a : a + words_a].T))
        right = right_of(np.ascontiguousarray(v[b : b + words_b].T))
        if scale is not None:
            left, right = scale(wave, left, right)
        v[d : d + words_d] = spread(left @ right.swapaxes(-1, -2), read_c(wave))

    reads = register_bits(VGPR + a, words_a) | register_bits(VGPR + b, words_b)
    reads |= _addend_bits(fields["src2"], in_agprs, words_d)
    if scale is not None:
        for name in ("scale_src0", "scale_src1"):
            if fields[name] >= VGPR:
                reads |= 1 << fields[name]
    writes = register_bits(VGPR + d, words_d)
    return Step(instruction, run, reads, writes, whole_wave=True)


def gatherer(shape: Shape, operand: Format) -> Callable[[Words], Values]:
    """From registers (one row per lane) to the operand: side x depth, with blocks in front."""
    side, depth, blocks, groups = shape.side, shape.depth, shape.blocks, shape.groups
    widen, chunk = operand.widen, operand.chunk
    if chunk:

        def chunked(rows: Words) -> Values:
            parts = widen(rows).reshape(groups, side, -1, chunk)
            return parts.transpose(1, 2, 0, 3).reshape(side, depth)

        return chunked
    if blocks == 1:
        return lambda rows: (
            widen(rows).reshape(groups, side, -1).transpose(1, 0, 2).reshape(side, depth)
        )
    return lambda rows: (
        widen(rows)
        .reshape(groups, blocks, side, -1)
        .transpose(1, 2, 0, 3)
        .reshape(blocks, side, depth)
    )


def _broadcast(
    gather: Callable[[Words], Values], blocks: int, size: int, chosen: int
) -> Callable[[Words], Values]:
    """cbsz and abid: of every 2**cbsz blocks of A, block number abid serves them all."""
    source = np.arange(blocks) >> size << size | chosen
    return lambda rows: gather(rows)[source]


def spreader(shape: Shape) -> Callable[[Values, Values], Words]:
    """From the product and the addend's registers to the result's registers."""
    side, blocks, words_d = shape.side, shape.blocks, shape.words_d

    def single(product: Values, addend: Values) -> Words:
        rows: Values
        if side == 16:
            rows = product.reshape(4, 4, 16).transpose(1, 0, 2)
        else:
            rows = product.reshape(4, 2, 4, 32).transpose(0, 2, 1, 3)
        total: Values = rows.reshape(words_d, LANES) + addend
        return total.view(np.uint32)

    def several(product: Values, addend: Values) -> Words:
        rows: Values
        if side == 4:
            rows = product.transpose(1, 0, 2)
        elif side == 16:
            rows = product.reshape(blocks, 4, 4, 16).transpose(0, 2, 1, 3)
        else:
            rows = product.reshape(blocks, 4, 2, 4, 32).transpose(0, 1, 3, 2, 4)
        total: Values = rows.reshape(words_d, LANES) + addend
        return total.view(np.uint32)

    def double(product: Values, addend: Values) -> Words:
        if side == 4:
            rows = product.transpose(1, 0, 2).reshape(1, LANES)
        else:
            rows = product.reshape(4, LANES)
        total = np.ascontiguousarray(rows + addend)
        pairs = total.view(np.uint32).reshape(-1, LANES, 2)
        return pairs.transpose(0, 2, 1).reshape(words_d, LANES)

    if shape.result == "f64":
        return double
    return single if blocks == 1 else several


def matrix_row(code: int, in_agpr: bool, instruction: Instruction) -> int:
    if code < VGPR:
        raise unsupported(instruction, "matrix operand that is no vector register")
    return code - VGPR + (AGPR - VGPR if in_agpr else 0)


def _addend(
    code: int, in_agprs: bool, shape: Shape, instruction: Instruction
) -> Callable[[Wave], Values]:
    words, dtype = shape.words_d, _RESULTS[shape.result]
    if code < VGPR:
        value = constant(code, shape.result, instruction)
        if value is None:
            raise unsupported(instruction, "scalar addend")
        bits = np.uint64 if shape.result == "f64" else np.uint32
        mask = 0xFFFFFFFFFFFFFFFF if shape.result == "f64" else 0xFFFFFFFF
        fixed = np.array([[value & mask]], bits).view(dtype)
        return lambda wave: fixed
    row = code - VGPR + (AGPR - VGPR if in_agprs else 0)
    if shape.result == "f64":

        def pairs(wave: Wave) -> Values:
            halves = wave.v[row : row + words].reshape(-1, 2, LANES).transpose(0, 2, 1)
            return np.ascontiguousarray(halves).view(np.float64)[:, :, 0]

        return pairs
    return lambda wave: wave.v[row : row + words].view(dtype)


def _addend_bits(code: int, in_agprs: bool, words: int) -> int:
    if code < VGPR:
        return 0
    return register_bits(code + (AGPR - VGPR if in_agprs else 0), words)


def _scales(
    instruction: Instruction, side: int, depth: int
) -> Callable[[Wave, Values, Values], tuple[Values, Values]]:
    """Block scales: a byte of lane l scales K block l // side of row l % side (E8M0, bias 127).

    Blocks are 32 along K, wherever the registers hold those elements.
    """
    fields = instruction.fields
    readers = []
    for position, name in enumerate(("scale_src0", "scale_src1")):
        byte = (fields["opsel"] >> position & 1) | (fields["opsel_hi"] >> position & 1) << 1
        readers.append((word_reader(fields[name], "u32", instruction), byte))
    blocks = depth // 32

    def factors(wave: Wave, position: int) -> Values:
        read, byte = readers[position]
        codes = np.broadcast_to(read(wave) >> (8 * byte) & 0xFF, (LANES,)).astype(np.float64)
        powers = np.where(codes == 255, np.nan, np.exp2(codes - 127)).astype(np.float32)
        return np.repeat(powers[: blocks * side].reshape(blocks, side).T, 32, axis=1)

    return lambda wave, left, right: (left * factors(wave, 0), right * factors(wave, 1))
