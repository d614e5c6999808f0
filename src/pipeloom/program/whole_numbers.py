"""What integers are in a meaning: sums of products are exact, vector ops see numbers of f32.

Matrix instructions add products of 8-bit integers up in 32 bits, modulo 2^32 (CDNA3 ISA, "Matrix
Arithmetic Instructions"; without clamp nothing saturates). Every other op computes in f32: an
integer is rounded to f32 before, to nearest even, and a result that is one is rounded to nearest
even, saturates, and is 0 where it was NaN. What is only moved, or converted to its own type, stays
as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.machine.dtypes import F32, DType
from pipeloom.program.nodes import Node
from pipeloom.program.vocabulary import PRODUCTS, VOCABULARY

Array = NDArray[Any]
WRAPS = 2.0**32


def exact_in_f32(dtype: DType) -> bool:
    """Whether an f32 has every value of a type."""
    return not dtype.is_integer or dtype.mantissa <= F32.mantissa


def operand_of(node: Node, value: Array, used: Node, *, wide: bool) -> Array:
    """What an op sees of an operand; with ``wide`` all values are doubles."""
    if node.op in PRODUCTS:
        return value.astype(np.float64) if used.type.dtype.is_integer else value
    moved = node.op == "convert" and node.type.dtype == used.type.dtype
    if moved or node.op not in VOCABULARY or exact_in_f32(used.type.dtype):
        return value
    rounded = value.astype(np.float32)
    return rounded.astype(np.float64) if wide else rounded


def wrapped(node: Node, sums: Array) -> Array:
    """Sums of products as 32 bits have them; those of floating-point types as they are."""
    if node.op not in PRODUCTS or not node.type.dtype.is_integer:
        return sums
    return (sums + WRAPS / 2) % WRAPS - WRAPS / 2
