"""Which of several sets of barriers, equally many, costs least: what happens until they publish.

A demand is settled at one barrier; the wait for its first event stands before it. The longer until
then, the less anybody stands still.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from pipeloom.program import Work
from pipeloom.sync.levels import Counts, Distance
from pipeloom.sync.script import Doing, Scripts

Score = tuple[int, int, int]


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
