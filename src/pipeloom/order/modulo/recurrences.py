"""Dependence cycles: the one that needs the largest II, and whether any II satisfies them all.

Around a cycle of total latency L and total distance D the schedule must advance L cycles in D
iterations, so ``II >= ceil(L / D)``. Without a distance, a cycle that has a latency has no II.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.order.modulo.longest_paths import strong_components
from pipeloom.order.modulo.parts import Edge

UNREACHABLE_II = 1 << 40


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A dependence cycle; ``edges`` are indices into the edges that were given, in path order."""

    ops: tuple[int, ...]
    edges: tuple[int, ...]
    latency: int
    distance: int

    @property
    def ii(self) -> int:
        """The smallest II this cycle permits; beyond reach if a longer II does not help it."""
        return -(-self.latency // self.distance) if self.distance > 0 else UNREACHABLE_II


def critical_recurrence(count: int, edges: Sequence[Edge]) -> Recurrence | None:
    """A cycle of ``count`` ops that needs the largest II, or None when no cycle needs any.

    Repeatedly asks for a cycle that breaks the current II and raises the II to what that cycle
    needs; the last one found is critical. Each step at least adds one to the II, and in practice
    three or four steps are enough.
    """
    best: Recurrence | None = None
    component_of = [0] * count
    for number, component in enumerate(strong_components(count, edges)):
        for op in component:
            component_of[op] = number
    inside: dict[int, list[tuple[int, Edge]]] = {}
    for index, edge in enumerate(edges):
        if component_of[edge.src] == component_of[edge.dst]:
            inside.setdefault(component_of[edge.src], []).append((index, edge))
    for number in sorted(inside):
        while True:
            cycle = _positive_cycle(inside[number], 0 if best is None else best.ii)
            if cycle is None:
                break
            best = cycle
            if best.ii == UNREACHABLE_II:
                return best
    return best


def _positive_cycle(edges: list[tuple[int, Edge]], ii: int) -> Recurrence | None:
    """A cycle with positive total weight at ``ii``, by longest paths with parent tracing."""
    times = {edge.src: 0 for _, edge in edges}
    parent: dict[int, tuple[int, Edge]] = {}
    # Zero-distance edges first, by source: most of the graph then settles in one pass.
    weighted = [(index, edge, edge.latency - edge.distance * ii) for index, edge in edges]
    weighted.sort(key=lambda item: (item[1].distance, item[0]))
    for _ in range(len(times) + 1):
        moved: int | None = None
        for index, edge, weight in weighted:
            at = times[edge.src] + weight
            if at > times[edge.dst]:
                times[edge.dst] = at
                parent[edge.dst] = (index, edge)
                moved = edge.dst
        if moved is None:
            return None
        cycle = _trace_cycle(parent)
        if cycle is not None:
            return cycle
    return None


def _trace_cycle(parent: dict[int, tuple[int, Edge]]) -> Recurrence | None:
    """A cycle among the parent links, if they have one; such a cycle has positive weight."""
    visited: dict[int, int] = {}
    for walk, start in enumerate(parent):
        at = start
        while at in parent and at not in visited:
            visited[at] = walk
            at = parent[at][1].src
        if at in parent and visited[at] == walk:
            links: list[tuple[int, Edge]] = []
            node = at
            while True:
                links.append(parent[node])
                node = parent[node][1].src
                if node == at:
                    break
            links.reverse()
            return Recurrence(
                tuple(edge.src for _, edge in links),
                tuple(index for index, _ in links),
                sum(edge.latency for _, edge in links),
                sum(edge.distance for _, edge in links),
            )
    return None
