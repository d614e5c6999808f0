"""The matrix unit: D = A B + C, from any of its operand formats (``matrix_layout``).

Where the elements lie is a matter of ``matrix_layout``, when they are multiplied of
``matrix_batch``. Sums are f32 (f64, i32) in an order of NumPy's choosing, where hardware has its
own. MFMA ignores EXEC.

Sparse matrix products (v_smfmac): D += A B, where A keeps two of every four elements along K.

A lane holds half as many elements of A as of B. Elements 2 p and 2 p + 1 of the lane are elements
4 p + i and 4 p + j of its share of K, with i and j two bits each of the lane's index register,
lowest first:

    index ...1100 (j = 3, i = 0)   a0 a1   ->   a0 0 0 a1

The register holds several sets of indices where they are narrower than it; abid picks one, unless
cbsz is set. Source: CDNA3 ISA, "Sparse Matrix FMA" and the description of CBSZ and ABID there, and
AMD's matrix instruction calculator for CDNA3: a lane's share of B is neighbours along K. It does
not have gfx950's products of twice the depth; theirs are taken to be laid out alike.
"""

from __future__ import annotations

import re

import numpy as np

from pipeloom.array_kinds import Array, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.matrix_batch import BatchKind, BatchProduct, hold
from pipeloom.judge.emulate.matrix_layout import Shape, operand_formats
from pipeloom.judge.emulate.operands import ReadOperand, constant, unsupported, word_source
from pipeloom.judge.emulate.register_numbers import AGPR, LANES, VGPR, register_bits
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave

_NAME = re.compile(r"v_mfma(?:_scale)?_(f32|i32|f64)_(4|16|32)x\2x(\d+)(?:_(\d+)b)?_(\w+)$")
_KIND_FIELDS = ("cbsz", "abid", "blgp")


def _shape(instruction: Decoded, arch: str) -> Shape:
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


def _kind(shape: Shape, instruction: Decoded) -> BatchKind:
    """cbsz and abid: of every 2**cbsz blocks of A, block number abid serves them all."""
    blocks = np.arange(shape.blocks)
    sources = blocks
    if shape.blocks > 1 and instruction.fields["cbsz"]:
        size = instruction.fields["cbsz"]
        sources = blocks >> size << size | instruction.fields["abid"]
    return BatchKind(
        shape,
        shape.places(shape.a, shape.row_order(), sources),
        shape.places(shape.b, np.arange(shape.side), blocks),
    )


def build(instruction: Decoded, arch: str) -> MicroOp | None:
    """The step of an MFMA or a sparse one, or None."""
    if not instruction.name.startswith("v_mfma"):
        return _build_sparse(instruction, arch)
    shape = _shape(instruction, arch)
    fields = instruction.fields
    accumulators = fields.get("acc", fields.get("opsel_hi", 0))
    # The decoder has no matrix class for the xf32 opcodes: acc and acc_cd arrive under the names
    # of the packed encoding, in the same bits.
    in_agprs = bool(fields.get("acc_cd", fields.get("clmp", 0)))
    a = matrix_row(fields["src0"], bool(accumulators & 1), instruction)
    b = matrix_row(fields["src1"], bool(accumulators & 2), instruction)
    d = fields["vdst"] + (AGPR - VGPR if in_agprs else 0)
    reads = register_bits(VGPR + a, shape.words(shape.a))
    reads |= register_bits(VGPR + b, shape.words(shape.b))
    c, addend = None, _constant_addend(shape, instruction)
    if fields["src2"] >= VGPR:
        c = matrix_row(fields["src2"], in_agprs, instruction)
        reads |= register_bits(VGPR + c, shape.words_d)
    scales = None
    if "_scale_" in instruction.name:
        of_a, of_b = _scale(instruction, 0), _scale(instruction, 1)
        scales = of_a.read, of_b.read
        reads |= of_a.registers | of_b.registers
    writes = register_bits(VGPR + d, shape.words_d)
    key = (
        instruction.name,
        *(fields.get(name) for name in _KIND_FIELDS),
        addend.tobytes(),
        c is None,
    )
    product = BatchProduct(
        key, _kind(shape, instruction), a, b, d, c, addend, scales, reads, writes
    )

    def run(wave: Wave) -> None:
        hold(wave, product)

    return MicroOp(instruction, run, reads, writes, whole_wave=True, holds=True)


