"""When everything retires under given waits and barriers, and which demands that meets.

An event that must retire before one of its own wave is due directly before that one; an event that
must retire before one of another wave, which that wave reaches after its n-th barrier, is due
directly before the n-th barrier of its own. A wait that stands where something is due allows
exactly the entries issued after it: retirement in order covers everything older. The same wait runs
in every trip and group of a script, so its count is the least that any of them needs.

A predicated step may be skipped, so its entries are never counted on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeloom.machine.target import Target
from pipeloom.sync.flow import Flow, Ordering
from pipeloom.sync.script import Scripts, Sync
from pipeloom.sync.walk import Walk

NEVER = 1 << 40
NO_WAITS: Mapping[str, int] = {}


class Replay:
    """One group's walk: for every event, issue and retirement as position and as epoch."""

    def __init__(self, walk: Walk, sync: Sync, counters: tuple[str, ...]) -> None:
        size = len(walk.events)
        self.walk = walk
        self.issue = [0] * size
        self.issue_epoch = [0] * size
        self.retire = [NEVER] * size
        self.retire_epoch = [NEVER] * size
        self.barriers: list[tuple[int, int]] = []
        """For each barrier passed: the slot for a wait before it, and the event that follows."""
        self._pending: dict[str, deque[tuple[int, int]]] = {name: deque() for name in counters}
        self._issued = dict.fromkeys(counters, 0)
        waits, barriers, passed = sync.waits, sync.barriers, self.barriers
        following = 0
        for position, (gap, number, kept) in enumerate(walk.course):
            for name, count in waits.get(2 * gap, NO_WAITS).items():
                self._drain(name, count, position)
            here = barriers.get(gap, 0)
            if here:
                passed.extend([(2 * gap, following)] * here)
            for name, count in waits.get(2 * gap + 1, NO_WAITS).items():
                self._drain(name, count, position)
            if kept:
                passed.append((2 * gap + 1, following))
            if number >= 0:
                self._issue(number, position)
                following = number + 1

    def _issue(self, number: int, position: int) -> None:
        work = self.walk.events[number].work
        self.issue[number] = position
        self.issue_epoch[number] = len(self.barriers)
        if work.counter is None:
            self.retire[number] = position
            self.retire_epoch[number] = len(self.barriers)
            return
        if work.when is None:
            self._issued[work.counter] += work.entries
        self._pending[work.counter].append((number, self._issued[work.counter]))

    def _drain(self, name: str, count: int, position: int) -> None:
        pending, bar = self._pending[name], self._issued[name] - count
        while pending and pending[0][1] <= bar:
            number = pending.popleft()[0]
            self.retire[number] = position
            self.retire_epoch[number] = len(self.barriers)


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
        self._counters = tuple(c.name for c in scripts.program.target.counters)
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
        return [Replay(walk, sync, self._counters) for walk in flow.run.walks]

    def holds(self, sync: Sync) -> bool:
        """Whether every demand is met."""
        for flow in reversed(self.flows):  # the longest run is the likeliest to object
            replays = self.replays(flow, sync)
            if not all(_met(ordering, replays) for ordering in flow.orderings):
                return False
        return True

    def unmet(self, sync: Sync) -> Iterator[tuple[Flow, Unmet]]:
        """The demands that are not met, and the waits that would meet them."""
        for flow in self.flows:
            replays = self.replays(flow, sync)
            for ordering in flow.orderings:
                if not _met(ordering, replays):
                    yield flow, self._missed(ordering, replays)

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
        younger = sum(
            e.work.entries for e in between if e.work.counter == counter and e.work.when is None
        )
        return Unmet(ordering, slot, counter, min(younger, self.limit(counter) - 1))

    def tighten(self, sync: Sync, rows: set[tuple[int, int]]) -> None:
        """Add and tighten waits until what is due between the given pairs of rows has retired."""
        changed = True
        while changed:
            changed = False
            for flow, miss in list(self.unmet(sync)):
                if miss.slot is not None and row_pair(flow, miss.ordering) in rows:
                    waits = sync.waits.setdefault(miss.slot, {})
                    waits[miss.counter] = min(miss.allowed, waits.get(miss.counter, miss.allowed))
                    changed = True


def row_pair(flow: Flow, ordering: Ordering) -> tuple[int, int]:
    """The rows of both events."""
    (g, x), (h, y) = ordering.first, ordering.second
    return flow.run.walks[g].events[x].row, flow.run.walks[h].events[y].row


def _met(ordering: Ordering, replays: list[Replay]) -> bool:
    (g, x), (h, y) = ordering.first, ordering.second
    if ordering.same_wave:
        return replays[g].retire[x] <= replays[h].issue[y]
    return replays[g].retire_epoch[x] < replays[h].issue_epoch[y]
