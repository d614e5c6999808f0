"""How fast a recorded kernel is: every loop simulated, and the registers and LDS it takes.

    timing = time_kernel(kernel, recorder.program, recorder.groups[0])
    timing.main.cycles, timing.main.efficiency, timing.main.trace.limiting_unit()

One workgroup runs on one compute unit, all of its waves on their SIMDs. What the model leaves out
are other workgroups on the same unit, and caches: every global access takes the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeloom.errors import ConfigError
from pipeloom.judge.check.record import GroupRecord
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.emulate import CodeKernel
from pipeloom.judge.emulate.limits import Limits
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.simulate import Trace, WaveProgram, simulate_programs
from pipeloom.machine.chips import target_for
from pipeloom.machine.occupancy import Resources
from pipeloom.machine.target import Target
from pipeloom.machine_code.recorded import RecordedKernel, RecordedLoop

MOST_ITERATIONS = 32
LEAST_ITERATIONS = 8
EVENTS = 150_000
"""Instructions of all waves after which a loop has been simulated for long enough."""
MOST_SIMULATED = 1_500_000
"""Instructions that the loops of one kernel take together, at most: 10 s and 0.6 GB or so."""


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """One loop and its simulation; without a loop, that of the whole run."""

    loop: RecordedLoop
    head_pc: int
    tail_pc: int
    trace: Trace

    @property
    def cycles(self) -> float:
        """Of one trip in the steady state; of the whole run where there is no loop."""
        if not self.loop.trips_per_iteration:
            return float(self.trace.total_cycles)
        return self.trace.steady_cycles_per_iteration / self.loop.trips_per_iteration

    @property
    def efficiency(self) -> float:
        """Share of those cycles for which the matrix unit of the busiest SIMD is busy."""
        if not self.loop.trips_per_iteration:
            return max(self.trace.matrix_efficiency())
        return max(self.trace.steady_matrix_efficiency())

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "first_pc": self.head_pc,
            "last_pc": self.tail_pc,
            "trips": self.loop.trips,
            "waves": len(self.loop.waves),
            "cycles": round(self.cycles, 2),
            "matrix_efficiency": round(self.efficiency, 4),
            "tflops": round(self.trace.tflops, 1),
            "limiting_unit": self.trace.limiting_unit(),
        }

    def __str__(self) -> str:
        once = " (one trip ran)" if self.loop.trips == 1 else ""
        where = f"loop {self.head_pc:#x} to {self.tail_pc:#x}{once}"
        unit = "cycles per trip"
        if not self.loop.trips:
            where, unit = "the whole run", "cycles"
        return (
            f"{where}: {self.cycles:.0f} {unit}, matrix unit {self.efficiency:.1%} busy, "
            f"limited by {self.trace.limiting_unit() if self.loop.trips else 'its length'}"
        )


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """Every loop of a kernel, the one with most matrix work first."""

    name: str
    machine: Target
    resources: Resources
    loops: tuple[LoopTiming, ...]
    recorded: RecordedKernel
    skipped: tuple[str, ...] = ()
    """Loops that the budget does not reach, in words."""
    spent: int = 0
    """Instructions that were simulated."""

    @property
    def main(self) -> LoopTiming:
        """Where the kernel does most of its work."""
        if not self.loops:
            raise ConfigError(
                f"{self.name} is not simulated: {self.skipped[0]}",
                hint="launch it at a smaller size, at which its trips repeat sooner",
                field="launch",
            )
        return self.loops[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kernel": self.name,
            "arch": self.machine.arch,
            "vgprs": self.resources.vgprs,
            "agprs": self.resources.agprs,
            "sgprs": self.resources.sgprs,
            "lds_bytes": self.resources.lds_bytes,
            "waves": self.resources.waves,
            "waves_per_simd": self.resources.waves_per_simd,
            "loops": [loop.to_dict() for loop in self.loops],
            "not_simulated": list(self.skipped),
        }

    def shown(self, iterations: int) -> Trace:
        """A run of the main loop that is short enough to be looked at."""
        loop = self.main.loop
        return simulate_programs(loop.programs, self.machine, iterations if loop.trips else 0)


def time_kernel(
    kernel: CodeKernel,
    program: Sequence[MicroOp],
    record: GroupRecord,
    machine: Target | None = None,
    *,
    sync: SyncPlan | None = None,
    most_loops: int | None = None,
    budget: int = MOST_SIMULATED,
) -> KernelTiming:
    """Simulate the loops of a workgroup that ran, on the kernel's chip unless told otherwise.

    ``sync`` are waits and barriers in place of the program's own; ``most_loops`` limits how many
    loops are simulated, from the one with most work on, and ``budget`` the instructions of all.
    """
    chosen = target_for(kernel.arch) if machine is None else machine
    recorded = RecordedKernel(program, record, chosen, sync)
    loops = recorded.loops(budget // LEAST_ITERATIONS) or (recorded.whole(),)
    timed: list[LoopTiming] = []
    skipped: list[str] = []
    known: dict[tuple[WaveProgram, ...], Trace] = {}  # groups of waves with copies of one loop
    spent = 0
    for loop in loops[:most_loops]:
        head, tail = (program[at].instruction.pc for at in (loop.head, loop.tail))
        if loop.programs not in known:
            iterations, cost = _effort(loop, budget - spent)
            if cost is None:
                skipped.append(
                    f"loop {head:#x} to {tail:#x}: {loop.instructions:,} instructions of all waves "
                    f"until it repeats, {budget - spent:,} left of a budget of {budget:,}"
                )
                continue
            known[loop.programs] = simulate_programs(loop.programs, chosen, iterations)
            spent += cost
        timed.append(LoopTiming(loop, head, tail, known[loop.programs]))
    return KernelTiming(
        kernel.name,
        chosen,
        _resources(kernel, len(record.waves), record.lds_bytes, chosen),
        tuple(timed),
        recorded,
        tuple(skipped),
        spent,
    )


def _resources(kernel: CodeKernel, waves: int, lds_bytes: int, machine: Target) -> Resources:
    """By the kernel's descriptor; ``waves`` and ``lds_bytes`` are the launch's."""
    limits, said = Limits.of(kernel), kernel.metadata.agprs
    agprs = limits.agprs if said is None else said
    vgprs = limits.vgprs if agprs else limits.registers
    return Resources(vgprs, agprs, limits.sgprs, lds_bytes, waves, machine, limits.registers)


def _effort(loop: RecordedLoop, left: int) -> tuple[int, int | None]:
    """Iterations, and instructions that they take; None where ``left`` is less than those."""
    around = sum(len(one.prologue) + len(one.epilogue) for one in loop.programs)
    body = sum(len(one.loop) for one in loop.programs)
    if not loop.programs:
        return 0, None
    if not loop.trips:
        return 0, body + around if body + around <= left else None
    body = max(body, 1)
    wanted = min(max(EVENTS // body, LEAST_ITERATIONS), MOST_ITERATIONS)
    iterations = min(wanted, (left - around) // body)
    return iterations, body * iterations + around if iterations >= LEAST_ITERATIONS else None
