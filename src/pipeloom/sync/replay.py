"""When everything retires under given waits and barriers, and which demands that meets.

An event that must retire before one of its own wave is due directly before that one; an event that
must retire before one of another wave, which that wave reaches after its n-th barrier, is due
directly before the n-th barrier of its own. A wait that stands where something is due allows
exactly the entries issued after it: retirement in order covers everything older. The same wait runs
in every trip and group of a script, so its count is the least that any of them needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipeloom.sync.flow import Demands, OrderDemand
from pipeloom.sync.script import Scripts, Sync
from pipeloom.sync.walk import Gates, Run, Walk

NEVER = 1 << 40
Options = frozenset[tuple[int, int]]
"""Slots whose wait would meet a demand, each with the largest count that does."""
Rows = set[tuple[int, int]]


class WalkReplay:
    """A run under ``sync``: by event, issue and retirement, as position and as epoch."""

    def __init__(self, run: Run, sync: Sync) -> None:
        gates = self.gates = run.gates(sync.barriers)
        self.issue = run.issue
        self.issue_epoch = gates.issue_epoch
        counted = [place >= 0 for place in run.places]
        self.retire = [NEVER if c else at for c, at in zip(counted, self.issue, strict=True)]
        epochs = zip(counted, self.issue_epoch, strict=True)
        self.retire_epoch = [NEVER if c else at for c, at in epochs]
        for walk in run.walks:
            for name, drains in _drains(walk, sync).items():
                queue, done = walk.queues[name], 0
                for position, slot, count in drains:
                    gone = queue.retired(done, position, count)
                    for event in queue.events[done:gone]:
                        self.retire[event] = position
                        self.retire_epoch[event] = gates.epoch(walk.group, position, slot)
                    done = gone

    def meets(self, ordering: OrderDemand) -> bool:
        """Whether a demand is met."""
        first, second, same_wave = ordering
        if same_wave:
            return self.retire[first] <= self.issue[second]
        return self.retire_epoch[first] < self.issue_epoch[second]


def _drains(walk: Walk, sync: Sync) -> dict[str, list[tuple[int, int, int]]]:
    """The waits that a group passes, by counter, in order."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for slot, counts in sync.waits.items():
        for name, count in counts.items():
            passes = ((position, slot, count) for position, _ in walk.passes(slot // 2))
            found.setdefault(name, []).extend(passes)
    return {name: sorted(drains) for name, drains in found.items()}


class Due(NamedTuple):
    """Where a wait meets a demand, as late as possible."""

    position: int
    slot: int


class Bench:
    """Tries synchronisations on the runs that matter."""

    def __init__(self, scripts: Scripts, flows: Sequence[Demands]) -> None:
        self.scripts = scripts
        self.flows = flows
        self.loops = [r for r, row in enumerate(scripts.scripts[0].rows) if row.loops]
        self._limits = {c.name: c.limit.value for c in scripts.program.target.counters}
        self._crucial = [_crucial(flow) for flow in flows]
        self._due: dict[int, tuple[Gates, list[tuple[int, Due, tuple[int, int]]]]] = {}

    def holds(self, sync: Sync) -> bool:
        """Whether every demand is met."""
        # the longest run is the likeliest to object
        for flow, crucial in zip(reversed(self.flows), reversed(self._crucial), strict=True):
            if not all(map(WalkReplay(flow.run, sync).meets, crucial)):
                return False
        return True

    def unmet(self, sync: Sync) -> Iterator[tuple[Demands, OrderDemand, Due | None]]:
        """The demands that are not met, and where a wait would meet them, if any would."""
        for flow in self.flows:
            replay = WalkReplay(flow.run, sync)
            for ordering in flow.orderings:
                if not replay.meets(ordering):
                    due = _due(flow.run, replay.gates, ordering)
                    yield flow, ordering, due and self._early(flow.run, ordering.first, due)

    def _early(self, run: Run, event: int, due: Due) -> Due:
        """Where a wait for an event stands that does not retire in time.

        What comes before a loop is awaited before it: no loop is made to wait in every trip for
        what happened once.
        """
        s, r, _ = self.scripts.places[due.slot // 2]
        if r == run.events[event].row or r not in self.loops:
            return due
        return Due(run.walk(event).starts[r][0][0] - 1, 2 * self.scripts.gaps(s, r - 1)[-1])

    def tighten(self, sync: Sync, rows: Rows | None = None) -> None:
        """Add and tighten waits until what is due (between the given pairs of rows) has retired."""
        # the longest run first: what it waits for is what the others need, mostly
        for number in reversed(range(len(self.flows))):
            run = self.flows[number].run
            wanted: list[dict[Due, list[int]]] = [{} for _ in run.walks]
            for event, due, pair in self._counted(number, run.gates(sync.barriers)):
                if rows is None or pair in rows:
                    wanted[run.groups[event]].setdefault(due, []).append(event)
            for walk, mine in zip(run.walks, wanted, strict=True):
                if mine:
                    self._sweep(run, walk, mine, sync)

    def _counted(self, number: int, gates: Gates) -> list[tuple[int, Due, tuple[int, int]]]:
        """What waits can retire in a run, where it is due, and the rows of the two events."""
        known = self._due.get(number)
        if known is None or known[0] is not gates:
            run = self.flows[number].run
            demands = ((o, _due(run, gates, o)) for o in self._crucial[number])
            found = [
                (o.first, due, (run.events[o.first].row, run.events[o.second].row))
                for o, due in demands
                if due is not None and run.places[o.first] >= 0
            ]
            known = self._due[number] = gates, found
        return known[1]

    def _sweep(self, run: Run, walk: Walk, wanted: dict[Due, list[int]], sync: Sync) -> None:
        """Walk from wait to wait, with what has retired of each queue; tighten where more must."""
        slots = {due.slot for due in wanted}.union(sync.waits)
        stops = [(at, slot) for slot in slots for at, _ in walk.passes(slot // 2)]
        done = dict.fromkeys(walk.queues, 0)
        for position, slot in sorted(stops):
            if slot in sync.waits:
                for name, count in sync.waits[slot].items():
                    done[name] = walk.queues[name].retired(done[name], position, count)
            stop = Due(position, slot)
            for event in wanted.get(stop, ()):
                name = run.events[event].work.counter or ""
                queue, place = walk.queues[name], run.places[event]
                if place >= done[name]:
                    at = self._early(run, event, stop)
                    most = min(queue.since(place, at.position), self._limits[name] - 1)
                    counts = sync.waits.setdefault(at.slot, {})
                    counts[name] = min(most, counts.get(name, most))
                    done[name] = queue.retired(done[name], at.position, counts[name])

    def loosen(self, sync: Sync) -> None:
        """Give every wait the largest count that holds; drop those that any count satisfies."""
        demands = self._options(sync)
        for slot in sorted(sync.waits):
            waits = sync.waits[slot]
            for counter in list(waits):
                del waits[counter]
                largest = [
                    dict(options)[slot]
                    for options in demands[counter]
                    if not any(
                        sync.waits.get(at, {}).get(counter, limit + 1) <= limit
                        for at, limit in options
                    )
                ]
                if largest:
                    waits[counter] = min(*largest, self._limits[counter] - 1)
            if not waits:
                del sync.waits[slot]

    def _options(self, sync: Sync) -> dict[str, set[Options]]:
        """By counter: what meets each demand, of the waits that ``sync`` has, whatever they count.

        A wait retires an event if it comes after the event and in time for the demand, and counts
        no more than what was issued between. Only the last such pass of a slot matters.
        """
        found: dict[str, set[Options]] = {
            name: set() for counts in sync.waits.values() for name in counts
        }
        for flow, crucial in zip(self.flows, self._crucial, strict=True):
            run, gates = flow.run, flow.run.gates(sync.barriers)
            for ordering in crucial:
                counter = run.events[ordering.first].work.counter
                if counter is not None:
                    slots = (slot for slot, counts in sync.waits.items() if counter in counts)
                    meeting = self._meeting(run, gates, ordering, slots)
                    found[counter].add(frozenset(meeting))
        return found

    @staticmethod
    def _meeting(
        run: Run, gates: Gates, ordering: OrderDemand, slots: Iterable[int]
    ) -> Iterator[tuple[int, int]]:
        first, second, same_wave = ordering
        walk, queue = run.walk(first), run.queue(first)
        assert queue is not None
        for slot in slots:
            for position, _ in reversed(list(walk.passes(slot // 2))):
                if position <= run.issue[first]:
                    break
                if same_wave:
                    late = position > run.issue[second]
                else:
                    epoch = gates.epoch(walk.group, position, slot)
                    late = epoch >= gates.issue_epoch[second]
                if not late:
                    yield slot, queue.since(run.places[first], position)
                    break


def _due(run: Run, gates: Gates, ordering: OrderDemand) -> Due | None:
    """Where a wait would meet a demand: as late as possible; None if no wait would."""
    first, second, same_wave = ordering
    if same_wave:
        return Due(run.issue[second], 2 * run.events[second].gap + 1)
    epoch, passed = gates.issue_epoch[second], gates.by_group[run.groups[first]]
    if not 1 <= epoch <= len(passed) or passed[epoch - 1].follows <= first:
        return None
    return Due(*passed[epoch - 1][:2])


def _crucial(flow: Demands) -> list[OrderDemand]:
    """Demands that imply all others: events are issued, and those of a counter retire, in order."""
    run = flow.run
    tight: dict[tuple[int, str | None, int, bool], dict[int, int]] = {}
    for first, second, same_wave in flow.orderings:
        key = (run.groups[first], run.events[first].work.counter, run.groups[second], same_wave)
        seconds = tight.setdefault(key, {})
        seconds[first] = min(second, seconds.get(first, second))
    found = []
    for (_, _, _, same_wave), seconds in tight.items():
        least = NEVER
        for first in sorted(seconds, reverse=True):
            if seconds[first] < least:
                least = seconds[first]
                found.append(OrderDemand(first, least, same_wave))
    return found
