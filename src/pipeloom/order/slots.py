"""Where one group of waves can issue instructions between its products."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import floor


class Slots:
    """Free issue slots of one group over one iteration, each with its distance to the next."""

    def __init__(self, times: list[float], ii: float, issue: float) -> None:
        self._free = sorted(times)
        self._ii = ii
        self._issue = issue
        gaps = [there - here for here, there in pairwise(self._free)]
        self._single = min(gaps, default=0.0) > issue + 0.5

    def drop(self, first: float, last: float) -> None:
        """Keep a stretch of the iteration free of everything."""
        length = last - first
        self._free = [t for t in self._free if not 0 <= (t - first) % self._ii < length]

    def take(self, low: float, wanted: float, high: float) -> float:
        """The slot nearest to ``wanted`` within the limits; ``wanted`` itself if none is free."""
        free, ii = self._free, self._ii
        near = min(max(wanted, low), high)
        found: list[tuple[float, float, int]] = []
        first, last = (floor((near - t) / ii) for t in (free[-1], free[0])) if free else (0, -2)
        for turn in range(first, last + 2):
            # The nearest is a neighbour of that time on one of these laps; two on either side of
            # it, for what rounding does to times that are equal.
            at = bisect(free, near - turn * ii)
            for n in range(max(0, at - 2), min(len(free), at + 2)):
                time = free[n] + turn * ii
                if low <= time <= high and abs(turn - round((wanted - free[n]) / ii)) <= 1:
                    found.append((abs(time - wanted), time, n))
        if not found:
            return near
        _, time, n = min(found)
        del free[n]
        return time

    def pairs(self, low: float, high: float) -> Iterator[float]:
        """Slots with another one right behind, from ``low`` to ``high``, one lap at most; where
        products leave single ones only, any."""
        ahead = sorted((t - low) % self._ii for t in self._free)
        near = self._issue + 0.5
        found = [here for here, there in pairwise(ahead) if there - here < near or self._single]
        yield from (low + here for here in found if low + here <= high)

    def take_pair(self, at: float) -> None:
        """Take a slot and the next."""
        self.drop(at - 0.25, at + self._issue + 0.25)

    def take_paced(self, low: float, high: float, taken: Sequence[float], pace: float) -> float:
        """The first pair from ``low`` on that keeps its distance from what was ``taken``, as far as
        it can before ``high``."""
        half, ii = self._ii / 2, self._ii  # distances in time, the short way round the loop
        found: list[tuple[float, float]] = []
        for at in self.pairs(low, low + ii):
            apart = min([abs((at - t + half) % ii - half) for t in taken], default=pace)
            if at <= high and apart >= pace:
                self.take_pair(at)
                return at
            found.append((at, apart))
        # From all of the pace down to none of it: late is worse than near to another load.
        for most in (high, low + ii):
            for share in (1.0, 0.9, 0.75, 0.5, 0.25, 0.0):
                for at, apart in found:
                    if at <= most and apart >= share * pace:
                        self.take_pair(at)
                        return at
        return low
