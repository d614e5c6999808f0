"""Iterative modulo scheduling of the core: place greedily, evict what is in the way, repeat.

Rau's scheme ("Iterative modulo scheduling", MICRO 1994), on the core with exact distances. An op
goes to the first free slot of its window; where there is none it is forced in, one cycle later
than last time, and the ops it collides with go back to the queue. It proves nothing, but finds
schedules of large bodies where a depth-first search would thrash.
"""

from __future__ import annotations

import heapq
import random

from pipeloom.order.modulo.core import Core
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.reservations import ReservationTable, first_free

# More than any height or slack, so that ops alone in their group come last.
FIRST = 1e9


def repair_schedule(core: Core, effort: Effort, *, seed: int, rounds: int) -> dict[int, int] | None:
    """Start times for the core, or None once ``rounds`` placements per op are spent."""
    ii = core.ii
    table = ReservationTable(ii, core.capacity, core.base, effort)
    if table.overfull():
        return None
    rng = random.Random(seed)
    ops = core.ops
    home: dict[int, tuple[int, int]] = {}
    for number, group in enumerate(core.groups):
        for position, op in enumerate(group):
            home[op] = (number, position)
    priority = {op: _priority(core, *home[op], rng, seed) for op in ops}
    placed: dict[int, int] = {}
    last: dict[int, int] = {}
    in_group: list[dict[int, int]] = [{} for _ in core.groups]
    queue = [(priority[op], op) for op in ops]
    heapq.heapify(queue)

    def evict(op: int) -> None:
        number, position = home[op]
        table.remove(core.holds[op], placed.pop(op) % ii)
        del in_group[number][position]
        heapq.heappush(queue, (priority[op], op))

    for _ in range(rounds * len(ops)):
        if not queue:
            return placed
        _, op = heapq.heappop(queue)
        number, position = home[op]
        far = core.far[number]
        row = far[position]
        fellows = in_group[number]
        low = max((at + far[other][position] for other, at in fellows.items()), default=0)
        high = min((at - row[other] for other, at in fellows.items()), default=low + ii - 1)
        at = first_free(table.starts(core.holds[op]), low, min(high, low + ii - 1), ii)
        if at is None:
            at = low
            if op in last and last[op] >= low:
                at = last[op] + 1
            group = core.groups[number]
            for other, time in list(fellows.items()):
                if at + row[other] > time or time + far[other][position] > at:
                    evict(group[other])
            if not table.add(core.holds[op], at % ii):
                for other_op in _in_the_way(core, table, placed, op, at, priority):
                    evict(other_op)
                    if table.add(core.holds[op], at % ii):
                        break
                else:
                    return None
        else:
            table.add(core.holds[op], at % ii)
        placed[op] = at
        last[op] = at
        fellows[position] = at
    return placed if not queue else None


def _priority(
    core: Core, number: int, position: int, rng: random.Random, seed: int
) -> tuple[float, int]:
    """Small is first: ops tied to others, by height (even seeds) or by slack (odd ones)."""
    far = core.far[number]
    size = len(far)
    if seed % 2 == 0:
        rank = float(-max(far[position]))
    else:
        rank = sum(-far[other][position] - far[position][other] for other in range(size)) / size
    jitter = rng.random() * (0.0 if seed < 2 else 2.0)
    return (rank + jitter - (FIRST if size > 1 else 0.0), -size)


def _in_the_way(
    core: Core,
    table: ReservationTable,
    placed: dict[int, int],
    op: int,
    at: int,
    priority: dict[int, tuple[float, int]],
) -> list[int]:
    """Placed ops that share a slot of a unit with ``op`` at ``at``, least important first."""
    wanted: dict[int, int] = {}
    for hold in core.holds[op]:
        wanted[hold.unit] = wanted.get(hold.unit, 0) | table.mask(hold, at % core.ii)
    found = [
        other
        for other, time in placed.items()
        if any(
            hold.unit in wanted and table.mask(hold, time % core.ii) & wanted[hold.unit]
            for hold in core.holds[other]
        )
    ]
    found.sort(key=lambda other: (priority[other], other), reverse=True)
    return found
