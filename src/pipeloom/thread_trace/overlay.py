"""Measured over simulated: the same waves and the same instructions, once traced, once modelled.

    overlay = lay_over(capture, GFX950)
    overlay.measured_cycles, overlay.simulated_cycles     # of a trip
    overlay.rows[0]                                       # the instruction that differs most

Both runs are a ``Trace`` of the same programs, so that instruction n of trip i of wave w is the
same in both. Of the workgroups that were traced, the one whose trip takes the median number of
cycles is shown. ``aligned`` moves the two so that their loops begin together: what comes before
depends on caches and on the launch, which the model leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeloom.judge.simulate import Kind, Trace, WaveOp, simulate_programs
from pipeloom.judge.simulate.steady import observed_cycles
from pipeloom.judge.simulate.trace import Cause, Event, LoopPhase
from pipeloom.machine.target import Target
from pipeloom.thread_trace.capture import Capture
from pipeloom.thread_trace.code_table import CodeRow
from pipeloom.thread_trace.traced_groups import TracedGroup, traced_groups
from pipeloom.thread_trace.wave_file import DURATION, STALL, TIME


@dataclass(frozen=True, slots=True)
class Spent:
    """Cycles of an instruction: before it was tried, while it stood, while it issued."""

    idle: float
    stall: float
    issue: float

    @property
    def total(self) -> float:
        """All three."""
        return self.idle + self.stall + self.issue


@dataclass(frozen=True, slots=True)
class InstructionCycles:
    """One instruction: mean over the waves that run it, per trip in the loop, in all elsewhere."""

    row: CodeRow
    phase: LoopPhase
    measured: Spent
    simulated: Spent

    @property
    def difference(self) -> float:
        """Measured less simulated."""
        return self.measured.total - self.simulated.total

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        cycles = {
            f"{name}_{part}": round(getattr(spent, part), 2)
            for name, spent in (("measured", self.measured), ("simulated", self.simulated))
            for part in ("idle", "stall", "issue")
        }
        return {
            "pc": self.row.pc,
            "instruction": self.row.text,
            "source": self.row.source,
            "phase": self.phase.value,
            "difference": round(self.difference, 2),
            **cycles,
        }


@dataclass(frozen=True, slots=True)
class Overlay:
    """A measured workgroup beside the simulation of what it executed."""

    capture: Capture
    group: TracedGroup
    measured: Trace
    simulated: Trace
    rows: tuple[InstructionCycles, ...]
    """The largest differences first, those of the loop before the others."""
    others: tuple[float, ...]
    """Measured cycles per trip of every traced workgroup, this one included."""

    @property
    def kernel(self) -> str:
        """The traced kernel's name."""
        return self.rows[0].row.kernel if self.rows else ""

    @property
    def trips(self) -> int:
        """Trips of the loop in both runs."""
        return self.group.iterations

    @property
    def measured_cycles(self) -> float:
        """Of a trip in the steady state; of the whole run where there is no loop."""
        return _cycles(self.measured)

    @property
    def simulated_cycles(self) -> float:
        """The same by the model."""
        return _cycles(self.simulated)

    @property
    def error(self) -> float:
        """Of the model, as a share of what was measured; positive where the model is slower."""
        return self.simulated_cycles / self.measured_cycles - 1.0 if self.measured_cycles else 0.0

    def aligned(self) -> tuple[Trace, Trace]:
        """Simulated and measured on one clock, on which both loops begin at the same cycle."""
        late = self.measured.prologue_cycles - self.simulated.prologue_cycles
        late = late if self.trips else 0
        return _moved(self.simulated, max(late, 0)), _moved(self.measured, max(-late, 0))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kernel": self.kernel,
            "arch": self.simulated.machine.arch,
            "waves": len(self.measured.programs),
            "trips": self.trips,
            "measured_cycles": round(self.measured_cycles, 2),
            "simulated_cycles": round(self.simulated_cycles, 2),
            "error": round(self.error, 4),
            "measured_cycles_of_workgroups": [round(one, 2) for one in self.others],
            "clock_mhz": None if (m := self.capture.clock_mhz) is None else round(m, 1),
            "code_object_sha256": self.capture.digest(self.rows[0].row.code_object)
            if self.rows
            else "",
            "instructions": [row.to_dict() for row in self.rows],
        }


def _cycles(trace: Trace) -> float:
    if not trace.iterations:
        return float(trace.total_cycles)
    return observed_cycles(trace.marks, trace.iterations, lambda: max(m[-1] for m in trace.marks))


