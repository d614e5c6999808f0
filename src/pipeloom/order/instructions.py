"""Tasks of a loop as single instructions: one LDS read, one load to LDS, one matrix instruction.

    load A0     4 loads of 32 rows each
    read A0     8 reads of 16 rows and 16 bytes per lane; of block scales 8 loads
    C.next00    32 products of 16 x 16 x 32
    P           8 exponentials of 4 registers: what a box of a matrix result has at the least

A wave's operand becomes a place per fragment, the rows and the depth that one matrix instruction
takes (or what one read brings, if that is more), so that a fragment is filled, used and freed by
itself. Results stay where they are: a product adds to its own box of them. What is computed is the
same, only the steps are smaller, and judges, synchronisation and writers take steps of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import lcm, prod

from pipeloom.order.grains import (
    Grain,
    fragment_name,
    grain_of,
    has_codes,
    has_vectors,
    is_beside_result,
    is_code_beside,
    is_operand,
    is_result,
    is_skipped,
    is_vector,
    least_box,
    leaves,
    read_depth,
    worked_box,
)
from pipeloom.order.load_boxes import LoadBox, even_rows, load_boxes
from pipeloom.order.passing import box_of, in_turn, passing
from pipeloom.order.roles import Loading, WaveGroup
from pipeloom.order.spread import registers
from pipeloom.order.staging import turns
from pipeloom.order.tasks import Lowered, Place, Task, Touch
from pipeloom.program.nodes import Region
from pipeloom.program.steps import Issue, Unit
from pipeloom.program.tiles import Box, TileType


def refinable(lowered: Lowered) -> bool:
    """Whether the loop is made of loads to LDS, reads of it, products and vector ops."""
    return not unfit(lowered)


def unfit(lowered: Lowered) -> str:
    """What of the loop cannot be cut into single instructions, or is missing; empty if nothing."""
    tasks = lowered.of(Region.LOOP)
    if len(lowered.groups) != 1:
        return "groups of waves have jobs of their own"
    if all(task.unit is not Unit.MATRIX for task in tasks):
        return "its loop has no matrix product"
    if all(task.unit not in (Unit.LOAD_LDS, Unit.LDS_WRITE) for task in tasks):
        return "nothing of its loop is staged in LDS"
    strange = [task.label for task in tasks if _kind(lowered, task) is None]
    if strange:
        return f"{strange[0]!r} is no load to LDS, load of an operand, product or vector op"
    return ""


def refine(lowered: Lowered, groups: int = 1, loading: Loading = Loading.IN_TURN) -> Lowered:
    """The same work in single instructions, by ``groups`` of waves.

    Every group computes the part of its own waves; ``loading`` says who loads what they share.
    ``lowered`` must be ``refinable``.
    """

    def cut() -> Lowered:
        cutter = _Cutter(lowered, _split(lowered.groups[0], groups), loading)
        tasks = tuple(piece for task in lowered.tasks for piece in cutter.task(task))
        return replace(lowered, groups=cutter.groups, places=tuple(cutter.places()), tasks=tasks)

    return lowered.once(("refined", groups, loading), cut)


def _split(group: WaveGroup, count: int) -> tuple[WaveGroup, ...]:
    if count == 1:
        return (group,)
    each = len(group.waves) // count
    return tuple(
        replace(group, name=f"{group.name} {n}", waves=group.waves[n * each : (n + 1) * each])
        for n in range(count)
    )


def _kind(lowered: Lowered, task: Task) -> Unit | None:
    """The unit of a task that can be cut; VECTOR for every vector op."""
    unit = task.unit
    if turns(lowered, task):
        return unit
    if unit in (Unit.LDS_READ, Unit.LOAD):
        beside = unit is Unit.LDS_READ and _fills(lowered, task, is_beside_result)
        beside |= _fills(lowered, task, is_code_beside)
        return unit if beside or _fills(lowered, task, is_operand) else None
    if unit is Unit.MATRIX:
        found = [lowered.place(t.place) for t in task.reads]
        kinds = [p.layout.kind for p in found if p is not None and p.layout is not None]
        if len(kinds) == 2 or kinds[2:] == ["scales"] * 2:
            return unit if set(kinds[:2]) <= {"operand", "accumulator"} else None
        return None
    if is_vector(task):
        return Unit.VECTOR
    if leaves(task):
        held = lowered.place(task.reads[0].place)
        return unit if held is not None and is_result(held) and has_vectors(lowered) else None
    return unit if unit is Unit.LOAD_LDS else None


class _Cutter:
    def __init__(self, lowered: Lowered, groups: tuple[WaveGroup, ...], loading: Loading) -> None:
        self._lowered = lowered
        self.groups, self._loading = groups, loading
        self._grains: dict[str, Grain] = {}
        tasks = lowered.of(Region.LOOP)
        self._tiles = [t.label for t in tasks if t.unit is Unit.LOAD_LDS]
        products = [t for t in tasks if t.unit is Unit.MATRIX]
        second = {t.reads[1].place for t in products}
        for task in tasks:
            if task.unit in (Unit.LDS_READ, Unit.LOAD) and not turns(lowered, task):
                place = lowered.place(task.writes[0].place)
                assert place is not None
                self._grains[place.name] = grain_of(place, place.name in second)
            elif is_vector(task):
                for touch in task.left:
                    place = lowered.place(touch.place)
                    if place is not None and place.rotates and is_operand(place):
                        self._grains[place.name] = grain_of(place, False)
        self._passing = passing(lowered)
        for place in lowered.places:
            if place.name in self._passing:
                self._grains[place.name] = box_of(place)

    def places(self) -> Iterator[Place]:
        for place in self._lowered.places:
            grain = self._grains.get(place.name)
            if grain is None:
                yield place
                continue
            dtype = place.type.dtype
            each = place.registers // registers(place.layout, place.type.shape, dtype)
            for corner in _corners(place.type.shape, grain.size):
                fragment = replace(
                    place,
                    name=fragment_name(place.name, corner, grain),
                    type=TileType(place.type.dims, grain.size, dtype),
                    registers=each * registers(place.layout, grain.size, dtype),
                )
                boxes = self._passing.get(place.name)
                yield fragment if boxes is None else in_turn(fragment, boxes[corner])

    def _touched(self, touch: Touch, at: Mapping[str, int], size: Mapping[str, int]) -> Touch:
        """What a part of the work touches of a place: ``size`` from ``at`` on, by dimension."""
        place = self._lowered.place(touch.place)
        if place is None or (touch.boxes and place.layout is None):
            dims = self._lowered.meaning[touch.value].type.dims
            part = [at[d] for d in dims], [size[d] for d in dims]
            return replace(touch, boxes=tuple(_part(box, *part) for box in touch.boxes))
        begin = tuple(at[d] for d in place.type.dims)
        length = tuple(size[d] for d in place.type.dims)
        grain = self._grains.get(place.name)
        whole, corner, name = place.type.shape, (0,) * len(begin), place.name
        if grain is not None:
            corner = tuple(b // g * g for b, g in zip(begin, grain.size, strict=True))
            whole, name = grain.size, fragment_name(place.name, corner, grain)
        box = tuple((b - c, b - c + n) for b, c, n in zip(begin, corner, length, strict=True))
        return replace(touch, place=name, boxes=() if length == whole else (box,))

    def task(self, task: Task) -> Iterator[Task]:
        """Its instructions, group by group; what stands outside of the loop stays whole."""
        unit = task.unit if task.region is Region.LOOP else None
        if unit is Unit.LOAD_LDS:
            yield from self._load(task)
            return
        for group in self.groups:
            mine = self._of_group(task, group)
            if turns(self._lowered, mine):
                yield mine
            elif unit in (Unit.LDS_READ, Unit.LOAD):
                yield from self._read(mine)
            elif unit is Unit.MATRIX:
                yield from self._product(mine)
            elif unit is not None:
                yield from self._between(mine)
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
        """Boxes of what the waves of a group bring at once.

        What is left of a tile that full loads do not share evenly comes in narrow ones. Every load
        has its place in LDS computed.
        """
        box = task.parts[0]
        shape = tuple(stop - start for start, stop in box)
        for number, (inside, entries, width) in enumerate(self._shares(task, shape)):
            size = [stop - start for start, stop in inside]
            part = _part(box, [start for start, _ in inside], size)
            whole = tuple(size) == shape
            issue = replace(task.issues[0], count=entries, bytes=width)
            yield replace(
                task,
                label=task.label if whole else f"{task.label}.{number}",
                group=self._loader(task, number).name,
                parts=(part,),
                reads=(replace(task.reads[0], boxes=(part,)),),
                writes=(replace(task.writes[0], boxes=(inside,)),),
                entries=entries,
                issues=(issue, Issue(Unit.SCALAR, entries)),
            )

    def _loader(self, task: Task, number: int) -> WaveGroup:
        """The group of the ``number``-th load of a tile."""
        turn = {
            Loading.IN_TURN: number,
            Loading.BY_TILE: self._tiles.index(task.label),
            Loading.FIRST: 0,
            Loading.LAST: len(self.groups) - 1,
        }
        return self.groups[turn[self._loading] % len(self.groups)]

    def _shares(self, task: Task, shape: tuple[int, ...]) -> list[LoadBox]:
        node, target, waves = self._lowered.meaning[task.node], self._lowered.target, self.groups[0]
        entries = task.entries * len(self.groups)
        whole = LoadBox(tuple((0, n) for n in shape), entries, task.issues[0].bytes)
        lanes = len(waves.waves) * target.wave_lanes.value
        found = load_boxes(shape, node.type.dtype, lanes, target.lds_load_bytes(node.align))
        return found or even_rows(whole, len(self.groups))

    def _read(self, task: Task) -> Iterator[Task]:
        into = self._lowered.place(task.writes[0].place)
        assert into is not None
        grain = self._grains[into.name]
        per = tuple(size // once for size, once in zip(grain.size, grain.once, strict=True))
        for begin in _corners(into.type.shape, grain.once):
            corner = tuple(b // g * g for b, g in zip(begin, grain.size, strict=True))
            first = tuple(b - c for b, c in zip(begin, corner, strict=True))
            inside = tuple((f, f + n) for f, n in zip(first, grain.once, strict=True))
            count = task.entries // prod(
                size // step for size, step in zip(into.type.shape, grain.once, strict=True)
            )
            name = fragment_name(into.name, corner, grain)
            number = 0
            for at, once, count_of in zip(first, grain.once, per, strict=True):
                number = number * count_of + at // once

            def part(box: Box, begin: tuple[int, ...] = begin) -> Box:
                return _part(box, begin, grain.once)

            source = task.reads[0]
            boxes = source.boxes or (self._whole(source),)
            many = grain.once != grain.size
            yield replace(
                task,
                label=f"{task.label.split()[0]} {name}" + (f".{number}" if many else ""),
                parts=tuple(part(box) for box in task.parts),
                reads=(replace(source, boxes=tuple(part(box) for box in boxes)),),
                writes=(Touch(name, task.writes[0].value, (inside,) if many else ()),),
                entries=count,
                issues=(replace(task.issues[0], count=count),),
            )

    def _product(self, task: Task) -> Iterator[Task]:
        """Depth outermost, so that neighbours add to different results."""
        dims = self._lowered.meaning.domain(self._lowered.meaning[task.node]).dims
        places = [self._lowered.place(t.place) for t in task.reads[:2]]
        steps: dict[str, int] = {}
        for place in places:
            assert place is not None
            for dim, size in zip(place.type.dims, self._steps(place), strict=True):
                steps[dim] = min(size, steps.get(dim, size))
        one, two = ([d for d in p.type.dims if p] for p in places if p is not None)
        depth = next(d for d in one if d in two)
        rows, columns = (next(d for d in found if d != depth) for found in (one, two))
        # A result that is an input may have blocks of fewer columns than an instruction takes.
        steps[depth] = max(steps[depth], self._lowered.target.matrix_op(task.issues[0].shape).k)
        whole = {d: q - p for d, (p, q) in zip(dims, task.parts[0], strict=True)}
        order = (depth, rows, columns)
        count = prod(whole[d] // steps[d] for d in order)
        fresh = not task.accumulates
        for corner in _corners([whole[d] for d in order], [steps[d] for d in order]):
            at = dict(zip(order, corner, strict=True))
            number = "".join(f".{at[d] // steps[d]}" for d in (rows, columns, depth))
            piece = self._piece(task, dims, at, steps, f"{task.label}{number}")
            if fresh and at[depth]:
                piece = _added(piece)
            yield replace(
                piece, issues=tuple(replace(i, count=-(-i.count // count)) for i in task.issues)
            )

    def _between(self, task: Task) -> Iterator[Task]:
        """As many registers at a time as a box of a matrix result holds at the least.

        The last part of a sum joins lanes, so it is the last in time too.
        """
        meaning = self._lowered.meaning
        node = meaning[task.node]
        dims = node.type.dims if task.is_copy else meaning.domain(node).dims
        whole = {d: q - p for d, (p, q) in zip(dims, task.parts[0], strict=True)}
        steps = dict(whole)
        for touch in (*task.reads, *task.left):
            place = self._lowered.place(touch.place)
            if place is not None and is_operand(place) and not has_codes(place):
                steps |= dict(zip(place.type.dims, worked_box(place), strict=True))
            if place is not None and len(place.type.dims) == 2 and is_result(place):
                least = least_box(place)
                # What a wave writes to LDS waits for its products to end: once for several.
                if is_skipped(task) or task.unit is Unit.LDS_WRITE:
                    side = max(least)
                    least = tuple(
                        side if n == side else s
                        for n, s in zip(least, place.type.shape, strict=True)
                    )
                steps |= dict(zip(place.type.dims, least, strict=True))
        if node.within is not None:
            steps[node.within.dim] = lcm(steps[node.within.dim], node.within.size)
        corners = list(_corners([whole[d] for d in dims], [steps[d] for d in dims]))
        if len(corners) == 1:
            at = dict.fromkeys(dims, 0)
            yield self._piece(task, dims, at, steps, task.label)
            return
        reduces = not task.is_copy and self._lowered.ops[node.op].reduce is not None
        summed = [d for d in dims if d not in node.type.dims]
        for number, corner in enumerate(corners):
            at = dict(zip(dims, corner, strict=True))
            piece = self._piece(task, dims, at, steps, f"{task.label}/{number}")
            if not task.accumulates and any(at[d] for d in summed):
                piece = _added(piece)
            issues = task.issues
            if reduces:
                issues = issues if number == len(corners) - 1 else issues[:1]
            first = 1 if reduces else len(issues)
            yield replace(
                piece,
                entries=-(-task.entries // len(corners)),
                issues=(
                    *(replace(i, count=-(-i.count // len(corners))) for i in issues[:first]),
                    *issues[first:],
                ),
            )

    def _piece(
        self,
        task: Task,
        dims: Sequence[str],
        at: Mapping[str, int],
        size: Mapping[str, int],
        label: str,
    ) -> Task:
        begin, length = [at[d] for d in dims], [size[d] for d in dims]

        def touched(found: tuple[Touch, ...]) -> tuple[Touch, ...]:
            return tuple(self._touched(t, at, size) for t in found)

        return replace(
            task,
            label=label,
            parts=tuple(_part(box, begin, length) for box in task.parts),
            reads=touched(task.reads),
            writes=touched(task.writes),
            accumulates=touched(task.accumulates),
            onto=touched(task.onto),
        )

    def _steps(self, place: Place) -> tuple[int, ...]:
        """How far a product goes along the dimensions of an operand."""
        grain = self._grains.get(place.name)
        if grain is not None:
            return grain.taken
        assert place.layout is not None
        numbers = dict(place.layout.numbers)
        side = numbers["side"]
        if is_result(place):
            return side, side
        axis = numbers.get("axis", 1)
        deep = numbers["depth"] if "short" in numbers else max(numbers["depth"], read_depth(place))
        return tuple(deep if n == axis else side for n in range(2))

    def _whole(self, touch: Touch) -> Box:
        place = self._lowered.place(touch.place)
        assert place is not None
        return place.type.whole


def _fills(lowered: Lowered, task: Task, kind: Callable[[Place], bool]) -> bool:
    """Whether it brings an input of a product, its scales, what it is computed of; or numbers by
    row or column of a result."""
    place = lowered.place(task.writes[0].place)
    return place is not None and kind(place)


def _added(task: Task) -> Task:
    """A part of a reduction that is added to what other parts left."""
    return replace(task, writes=(), accumulates=task.writes, onto=task.writes)


def _corners(shape: Sequence[int], step: Sequence[int]) -> Iterator[tuple[int, ...]]:
    yield from product(*(range(0, size, by) for size, by in zip(shape, step, strict=True)))


def _part(box: Box, begin: Sequence[int], length: Sequence[int]) -> Box:
    """``length`` from ``begin`` on, along every dimension of a box."""
    return tuple((p + b, p + b + n) for (p, _), b, n in zip(box, begin, length, strict=True))
