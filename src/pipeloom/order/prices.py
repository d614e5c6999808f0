"""What a task costs the machine, from the target's facts; all waves of its group at once.

Waves of a group run the same task at about the same time, so it is priced as they see it together.
With w waves, s SIMDs, per wave n instructions:

    mfma     product     n * (w / s) * cycles of the instruction     per SIMD, one at a time
    valu     vector op   n * (w / s) * cycles of the instruction     per SIMD
    lds      read        w * n * bytes / LDS bytes per cycle         one port per CU
             load        bytes / LDS bytes per cycle, when the data arrives
    vmem     load, store w * n * max(4, bytes / 64)                  one texture path per CU
    memory   load        bytes / 45                                  the CU's share of L2 and HBM
    store    store       bytes / 8
    issue    all         a wave issues in order: memory tasks start between two computing ones or
                         with one, never in the middle

A load's data is there after the plain latency plus its time in memory; a read's after the LDS
latency plus its time at the port. Left out are the issue cycles of the memory instructions
themselves, which writers put between the matrix instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from pipeloom.errors import InternalError
from pipeloom.machine.target import WAVE_LANES
from pipeloom.order.modulo import Reservation
from pipeloom.order.modulo import Unit as ModuloUnit
from pipeloom.order.tasks import Lowered, Task
from pipeloom.program.meaning import Region
from pipeloom.program.steps import Issue, Unit
from pipeloom.program.tiles import volume
from pipeloom.program.vocabulary import PRODUCTS

MFMA, VALU, LDS, VMEM, MEMORY, STORE, ISSUE = (
    "mfma", "valu", "lds", "vmem", "memory", "store", "issue",
)  # fmt: skip

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


class Prices:
    """Prices of the tasks of one iteration.

    ``global_latency`` replaces the target's, to plan for slower memory.
    """

    def __init__(self, lowered: Lowered, global_latency: int | None = None) -> None:
        self._lowered = lowered
        self._target = lowered.target
        self._tasks = lowered.of(Region.LOOP)
        latency = self._target.global_latency.value
        self._global_latency = latency if global_latency is None else global_latency

    @property
    def quantum(self) -> int:
        """Cycles of one step of time: a matrix instruction, as finely as writers interleave."""
        found = [
            self._target.matrix_op(issue.shape).cycles.value
            for task in self._tasks
            for issue in task.issues
            if issue.unit is Unit.MATRIX
        ]
        return min(found, default=self._target.issue_cycles.value)

    @property
    def publish(self) -> int:
        """Cycles of a barrier: dear where a SIMD has no second wave to run meanwhile."""
        target = self._target
        waves = sum(len(group.waves) for group in self._lowered.groups)
        if waves == 1:
            return 0
        alone = waves <= target.simds.value
        return (target.barrier_alone_cycles if alone else target.barrier_shared_cycles).value

    @property
    def units(self) -> tuple[ModuloUnit, ...]:
        """What tasks compete for."""
        used = {use.unit for task in self._tasks for use in self.of(task).uses}
        shared = [u for u in (MFMA, VALU, LDS, VMEM, MEMORY, STORE) if u in used]
        groups = [g.name for g in self._lowered.groups]
        return (
            *(ModuloUnit(name) for name in shared),
            *(ModuloUnit(self._issue(name), self._slots(name)) for name in groups),
        )

    def of(self, task: Task) -> Price:
        """The price of one task."""
        waves = len(self._lowered.group(task.group).waves)
        if any(issue.unit in COMPUTING for issue in task.issues):
            return self._compute(task)
        (issue,) = task.issues
        match issue.unit:
            case Unit.LDS_READ:
                return self._read(task, issue, waves)
            case Unit.LOAD_LDS | Unit.LOAD:
                return self._load(task, issue, waves)
            case Unit.STORE:
                return self._store(task, issue, waves)
        raise InternalError(f"task {task.label} has no price for {issue.unit}")

    def _issue(self, group: str) -> str:
        return ISSUE if len(self._lowered.groups) == 1 else f"{ISSUE} {group}"

    def _slots(self, group: str) -> int:
        """Tasks that may stand between two long ones: as many as it takes to place them all."""
        mine = [t for t in self._tasks if t.group == group]
        long = sum(self._cycles(t) > self.quantum for t in mine)
        return max(2, ceil((len(mine) - long) / max(1, long)))

    def _cycles(self, task: Task) -> int:
        """How long its instructions keep a SIMD from issuing others; 0 for memory."""
        target = self._target
        each = {
            Unit.VECTOR: target.valu_cycles.value,
            Unit.TRANS: target.trans_cycles.value,
            Unit.PACKED: target.valu_cycles.value,
            Unit.SCALAR: target.salu_cycles.value,
        }
        total = 0
        for issue in task.issues:
            if issue.unit is Unit.MATRIX:
                total += issue.count * target.matrix_op(issue.shape).cycles.value
            elif issue.unit in each:
                total += issue.count * each[issue.unit]
        waves = len(self._lowered.group(task.group).waves)
        return total * ceil(waves / target.simds.value)

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

    def _read(self, task: Task, issue: Issue, waves: int) -> Price:
        target = self._target
        moved = waves * issue.count * WAVE_LANES * issue.bytes
        busy = ceil(moved * issue.conflict / target.lds_bytes_per_clk.value)
        latency = target.lds_latency.value + busy
        return Price(
            latency, latency, (Reservation(LDS, busy), Reservation(self._issue(task.group)))
        )

    def _load(self, task: Task, issue: Issue, waves: int) -> Price:
        target = self._target
        texture = waves * issue.count * self._texture(issue)
        size = _bytes(self._lowered, task)
        memory = ceil(size / target.global_bytes_per_clk.value)
        latency = self._global_latency + max(memory, texture)
        uses = [Reservation(VMEM, texture), Reservation(MEMORY, memory)]
        if issue.unit is Unit.LOAD_LDS:
            written = ceil(size / target.lds_bytes_per_clk.value)
            uses.append(Reservation(LDS, written, max(0, latency - written)))
        return Price(latency, 0, (*uses, Reservation(self._issue(task.group))))

    def _store(self, task: Task, issue: Issue, waves: int) -> Price:
        texture = waves * issue.count * self._texture(issue)
        size = _bytes(self._lowered, task)
        stored = ceil(size / self._target.store_bytes_per_clk.value)
        return Price(
            texture,
            texture,
            (
                Reservation(VMEM, texture),
                Reservation(STORE, stored),
                Reservation(self._issue(task.group)),
            ),
        )

    def _texture(self, issue: Issue) -> int:
        target = self._target
        each = ceil(WAVE_LANES * issue.bytes / target.vmem_bytes_per_clk.value)
        return max(target.vmem_min_cycles.value, each)


def _bytes(lowered: Lowered, task: Task) -> int:
    """Bytes of global memory that a task moves, all waves."""
    dtype = lowered.meaning[task.node].type.dtype
    different = len(set(task.parts))  # what several waves ask for alike, the cache serves
    return max(1, ceil(different * volume(task.parts[0]) * dtype.bits / 8 / dtype.covers))


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
