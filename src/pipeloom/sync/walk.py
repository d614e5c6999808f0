"""Runs of a script for chosen trip counts: every event of every group, and the gaps on the way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil

from pipeloom.program import Work
from pipeloom.sync.script import Doing, Scripts

FEWEST = 4
"""Trip counts examined of each loop at least: every kind of neighbourhood. The proof does all."""


@dataclass(frozen=True, slots=True)
class Event:
    """One execution of a work step: where it stands, and the iteration that it serves."""

    work: Work
    row: int
    gap: int
    trip: int
    iteration: int | None


@dataclass(frozen=True, slots=True)
class Walk:
    """What one group passes in one run.

    ``course`` lists the gaps in order, each with the event (or -1) and the barrier that stays (1 or
    0) behind it.
    """

    group: int
    events: tuple[Event, ...]
    course: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """All groups, for given trip counts; ``iterations`` is how many the kernel then computes."""

    trips: tuple[tuple[str, int], ...]
    walks: tuple[Walk, ...]
    iterations: int

    def event(self, who: tuple[int, int]) -> Event:
        """An event by group and number."""
        return self.walks[who[0]].events[who[1]]


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
    return [_run(scripts, dict(zip(names, values, strict=True))) for values in product(*choices)]


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


def _run(scripts: Scripts, trips: dict[str, int]) -> Run:
    walks = tuple(_walk(scripts, group, trips) for group in range(len(scripts.program.groups)))
    return Run(tuple(trips.items()), walks, scripts.program.iterations.at(trips))


def _walk(scripts: Scripts, group: int, trips: dict[str, int]) -> Walk:
    events: list[Event] = []
    course: list[tuple[int, int, int]] = []
    s = scripts.script_of[group]
    for row, found in enumerate(scripts.scripts[s].rows):
        for trip, base in found.section.passes(trips):
            for gap, item in zip(scripts.gaps(s, row), (*found.items, None), strict=True):
                if isinstance(item, Doing):
                    work = item.by_group[group]
                    course.append((gap, len(events), 0))
                    served = None if work.iteration is None else base + work.iteration
                    events.append(Event(work, row, gap, trip or 0, served))
                else:
                    course.append((gap, -1, int(item is not None and group in item.groups)))
    return Walk(group, tuple(events), tuple(course))
