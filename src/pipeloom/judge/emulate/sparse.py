"""Sparse matrix products (v_smfmac): D += A B, where A keeps two of every four elements along K.

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

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.matrix_layout import Shape, Values, Words, operand_formats
from pipeloom.judge.emulate.mfma import matrix_row
from pipeloom.judge.emulate.operands import unsupported
from pipeloom.judge.emulate.register_numbers import AGPR, LANES, VGPR, register_bits
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave

_NAME = re.compile(r"v_smfmac_(f32|i32)_(16|32)x\2x(\d+)_(\w+)$")


def build(instruction: Decoded, arch: str) -> MicroOp | None:
    """The step of a sparse matrix product, or None."""
    match = _NAME.match(instruction.name)
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

    def expand(rows: Words, index: Words) -> Values:
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
