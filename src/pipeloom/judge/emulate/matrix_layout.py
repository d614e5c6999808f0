"""Which register and lane holds which element of a matrix instruction's operands and result.

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

Source: AMD matrix instruction calculator, CDNA3/CDNA4 ISA "MFMA".

What the bits of a matrix operand mean: the formats of A and B, and how they widen.

``widen`` turns words into elements along the last axis, in the order in which the words hold them.
Products of 16-bit and narrower floats are exact in f32; so are those of i8, and their sums over the
depth of any instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeloom.array_kinds import Array, Indices, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.formats import bf16_to_f32, float_table, fp8_names, unpack_bits
from pipeloom.judge.emulate.operands import unsupported
from pipeloom.judge.emulate.register_numbers import LANES
from pipeloom.machine.matrix_ops import F8F6F4

Widen = Callable[[Words], Array]


@dataclass(frozen=True, slots=True)
class Format:
    """Bits per element, how they widen, and how many elements along K lie together.

    ``chunk`` is 0 when a lane's elements are all neighbours along K.
    """

    bits: int
    widen: Widen
    chunk: int = 0


def _from_bf16(rows: Words) -> Array:
    return bf16_to_f32(rows.view(np.uint16))


def _from_f16(rows: Words) -> Array:
    return rows.view(np.float16).astype(np.float32)


def _from_xf32(rows: Words) -> Array:
    """TF32-like inputs: ten mantissa bits, rounded to nearest even."""
    rounded = rows + 0xFFF + (rows >> 13 & 1) & 0xFFFFE000
    return rounded.astype(np.uint32).view(np.float32)


def _from_float8(name: str) -> Widen:
    table = float_table(name)
    return lambda rows: table[rows.view(np.uint8)]


def _from_narrow(name: str, width: int) -> Widen:
    table = float_table(name)
    return lambda rows: table[unpack_bits(rows.view(np.uint8), width)]


def _narrow_format(code: int, instruction: Decoded) -> Format:
    """An f8f6f4 operand. 8-bit ones come in chunks of 16 along K, smaller ones whole.

    Lane group g of an 8-bit operand holds K = 16 g .. and K = depth/2 + 16 g .. (AMD, "Matrix Core
    Programming on AMD CDNA3 and CDNA4", 2025, section 5.4); of a 4-bit one K = 32 g ..
    """
    if code >= len(F8F6F4):
        raise unsupported(instruction, f"operand format {code}")
    narrow = F8F6F4[code]
    if narrow.bits == 8:
        return Format(8, _from_float8(narrow.layout), 16)
    return Format(narrow.bits, _from_narrow(narrow.layout, narrow.bits))


def operand_formats(kind: str, instruction: Decoded, arch: str) -> tuple[Format, Format]:
    """The formats of A and B, from the end of the instruction's name."""
    if kind == "f8f6f4":
        fields = instruction.fields
        return (
            _narrow_format(fields["cbsz"], instruction),
            _narrow_format(fields["blgp"], instruction),
        )
    fp8, bf8 = fp8_names(arch)
    plain = {
        "bf16": Format(16, _from_bf16),
        "f16": Format(16, _from_f16),
        "f32": Format(32, lambda rows: rows.view(np.float32)),
        "xf32": Format(32, _from_xf32),
        "f64": Format(64, lambda rows: rows.view(np.float64)),
        "i8": Format(8, lambda rows: rows.view(np.int8).astype(np.float32)),
        "fp8": Format(8, _from_float8(fp8)),
        "bf8": Format(8, _from_float8(bf8)),
    }
    names = kind.split("_") if "_" in kind else [kind, kind]
    if any(name not in plain for name in names):
        raise unsupported(instruction)
    return plain[names[0]], plain[names[1]]


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

    @property
    def dtype(self) -> type[np.generic]:
        """Of C and D."""
        return _RESULTS[self.result]

    def row_order(self) -> Indices:
        """Rows of A such that the product's rows come register by register, lane by lane."""
        rows = np.arange(self.side)
        if self.result == "f64" or self.side == 4:
            return rows
        return rows.reshape(-1, LANES // self.side, 4).transpose(0, 2, 1).ravel()

    def places(self, operand: Format, rows: Indices, sources: Indices) -> Indices:
        """The words of an operand, row by row along K: each one's register * 64 + lane.

        ``rows`` is the order of the rows, ``sources`` the block that serves each block.
        """
        words = self.words(operand)
        together = operand.chunk * operand.bits // 32 or words
        block, row, part, group, word = np.ix_(
            sources, rows, np.arange(words // together), np.arange(self.groups), np.arange(together)
        )
        lane = (group * self.blocks + block) * self.side + row
        place: Indices = (part * together + word) * LANES + lane
        return place.ravel()

    def operand(self, operand: Format, words: Words) -> Array:
        """Widened fragments, (fragment, block, row, k), from their words in order of ``places``."""
        return operand.widen(words.reshape(len(words), self.blocks, self.side, -1))

    def addend(self, registers: Words) -> Array:
        """C, (instruction, element, lane), from its registers."""
        if self.result == "f64":
            pairs = registers.reshape(-1, 2, LANES).transpose(0, 2, 1)
            registers = np.ascontiguousarray(pairs)
        return registers.view(self.dtype).reshape(-1, self.side**2 * self.blocks // LANES, LANES)

    def result_words(self, product: Array, addend: Array) -> Words:
        """The result's registers, one row each, of products whose rows are in ``row_order``."""
        if self.side == 4:
            product = product.swapaxes(1, 2)
        elements = product.reshape(len(product), -1, LANES)
        total = np.ascontiguousarray(elements.astype(self.dtype, copy=False) + addend)
        words = total.view(np.uint32)
        if self.result == "f64":
            words = words.reshape(-1, LANES, 2).transpose(0, 2, 1)
        return words.reshape(-1, LANES)
