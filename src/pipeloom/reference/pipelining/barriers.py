"""Where a pipelined loop's barriers cost nothing: between the last moment and the first.

Data crosses waves through LDS twice per buffer: from fill to read, and from the last read to the
next fill. Under the schedule's own times each crossing leaves an interval for its barrier,

    fill -> read         [start of fill + latency,  start of read]
    read -> next fill    [start of read + hold,     start of fill + buffers * II]

A barrier inside the interval waits for nothing that is not over; one before it would stall the
wave. So the fewest barriers that cost nothing are the fewest points that meet every interval,
modulo II. (The fewest barriers of all, which ``synchronize`` finds without times, may stand where
a load has only just been issued.)
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.order.modulo import ModuloResult
from pipeloom.order.modulo.expand import Step
from pipeloom.reference.pipelining.loop import TileLoop


def crossing_intervals(
    loop: TileLoop, result: ModuloResult, counts: dict[str, int]
) -> list[tuple[int, int]]:
    """First and last step at which a barrier serves each crossing; the last is an op's start."""
    starts, ii = result.starts, result.ii
    found: dict[tuple[int, int], None] = {}
    for buffer in loop.buffers:
        for fill in buffer.fills:
            landed = starts[fill] + loop.steps(loop.ops[fill].cycles.latency)
            for reader in buffer.readers:
                read = starts[reader]
                found.setdefault((landed, read))
                done = read + loop.steps(loop.ops[reader].cycles.hold)
                found.setdefault((done, starts[fill] + counts[buffer.name] * ii))
    return list(found)


def kernel_gaps(slots: Sequence[int], kernel: Sequence[Step], ii: int) -> tuple[int, ...]:
    """The kernel ops, by position, before which a barrier stands: the first at or after a slot."""
    rows = 1 + max(step.cycle for step in kernel) // ii
    gaps = []
    for row in range(rows):
        for slot in slots:
            time = row * ii + slot
            at = next((n for n, step in enumerate(kernel) if step.cycle >= time), 0)
            gaps.append(at)
    return tuple(sorted(set(gaps)))
