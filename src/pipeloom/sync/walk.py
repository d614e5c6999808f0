"""Runs of a script for chosen trip counts: every event of every group, and the gaps on the way.

Events of a run are numbered through, group after group. A group passes one position after the
other: every gap of its rows, trip by trip, with the event (if any) that stands behind it.

What a counter counts is a queue: entries come and retire in order. Queues are the target's, by
name; nothing here knows which there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import ceil
from typing import NamedTuple

from pipeloom.program import Work
from pipeloom.sync.script import Doing, Scripts

FEWEST = 4
"""Trip counts examined of each loop at least: every kind of neighbourhood. The proof does all."""


class Execution(NamedTuple):
    """One execution of a work step: where it stands, and the iteration that it serves."""

    work: Work
    row: int
    gap: int
    trip: int
    iteration: int | None


@dataclass(slots=True)
class Queue:
    """What one counter counts in a walk: by place in the queue, the entries issued up to there, the
    position and the event.

    A predicated step may be skipped, so its entries are never counted on.
    """

    totals: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)

    def add(self, entries: int, position: int, event: int) -> None:
        """One more event."""
        self.totals.append(entries + (self.totals[-1] if self.totals else 0))
        self.positions.append(position)
        self.events.append(event)

    def since(self, place: int, position: int) -> int:
        """Entries that were issued behind a place of the queue, before ``position``."""
        before = bisect_left(self.positions, position)
        return self.totals[before - 1] - self.totals[place]

    def retired(self, done: int, position: int, count: int) -> int:
        """How many places have retired behind a wait for ``count``, ``done`` of them before it."""
        before = bisect_left(self.positions, position)
        if before <= done:
            return done
        return bisect_right(self.totals, self.totals[before - 1] - count, done, before)


class Walk:
    """What one group passes in one run, whatever its synchronisation.

    ``starts`` are the passes of each row: its first position and the first event of it or behind
    it. ``kept`` are the barriers that stay: position, gap, and the event that follows.
    """

    def __init__(self, scripts: Scripts, group: int, first: int) -> None:
        self.group = group
        self.events = range(first, first)
        self.starts: dict[int, list[tuple[int, int]]] = {}
        self.kept: list[tuple[int, int, int]] = []
        self.queues = {c.name: Queue() for c in scripts.program.target.counters}
        self._scripts = scripts

    def passes(self, gap: int) -> Iterator[tuple[int, int]]:
        """Where a gap is passed: the positions, each with the event that follows."""
        scripts = self._scripts
        s, r, p = scripts.places[gap]
        if s == scripts.script_of[self.group]:
            for position, event in self.starts.get(r, ()):
                yield position + p, event + scripts.work_before[gap]


class Gate(NamedTuple):
    """A barrier on a group's way: the slot for a wait before it, and the event that follows."""

    position: int
    slot: int
    follows: int


class Gates:
    """The barriers that every group of a run passes. An *epoch* is how many it has passed."""

    def __init__(self, walks: Sequence[Walk], barriers: Mapping[int, int]) -> None:
        self.by_group = [self._of(walk, barriers) for walk in walks]
        self.issue_epoch: list[int] = []
        for walk, gates in zip(walks, self.by_group, strict=True):
            ends = [walk.events.start, *(gate.follows for gate in gates), walk.events.stop]
            for epoch, (start, stop) in enumerate(pairwise(ends)):
                self.issue_epoch += [epoch] * (stop - start)

    @staticmethod
    def _of(walk: Walk, barriers: Mapping[int, int]) -> list[Gate]:
        found = [Gate(position, 2 * gap + 1, follows) for position, gap, follows in walk.kept]
        for gap, count in barriers.items():
            for position, follows in walk.passes(gap):
                found += [Gate(position, 2 * gap, follows)] * count
        return sorted(found)

    def epoch(self, group: int, position: int, slot: int) -> int:
        """Barriers passed at a wait."""
        return bisect_left(self.by_group[group], (position, slot))


