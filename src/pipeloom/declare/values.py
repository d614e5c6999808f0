"""The values of a declaration, by names that may still change, and what may be an operand.

A ``Tensor`` holds its value by a key, so that ``named`` and ``becomes`` can rename it for everyone
who holds it. Names are given once; numbers become constants, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, cast

from pipeloom.checks import check_int, plain_int
from pipeloom.declare.tensor import Tensor
from pipeloom.errors import ConfigError, GraphError
from pipeloom.machine.dtypes import F32, DType, DTypeLike, dtype_for
from pipeloom.program.block_ops import check_block_op
from pipeloom.program.blocked_matrices import blocked_matrix
from pipeloom.program.nodes import Blocks, Node, NodeKind
from pipeloom.program.tiles import TileType
from pipeloom.program.vocabulary import VOCABULARY, InBlocks

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop


class DeclaredValues:
    """What a ``Loop`` has collected: values, what carried ones become, and what goes through LDS.

    Args:
        name: What pages, files and the kernel's symbol call the loop.
    """

    def __init__(self, name: str) -> None:
        if not name:
            raise ConfigError("a loop needs a name", hint='Loop("gemm", ...)', field="name")
        self.name = name
        self.ops = VOCABULARY
        self._nodes: dict[str, Node] = {}
        self._updates: dict[str, str] = {}
        self._staged: dict[str, None] = {}
        self._when: str | None = None
        self._names: list[str] = []
        self._taken: dict[str, str] = {}
        self._begins: dict[str, str] = {}

    def type_of(self, name: str) -> TileType:
        """The type of a value.

        Args:
            name: The value's name.
        """
        return self._nodes[name].type

    def rename(self, old: str, new: str) -> str:
        """Give a value another name, everywhere, and to all who hold it.

        Args:
            old: The name it has.
            new: The name it gets.
        """
        self._check_name(new)

        def moved(name: str | None) -> str | None:
            return new if name == old else name

        self._nodes = {
            str(moved(key)): replace(
                node,
                name=str(moved(node.name)),
                uses=tuple(str(moved(u)) for u in node.uses),
                init=moved(node.init),
                when=moved(node.when),
                otherwise=moved(node.otherwise),
            )
            for key, node in self._nodes.items()
        }
        self._updates = {str(moved(c)): str(moved(u)) for c, u in self._updates.items()}
        self._staged = {str(moved(s)): None for s in self._staged}
        self._taken = {str(moved(t)): str(moved(c)) for t, c in self._taken.items()}
        self._begins = {str(moved(c)): str(moved(tile)) for c, tile in self._begins.items()}
        self._when = moved(self._when)
        self._names = [str(moved(name)) for name in self._names]
        return new

    def key_of(self, name: str) -> int:
        """What a value is held by: a number that stays when its name changes.

        Args:
            name: The value's name.
        """
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)

    def name_of(self, key: int) -> str:
        """What a value is called now.

        Args:
            key: What ``key_of`` gave.
        """
        return self._names[key]

    def _add(self, node: Node) -> str:
        taken = self._nodes.get(node.name)
        if taken is not None and taken.kind is NodeKind.OP and node.name in self.ops:
            # It was named by its op, not by a user.
            other = self.rename(node.name, self._fresh(node.name))
            node = replace(node, uses=tuple(other if u == node.name else u for u in node.uses))
        self._check_name(node.name)
        self._nodes[node.name] = node
        return node.name

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError(
                f"loop {self.name!r} gives a value the name {name!r}",
                hint='a name is text: loop.stream("A", ...)',
                field="name",
            )
        if name in self._nodes:
            raise GraphError(
                f"loop {self.name!r} has a value {name!r} already",
                hint="names are given once; an array that is two streams has two names",
                field=name,
            )

    def _fresh(self, stem: str) -> str:
        number = 1
        name = stem
        while name in self._nodes:
            number += 1
            name = f"{stem}.{number}"
        return name

    def _operand(self, value: Tensor | float) -> str:
        if isinstance(value, Tensor):
            if value._loop is not self:
                raise GraphError(
                    f"{value.name!r} belongs to another loop",
                    hint="declare it in this one",
                    field=value.name,
                )
            name = value.name
            if value.carry is None and name in self._taken:
                raise GraphError(
                    f"{value.name!r} has become the next value of {self._taken[name]!r}, and is no "
                    "longer what it was",
                    hint="use it before it is given to the carry, or what += and becomes() return",
                    field=value.name,
                )
            return name
        if not isinstance(value, Real):
            raise ConfigError(
                f"loop {self.name!r} takes {value!r} for an operand, which is no value of it and "
                "no number",
                hint="pass what loop.stream, loop.carry or an op returned, or a number",
                field="operand",
            )
        return self._constant(value)

    def in_blocks(self, op: str, value: Tensor, dim: str, size: int) -> Tensor:
        """An op within blocks of neighbours.

        Args:
            op: The op's name.
            value: Its operand.
            dim: The dimension along which blocks lie.
            size: Elements of a block.
        """
        within, uses = Blocks(dim, plain_int(size)), (self._operand(value),)
        type_ = self.type_of(uses[0])
        if VOCABULARY[op].in_blocks is InBlocks.MAX and type(within.size) is int:
            type_ = replace(type_, dtype=F32.per(max(within.size, 1)))
        node = Node(
            name=self._fresh(op),
            kind=NodeKind.OP,
            type=type_,
            op=op,
            uses=uses,
            within=within,
        )
        check_block_op(node, VOCABULARY[op], self._nodes[node.uses[0]], "")
        return self._tensor(self._add(node), order=value.type.dims)

    def _per_block(self, names: Iterable[str], dims: Sequence[str]) -> DType:
        """The type of what is computed of these values: of numbers for each block along the last
        dimension only, again one for each."""
        nodes = [self._nodes[name] for name in names]
        covers = {self._block_of(n, dims) for n in nodes if {*dims[-1:]} & {*n.type.dims}}
        return F32.per(covers.pop()) if len(covers - {1}) == len(covers) == 1 else F32

    @staticmethod
    def _block_of(node: Node, dims: Sequence[str]) -> int:
        """How many neighbours along the last of these dimensions have one number; of a stream that
        is reduced along its own last one, rows that its array has once."""
        if node.kind is NodeKind.OP:
            return node.type.dtype.covers if node.type.dims[-1:] == tuple(dims[-1:]) else 1
        matrix = blocked_matrix(node)
        alone = matrix is not None and matrix.shared and tuple(dims) == node.type.dims[:1]
        return matrix.rows if matrix is not None and alone else 1

    def value(self, name: str) -> Tensor:
        """A declared value by its name.

        Args:
            name: What it is called.
        """
        return self._tensor(name)

    def _tensor(
        self, name: str, carry: str | None = None, order: tuple[str, ...] | None = None
    ) -> Tensor:
        """A value of this loop by its name."""
        return Tensor(cast("Loop", self), name, carry, order)

    def _constant(self, value: float) -> str:
        number = number_of(value, "operand")
        for node in self._nodes.values():
            if node.kind is NodeKind.CONSTANT and repr(node.start) == repr(number):
                return node.name
        short = f"{number:g}"
        name = short if short not in self._nodes else self._fresh(repr(number))
        tile = TileType((), (), F32)
        node = Node(name=name, kind=NodeKind.CONSTANT, type=tile, start=number)
        return self._add(node)

    def _users(self, name: str) -> list[Node]:
        return [n for n in self._nodes.values() if name in n.operands] + [
            self._nodes[c] for c, u in self._updates.items() if u == name
        ]


def number_of(value: float, field: str) -> float:
    """A number as a float, or what is wrong with it."""
    try:
        return float(value)
    except OverflowError as error:
        raise ConfigError(
            f"{field} is a number that no float holds",
            hint=f"values are f32, which ends at {F32.largest:g}",
            field=field,
        ) from error


def tile_of(name: object, dtype: DTypeLike, dims: Mapping[str, int]) -> TileType:
    """The type of a value with these dimensions."""
    sizes = {dim: plain_int(size) for dim, size in dims.items()}
    for dim, size in sizes.items():
        check_int(str(name), dim, size, 1)
    return TileType(tuple(sizes), tuple(sizes.values()), dtype_for(dtype))
