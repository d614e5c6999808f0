"""List scheduling of the whole body, pipelined and not: the one heuristic beside CP-SAT.

``ListScheduler`` places ops at one II, one after the other, each as early as its placed producers
and the units allow; an op that only has placed consumers goes as late as they allow, so lifetimes
come out short. Windows follow longest paths, so no op lands where a later one could not keep its
edges, and only units can be in the way. The op that found no slot is taken first in the next
attempt, and when that does not help another order of all ops is tried (``ORDERS``).

It proves nothing, but most loops end here, in about a millisecond: of 354 published ones, fewer
than ten leave the best schedule for CP-SAT to find.

``unpipelined`` is the loop whose iterations do not overlap. It always exists, and bounds II from
above for every problem without budgets, in time linear in the body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.longest_paths import TimedGraph, settle_in_slots
from pipeloom.order.modulo.reservations import ReservationTable, first_free, last_free

ATTEMPTS = 12
"""Attempts with each order. Where an order succeeds at all, it does so by then on all but a few of
the published loops; more only delay the exact search of IIs that are impossible."""

PATIENT_ATTEMPTS = 60
"""The same for an II that has resisted CP-SAT's first round: what is still open then is worth it
(aes2/graph4 of MachSuite: II 32 instead of 33, after 0.04 s)."""

ORDERS = ("urgent", "tight", "long")
"""What goes first: ops whose latest start on the critical path is early, as in any list scheduler
(it alone settles 19 loops of 20); ops with little slack, which are those of recurrences (bodies of
thousands of ops); long holds of units, before short ones break their gaps up (units that are full,
as the matrix unit of a GEMM is). The last gives slots only and follows no edge between recurrences:
what such an edge asks for, whole IIs give."""


class ListScheduler:
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
        self.timed = timed
        self._link(timed.edges)
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
        self.room = structure.room(self.holds)

    def _link(self, edges: Iterable[tuple[int, int, int]]) -> None:
        """The edges that windows follow."""
        self.after: list[list[tuple[int, int]]] = [[] for _ in range(self.count)]
        self.before: list[list[tuple[int, int]]] = [[] for _ in range(self.count)]
        for src, dst, weight in edges:
            if src != dst:
                self.after[src].append((dst, weight))
                self.before[dst].append((src, weight))

    def run(self, attempts: int = ATTEMPTS) -> list[int] | None:
        if not self.possible:
            return None
        component_of = self.structure.component_of
        for order in ORDERS:
            if order == "long":
                self._link(e for e in self.timed.edges if component_of[e[0]] == component_of[e[1]])
            ranks = self._ranks(order)
            stuck: Counter[int] = Counter()
            for _ in range(attempts):
                times, blocked = self._attempt(
                    sorted(range(self.count), key=lambda op: (-stuck[op], ranks[op]))
                )
                if blocked is None:
                    slots = {op: times[op] % self.ii for op in range(self.count) if self.holds[op]}
                    settle_in_slots(self.timed, times, slots, self.ii)
                    return times
                stuck[blocked] += 1
        return None

    def _ranks(self, order: str) -> list[tuple[int, ...]]:
        """A sort key per op; the forward order settles ties."""
        ranks: list[tuple[int, ...]] = []
        for op, (head, latest) in enumerate(zip(self.heads, self.latest, strict=True)):
            held = sum(hold.length for hold in self.holds[op])
            first = {
                "urgent": (latest,),
                "tight": (not held, latest - head),
                "long": (-held, latest),
            }
            ranks.append((*first[order], head, self.rank[op]))
        return ranks

    def _attempt(self, order: list[int]) -> tuple[list[int], int | None]:
        """Times, and the op that found no slot (None when all did)."""
        table = ReservationTable(self.ii, self.room, self.effort)
        low, high = list(self.heads), list(self.latest)
        done = [False] * self.count
        for op in order:
            at = self._slot(op, table, low, high, done)
            if at is None:
                return low, op
            table.add(self.holds[op], at % self.ii)
            done[op] = True
            if not self._fix(op, at, low, high):
                return low, op
        return low, None

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


def unpipelined(structure: Structure) -> tuple[int, list[int]]:
    """An II and start times that respect every edge and unit; budgets are not considered."""
    problem = structure.problem
    incoming: list[list[tuple[int, int]]] = [[] for _ in problem.ops]
    for edge in problem.edges:
        if edge.distance == 0:
            incoming[edge.dst].append((edge.src, edge.latency))
    held: list[Counter[int]] = [Counter() for _ in structure.capacity]
    last = 0
    starts = [0] * len(problem.ops)
    for op in structure.order:
        at = max((starts[src] + latency for src, latency in incoming[op]), default=0)
        at = max(0, at)
        while not _fits_unpipelined(structure, held, op, at):
            at += 1
        for unit, occupancy, offset in structure.uses[op]:
            for cycle in range(at + offset, at + offset + occupancy):
                held[unit][cycle] += 1
                last = max(last, cycle)
        starts[op] = at
    ii = 1 + max([*starts, last])
    for edge in problem.edges:
        if edge.distance:
            gap = starts[edge.src] + edge.latency - starts[edge.dst]
            ii = max(ii, -(-gap // edge.distance))
    return ii, starts


def _fits_unpipelined(structure: Structure, held: list[Counter[int]], op: int, at: int) -> bool:
    wanted: Counter[tuple[int, int]] = Counter()
    for unit, occupancy, offset in structure.uses[op]:
        capacity = structure.capacity[unit]
        for cycle in range(at + offset, at + offset + occupancy):
            wanted[unit, cycle] += 1
            if held[unit][cycle] + wanted[unit, cycle] > capacity:
                return False
    return True
