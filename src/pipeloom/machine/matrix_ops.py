"""Matrix instructions: what one computes, and which one a name in a table or a listing means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.dtypes import F32, I32, DType
from pipeloom.machine.facts import Fact


@dataclass(frozen=True, slots=True)
class MatrixOp:
    """One MFMA instruction: an m x n x k product of one wave."""

    m: int
    """Rows of the result."""
    n: int
    """Columns of the result."""
    k: int
    """Products summed into each element of the result."""
    dtype: str
    """The name of the input type in streams and tables, such as ``f16`` or ``fp8``."""
    cycles: Fact[int]
    """How long it holds the matrix unit, in cycles."""
    scaled: bool = False
    """The block-scaled form, which carries a hidden load of the scales."""
    takes: tuple[str, ...] = ()
    """The element types that it multiplies, where their names differ from ``dtype``."""
    mixes: bool = False
    """Whether its two operands may be of different types of ``takes``."""

    def multiplies(self, *types: str, scaled: bool = False) -> bool:
        """Whether it takes operands of these element types together, with block scales or plain.

        Args:
            *types: Element types by name, one or both operands'.
            scaled: Whether the operands come with block scales.
        """
        given = set(types)
        if len(given) > 1 and not self.mixes:
            return False
        return self.scaled is scaled and given <= set(self.operands)

    @property
    def operands(self) -> tuple[str, ...]:
        """The element types that it multiplies."""
        return self.takes or (self.dtype,)

    @property
    def result_registers(self) -> int:
        """Registers per lane of its f32 result."""
        return self.m * self.n // WAVE_LANES

    @property
    def name(self) -> str:
        """The name used in streams and tables, for example ``16x16x32_f16``."""
        suffix = "_scaled" if self.scaled else ""
        return f"{self.m}x{self.n}x{self.k}_{self.dtype}{suffix}"

    @property
    def flops(self) -> int:
        """Floating-point operations of one instruction."""
        return 2 * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class NarrowFormat:
    """What the bits of an f8f6f4 operand mean. Of 32 elements, a lane has ``bits`` registers."""

    dtype: str
    """The name used in streams and tables."""
    layout: str
    """Bits of exponent and mantissa."""
    bits: int
    """Of an element."""


F8F6F4 = (
    NarrowFormat("fp8", "e4m3", 8),
    NarrowFormat("bf8", "e5m2", 8),
    NarrowFormat("fp6", "e2m3", 6),
    NarrowFormat("bf6", "e3m2", 6),
    NarrowFormat("fp4", "e2m1", 4),
)
"""Formats of the f8f6f4 instructions, which take any two, by cbsz (of A) and blgp (of B); always
OCP's, on any chip (CDNA4 ISA, "F8F6F4")."""


def f8f6f4_bits(code: int) -> int:
    """Bits of an element by cbsz or blgp; of codes that mean nothing, the most."""
    return F8F6F4[code].bits if code < len(F8F6F4) else 8


def summed_in(dtype: DType) -> DType:
    """What the matrix unit adds up products of a type in."""
    return I32 if dtype.is_integer else F32


def matrix_op_named(name: str, ops: Sequence[MatrixOp]) -> MatrixOp | None:
    """The instruction of ``ops`` that a name means (``Target.matrix_op`` says which forms it may
    have); None where it means none of them."""
    exact = [op for op in ops if op.name == name]
    if exact:
        return exact[0]
    if "smfmac" in name:  # Sparse: no record is of one, and dense ones of its shape take longer.
        return None
    shape = re.search(r"(?<!\d)(\d{1,4})x(\d{1,4})x(\d{1,4})(?!\d)", name)
    if shape is None:
        return None
    m, n, k = (int(part) for part in shape.groups())
    text = name.lower()
    found = [op for op in ops if (op.m, op.n, op.k) == (m, n, k)]
    scaled = "scale" in text or "mxfp" in text
    found = [op for op in found if op.scaled == scaled]
    wanted = _dtype_in(text[shape.end() :] + " " + text[: shape.start()])
    if wanted is not None:
        found = [op for op in found if op.dtype == wanted]
    return found[0] if found else None


# The spellings of an input type and the name this package uses for it. The first that occurs in
# a name decides, so longer spellings come before those they contain.
_DTYPE_SPELLINGS = (
    ("mxfp4", "fp4"),
    ("fp4", "fp4"),
    ("fp6", "fp6"),
    ("bf6", "fp6"),
    ("mxfp8", "fp8"),
    ("f8f6f4", "fp8"),
    ("bf8", "fp8"),
    ("fp8", "fp8"),
    ("xf32", "xf32"),
    ("bf16", "f16"),
    ("fp16", "f16"),
    ("f16", "f16"),
    ("f64", "f64"),
    ("i8", "i8"),
)


def _dtype_in(text: str) -> str | None:
    """The input type a name mentions; bf16 and f16, and bf8 and fp8, run at one speed."""
    for spelling, dtype in _DTYPE_SPELLINGS:
        if spelling in text:
            return dtype
    # What is left may say f32 for the accumulator (`f32_16x16x32`), which decides nothing, or
    # for the input (`16x16x4_f32`).
    return "f32" if re.match(r"_?f(p)?32\b", text) else None
