"""Modulo list scheduling of the whole body: few stages and short lifetimes, no repair.

Ops are placed in the order of their latest start on the critical path, each as early as its
placed producers and the units allow; an op that only has placed consumers goes as late as they
allow. Windows follow longest paths, so no op lands where a later one could not keep its edges,
and only units can be in the way. The op that found no slot is taken first in the next attempt.

It proves nothing, but what it finds is what budgets ask for.
"""

from __future__ import annotations

from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.longest_paths import TimedGraph
from pipeloom.order.modulo.reservations import ReservationTable, first_free, last_free

ATTEMPTS = 6


class TopDownScheduler:
    """One problem at one II; ``run`` returns start times of all ops, or None."""

    def __init__(
        self,
        structure: Structure,
        timed: TimedGraph,
        ii: int,
        stages: int | None,
        effort: Effort,
    ) -> None:
        self.effort = effort
        self.structure = structure
        self.ii = ii
        self.count = timed.count
        self.after: list[list[tuple[int, int]]] = [[] for _ in range(self.count)]
        self.before: list[list[tuple[int, int]]] = [[] for _ in range(self.count)]
        for src, dst, weight in timed.edges:
            if src != dst:
                self.after[src].append((dst, weight))
                self.before[dst].append((src, weight))
        heads = [0] * self.count
        tails = [0] * self.count
        self.possible = timed.settle(heads)
        TimedGraph.reversed(timed).settle(tails)
        self.heads = heads
        length = max(head + tail for head, tail in zip(heads, tails, strict=True))
        # Without a limit ops may slide past the critical path by a few rows to find a slot.
        span = length + 4 * ii if stages is None else stages * ii - 1
        self.possible = self.possible and length <= span
        self.latest = [span - tail for tail in tails]
        self.rank = [0] * self.count
        for position, op in enumerate(structure.order):
            self.rank[op] = position
        self.holds = [structure.holds(op, ii) for op in range(self.count)]
        base = [0] * len(structure.limited)
        for items in self.holds:
            for hold in items:
                base[hold.unit] += hold.laps
        self.base = tuple(base)
        self.capacity = tuple(unit.capacity or 0 for unit in structure.limited)

    def run(self) -> list[int] | None:
        if not self.possible:
            return None
        urgent: dict[int, int] = {}
        for _ in range(ATTEMPTS):
            times, stuck = self._attempt(urgent)
            if stuck is None:
                return times
            urgent[stuck] = urgent.get(stuck, 0) + 1
        return None

    def _attempt(self, urgent: dict[int, int]) -> tuple[list[int], int | None]:
        """Times, and the op that found no slot (None when all did)."""
        table = ReservationTable(self.ii, self.capacity, self.base, self.effort)
        if table.overfull():
            return [], 0
        low, high = list(self.heads), list(self.latest)
        done = [False] * self.count
        for op in self._order(urgent):
            at = self._slot(op, table, low, high, done)
            if at is None:
                return low, op
            table.add(self.holds[op], at % self.ii)
            done[op] = True
            if not self._fix(op, at, low, high):
                return low, op
        return low, None

    def _order(self, urgent: dict[int, int]) -> list[int]:
        """Stuck ops first, then by latest start; the forward order settles ties."""
        return sorted(
            range(self.count),
            key=lambda op: (-urgent.get(op, 0), self.latest[op], self.heads[op], self.rank[op]),
        )

    def _slot(
        self,
        op: int,
        table: ReservationTable,
        low: list[int],
        high: list[int],
        done: list[bool],
    ) -> int | None:
        first, last = low[op], high[op]
        if first > last:
            return None
        late = not any(done[src] for src, _ in self.before[op]) and any(
            done[dst] for dst, _ in self.after[op]
        )
        if not self.holds[op]:
            return last if late else first
        starts = table.starts(self.holds[op])
        if not starts:
            return None
        return (
            last_free(starts, first, last, self.ii)
            if late
            else first_free(starts, first, last, self.ii)
        )

    def _fix(self, op: int, at: int, low: list[int], high: list[int]) -> bool:
        """Narrow every window to what the placed op leaves; False if one is empty."""
        low[op] = high[op] = at
        pending = [op]
        while pending:
            src = pending.pop()
            for dst, weight in self.after[src]:
                if low[src] + weight > low[dst]:
                    low[dst] = low[src] + weight
                    if low[dst] > high[dst]:
                        return False
                    pending.append(dst)
        pending = [op]
        while pending:
            dst = pending.pop()
            for src, weight in self.before[dst]:
                if high[dst] - weight < high[src]:
                    high[src] = high[dst] - weight
                    if low[src] > high[src]:
                        return False
                    pending.append(src)
        return True
