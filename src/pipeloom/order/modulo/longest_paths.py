"""Longest paths and recurrences of a dependence graph at one II.

At a fixed II an edge is a difference constraint ``S[dst] - S[src] >= weight`` with ``weight =
latency - distance * II``. Everything a scheduler needs to know about the graph follows from
longest paths over these weights: whether the II is possible at all (no positive cycle), how far
apart two ops must be, and which ops belong to one recurrence (strongly connected component).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeloom.errors import InternalError
from pipeloom.order.modulo.parts import Edge

NO_PATH = -(1 << 60)

WeightedEdge = tuple[int, int, int]


def strong_components(count: int, edges: Iterable[Edge]) -> list[list[int]]:
    """Strongly connected components, each sorted, in topological order of the condensation."""
    successors: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        successors[edge.src].append(edge.dst)
    order = [-1] * count
    low = [0] * count
    on_stack = [False] * count
    stack: list[int] = []
    found: list[list[int]] = []
    clock = 0
    for root in range(count):
        if order[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                order[node] = low[node] = clock
                clock += 1
                stack.append(node)
                on_stack[node] = True
            descended = False
            while position < len(successors[node]):
                successor = successors[node][position]
                position += 1
                if order[successor] < 0:
                    work.append((node, position))
                    work.append((successor, 0))
                    descended = True
                    break
                if on_stack[successor]:
                    low[node] = min(low[node], order[successor])
            if descended:
                continue
            if low[node] == order[node]:
                component: list[int] = []
                while True:
                    member = stack.pop()
                    on_stack[member] = False
                    component.append(member)
                    if member == node:
                        break
                found.append(sorted(component))
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
    found.reverse()
    return found


def forward_order(count: int, edges: Iterable[Edge]) -> list[int]:
    """Ops in an order that zero-distance edges follow, so few passes settle longest paths."""
    within = [edge for edge in edges if edge.distance == 0]
    return [op for component in strong_components(count, within) for op in component]


class TimedGraph:
    """The graph at one II: weighted edges, grouped by source and sorted for fast settling."""

    def __init__(
        self, count: int, edges: Sequence[Edge], ii: int, order: Sequence[int] | None = None
    ) -> None:
        rank = [0] * count
        for position, op in enumerate(forward_order(count, edges) if order is None else order):
            rank[op] = position
        tightest: dict[tuple[int, int], int] = {}
        for edge in edges:
            weight = edge.latency - edge.distance * ii
            key = (edge.src, edge.dst)
            if weight > tightest.get(key, NO_PATH):
                tightest[key] = weight
        self.count = count
        self.edges: list[WeightedEdge] = sorted(
            ((src, dst, weight) for (src, dst), weight in tightest.items()),
            key=lambda edge: (rank[edge[0]], rank[edge[1]]),
        )

    @classmethod
    def reversed(cls, graph: TimedGraph) -> TimedGraph:
        """The same graph with every edge turned round, for distances to the end."""
        turned = cls(graph.count, (), 0)
        turned.edges = [(dst, src, weight) for src, dst, weight in reversed(graph.edges)]
        return turned

    def settle(self, times: list[int]) -> bool:
        """Raise ``times`` to the least values satisfying every edge; False on a positive cycle."""
        for _ in range(self.count + 1):
            changed = False
            for src, dst, weight in self.edges:
                at = times[src] + weight
                if at > times[dst] and times[src] > NO_PATH:
                    times[dst] = at
                    changed = True
            if not changed:
                return True
        return False

    def longest_from(self, source: int) -> list[int]:
        """Longest path weights from ``source`` (0 to itself), NO_PATH where there is none."""
        times = [NO_PATH] * self.count
        times[source] = 0
        self.settle(times)
        return times


def settle_in_slots(timed: TimedGraph, times: list[int], slots: dict[int, int], ii: int) -> None:
    """Raise ``times`` to the least values that satisfy every edge and every given slot."""
    fixed: list[int | None] = [slots.get(op) for op in range(timed.count)]
    for op, slot in enumerate(fixed):
        if slot is not None:
            times[op] += (slot - times[op]) % ii
    for _ in range(timed.count * 4 + 4):
        changed = False
        for src, dst, weight in timed.edges:
            at = times[src] + weight
            if at > times[dst]:
                slot = fixed[dst]
                times[dst] = at if slot is None else at + (slot - at) % ii
                changed = True
        if not changed:
            return
    raise InternalError(f"slots at II {ii} do not extend to a schedule")
