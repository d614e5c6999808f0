"""The fewest barriers that keep all pairs of events apart.

The *level* C(g) of a gap counts the barriers up to and including it, of its own script, within one
pass of the row; B is their number in the whole pass, the same in all scripts. A demand between
event x and event y, ``later`` trips on, for ``apart`` barriers in between is

    C(y) + later * B - C(x)  >=  apart

Together with C non-decreasing along a script this is a system of difference constraints: for given
B it has a solution iff its longest paths are finite, and those from some gap are the solution that
has every barrier as late as possible as seen from there. The least B that works is the fewest
barriers that a trip can have; of the solutions with B barriers the one that scores best is taken.

Where several scripts meet, the levels at which they begin a trip are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Counts = dict[int, int]
"""Barriers by gap."""


@dataclass(frozen=True, slots=True, order=True)
class Distance:
    """``apart`` barriers between the events behind two gaps, ``later`` trips on."""

    first: int
    second: int
    later: int
    apart: int


Edges = list[tuple[int, int, int]]
START = -1
"""The gap number of the beginning of a trip."""


def loop_barriers(
    scripts: Sequence[range],
    demanded: Sequence[Distance],
    score: Callable[[Counts], tuple[int, int]],
) -> Counts | None:
    """Barriers per gap of a loop: the fewest, and of those the best; None if nothing suffices.

    ``scripts`` are the gaps of each, the last being the end of the loop.
    """
    most = sum(max(0, d.apart) for d in demanded)
    alone = len(scripts) == 1
    rows = [gaps[:-1] for gaps in scripts] if alone else scripts
    nodes = [*(() if alone else (START,)), *(gap for gaps in rows for gap in gaps)]
    if not nodes or not demanded:
        return {}
    for total in range(min(most, 4 * len(nodes)) + 1):
        edges = _edges(rows, demanded, total, alone)
        if _longest(nodes, edges, nodes[0]) is None:
            continue
        solutions = []
        for anchor in (nodes[-1], *nodes[:-1]):
            levels = _longest(nodes, edges, anchor)
            assert levels is not None
            solutions.append(_counts(rows, levels, total, alone))
        return max(solutions, key=score)
    return None


def _edges(rows: Sequence[range], demanded: Sequence[Distance], total: int, alone: bool) -> Edges:
    edges = [(a, a + 1, 0) for gaps in rows for a in gaps[:-1]]
    for gaps in rows:
        if alone:
            edges.append((gaps[-1], gaps[0], -total))
        else:
            edges += [(START, gaps[0], 0), (START, gaps[-1], total), (gaps[-1], START, -total)]
    edges += [(d.first, d.second, d.apart - d.later * total) for d in demanded]
    return edges


def _longest(nodes: Sequence[int], edges: Edges, anchor: int) -> dict[int, int] | None:
    """The least levels that satisfy the edges with ``anchor`` at 0; None if there are none."""
    unknown = -(1 << 40)
    levels = dict.fromkeys(nodes, unknown)
    levels[anchor] = 0
    for _ in range(len(nodes) + 1):
        changed = False
        for first, second, weight in edges:
            if levels[first] > unknown and levels[first] + weight > levels[second]:
                levels[second] = levels[first] + weight
                changed = True
        if not changed:
            return levels
        if levels[anchor] > 0:
            return None
    return None


def _counts(rows: Sequence[range], levels: dict[int, int], total: int, alone: bool) -> Counts:
    found: Counts = {}
    for gaps in rows:
        level = levels[gaps[-1]] - total if alone else levels[START]
        for gap in gaps:
            if levels[gap] > level:
                found[gap] = levels[gap] - level
            level = levels[gap]
    return found


def line_barriers(
    scripts: Sequence[range], floors: Iterable[tuple[int, int]], demanded: Iterable[Distance]
) -> Counts | None:
    """Barriers per gap of a row that runs once, as late as possible; None if nothing suffices.

    A floor (gap, level) is how many there must be up to a gap.
    """
    nodes = [START, *(gap for gaps in scripts for gap in gaps)]
    edges = [(START, gap, level) for gap, level in floors]
    edges += [(d.first, d.second, d.apart) for d in demanded]
    for gaps in scripts:
        edges += [(START, gaps[0], 0), *((a, a + 1, 0) for a in gaps[:-1])]
    while True:
        levels = _longest(nodes, edges, START)
        if levels is None:
            return None
        total = max(levels[gaps[-1]] for gaps in scripts)
        short = [gaps[-1] for gaps in scripts if levels[gaps[-1]] < total]
        if not short:
            return _counts(scripts, levels, 0, alone=False)
        edges += [(START, end, total) for end in short]
