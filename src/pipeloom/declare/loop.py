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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from numbers import Real

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.checks import check_known
from pipeloom.declare.arrays import DeclaredArrays
from pipeloom.declare.carrying import CarriedValues
from pipeloom.declare.closing import close
from pipeloom.declare.tail_masks import masked
from pipeloom.declare.tensor import Tensor
from pipeloom.declare.values import number_of, tile_of
from pipeloom.declare.written_masks import recognised
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BOOL, F32, I32, U8, DTypeLike, dtype_for
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.notebook import fragment
from pipeloom.program.evaluate import by_elements, evaluate
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.problem_spans import ProblemSpan
from pipeloom.program.tiles import TileType, merged_sizes
from pipeloom.program.vocabulary import VOCABULARY, OpDef, Vocabulary


class Loop(DeclaredArrays, CarriedValues):
    """What one iteration of a kernel does, declared value by value; ``meaning`` is what it says.

    Args:
        name: What pages, files and the kernel's symbol call it.
        over: The dimension that the loop runs along.
        until: A dimension of the outputs at whose end the loop may stop, as in causal attention.
        since: A dimension of the outputs: the loop begins where no more is left than along it.
        ops: The ops that ``apply`` knows by name. Ops of your own are added when they are applied.
    """

    def __init__(
        self,
        name: str,
        *,
        over: str,
        until: str | None = None,
        since: str | None = None,
        ops: Vocabulary = VOCABULARY,
    ) -> None:
        super().__init__(name)
        self.over = over
        self.until = until
        self.since = since
        self.ops = ops

    # --- values from outside ----------------------------------------------------------------------

    def stream(self, name: str, dtype: DTypeLike, **dims: int) -> Tensor:
        """A tile of global memory per iteration; its array has these dimensions.

        Args:
            name: The array's name.
            dtype: Its element type, or the type's name; truth values are bytes, of which 0 is
                false.
            **dims: The tile that one iteration takes: sizes by dimension, ``over`` among them.
        """
        if self.over not in dims:
            raise ConfigError(
                f"stream {name!r} has no dimension {self.over!r}, which the loop runs over",
                hint=f"give {self.over}=..., or use loop.resident for what does not change",
                field=name,
            )
        return self._input(NodeKind.STREAM, name, dtype, dims)

    def resident(self, name: str, dtype: DTypeLike, **dims: int) -> Tensor:
        """A tile of global memory that is the same in every iteration.

        Args:
            name: The array's name.
            dtype: Its element type, or the type's name; truth values are bytes, of which 0 is
                false.
            **dims: The tile that a workgroup takes: sizes by dimension.
        """
        return self._input(NodeKind.RESIDENT, name, dtype, dims)

    def scalar(
        self,
        name: str,
        dtype: DTypeLike | float | None = F32,
        usual: float | None = None,
        *,
        positive: bool = False,
    ) -> Tensor:
        """A number that the launch passes; ``usual`` is taken in trials that name none.

        With ``positive`` launches refuse values that are not.

        Args:
            name: The argument's name.
            dtype: What it is in the loop: f32; i32, a whole number; or bool. Launches pass f32,
                which has whole numbers below 2^24 exactly. A number here is the usual value.
            usual: The value in trials and pages that name none.
            positive: Whether the declaration relies on a value above 0, not too near to it nor
                to infinity (from 2^-64 to 2^24).
        """
        if isinstance(dtype, Real):
            usual, dtype = dtype, F32
        kind = F32 if dtype is None else dtype_for(dtype)
        if kind not in (F32, I32, BOOL):
            raise ConfigError(
                f"the scalar {name!r} is {kind}, and launches pass f32",
                hint=f"declare loop.scalar({name!r}, pl.F32), or pl.I32 for a whole number",
                field=name,
            )
        if usual is not None and not isinstance(usual, Real):
            raise ConfigError(
                f"the scalar {name!r} is usually {usual!r}",
                hint=f"give a number: loop.scalar({name!r}, usual=1.0)",
                field=name,
            )
        node = Node(
            name=name,
            kind=NodeKind.SCALAR,
            type=TileType((), (), F32),
            start=None if usual is None else number_of(usual, "usual"),
            positive=positive,
        )
        found = Tensor(self, self._add(node))
        return found if kind == F32 else found != 0.0 if kind == BOOL else found.to(I32)

    def left(self, dim: str, size: int | None = None) -> Tensor:
        """How many elements the array still has along a dimension, from each one of a tile on.

        1 for the last one, 0 and less for those past the end: what a mask compares.

        Args:
            dim: The dimension's name.
            size: The tile's size along it; that of the arrays declared so far unless given.
        """
        tile = tile_of(f"{dim} left", F32, {dim: self._tile_along(dim) if size is None else size})
        return self._once(Node(name=f"{dim} left", kind=NodeKind.LEFT, type=tile))

    def size(self, dim: str) -> Tensor:
        """How many elements the arrays have along a dimension.

        Args:
            dim: The dimension's name.
        """
        tile = TileType((), (), F32)
        return self._once(Node(name=f"{dim} size", kind=NodeKind.SIZE, type=tile, along=dim))

    def index(self, dim: str, size: int | None = None) -> Tensor:
        """Where an element stands in the array along a dimension, from 0.

        Args:
            dim: The dimension's name.
            size: The tile's size along it; that of the arrays declared so far unless given.
        """
        return self.size(dim) - self.left(dim, size)

    def mean(self, value: Tensor, dims: tuple[str, ...], fewer: float = 0) -> Tensor:
        """The mean over dimensions of what the arrays have along them.

        Args:
            value: The value.
            dims: The dimensions that disappear, all of which one tile must hold.
            fewer: Subtracted from how many there are.
        """
        if self.over in dims:
            raise ConfigError(
                f"{value.name}.mean({self.over!r}): one iteration has a part of {self.over!r} only",
                hint=f"carry the sum, and divide it by loop.size({self.over!r}) after the loop",
                field=value.name,
            )
        mean = self.apply("sum", value, over=dims)
        arrays = [n for n in self._nodes.values() if n.kind.is_input and not n.kind.is_number]
        known = {dim for node in arrays for dim in node.type.dims}
        sizes = [self.size(dim) if dim in known else value.type.sizes[dim] for dim in dims]
        if fewer:
            return mean / (prod(sizes[1:], start=sizes[0]) - fewer)
        for size in sizes:
            mean = mean / size
        return mean

    def _once(self, node: Node) -> Tensor:
        """A value that is declared once, however often it is asked for."""
        known = self._nodes.get(node.name) == node
        return Tensor(self, node.name if known else self._add(node))

    def _tile_along(self, dim: str) -> int:
        for node in self._nodes.values():
            if dim in node.type.dims:
                return node.type.sizes[dim]
        raise ConfigError(
            f"loop {self.name!r} has no dimension {dim!r} yet",
            hint=f"declare an array along it first, or give the tile: loop.index({dim!r}, 64)",
            field=dim,
        )

    def carry(
        self,
        name: str,
        dtype: DTypeLike = F32,
        *,
        start: float | Tensor = 0.0,
        **dims: int,
    ) -> Tensor:
        """A value carried from iteration to iteration; ``start`` before the first.

        Args:
            name: The value's name.
            dtype: Its element type; sums of products need f32.
            start: What every element is before the first iteration: a number, or a value that no
                iteration changes, such as a resident.
            **dims: Sizes by dimension.
        """
        kind, number = tile_of(name, dtype, dims), 0.0
        if isinstance(start, Tensor):
            self._begins[name] = self._beginning(name, start, kind)
        elif isinstance(start, Real):
            number = number_of(start, "start")
        else:
            raise ConfigError(
                f"carry {name!r} has start {start!r}, but must start with a number or a value",
                hint="pass start=0, or a resident",
                field="start",
            )
        node = Node(name=name, kind=NodeKind.CARRY, type=kind, start=number)
        return Tensor(self, self._add(node), carry=name)

    def _beginning(self, name: str, start: Tensor, kind: TileType) -> str:
        """What a carried value starts from; raises for what it cannot."""
        found, sizes = self._operand(start), kind.sizes.items()
        needed, moving = [found], (NodeKind.STREAM, NodeKind.CARRY)
        for one in needed:
            needed += self._nodes[one].operands
        if any(self._nodes[one].kind in moving for one in needed) or not (
            start.type.sizes.items() <= sizes
        ):
            raise ConfigError(
                f"carry {name!r}, {kind}, starts from {start.name!r}, {start.type}",
                hint="start from a resident, or what is computed of residents, with dimensions of "
                "the carried value",
                field="start",
            )
        return found

    def _input(
        self, kind: NodeKind, name: str, dtype: DTypeLike, dims: Mapping[str, int]
    ) -> Tensor:
        tile = tile_of(name, dtype, dims)
        truths = tile.dtype.is_bool
        tile = replace(tile, dtype=U8) if truths else tile
        align = LOAD_BYTES if dims else tile.dtype.bits // 8
        node = Node(name=name, kind=kind, type=tile, align=align)
        found = Tensor(self, self._add(node))
        return found > 0.0 if truths else found

    # --- values computed --------------------------------------------------------------------------

    def apply(
        self,
        op: str | OpDef,
        *operands: Tensor | float,
        over: tuple[str, ...] = (),
        dtype: DTypeLike | None = None,
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
        mask = recognised(self, self._nodes, known.name, names)
        types = [
            value.type if isinstance(value, Tensor) else self._nodes[number].type
            for number, value in zip(names, operands, strict=True)
        ]
        sizes = self._in_order(types, f"{self.name}.{known.name}")
        if mask is not None and name is None and dtype is None:
            return mask.transpose(*sizes)
        strange = [dim for dim in over if dim not in sizes]
        if strange or (bool(over) != (known.reduce is not None)):
            raise ConfigError(
                f"{known.name} cannot reduce over {', '.join(map(str, over)) or 'nothing'}",
                hint=f"its operands have dimensions {', '.join(sizes)}",
                field=known.name,
            )
        dims = tuple(dim for dim in sizes if dim not in over)
        given = None if dtype is None else dtype_for(dtype)
        result = given or (BOOL if known.bool_result else self._per_block(names, dims))
        tile = TileType(dims, tuple(sizes[d] for d in dims), result)
        node = Node(
            name=name or self._fresh(known.name),
            kind=NodeKind.OP,
            type=tile,
            op=known.name,
            uses=names,
        )
        return Tensor(self, self._add(node))

    def _in_order(self, types: Sequence[TileType], what: str) -> dict[str, int]:
        """The sizes of what operands have together, in the order of one that has them all, or of
        another value that does and has theirs as they do: a factor by column, or a mask of rows
        and columns, moves nothing.
        """
        most = sorted(types, key=lambda t: -len(t.dims))
        sizes = dict(merged_sizes(most, what))
        if set(most[0].dims) == set(sizes):
            return sizes

        def agrees(dims: Sequence[str]) -> bool:
            alike = ([dim for dim in dims if dim in t.dims] == [*t.dims] for t in types)
            return sizes.keys() <= {*dims} and all(alike)

        known = (node.type.dims for node in self._nodes.values())
        dims = next((dims for dims in known if agrees(dims)), tuple(sizes))
        return {dim: sizes[dim] for dim in dims if dim in sizes}

    def store(self, name: str, value: Tensor, dtype: DTypeLike | None = None) -> Tensor:
        """Store a value: of carried ones the last, or (if it has ``over``) one per iteration.

        Args:
            name: The output array's name.
            value: What is stored.
            dtype: The array's element type; the value's own unless given, and bytes (u8) for truth
                values.
        """
        truths = self.type_of(self._operand(value)).dtype.is_bool
        dtype = U8 if truths and (dtype is None or dtype_for(dtype).is_bool) else dtype
        stored = self._operand(value)
        lies = self.type_of(stored)
        kind = value.type if isinstance(value, Tensor) else lies
        kind = kind if dtype is None else replace(kind, dtype=dtype_for(dtype))
        if kind != lies:
            value = self.apply("convert", value, dtype=kind.dtype)
            stored = self._operand(value)
        kind = self.type_of(stored)
        known = self._nodes.get(name)
        if known is not None and known.kind in (NodeKind.CARRY, NodeKind.OP):
            # Launches pass arrays by name; a value that is none goes by another as well.
            other = self.rename(name, self._fresh(f"{name} carried"))
            stored = other if stored == name else stored
        self._add(Node(name=name, kind=NodeKind.OUTPUT, type=kind, uses=(stored,)))
        return value

    # --- the result -------------------------------------------------------------------------------

    @property
    def meaning(self) -> Meaning:
        """The declaration as data; raises for values that nothing stored needs, or never change.

        Reductions see what the arrays have: what lies past their end is masked.
        """
        return replace(masked(self.as_written), span=self._span)

    @property
    def as_written(self) -> Meaning:
        """The same without masks that the declaration does not have itself; problems that end
        at different places need those, and are not told apart here."""
        return close(
            self.name,
            self.over,
            self._nodes,
            self._updates,
            self.until,
            self._begins,
            self.since,
            ProblemSpan(turns=self._span.turns) if self._span and self._span.turns else None,
        )

    def evaluate(
        self, scalars: Mapping[str, float] | None = None, **arrays: Array
    ) -> dict[str, Array]:
        """What it computes, in NumPy: whole arrays in, whole outputs out.

        Args:
            scalars: Values of scalar arguments by name; those left out have their usual ones.
            **arrays: The whole input arrays by name; and of outputs what they were before, which
                says sizes that no input does.
        """
        meaning = self.meaning
        before = {n.name: arrays[n.name] for n in meaning.outputs if n.name in arrays}
        inputs = [node.name for node in (*meaning.inputs, *meaning.index_arrays)]
        inputs += list(before)
        numbers = [node.name for node in meaning.nodes if node.kind is NodeKind.SCALAR]
        for what, named, known in (("array", arrays, inputs), ("scalar", scalars or {}, numbers)):
            for name in named:
                check_known(name, known, f"loop {self.name!r} takes no {what} {name!r}", name)
        given = by_elements(meaning, {name: np.asarray(a) for name, a in arrays.items()})
        sizes = {
            dim: size
            for name in before
            for dim, size in zip(meaning[name].dims, given[name].shape, strict=False)
        }
        return evaluate(meaning, given, scalars, self.ops, sizes)

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
