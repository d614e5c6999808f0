"""What the bits of a matrix operand mean: the formats of A and B, and how they widen.

``widen`` turns words into elements along the last axis, in the order in which the words hold them.
Products of 16-bit and narrower floats are exact in f32; so are those of i8, and their sums over the
depth of any instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.formats import bf16_to_f32, float_table, fp8_names, unpack_bits
from pipeloom.judge.emulate.operands import unsupported
from pipeloom.machine.matrix_ops import F8F6F4

Words = npt.NDArray[np.uint32]
Values = npt.NDArray[Any]
Widen = Callable[[Words], Values]


@dataclass(frozen=True, slots=True)
class Format:
    """Bits per element, how they widen, and how many elements along K lie together.

    ``chunk`` is 0 when a lane's elements are all neighbours along K.
    """

    bits: int
    widen: Widen
    chunk: int = 0


def _from_bf16(rows: Words) -> Values:
    return bf16_to_f32(rows.view(np.uint16))


def _from_f16(rows: Words) -> Values:
    return rows.view(np.float16).astype(np.float32)


def _from_xf32(rows: Words) -> Values:
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
