"""A trace by steps of the program instead of instructions.

A step becomes several instructions: a read of a fragment is eight ``ds_read``, a product sixteen
MFMAs. A person thinks in steps, so pictures show *segments*: what one wave issued for one step.

    for segment in segments(trace):
        print(segment.wave, segment.label, segment.start, segment.done)

``retired_by`` answers which memory operations a wait was for, whether or not it had to stall.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeloom.judge.simulate.instruction import (
    GLOBAL_KINDS,
    LDS_KINDS,
    VALU_KINDS,
    Kind,
    Track,
)
from pipeloom.judge.simulate.trace import Cause, Event, LoopPhase, Trace

LOOP_OVERHEAD = "loop counter and branch"
SETUP = "setup: addresses, accumulators"
CONVERSION = "conversion of C"
STORE = "store of C"
_OWN = {LoopPhase.PROLOGUE: SETUP, LoopPhase.LOOP: LOOP_OVERHEAD, LoopPhase.EPILOGUE: CONVERSION}
_ARITHMETIC = (Kind.SALU, Kind.BRANCH, *VALU_KINDS, Kind.NOP)
_NAMES = {
    Track.MATRIX: "mma",
    Track.VALU: "vector",
    Track.LDS: "lds",
    Track.GLOBAL: "global",
    Track.SCALAR: "scalar",
}


class Rows(Protocol):
    """What a trace's instructions lead back to: rows of a schedule, or of a disassembly."""

    def find(self, wave: int, section: str, entry: int) -> int | None:
        """The number of a row."""

    def label(self, number: int) -> str:
        """What stands there."""

    def name(self, number: int) -> str:
        """Where that is."""

    def group(self, wave: int) -> int:
        """Which waves a wave belongs to."""


class InstructionRows:
    """Rows of instructions that are no program's: by number in the code, a place and a text."""

    def __init__(self, groups: Sequence[int], rows: Mapping[int, tuple[str, str]]) -> None:
        self.groups, self._rows = groups, tuple(rows.values())
        self.numbers = {entry: number for number, entry in enumerate(rows)}

    def find(self, wave: int, section: str, entry: int) -> int | None:
        """The row of an instruction."""
        return self.numbers.get(entry)

    def label(self, number: int) -> str:
        """The instruction."""
        return self._rows[number][1]

    def name(self, number: int) -> str:
        """Its place."""
        return self._rows[number][0]

    def group(self, wave: int) -> int:
        """Waves on the same path are a group."""
        return self.groups[wave]


@dataclass(frozen=True, slots=True)
class Segment:
    """The instructions one wave issued for one step, in one trip.

    ``ready``, ``start``, ``free`` and ``done`` are those of its first and last instruction, as in
    ``Event``; ``events`` are indices in ``Trace.events``. ``section`` and ``entry`` name the step;
    ``entry`` is ``None`` for what no step asks for, as the loop counter.
    """

    wave: int
    phase: LoopPhase
    section: str
    entry: int | None
    iteration: int
    label: str
    unit: Track
    ready: int
    start: int
    free: int
    done: int
    stall: int
    cause: Cause
    source: int
    events: tuple[int, ...]


def shares(
    start: float, stop: float, begin: float, step: float, count: int
) -> Iterator[tuple[int, float]]:
    """The buckets of ``step`` cycles from ``begin`` on that a span meets, and how much of each."""
    low, high = max(start, begin), min(stop, begin + count * step)
    for bucket in range(int((low - begin) / step), count if low < high else 0):
        left = begin + bucket * step
        if left >= high:
            return
        yield bucket, min(high, left + step) - max(low, left)


def segments(trace: Trace) -> tuple[Segment, ...]:
    """Every segment, wave by wave, in program order."""
    return tuple(
        _segment(trace, run)
        for wave in range(len(trace.programs))
        for run in _runs(trace, [n for n, e in enumerate(trace.events) if e.wave == wave])
    )


def drawn_as(trace: Trace, segment: Segment) -> str:
    """Which of the kinds of bar in a picture it is: a unit's, ``wait`` or ``barrier``."""
    if segment.unit is not Track.SYNC:
        return _NAMES[segment.unit]
    last = trace.instruction(trace.events[segment.events[-1]])
    return "barrier" if last.kind is Kind.BARRIER else "wait"


def matrix_end(trace: Trace, event: Event) -> int:
    """When the matrix unit is done with what an event gave it."""
    return event.start + trace.instruction(event).matrix_cycles


def segment_of_event(found: tuple[Segment, ...]) -> dict[int, int]:
    """Event index -> index of its segment."""
    return {event: number for number, segment in enumerate(found) for event in segment.events}


def _runs(trace: Trace, events: list[int]) -> Iterator[list[int]]:
    run: list[int] = []
    last: tuple[int, str, int | None, str] | None = None
    for number in events:
        event = trace.events[number]
        instruction = trace.instruction(event)
        own = "" if instruction.entry is not None else _own_label(trace, event)
        key = (event.iteration, instruction.section, instruction.entry, own)
        if run and key != last:
            yield run
            run = []
        run.append(number)
        last = key
    if run:
        yield run


def _own_label(trace: Trace, event: Event) -> str:
    """What to call an instruction that no step asks for, by what it is for."""
    instruction = trace.instruction(event)
    if instruction.kind is Kind.GLOBAL_STORE:
        return STORE
    is_arithmetic = instruction.kind in _ARITHMETIC
    return _OWN[trace.phase(event)] if is_arithmetic else instruction.label


