"""Where a loop's barriers cost nothing: between the last moment and the first.

Data crosses waves through LDS twice per copy: from its writer to a reader, and from the last reader
to the next writer. Under the timetable each crossing leaves an interval for its barrier,

    writer -> reader        [start of writer + latency,  start of reader]
    reader -> next writer   [start of reader + hold,     start of writer + copies * II]

A barrier inside waits for nothing that is not over; one before it would stall the wave. So the
fewest barriers that cost nothing are the fewest points that meet every interval, modulo II. (The
fewest barriers of all, which ``synchronize`` finds without times, may stand where a load has only
just been issued.)
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.order.modulo import Expansion, Step
from pipeloom.order.modulo.circle import fewest_points
from pipeloom.order.problem_builder import LoopProblem
from pipeloom.order.sections import LOOP
from pipeloom.order.strategy import Timetable
from pipeloom.order.tasks import Lowered
from pipeloom.program.resources import Space


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
