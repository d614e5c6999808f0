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

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import ceil

from pipeloom.order.modulo import MachineUnit, ModuloProblem, Op, Reader, Reservation
from pipeloom.order.problem_builder import ProblemBuilder, Rotation
from pipeloom.order.tasks import Lowered, Task
from pipeloom.order.unit_times import ARRAY, ISSUE, MATRIX, MEMORY, RETURN, TEXTURE, Machine
from pipeloom.program.nodes import Region
from pipeloom.program.steps import Unit


def relaxed(lowered: Lowered) -> ModuloProblem:
    """What every order of single instructions respects, in cycles."""
    return _Relaxed(lowered).stated()


def stepped(
    lowered: Lowered,
    products: Sequence[Sequence[int]],
    registers: Mapping[str, int],
    barriers: int,
    *,
    margin: int,
    deep: int,
) -> ModuloProblem:
    """What can be run, in steps of the shortest product; ops behind the tasks are barriers.

    ``products`` of every group in an order by which it is guessed where waits stand; ``margin``
    cycles are added to the latency of reads. All LDS tiles have as many copies as fit, ``deep`` of
    them one more: numbers that have little in common would make a trip long.
    """
    return _Stepped(lowered, products, registers, barriers, margin, deep).stated()


def step_cycles(lowered: Lowered) -> int:
    """Of one step: the shortest product of one wave."""
    machine = Machine.of(lowered)
    return min(machine.matrix(t) for t in lowered.of(Region.LOOP) if machine.matrix(t))


class _InstructionProblem(ProblemBuilder):
    @property
    def issuing(self) -> dict[str, str]:
        """What the waves of each group issue at."""
        return {group.name: f"issue of {group.name}" for group in self.lowered.groups}

    def sums(self, latency: int) -> None:
        """Products that add to one result come one after the other."""
        found: dict[tuple[str, str, object], list[int]] = {}
        for i, task in enumerate(self.tasks):
            if task.unit is Unit.MATRIX:
                for touch in task.left:
                    found.setdefault((task.group, touch.place, touch.boxes), []).append(i)
        for chain in found.values():
            for one, other in pairwise(chain):
                self.connect([one], [other], latency)
            self.connect(chain[-1:], chain[:1], latency, 1)

    @property
    def result(self) -> int:
        """Cycles from a product to the next that adds to its result."""
        machine = self.machine
        longest = max(machine.matrix(task) for task in self.tasks)
        return longest + self.lowered.target.mfma_dependent_extra.value


class _Relaxed(_InstructionProblem):
    def stated(self) -> ModuloProblem:
        machine, target = self.machine, self.lowered.target
        units = [MachineUnit(name) for name in (MATRIX, ARRAY, RETURN, TEXTURE, MEMORY)]
        units += [MachineUnit(name) for name in self.issuing.values()]
        ops = [self._op(i, task) for i, task in enumerate(self.tasks)]
        if machine.barrier and any(one.in_lds for one in self.rotations()):
            ops.append(Op("barrier", 0, self._barrier()))
        for one in self.rotations():
            latency = target.lds_latency.value
            if one.in_lds:
                wait = target.global_latency.value + machine.barrier
                self.connect(one.fills, one.readers, wait)
                ends = (Reader(r, 0, latency + machine.barrier) for r in one.readers)
                self.hold(one.place, one.name, one.fills, ends)
            else:
                self.connect(one.fills, one.readers, latency)
        self.sums(self.result)
        return self.problem(ops, units, time_unit="cycle")

    def _barrier(self) -> tuple[Reservation, ...]:
        """A lone wave issues nothing meanwhile, so the matrix unit runs dry behind its product."""
        machine = self.machine
        uses = [Reservation(name, machine.barrier) for name in self.issuing.values()]
        with_one, without = (
            {time.unit: time.cycles for time in machine.times(count)} for count in (1, 0)
        )
        dry = with_one[MATRIX] - without[MATRIX]
        if dry > 0:
            uses.append(Reservation(MATRIX, dry, machine.barrier - dry))
        return tuple(uses)

    def _op(self, number: int, task: Task) -> Op:
        busy = self.machine.busy(task)
        wanted = {unit: int(busy[unit]) for unit in (MATRIX, ARRAY, RETURN, TEXTURE, MEMORY)}
        wanted[self.issuing[task.group]] = int(busy[ISSUE])
        uses = (Reservation(unit, cycles) for unit, cycles in wanted.items() if cycles > 0)
        return Op(f"{number} {task.label}", 0, tuple(uses))


