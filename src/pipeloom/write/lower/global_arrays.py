"""Inputs and outputs as a kernel sees them: arrays in global memory, and its arguments.

Each is an array of the dimensions of its tile, in row-major order with a leading dimension (the
distance of neighbours along the last dimension but one, in codes: those of block scales are counted
as they lie).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pipeloom.program import Meaning, Node, NodeKind
from pipeloom.program.blocked_matrices import BlockedMatrix, blocked_matrix
from pipeloom.program.index_arrays import per_block
from pipeloom.program.problem_spans import BATCHES, turns_of
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Register
from pipeloom.write.placing import Placing
from pipeloom.write.text import Argument


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Bytes between rows of which 2 to the ``shift`` are the same: in a scalar, of those."""

    scalar: str
    shift: int


Along = str | int | Fraction
"""Bytes between neighbours: a number, the scalar that holds it, or of several in a byte a part."""
Stride = Along | SharedRows


@dataclass(frozen=True, slots=True)
class Array:
    """One input or output."""

    node: Node
    over: str

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def dims(self) -> tuple[str, ...]:
        return self.node.type.dims

    @property
    def element(self) -> int:
        """Bytes of an element; 0 where two share one."""
        return self.node.type.dtype.bits // 8

    def elements_of(self, size: int) -> int:
        """Elements of so many bytes."""
        return size * 8 * self.node.type.dtype.covers // self.node.type.dtype.bits

    @property
    def is_output(self) -> bool:
        """Whether it is stored."""
        return self.node.kind is NodeKind.OUTPUT

    @property
    def is_mapped(self) -> bool:
        """Whether its tiles lie elsewhere than rows and columns of a matrix do."""
        place = self.node.at
        if place is None or self.is_output or self.blocks is not None:
            return False
        return not place.is_matrix(self.over, self.node.type.sizes[self.over])

    @property
    def blocks(self) -> BlockedMatrix | None:
        """How a matrix lies that is stored block by block."""
        return blocked_matrix(self.node)

    @property
    def is_paged(self) -> bool:
        """Whether its rows lie in pages that an index array names."""
        place = self.node.at
        return place is not None and any(entry.digit for entry in place.entries)

    @property
    def is_scattered(self) -> bool:
        """Whether an index array says where its rows are stored."""
        return self.node.at is not None and self.is_output

    @property
    def has_pitch(self) -> bool:
        """Whether it takes a leading dimension."""
        return len(self.node.array_dims) > 1 and self.blocks is None

    def stride(self, axis: int) -> Stride:
        """Bytes between neighbours along a dimension."""
        if axis < len(self.dims) - 1:
            name = f"stride {self.name}.{axis}"
            if self.blocks is not None and self.blocks.shared:
                return SharedRows(name, self.blocks.rows.bit_length() - 1)
            return name
        size = Fraction(self.node.type.dtype.bits, 8 * self.node.type.dtype.covers)
        return int(size) if size.denominator == 1 else size

    @property
    def chunks(self) -> str:
        """Of a matrix in blocks, the scalar with their number across."""
        assert self.blocks is not None
        return f"size {self.blocks.blocks[1]}"

    def fill_blocks(self, code: Code, rows: Register) -> None:
        """Round rows up to those of whole blocks."""
        if self.blocks is not None and self.blocks.rows > 1:
            code("s_add_u32", rows, rows, self.blocks.rows - 1)
            code("s_and_b32", rows, rows, -self.blocks.rows)

    @property
    def chunk_bytes(self) -> int:
        """Of a matrix in blocks, what a row has of a block, on average."""
        assert self.blocks is not None
        return self.blocks.columns * self.node.type.dtype.bits // (8 * self.node.type.dtype.covers)

    @property
    def over_stride(self) -> Along:
        """Bytes from one index along ``over`` to the next; of whole blocks, on average."""
        each = self.stride(self.dims.index(self.over))
        assert not isinstance(each, SharedRows)  # the loop goes along columns
        if self.blocks is None or isinstance(each, str):
            return each
        whole = Fraction(each) * self.blocks.together
        return int(whole) if whole.denominator == 1 else whole


