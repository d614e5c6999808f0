"""How long one iteration keeps each unit of the machine busy: no order of it can be faster.

Counted for single instructions, with the constants that the simulator runs on. A SIMD's matrix unit
also stands still at every barrier that a lone wave meets, from the end of its last matrix
instruction until the wave is awake again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from pipeloom.machine.target import WAVE_LANES
from pipeloom.order.tasks import Lowered, Task
from pipeloom.program.meaning import Region
from pipeloom.program.steps import Issue, Unit


@dataclass(frozen=True, slots=True)
class UnitTime:
    """``cycles`` per iteration of one unit."""

    unit: str
    cycles: int


class Machine:
    """What instructions cost on a target, all waves of their group at once."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.target = target = lowered.target
        waves = sum(len(group.waves) for group in lowered.groups)
        self.waves = waves
        self.per_simd = ceil(waves / target.simds.value)
        self.alone = waves <= target.simds.value
        cost = target.barrier_alone_cycles if self.alone else target.barrier_shared_cycles
        self.barrier = 0 if waves == 1 else cost.value
        self.issue = target.issue_cycles.value
        self.operands = target.mfma_operand_cycles.value

    def matrix(self, task: Task) -> int:
        """Cycles of the matrix unit for one wave's products."""
        return sum(
            issue.count * self.target.matrix_op(issue.shape).cycles.value
            for issue in task.issues
            if issue.unit is Unit.MATRIX
        )

    def issued(self, task: Task) -> int:
        """Cycles for which one wave issues it; one that is skipped as a rule takes a branch."""
        if task.when is not None:
            return self.target.branch_cycles.value + 2 * self.issue
        slow = {Unit.MATRIX: self.operands, Unit.TRANS: self.target.trans_cycles.value}
        return sum(issue.count * slow.get(issue.unit, self.issue) for issue in task.issues)

    def vector(self, task: Task) -> int:
        """Cycles of a SIMD's vector port for one wave."""
        units = (Unit.MATRIX, Unit.VECTOR, Unit.TRANS)
        if task.when is not None:
            return self.issue
        if task.issues[0].unit is Unit.MATRIX:
            return sum(issue.count for issue in task.issues) * self.issue
        return self.issued(task) if task.issues[0].unit in units else 0

    def lds(self, task: Task) -> int:
        """Cycles of the LDS array."""
        each = sum(
            issue.count * ceil(WAVE_LANES * issue.bytes / self.target.lds_bytes_per_clk.value)
            for issue in task.issues
            if issue.unit in (Unit.LDS_READ, Unit.LOAD_LDS)
        )
        return each * self._waves(task)

    def returned(self, task: Task) -> int:
        """Cycles of a SIMD's path from LDS."""
        rate = self.target.lds_return_bytes_per_clk.value
        each = sum(
            issue.count * ceil(WAVE_LANES * issue.bytes / rate)
            for issue in task.issues
            if issue.unit is Unit.LDS_READ
        )
        return each * ceil(self._waves(task) / self.target.simds.value)

    def texture(self, task: Task) -> int:
        """Cycles of the texture path."""
        each = sum(issue.count * self._texture(issue) for issue in _loads(task))
        return each * self._waves(task)

    def memory(self, task: Task) -> float:
        """Cycles of the compute unit's share of memory."""
        size = sum(issue.count * WAVE_LANES * issue.bytes for issue in _loads(task))
        return size * self._waves(task) / self.target.global_bytes_per_clk.value

    @property
    def read_latency(self) -> int:
        """From a read's issue to its data, the other waves' reads of the same moment included."""
        array = ceil(WAVE_LANES * 16 / self.target.lds_bytes_per_clk.value)
        return self.target.lds_latency.value + array * self.waves

    def load_latency(self, task: Task) -> int:
        """From a load's issue to its data in LDS."""
        behind = max(self.texture(task), self.memory(task))
        return ceil(self.target.global_latency.value + behind + self.lds(task))

    def _texture(self, issue: Issue) -> int:
        moved = ceil(WAVE_LANES * issue.bytes / self.target.vmem_bytes_per_clk.value)
        return max(self.target.vmem_min_cycles.value, moved)

    def _waves(self, task: Task) -> int:
        return len(self.lowered.group(task.group).waves)

    def times(self, barriers: int) -> tuple[UnitTime, ...]:
        """Every unit's, the longest first; ``barriers`` of them per iteration."""
        tasks = self.lowered.of(Region.LOOP)
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


def _loads(task: Task) -> list[Issue]:
    return [i for i in task.issues if i.unit in (Unit.LOAD_LDS, Unit.LOAD)]
