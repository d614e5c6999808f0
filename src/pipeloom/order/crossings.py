"""Where a loop's barriers cost nothing: between the last moment and the first.

Data crosses waves through LDS twice per copy: from its writer to a reader, and from the last reader
to the next writer. Under the timetable each crossing leaves an interval for its barrier,

    writer -> reader        [start of writer + latency,  start of reader]
    reader -> next writer   [start of reader + hold,     start of writer + copies * II]

A barrier inside waits for nothing that is not over; one before it would stall the wave. So the
fewest barriers that cost nothing are the fewest points that meet every interval, modulo II. (The
fewest barriers of all, which ``synchronize`` finds without times, may stand where a load has only
just been issued.)

Intervals on the circle of an initiation interval, and the fewest points that meet them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeloom.order.modulo import Expansion, Step
from pipeloom.order.problem_builder import LoopProblem
from pipeloom.order.sections import LOOP
from pipeloom.order.strategy import Timetable
from pipeloom.order.tasks import Lowered
from pipeloom.program.resources import Space


def fewest_points(intervals: Iterable[tuple[int, int]], ii: int) -> list[int]:
    """The fewest slots modulo ``ii`` that meet every interval, as late as possible.

    On a circle the first point is a guess: every interval's end is tried, and the greedy choice,
    always the end of the interval that ends first, is best for each guess.
    """
    arcs = sorted({(a % ii, b - a) for a, b in intervals if b - a < ii})
    if not arcs:
        return []
    best: list[int] | None = None
    for first in sorted({(a + length) % ii for a, length in arcs}):
        chosen = [first]
        turned = sorted(((a - first) % ii, length) for a, length in arcs)
        ends = sorted((a + length, a) for a, length in turned if a and a + length < ii)
        at = 0
        for end, start in ends:
            if start > at:
                at = end
                chosen.append((end + first) % ii)
        if best is None or len(chosen) < len(best):
            best = chosen
    assert best is not None
    return sorted(best)


def barrier_gaps(
    lowered: Lowered, loop: LoopProblem, timetable: Timetable, expansion: Expansion
) -> dict[str, tuple[int, ...]]:
    """The steps of the loop, by number, before which a barrier stands.

    Groups of waves that run different steps meet at the same barriers; each has its own numbers,
    under ``loop@`` and the number of the group.
    """
    ii = timetable.ii
    slots = fewest_points(_intervals(lowered, loop, timetable, expansion), ii)
    if not slots:
        return {}
    if len(lowered.groups) == 1:
        return {LOOP: tuple(sorted(set(_gaps(slots, expansion.kernel, ii, wrap=True))))}
    found: dict[str, tuple[int, ...]] = {}
    for number, group in enumerate(lowered.groups):
        mine = [step for step in expansion.kernel if loop.tasks[step.op].group == group.name]
        found[f"{LOOP}@{number}"] = tuple(_gaps(slots, mine, ii, expansion.unroll, wrap=False))
    return found


def _intervals(
    lowered: Lowered, loop: LoopProblem, timetable: Timetable, expansion: Expansion
) -> list[tuple[int, int]]:
    starts, ii = timetable.starts, timetable.ii
    found: dict[tuple[int, int], None] = {}
    for channel, copies in zip(loop.problem.channels, expansion.channel_copies, strict=True):
        place = lowered.place(channel.name)
        if place is None or place.space is not Space.LDS:
            continue
        for fill in channel.fills:
            landed = starts[fill] + loop.problem.ops[fill].latency
            for reader in channel.readers:
                read = starts[reader.op] + reader.distance * ii
                found.setdefault((min(landed, read), read))
                done, refilled = read + reader.hold, starts[fill] + copies * ii
                found.setdefault((min(done, refilled), refilled))
    return list(found)


def _gaps(
    slots: Sequence[int], steps: Sequence[Step], ii: int, rows: int | None = None, *, wrap: bool
) -> list[int]:
    """The first step at or after each slot of each row; behind the last is the end of the loop.

    ``wrap`` has the beginning of the loop instead, which is the same but for the first trip.
    """
    if rows is None:
        rows = 1 + max(step.cycle for step in steps) // ii
    after = 0 if wrap else len(steps)
    return [
        next((n for n, step in enumerate(steps) if step.cycle >= row * ii + slot), after)
        for row in range(rows)
        for slot in slots
    ]
