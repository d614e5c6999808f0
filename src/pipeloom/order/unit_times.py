"""How long one iteration keeps each unit of the machine busy: no order of it can be faster.

Counted for single instructions, each at the cost that it has in the simulator. A SIMD's matrix unit
also stands still at every barrier that a lone wave meets, from the end of its last matrix
instruction until the wave is awake again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from pipeloom.machine.target import LOAD_BYTES
from pipeloom.order.tasks import Lowered, Task
from pipeloom.program.costs import Cost, barrier_cycles, cost_of, skipped_cost, total_cost
from pipeloom.program.nodes import Region
from pipeloom.program.steps import Issue, Unit


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
        self._times: dict[int, tuple[UnitTime, ...]] = {}
        products = [t for t in lowered.of(Region.LOOP) if self.matrix(t)]
        self.operands = max((self.issued(t) // t.issues[0].count for t in products), default=0)
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

    def vector(self, task: Task) -> int:
        """Cycles of a SIMD's vector port for one wave."""
        return self.cost(task).vector

    def lds(self, task: Task) -> int:
        """Cycles of the LDS array."""
        return self.cost(task).array * self._waves(task)

    def returned(self, task: Task) -> int:
        """Cycles of a SIMD's path from LDS."""
        return self.cost(task).back * ceil(self._waves(task) / self.target.simds.value)

    def texture(self, task: Task) -> int:
        """Cycles of the texture path."""
        return self.cost(task).texture * self._waves(task)

    def memory(self, task: Task) -> float:
        """Cycles of the compute unit's share of memory."""
        return self.cost(task).memory * self._waves(task)

    @property
    def read_latency(self) -> int:
        """From a read's issue to its data, the other waves' reads of the same moment included."""
        widest = cost_of(Unit.LDS_READ, self.target, bytes_per_lane=LOAD_BYTES)
        return self.target.lds_latency.value + widest.array * self.waves

    def load_latency(self, task: Task) -> int:
        """From a load's issue to its data in LDS."""
        behind = max(self.texture(task), self.memory(task))
        return ceil(self.target.global_latency.value + behind + self.lds(task))

    def _waves(self, task: Task) -> int:
        return len(self.lowered.group(task.group).waves)

    def times(self, barriers: int) -> tuple[UnitTime, ...]:
        """Every unit's, the longest first; ``barriers`` of them per iteration."""
        if barriers not in self._times:
            self._times[barriers] = self._counted(barriers)
        return self._times[barriers]

    def _counted(self, barriers: int) -> tuple[UnitTime, ...]:
        tasks = self._branches(self.lowered.of(Region.LOOP))
        return tuple(
            sorted(
                (
                    UnitTime("matrix unit", self._matrix_time(tasks, barriers)),
                    UnitTime("LDS array", sum(self.lds(t) for t in tasks)),
                    UnitTime("LDS return path", sum(self.returned(t) for t in tasks)),
                    UnitTime("texture path", sum(self.texture(t) for t in tasks)),
                    UnitTime("memory", int(sum(self.memory(t) for t in tasks))),
                    UnitTime("vector port", self._on_simd(tasks, self.vector)),
                    UnitTime("issue", self._issue_time(tasks, barriers)),
                ),
                key=lambda time: -time.cycles,
            )
        )

    @staticmethod
    def _branches(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        """Of steps under one condition the first: one branch goes around all of them."""
        found: dict[object, Task] = {}
        for n, task in enumerate(tasks):
            region = n if task.when is None else (task.group, task.when, task.reads[-1].place)
            found.setdefault(region, task)
        return tuple(found.values())

    def _on_simd(self, tasks: tuple[Task, ...], cycles: Callable[[Task], int]) -> int:
        """Of a unit that every SIMD has, all of its waves."""
        busy = 0
        for group in self.lowered.groups:
            shared = ceil(len(group.waves) / self.target.simds.value)
            busy += shared * sum(cycles(t) for t in tasks if t.group == group.name)
        return busy

    def _matrix_time(self, tasks: tuple[Task, ...], barriers: int) -> int:
        busy = self._on_simd(tasks, self.matrix)
        shortest = min((self.matrix(t) for t in tasks if self.matrix(t)), default=0)
        hidden = max(0, shortest - self.operands)
        lost = max(0, self.barrier - hidden) if self.alone and shortest else 0
        return busy + barriers * lost

    def _issue_time(self, tasks: tuple[Task, ...], barriers: int) -> int:
        """Of the wave that issues most."""
        groups = [g.name for g in self.lowered.groups]
        return barriers * self.barrier + max(
            sum(self.issued(t) for t in tasks if t.group == name) for name in groups
        )
