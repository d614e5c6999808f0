"""What a step does with numbers: which elements it reads, what it makes of them, where that goes.

All storage of a workgroup is one row of elements: LDS once, registers once per wave. An access is
an array of positions in that row, already in the order of the op's dimensions, so that a step at
run time is: take, apply, put. Inputs and outputs are rows of their own, tile after tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from pipeloom.array_kinds import Array, Indices
from pipeloom.errors import StructureError
from pipeloom.program import (
    VOCABULARY,
    Access,
    Box,
    InBlocks,
    Node,
    NodeKind,
    OpDef,
    Program,
    Region,
    Space,
    TileType,
    Vocabulary,
    Work,
    blocks_along,
)


class Side(Enum):
    """Where an access goes."""

    REGISTERS = 0
    LDS = 1
    INPUT = 2
    OUTPUT = 3


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """Elements of one row: ``index`` of the first tile, ``stride`` elements per tile."""

    side: Side
    name: str
    index: Indices
    shape: tuple[int, ...]
    stride: int = 0
    tiles: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """One step of one wave.

    ``operands`` are the names of what is read, in order; ``write`` is where the result goes, and
    with ``accumulates`` what it is combined with. ``skips`` tells that the last read decides
    element by element whether the step writes at all.
    """

    work: Work
    node: Node
    reads: tuple[Elements, ...]
    operands: tuple[str, ...]
    write: Elements
    op: OpDef | None
    over: tuple[int, ...]
    has_init: bool
    has_otherwise: bool
    accumulates: bool
    skips: bool
    reads_lds: bool
    propagates: bool

    def taken(self, values: Sequence[Array]) -> Array | None:
        """Where a step under a condition writes, [elements, set]; None if it does everywhere."""
        if not self.skips:
            return None
        condition = values[-1]
        shape = (*self.write.shape, condition.shape[-1])
        return np.broadcast_to(condition != 0, shape).reshape(-1, condition.shape[-1])

    def result(self, values: Sequence[Array], old: Array | None) -> Array:
        """What it writes, [elements, set]; ``old`` is what stands there, where that matters.

        Where a step under a condition leaves memory as it is, that is undefined.
        """
        value = values[0]
        if self.op is not None:
            with np.errstate(all="ignore"):
                value = self._apply(self.op, values, old)
        sets = value.shape[-1]
        if self.skips or self.has_otherwise:
            taken = values[-1]
            if self.skips:
                undefined = np.full((1,) * len(self.write.shape) + (sets,), np.nan)
                other = undefined if old is None else old.reshape(*self.write.shape, sets)
            else:
                other = values[-2]
            value = np.where(taken != 0, value, other)
            value = np.where(np.isnan(taken), np.nan, value)
        if value.shape[:-1] != self.write.shape:
            value = np.broadcast_to(value, (*self.write.shape, sets))
        return value.reshape(-1, sets)

    def _apply(self, op: OpDef, values: Sequence[Array], old: Array | None) -> Array:
        count = len(self.node.uses)
        uses = values[:count]
        within = blocks_along(self.node, self.node.type.dims)
        result: Array = np.asarray(op.apply(*uses, over=self.over, within=within), np.float64)
        lost = None if self.propagates else self._lost(uses)
        start = values[count] if self.has_init else None
        if self.accumulates:
            assert old is not None
            start = old.reshape(*self.write.shape, old.shape[-1])
        if start is not None:
            assert op.reduce is not None
            if not self.propagates:
                gone = np.isnan(start)
                lost = gone if lost is None else lost | gone
            result = np.asarray(op.reduce.ufunc(start, result), np.float64)
        result = np.asarray(self.node.type.dtype.round(result), np.float64)
        return result if lost is None else np.where(lost, np.nan, result)

    def _lost(self, uses: Sequence[Array]) -> Array:
        lost = np.isnan(uses[0])
        for other in uses[1:]:
            lost = lost | np.isnan(other)
        within = blocks_along(self.node, self.node.type.dims)
        if within is not None:
            lost = InBlocks.MAX.apply(lost, *within)
        return np.asarray(lost.any(axis=self.over) if self.over else lost)


class Storage:
    """Where everything of a program lies, and the actions of its steps."""

    def __init__(self, program: Program, ops: Vocabulary = VOCABULARY) -> None:
        self._program = program
        self._ops = ops
        self._offset: dict[tuple[str, int], int] = {}
        self._inputs: dict[str, int] = {}
        self._actions: dict[tuple[int, int], Action] = {}
        self.size = 0
        self.starts: list[tuple[int, int, float]] = []
        for resource in program.resources:
            waves = [-1] if resource.space is Space.LDS else range(program.waves)
            for wave in waves:
                elements = resource.copies * resource.type.elements
                self._offset[resource.name, wave] = self.size
                if resource.start is not None:
                    held = float(resource.type.dtype.round(resource.start))
                    self.starts.append((self.size, self.size + elements, held))
                self.size += elements

    def action(self, step: Work, wave: int, local: int) -> Action:
        """What ``step`` does in ``wave``, the ``local``-th of its group."""
        key = (id(step), wave)
        found = self._actions.get(key)
        if found is None:
            found = self._actions[key] = self._make(step, wave, local)
        return found

    def _make(self, step: Work, wave: int, local: int) -> Action:
        meaning = self._program.meaning
        node = meaning[step.node]
        compute = not step.is_copy
        if compute and node.kind is not NodeKind.OP:
            raise self._bad(step, f"computes {node.name!r}, which no op computes")
        domain = meaning.domain(node) if compute else node.type
        operands = self._operands(step, node)
        count = len(node.uses) if compute else 1
        reads = []
        for number, (access, name) in enumerate(zip(step.reads, operands, strict=True)):
            type_ = meaning[name].type
            onto = domain.dims if number < count else node.type.dims
            reads.append(self._place(step, access, type_, onto, wave, local))
        written = (*step.writes, *step.accumulates)
        if len(written) != 1:
            raise self._bad(step, f"writes {len(written)} places")
        write = self._place(step, written[0], node.type, node.type.dims, wave, local)
        op = self._ops[node.op] if compute else None
        over = tuple(i for i, d in enumerate(domain.dims) if d not in node.type.dims)
        skips = step.when is not None
        action = Action(
            work=step,
            node=node,
            reads=tuple(reads),
            operands=operands,
            write=write,
            op=op,
            over=over,
            has_init=compute and node.init is not None and not step.accumulates,
            has_otherwise=compute and node.when is not None and not skips,
            accumulates=bool(step.accumulates),
            skips=skips,
            reads_lds=any(place.side is Side.LDS for place in reads),
            propagates=op is None or op.propagates,
        )
        self._check_shapes(step, action)
        return action

    def _operands(self, step: Work, node: Node) -> tuple[str, ...]:
        """The operand that each read is for."""
        names = [node.name] if step.is_copy else list(node.uses)
        if not step.is_copy and node.init is not None and not step.accumulates:
            names.append(node.init)
        condition = step.when if step.when is not None else node.when
        if not step.is_copy and node.when is not None and node.otherwise is not None:
            if step.when is None or len(step.reads) > len(names) + 1:
                names.append(node.otherwise)
            names.append(condition or node.when)
        elif step.when is not None:
            names.append(step.when)
        if len(names) != len(step.reads):
            raise self._bad(step, f"reads {len(step.reads)} places, but needs {', '.join(names)}")
        return tuple(names)

    def _place(
        self,
        step: Work,
        access: Access,
        value: TileType,
        onto: Sequence[str],
        wave: int,
        local: int,
    ) -> Elements:
        """The elements of an access, in the order of the value's dimensions, spread ``onto``."""
        name = access.resource
        meaning = self._program.meaning
        resources = {r.name: r for r in self._program.resources}
        stride, tiles = 0, False
        if name in resources:
            resource = resources[name]
            type_ = resource.type
            lds = resource.space is Space.LDS
            side = Side.LDS if lds else Side.REGISTERS
            base = self._offset[name, -1 if lds else wave] + access.copy * type_.elements
        else:
            node = meaning[name]
            type_, base = node.type, 0
            side = Side.OUTPUT if node.kind is NodeKind.OUTPUT else Side.INPUT
            looped = node.kind is NodeKind.LEFT and node.region is Region.LOOP
            tiles = (
                node.kind is NodeKind.STREAM
                or looped
                or (side is Side.OUTPUT and node.region is Region.LOOP)
            )
            stride = type_.elements if tiles else 0
        box: Box = access.box(local) or type_.whole
        index = np.arange(type_.elements, dtype=np.intp).reshape(type_.shape) + base
        index = index[tuple(slice(a, b) for a, b in box)]
        index, dims = self._named(step, index, type_.dims, value.dims)
        order = sorted(range(len(dims)), key=lambda i: list(onto).index(dims[i]))
        sizes = {dims[i]: index.shape[i] for i in order}
        shape = tuple(sizes.get(d, 1) for d in onto)
        flat = np.ascontiguousarray(index.transpose(order)).reshape(-1)
        return Elements(side, name, flat, shape, stride, tiles, access.shared and side is Side.LDS)

    def _named(
        self, step: Work, index: Indices, stored: Sequence[str], dims: Sequence[str]
    ) -> tuple[Indices, Sequence[str]]:
        """Dimensions of storage as those of the value: by name, else by position."""
        if set(stored) == set(dims):
            return index, stored
        if len(stored) != len(dims):
            sizes = [s for s in index.shape if s > 1]
            index = index.reshape(sizes + [1] * (len(dims) - len(sizes)))
        if index.ndim != len(dims):
            raise self._bad(step, f"keeps a value of {', '.join(dims)} in {', '.join(stored)}")
        return index, dims

    def _check_shapes(self, step: Work, action: Action) -> None:
        """That what is read fits together, and fits what is written."""
        count = len(action.node.uses) if action.op is not None else 1
        try:
            shape = np.broadcast_shapes(*(p.shape for p in action.reads[:count]))
            kept = tuple(s for i, s in enumerate(shape) if i not in action.over)
            rest = [p.shape for p in action.reads[count:]]
            if np.broadcast_shapes(kept, action.write.shape, *rest) == action.write.shape:
                return
        except ValueError:
            pass
        shapes = ", ".join(str(p.shape) for p in action.reads)
        raise self._bad(step, f"reads boxes of {shapes} and writes one of {action.write.shape}")

    def _bad(self, step: Work, what: str) -> StructureError:
        return StructureError(
            f"program {self._program.name!r}: {step.label!r} {what}",
            hint="docs/program.md says what a step reads and writes",
            field=step.node,
        )
