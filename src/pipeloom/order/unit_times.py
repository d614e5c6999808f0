"""What a task takes of each unit of the machine, and how long an iteration keeps them busy.

No order of it can be faster than the busiest unit. Every modulo problem and every timetable asks
here; the cycles of an instruction are those that it has in the simulator (``program/costs.py``).
A SIMD's matrix unit also stands still at every barrier that a lone wave meets, from the end of its
last matrix instruction until the wave is awake again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from pipeloom.machine.target import LOAD_BYTES
from pipeloom.order.tasks import Lowered, Task
from pipeloom.program.costs import Cost, barrier_cycles, cost_of, skipped_cost, total_cost
from pipeloom.program.nodes import Region
from pipeloom.program.steps import Issue, Unit

MATRIX, ARRAY, RETURN = "matrix unit", "LDS array", "LDS return path"
TEXTURE, MEMORY, PORT, ISSUE = "texture path", "memory", "vector port", "issue"
UNITS = (MATRIX, ARRAY, RETURN, TEXTURE, MEMORY, PORT, ISSUE)


@dataclass(frozen=True, slots=True)
class UnitTime:
    """``cycles`` per iteration of one unit."""

    unit: str
    cycles: int


class Machine:
    """What the tasks of a loop cost on its target, all waves of their group at once."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.target = target = lowered.target
        waves = sum(len(group.waves) for group in lowered.groups)
        self.waves = waves
        self.per_simd = ceil(waves / target.simds.value)
        self.alone = self.per_simd == 1
        self.barrier = 0 if waves == 1 else barrier_cycles(target, self.per_simd)
        self.issue = target.issue_cycles.value
        self._skipped = skipped_cost(target)
        self._alike: dict[tuple[Issue, ...], Cost] = {}
        self._costs: dict[int, Cost] = {}
        """By the ``id`` of a task of ``lowered``: to hash its instructions would take longer."""
        self._busy: dict[int, dict[str, float]] = {}
        self._times: dict[int, tuple[UnitTime, ...]] = {}
        products = [t for t in lowered.of(Region.LOOP) if self.matrix(t)]
        first = (total_cost((replace(t.issues[0], count=1),), target) for t in products)
        self.operands = max((cost.held for cost in first), default=0)
        """Cycles from a product's issue in which its wave issues nothing."""

    @classmethod
    def of(cls, lowered: Lowered) -> Machine:
        """The one of ``lowered``: what a task costs is worked out once."""
        return lowered.once("machine", lambda: cls(lowered))

    def cost(self, task: Task) -> Cost:
        """Of one wave; of one that is skipped as a rule, the branch around it."""
        found = self._costs.get(id(task))
        if found is None:
            found = self._costs[id(task)] = self._cost(task)
        return found

    def _cost(self, task: Task) -> Cost:
        if task.when is not None:
            return self._skipped
        if task.issues not in self._alike:
            self._alike[task.issues] = total_cost(task.issues, self.target)
        return self._alike[task.issues]

    def matrix(self, task: Task) -> int:
        """Cycles of the matrix unit for one wave's products."""
        return self.cost(task).matrix

    def issued(self, task: Task) -> int:
        """Cycles for which one wave issues it."""
        return self.cost(task).held

    def busy(self, task: Task) -> dict[str, float]:
        """Cycles of every unit for all waves of its group: what a task takes of the machine.

        SIMDs work side by side, so of their units it is the waves of one; of issue, one wave.
        """
        found = self._busy.get(id(task))
        if found is None:
            cost, waves = self.cost(task), len(self.lowered.group(task.group).waves)
            beside = ceil(waves / self.target.simds.value)
            found = self._busy[id(task)] = {
                MATRIX: cost.matrix * beside,
                ARRAY: cost.array * waves,
                RETURN: cost.back * beside,
                TEXTURE: cost.texture * waves,
                MEMORY: cost.memory * waves,
                PORT: cost.vector * beside,
                ISSUE: cost.held,
            }
        return found

    @property
    def read_latency(self) -> int:
        """From a read's issue to its data, the other waves' reads of the same moment included."""
        widest = cost_of(Unit.LDS_READ, self.target, bytes_per_lane=LOAD_BYTES)
        return self.target.lds_latency.value + widest.array * self.waves

    def load_latency(self, task: Task) -> int:
        """From the issue of a load, or of a write, to its data in LDS."""
        if task.unit is Unit.LDS_WRITE:
            return self.read_latency + self.issued(task)
        busy = self.busy(task)
        behind = max(busy[TEXTURE], busy[MEMORY])
        return ceil(self.target.global_latency.value + behind + busy[ARRAY])

    def times(self, barriers: int) -> tuple[UnitTime, ...]:
        """Every unit's, the longest first; ``barriers`` of them per iteration."""
        if barriers not in self._times:
            self._times[barriers] = self._counted(barriers)
        return self._times[barriers]

    def _counted(self, barriers: int) -> tuple[UnitTime, ...]:
        tasks = self._branches(self.lowered.of(Region.LOOP))
        total = {unit: int(sum(self.busy(t)[unit] for t in tasks)) for unit in UNITS}
        total[MATRIX] += barriers * self._lost(tasks)
        # Of the wave that issues most: groups issue side by side.
        issued = dict.fromkeys((group.name for group in self.lowered.groups), 0)
        for task in tasks:
            issued[task.group] += self.issued(task)
        total[ISSUE] = barriers * self.barrier + max(issued.values())
        times = (UnitTime(unit, cycles) for unit, cycles in total.items())
        return tuple(sorted(times, key=lambda time: -time.cycles))

    def times_beside(self) -> tuple[UnitTime, ...]:
        """Of one workgroup beside others alike on a compute unit, whose waves issue while its own
        wait: what all waves share, and a SIMD's units as if its waves were on all SIMDs alike."""
        total = dict.fromkeys((unit for unit in UNITS if unit != ISSUE), 0.0)
        for task in self._branches(self.lowered.of(Region.LOOP)):
            cost, busy = self.cost(task), self.busy(task)
            share = len(self.lowered.group(task.group).waves) / self.target.simds.value
            own = {MATRIX: cost.matrix, RETURN: cost.back, PORT: cost.vector}
            for unit in total:
                total[unit] += own[unit] * share if unit in own else busy[unit]
        times = (UnitTime(unit, int(cycles)) for unit, cycles in total.items())
        return tuple(sorted(times, key=lambda time: -time.cycles))

    def planned(self, barriers: int, workgroups: int) -> int:
        """Cycles of an iteration that an order plans with, of one of so many workgroups."""
        alone = self.times(barriers)[0].cycles
        shared = workgroups * self.times_beside()[0].cycles if workgroups > 1 else 0
        return max(alone, shared)

    @staticmethod
    def _branches(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        """Of steps under one condition the first: one branch goes around all of them."""
        found: dict[object, Task] = {}
        for n, task in enumerate(tasks):
            region = n if task.when is None else (task.group, task.when, task.reads[-1].place)
            found.setdefault(region, task)
        return tuple(found.values())

    def _lost(self, tasks: tuple[Task, ...]) -> int:
        """Cycles for which a lone wave's matrix unit stands still at a barrier: what its last
        product does not cover."""
        shortest = min((self.matrix(t) for t in tasks if self.matrix(t)), default=0)
        hidden = max(0, shortest - self.operands)
        return max(0, self.barrier - hidden) if self.alone and shortest else 0
