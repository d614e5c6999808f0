"""The fewest barriers that keep all pairs of data ops apart.

Let C(g) be the number of barriers in the gaps up to g of one iteration, and B those of the whole
iteration. A demand between op x and op y, d iterations later, for ``apart`` barriers in between is

    C(y) + d B - C(x)  >=  apart

Together with C non-decreasing and C(last) = B this is a system of difference constraints: for given
B it has a solution iff the longest paths converge, and those paths are the solution that places
every barrier as late as possible, directly before the op that needs it. The least B that works is
the fewest barriers an iteration can have.

Where an iteration begins is arbitrary, and barriers that no op of the same iteration needs collect
at its end; so all starting points are tried, and of the solutions with B barriers the one is taken
that leaves the most loads in flight at the waits.

The loop comes first and alone: prologue and epilogue, which run once, take whatever barriers they
need in addition and never make the loop wait more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeloom.errors import InternalError


@dataclass(frozen=True, slots=True, order=True)
class Distance:
    """``apart`` barriers between op ``first`` and op ``second``, ``later`` iterations on."""

    first: int
    second: int
    later: int
    apart: int


def loop_barriers(
    size: int, demanded: Sequence[Distance], score: Callable[[list[int]], int]
) -> list[int]:
    """Barriers per gap of a loop of ``size`` ops: the fewest, and of those the best by score."""
    most = sum(d.apart for d in demanded) + 1
    for total in range(most):
        found = [_rotated(size, demanded, total, start) for start in range(size)]
        solutions = [counts for counts in found if counts is not None]
        if solutions:
            return max(solutions, key=score)
    raise InternalError(f"no number of barriers up to {most} separates the loop's ops")


def _rotated(size: int, demanded: Sequence[Distance], total: int, start: int) -> list[int] | None:
    """The late solution for an iteration that begins at gap ``start``, if there is one."""
    rows = []
    for d in demanded:
        first, second = (d.first - start) % size, (d.second - start) % size
        # an op before ``start`` belongs, after rotation, to the iteration before
        later = d.later + (d.first < start) - (d.second < start)
        rows.append((first, second, d.apart - later * total))
    counts = _longest(size, rows, total)
    if counts is None:
        return None
    here = [count - (counts[gap - 1] if gap else 0) for gap, count in enumerate(counts)]
    return [here[(gap - start) % size] for gap in range(size)]


def _longest(size: int, rows: list[tuple[int, int, int]], total: int) -> list[int] | None:
    """The least C with C(y) >= C(x) + weight, non-decreasing, C(last) = ``total``, if any."""
    counts = [*[0] * (size - 1), total]
    changed = True
    while changed:
        changed = False
        for gap in range(1, size):
            if counts[gap] < counts[gap - 1]:
                counts[gap] = counts[gap - 1]
                changed = True
        for first, second, weight in rows:
            if counts[second] < counts[first] + weight:
                counts[second] = counts[first] + weight
                changed = True
        if counts[-1] > total:
            return None
    return counts


def line_barriers(
    size: int, floors: Sequence[int], rows: Sequence[tuple[int, int, int]]
) -> list[int]:
    """Barriers per gap of a phase that runs once, as late as possible.

    ``floors`` is how many there must be up to each gap; a row (x, y, weight) asks for ``weight``
    between ops x < y.
    """
    counts = list(floors)
    for gap in range(size):
        if gap:
            counts[gap] = max(counts[gap], counts[gap - 1])
        for first, second, weight in rows:
            if second == gap:
                counts[gap] = max(counts[gap], counts[first] + weight)
    return [count - (counts[gap - 1] if gap else 0) for gap, count in enumerate(counts)]
