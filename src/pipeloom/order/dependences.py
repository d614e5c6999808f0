"""What must come before what among instructions of a loop that touch the same registers.

    flow      a part of a value, before what finds it there
    partial   the first part of a sum, which overwrites, before those that add to it; the last part
              after all of them
    in place  what finds a value, before what overwrites it with the next member of its place

Boxes decide: parts of a place that do not overlap have nothing to do with each other. What passes
through LDS is ordered by barriers instead, and what rotates by copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipeloom.order.tasks import Lowered, Place, Task, Touch
from pipeloom.program.resources import Space
from pipeloom.program.steps import Unit


@dataclass(frozen=True, slots=True)
class Dependence:
    """``first`` before ``second`` of ``distance`` iterations later; ``waits``: for its result."""

    first: int
    second: int
    distance: int
    waits: bool


def dependences(lowered: Lowered, tasks: Sequence[Task]) -> tuple[Dependence, ...]:
    """Those of the tasks of one group of waves, which ``tasks`` are, by number."""
    return tuple(dict.fromkeys(_Finder(lowered, tasks).find()))


def reached(
    tasks: Sequence[int],
    links: Sequence[Sequence[Dependence]],
    other: Callable[[Dependence], int],
    ends: Callable[[int], bool],
) -> list[Dependence]:
    """What one comes to from these tasks, from result to result of an iteration, up to tasks that
    end the way: the links to those. ``links`` are each task's, ``other`` says where one leads."""
    found, more, known = [], list(tasks), set(tasks)
    while more:
        for link in links[more.pop()]:
            if not link.waits or link.distance:
                continue
            if ends(other(link)):
                found.append(link)
            elif other(link) not in known:
                known.add(other(link))
                more.append(other(link))
    return found


class _Finder:
    def __init__(self, lowered: Lowered, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._places = {
            p.name: p for p in lowered.places if p.space in (Space.REGISTER, Space.SCALAR)
        }
        self._writers: dict[tuple[str, str], list[tuple[int, Touch]]] = {}
        for number, task in enumerate(tasks):
            for touch in task.left:
                if touch.place in self._places:
                    key = (touch.place, touch.value)
                    self._writers.setdefault(key, []).append((number, touch))

    def find(self) -> Iterator[Dependence]:
        for number, task in enumerate(self._tasks):
            for touch in task.found:
                if touch.place in self._places:
                    yield from self._of(number, task, touch)
        yield from self._partial()

    def _of(self, reader: int, task: Task, touch: Touch) -> Iterator[Dependence]:
        place = self._places[touch.place]
        parts = not task.is_copy and (touch.distance == 0 or touch in task.onto)
        for writer in self._writing(place, touch.value, touch):
            if not parts or self._tasks[writer].node != task.node:
                yield Dependence(writer, reader, touch.distance, waits=True)
        after = next_member(place, touch)
        if after is not None:
            value, distance = after
            for writer in self._writing(place, value, touch):
                if self._tasks[writer].node != task.node:
                    yield Dependence(reader, writer, distance, waits=False)

    def _writing(self, place: Place, value: str, touch: Touch) -> list[int]:
        found = self._writers.get((place.name, value), [])
        return [n for n, other in found if touches_meet(place, other, touch)]

    def _partial(self) -> Iterator[Dependence]:
        """All after the first; of a sum within lanes, the last, which joins them, after all."""
        parts: dict[tuple[str, str, object], list[int]] = {}
        for number, task in enumerate(self._tasks):
            for touch in task.left:
                if touch.place in self._places:
                    key = (touch.place, touch.value, touch.boxes)
                    parts.setdefault(key, []).append(number)
        for found in parts.values():
            if len(found) > 1:
                yield Dependence(found[0], found[-1], 0, waits=True)
            for middle in found[1:-1]:
                yield Dependence(found[0], middle, 0, waits=True)
                if self._tasks[middle].unit is not Unit.MATRIX:
                    yield Dependence(middle, found[-1], 0, waits=True)


def next_member(place: Place, touch: Touch) -> tuple[str, int] | None:
    """What overwrites a value in its place, and how many iterations later."""
    if touch.value not in place.members:
        return None
    at = place.members.index(touch.value) + 1
    if at < len(place.members):
        return place.members[at], -touch.distance
    if place.carried and not place.rotates:
        return place.members[0], 1 - touch.distance
    return None


def touches_meet(place: Place, one: Touch, other: Touch) -> bool:
    """Whether two touches of a place have a part of it in common."""
    a, b = (touch.boxes[0] if touch.boxes else place.type.whole for touch in (one, other))
    return all(p < s and r < q for (p, q), (r, s) in zip(a, b, strict=True))
