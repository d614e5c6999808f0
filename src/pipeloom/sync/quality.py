"""Which of several sets of barriers, equally many, costs least: what happens until they publish.

A demand is settled at one barrier; the wait for its first event stands before it. The longer until
then, the less anybody stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipeloom.program import Work
from pipeloom.sync.levels import Counts, Distance
from pipeloom.sync.script import Doing, Scripts

Score = tuple[int, int, int]


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
    home = {gap: gaps for gaps in rows for gap in gaps}

    def work(gap: int) -> Work | None:
        s, r, p = scripts.places[gap]
        items = scripts.scripts[s].rows[r].items
        item = items[p] if p < len(items) else None
        return item.work if isinstance(item, Doing) else None

    def upto(counts: Counts, gap: int) -> int:
        return sum(counts.get(other, 0) for other in home[gap] if other <= gap)

    def due(counts: Counts, demand: Distance) -> int:
        """The number of the barrier that settles a demand, from the trip of its first event on."""
        per_trip = upto(counts, home[demand.second][-1])
        return demand.later * per_trip + upto(counts, demand.second) - (demand.apart - 1)

    def between(counts: Counts, gaps: range, at: int, passed: int, end: int) -> Iterator[Work]:
        """The work of a script behind gap ``at``, ``passed`` barriers in, until barrier ``end``."""
        while passed < end and upto(counts, gaps[-1]):
            at = at + 1 if at + 1 in gaps else gaps[0]
            passed += counts.get(at, 0)
            found = work(at)
            if found is not None and passed < end:
                yield found

    def own(counts: Counts, demand: Distance) -> list[Work]:
        start = upto(counts, demand.first)
        until = due(counts, demand)
        return list(between(counts, home[demand.first], demand.first, start, until))

    def in_flight(counts: Counts, load: Distance) -> int:
        loading = work(load.first)
        assert loading is not None
        return sum(w.entries for w in own(counts, load) if w.counter == loading.counter)

    def read_meanwhile(counts: Counts, load: Distance) -> int:
        theirs = home[load.second]
        begin = -upto(counts, theirs[-1])  # the trip before may end with the same barrier
        issued, until = upto(counts, load.first), due(counts, load)
        everything = len(list(between(counts, theirs, theirs[-1], begin, until)))
        return everything - len(list(between(counts, theirs, theirs[-1], begin, issued)))

    def score(counts: Counts) -> Score:
        late = sum(len(own(counts, demand)) for demand in demanded)
        if len(rows) == 1:
            return 0, sum(in_flight(counts, load) for load in loads), late
        found = [read_meanwhile(counts, load) for load in loads]
        return min(found, default=0), sum(found), late

    return score
