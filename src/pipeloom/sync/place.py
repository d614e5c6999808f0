"""Barriers and waits for scripts: loops first, then what stands around them, then cleaning up.

Loops come first and alone: what runs once takes whatever it needs in addition, and never makes a
loop wait more.

Which of several sets of barriers, equally many, costs least: what happens until they publish.

A demand is settled at one barrier; the wait for its first event stands before it. The longer until
then, the less anybody stands still.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from pipeloom.errors import InternalError, OrderError
from pipeloom.program import NodeKind, Work
from pipeloom.sync.flow import Demands, OrderDemand, describe
from pipeloom.sync.levels import Counts, Distance, line_barriers, loop_barriers
from pipeloom.sync.replay import Bench, WalkReplay
from pipeloom.sync.script import Doing, Scripts, Sync
from pipeloom.sync.walk import Execution

Score = tuple[int, int, int]


def place_synchronisation(bench: Bench, barrier_gaps: Mapping[str, Sequence[int]]) -> Sync:
    """A synchronisation that meets every demand, and of which nothing can be spared.

    ``barrier_gaps`` proposes where the barriers of loops stand (by section, the numbers of the work
    that they precede), and is followed if waits can make it sound.
    """
    sync = _placed(bench, barrier_gaps) if barrier_gaps else None
    if sync is None or not bench.holds(sync):
        sync = _placed(bench, {})
    _check(bench, sync)
    _drop_barriers(bench, sync)
    bench.loosen(sync)
    return sync


def place_waits(bench: Bench) -> Sync:
    """The loosest waits for barriers that stand already; nothing of them can be spared."""
    sync = Sync()
    bench.tighten(sync, {(r, r) for r in bench.loops})
    bench.tighten(sync)
    _check(bench, sync)
    bench.loosen(sync)
    return sync


def _check(bench: Bench, sync: Sync) -> None:
    for flow, ordering, due in bench.unmet(sync):
        if due is None:
            raise _hopeless(bench.scripts, *(flow.run.events[n] for n in ordering[:2]))
        raise InternalError(f"the derived waits and barriers do not meet {ordering}")


def _placed(bench: Bench, barrier_gaps: Mapping[str, Sequence[int]]) -> Sync:
    sync = Sync()
    rows = bench.scripts.scripts[0].rows
    loops = bench.loops
    for row in loops:
        proposed = _proposal(bench.scripts, row, barrier_gaps)
        _put(sync, _in_loop(bench, row) if proposed is None else proposed)
        bench.tighten(sync, {(row, row)})
    for row in range(len(rows)):
        if row in loops:
            continue
        _put(sync, _in_line(bench, sync, row))
        earlier = {(first, row) for first in range(row + 1)}
        ahead = {(first, row + 1) for first in range(row + 1)} if row + 1 in loops else set()
        bench.tighten(sync, earlier)
        bench.tighten(sync, ahead)
    return sync


def _proposal(
    scripts: Scripts, row: int, barrier_gaps: Mapping[str, Sequence[int]]
) -> Counts | None:
    found: Counts = {}
    for s, script in enumerate(scripts.scripts):
        name = script.rows[row].section.name
        numbers = barrier_gaps.get(f"{name}@{script.groups[0]}", barrier_gaps.get(name))
        if numbers is None:
            return None
        gaps = scripts.gaps(s, row)
        for number in numbers:
            if number < len(gaps):
                found[gaps[number]] = found.get(gaps[number], 0) + 1
    return found


def _put(sync: Sync, counts: Counts) -> None:
    for gap, count in counts.items():
        sync.set_barriers(gap, count)


def _crossings(bench: Bench, sync: Sync) -> Iterator[tuple[Demands, WalkReplay, OrderDemand]]:
    """Every demand between waves, under ``sync``."""
    for flow in bench.flows:
        replay = WalkReplay(flow.run, sync)
        for ordering in flow.orderings:
            if not ordering.same_wave:
                yield flow, replay, ordering


def _in_loop(bench: Bench, row: int) -> Counts:
    scripts = bench.scripts
    demanded: dict[Distance, tuple[Execution, Execution]] = {}
    loads: dict[Distance, None] = {}
    for flow, replay, ordering in _crossings(bench, Sync()):
        first, second = (flow.run.events[n] for n in ordering[:2])
        if first.row == row == second.row:
            x, y = (replay.issue_epoch[n] for n in ordering[:2])
            found = Distance(first.gap, second.gap, second.trip - first.trip, x + 1 - y)
            if found.apart > 0 or len(scripts.scripts) > 1:
                demanded.setdefault(found, (first, second))
                if _from_memory(scripts, first):
                    loads.setdefault(found)
    gaps = [scripts.gaps(s, row) for s in range(len(scripts.scripts))]
    score = quality(scripts, gaps, list(demanded), list(loads))
    counts = loop_barriers(gaps, sorted(demanded), score)
    if counts is None:
        worst = min(demanded, key=lambda d: (d.later, d))
        raise _hopeless(scripts, *demanded[worst])
    return counts


def _from_memory(scripts: Scripts, event: Execution) -> bool:
    meaning = scripts.program.meaning
    return event.work.counter is not None and any(
        a.resource in meaning and meaning[a.resource].kind in (NodeKind.STREAM, NodeKind.RESIDENT)
        for a in event.work.reads
    )


def _in_line(bench: Bench, sync: Sync, row: int) -> Counts:
    """Barriers of a row that runs once: for itself, for what comes before, for the next loop.

    What loops before it have not retired by themselves is waited for, and published, in here.
    """
    scripts = bench.scripts
    gaps = [scripts.gaps(s, row) for s in range(len(scripts.scripts))]
    loop_next = row + 1 < len(scripts.scripts[0].rows) and scripts.scripts[0].rows[row + 1].loops
    floors: dict[tuple[int, int], None] = {}
    demanded: dict[Distance, tuple[Execution, Execution]] = {}
    for flow, replay, ordering in _crossings(bench, sync):
        first, second = (flow.run.events[n] for n in ordering[:2])
        if first.row > row or second.row < row:
            continue
        if second.row != row and not (loop_next and second.row == row + 1):
            continue
        issued, reached = (replay.issue_epoch[n] for n in ordering[:2])
        retired = replay.retire_epoch[ordering.first]
        groups = [flow.run.groups[n] for n in ordering[:2]]
        at = second.gap if second.row == row else gaps[scripts.script_of[groups[1]]][-1]
        if first.row == row:
            if second.row == row or retired >= reached:
                found = Distance(first.gap, at, 0, issued + 1 - reached)
                demanded.setdefault(found, (first, second))
        else:
            enters, _ = flow.run.walks[groups[0]].starts[row][0]
            done = min(retired, replay.gates.epoch(groups[0], enters, 0))
            floors.setdefault((at, done + 1 - reached))
    counts = line_barriers(gaps, floors, demanded)
    if counts is None:
        raise _hopeless(scripts, *next(iter(demanded.values())))
    return counts


def _hopeless(scripts: Scripts, first: Execution, second: Execution) -> OrderError:
    return OrderError(
        f"no barriers can order {describe(scripts, first)} before {describe(scripts, second)}",
        hint="the groups wait for each other in a circle: let one run further ahead, or give the "
        "resource more copies",
        field="order",
    )


def _drop_barriers(bench: Bench, sync: Sync) -> None:
    """Remove barriers that nothing needs, the last first; in all scripts together."""
    scripts = bench.scripts
    for row in reversed(range(len(scripts.scripts[0].rows))):
        standing = [
            [gap for gap in scripts.gaps(s, row) for _ in range(sync.barriers.get(gap, 0))]
            for s in range(len(scripts.scripts))
        ]
        for number in reversed(range(len(standing[0]))):
            chosen = [gaps[number] for gaps in standing]
            for gap in chosen:
                sync.set_barriers(gap, sync.barriers[gap] - 1)
            if not bench.holds(sync):
                for gap in chosen:
                    sync.set_barriers(gap, sync.barriers.get(gap, 0) + 1)


class Lap:
    """One trip of a loop in one script, from gap to gap, over and over."""

    def __init__(self, scripts: Scripts, gaps: range) -> None:
        self.gaps = gaps
        self._works = [_work(scripts, gap) for gap in gaps]
        self._sums: dict[str | None, list[int]] = {}
        self._barriers: list[int] = []

    def stand(self, counts: Counts) -> None:
        """Let the barriers stand there."""
        self._barriers = [at for at, gap in enumerate(self.gaps) for _ in range(counts.get(gap, 0))]

    @property
    def per_trip(self) -> int:
        """Barriers of a trip."""
        return len(self._barriers)

    def counter(self, gap: int) -> str | None:
        """What counts the work behind a gap."""
        found = self._works[gap - self.gaps[0]]
        assert found is not None
        return found.counter

    def upto(self, gap: int) -> int:
        """Barriers of a trip up to and in a gap."""
        return bisect_right(self._barriers, gap - self.gaps[0])

    def until(self, gap: int, more: int, counter: str | None = None) -> int:
        """Steps behind ``gap``, before ``more`` barriers; or the entries of a counter."""
        if more <= 0 or not self._barriers:
            return 0
        start = gap - self.gaps[0]
        trips, which = divmod(self.upto(gap) + more - 1, len(self._barriers))
        end = trips * len(self.gaps) + self._barriers[which]
        return self._sum(end - 1, counter) - self._sum(start, counter)

    def _sum(self, place: int, counter: str | None) -> int:
        sums = self._sums.get(counter)
        if sums is None:
            weights = [_weight(work, counter) for work in self._works]
            sums = self._sums[counter] = list(accumulate(weights))
        trips, at = divmod(place, len(sums))
        return trips * sums[-1] + sums[at]


def quality(
    scripts: Scripts,
    rows: Sequence[range],
    demanded: Sequence[Distance],
    loads: Sequence[Distance],
) -> Callable[[Counts], Score]:
    """Score the barriers of a loop (``rows`` are the gaps of each script).

    In one script, first by the counter entries that waits for loads may leave in flight. Between
    scripts, first by the least number of steps that the reader executes while a load is in flight,
    then by their sum. Last by how late the barriers stand.
    """
    laps = [Lap(scripts, gaps) for gaps in rows]
    home = {gap: lap for lap in laps for gap in lap.gaps}

    def due(demand: Distance) -> int:
        """The number of the barrier that settles a demand, from the trip of its first event on."""
        theirs = home[demand.second]
        return demand.later * theirs.per_trip + theirs.upto(demand.second) - (demand.apart - 1)

    def own(demand: Distance, counter: str | None = None) -> int:
        mine = home[demand.first]
        return mine.until(demand.first, due(demand) - mine.upto(demand.first), counter)

    def read_meanwhile(load: Distance) -> int:
        theirs = home[load.second]
        # the trip before may end with the same barrier
        before, end = theirs.per_trip, theirs.gaps[-1]
        issued = home[load.first].upto(load.first)
        return theirs.until(end, before + due(load)) - theirs.until(end, before + issued)

    def score(counts: Counts) -> Score:
        for lap in laps:
            lap.stand(counts)
        late = sum(own(demand) for demand in demanded)
        if len(rows) == 1:
            in_flight = (own(load, home[load.first].counter(load.first)) for load in loads)
            return 0, sum(in_flight), late
        found = [read_meanwhile(load) for load in loads]
        return min(found, default=0), sum(found), late

    return score


def _work(scripts: Scripts, gap: int) -> Work | None:
    s, r, p = scripts.places[gap]
    items = scripts.scripts[s].rows[r].items
    item = items[p] if p < len(items) else None
    return item.work if isinstance(item, Doing) else None


def _weight(work: Work | None, counter: str | None) -> int:
    if work is None or counter is None:
        return int(work is not None)
    return work.sure_entries if work.counter == counter else 0
