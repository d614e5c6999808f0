"""Single instructions in time: products at the pace of the matrix unit, all else woven in between.

    order       products in nested loops over depth, rows and columns, neighbours with results of
                their own; an operand fragment lives from its read to its last product
    reads       evenly spaced over the iteration, none later than its fragment's first product less
                the LDS latency, in the order of those deadlines; or in a part of the iteration, one
                tile after the other, so that LDS is free sooner for loads that take long
    barriers    the first before the first read, the others evenly spaced; or, with such reads, the
                second behind the last of them and others behind tiles before it
    loads       between the barrier behind their buffer's last read and, a latency earlier, the one
                before its next: at the pace of memory, deadlines first; so are writes, each with
                the load to registers of what it writes (``staging``) a latency ahead
    scales      evenly spaced loads to registers, a latency before their first product

With ``groups`` of waves, each does the same beside the others, or with ``stagger`` from one barrier
to the next later; with ``cluster`` they take turns at the matrix unit, so many products at a time,
and do everything else meanwhile. All of it is a ``Timetable`` of the modulo problem of copies,
which decides stages and unrolling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from pipeloom.errors import OrderError
from pipeloom.order.modulo import Op, Reader
from pipeloom.order.pattern import WHOLE, Pattern
from pipeloom.order.problem_builder import LoopProblem, ProblemBuilder
from pipeloom.order.slots import Slots
from pipeloom.order.strategy import Timetable
from pipeloom.order.tasks import Lowered
from pipeloom.order.unit_times import MEMORY, TEXTURE, Machine
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.steps import Unit

AHEAD = 2
"""Loads to LDS that a load of block scales may find ahead of it. A choice: with fewer, a product
may wait for its scales; each more keeps their registers taken for longer."""


@dataclass(frozen=True, slots=True)
class Woven:
    """A timetable with its problem; ops behind the tasks are barriers. ``late`` is by how much the
    last load would miss its barrier."""

    loop: LoopProblem
    timetable: Timetable
    late: int


def weave(lowered: Lowered, pattern: Pattern, registers: dict[str, int]) -> Woven:
    """Start times for instructions; ``registers`` says how many copies of a fragment there may be.

    Raises ``OrderError`` where fragments would need more copies, or LDS more room.
    """
    return Weaver(lowered, pattern, registers).weave()


def _sums_before(meaning: Meaning, node: Node) -> int:
    """How many sums of an iteration must be whole before ``node`` adds to the last of them."""
    before = None if node.init is None else meaning[node.init]
    return (
        0 if before is None or before.kind is not NodeKind.OP else 1 + _sums_before(meaning, before)
    )


class Weaver:
    def __init__(self, lowered: Lowered, pattern: Pattern, registers: dict[str, int]) -> None:
        self.lowered, self.pattern, self.registers = lowered, pattern, registers
        self.machine = Machine.of(lowered)
        self.tasks = lowered.of(Region.LOOP)
        self.number_of = {group.name: n for n, group in enumerate(lowered.groups)}
        self.ii = self.machine.planned(pattern.barriers, pattern.beside)
        self.latency = self.machine.read_latency + pattern.margin
        self.at: dict[int, float] = {}
        ordered = lowered.once(("products", pattern.order), self._all_products)
        self.products = list(ordered)
        self.slots = [self._free(n) for n in range(len(lowered.groups))]
        self.writing = self.slots

    def of(self, unit: Unit, group: int | None = None) -> list[int]:
        """Tasks of a unit, by number."""
        name = None if group is None else self.lowered.groups[group].name

        def find() -> list[int]:
            found = enumerate(self.tasks)
            return [i for i, t in found if t.unit is unit and name in (None, t.group)]

        return list(self.lowered.once((unit, name), find))

    # --- products ---------------------------------------------------------------------------------

    def _all_products(self) -> list[list[int]]:
        """By group, in the pattern's order."""
        return [self._products(group.name) for group in self.lowered.groups]

    def _products(self, group: str) -> list[int]:
        mine = self.of(Unit.MATRIX, self.number_of[group])

        def key(i: int) -> tuple[object, ...]:
            task = self.tasks[i]
            meaning = self.lowered.meaning
            node = meaning[task.node]
            first, second = (meaning[name].type.dims for name in node.uses[:2])
            box = dict(zip(meaning.domain(node).dims, task.parts[0], strict=True))
            at = {
                "rows": [box[d] for d in first if d not in second],
                "columns": [box[d] for d in second if d not in first],
                "depth": [box[d] for d in first if d in second],
            }
            turn = _sums_before(meaning, node)
            return (turn, *(at[name] for name in self.pattern.order), task.node)

        keyed = sorted((key(i), i) for i in mine)
        sums = ([i for _, i in turn] for _, turn in groupby(keyed, lambda item: item[0][0]))
        return [i for turn in sums for i in self._alternating(turn)]

    def _alternating(self, products: Sequence[int]) -> Iterator[int]:
        """The same, but no two neighbours add to one result while there is another: the second
        would wait for the first."""
        left = list(products)
        last: object = None
        while left:
            at = next((n for n, i in enumerate(left) if self.tasks[i].left != last), 0)
            last = self.tasks[left[at]].left
            yield left.pop(at)

    def _time(self, group: int, number: int) -> float:
        """When a product starts, in the steady loop."""
        count, groups = len(self.products[group]), len(self.products)
        cluster = self.pattern.cluster
        if not cluster:
            beside = group * self.ii / (groups * count)
            return number * self.ii / count + beside + group * self._share
        turn = self.ii * cluster / count
        pace = turn / (groups * cluster)
        return number // cluster * turn + number % cluster * pace + group * turn / groups

    def _free(self, group: int) -> Slots:
        """Issue slots between products; while others compute, with clusters.

        Before the first product of a fragment, one is left for the wait.
        """
        machine, cluster = self.machine, self.pattern.cluster
        found: list[float] = []
        known, room = set[str](), 0
        loaded = {t.place for i in self.of(Unit.LOAD, group) for t in self.tasks[i].writes}
        for number, task in enumerate(self.products[group]):
            begin = self._time(group, number)
            self.at[task] = begin
            fresh = {t.place for t in self.tasks[task].reads} - known
            known |= fresh
            if fresh and found and not cluster and not self.hurried:
                # Of two waits, one stands before the product in front, if that leaves one slot.
                del found[-2 if room == 1 and fresh & loaded and fresh - loaded else -1 :]
            if cluster and (number + 1) % cluster:
                continue
            end = self._time(group, number + 1)
            first = begin + machine.operands
            if cluster:
                first = self._turn_before(group, end)
            room = int((end - first) / machine.issue)
            found += [first + machine.issue * n for n in range(max(1, room))]
        if not cluster:
            found.pop()
        return Slots(found, self.ii, machine.issue)

    # --- reads ------------------------------------------------------------------------------------

    def _uses(self, group: int) -> dict[str, tuple[float, float]]:
        """First and last product of every fragment."""
        found: dict[str, tuple[float, float]] = {}
        for task in self.products[group]:
            for touch in self.tasks[task].reads:
                first, _ = found.setdefault(touch.place, (self.at[task], 0.0))
                found[touch.place] = (first, self.at[task])
        return found

    def _reads(self, group: int, barriers: Sequence[float] = ()) -> list[float]:
        """Place the reads; the times of the first and of the end of each LDS tile's.

        Before the barriers stand, only those times, as they are wanted.
        """
        pattern, machine = self.pattern, self.machine
        uses = self._uses(group)
        mine = self._read_order(self.of(Unit.LDS_READ, group), uses)
        latest = [uses[self.tasks[i].writes[0].place][0] - self.latency for i in mine]
        room = self.ii
        if pattern.barriers == 1 or self.hurried:
            # All reads lie between one barrier and the next: its own time, the last read's latency
            # and the two waits of a barrier are lost to them.
            room -= machine.barrier + self.latency + 2 * machine.issue
        spacing = room / len(mine) * pattern.span / WHOLE
        first = min(t - n * spacing for n, t in enumerate(latest)) - pattern.lead
        if not barriers:
            ends = {self.tasks[i].reads[0].place: first + n * spacing for n, i in enumerate(mine)}
            return [first, *ends.values()]
        for n, i in enumerate(mine):
            place = self.tasks[i].writes[0].place
            copies = self.registers.get(place, 1)
            earliest = uses[place][1] + 1 - copies * self.ii
            if len(barriers) == 1 or self.hurried:
                earliest = max(earliest, barriers[0] + machine.barrier)
            wanted = first + n * spacing
            if pattern.cluster:
                wanted = self._turn_before(group, uses[place][0])
            if earliest > latest[n]:
                raise OrderError(
                    f"{self.tasks[i].label} would need more than {copies} copies",
                    hint="another order of products, or a smaller tile",
                )
            self.at[i] = self.slots[group].take(earliest, wanted, latest[n])
        return [min(self.at[i] for i in mine)]

    @property
    def hurried(self) -> bool:
        """Whether reads take a part of the iteration only."""
        return self.pattern.span < WHOLE

    def _read_order(self, reads: list[int], uses: Mapping[str, tuple[float, float]]) -> list[int]:
        """By the first product of their fragment; hurried ones tile by tile."""

        def use(i: int) -> float:
            return uses[self.tasks[i].writes[0].place][0]

        tiles: dict[str, float] = {}
        for i in sorted(reads, key=use):
            tiles.setdefault(self.tasks[i].reads[0].place if self.hurried else "", len(tiles))
        return sorted(reads, key=lambda i: (tiles.get(self.tasks[i].reads[0].place, 0), use(i), i))

    def _scales(self, group: int) -> None:
        """Place the loads of block scales; loads to LDS may be ahead of them on their way."""
        uses = self._uses(group)
        mine = self.of(Unit.LOAD, group)
        mine.sort(key=lambda i: (uses[self.tasks[i].writes[0].place][0], i))
        loads = [self.machine.busy(self.tasks[i]) for i in self.of(Unit.LOAD_LDS)]
        longest = max(busy[MEMORY] for busy in loads)
        latest = [
            uses[self.tasks[i].writes[0].place][0]
            - self.machine.load_latency(self.tasks[i])
            - AHEAD * longest
            for i in mine
        ]
        spacing = self.ii / max(1, len(mine))
        first = min((t - n * spacing for n, t in enumerate(latest)), default=0.0)
        for n, i in enumerate(mine):
            place = self.tasks[i].writes[0].place
            copies = self.registers.get(place, 1)
            earliest = uses[place][1] + 1 - copies * self.ii
            if earliest > latest[n]:
                raise OrderError(
                    f"{self.tasks[i].label} would need more than {copies} copies",
                    hint="a deeper tile: an iteration is shorter than memory's latency",
                )
            self.at[i] = self.slots[group].take(earliest, first + n * spacing, latest[n])

    def _turn_before(self, group: int, at: float) -> float:
        """When a group has ended the products before those of a time."""
        share = self._share
        turn = share * len(self.products)
        begin = (at - group * share) // turn * turn + group * share
        return begin - turn + share

    # --- barriers and loads -----------------------------------------------------------------------

    def _barriers(self, times: Sequence[float]) -> list[float]:
        """From when the reads begin, and those of each LDS tile end."""
        first, *ends = times
        pattern, groups = self.pattern, len(self.products)
        if pattern.cluster:
            count = groups * len(self.products[0]) // pattern.cluster
            return [n * self.ii / count - 0.5 for n in range(count)]
        begin = first - self.machine.barrier
        if self.hurried:
            behind = sorted(ends, reverse=True)[: pattern.barriers - 1]
            # The data of the last read must be there. Four slots more are a choice: a read takes
            # the free slot nearest to its time, which may be a later one.
            room = self.latency + 4 * self.machine.issue
            return [begin, *(end + room for end in reversed(behind))]
        return [begin + n * self.ii / pattern.barriers for n in range(pattern.barriers)]

    def _clear(self, group: int, barriers: Sequence[float]) -> None:
        """Nothing issues in the gap of a barrier, nor in the one before, which has its waits."""
        if self.machine.alone:
            pitch = self.ii / len(self.products[group])
            for barrier in barriers:
                number = barrier // pitch
                self.slots[group].drop((number - 1) * pitch, (number + 1) * pitch)
            start = self._loop_start(barriers)
            self.slots[group].drop(start - pitch, start)

    def _loop_start(self, barriers: Sequence[float]) -> float:
        """A trip begins with a product, ahead of the first barrier and its waits.

        In clusters, it begins while others compute.
        """
        pitch = self.ii / len(self.products[0])
        if self.pattern.cluster:
            return self._share
        # Two products earlier: the gap before the barrier has its waits (``_clear``), the one
        # before that the end of the loop, so neither waits for the other.
        return (barriers[0] // pitch - 2) * pitch

    def _load(self, barriers: Sequence[float]) -> int:
        """Place the loads; by how many cycles the latest comes too late."""
        windows, reads = list[tuple[float, float, int]](), dict[str, list[float]]()
        for i in self.of(Unit.LDS_READ):
            reads.setdefault(self.tasks[i].reads[0].place, []).append(self.at[i])
        deep = sorted(reads)[max(0, len(reads) - self.pattern.deep) :]
        fills = [*self.of(Unit.LOAD_LDS), *self.of(Unit.LDS_WRITE)]
        loads = [i for i in fills if self.lowered.meaning[self.tasks[i].node].kind.is_input]
        if not loads:
            raise OrderError("only results go through LDS", hint="stage a stream, too")
        busy = [self.machine.busy(self.tasks[i]) for i in loads]
        pace = max(max(one[TEXTURE], one[MEMORY]) for one in busy)
        pace = min(pace * self.pattern.pace / 100, self.ii / len(loads))
        alike = Counter(self.tasks[i].writes[0].place for i in loads)
        for i in loads:
            task = self.tasks[i]
            times = reads[task.writes[0].place]
            opened = self._barrier(barriers, min(times), before=True)
            closed = self._barrier(barriers, max(times) + self.latency, before=False)
            need = self.machine.load_latency(task)
            takes = need + (pace * (alike[task.writes[0].place] - 1) if self.hurried else 0)
            copies = max(1, ceil((closed - opened + takes) / self.ii))
            copies += task.writes[0].place in deep
            windows.append((opened - need, closed - copies * self.ii + 1, i))
        windows.sort(key=lambda w: (w[0] - w[1], w))
        late, taken = 0.0, list[float]()
        for high, low, i in windows:
            task = self.tasks[i]
            turned = task.unit is Unit.LDS_WRITE
            slots = (self.writing if turned else self.slots)[self.number_of[task.group]]
            self.at[i] = slots.take_paced(low, high, taken, pace)
            taken.append(self.at[i])
            late = max(late, self.at[i] - high)
            if turned:
                self._bring(i)
        return ceil(late)

    def _bring(self, write: int) -> None:
        """Place the load to registers of what a task writes to LDS."""
        load = self.source_of(write)
        wanted = self.at[write] - self.machine.load_latency(self.tasks[load]) - self.pattern.lead
        slots = self.slots[self.number_of[self.tasks[load].group]]
        self.at[load] = slots.take(wanted - self.ii, wanted, wanted)

    def source_of(self, write: int) -> int:
        """The task that loads what another of its group writes to LDS."""
        group = self.number_of[self.tasks[write].group]
        place = self.tasks[write].reads[0].place
        loads = self.of(Unit.LOAD, group)
        return next(i for i in loads if self.tasks[i].writes[0].place == place)

    def _barrier(self, times: Sequence[float], at: float, *, before: bool) -> float:
        """The barrier next to a time."""
        if before:
            return max(t + self.ii * ((at - t) // self.ii) for t in times)
        return min(t + self.ii * -((t - at) // self.ii) for t in times)

    # --- the problem ------------------------------------------------------------------------------

    def weave(self) -> Woven:
        groups = range(len(self.products))
        firsts, *ends = zip(*(self._reads(group) for group in groups), strict=True)
        if self._share:  # the others are as far behind a later barrier
            firsts, ends = firsts[:1], [group[:1] for group in ends]
        barriers = self._barriers([min(firsts), *map(max, ends)])
        for group in groups:
            self._clear(group, barriers)
            self._reads(group, barriers)
            self._scales(group)
        late = self._load(barriers)
        return self._timed(barriers, self._loop_start(barriers), late)

    def placed(
        self, ii: int, at: Mapping[int, float], barriers: Sequence[float], first: float
    ) -> Woven:
        """Times that somebody else found, in cycles; a trip begins at ``first``."""
        self.ii = ii
        self.at = dict(at)
        return self._timed(barriers, first, 0)

    def _timed(self, barriers: Sequence[float], first: float, late: int) -> Woven:
        starts = self._ranked(barriers, first)
        return Woven(self._problem(barriers, starts), Timetable(self._ticks, starts), late)

    @property
    def _ticks(self) -> int:
        return ceil(self.ii) * TICKS

    @property
    def _share(self) -> float:
        """By how much a group is behind the one before: from a barrier of the loop to the next."""
        pattern, groups = self.pattern, len(self.lowered.groups)
        if pattern.cluster:
            return self.ii * pattern.cluster / (groups * len(self.products[0]))
        return self.ii / pattern.barriers if pattern.stagger and groups > 1 else 0.0

    def _own(self, task: int) -> float:
        """When a task starts on the clock of its group: groups that take turns start in turn."""
        return self.at[task] - self.number_of[self.tasks[task].group] * self._share

    def _ranked(self, barriers: Sequence[float], first: float) -> tuple[int, ...]:
        times = [self._own(i) for i in range(len(self.tasks))] + list(barriers)
        times.append(first - self.ii * ceil((first - min(times)) / self.ii))
        return tuple(round(t / self.ii * self._ticks) for t in times)

    def _problem(self, barriers: Sequence[float], starts: Sequence[int]) -> LoopProblem:
        """What the times are checked against: every instruction, the barriers and the loop.

        A tile in LDS is free again at the barrier after its last read.
        """
        build = ProblemBuilder(self.lowered)
        for one in build.rotations():
            if one.in_lds:
                last = max(self.at[i] for i in one.readers) + self.latency
                first = min(self.at[i] for i in one.fills)
                lived = self._barrier(barriers, last, before=False) - first
                end = min(starts[i] for i in one.fills) + round(lived / self.ii * self._ticks)
                held = (Reader(i, 0, max(1, end - starts[i])) for i in one.readers)
                build.connect(one.fills, one.readers, 1)
                build.hold(one.place, one.name, one.fills, held)
        self._rotate_registers(build, starts)
        ops = [Op(f"{i} {task.label}") for i, task in enumerate(self.tasks)]
        ops += [Op(f"barrier {n}") for n in range(len(barriers))]
        ops.append(Op("loop"))
        problem = build.problem(ops, time_unit="tick")
        stagger = 1 if self._share else 0
        return LoopProblem(problem, self.tasks, 1, tuple(build.places), len(barriers), stagger)

    def _rotate_registers(self, build: ProblemBuilder, starts: Sequence[int]) -> None:
        """A fragment is free again behind its last product."""
        for one in build.rotations():
            if not one.in_lds:
                end = max(starts[i] for i in one.readers) + 1
                held = (Reader(i, 0, max(1, end - starts[i])) for i in one.readers)
                build.connect(one.fills, one.readers, 1)
                most = self.registers.get(one.place.name, 1)
                build.hold(one.place, one.name, one.fills, held, most)


TICKS = 16
"""Of a cycle, so that what starts within one keeps its order: members of a region under a condition
are a tick apart."""
