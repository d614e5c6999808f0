"""When a register holds something that is still wanted: lifetimes over the steps of a program.

Every group of waves has its own line of points: one for its preamble, then one per step. A value
is live at a point if it may have been written by then and may still be read, along any path through
the loops. A load writes from its issue on, so a value is live from there, not from its wait; and
until a wait, whether or not anybody reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise, product

from pipeloom.program import Box, Program, Step, Wait, Work


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """The points of a program: which follow which."""

    preambles: tuple[int, ...]
    """By group: before its first step."""
    first: tuple[tuple[int, ...], ...]
    """By group and section: the point of the section's first step."""
    steps: tuple[Step | None, ...]
    """By point; a preamble has none."""
    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]


def flow_of(program: Program) -> ControlFlow:
    """Points of all groups; a loop goes back, and around where it may run no trip."""
    successors: list[list[int]] = []
    steps: list[Step | None] = []
    preambles, first = [], []
    least = program.min_trips
    for group in program.groups:
        start = len(successors)
        preambles.append(start)
        successors.append([])
        steps.append(None)
        leading = [start]
        places = []
        for section in group.sections:
            head = len(successors)
            places.append(head)
            if not section.steps:
                continue
            steps += section.steps
            for at in leading:
                successors[at].append(head)
            last = head + len(section.steps) - 1
            successors += [[at + 1] for at in range(head, last)] + [[]]
            if section.trips is None:
                leading = [last]
            else:
                successors[last].append(head)
                leading = [last] + (leading if least[section.trips] == 0 else [])
        first.append(tuple(places))
    predecessors: list[list[int]] = [[] for _ in successors]
    for at, following in enumerate(successors):
        for other in following:
            predecessors[other].append(at)
    return ControlFlow(
        tuple(preambles),
        tuple(first),
        tuple(steps),
        tuple(tuple(f) for f in successors),
        tuple(tuple(p) for p in predecessors),
    )


def live_points(
    flow: ControlFlow, writes: Iterable[int], kills: Iterable[int], reads: Iterable[int]
) -> frozenset[int]:
    """Where a value is live. ``kills`` are the writes that leave nothing of what was there.

    From the last write before a point where the value is wanted, it is wanted all the way.
    """
    live, overwritten, read = set(writes), set(kills), set(reads)
    wanted = _wanted(read, flow.predecessors, stop=overwritten - read)
    todo = list(live)
    while todo:
        for after in flow.successors[todo.pop()]:
            if after in wanted and after not in live:
                live.add(after)
                todo.append(after)
    return frozenset(live)


def live_parts(flow: ControlFlow, touches: Sequence[tuple[int, Box, bool, bool]]) -> frozenset[int]:
    """Where some part of a tile is live, of which steps touch boxes.

    A touch is a point, a box, whether it writes, and whether it does so for certain. Boxes cut the
    tile into cells, and each has a life of its own: a tile that is written piece by piece holds
    nothing between its last read and its first write.
    """
    if not touches:
        return frozenset()
    cuts = [
        sorted({edge for _, box, _, _ in touches for edge in box[axis]})
        for axis in range(len(touches[0][1]))
    ]
    lives: dict[tuple[frozenset[int], ...], None] = {}
    for cell in product(*(pairwise(edges) for edges in cuts)):
        mine = [
            (point, writes, surely)
            for point, box, writes, surely in touches
            if all(p <= low and high <= q for (p, q), (low, high) in zip(box, cell, strict=True))
        ]
        written = frozenset(point for point, writes, _ in mine if writes)
        surely = frozenset(point for point, writes, sure in mine if writes and sure)
        read = frozenset(point for point, writes, _ in mine if not writes)
        lives[written, surely, read] = None
    found: frozenset[int] = frozenset()
    for written, surely, read in lives:
        found |= live_points(flow, written, surely, read)
    return found


def in_flight(flow: ControlFlow, point: int, limit: int) -> frozenset[int]:
    """Where what the step at ``point`` writes may still be on its way.

    It has landed behind a wait for no more entries than were issued since, on the path that issued
    the fewest; ``limit`` is that of its counter. Not behind a read: a read of no consequence needs
    no wait.
    """
    issued = flow.steps[point]
    assert isinstance(issued, Work)
    since: dict[int, int] = {}
    todo = [(0, after) for after in flow.successors[point]]
    while todo:
        entries, at = heappop(todo)
        if at in since:
            continue
        since[at] = entries
        step = flow.steps[at]
        if isinstance(step, Wait) and step.counter == issued.counter:
            if step.count <= entries and step.count < limit:
                continue
        elif isinstance(step, Work) and step.counter == issued.counter:
            entries += step.sure_entries
        for after in flow.successors[at]:
            heappush(todo, (entries, after))
    return frozenset(since)


def _wanted(read: set[int], before: Sequence[Sequence[int]], stop: set[int]) -> set[int]:
    """From where what is read can be reached; not across ``stop``, which are reached themselves."""
    seen = set(read)
    todo = list(read)
    while todo:
        at = todo.pop()
        if at in stop:
            continue
        for other in before[at]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen
