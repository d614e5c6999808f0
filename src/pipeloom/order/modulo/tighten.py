"""Shorter lifetimes at the same II: move producers towards their readers.

Schedules come out with every op as early as it can be, so values and buffers wait for readers.
An op that frees more by starting later than it makes its own inputs wait is moved to the last
free slot before its successors, from the end of the body backwards. Costs are shares of the
budget, so that a register and a kilobyte of LDS can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.longest_paths import TimedGraph
from pipeloom.order.modulo.reservations import ReservationTable, last_free

PASSES = 3


def tighten_lifetimes(
    structure: Structure, timed: TimedGraph, ii: int, starts: Sequence[int]
) -> list[int]:
    """Start times with the same II and stages or fewer, and lifetimes that are no worse."""
    times = list(starts)
    count = len(times)
    weigh = _Weights(structure)
    if not any(weigh.freed):
        return times
    after: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for src, dst, weight in timed.edges:
        if src != dst:
            after[src].append((dst, weight))
    holds = [structure.holds(op, ii) for op in range(count)]
    base = [0] * len(structure.limited)
    for items in holds:
        for hold in items:
            base[hold.unit] += hold.laps
    table = ReservationTable(ii, tuple(u.capacity or 0 for u in structure.limited), tuple(base))
    for op in range(count):
        table.add(holds[op], times[op] % ii)
    last = max(times)
    for _ in range(PASSES):
        moved = False
        for op in sorted(range(count), key=lambda item: (-times[item], item)):
            latest = min((times[dst] - weight for dst, weight in after[op]), default=last)
            latest = min(latest, last)
            if latest <= times[op] or weigh.freed[op] <= weigh.waiting(op, times, ii):
                continue
            table.remove(holds[op], times[op] % ii)
            at = last_free(table.starts(holds[op]), times[op], latest, ii)
            if at is not None and at > times[op]:
                times[op] = at
                moved = True
            table.add(holds[op], times[op] % ii)
        if not moved:
            break
    return times


class _Weights:
    """What a cycle of delay of each op frees, and what it makes wait."""

    def __init__(self, structure: Structure) -> None:
        problem = structure.problem
        registers = problem.budget.registers or sum(v.registers for v in problem.values) or 1
        lds = problem.budget.lds_bytes or sum(c.bytes for c in problem.channels) or 1
        self.freed = [0.0] * len(problem.ops)
        self.claims: list[tuple[float, tuple[tuple[int, int, int], ...]]] = []
        self.reads: list[list[int]] = [[] for _ in problem.ops]
        for value in problem.values:
            share = value.registers / registers
            self.freed[value.op] += share
            self._claim(share, tuple((r.op, r.distance, r.hold) for r in value.readers))
        for channel in problem.channels:
            share = channel.bytes / lds
            for op in channel.fills:
                self.freed[op] += share
            self._claim(share, tuple((r.op, r.distance, r.hold) for r in channel.readers))

    def _claim(self, share: float, readers: tuple[tuple[int, int, int], ...]) -> None:
        for op, _, _ in readers:
            self.reads[op].append(len(self.claims))
        self.claims.append((share, readers))

    def waiting(self, op: int, times: list[int], ii: int) -> float:
        """Shares whose last reader is ``op``: they would live on by what it moves."""
        total = 0.0
        for index in self.reads[op]:
            share, readers = self.claims[index]
            ends = {reader: times[reader] + d * ii + hold for reader, d, hold in readers}
            if ends[op] == max(ends.values()):
                total += share
        return total
