"""The fewest VGPRs any order can do with, time and blocks aside.

The registers live after some ops depend only on which ops they are, so this is a question about
sets: is there a path from nothing to everything that never needs more than ``peak``? Two moves
are always right. An op that frees at least what it defines may go next as soon as it fits. And,
read backwards, an op that defines at least what it frees may go last if it fits there:

    live 10, peak 16:  a defines 4, frees 8 -> next;  b (no successors) defines 8, frees 0 -> last

Most bodies are settled by these two alone; the rest branches, with failed sets remembered.
"""

from __future__ import annotations

from pipeloom.strategies.budget import Budget
from pipeloom.strategies.tables import NEVER, Tables

_EFFORT_ONCE = 1000
_EFFORT_PER_STATE = 64
"""Sets examined for one question; beyond that the answer is a cautious yes."""


class Registers:
    """Answers for one body; remembers them. Each set examined counts as a node."""

    def __init__(self, tables: Tables, budget: Budget) -> None:
        self._tables = tables
        self._budget = budget
        self._net = [d - k for d, k in zip(tables.defines, tables.kills, strict=True)]
        self._after = [0] * tables.n
        for i in range(tables.n):
            for p in range(tables.n):
                if tables.before[i] >> p & 1:
                    self._after[p] |= 1 << i
        self._known: dict[tuple[int, int, int], bool] = {}
        self._blocked = NEVER
        self._effort = 0

    def least_peak(self, ceiling: int) -> int:
        """A peak no order can beat, at most ``ceiling``."""
        peak = 0
        while peak < ceiling:
            self._blocked = NEVER
            self._known.clear()
            if self._can_complete(0, 0, peak, _EFFORT_ONCE):
                return peak
            peak = self._blocked
        return ceiling

    def can_complete(self, placed: int, live: int, peak: int) -> bool:
        """Whether the ops not in ``placed`` fit in ``peak``; True also where that is unclear."""
        return self._can_complete(placed, live, peak, _EFFORT_PER_STATE)

    def _can_complete(self, placed: int, live: int, peak: int, effort: int) -> bool:
        self._effort = effort
        tables = self._tables
        open_half = tables.first_half & ~placed
        if not open_half or not tables.second_half:
            return self._fits(tables.everything & ~placed, live, peak)
        if not self._fits(open_half, live, peak):
            return False
        live += sum(self._net[i] for i in range(tables.half) if open_half >> i & 1)
        return self._fits(tables.second_half, live, peak)

    def _fits(self, todo: int, live: int, peak: int) -> bool:
        """Whether the ops of ``todo``, and nothing else, can be placed from ``live`` on."""
        known = self._known.get((todo, live, peak))
        if known is not None:
            return known
        self._effort -= 1
        if self._effort < 0:
            return True
        self._budget.spend()
        answer = self._decide(todo, live, peak)
        if self._effort >= 0:
            self._known[todo, live, peak] = answer
        return answer

    def _decide(self, todo: int, live: int, peak: int) -> bool:
        before, after, net = self._tables.before, self._after, self._net
        defines, kills = self._tables.defines, self._tables.kills
        end = live
        rest = [i for i in self._tables.sequence if todo >> i & 1]
        for i in rest:
            end += net[i]
        blocked = NEVER
        progress = True
        while progress:
            progress = False
            blocked = NEVER
            for i in rest:
                bit = 1 << i
                if not todo & bit:
                    continue
                if net[i] <= 0 and not before[i] & todo:
                    if live + defines[i] <= peak:
                        todo ^= bit
                        live += net[i]
                        progress = True
                        continue
                    blocked = min(blocked, live + defines[i])
                if net[i] >= 0 and not after[i] & todo:
                    if end + kills[i] <= peak:
                        todo ^= bit
                        end -= net[i]
                        progress = True
                        continue
                    blocked = min(blocked, end + kills[i])
        if not todo:
            return True
        for i in rest:
            if todo >> i & 1 and not before[i] & todo:
                if live + defines[i] > peak:
                    blocked = min(blocked, live + defines[i])
                elif self._fits(todo ^ (1 << i), live + net[i], peak):
                    return True
        self._blocked = min(self._blocked, blocked)
        return False