def lay_over(capture: Capture, machine: Target) -> Overlay:
    """Simulate what the waves of a trace executed, and set it beside what they took."""
    groups = traced_groups(capture.waves, capture.code, machine)
    traces = [_measured(group, machine) for group in groups]
    most = max(group.iterations for group in groups)
    ranked = sorted(
        (n for n, group in enumerate(groups) if group.iterations == most),
        key=lambda n: (_cycles(traces[n]), n),
    )
    chosen = ranked[(len(ranked) - 1) // 2]
    group, measured = groups[chosen], traces[chosen]
    simulated = simulate_programs(group.programs, machine, group.iterations)
    others = tuple(_cycles(traces[n]) for n in ranked)
    return Overlay(capture, group, measured, simulated, _rows(capture, measured, simulated), others)


def _measured(group: TracedGroup, machine: Target) -> Trace:
    """What a group did as a trace, from the begin of its first wave on."""
    zero = min(wave.begin for wave in group.waves)
    events: list[Event] = []
    marks: list[tuple[int, ...]] = []
    for number, wave in enumerate(group.waves):
        program, cuts = group.programs[number], group.cuts[number]
        length = len(group.paths[number])
        table = wave.instructions[:length]
        times = (table[:, TIME] - zero).tolist()
        end = times[-1] + int(table[-1, DURATION]) if times else 0
        marks.append(tuple(times[cut] if cut < length else end for cut in cuts))
        ops = (*program.prologue, *program.loop * group.iterations, *program.epilogue)
        first, body = cuts[0], len(program.loop)
        for at, op in enumerate(ops):
            trip = -1 if at < first else (at - first) // body if body else 0
            trip = min(trip, group.iterations)
            position = at - min(max(trip, 0), max(group.iterations - 1, 0)) * body
            ready = times[at]
            start, free = ready + int(table[at, STALL]), ready + int(table[at, DURATION])
            cause = _cause(op) if start > ready else Cause.NONE
            done = max(free, start + op.matrix_cycles)
            events.append(Event(number, position, trip, ready, start, free, done, cause, -1))
    events.sort(key=lambda event: (event.ready, event.wave))
    total = max(wave.end for wave in group.waves) - zero
    return Trace(machine, group.programs, group.iterations, tuple(events), tuple(marks), total)


def _cause(op: WaveOp) -> Cause:
    """What a trace tells of a stall: of a wait and a barrier, what it is for."""
    if op.kind is Kind.BARRIER:
        return Cause.OTHER_WAVE
    if op.kind is Kind.WAIT:
        return Cause.LDS_DATA if op.vm is None else Cause.LOADS
    return Cause.NOT_RECORDED


def _moved(trace: Trace, by: int) -> Trace:
    """The same run, so many cycles later."""
    if not by:
        return trace
    return replace(
        trace,
        events=tuple(
            e._replace(ready=e.ready + by, start=e.start + by, free=e.free + by, done=e.done + by)
            for e in trace.events
        ),
        marks=tuple(tuple(time + by for time in mark) for mark in trace.marks),
        total_cycles=trace.total_cycles + by,
    )


Key = tuple[LoopPhase, int]


def _rows(capture: Capture, measured: Trace, simulated: Trace) -> tuple[InstructionCycles, ...]:
    both = [_spent(trace) for trace in (measured, simulated)]
    nothing = Spent(0.0, 0.0, 0.0)
    rows = [
        InstructionCycles(
            capture.code.rows[line],
            phase,
            both[0].get((phase, line), nothing),
            both[1].get((phase, line), nothing),
        )
        for phase, line in sorted(both[0], key=lambda key: key[1])
    ]
    in_loop = LoopPhase.LOOP
    return tuple(
        sorted(rows, key=lambda r: (r.phase is not in_loop, -abs(r.difference), r.row.number))
    )


def _spent(trace: Trace) -> dict[Key, Spent]:
    """By instruction: mean over the waves that run it, in the loop per trip of the window."""
    first, last = trace.steady_window
    sums: dict[Key, list[int]] = {}
    waves: dict[Key, set[int]] = {}
    free = [0] * len(trace.programs)
    started = [False] * len(trace.programs)
    for event in _by_wave(trace.events):
        idle = max(0, event.ready - free[event.wave]) if started[event.wave] else 0
        free[event.wave] = max(free[event.wave], event.free)
        started[event.wave] = True
        phase = trace.phase(event)
        if phase is LoopPhase.LOOP and not first <= event.iteration < last:
            continue
        line = trace.instruction(event).entry
        assert line is not None
        row = sums.setdefault((phase, line), [0, 0, 0])
        for at, cycles in enumerate((idle, event.stall, event.free - event.start)):
            row[at] += cycles
        waves.setdefault((phase, line), set()).add(event.wave)
    trips = {phase: last - first if phase is LoopPhase.LOOP else 1 for phase in LoopPhase}
    return {
        key: Spent(*(n / (len(waves[key]) * trips[key[0]]) for n in row))
        for key, row in sums.items()
    }


def _by_wave(events: Sequence[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event.wave, event.iteration, event.position))
