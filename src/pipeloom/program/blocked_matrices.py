"""Matrices that lie block by block: weights and scales that were shuffled once, for wide loads.

The array is again an array, of more dimensions: ``B[n // 16, k // 32, n % 16, k % 32]``. So its
place is an ``AddressMap`` whose indices are single digits, in another order than they are counted:

    row n counts (block, row), column k counts (chunk, element)
    array           blocks = block, chunks = chunk, rows = row, elements = element

Nothing of it is outside, and nothing but the numbers of blocks depends on sizes. So an address is
that of a matrix whose rows are as far apart as the rows of a block are on average, plus a place
within one row of blocks that is known when the kernel is made.

Where the array has no dimension for the rows of a block, all of them have the same elements: a
scale for each 128 x 128 of a matrix is ``S[n // 128, k // 128]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from pipeloom.array_kinds import Array, Places
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import E8M0
from pipeloom.program.index_forms import Digit
from pipeloom.program.nodes import Node, NodeKind


@dataclass(frozen=True, slots=True)
class BlockedMatrix:
    """Where an element lies, counted in elements from the beginning of its row of blocks."""

    rows: int
    """Of a block."""
    columns: int
    """Of a block, along the loop's dimension."""
    row_steps: tuple[tuple[Digit, int], ...]
    """The digits of a row within its block, and how far apart neighbours along each are."""
    column_steps: tuple[tuple[Digit, int], ...]
    """The same of a column."""
    blocks: tuple[str, str]
    """The array's dimensions that count blocks, down and across."""

    shared: bool = field(default=False, repr=False)
    """Whether the rows of a block are the same elements."""

    @property
    def together(self) -> int:
        """Rows of a block in memory."""
        return 1 if self.shared else self.rows

    @property
    def block(self) -> int:
        """Elements of a block, which lie together."""
        return self.together * self.columns

    @property
    def run(self) -> int:
        """Neighbours along the loop's dimension that follow each other."""
        fastest, step = self.column_steps[-1] if self.column_steps else (None, 0)
        return fastest.count if fastest is not None and step == 1 else 1

    def place(self, row: Places, column: Places) -> tuple[Places, Places]:
        """The first row of an element's block, and its place in that row of blocks.

        Args:
            row: Rows of elements.
            column: Their columns.
        """
        inner = _inner(row % self.rows, self.row_steps)
        inner = inner + _inner(column % self.columns, self.column_steps)
        return row - row % self.rows, column // self.columns * self.block + inner


def _inner(index: Places, steps: Sequence[tuple[Digit, int]]) -> Places:
    found = np.zeros_like(index)
    for digit, step in reversed(steps):
        index, part = np.divmod(index, digit.count)
        found = found + part * step
    return found


def blocked_matrix(node: Node) -> BlockedMatrix | None:
    """How a stream has a matrix in blocks; None where it lies otherwise.

    The array's dimensions are single digits: the numbers of blocks down and across first, then
    fixed ones.

    Args:
        node: The stream.
    """
    place = node.at
    if place is None or node.kind is not NodeKind.STREAM or place.entries:
        return None
    if [one.dim for one in place.counted] != list(node.type.dims) or len(place.counted) != 2:
        return None
    rows, columns = (one.digits for one in place.counted)
    digits = {digit.name: digit for digit in (*rows, *columns)}
    order = [name for one in place.indexed for name, _ in one.index.factors]
    forms = [one.index for one in place.indexed]
    first = [rows[0], columns[0]]
    inside = [digit for digit in rows[1:] if digit.name in order]
    shared = len(rows) > 1 and not inside
    if (
        sorted(order) != sorted({*digits} - ({d.name for d in rows[1:]} if shared else set()))
        or forms != [digits[name].form for name in order]
        or order[:2] != [digit.name for digit in first]
        or [digit.follows for digit in first] != list(place.dims[:2])
        or any(digit.along for digit in (*rows[1:], *columns[1:]))
        or len(columns) < 2
    ):
        return None
    counts = [digits[name].count for name in order]
    steps = {name: prod(counts[at + 1 :]) for at, name in enumerate(order)}
    return BlockedMatrix(
        prod(digit.count for digit in rows[1:]),
        prod(digit.count for digit in columns[1:]),
        tuple((digit, steps[digit.name]) for digit in inside),
        tuple((digit, steps[digit.name]) for digit in columns[1:]),
        (place.dims[0], place.dims[1]),
        shared,
    )


def in_blocks(node: Node, array: Array) -> Array:
    """A matrix as a stream of blocks has it; what is past its end is zero, or a scale of 1.

    Args:
        node: The stream.
        array: Rows and columns, the last dimensions: values, or codes as they lie in bytes.
    """
    found = blocked_matrix(node)
    if found is None or node.at is None or array.ndim < 2:
        raise ConfigError(
            f"{node.name} is no matrix in blocks, or the array has {array.ndim} dimensions",
            hint="say how it lies first: loop.shuffle('B'), and pass its rows and columns",
            field=node.name,
        )
    if found.shared:
        array = array[..., :: found.rows, :]
    dtype = node.type.dtype
    shared = max(8 // dtype.bits, 1) * dtype.covers if array.dtype.kind == "u" else 1
    units = (found.together, found.columns // shared)
    blocks = [-(-size // unit) for size, unit in zip(array.shape[-2:], units, strict=True)]
    spare = [
        (0, count * unit - size)
        for count, unit, size in zip(blocks, units, array.shape[-2:], strict=True)
    ]
    outer = array.ndim - 2
    one = E8M0.encode(np.ones(1))[0] if array.dtype.kind == "u" else 1
    fill = one if dtype.covers > 1 and not dtype.mantissa else 0
    padded = np.pad(array, [(0, 0)] * outer + spare, constant_values=fill)
    fast = found.column_steps[-1][0].name
    inner = [
        [d.count // (shared if d.name == fast else 1) for d, _ in steps]
        for steps in (found.row_steps, found.column_steps)
    ]
    cut = padded.reshape(*array.shape[:outer], blocks[0], *inner[0], blocks[1], *inner[1])
    steps = (*found.row_steps, *found.column_steps)
    inside = {*(digit.name for digit, _ in steps), *(one.digits[0].name for one in node.at.counted)}
    names = [d.name for one in node.at.counted for d in one.digits if d.name in inside]
    order = [names.index(name) for one in node.at.indexed for name, _ in one.index.factors]
    moved = cut.transpose(*range(outer), *(outer + axis for axis in order))
    return np.ascontiguousarray(moved)
