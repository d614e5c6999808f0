"""A register tile cut where its parts are filled and read apart: each part rotates by itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

from pipeloom.order.modulo import Reader
from pipeloom.order.tasks import Place, Task

Cells = tuple[tuple[tuple[int, ...], tuple[Reader, ...]], ...]
"""Numbers of tasks that fill one, and those that read it."""


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
