"""When everything retires under given waits and barriers, and which demands that meets.

An event that must retire before one of its own wave is due directly before that one; an event that
must retire before one of another wave, which that wave reaches after its n-th barrier, is due
directly before the n-th barrier of its own. A wait that stands where something is due allows
exactly the entries issued after it: retirement in order covers everything older. The same wait runs
in every trip and group of a script, so its count is the least that any of them needs.

A predicated step may be skipped, so its entries are never counted on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from pipeloom.machine.target import Target
from pipeloom.sync.demands import Flow, Ordering
from pipeloom.sync.script import Scripts, Sync
from pipeloom.sync.walk import Walk

NEVER = 1 << 40
Options = frozenset[tuple[int, int]]
"""Slots whose wait would meet a demand, each with the largest count that does."""


class Queue:
    """What one counter counts in a walk: entries issued in all, position and event, in order."""

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.positions: list[int] = []
        self.numbers: list[int] = []

    def add(self, entries: int, position: int, number: int) -> None:
        """One more event."""
        self.totals.append(entries + (self.totals[-1] if self.totals else 0))
        self.positions.append(position)
        self.numbers.append(number)

    def issued(self, position: int) -> int:
        """Entries issued before ``position``."""
        before = bisect_left(self.positions, position)
        return self.totals[before - 1] if before else 0


class Course:
    """What of one group's walk no synchronisation changes."""

    def __init__(self, walk: Walk, counters: tuple[str, ...]) -> None:
        self.walk = walk
        self.issue: list[int] = []
        self.queues = {name: Queue() for name in counters}
        self.uncounted: list[int] = []
        self.total = [0] * len(walk.events)
        """For every counted event, the entries issued up to it."""
        self.gaps: dict[int, list[tuple[int, int]]] = {}
        """Where each gap is passed: the position, and the event that follows."""
        self._kept: list[tuple[int, int, int, int, int]] = []
        self._passed: tuple[dict[int, int], Passed] | None = None
        for position, (gap, number, kept) in enumerate(walk.course):
            self.gaps.setdefault(gap, []).append((position, len(self.issue)))
            if kept:
                self._kept.append((position, 1, 2 * gap + 1, len(self.issue), 1))
            if number >= 0:
                work = walk.events[number].work
                self.issue.append(position)
                if work.counter is None:
                    self.uncounted.append(number)
                else:
                    queue = self.queues[work.counter]
                    queue.add(work.sure_entries, position, number)
                    self.total[number] = queue.totals[-1]

    def passed(self, barriers: dict[int, int]) -> Passed:
        """The way with barriers; kept, since many waits are tried with the same."""
        if self._passed is None or self._passed[0] != barriers:
            marks = [
                (position, 0, 2 * gap, following, count)
                for gap, count in barriers.items()
                for position, following in self.gaps.get(gap, ())
            ]
            self._passed = dict(barriers), Passed(sorted(marks + self._kept), self.issue)
        return self._passed[1]


class Passed:
    """The barriers of a walk: for each the slot for a wait before it, and the event that follows.

    Epochs count the barriers passed.
    """

    def __init__(self, marks: list[tuple[int, int, int, int, int]], issue: list[int]) -> None:
        self.barriers: list[tuple[int, int]] = []
        self._places: list[tuple[int, int]] = []
        for position, rank, slot, following, count in marks:
            self.barriers += [(slot, following)] * count
            self._places += [(position, rank)] * count
        self.issue_epoch = [self.epoch(position + 1, 0) for position in issue]

    def epoch(self, position: int, behind: int) -> int:
        """Barriers passed at a wait: one that stands ``behind`` its gap's barriers, or before."""
        return bisect_left(self._places, (position, behind))


