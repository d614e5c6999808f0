"""The part of a problem that decides whether an II is possible, when nothing else is limited.

Without budgets, most of a loop body cannot make an II impossible. Ops on no limited unit only
stretch distances, so longest paths replace them. Ops outside every recurrence can always move
later by whole IIs, which leaves the reservation table alone; if such an op holds one unit for
one cycle, it fits any table that has a free slot, and ResMII guarantees one. The same goes for
the only op of a recurrence that uses a limited unit. What remains is the *core*: two or more ops
of limited units on one recurrence, and ops that hold units for longer.

Two core ops of the same recurrence (*group*) are tied by the longest paths between them; ops of
different groups meet only in the reservation table.

Example: in a body of 177 ops of the AES benchmark, 45 cycles long around its recurrence, the
core is the memory accesses on that recurrence; the arithmetic between them has become distances.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeloom.order.modulo.bounds import buffer_edges
from pipeloom.order.modulo.longest_paths import TimedGraph, forward_order, strong_components
from pipeloom.order.modulo.parts import Edge
from pipeloom.order.modulo.problem import ModuloProblem


@dataclass(frozen=True, slots=True)
class Hold:
    """A reservation folded to one II: ``length < II`` cycles from ``offset``, ``laps`` always."""

    unit: int
    offset: int
    length: int
    laps: int


@dataclass(frozen=True, slots=True)
class Core:
    """Ops to place at ``ii``. ``far[g][a][b]`` is the least distance from op a to op b of group
    g, by position in ``groups[g]``; ``fillers`` are limited ops that fit once the groups do."""

    ii: int
    groups: tuple[tuple[int, ...], ...]
    far: tuple[tuple[tuple[int, ...], ...], ...]
    holds: dict[int, tuple[Hold, ...]]
    fillers: tuple[int, ...]


class Structure:
    """What of the graph does not depend on II, computed once per problem."""

    def __init__(self, problem: ModuloProblem) -> None:
        self.problem = problem
        self.order = forward_order(len(problem.ops), problem.edges)
        self.edges = (*problem.edges, *buffer_edges(problem))
        self.components = strong_components(len(problem.ops), self.edges)
        self.component_of = [0] * len(problem.ops)
        for number, component in enumerate(self.components):
            for op in component:
                self.component_of[op] = number
        self.inner_edges: list[list[Edge]] = [[] for _ in self.components]
        for edge in self.edges:
            number = self.component_of[edge.src]
            if number == self.component_of[edge.dst]:
                self.inner_edges[number].append(edge)
        limited = [unit for unit in problem.units if unit.capacity is not None]
        self.capacity = [unit.capacity or 0 for unit in limited]
        index = {unit.name: number for number, unit in enumerate(limited)}
        self.uses: list[list[tuple[int, int, int]]] = [
            [(index[use.unit], use.occupancy, use.offset) for use in op.uses if use.unit in index]
            for op in problem.ops
        ]

    def stretches(self) -> bool:
        """Whether a schedule at some II always gives one at II + 1, when nothing is budgeted.

        Keep every op's slot and lap: ``S' = lap * (II + 1) + slot``. One-cycle holds still meet
        only where they met before. An edge of latency >= 0 and distance d has ``lap(dst) -
        lap(src) >= -d``, so S' gains at least what the edge loses.
        """
        return all(
            occupancy == 1 and offset == 0 for uses in self.uses for _, occupancy, offset in uses
        ) and all(edge.latency >= 0 for edge in self.edges)

    def holds(self, op: int, ii: int) -> tuple[Hold, ...]:
        """The op's limited reservations, folded to ``ii``."""
        return tuple(
            Hold(unit, offset % ii, occupancy % ii, occupancy // ii)
            for unit, occupancy, offset in self.uses[op]
        )

    def room(self, held: Iterable[tuple[Hold, ...]]) -> list[int]:
        """Per limited unit, how often a slot may be held besides holds that lap the whole II.

        It is never negative at an II that the units allow (ResMII).
        """
        room = list(self.capacity)
        for holds in held:
            for hold in holds:
                room[hold.unit] -= hold.laps
        return room

    def is_filler(self, op: int) -> bool:
        """Whether the op, tied to no other limited op, fits any table with a free slot."""
        return len(self.uses[op]) == 1 and self.uses[op][0][1] == 1

    def timed(self, ii: int) -> TimedGraph:
        """The whole graph at ``ii``."""
        return TimedGraph(len(self.problem.ops), self.edges, ii, self.order)

    def core(self, ii: int) -> Core:
        """The ops that decide ``ii``; the recurrences must allow it (RecMII)."""
        groups: list[tuple[int, ...]] = []
        far: list[tuple[tuple[int, ...], ...]] = []
        fillers: list[int] = []
        for number, component in enumerate(self.components):
            members = tuple(op for op in component if self.uses[op])
            if not members:
                continue
            if len(members) == 1:
                if self.is_filler(members[0]):
                    fillers.append(members[0])
                else:
                    groups.append(members)
                    far.append(((0,),))
                continue
            groups.append(members)
            far.append(self._distances(number, members, ii))
        holds = {op: self.holds(op, ii) for group in groups for op in group}
        return Core(ii, tuple(groups), tuple(far), holds, tuple(fillers))

    def _distances(
        self, number: int, members: tuple[int, ...], ii: int
    ) -> tuple[tuple[int, ...], ...]:
        component = self.components[number]
        local = {op: position for position, op in enumerate(component)}
        edges = [
            Edge(local[edge.src], local[edge.dst], edge.latency, edge.distance)
            for edge in self.inner_edges[number]
        ]
        graph = TimedGraph(len(component), edges, ii)
        targets = [local[op] for op in members]
        rows: list[tuple[int, ...]] = []
        for op in members:
            reach = graph.longest_from(local[op])
            rows.append(tuple(reach[target] for target in targets))
        return tuple(rows)
