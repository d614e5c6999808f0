"""What a kernel computes, apart from when and where: the declaration as plain data.

A ``Meaning`` is a graph of ``Node``s over one loop. Each node has a value per iteration (LOOP), or
one before it (BEFORE) or after it (AFTER). Inputs are tiles of global memory; a CARRY is the value
that its update had one iteration ago, and its start value at first; an OUTPUT is stored.

    node    kind     op       uses                  type
    A       STREAM                                  bf16(m=256, k=64)    tile k of every iteration
    B       STREAM                                  bf16(n=256, k=64)
    C       CARRY             C.next                f32(m=256, n=256)    starts at 0
    C.next  OP       matmul   A, B and, added, C    f32(m=256, n=256)
    out     OUTPUT            C                     bf16(m=256, n=256)   AFTER: the last C

The value of a node at an iteration is what a verifier follows: ``(C.next, 7)`` is one value however
the kernel comes by it. ``evaluate`` gives the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pipeloom.checks import nearest
from pipeloom.errors import ConfigError, GraphError
from pipeloom.plain import LEFT_OUT_WHILE_USUAL
from pipeloom.program.added_outputs import check_added
from pipeloom.program.block_ops import check_block_op, check_whole_blocks
from pipeloom.program.domains import domain_of, uncut_dims
from pipeloom.program.idle import Inputs, adds_up, idles_before, idles_past, idles_past_end
from pipeloom.program.index_arrays import index_nodes
from pipeloom.program.nodes import ALIGNMENTS, POSITIVE, Node, NodeKind, Region
from pipeloom.program.placed_streams import check_placed, derived_sizes
from pipeloom.program.problem_spans import ProblemSpan, batch_of, check_batch, turns_of
from pipeloom.program.tile_views import check_view
from pipeloom.program.tiles import TileType, check_start, merged_sizes
from pipeloom.program.vocabulary import VOCABULARY, OpDef, Vocabulary
from pipeloom.program.whole_numbers import check_integers


@dataclass(frozen=True)
class Meaning:
    """What a kernel computes: a loop over one dimension, as a graph of nodes.

    The grid: every dimension of an output except ``over`` is cut into blocks of its tile, one
    workgroup each.

    A declaration that looks at what is ``left`` along ``over`` settles what iterations past the end
    do, which find zeros: it has any size, and a kernel may run more iterations than it takes. The
    same holds where all it stores is stored per iteration, because past the end nothing is.
    """

    name: str
    """The loop's name."""
    over: str
    """The dimension that the loop runs along."""
    nodes: tuple[Node, ...]
    """The values, operands before users (but for carries)."""
    until: str | None = None
    """A dimension of the grid: iterations in which less is left along ``over`` than along it, for
    every element of the block, change nothing (causal attention)."""
    span: ProblemSpan | None = field(default=None, metadata=LEFT_OUT_WHILE_USUAL)
    """How far each problem of the batch goes along ``over``, where they differ."""
    since: str | None = field(default=None, metadata=LEFT_OUT_WHILE_USUAL)
    """The same of those in which more is left along ``over`` (dK and dV of causal attention)."""
    _by_name: Mapping[str, Node] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        table = {node.name: node for node in self.nodes}
        object.__setattr__(self, "_by_name", table)
        if len(table) != len(self.nodes):
            twice = max(table, key=[node.name for node in self.nodes].count)
            raise GraphError(
                f"loop {self.name!r} has two values named {twice!r}",
                hint="name each value once",
                field=twice,
            )
        merged_sizes([n.type for n in (*self.inputs, *self.outputs)], f"loop {self.name!r}")
        check_placed(f"loop {self.name!r}", self.over, self.nodes)
        seen: set[str] = set()
        for node in self.nodes:
            self._check(node, seen)
            seen.add(node.name)
        check_added(self)
        early = self.until and self.ragged and self.until in self.grid
        if self.until and not (early and idles_past(self, self.until)):
            raise GraphError(
                f"loop {self.name!r} runs until the end of {self.until!r}, but the iterations "
                "after it would still change what is stored",
                hint=f"name a dimension of the outputs, store after the loop, and keep only where "
                f"as much is left of {self.over!r} as of {self.until!r}, and 1 at least",
                field="until",
            )
        if self.since is not None and not (self.ragged and idles_before(self, self.since)):
            raise GraphError(
                f"loop {self.name!r} begins at {self.since!r}, but earlier iterations change it",
                hint=f"keep only where as much is left of {self.since!r} as of {self.over!r}",
                field="since",
            )
        check_batch(self)
        if not self.outputs:
            raise GraphError(
                f"loop {self.name!r} stores nothing",
                hint="end the declaration with loop.store(name, value)",
                field=self.name,
            )

    def _check(self, node: Node, seen: set[str]) -> None:
        for name in node.operands:
            used = self[name]
            if name not in seen and node.kind is not NodeKind.CARRY:
                raise node.wrong(
                    f"uses {name!r} before it has a value",
                    hint="only a carry may look ahead: to its own update",
                )
            if node.region is not Region.AFTER and used.region is Region.AFTER:
                raise node.wrong(
                    f"is computed before the loop ends but uses {name!r}, which is "
                    "computed after it",
                    hint="carry the value instead",
                )
            carried = used.region is not Region.LOOP or used.kind is NodeKind.CARRY
            if node.region is not Region.LOOP and not carried:
                raise node.wrong(
                    f"is computed outside the loop but uses {name!r}, which has a "
                    "value per iteration",
                    hint="only carried values outlive the loop: carry it",
                )
        if node.kind is NodeKind.CARRY and (len(node.uses) != 1 or node.start is None):
            raise GraphError(
                f"carry {node.name!r} needs one update and a start value",
                hint="write c += ..., or c.becomes(...), exactly once",
                field=node.name,
            )
        near = POSITIVE[0] <= (1.0 if node.start is None else node.start) <= POSITIVE[1]
        if node.positive and not (node.kind is NodeKind.SCALAR and near):
            raise node.wrong(
                f"({node.kind.value}, usually {node.start}) is declared positive",
                hint="only a scalar argument is, whose usual value, if any, is above 0: "
                f"from {POSITIVE[0]:.2g} to {POSITIVE[1]:.2g}",
            )
        if type(node.align) is not int or node.align not in ALIGNMENTS:
            raise node.wrong(
                f"is aligned to {node.align!r} bytes",
                hint=f"one of: {', '.join(map(str, ALIGNMENTS))}",
            )
        if (node.kind is NodeKind.SIZE) != (node.along is not None):
            raise node.wrong(
                f"is a {node.kind.value} along {node.along!r}",
                hint="a size, and nothing else, is along a dimension",
            )
        if node.kind is NodeKind.OUTPUT and len(node.uses) != 1:
            raise GraphError(
                f"output {node.name!r} stores {len(node.uses)} values",
                hint="an output uses the one value that it stores",
                field=node.name,
            )
        if node.kind is NodeKind.VIEW:
            check_view(self, node)
        check_start(node.name, node.start)
        self._check_region(node)
        self._check_shape(node)
        if node.kind is NodeKind.OP and node.op in VOCABULARY:
            self._check_op(node, VOCABULARY[node.op])

    def check_ops(self, ops: Vocabulary) -> None:
        """Refuse ops that are not known, or not used as they are; shipped ones are checked before.

        What an op of another name computes, and whether it may be summed in parts, nobody knows:
        no judge says anything of a graph that has one.

        Args:
            ops: Those that are known.
        """
        for node in self.nodes:
            if node.kind is NodeKind.OP and node.op not in VOCABULARY:
                self._check_op(node, ops[node.op])

    def _check_op(self, node: Node, op: OpDef) -> None:
        reduces = node.init is not None or len(self.domain(node).dims) > len(node.type.dims)
        if len(node.uses) != op.arity or (reduces and op.reduce is None):
            raise node.wrong(
                f"uses {len(node.uses)} value(s) by {node.op!r}, which takes "
                f"{op.arity}" + (" and adds nothing up" if op.reduce is None else ""),
                hint="give an op its operands; one that reduces, or adds to init, is a reduction",
            )
        check_integers(node, op, [self[name] for name in node.uses])
        check_block_op(node, op, self[node.uses[0]], self.over)
        truths = [self[name].type.dtype.is_bool for name in node.uses]
        if node.type.dtype.is_bool and not (op.bool_result or (all(truths) and op.keeps_truth)):
            raise node.wrong(
                f"is {node.type}, but {node.op!r} gives numbers",
                hint="a truth value is what a comparison gives",
            )
        if op.takes_truth and not truths[0]:
            raise node.wrong(
                f"takes {node.uses[0]!r} for a truth value, which is {self[node.uses[0]].type}",
                hint="compare it first: x > 0",
            )

    def _check_region(self, node: Node) -> None:
        inside = node.region is Region.LOOP
        if node.kind in (NodeKind.STREAM, NodeKind.CARRY) and not inside:
            raise GraphError(
                f"{node.kind.value} {node.name!r} is not in the loop",
                hint="it has a value per iteration; use a resident for what does not change",
                field=node.name,
            )
        if node.kind is NodeKind.OUTPUT and inside and self.over not in node.type.dims:
            raise GraphError(
                f"output {node.name!r} is stored in every iteration to the same place",
                hint=f"give it the dimension {self.over!r}, or store it after the loop",
                field=node.name,
            )

    def _check_shape(self, node: Node) -> None:
        """What has the value of another has its shape; what goes element by element fits in."""
        self.domain(node)
        if node.kind in (NodeKind.CARRY, NodeKind.OUTPUT):
            used = self[node.uses[0]].type
            if (used.dims, used.shape) != (node.type.dims, node.type.shape):
                raise node.wrong(
                    f"is {node.type}, but what it has the value of is {used}",
                    hint="give both the same dimensions in the same order",
                )
        for name in (node.init, node.otherwise, node.when):
            if name is not None and not self[name].type.sizes.items() <= node.type.sizes.items():
                raise node.wrong(
                    f"is {node.type}, which does not fit {name!r}, {self[name].type}",
                    hint="init, otherwise and when have dimensions of the result",
                )
        if (node.when is None) != (node.otherwise is None):
            raise node.wrong(
                "has only one of when and otherwise", hint="a condition chooses between two values"
            )
        if node.kind is NodeKind.CONSTANT and node.start is None:
            raise GraphError(
                f"constant {node.name!r} has no number", hint="give it a start", field=node.name
            )

    def __repr__(self) -> str:
        ins, outs = (", ".join(n.name for n in nodes) for nodes in (self.inputs, self.outputs))
        return f"<Meaning {self.name}: {ins} -> {outs}, {len(self.nodes)} values over {self.over}>"

    def __getitem__(self, name: str) -> Node:
        found = self._by_name.get(name)
        if found is None:
            raise GraphError(
                f"loop {self.name!r} has no value {name!r}",
                hint=nearest(name, self._by_name),
                field=name,
            )
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def outputs(self) -> tuple[Node, ...]:
        """The stored values."""
        return tuple(n for n in self.nodes if n.kind is NodeKind.OUTPUT)

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """What comes from global memory."""
        return tuple(n for n in self.nodes if n.kind in (NodeKind.STREAM, NodeKind.RESIDENT))

    @cached_property
    def index_arrays(self) -> tuple[Node, ...]:
        """Arrays of whole numbers that say where tiles lie, and how far loops go."""
        return index_nodes(self.nodes, self.span)

    @cached_property
    def batch(self) -> tuple[str, ...]:
        """Dimensions along which everything is done again, outermost first."""
        return batch_of((*self.outputs, *self.inputs), self.span)

    @cached_property
    def ragged(self) -> bool:
        """Whether iterations past the end of ``over`` do nothing, by what it says itself."""
        return idles_past_end(self)

    @cached_property
    def adds_up(self) -> bool:
        """Whether it only adds up what it streams, so that zeros before that change nothing."""
        return adds_up(self, Inputs.FINITE)

    @cached_property
    def masks(self) -> frozenset[str]:
        """Masks of what lies past the end, or past ``until``: they change only the last tiles.

        With s elements along ``over``, and e left along ``until`` from the block's first element on
        (1 without it), such a node has its operand's value in the first iterations: in
        (s + 1 - max(e, 1)) // tile of them. In turns there is a last tile of each.
        """
        return frozenset(
            n.name
            for n in self.nodes
            if n.op in ("keep", "clear")
            and n.when is None
            and not turns_of(self.span)
            and n.type.dtype == self[n.uses[0]].type.dtype
            and self.ends(n, self.over)
        )

    def ends(self, node: Node, dim: str) -> bool:
        """Whether nothing of a node's first operand is left in it past the end of a dimension.

        Args:
            node: The node that may be a mask.
            dim: The dimension's name.
        """
        if node.op not in VOCABULARY or not VOCABULARY[node.op].masks:
            return False
        return self.is_left(node.uses[1], dim) and all(map(self.is_end, node.uses[2:]))

    def is_left(self, name: str, dim: str) -> bool:
        """Whether it is what is left along a dimension.

        Args:
            name: The value's name.
            dim: The dimension's name.
        """
        node = self[name]
        return node.kind is NodeKind.LEFT and node.type.dims == (dim,)

    def is_end(self, name: str) -> bool:
        """Whether a mask's bound is 1, or what is left along ``until`` if that is more.

        Args:
            name: The value's name.
        """
        node = self[name]
        if node.kind is NodeKind.CONSTANT:
            return node.start == 1
        if node.op != "max" or self.until is None or node.when is not None:
            return False
        one = self[node.uses[1]]
        least = one.kind is NodeKind.CONSTANT and one.start == 1
        return least and self.is_left(node.uses[0], self.until)

    @cached_property
    def tile(self) -> Mapping[str, int]:
        """What one workgroup takes along each dimension of the arrays, in one iteration."""
        nodes = (*self.inputs, *self.outputs)
        return {dim: size for node in nodes for dim, size in node.type.sizes.items()}

    @cached_property
    def grid(self) -> tuple[str, ...]:
        """Dimensions that workgroups share out, in order of first appearance in the outputs."""
        return tuple(dict.fromkeys(d for n in self.outputs for d in n.type.dims if d != self.over))

    @cached_property
    def uncut(self) -> Mapping[str, int]:
        """Dimensions of arrays that one tile must hold, with its size.

        Those along which nothing goes from tile to tile; those of the grid that an op reduces, of
        which it would find a part; and those that some output lacks though it depends on them:
        every workgroup along them would store another value. What is added up is no other.
        """
        return uncut_dims(self)

    def all_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes with those that follow from arrays which lie elsewhere; raises where they disagree.

        Args:
            sizes: The arrays' sizes by dimension.
        """
        return derived_sizes(self.over, (*self.inputs, *self.outputs), sizes)

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise for arrays of which part would be left out, or stored by several workgroups.

        Args:
            sizes: The arrays' sizes by dimension.
        """
        self.all_sizes(sizes)
        check_whole_blocks(self.name, self.nodes, sizes)
        for dim, tile in self.uncut.items():
            if sizes.get(dim, 0) > tile:
                raise ConfigError(
                    f"{self.name}: the size along {dim!r} is {sizes[dim]}, but a workgroup takes "
                    f"the first {tile}",
                    hint=f"declare tiles that hold all of {dim!r}: no loop and no output goes on "
                    "along it",
                    field=dim,
                )

    def domain(self, node: Node) -> TileType:
        """The whole work of a node: its result's dimensions, then those it reduces.

        A part of a node's work is a box of this.

        Args:
            node: A node of this meaning.
        """
        found = self._domains.get(node.name)
        if found is None:
            found = self._domains[node.name] = domain_of(self, node)
        return found

    @cached_property
    def _domains(self) -> dict[str, TileType]:
        return {}

    def loaded(self, name: str) -> Node:
        """The input whose tile a value is, or a view of; else the value's own node.

        Args:
            name: The value's name.
        """
        node = self[name]
        return self[node.uses[0]] if node.kind is NodeKind.VIEW else node

    def source(self, name: str, iteration: int) -> tuple[str, int] | None:
        """Whose value ``name`` has at ``iteration``: a carry has its update's of one before.

        ``None`` for a carry that still has its start value.

        Args:
            name: The value's name.
            iteration: The iteration, from 0.
        """
        node = self[name]
        while node.kind is NodeKind.CARRY:
            if iteration == 0:
                return None
            iteration -= 1
            node = self[node.uses[0]]
        node = self.loaded(node.name)
        return node.name, iteration if node.region is Region.LOOP else 0
