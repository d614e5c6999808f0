"""What stands behind each product of a wave: cycles of instructions, gap by gap.

A register tile cut where its parts are filled and read apart: each part rotates by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

from pipeloom.order.modulo import Reader
from pipeloom.order.tasks import Place, Task

Cells = tuple[tuple[tuple[int, ...], tuple[Reader, ...]], ...]
"""Numbers of tasks that fill one, and those that read it."""


class Gaps:
    """Cycles of instructions behind each product of a group, over one iteration.

    ``apart`` is by how many gaps the other wave of a SIMD, which shares the vector port, is behind.
    """

    def __init__(self, count: int, apart: int) -> None:
        self.count, self.apart = count, apart
        self.used = [0] * count
        self.port = [0] * count

    def add(self, gap: int, cost: int, *, port: int = 0, span: int = 1) -> None:
        """Something that takes ``span`` gaps from this one on, as much of each."""
        for here in range(gap, gap + span):
            self.used[here % self.count] += cost // span
            self.port[here % self.count] += port // span

    def weight(self, gap: int, cost: int, span: int = 1) -> tuple[int, int]:
        """How bad it is to add ``cost`` here: by what the port and the wave have to do already."""
        total, count = 0, self.count
        for here in (g % count for g in range(gap, gap + span)):
            others = sum(self.port[(here + n) % count] for n in (self.apart, -self.apart))
            shared = self.port[here] * 2 + (others if self.apart else 0)
            total += (shared + self.used[here]) * (cost // span)
        return total, gap

    def has_room(self, gap: int, cost: int, span: int, room: int) -> bool:
        """Whether nothing is there, or no more than ``room`` with what is added."""
        held = max(self.used[g % self.count] for g in range(gap, gap + span))
        return held == 0 or held + cost // span <= room

    @property
    def uneven(self) -> int:
        """Larger where some gaps hold much and others little."""
        return sum(used * used for used in self.used)


class WideWork(NamedTuple):
    """Work that takes several gaps: where it stands, and may stand."""

    at: int
    low: int
    high: int
    cost: int
    port: int
    span: int


def evenly(work: Sequence[WideWork], gaps: Gaps) -> list[int]:
    """Where each of ``work`` begins if all are as far apart as they can be, in the order of their
    limits; where they stand, if that is no better. Moving one by one does not find it."""
    if any(one.low > one.high for one in work):
        return [one.at for one in work]
    order = sorted(range(len(work)), key=lambda n: work[n][1:3])
    starts = [[one.at for one in work]]
    first = min((one.low for one in work), default=0)
    for shift in range(-(-gaps.count // max(len(work), 1)) if len(work) > 1 else 0):
        wanted = {n: first + shift + k * gaps.count // len(work) for k, n in enumerate(order)}
        found = [min(max(wanted[n], one.low), one.high) for n, one in enumerate(work)]
        starts.append(found)

    def moved(here: Sequence[int], sign: int) -> None:
        for at, one in zip(here, work, strict=True):
            gaps.add(at, sign * one.cost, port=sign * one.port, span=one.span)

    weights = []
    for found in starts:
        moved(starts[0], -1)
        moved(found, 1)
        weights.append(gaps.uneven)
        moved(found, -1)
        moved(starts[0], 1)
    best = starts[weights.index(min(weights))]
    moved(starts[0], -1)
    moved(best, 1)
    return best


def least_cut(start: int, count: int, spans: Sequence[tuple[int, int]]) -> int:
    """The gap nearest to ``start`` at which a trip of ``count`` begins with the least under way.

    Of what takes several gaps (the first, and how many), writers cannot spread anything over the
    end of a trip.
    """

    def cut(at: int) -> int:
        found = 0
        for gap, span in spans:
            inside = (at - gap) % count
            found += min(inside, span - inside) if 0 < inside < span else 0
        return found

    near = sorted(range(start - count // 2, start + count // 2 + 1), key=lambda g: abs(g - start))
    return min(near, key=cut)


def cut_to_cells(tasks: Sequence[Task], groups: Sequence[Sequence[int]], place: Place) -> Cells:
    """Of each part of a place that is touched as a whole, who fills and reads it; ``groups`` have
    the numbers of their tasks."""
    found: dict[tuple[tuple[int, ...], tuple[Reader, ...]], None] = {}
    for members in groups:
        touches = [
            (i, touch, fills)
            for i in members
            for fills, side in ((True, tasks[i].left), (False, tasks[i].found))
            for touch in side
            if touch.place == place.name
        ]
        boxes = [t.boxes[0] if t.boxes else place.type.whole for _, t, _ in touches]
        cuts = [sorted({x for box in boxes for x in box[n]}) for n in range(len(boxes[0]))]
        for cell in product(*(pairwise(edges) for edges in cuts)):
            here = [
                touch
                for touch, box in zip(touches, boxes, strict=True)
                if all(p <= a and b <= q for (p, q), (a, b) in zip(box, cell, strict=True))
            ]
            fills = tuple(dict.fromkeys(i for i, _, fills in here if fills))
            held = tuple(
                dict.fromkeys(Reader(i, t.distance, 1) for i, t, fills in here if not fills)
            )
            if fills and held:
                found[fills, held] = None
    return tuple(found)
