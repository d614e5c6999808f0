"""Functions of blocks of neighbours: each block of a dimension is seen together, and alone."""

from __future__ import annotations

from pipeloom.declare.functions import loop_of
from pipeloom.declare.tensor import Tensor


def swapped(x: Tensor, dim: str, size: int) -> Tensor:
    """The halves of each block of ``size`` elements change places.

    Of blocks of 2 each element is its neighbour: what rotary embeddings pair; of blocks of the
    size of a head, that half a head away.

    Args:
        x: The result of a product, or what is computed of one.
        dim: The dimension along which blocks lie.
        size: Elements of a block, an even number; sizes of arrays are multiples of it.
    """
    return loop_of("swapped", "x", x).in_blocks("swapped", x, dim, size)


def block_max(x: Tensor, dim: str, size: int) -> Tensor:
    """The largest of each block of ``size`` elements, a number for all of them.

    What is computed of such numbers alone, stays one for each block, and so does an output:
    ``loop.store("most", pl.block_max(x, "n", 32))`` stores n / 32 columns.

    Args:
        x: The result of a product, or what is computed of one.
        dim: The last dimension.
        size: Elements of a block, an even number; sizes of arrays are multiples of it.
    """
    return loop_of("block_max", "x", x).in_blocks("block_max", x, dim, size)


def block_amax(x: Tensor, dim: str, size: int) -> Tensor:
    """The largest size of an element of each block, a number for all of them: of ``abs(x)``.

    Args:
        x: The result of a product, or what is computed of one.
        dim: The last dimension.
        size: Elements of a block, an even number; sizes of arrays are multiples of it.
    """
    return loop_of("block_amax", "x", x).in_blocks("block_amax", x, dim, size)


def power_below(x: Tensor) -> Tensor:
    """The largest power of two that is not above the size of an element, in one instruction.

    Of what is below 2^-126 it is 0, and of infinity and NaN infinity.

    Args:
        x: Any value.
    """
    return loop_of("power_below", "x", x).apply("power_below", x)
