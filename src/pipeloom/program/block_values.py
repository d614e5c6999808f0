"""The values of one workgroup in NumPy, iteration after iteration, from its tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.errors import ConfigError
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.vocabulary import VOCABULARY, Vocabulary
from pipeloom.program.whole_numbers import operand_of, wrapped


def evaluate_block(
    meaning: Meaning,
    tiles: Mapping[str, Sequence[Array]],
    trips: int,
    scalars: Mapping[str, float] | None = None,
    ops: Vocabulary = VOCABULARY,
    look: Callable[[Region, Mapping[str, Array]], None] | None = None,
    *,
    wide: bool = False,
) -> dict[str, list[Array]]:
    """The outputs of one workgroup: ``tiles`` has one array per iteration (one, if RESIDENT).

    An output of the LOOP has one array per iteration, one AFTER it a single one. ``look`` is shown
    all values, region by region, in the loop once per iteration. What is left along a dimension is
    as in a single block of whole tiles, unless ``tiles`` has it. With ``wide`` every op computes in
    double precision, and only its result is rounded to its type.
    """
    whole = {d: s for n in meaning.nodes for d, s in n.type.sizes.items()}
    whole[meaning.over] = trips * whole.get(meaning.over, 1)
    left = {
        n.name: [place_tile(meaning, n, whole, {}, i) for i in range(max(trips, 1))]
        for n in meaning.nodes
        if n.kind.is_place and n.name not in tiles
    }
    run = _Evaluation(meaning, {**left, **tiles}, scalars or {}, ops, look, wide)
    run.region(Region.BEFORE, 0)
    for iteration in range(trips):
        run.region(Region.LOOP, iteration)
    run.region(Region.AFTER, 0)
    return run.stored


class _Evaluation:
    """The values of one workgroup, iteration after iteration."""

    def __init__(
        self,
        meaning: Meaning,
        tiles: Mapping[str, Sequence[Array]],
        scalars: Mapping[str, float],
        ops: Vocabulary,
        look: Callable[[Region, Mapping[str, Array]], None] | None,
        wide: bool = False,
    ) -> None:
        self._look = look
        self._width = np.float64 if wide else None
        self._meaning = meaning
        self._tiles = tiles
        self._scalars = scalars
        self._ops = ops
        self.stored: dict[str, list[Array]] = {node.name: [] for node in meaning.outputs}
        self.values: dict[str, Array] = {
            node.name: np.full(node.type.shape, node.start, node.type.dtype.held)
            for node in meaning.nodes
            if node.kind is NodeKind.CARRY
        }

    def region(self, region: Region, iteration: int) -> None:
        """All nodes of a region, in order; then the carries move on."""
        for node in self._meaning.nodes:
            if node.region is region and node.kind is not NodeKind.CARRY:
                value = self._value(node, iteration)
                self.values[node.name] = np.asarray(value, self._width)
                if node.kind is NodeKind.OUTPUT:
                    self.stored[node.name].append(self.values[node.name])
        if self._look is not None:
            self._look(region, self.values)
        if region is Region.LOOP:
            carries = [n for n in self._meaning.nodes if n.kind is NodeKind.CARRY]
            moved = {node.name: self.values[node.uses[0]] for node in carries}
            self.values |= moved

    def _value(self, node: Node, iteration: int) -> Array:
        match node.kind:
            case NodeKind.LEFT | NodeKind.SIZE:
                return self._tiles[node.name][iteration]
            case NodeKind.STREAM:
                return node.type.dtype.round(self._tiles[node.name][iteration])
            case NodeKind.RESIDENT:
                return node.type.dtype.round(self._tiles[node.name][0])
            case NodeKind.VIEW:
                return self.values[node.uses[0]][tuple(map(slice, node.type.shape))]
            case NodeKind.SCALAR:
                return np.full(node.type.shape, self._scalar(node), np.float32)
            case NodeKind.CONSTANT:
                return np.full(node.type.shape, node.start, np.float32)
            case NodeKind.OUTPUT:
                return node.type.dtype.round(self.values[node.uses[0]])
        wide = self._width is not None
        value = apply_node(self._meaning, node, self.values, self._ops, wide=wide)
        if node.when is not None and node.otherwise is not None:
            taken, other = (
                aligned(self.values[name], self._meaning[name].type.dims, node.type.dims)
                for name in (node.when, node.otherwise)
            )
            value = np.where(taken != 0, value, other)
        return node.type.dtype.round(value)

    def _scalar(self, node: Node) -> float:
        if node.name not in self._scalars and node.start is not None:
            return node.start
        if node.name not in self._scalars:
            raise ConfigError(
                f"{self._meaning.name} needs the scalar {node.name!r}",
                hint=f"pass scalars={{{node.name!r}: ...}}",
                field=node.name,
            )
        return float(self._scalars[node.name])


def apply_node(
    meaning: Meaning,
    node: Node,
    values: Mapping[str, Array],
    ops: Vocabulary = VOCABULARY,
    *,
    wide: bool = False,
) -> Array:
    """An OP node's result from the arrays of its operands (any matching part of each).

    Not rounded, and without ``when``. With ``init``, the reduced result is combined with it. With
    ``wide`` it computes in double precision, as which values are then given.
    """
    op = ops[node.op]
    domain = meaning.domain(node)
    operands = [
        aligned(
            operand_of(node, values[name], meaning[name], wide=wide),
            meaning[name].type.dims,
            domain.dims,
        )
        for name in node.uses
    ]
    over = tuple(i for i, dim in enumerate(domain.dims) if dim not in node.type.dims)
    with np.errstate(all="ignore"):
        result = op.apply(*operands, over=over, within=blocks_along(node, domain.dims))
        shape = np.broadcast_shapes(*(a.shape for a in operands))
        kept = tuple(size for i, size in enumerate(shape) if i not in over)
        result = np.broadcast_to(result, kept)
        if node.init is not None:
            assert op.reduce is not None
            start = aligned(values[node.init], meaning[node.init].type.dims, node.type.dims)
            result = op.reduce.ufunc(start, result)
        return np.asarray(wrapped(node, result))


def blocks_along(node: Node, dims: Sequence[str]) -> tuple[int, int] | None:
    """The axis along which an op sees blocks, and their size."""
    return None if node.within is None else (dims.index(node.within.dim), node.within.size)


def aligned(value: Array, dims: Sequence[str], onto: Sequence[str]) -> Array:
    """An array of ``dims`` with its axes in the order of ``onto``, and 1 long where it has none."""
    order = sorted(range(len(dims)), key=lambda i: onto.index(dims[i]))
    moved = value.transpose(order)
    present = [dims[i] for i in order]
    shape = [moved.shape[present.index(d)] if d in present else 1 for d in onto]
    return moved.reshape(shape)


def place_tile(
    meaning: Meaning, node: Node, sizes: Mapping[str, int], block: Mapping[str, int], iteration: int
) -> Array:
    """How many elements are left along a LEFT node's dimension, from each one of a tile on; of a
    SIZE how many there are."""
    if node.along is not None:
        return np.array(sizes[node.along], np.float32)
    dim, tile = node.type.dims[0], node.type.shape[0]
    at = iteration if dim == meaning.over else block.get(dim, 0)
    return (sizes[dim] - at * tile - np.arange(tile)).astype(np.float32)


def is_exact(meaning: Meaning) -> bool:
    """Whether sums of its small whole numbers are exact whatever their order."""
    ops = [n.op for n in meaning.nodes if n.kind is NodeKind.OP]
    return all(op in VOCABULARY and VOCABULARY[op].exact for op in ops)
