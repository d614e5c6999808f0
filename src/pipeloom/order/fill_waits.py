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
from pipeloom.program.program import Group, Program, Section
from pipeloom.program.resources import Space
from pipeloom.program.steps import Barrier, Step, Wait, Work

Position = tuple[int, int, int]
"""Group, section, slot."""
Needs = dict[Position, dict[str, int]]
"""The count of each counter that a wait before a step has."""
Groups = tuple[Group, ...]
Touched = dict[int, tuple[tuple[str, int, Space, bool], ...]]
"""Resource, copy, space and whether it is written, for every access of a step, by its ``id``."""


def with_waits(program: Program) -> Program:
    """``program`` with the waits that its barriers and its registers need.

    Raises ``OrderError`` where its barriers are too few.
    """
    limits = {c.name: c.limit.value for c in program.target.counters}
    needs: Needs = {}
    runs = _runs(program, program.groups)
    groups = _spared(program.groups, runs)
    if groups != program.groups:
        runs = _runs(program, groups)
    for inside in (True, False):
        for run in runs:
            run.meet(needs, limits, inside)
    return program.with_groups(_written(groups, needs), program.provenance)


def _runs(program: Program, groups: Groups) -> list[_Run]:
    touched: Touched = {}
    runs = [_Run(program, groups, trips, touched) for trips in (4, 3, 2, 1, 0)]
    for run in runs:
        run.find()
    return runs


def _spared(groups: Groups, runs: Sequence[_Run]) -> Groups:
    """Without the barriers outside of loops at which nothing has to have retired.

    Those at which all groups meet go together, and stay if one stands in a loop.
    """
    meetings = [meeting for run in runs for meeting in run.meetings()]
    kept = {gate for gates, needed in meetings for gate in gates if needed}
    while True:
        more = {g for gates, _ in meetings if kept & set(gates) for g in gates} - kept
        if not more:
            break
        kept |= more

    def section(group: int, at: int, found: Section) -> Section:
        steps = tuple(
            step
            for slot, step in enumerate(found.steps)
            if not isinstance(step, Barrier) or (group, at, slot) in kept
        )
        return replace(found, steps=steps)

    return tuple(
        Group(g.waves, tuple(section(n, at, s) for at, s in enumerate(g.sections)))
        for n, g in enumerate(groups)
    )


@dataclass(slots=True)
class _Event:
    """One step of one run; ``issued`` counts the entries of its group up to it, itself included."""

    group: int
    section: int
    slot: int
    trip: int
    step: Step
    iteration: int | None
    barriers: int
    issued: dict[str, int]
    due: list[tuple[_Event, bool]] = field(default_factory=list)
    """What must have retired before it, and whether that was asked for by another step."""

    @property
    def position(self) -> Position:
        return self.group, self.section, self.slot


