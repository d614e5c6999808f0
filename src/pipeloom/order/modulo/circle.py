"""Intervals on the circle of an initiation interval, and the fewest points that meet them all."""

from __future__ import annotations

from collections.abc import Iterable


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
