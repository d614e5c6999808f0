"""What every schedule at one II must hold, from longest paths alone.

A value lives at least from its definition along the longest path to each reader. Summed over one
II, those lifetimes need ``width * length / II`` registers on average, and the peak is no less.
Likewise a channel needs ``ceil(least lifetime / II)`` buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.order.modulo.longest_paths import NO_PATH, TimedGraph
from pipeloom.order.modulo.parts import Reader
from pipeloom.order.modulo.problem import ModuloProblem


def exceeds_budget(problem: ModuloProblem, timed: TimedGraph, ii: int) -> str | None:
    """The budget that no schedule at ``ii`` can keep, or None if this cannot be told here."""
    budget = problem.budget
    reach: dict[int, list[int]] = {}

    def least_life(op: int, readers: Sequence[Reader], delay: int) -> int:
        if op not in reach:
            reach[op] = timed.longest_from(op)
        ends = [
            reach[op][r.op] + r.distance * ii + r.hold - delay
            for r in readers
            if reach[op][r.op] > NO_PATH
        ]
        return max([0, *ends])

    if budget.registers is not None:
        cycles = sum(
            value.registers * least_life(value.op, value.readers, value.delay)
            for value in problem.values
        )
        if cycles > budget.registers * ii:
            return "registers"
    if budget.lds_bytes is not None:
        held = 0
        for channel in problem.channels:
            life = max(least_life(op, channel.readers, 0) for op in channel.fills)
            held += channel.bytes * max(1, -(-life // ii))
        if held > budget.lds_bytes:
            return "LDS"
    if budget.stages is not None:
        times = [0] * timed.count
        timed.settle(times)
        if max(times) >= budget.stages * ii:
            return "stages"
    return None
