"""A program unrolled for given trip counts: what each wave does, line by line.

Which line retires which access is fixed here, because counters go by the order of issue alone.

When an access retires: the one thing a wave knows about its own memory traffic.

Each counted step adds its entries to a counter at issue; entries leave in issue order. ``wait(n)``
holds the wave until at most n entries are outstanding. That follows from the order of issue alone,
so for each wave it is fixed in advance which step retires which, whatever the latencies:

    load, 4 entries       outstanding 4
    load, 4 entries       outstanding 8
    wait(4)               retires the first load
    wait(3)               retires nothing: one entry of the second load has left, three have not

Latency decides only *when* between its issue and its retirement a step touches memory.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pipeloom.checks import check_int
from pipeloom.errors import ConfigError
from pipeloom.judge.execute.actions import Action, Storage
from pipeloom.judge.execute.outcome import StepAt
from pipeloom.program import Barrier, Group, Program, Wait, Work

T = TypeVar("T")


Trips = Mapping[str, int]


@dataclass(slots=True, eq=False)
class Line:
    """One step of one wave, once.

    ``event`` names the step of the group, the same in all of its waves: there are ``members`` of
    them, this is the ``local``-th. Equal shared writes of several groups are one event.
    ``before`` and ``after`` are the accesses that have retired when it issues, or when it has.
    ``last`` is the line at which it has retired itself: one past the end if never.
    """

    number: int
    place: StepAt
    data: Action | None
    is_barrier: bool
    counted: bool
    event: tuple[int, int]
    members: int
    local: int
    iteration: int
    before: list[Line] = field(default_factory=list)
    after: list[Line] = field(default_factory=list)
    last: int = 0

    @property
    def action(self) -> Action:
        """What a data step does; waits and barriers are never asked."""
        assert self.data is not None
        return self.data


@dataclass(frozen=True, slots=True, eq=False)
class WaveWalk:
    """All lines of a wave; ``left`` is what nothing retires."""

    lines: tuple[Line, ...]
    left: tuple[Line, ...]
    barriers: tuple[int, ...]


def trip_counts(program: Program, trips: Trips | int) -> dict[str, int]:
    """``trips`` by name; a single number goes for all."""
    names = {count.name: count.least for count in program.trips}
    given = dict.fromkeys(names, trips) if isinstance(trips, int) else dict(trips)
    if given.keys() != names.keys():
        raise ConfigError(
            f"trips names {', '.join(given) or 'nothing'}, but {program.name} counts "
            f"{', '.join(names) or 'no trips'}",
            hint="give a number for each, or a single number for all",
            field="execute.trips",
        )
    for name, value in given.items():
        check_int("execute", f"trips.{name}", value, names[name])
    return given


def walk(
    program: Program, storage: Storage, trips: Trips, *, counter_stall: bool | None = None
) -> tuple[WaveWalk, ...]:
    """What every wave does, in the order of the waves."""
    walks: dict[int, WaveWalk] = {}
    for number, group in enumerate(program.groups):
        for local, wave in enumerate(group.waves):
            walks[wave] = _wave(program, storage, trips, number, group, local, counter_stall)
    found = tuple(walks[wave] for wave in sorted(walks))
    if len(program.groups) > 1:
        _join(found)
    return found


def _join(walks: tuple[WaveWalk, ...]) -> None:
    """Make one event of the shared writes that several groups make of the same part."""
    joint: dict[Hashable, list[Line]] = {}
    for walk_ in walks:
        times: Counter[Hashable] = Counter()
        for line in walk_.lines:
            if line.data is not None and line.data.write.shared:
                work = line.data.work
                (access,) = (*work.writes, *work.accumulates)
                key = (work.node, access.resource, access.copy, access.boxes, line.iteration)
                joint.setdefault((key, times[key]), []).append(line)
                times[key] += 1
    for number, lines in enumerate(joint.values()):
        if len({line.event[0] for line in lines}) > 1:
            for local, line in enumerate(lines):
                line.event, line.members, line.local = (-1, number), len(lines), local


def _wave(
    program: Program,
    storage: Storage,
    trips: Trips,
    number: int,
    group: Group,
    local: int,
    counter_stall: bool | None,
) -> WaveWalk:
    wave = group.waves[local]
    lines: list[Line] = []
    counters = {
        c.name: Outstanding[Line](
            c.limit.value, stalls=c.stalls_when_full if counter_stall is None else counter_stall
        )
        for c in program.target.counters
    }
    for section in group.sections:
        for trip, base in section.passes(trips):
            for slot, step in enumerate(section.steps):
                iteration = 0
                if isinstance(step, Work) and step.iteration is not None:
                    iteration = base + step.iteration
                at = StepAt(wave, section.name, slot, trip)
                line = Line(
                    number=len(lines),
                    place=at,
                    data=storage.action(step, wave, local) if isinstance(step, Work) else None,
                    is_barrier=isinstance(step, Barrier),
                    counted=isinstance(step, Work) and step.counter is not None,
                    event=(number, len(lines)),
                    members=len(group.waves),
                    local=local,
                    iteration=iteration,
                )
                line.last = line.number
                if isinstance(step, Wait):
                    line.before = counters[step.counter].wait(step.count)
                elif isinstance(step, Barrier):
                    _check_barrier(program, step)
                elif isinstance(step, Work) and step.counter is not None:
                    line.before, line.after = counters[step.counter].issue(line, step.sure_entries)
                for done in line.before:
                    done.last = line.number
                for done in line.after:
                    done.last = line.number + 1
                lines.append(line)
    left = [line for c in counters.values() for line in c.left()]
    left.sort(key=lambda line: line.number)
    for line in left:
        line.last = len(lines)
    barriers = tuple(line.number for line in lines if line.is_barrier)
    return WaveWalk(tuple(lines), tuple(left), barriers)


def _check_barrier(program: Program, step: Barrier) -> None:
    if program.target.barrier(step.name).phases:
        raise ConfigError(
            f"{program.name} meets at barrier {step.name!r} with phases, which cannot be executed",
            hint="the executor knows barriers of the whole workgroup",
            field="Barrier.name",
        )


class Outstanding(Generic[T]):
    """What one counter of one wave tracks, oldest first.

    A wait of ``limit`` or more is none. With ``stalls``, an issue past the limit waits for room.
    """

    __slots__ = ("_issued", "_limit", "_queue", "_stalls")

    def __init__(self, limit: int, *, stalls: bool = False) -> None:
        self._limit = limit
        self._stalls = stalls
        self._issued = 0
        self._queue: deque[tuple[int, T]] = deque()

    def issue(self, step: T, entries: int) -> tuple[list[T], list[T]]:
        """Track ``step``; gives what a full counter retires before its first entry, and its last.

        A step of one instruction issues only after the stall; one of several has its first out
        before a later one stalls. One larger than the limit retires itself in part, never as a
        whole. One of no entries, which may not issue at all, makes nothing wait.
        """
        stalls = self._stalls and entries > 0
        before = self._retire_to(self._issued + 1 - self._limit) if stalls else []
        self._issued += entries
        self._queue.append((self._issued, step))
        after = self._retire_to(self._issued - self._limit) if stalls else []
        return before, after

    def wait(self, count: int) -> list[T]:
        """What ``wait(count)`` retires."""
        return [] if count >= self._limit else self._retire_to(self._issued - count)

    def left(self) -> list[T]:
        """What nothing has retired so far, oldest first."""
        return [step for _, step in self._queue]

    def _retire_to(self, entry: int) -> list[T]:
        retired: list[T] = []
        while self._queue and self._queue[0][0] <= entry:
            retired.append(self._queue.popleft()[1])
        return retired
