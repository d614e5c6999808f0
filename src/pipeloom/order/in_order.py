"""A strategy that asks for nothing: loads an iteration ahead, the rest one after the other.

Every task starts when the one before it is through with its unit and its operands are there; what
is read from LDS is read where it is first needed, so it holds its registers as briefly as may be.
Good for loops that no search knows how to weave, at once and in few registers.
"""

from __future__ import annotations

from pipeloom.order.modulo import ModuloProblem, check_modulo
from pipeloom.order.strategy import Timetable


def in_order(problem: ModuloProblem) -> Timetable:
    """The timetable; never refused by the problem, unless its storage is too small for it.

    Where that has no room for the loads of two iterations, each one waits for its own.
    """
    ahead = _timetable(problem, ahead=True)
    crowded = any(v.kind == "buffers" for v in check_modulo(problem, ahead.ii, ahead.starts))
    return _timetable(problem, ahead=False) if crowded else ahead


def _timetable(problem: ModuloProblem, *, ahead: bool) -> Timetable:
    """The order, with loads an iteration ``ahead`` of what uses them, or in the same one."""
    before: list[list[int]] = [[] for _ in problem.ops]
    for edge in problem.edges:
        if edge.distance == 0:
            before[edge.dst].append(edge.src)
    first = [i for i, op in enumerate(problem.ops) if op.load and not before[i]]
    order = _after(problem, first, before)
    starts = dict.fromkeys(range(len(problem.ops)), 0)
    at = 0
    for op in first:
        starts[op] = at
        at += _busy(problem, op)
    loads = at
    for op in order:
        ready = [
            starts[e.src] + e.latency
            for e in problem.edges
            if e.dst == op and e.distance == 0 and not (ahead and e.src in first)
        ]
        starts[op] = max([at, *ready])
        at = starts[op] + _busy(problem, op)
    held = (starts[r.op] + r.hold for c in problem.channels for r in c.readers if not r.distance)
    ii = at if ahead else max([at, *held])
    late = set(order) if ahead else set()
    while True:
        # Tasks that compute follow the loads of their iteration by ``ii``.
        needed = ii
        for edge in problem.edges:
            turns = (edge.dst in late) - (edge.src in late) + edge.distance
            gap = starts[edge.src] + edge.latency - starts[edge.dst]
            if turns > 0 and gap > turns * ii:
                needed = max(needed, -(-gap // turns))
        if needed == ii:
            break
        ii = needed
    assert loads <= ii
    return Timetable(ii, tuple(starts[i] + (ii if i in late else 0) for i in starts))


def _after(problem: ModuloProblem, first: list[int], before: list[list[int]]) -> list[int]:
    """What is not loaded first, operands before users, and reads of loads as late as may be."""
    served = {i: set(before[i]) for i in range(len(problem.ops))}
    reads = {i for i in served if served[i] and served[i] <= set(first)}
    order: list[int] = []
    placed = set(first)

    def visit(op: int) -> None:
        if op in placed:
            return
        placed.add(op)
        for other in before[op]:
            visit(other)
        order.append(op)

    for op in [*(i for i in served if i not in reads), *reads]:
        visit(op)
    return order


def _busy(problem: ModuloProblem, op: int) -> int:
    return max([1, *(use.offset + use.occupancy for use in problem.ops[op].uses)])