def arrays_of(meaning: Meaning) -> dict[str, Array]:
    """Every input and output; raises ``EmitError`` for a type that has no bytes of its own."""
    found = {}
    for node in (*meaning.inputs, *meaning.index_arrays, *meaning.outputs):
        dtype = node.type.dtype
        kind, dims = node.kind, node.type.dims
        whole = dtype.bits in (8, 16, 32) and dtype.covers == 1
        even = dtype.covers & (dtype.covers - 1) == 0
        part = (
            even
            and kind is NodeKind.STREAM
            and meaning.over in dims
            and dtype.bits in (4, 8, 16, 32)
        )
        coded = even and len(dims) > 1 and dtype.bits in (8, 16, 32)
        if dtype.scale is not None or not (whole or part or coded):
            raise EmitError(
                f"{node.name} is {node.type}, which kernels cannot load or store",
                hint="use elements of 8, 16 or 32 bits, block scales as a stream of their own; "
                "elements that share a byte, or a code with 2, 4, 8, ... others, follow each other "
                "along the loop",
                field=node.name,
            )
        found[node.name] = Array(node, meaning.over)
    return found


def scalar_only(meaning: Meaning) -> set[str]:
    """Index arrays that are read before the loop, by their pointers."""
    lengths = "" if meaning.span is None else meaning.span.lengths
    return {*per_block(meaning.nodes), *([lengths] if lengths else [])}


def dimensions(meaning: Meaning) -> tuple[str, ...]:
    """Every dimension of an input or output, in order of appearance."""
    nodes = (*meaning.inputs, *meaning.index_arrays, *meaning.outputs)
    placed = (dim for node in nodes if node.at for dim in node.array_dims)
    chosen = (one.dim for node in nodes for one in node.chosen)
    tiles = (dim for node in nodes for dim in node.type.dims)
    turns = filter(None, [turns_of(meaning.span)])
    return tuple(dict.fromkeys((*tiles, *placed, *chosen, *meaning.batch, *turns)))


def argument_dims(meaning: Meaning) -> tuple[str, ...]:
    """Dimensions whose size is an argument; those within blocks are known."""
    blocks = [node for node in meaning.inputs if blocked_matrix(node) is not None]
    inside = {dim for node in blocks for dim in node.array_dims[2:]}
    return tuple(dim for dim in dimensions(meaning) if dim not in inside)


def arguments_of(meaning: Meaning, placing: Placing) -> tuple[Argument, ...]:
    """Pointers of inputs and outputs, strides of batches, the size of each dimension, leading
    dimensions, scalars."""
    arrays = arrays_of(meaning)
    names = [(name, 8) for name in arrays]
    if placing.uses_z:
        names += [(f"bs_{name}", 8) for name in arrays]
    names += [(dim, 4) for dim in argument_dims(meaning)]
    names += [(f"ld_{name}", 4) for name, array in arrays.items() if array.has_pitch]
    names += [(BATCHES, 4)] if placing.uses_z else []
    names += [(stride_name(a.name, dim), 4) for a in arrays.values() for dim in a.node.outer]
    names += [(n.name, 4) for n in meaning.nodes if n.kind is NodeKind.SCALAR]
    arguments, offset, seen = [], 0, set[str]()
    for name, size in names:
        if name in seen:
            raise EmitError(
                f"the kernel of {meaning.name!r} has two arguments called {name!r}",
                hint="give the array, the dimension or the scalar another name: arrays, sizes, "
                "ld_ARRAY, strides and scalars are arguments",
                field=name,
            )
        seen.add(name)
        arguments.append(Argument(name, offset, size, name in arrays))
        offset += size
    return tuple(arguments)


def stride_name(array: str, dim: str) -> str:
    """The argument that says, in elements, how far apart an array has neighbours of a batch."""
    return f"stride_{array}_{dim}"
