"""Tasks of a loop as single instructions: one LDS read, one load to LDS, one matrix instruction.

    load A0     4 loads of 32 rows each
    read A0     8 reads of 16 rows and 16 bytes per lane
    C.next00    32 products of 16 x 16 x 32

A wave's operand becomes a place per fragment, the rows and the depth that one matrix instruction
takes (or what one read brings, if that is more), so that a fragment is filled, used and freed by
itself. Results stay where they are: a product adds to its own box of them. What is computed is the
same, only the steps are smaller, and judges, synchronisation and writers take steps of any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from pipeloom.machine.target import LOAD_BYTES, REGISTER_BYTES, WAVE_LANES
from pipeloom.order.roles import WaveGroup
from pipeloom.order.tasks import Lowered, Place, Task, Touch
from pipeloom.program.meaning import Region
from pipeloom.program.steps import Issue, Unit
from pipeloom.program.tiles import Box, TileType


def refinable(lowered: Lowered) -> bool:
    """Whether every task of the loop is a load to LDS, a read of it, or a product."""
    return len(lowered.groups) == 1 and all(
        _kind(lowered, task) is not None for task in lowered.of(Region.LOOP)
    )


def refine(lowered: Lowered, groups: int = 1) -> Lowered:
    """The same work in single instructions, by ``groups`` of waves that take turns in loading.

    Every group computes the part of its own waves. ``lowered`` must be ``refinable``.
    """
    cut = _Cutter(lowered, _split(lowered.groups[0], groups))
    tasks = [piece for task in lowered.tasks for piece in cut.task(task)]
    return replace(lowered, groups=cut.groups, places=tuple(cut.places()), tasks=tuple(tasks))


def _split(group: WaveGroup, count: int) -> tuple[WaveGroup, ...]:
    if count == 1:
        return (group,)
    each = len(group.waves) // count
    return tuple(
        replace(group, name=f"{group.name} {n}", waves=group.waves[n * each : (n + 1) * each])
        for n in range(count)
    )


def _kind(lowered: Lowered, task: Task) -> Unit | None:
    """The unit of a task that can be cut."""
    if len(task.issues) != 1:
        return None
    unit = task.issues[0].unit
    if unit is Unit.LDS_READ:
        place = lowered.place(task.writes[0].place)
        layout = None if place is None else place.layout
        if layout is None or layout.kind != "operand":
            return None
        return None if "permuted" in dict(layout.numbers) else unit
    if unit is Unit.MATRIX:
        operands = [lowered.place(t.place) for t in task.reads]
        cut = all(p is not None and p.layout and p.layout.kind == "operand" for p in operands)
        return unit if cut and len(task.reads) == 2 and task.accumulates else None
    return unit if unit is Unit.LOAD_LDS else None


@dataclass(frozen=True, slots=True)
class _Grain:
    """A fragment of an operand tile: ``rows`` by ``deep`` elements, of which one read brings
    ``side`` by ``once``. ``axis`` is which dimension of the tile is the depth."""

    rows: int
    deep: int
    side: int
    once: int
    axis: int = 1

    def ordered(self, rows: int, deep: int) -> tuple[int, int]:
        """A number of each as the tile has its dimensions."""
        return (deep, rows) if self.axis == 0 else (rows, deep)

    @property
    def shape(self) -> tuple[int, int]:
        """Of a fragment."""
        return self.ordered(self.rows, self.deep)


class _Cutter:
    def __init__(self, lowered: Lowered, groups: tuple[WaveGroup, ...]) -> None:
        self._lowered = lowered
        self.groups = groups
        self._grains: dict[str, _Grain] = {}
        second = {t.reads[1].place for t in lowered.of(Region.LOOP) if len(t.reads) > 1}
        for task in lowered.of(Region.LOOP):
            if task.issues[0].unit is Unit.LDS_READ:
                place = lowered.place(task.writes[0].place)
                assert place is not None
                self._grains[place.name] = _grain(place, place.name in second)

    def places(self) -> Iterator[Place]:
        for place in self._lowered.places:
            grain = self._grains.get(place.name)
            if grain is None:
                yield place
                continue
            for corner in _corners(place.type.shape, grain.shape):
                bits = prod(grain.shape) // WAVE_LANES * place.type.dtype.bits
                yield replace(
                    place,
                    name=_fragment(place.name, grain.ordered(*corner), grain),
                    type=TileType(place.type.dims, grain.shape, place.type.dtype),
                    registers=-(-bits // (8 * REGISTER_BYTES)),
                )

    def task(self, task: Task) -> Iterator[Task]:
        """Its instructions, group by group; what stands outside of the loop stays whole."""
        unit = task.issues[0].unit if task.region is Region.LOOP else None
        if unit is Unit.LOAD_LDS:
            yield from self._load(task)
            return
        for group in self.groups:
            mine = self._of_group(task, group)
            if unit is Unit.LDS_READ:
                yield from self._read(mine)
            elif unit is Unit.MATRIX:
                yield from self._product(mine)
            else:
                yield mine

    def _of_group(self, task: Task, group: WaveGroup) -> Task:
        """The part of a task that the waves of one group do."""
        if len(self.groups) == 1:
            return task

        def mine(boxes: tuple[Box, ...]) -> tuple[Box, ...]:
            kept = boxes if len(boxes) < 2 else tuple(boxes[w] for w in group.waves)
            return kept[:1] if len(set(kept)) == 1 else kept

        def touches(found: tuple[Touch, ...]) -> tuple[Touch, ...]:
            return tuple(replace(t, boxes=mine(t.boxes)) for t in found)

        return replace(
            task,
            group=group.name,
            parts=mine(task.parts),
            reads=touches(task.reads),
            writes=touches(task.writes),
            accumulates=touches(task.accumulates),
            onto=touches(task.onto),
        )

    def _load(self, task: Task) -> Iterator[Task]:
        """Whole rows, as many as the waves of a group bring at once; groups take turns.

        What is left of a tile that full loads do not share evenly comes in narrow ones. Every load
        has its place in LDS computed.
        """
        box = task.parts[0]
        start = 0
        for number, (rows, entries, width) in enumerate(self._shares(task)):
            part = _within(box, 0, start, rows)
            inside = _within(_origin(box), 0, start, rows)
            start += rows
            whole = rows == box[0][1] - box[0][0]
            issue = replace(task.issues[0], count=entries, bytes=width)
            yield replace(
                task,
                label=task.label if whole else f"{task.label}.{number}",
                group=self.groups[number % len(self.groups)].name,
                parts=(part,),
                reads=(replace(task.reads[0], boxes=(part,)),),
                writes=(replace(task.writes[0], boxes=(inside,)),),
                entries=entries,
                issues=(issue, Issue(Unit.SCALAR, entries)),
            )

    def _shares(self, task: Task) -> Iterator[tuple[int, int, int]]:
        """The loads of a tile: rows, instructions per wave, bytes per lane."""
        shape = tuple(stop - start for start, stop in task.parts[0])
        rows, dtype = shape[0], self._lowered.meaning[task.node].type.dtype
        waves = len(self.groups[0].waves) * WAVE_LANES
        row = dtype.bytes(prod(shape[1:]))
        widest = self._lowered.target.dma_max_bytes_per_lane.value
        full, narrow = waves * widest // row, waves * REGISTER_BYTES // row
        left = rows % full if full else rows
        if narrow and waves * REGISTER_BYTES % row == 0 and left % narrow == 0:
            yield from ((full, 1, widest) for _ in range(rows // full))
            yield from ((narrow, 1, REGISTER_BYTES) for _ in range(left // narrow))
            return
        count = task.entries * len(self.groups)
        if rows % count:
            count = len(self.groups) if rows % len(self.groups) == 0 else 1
        entries = -(-task.entries * len(self.groups) // count)
        yield from ((rows // count, entries, task.issues[0].bytes) for _ in range(count))

    def _read(self, task: Task) -> Iterator[Task]:
        into = self._lowered.place(task.writes[0].place)
        assert into is not None
        grain = self._grains[into.name]
        each = grain.ordered(grain.side, grain.once)
        count = task.entries // prod(
            size // step for size, step in zip(into.type.shape, each, strict=True)
        )
        for at in _corners(into.type.shape, each):
            row, deep = grain.ordered(*at)
            corner = (row // grain.rows * grain.rows, deep // grain.deep * grain.deep)
            first, start = row - corner[0], deep - corner[1]
            a, b = (first, first + grain.side), (start, start + grain.once)
            inside = (b, a) if grain.axis == 0 else (a, b)
            name = _fragment(into.name, corner, grain)
            many = grain.once < grain.deep or grain.side < grain.rows
            number = first // grain.side * (grain.deep // grain.once) + start // grain.once

            def part(box: Box, row: int = row, deep: int = deep) -> Box:
                box = _within(box, 1 - grain.axis, row, grain.side)
                return _within(box, grain.axis, deep, grain.once)

            source = task.reads[0]
            boxes = source.boxes or (self._whole(source),)
            yield replace(
                task,
                label=f"read {name}" + (f".{number}" if many else ""),
                parts=tuple(part(box) for box in task.parts),
                reads=(replace(source, boxes=tuple(part(box) for box in boxes)),),
                writes=(Touch(name, task.writes[0].value, (inside,) if many else ()),),
                entries=count,
                issues=(replace(task.issues[0], count=count),),
            )

    def _product(self, task: Task) -> Iterator[Task]:
        """Depth outermost, so that neighbours add to different results."""
        first, second = (self._lowered.place(t.place) for t in task.reads)
        result = self._lowered.place(task.accumulates[0].place)
        assert first is not None
        assert second is not None
        assert result is not None
        one, two = self._grains[first.name], self._grains[second.name]
        dims = self._lowered.meaning.domain(self._lowered.meaning[task.node]).dims
        rows, columns = first.type.dims[1 - one.axis], second.type.dims[1 - two.axis]
        depth = first.type.dims[one.axis]
        whole = tuple(stop - start for start, stop in task.parts[0])
        steps = {rows: one.rows, columns: two.rows, depth: one.deep}
        count = prod(whole[dims.index(d)] // steps[d] for d in dims)
        sizes = dict(zip(dims, whole, strict=True))
        order = (depth, rows, columns)
        for corner in _corners(tuple(sizes[d] for d in order), tuple(steps[d] for d in order)):
            at = dict(zip(order, corner, strict=True))

            def part(box: Box, at: dict[str, int] = at) -> Box:
                for axis, dim in enumerate(dims):
                    box = _within(box, axis, at[dim], steps[dim])
                return box

            inside = tuple((at[d], at[d] + steps[d]) for d in result.type.dims)
            number = "".join(f".{at[d] // steps[d]}" for d in (rows, columns, depth))
            yield replace(
                task,
                label=f"{task.label}{number}",
                parts=tuple(part(box) for box in task.parts),
                reads=(
                    replace(task.reads[0], place=_fragment(first.name, (at[rows], at[depth]), one)),
                    replace(
                        task.reads[1], place=_fragment(second.name, (at[columns], at[depth]), two)
                    ),
                ),
                accumulates=tuple(replace(t, boxes=(inside,)) for t in task.accumulates),
                onto=tuple(replace(t, boxes=(inside,)) for t in task.onto),
                issues=(replace(task.issues[0], count=task.issues[0].count // count),),
            )

    def _whole(self, touch: Touch) -> Box:
        place = self._lowered.place(touch.place)
        assert place is not None
        return place.type.whole


def _grain(place: Place, second: bool) -> _Grain:
    """What one matrix instruction and one read have in common.

    Where a read serves two instructions, the second operand has two blocks of rows, so that of the
    four products of a step no neighbours add to one result.
    """
    assert place.layout is not None
    numbers = dict(place.layout.numbers)
    side, depth = numbers["side"], numbers["depth"]
    axis = numbers.get("axis", 1)
    once = LOAD_BYTES * 8 * WAVE_LANES // (side * place.type.dtype.bits)
    once = min(once, place.type.shape[axis])
    twice = second and depth < once and place.type.shape[1 - axis] % (2 * side) == 0
    return _Grain(2 * side if twice else side, max(depth, once), side, once, axis)


def _fragment(name: str, corner: tuple[int, ...], grain: _Grain) -> str:
    row, deep = corner
    return f"{name}.{row // grain.rows}.{deep // grain.deep}"


def _corners(shape: tuple[int, ...], step: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    yield from product(*(range(0, size, by) for size, by in zip(shape, step, strict=True)))


def _within(box: Box, axis: int, start: int, length: int) -> Box:
    """``length`` from ``start`` on along one dimension of a box."""
    first = box[axis][0] + start
    return (*box[:axis], (first, first + length), *box[axis + 1 :])


def _origin(box: Box) -> Box:
    return tuple((0, stop - start) for start, stop in box)
