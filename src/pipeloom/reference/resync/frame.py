"""A schedule without its waits: data ops and barriers where they stand, and where waits may go.

Each phase is a row of *stops*: its data ops, its barriers, the stagger, and its end. Waits stand
before a stop. Fences keep their places: where old waits stood between the fences before a stop, the
new ones take their place; else they stand behind the fences of a barrier (no wait at a raised
priority) and in front of those of an op.

    entries    fence  wait_lgkm(0)  set_prio(1)  MMA
    stop       MMA, with the fence ahead of its waits and the set_prio behind them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.ops import OpDesc, OpRole, OpTag, Phase
from pipeloom.reference.resync.skeleton import Gap, Listing, Synchronisation, listed, waits_at

WAIT_TAGS = frozenset({int(OpTag.WAIT_VM), int(OpTag.WAIT_LGKM)})


@dataclass(frozen=True, slots=True)
class Stop:
    """A data op or barrier; without an ``entry``, the stagger or the end of the phase."""

    entry: ScheduleEntry | None
    ahead: tuple[ScheduleEntry, ...] = ()
    behind: tuple[ScheduleEntry, ...] = ()

    @property
    def is_barrier(self) -> bool:
        """Whether it is a barrier of the schedule (not the stagger)."""
        return self.entry is not None and self.entry.op.tag == OpTag.BARRIER

    @property
    def role(self) -> OpRole | None:
        """The role of its data op; ``None`` for barriers, the stagger and the end."""
        return None if self.entry is None or self.is_barrier else self.entry.op.role


@dataclass(frozen=True, slots=True)
class Frame:
    """The stops of each phase; the last one of a phase is its end."""

    compiled: CompiledSchedule
    stops: dict[Phase, tuple[Stop, ...]]
    stagger: int | None
    """The prologue stop that is the stagger; ``None`` without one."""

    @classmethod
    def of(cls, compiled: CompiledSchedule) -> Frame:
        """Strip the waits."""
        stops = {phase: _stops(compiled.phase(phase)) for phase in Phase}
        at = compiled.warp_stagger_index
        if at > len(compiled.prologue):
            return cls(compiled, stops, None)
        head, tail = _stops(compiled.prologue[:at]), _stops(compiled.prologue[at:])
        stops[Phase.PROLOGUE] = head + tail
        return cls(compiled, stops, len(head) - 1)

    def end(self, phase: Phase) -> int:
        """The number of the stop that ends a phase."""
        return len(self.stops[phase]) - 1

    def with_barrier(self, gap: Gap) -> Frame:
        """One more barrier, directly before a stop; that stop's fences stay with it."""
        phase, number = gap
        row = self.stops[phase]
        barrier = Stop(ScheduleEntry(OpDesc.barrier(), -1, phase))
        stagger = self.stagger
        if phase is Phase.PROLOGUE and stagger is not None and number <= stagger:
            stagger += 1
        stops = {**self.stops, phase: (*row[:number], barrier, *row[number:])}
        return Frame(self.compiled, stops, stagger)

    def with_moves(self, moves: dict[Gap, int]) -> Frame:
        """Data ops put before other stops of their phase; the fences around them stay behind."""
        stops = dict(self.stops)
        stagger = self.stagger
        for phase in Phase:
            arriving: dict[int, list[ScheduleEntry | None]] = {}
            leaving = [number for where, number in sorted(moves) if where is phase]
            for number in leaving:
                entry = self.stops[phase][number].entry
                arriving.setdefault(moves[phase, number], []).append(entry)
            row: list[Stop] = []
            left: tuple[ScheduleEntry, ...] = ()
            for number, stop in enumerate(self.stops[phase]):
                stop = replace(stop, ahead=(*left, *stop.ahead))
                if number in arriving:
                    fences, stop = _opening(stop)
                    row.append(Stop(arriving[number][0], fences))
                    row.extend(Stop(entry) for entry in arriving[number][1:])
                left = (*stop.ahead, *stop.behind) if number in leaving else ()
                if number in leaving:
                    continue
                if phase is Phase.PROLOGUE and number == self.stagger:
                    stagger = len(row)
                row.append(stop)
            stops[phase] = tuple(row)
        return Frame(self.compiled, stops, stagger)


def _opening(stop: Stop) -> tuple[tuple[ScheduleEntry, ...], Stop]:
    """The fences that an op put before ``stop`` comes after, and the stop without them.

    Those of an MMA are its own (it runs at a raised priority); others open the section.
    """
    if stop.role is OpRole.COMPUTE:
        return (), stop
    return (*stop.ahead, *stop.behind), Stop(stop.entry)


def _stops(entries: Sequence[ScheduleEntry]) -> tuple[Stop, ...]:
    stops: list[Stop] = []
    ahead: list[ScheduleEntry] = []
    behind: list[ScheduleEntry] = []
    waited = False
    for entry in entries:
        if entry.op.tag in WAIT_TAGS:
            ahead, behind, waited = ahead + behind, [], True
        elif entry.op.is_framework and entry.op.tag != OpTag.BARRIER:
            behind.append(entry)
        else:
            if entry.op.tag == OpTag.BARRIER and not waited:
                ahead, behind = behind, []
            stops.append(Stop(entry, tuple(ahead), tuple(behind)))
            ahead, behind, waited = [], [], False
    return (*stops, Stop(None, tuple(ahead), tuple(behind)))


@dataclass(frozen=True, slots=True)
class Framed:
    """The schedule that a frame and its waits make; ``stop_of`` numbers the stop of each entry."""

    compiled: CompiledSchedule
    stop_of: dict[Phase, tuple[int, ...]]


def assemble_frame(frame: Frame, sync: Synchronisation) -> Framed:
    """The frame with the given waits; like ``assemble``, without block and dependence tables."""
    listings: dict[Phase, Listing] = {phase: [] for phase in Phase}
    stop_of: dict[Phase, tuple[int, ...]] = {}
    stagger_at = None
    for phase in Phase:
        out = listings[phase]
        numbers: list[int] = []
        for number, stop in enumerate(frame.stops[phase]):
            out.extend(stop.ahead)
            for before_barrier in (True, False):
                out.extend(waits_at(sync, (phase, number, before_barrier)))
            out.extend(stop.behind)
            if phase is Phase.PROLOGUE and number == frame.stagger:
                stagger_at = len(out)
            if stop.entry is not None:
                out.append(stop.entry)
            numbers.extend([number] * (len(out) - len(numbers)))
        stop_of[phase] = tuple(numbers)
    return Framed(listed(frame.compiled, listings, stagger_at), stop_of)
