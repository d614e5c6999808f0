"""What integers are in a meaning: sums of products are exact, vector ops see numbers of f32.

Matrix instructions add products of 8-bit integers up in 32 bits, modulo 2^32 (CDNA3 ISA, "Matrix
Arithmetic Instructions"; without clamp nothing saturates). Every other op computes in f32: an
integer is rounded to f32 before, to nearest even, and a result that is one is rounded to nearest
even, saturates, and is 0 where it was NaN. What is only moved, or converted to its own type, stays
as it is. Ops of bits see all of an i32, and take nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.machine.dtypes import F32, I32, DType
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.vocabulary import PRODUCTS, VOCABULARY, OpDef

WRAPS = 2.0**32


def exact_in_f32(dtype: DType) -> bool:
    """Whether an f32 has every value of a type."""
    return not dtype.is_integer or dtype.mantissa <= F32.mantissa


def is_whole_constant(number: float) -> bool:
    """Whether an i32 is a number, and an f32, which constants are, has it exactly."""
    whole = float(number).is_integer() and -(2**31) <= number < 2**31
    return whole and float(np.float32(number)) == number


def check_integers(node: Node, op: OpDef, operands: Sequence[Node]) -> None:
    """Refuse what an op of bits would not find as an i32."""
    for one in (*operands, node) if op.integers else ():
        constant = one.kind is NodeKind.CONSTANT and is_whole_constant(one.start or 0.0)
        if one.type.dtype != I32 and not constant:
            raise node.wrong(
                f"is of the bits of i32, and {one.name!r} is {one.type}",
                hint="convert operands, x.to(pl.I32), and let the result be one: dtype=pl.I32; "
                "numbers are whole, of an i32, and have at most 24 bits between first and last",
            )


def operand_of(node: Node, value: Array, used: Node, *, wide: bool) -> Array:
    """What an op sees of an operand; with ``wide`` all values are doubles."""
    if node.op in PRODUCTS:
        return value.astype(np.float64) if used.type.dtype.is_integer else value
    moved = node.op in ("convert", "swapped") and node.type.dtype == used.type.dtype
    known = VOCABULARY.get(node.op)
    if moved or known is None or known.integers or exact_in_f32(used.type.dtype):
        return value
    rounded = value.astype(np.float32)
    return rounded.astype(np.float64) if wide else rounded


def wrapped(node: Node, sums: Array) -> Array:
    """Sums of products as 32 bits have them; those of floating-point types as they are."""
    if node.op not in PRODUCTS or not node.type.dtype.is_integer:
        return sums
    return (sums + WRAPS / 2) % WRAPS - WRAPS / 2