class Replay:
    """One group's walk: for every event, issue and retirement as position and as epoch."""

    def __init__(self, course: Course, sync: Sync) -> None:
        passed = course.passed(sync.barriers)
        self.walk = course.walk
        self.issue = course.issue
        self.issue_epoch = passed.issue_epoch
        self.barriers = passed.barriers
        self.retire = [NEVER] * len(course.issue)
        self.retire_epoch = [NEVER] * len(course.issue)
        for number in course.uncounted:
            self.retire[number] = self.issue[number]
            self.retire_epoch[number] = self.issue_epoch[number]
        drains: dict[str, list[tuple[int, int, int]]] = {}
        for slot, counts in sync.waits.items():
            for name, count in counts.items():
                drains.setdefault(name, []).extend(
                    (position, slot % 2, count) for position, _ in course.gaps.get(slot // 2, ())
                )
        for name, found in drains.items():
            queue, done = course.queues[name], 0
            for position, behind, count in sorted(found):
                before = bisect_left(queue.positions, position)
                if before <= done:
                    continue
                bar = queue.totals[before - 1] - count
                gone = bisect_right(queue.totals, bar, done, before)
                if gone > done:
                    epoch = passed.epoch(position, behind)
                    for number in queue.numbers[done:gone]:
                        self.retire[number] = position
                        self.retire_epoch[number] = epoch
                    done = gone


@dataclass(frozen=True, slots=True)
class Unmet:
    """A demand that is not met; a wait at ``slot`` for ``allowed`` would, unless there is none."""

    ordering: Ordering
    slot: int | None
    counter: str
    allowed: int


class Bench:
    """Tries synchronisations on the runs that matter."""

    def __init__(self, scripts: Scripts, flows: list[Flow]) -> None:
        self.scripts = scripts
        self.flows = flows
        counters = tuple(c.name for c in scripts.program.target.counters)
        self._courses = {
            id(walk): Course(walk, counters) for flow in flows for walk in flow.run.walks
        }
        self._crucial = [_crucial(flow) for flow in flows]
        self._rows = [[row_pair(flow, ordering) for ordering in flow.orderings] for flow in flows]
        self._ends = {
            (s, r): scripts.gaps(s, r)[-1]
            for s, script in enumerate(scripts.scripts)
            for r in range(len(script.rows))
        }

    @property
    def target(self) -> Target:
        """The machine."""
        return self.scripts.program.target

    def limit(self, counter: str) -> int:
        """The first count that is no wait."""
        return self.target.counter(counter).limit.value

    def replays(self, flow: Flow, sync: Sync) -> list[Replay]:
        """Every group under ``sync``."""
        return [Replay(self._courses[id(walk)], sync) for walk in flow.run.walks]

    def holds(self, sync: Sync) -> bool:
        """Whether every demand is met."""
        # the longest run is the likeliest to object
        for flow, crucial in zip(reversed(self.flows), reversed(self._crucial), strict=True):
            replays = self.replays(flow, sync)
            if not all(_met(ordering, replays) for ordering in crucial):
                return False
        return True

    def unmet(
        self, sync: Sync, rows: set[tuple[int, int]] | None = None
    ) -> Iterator[tuple[Flow, Unmet]]:
        """The demands (between ``rows``) that are not met, and the waits that would meet them."""
        for flow, pairs in zip(self.flows, self._rows, strict=True):
            asked = [
                ordering
                for ordering, pair in zip(flow.orderings, pairs, strict=True)
                if rows is None or pair in rows
            ]
            replays = self.replays(flow, sync) if asked else []
            for ordering in asked:
                if not _met(ordering, replays):
                    yield flow, self._missed(ordering, replays)

    def options(self, sync: Sync) -> dict[str, set[Options]]:
        """By counter: what meets each demand, of the waits that ``sync`` has, whatever they count.

        A wait retires an event if it comes after the event and in time for the demand, and counts
        no more than what was issued between. Only the last such pass of a slot matters.
        """
        slots: dict[str, list[int]] = {}
        for slot, counts in sync.waits.items():
            for name in counts:
                slots.setdefault(name, []).append(slot)
        found: dict[str, set[Options]] = {name: set() for name in slots}
        for flow, crucial in zip(self.flows, self._crucial, strict=True):
            courses = [self._courses[id(walk)] for walk in flow.run.walks]
            ways = [course.passed(sync.barriers) for course in courses]
            for ordering in crucial:
                (g, x), (h, y) = ordering.first, ordering.second
                counter = courses[g].walk.events[x].work.counter
                if counter is None:
                    continue
                course, queue, meeting = courses[g], courses[g].queues[counter], []
                for slot in slots.get(counter, ()):
                    for position, _ in reversed(course.gaps.get(slot // 2, ())):
                        if position <= course.issue[x]:
                            break
                        if ordering.same_wave:
                            late = position > courses[h].issue[y]
                        else:
                            late = ways[g].epoch(position, slot % 2) >= ways[h].issue_epoch[y]
                        if not late:
                            meeting.append((slot, queue.issued(position) - course.total[x]))
                            break
                found[counter].add(frozenset(meeting))
        return found

    def _missed(self, ordering: Ordering, replays: list[Replay]) -> Unmet:
        """Where a wait would meet a demand: as late as possible.

        But what comes before a loop is due before it at the latest, unless the loop's waits do it
        anyway: no loop is made to wait in every trip for what happened once.
        """
        group, number = ordering.first
        replay = replays[group]
        other = replays[ordering.second[0]]
        event = replay.walk.events[number]
        counter = event.work.counter
        if ordering.same_wave:
            upto = ordering.second[1]
            slot = 2 * replay.walk.events[upto].gap + 1
        else:
            epoch = other.issue_epoch[ordering.second[1]]
            if not 1 <= epoch <= len(replay.barriers):
                return Unmet(ordering, None, "", 0)
            slot, upto = replay.barriers[epoch - 1]
            if upto <= number:
                return Unmet(ordering, None, "", 0)
        assert counter is not None
        s, r, _ = self.scripts.places[slot // 2]
        if r != event.row and self.scripts.scripts[s].rows[r].loops:
            slot = 2 * self._ends[s, r - 1]
            upto = next(n for n, e in enumerate(replay.walk.events) if e.row >= r)
        between = replay.walk.events[number + 1 : upto]
        younger = sum(e.work.sure_entries for e in between if e.work.counter == counter)
        return Unmet(ordering, slot, counter, min(younger, self.limit(counter) - 1))

    def tighten(self, sync: Sync, rows: set[tuple[int, int]]) -> None:
        """Add and tighten waits until what is due between the given pairs of rows has retired."""
        changed = True
        while changed:
            changed = False
            for _, miss in list(self.unmet(sync, rows)):
                if miss.slot is not None:
                    waits = sync.waits.setdefault(miss.slot, {})
                    waits[miss.counter] = min(miss.allowed, waits.get(miss.counter, miss.allowed))
                    changed = True


def row_pair(flow: Flow, ordering: Ordering) -> tuple[int, int]:
    """The rows of both events."""
    return flow.run.event(ordering.first).row, flow.run.event(ordering.second).row


def _met(ordering: Ordering, replays: list[Replay]) -> bool:
    (g, x), (h, y) = ordering.first, ordering.second
    if ordering.same_wave:
        return replays[g].retire[x] <= replays[h].issue[y]
    return replays[g].retire_epoch[x] < replays[h].issue_epoch[y]


def _crucial(flow: Flow) -> list[Ordering]:
    """Demands that imply all others: events are issued, and those of a counter retire, in order."""
    tight: dict[tuple[int, str | None, int, bool], dict[int, int]] = {}
    for ordering in flow.orderings:
        (g, x), (h, y) = ordering.first, ordering.second
        counter = flow.run.event(ordering.first).work.counter
        seconds = tight.setdefault((g, counter, h, ordering.same_wave), {})
        seconds[x] = min(y, seconds.get(x, y))
    found = []
    for (g, _, h, same_wave), seconds in tight.items():
        least = NEVER
        for x in sorted(seconds, reverse=True):
            if seconds[x] < least:
                least = seconds[x]
                found.append(Ordering((g, x), (h, least), same_wave))
    return found