def matrix_row(code: int, in_agpr: bool, instruction: Decoded) -> int:
    """The first row of the register file of a matrix operand."""
    if code < VGPR:
        raise unsupported(instruction, "matrix operand that is no vector register")
    return code - VGPR + (AGPR - VGPR if in_agpr else 0)


def _constant_addend(shape: Shape, instruction: Decoded) -> Array:
    code = instruction.fields["src2"]
    value = constant(code, shape.result, instruction) if code < VGPR else 0
    if value is None:
        raise unsupported(instruction, "scalar addend")
    bits, mask = (np.uint64, (1 << 64) - 1) if shape.result == "f64" else (np.uint32, (1 << 32) - 1)
    return np.array([value & mask], bits).view(shape.dtype)


def _scale(instruction: Decoded, position: int) -> ReadOperand:
    """op_sel picks the byte of the scale's register."""
    fields = instruction.fields
    byte = (fields["opsel"] >> position & 1) | (fields["opsel_hi"] >> position & 1) << 1
    words = word_source(fields[f"scale_src{position}"], "u32", instruction)
    return words.then(lambda codes: codes >> np.uint32(8 * byte) & np.uint32(0xFF))


_SPARSE = re.compile(r"v_smfmac_(f32|i32)_(16|32)x\2x(\d+)_(\w+)$")


def _build_sparse(instruction: Decoded, arch: str) -> MicroOp | None:
    """The step of a sparse matrix product, or None."""
    match = _SPARSE.match(instruction.name)
    if match is None:
        return None
    fields = instruction.fields
    a_format, b_format = operand_formats(match[4], instruction, arch)
    shape = Shape(int(match[2]), int(match[3]), 1, a_format, b_format, match[1])
    kept = shape.depth // shape.groups // 2
    if fields["blgp"] or fields["src2"] < VGPR:
        raise unsupported(instruction, "blgp, or an index that is no vector register")
    bits = 2 * kept
    sets = 32 // bits
    shift = 0 if fields["cbsz"] else bits * (fields["abid"] % sets)
    a = matrix_row(fields["src0"], bool(fields["acc"] & 1), instruction)
    b = matrix_row(fields["src1"], bool(fields["acc"] & 2), instruction)
    d = fields["vdst"] + (AGPR - VGPR if fields["acc_cd"] else 0)
    chosen = fields["src2"] - VGPR
    words_a, words_b = shape.words(a_format) // 2, shape.words(b_format)
    words_d = shape.words_d
    order = shape.row_order()
    places = shape.places(b_format, np.arange(shape.side), np.zeros(1, np.intp)) + b * LANES
    lanes = np.arange(LANES)[:, None]
    quads = 4 * (np.arange(kept) // 2)

    def expand(rows: Words, index: Words) -> Array:
        values = a_format.widen(rows)
        columns = quads + (index[:, None] >> (shift + 2 * np.arange(kept)) & 3)
        full = np.zeros((LANES, 2 * kept), values.dtype)
        np.add.at(full, (lanes, columns), values)
        parts = full.reshape(shape.groups, shape.side, -1)
        return parts.transpose(1, 0, 2)[order].reshape(shape.side, shape.depth)

    def run(wave: Wave) -> None:
        v = wave.v
        left = expand(np.ascontiguousarray(v[a : a + words_a].T), v[chosen])
        right = shape.operand(b_format, v.reshape(-1).take(places[None]))
        product = left @ right.swapaxes(-1, -2)
        v[d : d + words_d] = shape.result_words(product, shape.addend(v[d : d + words_d]))

    reads = register_bits(VGPR + a, words_a) | register_bits(VGPR + b, words_b)
    reads |= 1 << fields["src2"] | register_bits(VGPR + d, words_d)
    return MicroOp(instruction, run, reads, register_bits(VGPR + d, words_d), whole_wave=True)
