"""One iteration in single instructions as a modulo scheduling problem.

    matrix unit, LDS array, texture path, memory     one instruction at a time, all waves of a group
    issue of a wave                                  what fits behind a product: a read one slot, a
                                                     load two, a wait one, a barrier all
    LDS                                              its loads, a barrier, its reads, a barrier, and
                                                     then the loads of a later iteration
    registers                                        a fragment's read, its products, its next read

``relaxed`` is in cycles, rounded down, and leaves out whatever an order might do otherwise, so an
II that it forbids is forbidden to every order of the loop. ``stepped`` is in steps of a matrix
instruction, rounded up: its schedules can be run, and are what the modulo solver looks for. There,
loads of one tile, which are alike, keep their order: that loses no schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import ceil

from pipeloom.order.modulo import (
    Budget,
    Channel,
    Edge,
    ModuloProblem,
    Op,
    Reader,
    Reservation,
)
from pipeloom.order.modulo import (
    Unit as Resource,
)
from pipeloom.order.tasks import Lowered, Place, Task
from pipeloom.order.unit_times import Machine
from pipeloom.program.nodes import Region
from pipeloom.program.resources import Space
from pipeloom.program.steps import Unit

MATRIX, ARRAY, RETURN = "matrix unit", "LDS array", "LDS return path"
TEXTURE, MEMORY = "texture path", "memory"
Traffic = tuple[Place, str, list[int], list[int]]
"""A place, the name of its channel, the numbers of those who fill and of those who read it."""


def relaxed(lowered: Lowered) -> ModuloProblem:
    """What every order of single instructions respects, in cycles."""
    return _Relaxed(lowered).problem()


def stepped(
    lowered: Lowered,
    products: Sequence[Sequence[int]],
    registers: Mapping[str, int],
    barriers: int,
    *,
    margin: int = 0,
    deep: int = 0,
) -> ModuloProblem:
    """What can be run, in steps of the shortest product; ops behind the tasks are barriers.

    ``products`` of every group in an order by which it is guessed where waits stand; ``margin``
    cycles are added to the latency of reads. All LDS tiles have as many copies as fit, ``deep`` of
    them one more: numbers that have little in common would make a trip long.
    """
    return _Stepped(lowered, products, registers, barriers, margin, deep).problem()


def step_cycles(lowered: Lowered) -> int:
    """Of one step: the shortest product of one wave."""
    machine = Machine.of(lowered)
    return min(machine.matrix(t) for t in lowered.of(Region.LOOP) if machine.matrix(t))


@dataclass
class _Builder:
    lowered: Lowered
    machine: Machine = field(init=False)
    tasks: tuple[Task, ...] = field(init=False)
    edges: dict[Edge, None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = Machine.of(self.lowered)
        self.tasks = self.lowered.of(Region.LOOP)

    def traffic(self) -> tuple[Traffic, ...]:
        """Rotating places with who fills and who reads them; of registers, group by group."""
        return self.lowered.once("traffic", lambda: tuple(self._traffic()))

    def _traffic(self) -> Iterator[Traffic]:
        for place in self.lowered.places:
            if not place.rotates:
                continue
            in_lds = place.space is Space.LDS
            for group in [None] if in_lds else [g.name for g in self.lowered.groups]:
                mine = [(i, t) for i, t in enumerate(self.tasks) if group in (None, t.group)]
                fills = [i for i, t in mine if any(x.place == place.name for x in t.left)]
                readers = [i for i, t in mine if any(x.place == place.name for x in t.found)]
                if fills and readers:
                    yield place, f"{place.name} {group or ''}".strip(), fills, readers

    def size(self, place: Place) -> int:
        if place.space is not Space.LDS:
            return 0
        return place.type.dtype.bytes(place.type.elements)

    def sums(self, latency: int) -> None:
        """Products that add to one result come one after the other."""
        found: dict[tuple[str, str, object], list[int]] = {}
        for i, task in enumerate(self.tasks):
            if task.unit is Unit.MATRIX:
                for touch in task.left:
                    found.setdefault((task.group, touch.place, touch.boxes), []).append(i)
        for chain in found.values():
            self.edges |= {Edge(a, b, latency): None for a, b in pairwise(chain)}
            self.edges[Edge(chain[-1], chain[0], latency, 1)] = None

    def made(
        self, units: Sequence[Resource], ops: Sequence[Op], channels: Sequence[Channel], word: str
    ) -> ModuloProblem:
        return ModuloProblem(
            name=self.lowered.meaning.name,
            units=tuple(units),
            ops=tuple(ops),
            edges=tuple(self.edges),
            channels=tuple(channels),
            budget=Budget(None, self.lowered.target.lds_kib.value * 1024, None),
            time_unit=word,
        )

    @property
    def result(self) -> int:
        """Cycles from a product to the next that adds to its result."""
        machine = self.machine
        longest = max(machine.matrix(task) for task in self.tasks)
        return longest + self.lowered.target.mfma_dependent_extra.value


class _Relaxed(_Builder):
    def problem(self) -> ModuloProblem:
        machine, target = self.machine, self.lowered.target
        names = [g.name for g in self.lowered.groups]
        units = [Resource(name) for name in (MATRIX, ARRAY, RETURN, TEXTURE, MEMORY)]
        units += [Resource(f"issue of {name}") for name in names]
        ops = [self._op(i, task) for i, task in enumerate(self.tasks)]
        shared = any(place.space is Space.LDS for place, *_ in self.traffic())
        if shared and machine.barrier:
            ops.append(Op("barrier", 0, self._barrier(names)))
        channels: list[Channel] = []
        for place, name, fills, readers in self.traffic():
            if place.space is Space.LDS:
                held = target.lds_latency.value + machine.barrier
                for f in fills:
                    wait = target.global_latency.value + machine.barrier
                    self.edges |= {Edge(f, r, wait): None for r in readers}
                ends = tuple(Reader(r, 0, held) for r in readers)
                channels.append(Channel(name, self.size(place), tuple(fills), ends))
            else:
                latency = target.lds_latency.value
                self.edges |= {Edge(f, r, latency): None for f in fills for r in readers}
        self.sums(self.result)
        return self.made(units, ops, channels, "cycle")

    def _barrier(self, names: Sequence[str]) -> tuple[Reservation, ...]:
        """A lone wave issues nothing meanwhile, so the matrix unit runs dry behind its product."""
        machine = self.machine
        uses = [Reservation(f"issue of {name}", machine.barrier) for name in names]
        lost = machine.times(1)
        busy = {time.unit: time.cycles for time in machine.times(0)}
        dry = next(time.cycles for time in lost if time.unit == MATRIX) - busy[MATRIX]
        if dry > 0:
            uses.append(Reservation(MATRIX, dry, machine.barrier - dry))
        return tuple(uses)

    def _op(self, number: int, task: Task) -> Op:
        machine = self.machine
        group = self.lowered.group(task.group)
        waves = ceil(len(group.waves) / self.lowered.target.simds.value)
        wanted = (
            (MATRIX, waves * machine.matrix(task)),
            (ARRAY, machine.lds(task)),
            (RETURN, machine.returned(task)),
            (TEXTURE, machine.texture(task)),
            (MEMORY, int(machine.memory(task))),
            (f"issue of {task.group}", machine.issued(task)),
        )
        uses = tuple(Reservation(unit, cycles) for unit, cycles in wanted if cycles > 0)
        return Op(f"{number} {task.label}", 0, uses)


@dataclass
class _Stepped(_Builder):
    products: Sequence[Sequence[int]]
    registers: Mapping[str, int]
    barriers: int
    margin: int
    deep: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.step = step_cycles(self.lowered)
        self.room = max(1, (self.step - self.machine.operands) // self.machine.issue)
        self.reads = self._up(self.machine.read_latency + self.margin)
        self.pause = max(1, self._up(self.machine.barrier))

    def _up(self, cycles: float) -> int:
        return ceil(cycles / self.step)

    def problem(self) -> ModuloProblem:
        names = [g.name for g in self.lowered.groups]
        units = [Resource(name) for name in (MATRIX, ARRAY, TEXTURE, MEMORY)]
        units += [Resource(f"issue of {name}", self.room) for name in names]
        fresh, paces = self._fresh(), self._paces()
        ops = [self._op(i, t, i in fresh, paces.get(i, 0)) for i, t in enumerate(self.tasks)]
        whole = tuple(Reservation(f"issue of {n}", 1, 1) for n in names for _ in range(self.room))
        alone = (Reservation(MATRIX, 1, 1),) if self.machine.alone else ()
        ops += [Op(f"barrier {n}", 0, whole + alone) for n in range(self.barriers)]
        channels = [self._channel(n, *found) for n, found in enumerate(self.traffic())]
        self.sums(self._up(self.result))
        self._alike()
        return self.made(units, ops, channels, "step")

    def _fresh(self) -> set[int]:
        """Products that are the first of a fragment: a wait stands before each."""
        found: set[int] = set()
        for products in self.products:
            known: set[str] = set()
            for i in products:
                new = {t.place for t in self.tasks[i].reads} - known
                known |= new
                found |= {i} if new else set()
        return found

    def _paces(self) -> dict[int, int]:
        """Steps of memory for every load, each rounded up if there is time for that, else all."""
        machine = self.machine
        loads = [i for i, t in enumerate(self.tasks) if t.unit is Unit.LOAD_LDS]
        times = [machine.memory(self.tasks[i]) for i in loads]
        steps = [self._up(time) for time in times]
        if sum(steps) * self.step > machine.times(1)[0].cycles:
            ends = [self._up(total) for total in accumulate(times, initial=0)]
            steps = [last - first for first, last in pairwise(ends)]
        return {i: max(1, n) for i, n in zip(loads, steps, strict=True)}

    def _op(self, number: int, task: Task, fresh: bool, pace: int) -> Op:
        """Everything starts one step late, so that a product's wait stands in the step before."""
        machine, issue = self.machine, f"issue of {task.group}"
        unit = task.unit
        slot = Reservation(issue, 1, 1)
        uses: list[Reservation] = []
        if unit is Unit.MATRIX:
            group = self.lowered.group(task.group)
            waves = ceil(len(group.waves) / self.lowered.target.simds.value)
            uses = [Reservation(MATRIX, self._up(waves * machine.matrix(task)), 1)]
            uses += [Reservation(issue)] if fresh else []
        elif unit is Unit.LDS_READ:
            uses = [Reservation(ARRAY, self._up(machine.lds(task)), 1), slot]
        else:
            uses = [Reservation(TEXTURE, self._up(machine.texture(task)), 1)]
            uses += [Reservation(MEMORY, pace, 1), *[slot] * min(2, self.room)]
        return Op(f"{number} {task.label}", 0, tuple(uses), unit is Unit.LOAD_LDS)

    def _channel(
        self, number: int, place: Place, name: str, fills: list[int], readers: list[int]
    ) -> Channel:
        if place.space is not Space.LDS:
            self.edges |= {Edge(f, r, self.reads): None for f in fills for r in readers}
            held = tuple(Reader(r, 0, 1) for r in readers)
            return Channel(name, 0, tuple(fills), held, self.registers.get(place.name, 1))
        gate = len(self.tasks) + number % self.barriers
        for f in fills:
            latency = self._up(self.machine.load_latency(self.tasks[f])) + 1
            self.edges |= {Edge(f, gate, latency): None, Edge(f, gate, 0, 1): None}
        for r in readers:
            self.edges |= {Edge(gate, r, self.pause): None, Edge(r, gate, self.reads + 1, 1): None}
        freed = (Reader(gate, 1, self.pause),)
        return Channel(name, self.size(place), tuple(fills), freed, self._copies(place))

    def _copies(self, place: Place) -> int:
        sizes = {p.name: self.size(p) for p, *_ in self.traffic() if p.space is Space.LDS}
        even = self.lowered.target.lds_kib.value * 1024 // sum(sizes.values())
        more = sorted(sizes)[max(0, len(sizes) - self.deep) :]
        return max(1, even) + (place.name in more)

    def _alike(self) -> None:
        """Loads of one tile by one group are interchangeable, if they are as wide."""
        last: dict[tuple[str, str, int], int] = {}
        for place, _, fills, _ in self.traffic():
            if place.space is Space.LDS:
                for i in fills:
                    task = self.tasks[i]
                    key = place.name, task.group, task.issues[0].bytes
                    if key in last:
                        self.edges[Edge(last[key], i, 0)] = None
                    last[key] = i
