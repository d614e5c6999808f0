"""The values of a declaration, one by one: what gives each, its type, when it has values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pipeloom.errors import GraphError
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.plain import LEFT_OUT_WHILE_USUAL
from pipeloom.program.address_maps import AddressMap
from pipeloom.program.tiles import TileType

POSITIVE = (2.0**-64, 2.0**24)
"""What a positive scalar is between: far enough from 0 and from infinity that a product with a
number of usual size is neither."""
NARROW = 4
"""Bytes of the narrowest load to LDS."""
ALIGNMENTS = (1, 2, NARROW, LOAD_BYTES)
"""What arrays may be aligned to, in bytes: loads straight to LDS take one of the last two; below
that, arrays are loaded to registers, element by element."""


class NodeKind(Enum):
    """What gives a node its value."""

    STREAM = "stream"
    """A tile of global memory per iteration."""
    RESIDENT = "resident"
    """A tile of global memory, the same in every iteration."""
    VIEW = "view"
    """The first elements of a tile of global memory, under dimensions of their own: what a product
    reads along another side than the tile's other users do."""
    SCALAR = "scalar"
    """A kernel argument."""
    CONSTANT = "constant"
    """A number written in the declaration."""
    LEFT = "left"
    """How many elements are left along a dimension, from each one on."""
    SIZE = "size"
    """How many elements the arrays have along a dimension."""
    CARRY = "carry"
    """The update's value of the iteration before."""
    OP = "op"
    """What an op of the vocabulary gives."""
    OUTPUT = "output"
    """A value stored to global memory."""

    @property
    def is_input(self) -> bool:
        """Whether its value comes from outside."""
        return self not in (NodeKind.CARRY, NodeKind.OP, NodeKind.OUTPUT, NodeKind.VIEW)

    @property
    def is_number(self) -> bool:
        """Whether a step reads it by name and needs no place for it."""
        return self in (NodeKind.SCALAR, NodeKind.CONSTANT) or self.is_place

    @property
    def is_place(self) -> bool:
        """Whether it follows from the sizes of the arrays and where a block stands."""
        return self in (NodeKind.LEFT, NodeKind.SIZE)


class Region(Enum):
    """When a node has values: once before the loop, in every iteration, or once after it."""

    BEFORE = 0
    """Once, before the loop."""
    LOOP = 1
    """In every iteration."""
    AFTER = 2
    """Once, after the loop."""


@dataclass(frozen=True, slots=True)
class ChosenDim:
    """A dimension of an array of which a workgroup takes one index: that of an expert."""

    dim: str
    """The array's dimension."""
    index: str
    """The index array, of i32, that says which, with an entry for each block."""
    per: str
    """The dimension of the grid that its blocks are counted along."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of neighbours along a dimension, from its first element on."""

    dim: str
    """The dimension."""
    size: int
    """Elements of each block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value of the declaration."""

    name: str
    """The value's name, unique in the loop."""
    kind: NodeKind
    """What gives it its value."""
    type: TileType
    """The dimensions, sizes and element type of one tile of it."""
    op: str = ""
    """The op's name in the vocabulary, for an OP."""
    uses: tuple[str, ...] = ()
    """The operands by name. A CARRY uses its update, an OUTPUT what it stores, a VIEW its tile."""
    init: str | None = None
    """A value to which a reducing op adds its result (``C += A @ B``)."""
    start: float | None = None
    """What a CARRY starts with, the number of a CONSTANT, or a SCALAR's usual value."""
    region: Region = Region.LOOP
    """When it has values."""
    when: str | None = None
    """A condition by name: where it holds the node has its op's value, elsewhere that of
    ``otherwise``. The kernel may then skip the work."""
    otherwise: str | None = None
    """The value where ``when`` does not hold."""
    batch: tuple[str, ...] = ()
    """Dimensions of an input's or output's array before those of its tile. Everything is done for
    each index of them, by workgroups of its own; an array that lacks one is the same for all
    indices (the keys of grouped heads)."""
    positive: bool = False
    """A SCALAR that the declaration relies on being within ``POSITIVE``; launches refuse others."""
    align: int = field(default=LOAD_BYTES, metadata=LEFT_OUT_WHILE_USUAL)
    """What the beginning and the rows of an input's array are whole multiples of, in bytes. Loads
    straight to LDS are no wider than that."""
    at: AddressMap | None = field(default=None, metadata=LEFT_OUT_WHILE_USUAL)
    """Where the tile of a STREAM or OUTPUT lies in an array that has other dimensions than it."""
    chosen: tuple[ChosenDim, ...] = field(default=(), metadata=LEFT_OUT_WHILE_USUAL)
    """Dimensions of an input's array, behind those of the batch, of which an index array chooses
    one index for each workgroup. A workgroup whose index lies outside stores nothing."""

    along: str | None = field(default=None, metadata=LEFT_OUT_WHILE_USUAL)
    """The dimension that a SIZE is of."""
    adds: bool = field(default=False, metadata=LEFT_OUT_WHILE_USUAL)
    """Of an OUTPUT: whether it is added to what its array holds, atomically. Which workgroup adds
    first is not said, so sums that round may differ between launches."""
    within: Blocks | None = field(default=None, metadata=LEFT_OUT_WHILE_USUAL)
    """The blocks in each of which an op is computed alone."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the array of an input or output."""
        return self.outer + self.array_dims

    @property
    def outer(self) -> tuple[str, ...]:
        """Dimensions of the array before those of its tile: of the batch, and chosen ones."""
        return self.batch + tuple(one.dim for one in self.chosen)

    @property
    def array_dims(self) -> tuple[str, ...]:
        """The same without those of the batch."""
        return self.type.dims if self.at is None else self.at.dims

    @property
    def operands(self) -> tuple[str, ...]:
        """Every value it is computed from, in order: uses, then init, otherwise, when."""
        rest = (self.init, self.otherwise, self.when)
        return self.uses + tuple(name for name in rest if name is not None)

    def wrong(self, what: str, *, hint: str, of: str = "") -> GraphError:
        """The error for a declaration in which this value is not as it should be.

        Args:
            what: What is wrong with it; the value's name comes before.
            hint: What to write instead.
            of: Whose value it is, such as the loop's name.
        """
        whose = f"{of}: " if of else ""
        return GraphError(f"{whose}{self.name!r} {what}", hint=hint, field=self.name)
