"""Bounds on II without search: what units, buffers and budgets force, and an II that is enough.

ResMII: a unit of capacity c held for a total of h cycles per iteration needs ``ceil(h / c)``.
What dependence cycles force (RecMII) is in ``recurrences``.

Lifetimes follow from longest paths: a value lives at least from its definition along the longest
path to each reader. Summed over one II, those lifetimes need ``width * length / II`` registers on
average, and the peak is no less. Likewise a channel needs ``ceil(least lifetime / II)`` buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.order.modulo.longest_paths import NO_PATH, TimedGraph
from pipeloom.order.modulo.parts import Channel, Edge, Value
from pipeloom.order.modulo.problem import ModuloProblem


@dataclass(frozen=True, slots=True)
class UnitBound:
    """``unit`` is held ``busy`` cycles per iteration by ``ops`` and so needs ``ii``."""

    unit: str
    capacity: int
    busy: int
    ops: tuple[int, ...]
    ii: int


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


def enough_ii(problem: ModuloProblem) -> int:
    """An II such that a problem with no schedule up to it has none at all.

    Take a schedule at a larger II and mark every start, hold end and lifetime end on the circle
    of slots. There are ``events`` marks, so some gap between neighbours is longer than ``reach``,
    which is more than any latency, hold or buffer count. Cutting one slot out of that gap keeps
    the schedule valid: what crosses the gap has slack to lose, and nothing lives only inside it.
    """
    uses = [use for op in problem.ops for use in op.uses]
    readers = [reader for held in problem.lifetimes for reader in held.readers]
    distance = max([edge.distance for edge in problem.edges] + [r.distance for r in readers] + [0])
    latency = max([abs(edge.latency) for edge in problem.edges] + [0])
    hold = max([use.offset + use.occupancy for use in uses] + [r.hold for r in readers] + [0])
    delay = max([value.delay for value in problem.values] + [0])
    copies = len(problem.ops) * (distance + 2)
    reach = max(latency, hold, delay, copies) + 1
    events = len(problem.ops) + 2 * len(uses) + len(problem.values) + len(readers)
    return events * reach


def exceeds_budget(problem: ModuloProblem, timed: TimedGraph, ii: int) -> str | None:
    """The budget that no schedule at ``ii`` can keep, or None if this cannot be told here."""
    budget = problem.budget
    reach: dict[int, list[int]] = {}

    def least_life(held: Value | Channel) -> int:
        for op in held.fills:
            if op not in reach:
                reach[op] = timed.longest_from(op)
        ends = [
            reach[op][r.op] + r.distance * ii + r.hold - held.delay
            for op in held.fills
            for r in held.readers
            if reach[op][r.op] > NO_PATH
        ]
        return max([0, *ends])

    if budget.registers is not None:
        cycles = sum(value.registers * least_life(value) for value in problem.values)
        if cycles > budget.registers * ii:
            return "registers"
    if budget.lds_bytes is not None:
        held = 0
        for channel in problem.channels:
            held += channel.bytes * max(1, -(-least_life(channel) // ii))
        if held > budget.lds_bytes:
            return "LDS"
    if budget.stages is not None:
        times = [0] * timed.count
        timed.settle(times)
        if max(times) >= budget.stages * ii:
            return "stages"
    return None
