"""A program on the machine: each step becomes the instructions that it issues.

Steps say themselves what they issue (``Work.issues``); a loop adds two scalar instructions and the
branch back. A step that is one matrix instruction waits for the one before that adds to the same
result; within larger steps the writer orders them so that none waits. Waves go to the SIMDs in
turn, so that waves w and w + 4 share one: in the ping-pong one of each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.engine import simulate_programs, total_cycles_of
from pipeloom.judge.simulate.instruction import ISSUED_AS, WaveOp, WaveProgram
from pipeloom.judge.simulate.settled import steady_cycles_of
from pipeloom.judge.simulate.trace import Trace
from pipeloom.machine.target import Target, Traffic
from pipeloom.program import (
    Barrier,
    Group,
    Issue,
    Priority,
    Program,
    Section,
    Step,
    Unit,
    Wait,
    Work,
)

ITERATIONS = 32
"""How many are simulated where nobody says."""

LOOP_END = (
    WaveOp.salu(label="k += step"),
    WaveOp.salu(label="k < K?"),
    WaveOp.branch(),
)


SKIPPED = (
    WaveOp.valu(label="condition"),
    WaveOp.salu(label="lanes of the condition"),
    WaveOp.branch(label="skip"),
)
"""What conditional steps issue where no lane needs it, which is the usual case."""


def simulate(
    program: Program,
    target: Target | None = None,
    *,
    iterations: int = ITERATIONS,
    jitter: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Run one workgroup over ``iterations`` on one compute unit, of the program's own chip."""
    machine = target or program.target
    trips = trips_for(program, iterations)
    programs = wave_programs(program, machine)
    return simulate_programs(programs, machine, trips, jitter=jitter, seed=seed)


def steady_cycles(program: Program, iterations: int, workgroups: int = 1) -> float:
    """``simulate(...).steady_cycles_per_iteration``, from as much of the run as decides it; of
    several workgroups on the compute unit, the time in which each of them makes one."""
    trips = trips_for(program, iterations)
    machine = program.target
    waves = beside(wave_programs(program, machine, named=False), workgroups, machine)
    return steady_cycles_of(waves, machine, trips)


def beside(
    programs: Sequence[WaveProgram], workgroups: int, machine: Target
) -> tuple[WaveProgram, ...]:
    """The waves of so many workgroups alike, which go to the SIMDs in turn."""
    waves, simds = len(programs), machine.simds.value
    return tuple(
        replace(program, simd=(number * waves + wave) % simds, workgroup=number)
        for number in range(workgroups)
        for wave, program in enumerate(programs)
    )


def total_cycles(program: Program, iterations: int) -> int:
    """``simulate(...).total_cycles``, without a trace."""
    trips, machine = trips_for(program, iterations), program.target
    return total_cycles_of(wave_programs(program, machine, named=False), machine, trips)


