"""Where one group of waves can issue instructions between its products."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf


class Slots:
    """Free issue slots of one group over one iteration, each with its distance to the next."""

    def __init__(self, times: list[float], ii: float, issue: float) -> None:
        self._free = sorted(times)
        self._ii = ii
        self._issue = issue

    def drop(self, first: float, last: float) -> None:
        """Keep a stretch of the iteration free of everything."""
        length = last - first
        self._free = [t for t in self._free if not 0 <= (t - first) % self._ii < length]

    def take(self, low: float, wanted: float, high: float) -> float:
        """The slot nearest to ``wanted`` within the limits; ``wanted`` itself if none is free."""
        best: tuple[float, float, int] | None = None
        ii, nearest = self._ii, inf
        for n, slot in enumerate(self._free):
            turns = round((wanted - slot) / ii)
            for turn in (turns - 1, turns, turns + 1):
                at = slot + turn * ii
                if low <= at <= high and (apart := abs(at - wanted)) <= nearest:
                    found = (apart, at, n)
                    best = found if best is None else min(best, found)
                    nearest = best[0]
        if best is None:
            return min(max(wanted, low), high)
        del self._free[best[2]]
        return best[1]

    def pairs(self, low: float, high: float) -> Iterator[float]:
        """Slots with another one right behind, from ``low`` to ``high``, one lap at most."""
        ahead = sorted((t - low) % self._ii for t in self._free)
        for here, there in pairwise(ahead):
            if there - here < self._issue + 0.5 and low + here <= high:
                yield low + here

    def take_pair(self, at: float) -> None:
        """Take a slot and the next."""
        self.drop(at - 0.25, at + self._issue + 0.25)
