"""The orders in which weights and scales are shuffled once, for loads straight to registers.

elements    a lane's 16 bytes of a row follow those of the row before: a load of 64 lanes is
            1024 bytes that lie together (ROCm/aiter e404860, shuffle_weight)
scales      row 32 a + 16 b + c and block 8 d + 4 e + f at byte 256 (a, d) + 64 f + 4 c + 2 e + b:
            a dword has what a lane needs in four products of 16 x 16 x 128, which ``op_sel``
            tells apart (ROCm/aiter e404860, shuffle_scale)
"""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.program.address_maps import AddressMap, CountedDim, IndexedDim
from pipeloom.program.index_forms import Digit
from pipeloom.program.nodes import Node

ROWS = 16
"""Of a matrix instruction."""
GROUPS = 4
"""Of its lanes, each with a part of K."""
HALVES = 2
"""Blocks of rows, and steps of K, whose scales share a register."""


def shuffled_place(node: Node, over: str) -> AddressMap:
    """Where a stream's tile lies in an array that was shuffled for matrix instructions.

    Args:
        node: The stream: rows, and the loop's dimension.
        over: The loop's dimension.
    """
    if len(node.type.dims) != 2 or node.type.dims[-1] != over:
        raise ConfigError(
            f"{node.name} is {node.type}, and rows with {over!r} last are shuffled",
            hint=f"declare it with a dimension of rows, and {over!r} behind it",
            field=node.name,
        )
    dtype, name = node.type.dtype, node.name

    def fixed(what: str, count: int) -> Digit:
        return Digit(f"{name}_{what}", count)

    blocks = Digit(f"{name}_blocks", along=f"{name}_blocks")
    chunks = Digit(f"{name}_chunks", along=f"{name}_chunks")
    row = fixed("row", ROWS)
    if dtype.covers == 1:
        element = fixed("element", LOAD_BYTES * 8 // dtype.bits)
        rows: tuple[Digit, ...] = (blocks, row)
        columns: tuple[Digit, ...] = (chunks, element)
        order: tuple[Digit, ...] = (blocks, chunks, row, element)
    else:
        block, step = fixed("block", HALVES), fixed("step", HALVES)
        group, element = fixed("group", GROUPS), fixed("element", dtype.covers)
        rows, columns = (blocks, block, row), (chunks, step, group, element)
        order = (blocks, chunks, group, row, step, block, element)
    counted = zip(node.type.dims, (rows, columns), strict=True)
    return AddressMap(
        tuple(CountedDim(dim, digits) for dim, digits in counted),
        tuple(IndexedDim(digit.name, digit.form) for digit in order),
    )
