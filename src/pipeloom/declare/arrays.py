"""What a declaration says of its arrays beyond tiles: batches, alignment, where tiles lie.

The orders in which weights and scales are shuffled once, for loads straight to registers.

elements    a lane's 16 bytes of a row follow those of the row before: a load of 64 lanes is
            1024 bytes that lie together (ROCm/aiter e404860, shuffle_weight)
scales      row 32 a + 16 b + c and block 8 d + 4 e + f at byte 256 (a, d) + 64 f + 4 c + 2 e + b:
            a dword has what a lane needs in four products of 16 x 16 x 128, which ``op_sel``
            tells apart (ROCm/aiter e404860, shuffle_scale)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from pipeloom.checks import check_known
from pipeloom.declare.tensor import Tensor
from pipeloom.declare.values import DeclaredValues, tile_of
from pipeloom.errors import ConfigError, GraphError
from pipeloom.machine.target import LOAD_BYTES, REGISTER_BYTES
from pipeloom.program.address_maps import AddressMap, CountedDim, IndexedDim, Sum, address_map
from pipeloom.program.blocked_matrices import blocked_matrix, in_blocks
from pipeloom.program.index_forms import Digit, DigitSum, IndexEntry
from pipeloom.program.nodes import ChosenDim, Node, NodeKind
from pipeloom.program.problem_spans import ProblemSpan

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop

ROWS = 16
"""Of a matrix instruction."""
GROUPS = 4
"""Of its lanes, each with a part of K."""
HALVES = 2
"""Blocks of rows, and steps of K, whose scales share a register."""


class DeclaredArrays(DeclaredValues):
    """The part of a ``Loop`` that is about arrays."""

    over: str

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._indices: dict[str, IndexEntry] = {}
        self._span: ProblemSpan | None = None

    def batch(self, *arrays: str, over: tuple[str, ...]) -> None:
        """Inputs and outputs have these dimensions too, before those of their tiles.

        Everything is done for each index of them; an input that lacks one is the same for all.

        Args:
            *arrays: Inputs and outputs by name.
            over: The dimensions, outermost first.
        """
        for name in arrays:
            self._nodes[name] = replace(self._array(name), batch=tuple(over))

    def align(self, *arrays: str, to: int) -> None:
        """Inputs begin at, and have rows of, whole multiples of so many bytes; 16 unless said.

        Args:
            *arrays: Inputs by name.
            to: 4 or 16, and loads straight to LDS are no wider; or 1 or 2, down to the size of an
                element, and the array is loaded to registers element by element.
        """
        for name in arrays:
            self._nodes[name] = replace(self._array(name), align=to)

    def stage(self, name: str) -> None:
        """Keep a value in LDS between global memory and registers.

        Args:
            name: The value's name.
        """
        node = self._nodes[name]
        self._staged[node.uses[0] if node.kind is NodeKind.VIEW else name] = None

    def view(self, name: str, of: Tensor, **dims: int) -> Tensor:
        """The first elements of a stream's or resident's tile, under dimensions of their own.

        For what one product reads along rows and another along columns: ``V`` of the same cache as
        ``K``, ``loop.view("V", k, keys=32, v=512)``. There is one array, and one tile in LDS.

        Args:
            name: The view's name.
            of: The stream or resident.
            **dims: Sizes by dimension, in the order of the tile's. One that is called as there has
                all of it.
        """
        source = self._operand(of)
        if of.type != self.type_of(source):
            raise ConfigError(
                f"the view {name!r} is of {source!r} transposed, {of.type}, and its tile lies as "
                f"{self.type_of(source)}",
                hint=f"loop.view({name!r}, {source}, ...), which may be transposed itself",
                field=name,
            )
        kind = tile_of(name, of.type.dtype, dims)
        made = Node(name=name, kind=NodeKind.VIEW, type=kind, uses=(source,))
        return Tensor(cast("Loop", self), self._add(made))

    @property
    def staged(self) -> tuple[str, ...]:
        """What goes through LDS: not what is aligned to less than a load to LDS brings to a lane.

        Such an array is loaded element by element, straight to registers.
        """
        nodes = self._nodes
        return tuple(name for name in self._staged if nodes[name].align >= REGISTER_BYTES)

    def place(
        self,
        array: str,
        at: AddressMap | None = None,
        /,
        **dims: Sequence[Digit] | Sum,
    ) -> None:
        """A stream's tile lies in an array that has other dimensions; outside it reads as zero.

        A tuple of digits is a dimension of the tile, as a number of mixed radix, the last digit
        fastest. Anything else is a dimension of the array, outermost first, with the index along
        it: ``loop.place("X", m=(b, p), k=(r, c), images=b, h=2 * p + r - 1, channels=c)``.

        Args:
            array: The stream's name.
            at: All of that as one value, instead.
            **dims: Tuples of digits, and indices.
        """
        node = replace(self._array(array), at=at or address_map(dims, self._known_entries(dims)))
        matrix = blocked_matrix(node)
        if matrix is not None and matrix.shared and self._users(array):
            raise ConfigError(
                f"{array!r} has one element for {matrix.rows} rows, and is used already",
                hint=f"say loop.place({array!r}, ...) right behind its declaration: what is "
                "computed of it has one number for them, too",
                field=array,
            )
        self._nodes[array] = node

    def shuffle(self, *arrays: str) -> None:
        """Streams lie in memory as lanes take them, so that loads need no LDS and are wide.

        Elements: ``X[rows // 16, bytes of k // 16, 16 rows, 16 bytes]``. Scales of blocks of 32
        elements: by 32 rows and 256 elements, four codes of a lane in a dword. ``shuffled`` makes
        such an array.

        Args:
            *arrays: Streams of a row dimension and the loop's, by name.
        """
        for name in arrays:
            self.place(name, shuffled_place(self._array(name), self.over))

    def shuffled(self, array: str, values: NDArray[Any]) -> NDArray[Any]:
        """A matrix as a stream has it that lies in blocks, filled up to whole ones.

        Args:
            array: The stream's name.
            values: Rows and columns, the last dimensions: values, or unsigned codes as they lie in
                bytes (two of 4 bits share one).
        """
        return in_blocks(self._array(array), np.asarray(values))

    def indices(self, array: str, dim: str | Digit, *, per: str = "") -> IndexEntry:
        """An array of i32 with an entry for each index along a dimension: rows to gather.

        Use it, or ``part`` of its bits, as an index in ``loop.place``. A stream reads zeros where
        that lies outside, and an output is not stored there. Of an output's rows, each may be
        named once.

        Args:
            array: The index array's name.
            dim: The dimension of the tile; or a digit of the loop's dimension, counted by the
                length of the index array, for pages of several elements.
            per: A dimension of the batch, which the array has before its own: a table for each.
        """
        digit = dim if isinstance(dim, Digit) else None
        along = dim if isinstance(dim, str) else dim.along
        name = "" if digit is None else digit.name
        self._indices[array] = IndexEntry(array, array, along, digit=name, per=per)
        return self._indices[array]

    def choose(self, *arrays: str, over: str, by: str, per: str) -> None:
        """Of a further dimension of inputs, each workgroup takes one index: that of its expert.

        Where that lies outside of the array, -1 for example, the workgroup ends at once.

        Args:
            *arrays: Inputs by name.
            over: The dimension, which stands before those of the tile.
            by: The index array's name: i32, with an entry for each block.
            per: The dimension of the outputs along which blocks are counted.
        """
        for name in arrays:
            node = self._array(name)
            self._nodes[name] = replace(node, chosen=(*node.chosen, ChosenDim(over, by, per)))

    def adds(self, *outputs: str) -> None:
        """Outputs of f32 are added to what their arrays hold, by atomic instructions.

        So index arrays may name a row any number of times, problems of a batch that such an output
        lacks are added up, and launches may follow each other. The order of additions is nobody's:
        where sums round, results may differ from launch to launch.

        Args:
            *outputs: Outputs by name, stored after the loop.
        """
        for name in outputs:
            self._nodes[name] = replace(self._array(name), adds=True)

    def lengths(self, array: str, *, per: str) -> None:
        """Problems of the batch differ in how many elements they have along the loop's dimension.

        What lies behind the end of one reads as zero, and ``left`` counts to it.

        Args:
            array: The index array's name: i32, with an entry for each index of ``per``. Below 0
                counts as 0, more than the arrays have as what they have.
            per: The dimension of the batch.
        """
        self._span = replace(self._span or ProblemSpan(), lengths=array, per=per)

    def share(self, dim: str) -> None:
        """Problems along a dimension of the batch share the tiles of one loop.

        Each takes as many tiles as the others, the last ones fewer or none, and stores what it has
        found by itself; another kernel puts that together.

        Args:
            dim: The dimension of the batch, which the outputs have and streams may lack.
        """
        self._span = replace(self._span or ProblemSpan(), shares=dim)

    def turns(self, dim: str) -> None:
        """The loop goes along its dimension once for each index of another, one after the other.

        What is carried goes on: sums are over all of them. ``left`` counts within a turn, and so
        does ``since``; a tile never reaches into the next turn.

        Args:
            dim: The last dimension that all streams have before those of their tiles.
        """
        self._span = replace(self._span or ProblemSpan(), turns=dim)

    def _known_entries(self, dims: Mapping[str, object]) -> list[IndexEntry]:
        """Those that sums name: ``ids``, or ``ids[0:24]``, of a dimension without digits."""
        digits = {d.name for v in dims.values() if isinstance(v, tuple | list) for d in v}
        sums = [v.form for v in dims.values() if isinstance(v, DigitSum)]
        names = dict.fromkeys(n for form in sums for n, _ in form.factors if n not in digits)
        found = []
        for name in names:
            array, _, bits = name.partition("[")
            if array in self._indices:
                low, _, stop = bits.rstrip("]").partition(":")
                whole = self._indices[array]
                found.append(whole.part(int(low), int(stop) - int(low)) if bits else whole)
        return found

    def _array(self, name: str) -> Node:
        check_known(
            name, self._nodes, f"loop {self.name!r} has no array {name!r} yet", name, GraphError
        )
        return self._nodes[name]

    @property
    def fixed_tiles(self) -> int | None:
        """How many iterations there are where the place of a stream says it, else None."""
        found = [
            -(-node.at.sizes({})[self.over] // node.type.sizes[self.over])
            for node in self._nodes.values()
            if node.at is not None
            and self.over in node.type.dims
            and not any(d.along for d in node.at.digits(self.over))
        ]
        return max(found, default=None)

    def tiled(self, sizes: Mapping[str, int]) -> Self:
        """The same with other tiles along some dimensions; arrays have the sizes that they have.

        Args:
            sizes: The tile's size by dimension.
        """

        def resized(node: Node) -> Node:
            kind = node.type
            shape = tuple(sizes.get(d, s) for d, s in zip(kind.dims, kind.shape, strict=True))
            return replace(node, type=replace(kind, shape=shape))

        other = copy(self)
        other._nodes = {name: resized(node) for name, node in self._nodes.items()}
        return other

    def unplaced(self) -> Self | None:
        """The same with all arrays as matrices, whose loop is the same; None if they are. Where a
        matrix lies in blocks, loads are others."""
        nodes = {
            name: replace(node, at=node.at if blocked_matrix(node) else None, chosen=())
            for name, node in self._nodes.items()
        }
        if nodes == self._nodes:
            return None
        other = copy(self)
        other._nodes = nodes
        return other


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
