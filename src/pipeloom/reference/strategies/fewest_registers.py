"""The fewest VGPRs any order can do with, time and blocks aside.

The registers live after some ops depend only on which ops they are, so this is a question about
sets: is there a path from nothing to everything that never needs more than ``peak``? Two moves
are always right. An op that frees at least what it defines may go next as soon as it fits. And,
read backwards, an op that defines at least what it frees may go last if it fits there:

    live 10, peak 16:  a defines 4, frees 8 -> next;  b (no successors) defines 8, frees 0 -> last

Most bodies are settled by these two alone; the rest branches at whichever end has fewer choices,
with the sets that were decided remembered.
"""

from __future__ import annotations

from pipeloom.reference.strategies.budget import NodeBudget
from pipeloom.reference.strategies.tables import NEVER, Tables

_EFFORT_ONCE = 200
_EFFORT_PER_STATE = 64
"""Sets examined for one question; beyond that the answer is a cautious yes.

Also what keeps the recursion shallow, however long the body.
"""


class LeastRegisters:
    """Answers for one body; remembers them. Each set examined counts as a node."""

    def __init__(self, tables: Tables, budget: NodeBudget) -> None:
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
        peak = min(self._obvious_peak(), ceiling)
        while peak < ceiling:
            self._blocked = NEVER
            self._known.clear()
            if self._can_complete(0, 0, peak, _EFFORT_ONCE):
                return peak
            peak = self._blocked
        return ceiling

    def _obvious_peak(self) -> int:
        """What some op needs if all that may free registers before it has done so."""
        tables, net = self._tables, self._net
        ancestors = [0] * tables.n
        for i in tables.sequence:
            for p in range(tables.n):
                if tables.before[i] >> p & 1:
                    ancestors[i] |= ancestors[p] | 1 << p
            if i >= tables.half:
                ancestors[i] |= tables.first_half
        descendants = [0] * tables.n
        for i in range(tables.n):
            for p in range(tables.n):
                if ancestors[i] >> p & 1:
                    descendants[p] |= 1 << i
        peak = max(0, sum(net))
        for i in range(tables.n):
            live = sum(
                net[j] if ancestors[i] >> j & 1 else min(net[j], 0)
                for j in range(tables.n)
                if j != i and not descendants[i] >> j & 1
            )
            peak = max(peak, live + tables.defines[i])
        return peak

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
        rest = [i for i in self._tables.sequence if todo >> i & 1]
        end = live + sum(net[i] for i in rest)
        progress = True
        while progress:
            progress = False
            first: list[int] = []
            last: list[int] = []
            blocked = NEVER
            for i in rest:
                bit = 1 << i
                if not todo & bit:
                    continue
                if not before[i] & todo:
                    if live + defines[i] > peak:
                        blocked = min(blocked, live + defines[i])
                    elif net[i] <= 0:
                        todo ^= bit
                        live += net[i]
                        progress = True
                        continue
                    else:
                        first.append(i)
                if not after[i] & todo:
                    if end + kills[i] > peak:
                        blocked = min(blocked, end + kills[i])
                    elif net[i] >= 0:
                        todo ^= bit
                        end -= net[i]
                        progress = True
                    else:
                        last.append(i)
        if not todo:
            return True
        if len(last) < len(first):
            branches = [(todo ^ (1 << i), live) for i in last]
        else:
            branches = [(todo ^ (1 << i), live + net[i]) for i in first]
        for left, level in branches:
            if self._fits(left, level, peak):
                return True
        self._blocked = min(self._blocked, blocked)
        return False