Passes = dict[tuple[int, int, int | None, int], list[Execution]]
"""The events of a pass, which runs share: by group, row, trip and first iteration."""


class Run:
    """All groups, for given trip counts; ``iterations`` is how many the kernel then computes.

    By event: itself, its group, its position, its place in the queue that counts it (or -1).
    """

    def __init__(self, scripts: Scripts, trips: dict[str, int], passes: Passes) -> None:
        self.trips = trips
        self.iterations = scripts.program.iterations.at(trips)
        self.events: list[Execution] = []
        self.groups: list[int] = []
        self.issue: list[int] = []
        self.places: list[int] = []
        self.walks = [
            self._walk(scripts, group, passes) for group in range(len(scripts.program.groups))
        ]
        self._gates: tuple[dict[int, int], Gates] | None = None

    def _walk(self, scripts: Scripts, group: int, passes: Passes) -> Walk:
        walk = Walk(scripts, group, len(self.events))
        s, position = scripts.script_of[group], 0
        for r, row in enumerate(scripts.scripts[s].rows):
            gaps, kept = scripts.gaps(s, r), scripts.kept(group, r)
            for trip, base in row.section.passes(self.trips):
                first = len(self.events)
                walk.starts.setdefault(r, []).append((position, first))
                for gap in kept:
                    follows = first + scripts.work_before[gap]
                    walk.kept.append((position + gap - gaps[0], gap, follows))
                found = passes.get((group, r, trip, base))
                if found is None:
                    found = passes[group, r, trip, base] = [
                        Execution(work, r, gap, trip or 0, _plus(base, work.iteration))
                        for gap, work in scripts.works(group, r)
                    ]
                self.events += found
                self.issue += [position + event.gap - gaps[0] for event in found]
                self.places += [-1] * len(found)
                for number, event in enumerate(found, first):
                    if event.work.counter is not None:
                        queue = walk.queues[event.work.counter]
                        self.places[number] = len(queue.totals)
                        queue.add(event.work.sure_entries, self.issue[number], number)
                position += len(gaps)
        walk.events = range(walk.events.start, len(self.events))
        self.groups += [group] * len(walk.events)
        return walk

    def gates(self, barriers: Mapping[int, int]) -> Gates:
        """Its barriers, with those added; kept, since many waits are tried with the same."""
        if self._gates is None or self._gates[0] != barriers:
            self._gates = dict(barriers), Gates(self.walks, barriers)
        return self._gates[1]

    def walk(self, event: int) -> Walk:
        """Whose event it is."""
        return self.walks[self.groups[event]]

    def queue(self, event: int) -> Queue | None:
        """What counts an event, if anything does."""
        counter = self.events[event].work.counter
        return None if counter is None else self.walk(event).queues[counter]


def sample_runs(scripts: Scripts) -> list[Run]:
    """Runs that show every kind of neighbourhood, short ones first."""
    program = scripts.program
    deepest = max(FEWEST, _span(scripts) + 3)
    choices = [
        range(count.least, count.least + deepest)
        if len(program.trips) < 3
        else (count.least, count.least + 1, count.least + deepest - 1)
        for count in program.trips
    ]
    names = [count.name for count in program.trips]
    passes: Passes = {}
    return [Run(scripts, dict(zip(names, at, strict=True)), passes) for at in product(*choices)]


def _plus(base: int, iteration: int | None) -> int | None:
    return None if iteration is None else base + iteration


def _span(scripts: Scripts) -> int:
    """How many trips apart two steps of a loop can serve the same iteration."""
    widest = 0
    loops = zip(*([row for row in s.rows if row.loops] for s in scripts.scripts), strict=True)
    for rows in loops:
        served = [
            item.work.iteration
            for row in rows
            for item in row.items
            if isinstance(item, Doing) and item.work.iteration is not None
        ]
        if served:
            advance = max(1, min(row.section.advance for row in rows))
            widest = max(widest, ceil((max(served) - min(served)) / advance))
    return widest