def _segment(trace: Trace, run: list[int]) -> Segment:
    events = [trace.events[n] for n in run]
    first, last = events[0], events[-1]
    named = _namesake(trace, events)
    name = trace.instruction(named)
    worst = max(events, key=lambda e: e.stall)
    return Segment(
        wave=first.wave,
        phase=trace.phase(first),
        section=name.section,
        entry=name.entry,
        iteration=first.iteration,
        label=name.label if name.entry is not None else _own_label(trace, named),
        unit=name.unit,
        ready=first.ready,
        start=first.start,
        free=last.free,
        done=max(e.done for e in events),
        stall=sum(e.stall for e in events),
        cause=worst.cause if worst.stall else Cause.NONE,
        source=worst.source if worst.stall else -1,
        events=tuple(run),
    )


def _namesake(trace: Trace, events: list[Event]) -> Event:
    """The event that says what a run is: its last, past any address arithmetic and wait states."""
    for event in reversed(events):
        if trace.instruction(event).kind not in _ARITHMETIC:
            return event
    return events[-1]


def retired_by(trace: Trace) -> Mapping[int, tuple[int, ...]]:
    """Wait event -> the memory operations it is the first to guarantee, both as event indices.

    Counters retire in order: ``vmcnt(n)`` guarantees every global operation of its wave but the
    last n. An operation belongs to the first wait that guarantees it. Scalar loads count, but are
    left out.
    """
    found: dict[int, tuple[int, ...]] = {}
    pending: dict[int, tuple[list[int], list[int]]] = {}
    for number, event in enumerate(trace.events):
        vm, lgkm = pending.setdefault(event.wave, ([], []))
        instruction = trace.instruction(event)
        if instruction.kind in GLOBAL_KINDS:
            vm.append(number)
        elif instruction.kind in (*LDS_KINDS, Kind.SCALAR_LOAD):
            lgkm.append(number)
        elif instruction.kind is Kind.WAIT:
            retired = (*_retire(vm, instruction.vm), *_retire(lgkm, instruction.lgkm))
            found[number] = tuple(
                one
                for one in retired
                if trace.instruction(trace.events[one]).kind is not Kind.SCALAR_LOAD
            )
    return found


def _retire(pending: list[int], keep: int | None) -> list[int]:
    if keep is None or len(pending) <= keep:
        return []
    count = len(pending) - keep
    retired = pending[:count]
    del pending[:count]
    return retired


@dataclass(frozen=True, slots=True)
class StepStall:
    """Cycles that the waves stood at one step: per steady iteration in the loop, else in all.

    ``row`` is its number in the listing, ``None`` for what no step asks for; ``where`` names it
    (``loop[12]``). ``worst`` is the wave that stood longest, ``mean`` the mean over all waves.
    """

    phase: LoopPhase
    row: int | None
    where: str
    label: str
    mean: float
    worst: float
    cause: Cause
    waited_for: str


def stalls_by_step(trace: Trace, listing: Rows) -> tuple[StepStall, ...]:
    """Where the waves lost time, worst first; steps that cost nothing are left out.

    An MFMA behind another in the matrix unit is work, not lost time, and does not count.
    """
    first, last = trace.steady_window
    spent: dict[tuple[LoopPhase, int | None, str], dict[int, float]] = {}
    causes: dict[tuple[LoopPhase, int | None, str], dict[tuple[Cause, str], int]] = {}
    for event in trace.events:
        phase = trace.phase(event)
        outside = phase is LoopPhase.LOOP and not first <= event.iteration < last
        if outside or not event.stall or event.cause is Cause.MATRIX_UNIT:
            continue
        row = row_of(trace, listing, event)
        key = (phase, row, _own_label(trace, event) if row is None else listing.label(row))
        by_wave = spent.setdefault(key, {})
        weight = 1.0 / (last - first) if phase is LoopPhase.LOOP else 1.0
        by_wave[event.wave] = by_wave.get(event.wave, 0.0) + event.stall * weight
        reason = (event.cause, _source_name(trace, event))
        by_cause = causes.setdefault(key, {})
        by_cause[reason] = by_cause.get(reason, 0) + event.stall
    rows = []
    for (phase, row, label), by_wave in spent.items():
        by_cause = causes[phase, row, label]
        cause, waited_for = max(by_cause, key=lambda reason: by_cause[reason])
        mean = sum(by_wave.values()) / len(trace.programs)
        where = phase.value if row is None else listing.name(row)
        worst = max(by_wave.values())
        rows.append(StepStall(phase, row, where, label, mean, worst, cause, waited_for))
    order = list(LoopPhase)
    return tuple(
        sorted(rows, key=lambda r: (-r.mean, order.index(r.phase), -1 if r.row is None else r.row))
    )


def row_of(trace: Trace, listing: Rows, event: Event) -> int | None:
    """The row of the step that an event serves, if any."""
    instruction = trace.instruction(event)
    if instruction.entry is None:
        return None
    return listing.find(event.wave, instruction.section, instruction.entry)


def _source_name(trace: Trace, event: Event) -> str:
    if event.source < 0:
        return ""
    source = trace.events[event.source]
    if event.cause is Cause.OTHER_WAVE:
        return f"wave {source.wave}"
    return trace.instruction(source).label
