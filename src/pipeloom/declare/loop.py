"""``Loop``: what one iteration of a kernel does, said once.

    loop = Loop("gemm", over="k")
    a = loop.stream("A", bf16, m=256, k=64)       # a tile of global memory per iteration
    b = loop.stream("B", bf16, n=256, k=64)
    c = loop.carry("C", f32, start=0, m=256, n=256)
    c += a.staged() @ b.staged()                  # through LDS; how many buffers is a result
    loop.store("out", c.to(bf16))

    loop.evaluate(A=..., B=...)["out"]            # what it means, in NumPy, for any size

Dimensions have names. Those of an output other than ``over`` are cut into workgroups; ``over`` is
what the loop runs along. What depends on a stream is computed in every iteration; what depends on
residents and scalars only, once before; what is stored of carried values, once after, and so is
what only that needs (a bias).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real

import numpy as np

from pipeloom.checks import nearest
from pipeloom.declare.closing import close
from pipeloom.declare.tensor import Tensor
from pipeloom.declare.values import DeclaredValues, number_of, tile_of
from pipeloom.errors import ConfigError, GraphError
from pipeloom.machine.dtypes import BOOL, F32, DType, dtype_for
from pipeloom.notebook import fragment
from pipeloom.program.evaluate import Array, evaluate
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.tiles import TileType, merged_sizes
from pipeloom.program.vocabulary import VOCABULARY, OpDef, Vocabulary


class Loop(DeclaredValues):
    """What one iteration of a kernel does, declared value by value; ``meaning`` is what it says.

    Args:
        name: What pages, files and the kernel's symbol call it.
        over: The dimension that the loop runs along.
        until: A dimension of the outputs at whose end the loop may stop, as in causal attention.
        ops: The ops that ``apply`` knows by name. Ops of your own are added when they are applied.
    """

    def __init__(
        self, name: str, *, over: str, until: str | None = None, ops: Vocabulary = VOCABULARY
    ) -> None:
        super().__init__(name)
        self.over = over
        self.until = until
        self.ops = ops

    # --- values from outside ----------------------------------------------------------------------

    def stream(self, name: str, dtype: DType | str, **dims: int) -> Tensor:
        """A tile of global memory per iteration; its array has these dimensions.

        Args:
            name: The array's name.
            dtype: Its element type, or the type's name.
            **dims: The tile that one iteration takes: sizes by dimension, ``over`` among them.
        """
        if self.over not in dims:
            raise ConfigError(
                f"stream {name!r} has no dimension {self.over!r}, which the loop runs over",
                hint=f"give {self.over}=..., or use loop.resident for what does not change",
                field=name,
            )
        return self._input(NodeKind.STREAM, name, dtype, dims)

    def resident(self, name: str, dtype: DType | str, **dims: int) -> Tensor:
        """A tile of global memory that is the same in every iteration.

        Args:
            name: The array's name.
            dtype: Its element type, or the type's name.
            **dims: The tile that a workgroup takes: sizes by dimension.
        """
        return self._input(NodeKind.RESIDENT, name, dtype, dims)

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
            to: 4 or 16. Loads straight to LDS are no wider.
        """
        for name in arrays:
            self._nodes[name] = replace(self._array(name), align=to)

    def _array(self, name: str) -> Node:
        if name not in self._nodes:
            raise GraphError(
                f"loop {self.name!r} has no array {name!r}",
                hint=nearest(name, self._nodes),
                field=name,
            )
        return self._nodes[name]

    def scalar(self, name: str, usual: float | None = None, *, positive: bool = False) -> Tensor:
        """A number that the launch passes; ``usual`` is taken in trials that name none.

        With ``positive`` launches refuse values that are not.

        Args:
            name: The argument's name.
            usual: The value in trials and pages that name none.
            positive: Whether the declaration relies on a value above 0, not too near to it nor
                to infinity (from 2^-64 to 2^24).
        """
        tile = TileType((), (), F32)
        kind = NodeKind.SCALAR
        node = Node(name=name, kind=kind, type=tile, start=usual, positive=positive)
        return Tensor(self, self._add(node))

    def left(self, dim: str, size: int) -> Tensor:
        """How many elements the array still has along a dimension, from each one of a tile on.

        1 for the last one, 0 and less for those past the end: what a mask compares.

        Args:
            dim: The dimension's name.
            size: The tile's size along it.
        """
        tile = tile_of(f"{dim} left", F32, {dim: size})
        node = Node(name=f"{dim} left", kind=NodeKind.LEFT, type=tile)
        known = self._nodes.get(node.name) == node
        return Tensor(self, node.name if known else self._add(node))

    def carry(
        self, name: str, dtype: DType | str = F32, *, start: float = 0.0, **dims: int
    ) -> Tensor:
        """A value carried from iteration to iteration; ``start`` before the first.

        Args:
            name: The value's name.
            dtype: Its element type; sums of products need f32.
            start: What every element is before the first iteration.
            **dims: Sizes by dimension.
        """
        if not isinstance(start, Real):
            raise ConfigError(
                f"carry {name!r} has start {start!r}, but must start with a number",
                hint="pass start=0; what depends on more is a resident",
                field="start",
            )
        kind = tile_of(name, dtype, dims)
        node = Node(name=name, kind=NodeKind.CARRY, type=kind, start=number_of(start, "start"))
        return Tensor(self, self._add(node), carry=name)

    def _input(
        self, kind: NodeKind, name: str, dtype: DType | str, dims: Mapping[str, int]
    ) -> Tensor:
        tile = tile_of(name, dtype, dims)
        return Tensor(self, self._add(Node(name=name, kind=kind, type=tile)))

    # --- values computed --------------------------------------------------------------------------

    def apply(
        self,
        op: str | OpDef,
        *operands: Tensor | float,
        over: tuple[str, ...] = (),
        dtype: DType | str | None = None,
        name: str | None = None,
    ) -> Tensor:
        """An op of the vocabulary, or one of your own, on values; reduced ``over`` dimensions.

        Args:
            op: An op by its name in the vocabulary, or an ``OpDef`` of your own.
            *operands: As many values or numbers as the op takes.
            over: The dimensions that a reduction removes; none for other ops.
            dtype: The result's element type; f32 unless given, or bool for comparisons.
            name: What pages and messages call the result; the op's name unless given.
        """
        if isinstance(op, OpDef):
            self.ops = self.ops.extended(op)
        elif not isinstance(op, str):
            raise ConfigError(
                f"loop.apply takes an op, not {op!r}",
                hint="pass its name in the vocabulary, or an OpDef of your own",
                field="op",
            )
        over = (over,) if isinstance(over, str) else tuple(over)
        known = self.ops[op if isinstance(op, str) else op.name]
        if len(operands) != known.arity:
            raise ConfigError(
                f"{known.name} takes {known.arity} operand(s), got {len(operands)}",
                hint="pass as many values as the op has operands",
                field=known.name,
            )
        names = tuple(self._operand(value) for value in operands)
        # In the order of the operand that has most of them: a factor by column moves nothing.
        types = sorted((self._nodes[n].type for n in names), key=lambda t: -len(t.dims))
        sizes = merged_sizes(types, f"{self.name}.{known.name}")
        strange = [dim for dim in over if dim not in sizes]
        if strange or (bool(over) != (known.reduce is not None)):
            raise ConfigError(
                f"{known.name} cannot reduce over {', '.join(map(str, over)) or 'nothing'}",
                hint=f"its operands have dimensions {', '.join(sizes)}",
                field=known.name,
            )
        dims = tuple(dim for dim in sizes if dim not in over)
        given = None if dtype is None else dtype_for(dtype)
        result = given or (BOOL if known.bool_result else F32)
        tile = TileType(dims, tuple(sizes[d] for d in dims), result)
        node = Node(
            name=name or self._fresh(known.name),
            kind=NodeKind.OP,
            type=tile,
            op=known.name,
            uses=names,
        )
        return Tensor(self, self._add(node))

    def accumulate(self, target: Tensor, value: Tensor | float) -> Tensor:
        """``target += value``; a matrix product, or another sum, is added in place.

        Args:
            target: A carried value.
            value: What is added to it.
        """
        node = self._nodes[self._operand(value)]
        op = self.ops[node.op] if node.op else None
        in_place = op is not None and op.reduce is not None and op.reduce.value == "add"
        in_place = in_place and node.type.dtype == F32
        if in_place and set(node.type.dims) == set(target.type.dims) and not self._users(node.name):
            del self._nodes[node.name]
            init = self._operand(target)
            self._nodes[node.name] = replace(node, init=init, type=target.type)
            return self._becomes(target, node)
        return self.update(target, target + value)

    def update(self, target: Tensor, value: Tensor | float) -> Tensor:
        """State what a carried value becomes.

        Args:
            target: A carried value.
            value: What it is in the next iteration.
        """
        node = self._nodes[self._operand(value)]
        rounded = node.type.dtype not in (F32, BOOL, target.type.dtype)
        if node.kind is not NodeKind.OP or rounded or self._users(node.name):
            new = self.apply("convert", value, dtype=target.type.dtype)
            node = self._nodes[new.name]
        return self._becomes(target, node)

    def _becomes(self, target: Tensor, before: Node) -> Tensor:
        """``before`` is the next value as it was declared, which it then may be no more."""
        name, last = before.name, self._operand(target)
        if target.carry is None:
            raise GraphError(
                f"{target.name!r} is not carried, so it has no next value",
                hint="declare it with loop.carry(...)",
                field=target.name,
            )
        if last != self._updates.get(target.carry, target.carry):
            raise GraphError(
                f"carry {target.carry!r} gets a second next value, and the first would be lost",
                hint="go on from what becomes() returned: c = c.becomes(...)",
                field=target.carry,
            )
        node = self._nodes[name]
        carry = self._nodes[target.carry]
        if set(node.type.dims) != set(carry.type.dims):
            raise ConfigError(
                f"{target.carry} has dimensions {carry.type.dims}, its next value {node.type.dims}",
                hint="reduce or broadcast the value first",
                field=target.carry,
            )
        changed = replace(node, type=carry.type)
        if self._when is not None:
            changed = replace(changed, when=self._when, otherwise=last)
        self._nodes[name] = changed
        self._updates[target.carry] = name
        if changed != before:
            self._taken[name] = target.carry
        if name.split(".")[0] in self.ops:
            name = self.rename(name, self._fresh(f"{target.carry}.next"))
        return Tensor(self, name, carry=target.carry)

    @contextmanager
    def when(self, condition: Tensor) -> Iterator[None]:
        """What carried values become inside, they become only where the condition holds.

        Args:
            condition: A truth value: what a comparison gives.
        """
        if self._when is not None:
            raise GraphError(
                "loop.when inside loop.when", hint="combine the conditions first", field="when"
            )
        name = self._operand(condition)
        if not self.type_of(name).dtype.is_bool:
            raise GraphError(
                f"loop.when takes {name!r} for a truth value, which is {self.type_of(name)}",
                hint="compare it first: x > 0",
                field=name,
            )
        self._when = name
        try:
            yield
        finally:
            self._when = None

    def store(self, name: str, value: Tensor, dtype: DType | str | None = None) -> Tensor:
        """Store a value: of carried ones the last, or (if it has ``over``) one per iteration.

        Args:
            name: The output array's name.
            value: What is stored.
            dtype: The array's element type; the value's own unless given.
        """
        stored = self._operand(value)
        kind = self.type_of(stored)
        if not kind.dims:
            raise ConfigError(
                f"output {name!r} is one number, and no array",
                hint="give it a dimension, of size 1 if need be",
                field=name,
            )
        kind = kind if dtype is None else replace(kind, dtype=dtype_for(dtype))
        self._add(Node(name=name, kind=NodeKind.OUTPUT, type=kind, uses=(stored,)))
        return value

    def stage(self, name: str) -> None:
        """Keep a value in LDS between global memory and registers.

        Args:
            name: The value's name.
        """
        self._staged[name] = None

    # --- the result -------------------------------------------------------------------------------

    @property
    def staged(self) -> tuple[str, ...]:
        """What goes through LDS."""
        return tuple(self._staged)

    @property
    def meaning(self) -> Meaning:
        """The declaration as data; raises for values that nothing stored needs, or never change."""
        return close(self.name, self.over, self._nodes, self._updates, self.until)

    def evaluate(
        self, scalars: Mapping[str, float] | None = None, **arrays: Array
    ) -> dict[str, Array]:
        """What it computes, in NumPy: whole arrays in, whole outputs out.

        Args:
            scalars: Values of scalar arguments by name; those left out have their usual ones.
            **arrays: The whole input arrays by name.
        """
        meaning = self.meaning
        inputs = [node.name for node in meaning.inputs]
        numbers = [node.name for node in meaning.nodes if node.kind is NodeKind.SCALAR]
        for what, named, known in (("array", arrays, inputs), ("scalar", scalars or {}, numbers)):
            for name in named:
                if name not in known:
                    raise ConfigError(
                        f"loop {self.name!r} takes no {what} {name!r}",
                        hint=nearest(name, known),
                        field=name,
                    )
        given = {name: np.asarray(array) for name, array in arrays.items()}
        return evaluate(meaning, given, scalars, self.ops)

    def _repr_html_(self) -> str:
        """For notebooks: the declared values."""
        rows = [
            (node.name, node.op or node.kind.value, ", ".join(node.operands), node.type)
            for node in self._nodes.values()
        ]
        text = f"over {self.over}: {len(rows)} values"
        return fragment(self.name, text, ("value", "op", "of", "type"), rows)

    def __repr__(self) -> str:
        return f"<Loop {self.name} over {self.over}: {len(self._nodes)} values>"