class _Stepped(_InstructionProblem):
    def __init__(
        self,
        lowered: Lowered,
        products: Sequence[Sequence[int]],
        registers: Mapping[str, int],
        barriers: int,
        margin: int,
        deep: int,
    ) -> None:
        super().__init__(lowered)
        self.products, self.registers, self.barriers = products, registers, barriers
        self.deep = deep
        self.step = step_cycles(lowered)
        self.room = max(1, (self.step - self.machine.operands) // self.machine.issue)
        self.reads = self._up(self.machine.read_latency + margin)
        self.pause = max(1, self._up(self.machine.barrier))

    def _up(self, cycles: float) -> int:
        return ceil(cycles / self.step)

    def stated(self) -> ModuloProblem:
        names = self.issuing.values()
        units = [MachineUnit(name) for name in (MATRIX, ARRAY, TEXTURE, MEMORY)]
        units += [MachineUnit(name, self.room) for name in names]
        fresh, paces = self._fresh(), self._paces()
        ops = [self._op(i, t, i in fresh, paces.get(i, 0)) for i, t in enumerate(self.tasks)]
        whole = tuple(Reservation(name, 1, 1) for name in names for _ in range(self.room))
        alone = (Reservation(MATRIX, 1, 1),) if self.machine.alone else ()
        ops += [Op(f"barrier {n}", 0, whole + alone) for n in range(self.barriers)]
        copies = self._copies()
        for number, one in enumerate(self.rotations()):
            self._rotate(number, one, copies)
        self.sums(self._up(self.result))
        self._alike()
        return self.problem(ops, units, time_unit="step")

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
        times = [machine.busy(self.tasks[i])[MEMORY] for i in loads]
        steps = [self._up(time) for time in times]
        if sum(steps) * self.step > machine.times(1)[0].cycles:
            ends = [self._up(total) for total in accumulate(times, initial=0)]
            steps = [last - first for first, last in pairwise(ends)]
        return {i: max(1, n) for i, n in zip(loads, steps, strict=True)}

    def _op(self, number: int, task: Task, fresh: bool, pace: int) -> Op:
        """Everything starts one step late, so that a product's wait stands in the step before."""
        issue = self.issuing[task.group]
        steps = {unit: self._up(cycles) for unit, cycles in self.machine.busy(task).items()}
        slot = Reservation(issue, 1, 1)
        if task.unit is Unit.MATRIX:
            uses = [Reservation(MATRIX, steps[MATRIX], 1)]
            uses += [Reservation(issue)] if fresh else []
        elif task.unit is Unit.LDS_READ:
            uses = [Reservation(ARRAY, steps[ARRAY], 1), slot]
        else:
            uses = [Reservation(TEXTURE, steps[TEXTURE], 1), Reservation(MEMORY, pace, 1)]
            uses += [slot] * min(2, self.room)
        return Op(f"{number} {task.label}", 0, tuple(uses), task.unit is Unit.LOAD_LDS)

    def _rotate(self, number: int, one: Rotation, copies: Mapping[str, int]) -> None:
        place = one.place
        if not one.in_lds:
            self.connect(one.fills, one.readers, self.reads)
            held = (Reader(r, 0, 1) for r in one.readers)
            self.hold(place, one.name, one.fills, held, self.registers.get(place.name, 1))
            return
        gate = len(self.tasks) + number % self.barriers
        for f in one.fills:
            self.connect([f], [gate], self._up(self.machine.load_latency(self.tasks[f])) + 1)
            self.connect([f], [gate], 0, 1)
        for r in one.readers:
            self.connect([gate], [r], self.pause)
            self.connect([r], [gate], self.reads + 1, 1)
        freed = (Reader(gate, 1, self.pause),)
        self.hold(place, one.name, one.fills, freed, copies[place.name])

    def _copies(self) -> dict[str, int]:
        """Of every LDS tile: as many of all as fit, and one more of ``deep`` of them."""
        tiles = {one.place.name: one.place.type for one in self.rotations() if one.in_lds}
        bytes_ = sum(tile.dtype.bytes(tile.elements) for tile in tiles.values())
        even = max(1, self.lowered.target.lds_kib.value * 1024 // bytes_) if tiles else 1
        more = sorted(tiles)[max(0, len(tiles) - self.deep) :]
        return {name: even + (name in more) for name in tiles}

    def _alike(self) -> None:
        """Loads of one tile by one group are interchangeable, if they are as wide."""
        last: dict[tuple[str, str, int], int] = {}
        for one in self.rotations():
            if one.in_lds:
                for i in one.fills:
                    task = self.tasks[i]
                    key = one.place.name, task.group, task.issues[0].bytes
                    if key in last:
                        self.connect([last[key]], [i], 0)
                    last[key] = i