class _Run:
    """One run: the events of every group, in order, and what each must wait for."""

    def __init__(self, program: Program, groups: Groups, trips: int, touched: Touched) -> None:
        self._program, self._touched = program, touched
        self._spaces = {r.name: r.space for r in program.resources}
        self._copies = {r.name: r.copies for r in program.resources}
        self._loops = [s.trips is not None for s in groups[0].sections]
        self._walks = [self._walk(n, g, trips) for n, g in enumerate(groups)]
        self._gates = [[e for e in w if isinstance(e.step, Barrier)] for w in self._walks]

    def _walk(self, number: int, group: Group, trips: int) -> list[_Event]:
        found: list[_Event] = []
        issued: dict[str, int] = {}
        barriers = 0
        for at, section in enumerate(group.sections):
            for trip in range(trips if section.trips else 1):
                first = section.first.at({t.name: trips for t in self._program.trips})
                for slot, step in enumerate(section.steps):
                    iteration = None
                    if isinstance(step, Work):
                        if step.iteration is not None:
                            iteration = first + trip * section.advance + step.iteration
                        if step.counter is not None:
                            issued = {
                                **issued,
                                step.counter: issued.get(step.counter, 0) + step.sure_entries,
                            }
                    found.append(_Event(number, at, slot, trip, step, iteration, barriers, issued))
                    barriers += isinstance(step, Barrier)
            end = _Event(number, at, len(section.steps), 0, Wait("", 0), None, barriers, issued)
            found.append(end)
        return found

    def _accesses(self, step: Step) -> tuple[tuple[str, int, Space, bool], ...]:
        """Reads, then writes, of resources; memory is none."""
        found = self._touched.get(id(step))
        if found is None:
            touched = (
                ()
                if not isinstance(step, Work)
                else (
                    *((access, False) for access in (*step.reads, *step.accumulates)),
                    *((access, True) for access in (*step.writes, *step.accumulates)),
                )
            )
            found = self._touched[id(step)] = tuple(
                (access.resource, access.copy, space, writes)
                for access, writes in touched
                if (space := self._spaces.get(access.resource)) is not None
            )
        return found

    def find(self) -> None:
        """Note for every event what must have retired before it."""
        filled: dict[tuple[str, int, int | None], list[_Event]] = {}
        read: dict[tuple[str, int, int | None], list[_Event]] = {}
        for walk in self._walks:
            for event in walk:
                for resource, copy, space, writes in self._accesses(event.step):
                    if space is Space.LDS:
                        key = (resource, copy, event.iteration)
                        (filled if writes else read).setdefault(key, []).append(event)
        for walk in self._walks:
            pending: dict[tuple[str, int], list[_Event]] = {}
            for event in walk:
                i = event.iteration
                for resource, copy, space, writes in self._accesses(event.step):
                    if space is not Space.LDS:
                        self._register(event, (resource, copy), writes, pending)
                        continue
                    if writes and i is not None:
                        before = read.get((resource, copy, i - self._copies[resource]), [])
                    else:
                        before = filled.get((resource, copy, i), [])
                    for first in before:
                        self._through_barrier(first, event)

    def _register(
        self,
        event: _Event,
        place: tuple[str, int],
        writes: bool,
        pending: dict[tuple[str, int], list[_Event]],
    ) -> None:
        work = event.step
        assert isinstance(work, Work)
        if not writes:
            event.due += [(first, False) for first in pending.get(place, [])]
        elif work.counter is not None:
            kept = [e for e in pending.get(place, []) if e.iteration == event.iteration]
            pending[place] = [*kept, event]

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
        gate = self._gates[first.group][second.barriers - 1]
        gate.due.append((first, True))

    def meet(self, needs: Needs, limits: dict[str, int], inside: bool) -> None:
        """Tighten waits until every demand is met; only those ``inside`` of loops, or all."""
        for walk in self._walks:
            done: dict[str, int] = {}
            for event in walk:
                self._apply(event, needs, done)
                wanted: dict[str, tuple[int, int]] = {}
                for first, _ in event.due:
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
                self._reopen(event, done)

    @staticmethod
    def _reopen(event: _Event, done: dict[str, int]) -> None:
        """A step under a condition adds nothing that is sure, and is not done for all that."""
        step = event.step
        if isinstance(step, Work) and step.counter is not None and step.when is not None:
            issued = event.issued[step.counter]
            done[step.counter] = min(done.get(step.counter, 0), issued - 1)

    @staticmethod
    def _apply(event: _Event, needs: Needs, done: dict[str, int]) -> None:
        for counter, count in needs.get(event.position, {}).items():
            issued = event.issued.get(counter, 0)
            if isinstance(event.step, Work) and event.step.counter == counter:
                issued -= event.step.sure_entries
            done[counter] = max(done.get(counter, 0), issued - count)


def _written(groups: Groups, needs: Needs) -> Groups:
    made = []
    for number, group in enumerate(groups):
        sections = []
        for at, section in enumerate(group.sections):
            found = [needs.get((number, at, n), {}) for n in range(len(section.steps) + 1)]
            sections.append(replace(section, steps=_woven(section.steps, found)))
        made.append(Group(group.waves, tuple(sections)))
    return tuple(made)


def _woven(steps: tuple[Step, ...], needs: Sequence[dict[str, int]]) -> tuple[Step, ...]:
    """Steps with their waits. Those of a barrier stand before the product in front of it, which
    adds nothing to a counter: there they cost no time."""
    found: list[Step] = []
    for slot, counts in enumerate(needs):
        waits = [Wait(counter, count) for counter, count in sorted(counts.items())]
        step = steps[slot] if slot < len(steps) else None
        at = len(found)
        before = found[-1] if found else None
        if isinstance(step, Barrier) and isinstance(before, Work) and before.counter is None:
            at -= 1
        found[at:at] = waits
        found += [] if step is None else [step]
    return tuple(found)
