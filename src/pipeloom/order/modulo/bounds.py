"""Lower bounds on II that need no search: resources (ResMII) and recurrences (RecMII).

ResMII: a unit of capacity c held for a total of h cycles per iteration needs ``ceil(h / c)``.
RecMII: around a dependence cycle of total latency L and total distance D the schedule must
advance L cycles in D iterations, so ``II >= ceil(L / D)``; the worst cycle decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.order.modulo.longest_paths import strong_components
from pipeloom.order.modulo.problem import Edge, ModuloProblem

UNREACHABLE_II = 1 << 40


@dataclass(frozen=True, slots=True)
class UnitBound:
    """``unit`` is held ``busy`` cycles per iteration by ``ops`` and so needs ``ii``."""

    unit: str
    capacity: int
    busy: int
    ops: tuple[int, ...]
    ii: int


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A dependence cycle; ``edges`` are indices into the problem's edges, in path order."""

    ops: tuple[int, ...]
    edges: tuple[int, ...]
    latency: int
    distance: int

    @property
    def ii(self) -> int:
        """The smallest II this cycle permits; beyond reach if a longer II does not help it."""
        return -(-self.latency // self.distance) if self.distance > 0 else UNREACHABLE_II


def unit_bounds(problem: ModuloProblem) -> tuple[UnitBound, ...]:
    """One bound per limited unit that is used, in the order the units are declared."""
    busy: dict[str, int] = {}
    users: dict[str, list[int]] = {}
    for index, op in enumerate(problem.ops):
        for use in op.uses:
            busy[use.unit] = busy.get(use.unit, 0) + use.occupancy
            ops = users.setdefault(use.unit, [])
            if not ops or ops[-1] != index:
                ops.append(index)
    return tuple(
        UnitBound(
            unit.name,
            unit.capacity,
            busy[unit.name],
            tuple(users[unit.name]),
            -(-busy[unit.name] // unit.capacity),
        )
        for unit in problem.units
        if unit.capacity is not None and unit.name in busy
    )


def res_mii(problem: ModuloProblem) -> int:
    """The largest unit bound; at least 1."""
    return max((bound.ii for bound in unit_bounds(problem)), default=1)


def most_buffers(problem: ModuloProblem) -> tuple[int | None, ...]:
    """Per channel, a number of buffers that no schedule can exceed, or None.

    Either declared, or what LDS leaves when every other channel has but one.
    """
    limit = problem.budget.lds_bytes
    least = sum(channel.bytes for channel in problem.channels)
    found: list[int | None] = []
    for channel in problem.channels:
        most = channel.max_buffers
        if limit is not None and channel.bytes:
            room = max(0, (limit - least + channel.bytes) // channel.bytes)
            most = room if most is None else min(most, room)
        found.append(most)
    return tuple(found)


def buffer_edges(problem: ModuloProblem) -> tuple[Edge, ...]:
    """A limit of n buffers as dependences: the read must end before the buffer is filled again.

    ``S[fill] + n * II >= S[reader] + distance * II + hold`` is an edge from reader to fill of
    latency ``hold`` and distance ``n - distance``, which may be negative.
    """
    return tuple(
        Edge(reader.op, fill, reader.hold, most - reader.distance)
        for channel, most in zip(problem.channels, most_buffers(problem), strict=True)
        if most is not None
        for fill in channel.fills
        for reader in channel.readers
    )


def critical_recurrence(problem: ModuloProblem, extra: Sequence[Edge] = ()) -> Recurrence | None:
    """A cycle that needs the largest II, or None when no cycle needs any.

    Repeatedly asks for a cycle that breaks the current II and raises the II to what that cycle
    needs; the last one found is critical. Each step at least adds one to the II, and in practice
    three or four steps are enough. ``extra`` edges take part, numbered after the problem's own.
    """
    edges = (*problem.edges, *extra)
    best: Recurrence | None = None
    component_of = [0] * len(problem.ops)
    for number, component in enumerate(strong_components(len(problem.ops), edges)):
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


def enough_ii(problem: ModuloProblem) -> int:
    """An II such that a problem with no schedule up to it has none at all.

    Take a schedule at a larger II and mark every start, hold end and lifetime end on the circle
    of slots. There are ``events`` marks, so some gap between neighbours is longer than ``reach``,
    which is more than any latency, hold or buffer count. Cutting one slot out of that gap keeps
    the schedule valid: what crosses the gap has slack to lose, and nothing lives only inside it.
    """
    uses = [use for op in problem.ops for use in op.uses]
    readers = [reader for value in problem.values for reader in value.readers]
    readers += [reader for channel in problem.channels for reader in channel.readers]
    distance = max([edge.distance for edge in problem.edges] + [r.distance for r in readers] + [0])
    latency = max([abs(edge.latency) for edge in problem.edges] + [0])
    hold = max([use.offset + use.occupancy for use in uses] + [r.hold for r in readers] + [0])
    delay = max([value.delay for value in problem.values] + [0])
    copies = len(problem.ops) * (distance + 2)
    reach = max(latency, hold, delay, copies) + 1
    events = len(problem.ops) + 2 * len(uses) + len(problem.values) + len(readers)
    return events * (reach + 1)
