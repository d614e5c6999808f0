"""Waits for a program whose barriers stand already, in one pass over a few of its runs.

``synchronize`` finds barriers too, for any order, and tries every wait until none can be loosened;
at the size of single instructions that takes minutes. An order from a timetable has its barriers,
and what must have retired where follows from counting:

    register      filled by x, used by y       x retired at y: no more entries outstanding than were
                                               issued since x
    LDS           filled by x, read by y, or   x retired, in every wave, at the last barrier before
                  read by x, overwritten by y  y

Demands within a loop are met in the loop, by what its steady trips need; what comes from before a
loop is awaited before it. Whatever comes out is proved by the verifier, or not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipeloom.errors import OrderError
from pipeloom.program.program import Group, Program
from pipeloom.program.resources import Space
from pipeloom.program.steps import Barrier, Step, Wait, Work

Position = tuple[int, int, int]
"""Group, section, slot."""
Needs = dict[Position, dict[str, int]]
"""The count of each counter that a wait before a step has."""
Groups = tuple[Group, ...]
Copy = tuple[str, int]
"""A resource, and which copy of it."""


@dataclass(slots=True)
class _Accesses:
    """The copies that a step touches: of LDS, and of registers, those it fills by a counter."""

    lds_reads: list[Copy] = field(default_factory=list)
    lds_writes: list[Copy] = field(default_factory=list)
    reads: list[Copy] = field(default_factory=list)
    writes: list[Copy] = field(default_factory=list)


Touched = dict[int, _Accesses]
"""By the ``id`` of the step."""


def with_waits(program: Program) -> Program:
    """``program`` with the waits that its barriers and its registers need.

    Raises ``OrderError`` where its barriers are too few.
    """
    limits = {c.name: c.limit.value for c in program.target.counters}
    needs: Needs = {}
    touched: Touched = {}
    runs = [_Run(program, trips, touched) for trips in (4, 3, 2, 1, 0)]
    kept = _kept_barriers(runs)
    for inside in (True, False):
        for run in runs:
            run.meet(needs, limits, inside)
    return program.with_groups(_written(program.groups, needs, kept), program.provenance)


def _kept_barriers(runs: Sequence[_Run]) -> set[Position]:
    """All but the barriers outside of loops at which nothing has to have retired.

    Those at which all groups meet go together, and stay if one stands in a loop. Without the others
    every demand stands where it stood: at a barrier that is kept.
    """
    meetings = [meeting for run in runs for meeting in run.meetings()]
    kept = {gate for gates, needed in meetings for gate in gates if needed}
    while True:
        more = {g for gates, _ in meetings if kept & set(gates) for g in gates} - kept
        if not more:
            return kept
        kept |= more


@dataclass(slots=True)
class _Event:
    """One step of one run; ``issued`` counts the entries of its group up to it, itself included."""

    position: Position
    step: Step
    iteration: int | None
    barriers: int
    issued: dict[str, int]
    conditional: str | None = None
    """The counter that it adds to or not, as a condition decides."""
    due: list[_Event] = field(default_factory=list)
    """What must have retired before it."""

    @property
    def section(self) -> int:
        return self.position[1]


class _Run:
    """One run: the events of every group, in order, and what each must wait for."""

    def __init__(self, program: Program, trips: int, touched: Touched) -> None:
        self._program, self._touched = program, touched
        self._spaces = {r.name: r.space for r in program.resources}
        self._copies = {r.name: r.copies for r in program.resources}
        self._loops = [s.trips is not None for s in program.groups[0].sections]
        self._walks = [self._walk(n, g, trips) for n, g in enumerate(program.groups)]
        self._gates = [[e for e in w if isinstance(e.step, Barrier)] for w in self._walks]
        self._find_in_lds()
        for walk in self._walks:
            self._find_in_registers(walk)

    def _walk(self, number: int, group: Group, trips: int) -> list[_Event]:
        found: list[_Event] = []
        issued: dict[str, int] = {}
        barriers = 0
        for at, section in enumerate(group.sections):
            places = [(number, at, slot) for slot in range(len(section.steps) + 1)]
            for trip in range(trips if section.trips else 1):
                first = section.first.at({t.name: trips for t in self._program.trips})
                first += trip * section.advance
                for place, step in zip(places, section.steps, strict=False):
                    iteration, conditional = None, None
                    if isinstance(step, Work):
                        if step.iteration is not None:
                            iteration = first + step.iteration
                        counter = step.counter
                        if counter is not None:
                            count = issued.get(counter, 0) + step.sure_entries
                            issued = {**issued, counter: count}
                            conditional = None if step.when is None else counter
                    event = _Event(place, step, iteration, barriers, issued, conditional)
                    found.append(event)
                    barriers += isinstance(step, Barrier)
            found.append(_Event(places[-1], Wait("", 0), None, barriers, issued))
        return found

    def _accesses(self, step: Step) -> _Accesses:
        """Those of resources; memory is none."""
        found = self._touched.get(id(step))
        if found is None:
            found = self._touched[id(step)] = _Accesses()
            if isinstance(step, Work):
                reads, writes = (*step.reads, *step.accumulates), (*step.writes, *step.accumulates)
                for touched, lds, registers in (
                    (reads, found.lds_reads, found.reads),
                    (writes, found.lds_writes, found.writes if step.counter else []),
                ):
                    for access in touched:
                        space = self._spaces.get(access.resource)
                        if space is not None:
                            chosen = lds if space is Space.LDS else registers
                            chosen.append((access.resource, access.copy))
        return found

    def _find_in_lds(self) -> None:
        """Note at barriers what of LDS must be filled, or read, before they let anyone pass."""
        filled: dict[tuple[Copy, int | None], list[_Event]] = {}
        read: dict[tuple[Copy, int | None], list[_Event]] = {}
        touching: list[tuple[_Event, _Accesses]] = []
        for walk in self._walks:
            for event in walk:
                accesses = self._accesses(event.step)
                if accesses.lds_reads or accesses.lds_writes:
                    touching.append((event, accesses))
                    for copy in accesses.lds_reads:
                        read.setdefault((copy, event.iteration), []).append(event)
                    for copy in accesses.lds_writes:
                        filled.setdefault((copy, event.iteration), []).append(event)
        asked: set[tuple[bool, Copy, int | None, int]] = set()
        for event, accesses in touching:
            i = event.iteration
            sides = [(False, copy, i) for copy in accesses.lds_reads]
            for copy in accesses.lds_writes:
                again = None if i is None else i - self._copies[copy[0]]
                sides.append((again is not None, copy, again))
            for overwrites, copy, at in sides:
                # All that stand between the same two barriers ask for the same.
                if (overwrites, copy, at, event.barriers) not in asked:
                    asked.add((overwrites, copy, at, event.barriers))
                    for first in (read if overwrites else filled).get((copy, at), ()):
                        self._through_barrier(first, event)

    def _find_in_registers(self, walk: Sequence[_Event]) -> None:
        """Note at the first use of a register what has to have filled it; later ones find it done,
        unless something under a condition stands between."""
        pending: dict[Copy, list[_Event]] = {}
        fresh: set[Copy] = set()
        for event in walk:
            accesses = self._accesses(event.step)
            for copy in accesses.reads:
                if copy in fresh:
                    fresh.discard(copy)
                    event.due += pending[copy]
            for copy in accesses.writes:
                kept = [e for e in pending.get(copy, ()) if e.iteration == event.iteration]
                pending[copy] = [*kept, event]
                fresh.add(copy)
            if event.conditional:
                fresh.update(pending)

    def meetings(self) -> Iterator[tuple[tuple[Position, ...], bool]]:
        """Where the groups meet, barrier by barrier, and whether that one has to stay."""
        for gates in zip(*self._gates, strict=True):
            needed = any(gate.due or self._loops[gate.section] for gate in gates)
            yield tuple(gate.position for gate in gates), needed

    def _through_barrier(self, first: _Event, second: _Event) -> None:
        if second.barriers <= first.barriers:
            assert isinstance(first.step, Work)
            assert isinstance(second.step, Work)
            raise OrderError(
                f"no barrier stands between {first.step.label} and {second.step.label}",
                hint="more barriers, or an earlier start",
            )
        gate = self._gates[first.position[0]][second.barriers - 1]
        gate.due.append(first)

    def meet(self, needs: Needs, limits: dict[str, int], inside: bool) -> None:
        """Tighten waits until every demand is met; only those ``inside`` of loops, or all."""
        for walk in self._walks:
            done: dict[str, int] = {}
            for event in walk:
                if not event.due and event.position not in needs and not event.conditional:
                    continue
                self._apply(event, needs, done)
                wanted: dict[str, tuple[int, int]] = {}
                for first in event.due:
                    work = first.step
                    assert isinstance(work, Work)
                    if work.counter is None or first.issued[work.counter] <= done.get(
                        work.counter, 0
                    ):
                        continue
                    within = first.section == event.section and self._loops[event.section]
                    if inside and not within:
                        continue
                    index = first.issued[work.counter]
                    if index > wanted.get(work.counter, (-1, 0))[0]:
                        wanted[work.counter] = (index, first.section)
                for counter, (index, section) in wanted.items():
                    at = event
                    if not inside and self._loops[event.section] and section != event.section:
                        at = next(
                            e
                            for e in walk
                            if e.section == event.section - 1 and isinstance(e.step, Wait)
                        )
                    before = at.issued.get(counter, 0)
                    if isinstance(at.step, Work) and at.step.counter == counter:
                        before -= at.step.sure_entries
                    count = min(before - index, limits[counter] - 1)
                    mine = needs.setdefault(at.position, {})
                    mine[counter] = min(count, mine.get(counter, count))
                    done[counter] = max(done.get(counter, 0), index)
                if event.conditional:  # adds nothing that is sure, and is not done for all that
                    least = event.issued[event.conditional] - 1
                    done[event.conditional] = min(done.get(event.conditional, 0), least)

    @staticmethod
    def _apply(event: _Event, needs: Needs, done: dict[str, int]) -> None:
        for counter, count in needs.get(event.position, {}).items():
            issued = event.issued.get(counter, 0)
            if isinstance(event.step, Work) and event.step.counter == counter:
                issued -= event.step.sure_entries
            done[counter] = max(done.get(counter, 0), issued - count)


def _written(groups: Groups, needs: Needs, kept: set[Position]) -> Groups:
    """The groups with their waits, and of barriers those that are ``kept``."""
    made = []
    for number, group in enumerate(groups):
        sections = []
        for at, section in enumerate(group.sections):
            slots: list[tuple[Step | None, dict[str, int]]] = [
                (step, needs.get((number, at, slot), {}))
                for slot, step in enumerate(section.steps)
                if not isinstance(step, Barrier) or (number, at, slot) in kept
            ]
            slots.append((None, needs.get((number, at, len(section.steps)), {})))
            sections.append(replace(section, steps=_woven(slots)))
        made.append(Group(group.waves, tuple(sections)))
    return tuple(made)


def _woven(slots: Sequence[tuple[Step | None, dict[str, int]]]) -> tuple[Step, ...]:
    """Steps with their waits. Those of a barrier stand before the product in front of it, which
    adds nothing to a counter: there they cost no time."""
    found: list[Step] = []
    for step, counts in slots:
        waits = [Wait(counter, count) for counter, count in sorted(counts.items())]
        at = len(found)
        before = found[-1] if found else None
        if isinstance(step, Barrier) and isinstance(before, Work) and before.counter is None:
            at -= 1
        found[at:at] = waits
        found += [] if step is None else [step]
    return tuple(found)
