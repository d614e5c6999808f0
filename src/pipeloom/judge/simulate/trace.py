"""What happened in a simulation, and the questions one asks of it.

A ``Trace`` is the immutable record of every instruction issued, with four times:

    ready   the wave could have issued it (its predecessor had released the wave)
    start   it issued; ``start - ready`` is the stall, ``cause`` and ``source`` say on what
    free    the wave may issue its next instruction
    done    its effect is complete: result ready, data landed, barrier released

For a wait or a barrier ``start`` is when it was satisfied. Everything else here (cycles per
iteration, efficiency, stall table, limiting unit) is computed from those rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum, IntEnum, unique
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from pipeloom.judge.simulate.instruction import Kind, WaveOp, WaveProgram
from pipeloom.judge.simulate.steady import busy_cycles, observed_cycles, steady_window
from pipeloom.machine.target import Target
from pipeloom.notebook import fragment

K = TypeVar("K")


@unique
class Cause(IntEnum):
    """What kept an instruction from issuing when its wave was ready."""

    NONE = 0
    """Nothing."""
    MATRIX_UNIT = 1
    """The matrix unit is busy."""
    VALU_PORT = 2
    """The vector issue port is busy."""
    ISSUE_PORT = 3
    """Another wave issues to the unit."""
    DEPENDENCE = 4
    """An earlier result is not ready."""
    LDS_QUEUE = 5
    """The LDS queue is full."""
    LDS_COUNTER = 6
    """``lgkmcnt`` is at its limit."""
    LDS_WRITE_DATA = 7
    """Its own matrix instruction before an LDS write."""
    VMEM_QUEUE = 8
    """The texture path is full."""
    VMEM_COUNTER = 9
    """``vmcnt`` is at its limit."""
    BYTES_IN_FLIGHT = 10
    """Too many bytes are on the way from memory."""
    LOADS = 11
    """A wait for global loads."""
    LDS_DATA = 12
    """A wait for LDS data."""
    OTHER_WAVE = 13
    """Another wave has not arrived at the barrier."""
    NOT_RECORDED = 14
    """A measured run, which does not say why an instruction stood."""

    @property
    def text(self) -> str:
        """The cause in words."""
        return _CAUSE_TEXT[self]


_CAUSE_TEXT = {
    Cause.NONE: "nothing",
    Cause.MATRIX_UNIT: "the matrix unit is busy",
    Cause.VALU_PORT: "the vector issue port is busy",
    Cause.ISSUE_PORT: "another wave issues to the unit",
    Cause.DEPENDENCE: "an earlier result",
    Cause.LDS_QUEUE: "the LDS queue is full",
    Cause.LDS_COUNTER: "lgkmcnt is at its limit",
    Cause.LDS_WRITE_DATA: "its own MFMA before a ds_write",
    Cause.VMEM_QUEUE: "the texture path is full",
    Cause.VMEM_COUNTER: "vmcnt is at its limit",
    Cause.BYTES_IN_FLIGHT: "too many bytes in flight",
    Cause.LOADS: "global loads",
    Cause.LDS_DATA: "LDS data",
    Cause.OTHER_WAVE: "another wave",
    Cause.NOT_RECORDED: "measured, not recorded why",
}


class LoopPhase(Enum):
    """Where in its program an instruction stands."""

    PROLOGUE = "prologue"
    """Before the loop."""
    LOOP = "loop"
    """In the loop."""
    EPILOGUE = "epilogue"
    """After the loop."""


class Event(NamedTuple):
    """One issued instruction; times are in cycles."""

    wave: int
    """The wave's number."""
    position: int
    """Its place in the wave's program, counted through prologue, loop and epilogue."""
    iteration: int
    """The loop iteration; -1 in the prologue, the trip count in the epilogue."""
    ready: int
    """When the wave could have issued it."""
    start: int
    """When it issued; for a wait or barrier, when it was satisfied."""
    free: int
    """When the wave may issue its next instruction."""
    done: int
    """When its effect is complete: result ready, data landed, barrier released."""
    cause: Cause
    """What kept it from issuing between ``ready`` and ``start``."""
    source: int
    """The index in ``Trace.events`` of the instruction that was waited for, or -1."""

    @property
    def stall(self) -> int:
        """Cycles the wave was ready but could not issue this."""
        return self.start - self.ready


