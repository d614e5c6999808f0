"""A schedule without overlap between iterations: it always exists, and starts the search.

Ops are placed in dependence order at the first cycle where their units are free, as in a loop
that is not pipelined at all. Its length is an II at which nothing wraps, so it bounds II from
above for every problem without budgets, in time linear in the body.
"""

from __future__ import annotations

from collections import Counter

from pipeloom.order.modulo.core import Structure


def list_schedule(structure: Structure) -> tuple[int, list[int]]:
    """An II and start times that respect every edge and unit; budgets are not considered."""
    problem = structure.problem
    incoming: list[list[tuple[int, int]]] = [[] for _ in problem.ops]
    for edge in problem.edges:
        if edge.distance == 0:
            incoming[edge.dst].append((edge.src, edge.latency))
    held: list[Counter[int]] = [Counter() for _ in structure.limited]
    last = 0
    starts = [0] * len(problem.ops)
    for op in structure.order:
        at = max((starts[src] + latency for src, latency in incoming[op]), default=0)
        at = max(0, at)
        while not _fits(structure, held, op, at):
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


def _fits(structure: Structure, held: list[Counter[int]], op: int, at: int) -> bool:
    wanted: Counter[tuple[int, int]] = Counter()
    for unit, occupancy, offset in structure.uses[op]:
        capacity = structure.limited[unit].capacity or 0
        for cycle in range(at + offset, at + offset + occupancy):
            wanted[unit, cycle] += 1
            if held[unit][cycle] + wanted[unit, cycle] > capacity:
                return False
    return True
