"""What a task takes of the machine, all waves of its group at once: what a problem reserves.

Waves of a group run the same task at about the same time, so it is priced as they see it together;
cycles are those of its instructions (``program/costs.py``).

    mfma     product     n * (w / s) * cycles of the instruction     per SIMD, one at a time
    valu     vector op   n * (w / s) * cycles of the instruction     per SIMD
    lds      read        the array, one per CU
             load        the array, when the data arrives
    vmem     load, store the texture path, one per CU
    memory   load, store the CU's share of L2 and HBM
    issue    all         a wave issues in order: memory tasks start between two computing ones or
                         with one, never in the middle

with w waves, s SIMDs, per wave n instructions. A load's data is there after the plain latency plus
its time in memory; a read's after the LDS latency plus its time at the port. Left out are the issue
cycles of the memory instructions themselves, which writers put between the matrix instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from pipeloom.checks import check_int
from pipeloom.errors import InternalError
from pipeloom.order.modulo import MachineUnit, Reservation
from pipeloom.order.tasks import Lowered, Task
from pipeloom.order.unit_times import ARRAY, MEMORY, TEXTURE, Machine
from pipeloom.program.costs import total_cost
from pipeloom.program.nodes import Region
from pipeloom.program.steps import Unit
from pipeloom.program.vocabulary import PRODUCTS

MFMA, VALU, LDS, VMEM, ISSUE = "mfma", "valu", "lds", "vmem", "issue"

RESERVED_VGPRS = 32
"""Assumed per wave: lane ids, LDS and global addresses, of which up to 16 are one per load."""

COMPUTING = (Unit.MATRIX, Unit.VECTOR, Unit.TRANS, Unit.PACKED, Unit.SCALAR)


@dataclass(frozen=True, slots=True)
class Price:
    """From its start: the result is there after ``latency`` cycles, inputs are read for ``hold``
    cycles, and ``uses`` are kept busy."""

    latency: int
    hold: int
    uses: tuple[Reservation, ...]


LONGEST_LATENCY = 1_000_000
"""Cycles of a load that one may plan for; the tables of a search are as long as what it orders."""


class Prices:
    """Prices of the tasks of one iteration.

    ``global_latency`` replaces the target's, to plan for slower memory.
    """

    def __init__(self, lowered: Lowered, global_latency: int | None = None) -> None:
        self._lowered = lowered
        self._machine = Machine.of(lowered)
        self._tasks = lowered.of(Region.LOOP)
        if global_latency is not None:
            check_int("pipeline", "global_latency", global_latency, 0, LONGEST_LATENCY)
        latency = lowered.target.global_latency.value
        self._global_latency = latency if global_latency is None else global_latency

    @property
    def quantum(self) -> int:
        """Cycles of one step of time: a matrix instruction, as finely as writers interleave."""
        products = [t for t in self._tasks if self._machine.matrix(t)]
        found = (self._machine.matrix(t) // t.issues[0].count for t in products)
        return min(found, default=self._machine.issue)

    @property
    def publish(self) -> int:
        """Cycles of a barrier."""
        return self._machine.barrier

    @property
    def units(self) -> tuple[MachineUnit, ...]:
        """What tasks compete for."""
        used = {use.unit for task in self._tasks for use in self.of(task).uses}
        shared = [u for u in (MFMA, VALU, LDS, VMEM, MEMORY) if u in used]
        groups = [g.name for g in self._lowered.groups]
        return (
            *(MachineUnit(name) for name in shared),
            *(MachineUnit(self._issue(name), self._slots(name)) for name in groups),
        )

    def of(self, task: Task) -> Price:
        """The price of one task."""
        if any(issue.unit in COMPUTING for issue in task.issues):
            return self._compute(task)
        (issue,) = task.issues
        match issue.unit:
            case Unit.LDS_READ | Unit.LDS_WRITE:
                return self._read(task)
            case Unit.LOAD_LDS | Unit.LOAD | Unit.STORE:
                return self._memory(task, stores=issue.unit is Unit.STORE)
        raise InternalError(f"task {task.label} has no price for {issue.unit}")

    def _issue(self, group: str) -> str:
        return ISSUE if len(self._lowered.groups) == 1 else f"{ISSUE} {group}"

    def _slots(self, group: str) -> int:
        """Tasks that may stand between two long ones: as many as it takes to place them all."""
        mine = [t for t in self._tasks if t.group == group]
        long = sum(self._cycles(t) > self.quantum for t in mine)
        return max(2, ceil((len(mine) - long) / max(1, long)))

    def _cycles(self, task: Task) -> int:
        """How long its instructions keep a SIMD from issuing others of their kind; 0 for memory."""
        if task.unit not in COMPUTING:
            return 0
        waves = len(self._lowered.group(task.group).waves)
        cost = total_cost(task.issues, self._lowered.target)
        return (cost.matrix or cost.held) * ceil(waves / self._lowered.target.simds.value)

    def _compute(self, task: Task) -> Price:
        """Its operands are read until its last instruction issues; nothing issues between.

        A task no longer than a step has no between: it takes one of the slots that memory tasks
        have.
        """
        cycles, step = self._cycles(task), self.quantum
        matrix = any(issue.unit is Unit.MATRIX for issue in task.issues)
        unit = Reservation(MFMA if matrix else VALU, cycles)
        if cycles > step:
            between = (Reservation(self._issue(task.group), cycles - step, step),)
            return Price(cycles, cycles, (unit, *(between * self._slots(task.group))))
        once = () if matrix else (Reservation(self._issue(task.group)),)
        return Price(cycles, cycles, (unit, *once))

    def _read(self, task: Task) -> Price:
        busy = int(self._machine.busy(task)[ARRAY])
        latency = self._lowered.target.lds_latency.value + busy
        return Price(
            latency, latency, (Reservation(LDS, busy), Reservation(self._issue(task.group)))
        )

    def _memory(self, task: Task, stores: bool) -> Price:
        """A load, which holds no registers; a store is done when it has left the texture path."""
        busy = self._machine.busy(task)
        texture, memory, landed = int(busy[TEXTURE]), ceil(busy[MEMORY]), int(busy[ARRAY])
        uses = [Reservation(VMEM, texture), Reservation(MEMORY, memory)]
        latency = texture if stores else self._global_latency + max(memory, texture)
        if landed:
            uses.append(Reservation(LDS, landed, max(0, latency - landed)))
        uses.append(Reservation(self._issue(task.group)))
        return Price(latency, texture if stores else 0, tuple(uses))


def registers_kept(lowered: Lowered) -> tuple[int, int]:
    """Registers per lane that are never free: matrix results, which may be AGPRs, and others."""
    in_matrix = in_others = 0
    later = {
        touch.place
        for task in lowered.tasks
        if task.region is not Region.BEFORE
        for touch in (*task.found, *task.left)
    }
    for place in lowered.places:
        members = [lowered.meaning[m] for m in place.members]
        if place.rotates or place.name not in later:
            continue
        if any(m.region is Region.AFTER for m in members):
            continue
        if place.carried and any(m.op in PRODUCTS for m in members):
            in_matrix += place.registers
        else:
            in_others += place.registers
    return in_matrix, in_others