def usual_iterations(program: Program, least: int = ITERATIONS) -> int:
    """The first number from ``least`` on that a program can run; its only one, if it is that."""
    base, step = program.iterations.at(program.min_trips), program.step
    return base + max(0, -(-(least - base) // step)) * step if step else base


def trips_for(program: Program, iterations: int) -> int:
    """The trips at which ``program`` computes ``iterations``; all but the last count are least.

    Raises ``ConfigError`` naming the numbers that would do.
    """
    least = program.min_trips
    name = program.trips[-1].name if program.trips else ""
    step = dict(program.iterations.factors).get(name, 0)
    base = program.iterations.at(least)
    if iterations == base:
        return least.get(name, 0)
    trips, rest = divmod(iterations - base, step) if step else (0, 1)
    if rest or trips < 0:
        more = f", {base + step}, {base + 2 * step}, ..." if step else ""
        raise ConfigError(
            f"{program.name} cannot run {iterations} iterations (K tiles)",
            hint=f"use {base}{more}",
            field="k_tiles",
        )
    return trips + least.get(name, 0)


def wave_programs(
    program: Program, target: Target | None = None, *, named: bool = True
) -> tuple[WaveProgram, ...]:
    """One instruction list per wave of the workgroup.

    Without names, which no time depends on, instructions that are alike are one object.
    """
    machine = target or program.target
    issues = any(
        isinstance(step, Work) and step.issues for g in program.groups for _, _, step in g.steps()
    )
    if not issues:
        raise ConfigError(
            f"no step of {program.name} says which instructions it issues, so it takes no time",
            hint="give steps their issues; those of a schedule follow from its tile shape "
            "(geometry), if it counts the same instructions",
            field="Work.issues",
        )
    parts = [_parts(program, group, _Maker(machine, named)) for group in program.groups]
    group_of = {wave: n for n, group in enumerate(program.groups) for wave in group.waves}
    simds = machine.simds.value
    return tuple(
        WaveProgram(
            simd=wave % simds,
            group=group_of[wave],
            prologue=parts[group_of[wave]][0],
            loop=parts[group_of[wave]][1],
            epilogue=parts[group_of[wave]][2],
        )
        for wave in range(program.waves)
    )


def _parts(program: Program, group: Group, make: _Maker) -> list[tuple[WaveOp, ...]]:
    """Prologue, loop and epilogue around the main loop; other loops run their least."""
    least, main = program.min_trips, program.main_loop(group)
    parts: list[list[WaveOp]] = [[], [], []]
    into = 0
    for section in group.sections:
        once = make.section(section)
        if section is main:
            parts[1], into = once, 2
        else:
            parts[into] += once * (1 if section.trips is None else least[section.trips])
    return [tuple(part) for part in parts]


class _Maker:
    """Makes the instructions of sections."""

    def __init__(self, machine: Target, named: bool) -> None:
        self._machine, self._named = machine, named
        self._known: dict[tuple[Issue, str | None], WaveOp] = {}
        self._sums: dict[tuple[str, int, int], str] = {}

    def section(self, section: Section) -> list[WaveOp]:
        found: list[WaveOp] = []
        for slot, step in enumerate(section.steps):
            if isinstance(step, Work) and slot and step.goes_on(section.steps[slot - 1]):
                continue
            made = self._instructions(step)
            if self._named:
                skipped = isinstance(step, Work) and step.when is not None
                entry = None if skipped else slot
                made = [replace(one, section=section.name, entry=entry) for one in made]
            found += made
        if section.trips is not None:
            found += [replace(one, section=section.name) for one in LOOP_END]
        return found

    def _instructions(self, step: Step) -> Sequence[WaveOp]:
        match step:
            case Work() if step.when is not None:
                return [*SKIPPED]
            case Work():
                return self._issued(step)
            case Barrier() if self._machine.barrier(step.name).phases:
                raise ConfigError(
                    f"barrier {step.name!r} has phases, which are not simulated",
                    hint="barriers that all waves of the workgroup meet at are",
                    field="Barrier.name",
                )
            case Barrier():
                return (WaveOp.barrier(label=step.label or "barrier"),)
            case Wait(counter, count):
                traffic = self._machine.counter(counter).counts
                if traffic is Traffic.GLOBAL:
                    return (WaveOp.wait(vm=count),)
                if traffic is Traffic.LDS:
                    return (WaveOp.wait(lgkm=count),)
                raise ConfigError(
                    f"the simulator does not know counter {counter!r}",
                    hint="it knows those that count global or LDS accesses: counts=Traffic...",
                    field="counter",
                )
            case Priority(level):
                return (WaveOp.set_prio(level),)
        return ()

    def _issued(self, step: Work) -> list[WaveOp]:
        onto, found = self._sum(step), list[WaveOp]()
        for issue in step.issues:
            found += [self._one(issue, step.label, None if found else onto)] * issue.count
        return found

    def _one(self, issue: Issue, label: str, onto: str | None) -> WaveOp:
        if self._named:
            return self._made(issue, label, onto)
        if (issue, onto) not in self._known:
            self._known[issue, onto] = self._made(issue, "", onto)
        return self._known[issue, onto]

    def _made(self, issue: Issue, label: str, onto: str | None) -> WaveOp:
        machine, scalar = self._machine, issue.unit is Unit.SCALAR
        matrix = issue.unit is Unit.MATRIX
        return WaveOp(
            ISSUED_AS[issue.unit],
            matrix_op=machine.matrix_op(issue.shape) if matrix else None,
            bytes_per_lane=issue.bytes,
            conflict=issue.conflict,
            chain=onto,
            label=f"address of {label}" if scalar else label,
        )

    def _sum(self, step: Work) -> str | None:
        """What a single matrix instruction adds to; steps share the boxes of a place."""
        first = step.issues[0] if step.issues else None
        if first is None or first.unit is not Unit.MATRIX or first.count > 1:
            return None
        if not step.accumulates:
            return None
        onto = step.accumulates[0]
        key = onto.resource, onto.copy, id(onto.boxes)
        if key not in self._sums:
            self._sums[key] = f"{onto.resource}#{onto.copy} {onto.boxes}"
        return self._sums[key]