@dataclass(frozen=True, slots=True)
class StallRow:
    """How long the waves stood at one point of the program."""

    phase: LoopPhase
    """Where the point is."""
    position: int
    """Its place in that phase, from 0."""
    label: str
    """The instruction there."""
    cycles: tuple[float, ...]
    """Stalled cycles of each wave: per iteration in the loop, else in total."""
    cause: Cause
    """The cause that cost most."""
    waited_for: str
    """The instruction most often waited for."""

    @property
    def mean(self) -> float:
        """Mean over the waves."""
        return sum(self.cycles) / len(self.cycles)


@dataclass(frozen=True, slots=True)
class Trace:
    """The record of a simulated run: one workgroup on one compute unit."""

    machine: Target
    """The chip, with the numbers that were used."""
    programs: tuple[WaveProgram, ...]
    """What each wave ran."""
    iterations: int
    """Trips of the loop."""
    events: tuple[Event, ...]
    """Every issued instruction."""
    marks: tuple[tuple[int, ...], ...]
    """``marks[w][i]`` is when wave w was ready for iteration i."""
    total_cycles: int
    """Cycles from the start until everything has finished."""

    def __repr__(self) -> str:
        run = f"{len(self.programs)} waves, {self.iterations} trips"
        return f"<Trace on {self.machine.arch}: {run}, {self.total_cycles} cycles>"

    def _repr_html_(self) -> str:
        """For notebooks: the figures, a trip in time, and where the waves stood longest."""
        busy = max(self.steady_matrix_efficiency())
        text = (
            f"{len(self.programs)} waves, {self.iterations} trips, {self.total_cycles} "
            f"cycles; {self.steady_cycles_per_iteration:.0f} per trip, matrix unit "
            f"{busy:.1%} busy, limited by {self.limiting_unit()}"
        )
        rows = [
            (r.phase.value, r.label, r.mean, max(r.cycles), r.cause.text)
            for r in self.stall_table()
            if r.mean >= 1
        ]
        columns = ("phase", "instruction", "mean stall", "worst", "cause")
        name = f"{self.machine.chip} ({self.machine.arch})"
        return fragment(name, text, columns, rows, drawn=self)

    def instruction(self, event: Event) -> WaveOp:
        """The instruction an event issued.

        Args:
            event: An event of this trace.
        """
        program = self.programs[event.wave]
        position = event.position
        for part in (program.prologue, program.loop):
            if position < len(part):
                return part[position]
            position -= len(part)
        return program.epilogue[position]

    def _instructions(self) -> list[tuple[WaveOp, ...]]:
        """By wave and position."""
        return [(*one.prologue, *one.loop, *one.epilogue) for one in self.programs]

    def phase(self, event: Event) -> LoopPhase:
        """The phase an event belongs to.

        Args:
            event: An event of this trace.
        """
        if event.iteration < 0:
            return LoopPhase.PROLOGUE
        return LoopPhase.LOOP if event.iteration < self.iterations else LoopPhase.EPILOGUE

    @property
    def prologue_cycles(self) -> int:
        """From the start until the first wave is ready for the loop."""
        return min(mark[0] for mark in self.marks)

    @property
    def epilogue_cycles(self) -> int:
        """From when the first wave leaves the loop until everything has finished."""
        return self.total_cycles - min(mark[-1] for mark in self.marks)

    @property
    def steady_window(self) -> tuple[int, int]:
        """The iterations [first, last) taken as steady: the middle, without warm-up and drain."""
        return steady_window(self.iterations)

    @property
    def steady_cycles_per_iteration(self) -> float:
        """Cycles per iteration in the steady state; 0 with no loop.

        What is seen in the steady window, and never less than the busiest unit needs for an
        iteration.
        """
        if not self.iterations:
            return 0.0
        observed = observed_cycles(self.marks, self.iterations, self._loop_end)
        return max(observed, *busy_cycles(self.programs, self.machine).values())

    def _loop_end(self) -> int:
        """When the last wave has left the loop and the last MFMA of the loop has finished."""
        last_mfma = max(
            (
                event.done
                for event in self.events
                if 0 <= event.iteration < self.iterations
                and self.instruction(event).kind is Kind.MFMA
            ),
            default=0,
        )
        return max(last_mfma, *(mark[-1] for mark in self.marks))

    def matrix_efficiency(self) -> tuple[float, ...]:
        """Per SIMD: matrix-unit busy cycles over all cycles of the run."""
        busy = [0] * self.machine.simds.value
        instructions = self._instructions()
        for (wave, position), count in Counter(map(itemgetter(0, 1), self.events)).items():
            cycles = instructions[wave][position].matrix_cycles
            busy[self.programs[wave].simd] += count * cycles
        return tuple(cycles / self.total_cycles if self.total_cycles else 0.0 for cycles in busy)

    def steady_matrix_efficiency(self) -> tuple[float, ...]:
        """Per SIMD: matrix-unit busy cycles over loop cycles, in the steady state."""
        period = self.steady_cycles_per_iteration
        busy = self._busy_by_simd()
        return tuple(cycles / period if period else 0.0 for cycles in busy)

    @property
    def tflops(self) -> float:
        """Of the matrix units, if every compute unit did what this one does, at a sustained clock.

        In the steady loop, or of the whole run where no loop ran.
        """
        looped = bool(self.iterations) and self.steady_cycles_per_iteration > 0
        cycles = self.steady_cycles_per_iteration if looped else self.total_cycles
        flops = sum(
            one.matrix_op.flops
            for program in self.programs
            for one in (program.loop if looped else (*program.prologue, *program.epilogue))
            if one.matrix_op is not None
        )
        rate = self.machine.clock_sustained_ghz.value * self.machine.cus.value
        return flops / cycles * rate / 1e3 if cycles else 0.0

    def utilisation(self) -> dict[str, float]:
        """Share of the steady loop for which each unit is busy; the busiest SIMD counts."""
        period = self.steady_cycles_per_iteration
        if not period:
            return {}
        return {
            unit: busy / period for unit, busy in busy_cycles(self.programs, self.machine).items()
        }

    def _busy_by_simd(self) -> list[int]:
        busy = [0] * self.machine.simds.value
        for program in self.programs:
            busy[program.simd] += sum(one.matrix_cycles for one in program.loop)
        return busy

    def limiting_unit(self) -> str:
        """The busiest unit of the steady loop; below 90 % busy, what the waves wait for instead.

        The dominant stall leaves out the matrix unit and the barriers: the first is useful work,
        and at a barrier a wave waits for whatever holds up another. Where no other stall is left,
        the answer is what takes most of the waves' time: "matrix", "barriers", or "issue", the
        one instruction at a time that a wave can issue.
        """
        shares = self.utilisation()
        if not shares:
            return "none"
        unit = max(shares, key=lambda name: shares[name])
        if shares[unit] >= 0.9:
            return unit
        totals: dict[Cause, int] = {}
        matrix = barriers = issue = 0
        first, last = self.steady_window
        for event in self.events:
            if not first <= event.iteration < last:
                continue
            if self.instruction(event).kind is Kind.BARRIER:
                barriers += event.free - event.ready
                continue
            issue += event.free - event.start
            if event.cause is Cause.MATRIX_UNIT:
                matrix += event.stall
            elif event.start > event.ready:
                totals[event.cause] = totals.get(event.cause, 0) + event.stall
        if totals:
            worst = max(totals, key=lambda cause: (totals[cause], -cause))
            return f"waiting: {worst.text}"
        spent = {"issue": issue, "barriers": barriers, "matrix": matrix}
        return max(spent, key=lambda name: spent[name])

    def stall_table(self) -> tuple[StallRow, ...]:
        """Stalls at every wait and barrier, and wherever else a wave lost time, worst first.

        Waits and barriers are listed even if they cost nothing. Loop points are per iteration of
        the steady window; prologue and epilogue points are totals. Waves are matched by position,
        which is sound for the waves of one kernel.
        """
        first, last = self.steady_window
        spent: dict[tuple[LoopPhase, int], list[float]] = {}
        causes: dict[tuple[LoopPhase, int], dict[Cause, int]] = {}
        sources: dict[tuple[LoopPhase, int], dict[str, int]] = {}
        labels: dict[tuple[LoopPhase, int], str] = {}
        instructions = self._instructions()
        for event in self.events:
            instruction = instructions[event.wave][event.position]
            if event.start == event.ready and instruction.kind not in (Kind.WAIT, Kind.BARRIER):
                continue
            phase = self.phase(event)
            if phase is LoopPhase.LOOP and not first <= event.iteration < last:
                continue
            key = (phase, self._position_in_phase(event, phase))
            weight = 1.0 / (last - first) if phase is LoopPhase.LOOP else 1.0
            row = spent.setdefault(key, [0.0] * len(self.programs))
            row[event.wave] += event.stall * weight
            labels.setdefault(key, instruction.label)
            if event.stall:
                by_cause = causes.setdefault(key, {})
                by_cause[event.cause] = by_cause.get(event.cause, 0) + event.stall
                if event.source >= 0:
                    source = self.events[event.source]
                    name = instructions[source.wave][source.position].label
                    if event.cause is Cause.OTHER_WAVE:
                        name = f"wave {source.wave}"
                    by_source = sources.setdefault(key, {})
                    by_source[name] = by_source.get(name, 0) + event.stall
        rows = [
            StallRow(
                phase=key[0],
                position=key[1],
                label=labels[key],
                cycles=tuple(round(cycles, 2) for cycles in spent[key]),
                cause=_heaviest(causes.get(key, {}), Cause.NONE),
                waited_for=_heaviest(sources.get(key, {}), ""),
            )
            for key in spent
        ]
        order = list(LoopPhase)
        return tuple(sorted(rows, key=lambda r: (-r.mean, order.index(r.phase), r.position)))

    def _position_in_phase(self, event: Event, phase: LoopPhase) -> int:
        program = self.programs[event.wave]
        position = event.position
        if phase is not LoopPhase.PROLOGUE:
            position -= len(program.prologue)
        if phase is LoopPhase.EPILOGUE:
            position -= len(program.loop)
        return position

    def summary(self) -> dict[str, Any]:
        """The figures of a run as plain data, for tables and JSON."""
        return {
            "arch": self.machine.arch,
            "waves": len(self.programs),
            "iterations": self.iterations,
            "total_cycles": self.total_cycles,
            "prologue_cycles": self.prologue_cycles,
            "epilogue_cycles": self.epilogue_cycles,
            "steady_cycles_per_iteration": round(self.steady_cycles_per_iteration, 2),
            "steady_matrix_efficiency": [round(e, 4) for e in self.steady_matrix_efficiency()],
            "matrix_efficiency": [round(e, 4) for e in self.matrix_efficiency()],
            "utilisation": {name: round(share, 4) for name, share in self.utilisation().items()},
            "limiting_unit": self.limiting_unit(),
        }


def _heaviest(weights: dict[K, int], default: K) -> K:
    """The key of the largest weight; the first seen wins a tie, so the result is stable."""
    return max(weights, key=lambda key: weights[key]) if weights else default
