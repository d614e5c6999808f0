"""Work spread over the gaps between products."""

from __future__ import annotations

from itertools import pairwise

from pipeloom.order.gaps import Gaps, WideWork, evenly


def test_work_is_as_far_apart_as_its_limits_let_it() -> None:
    """Six of them within 48 gaps, two by two able to begin 8 gaps later than those before: moved
    one by one, two of them would stay together."""
    gaps = Gaps(48, 0)
    work = [WideWork(10 + n, 16 * (n // 2), 16 * (n // 2) + 40, 40, 20, 4) for n in range(6)]
    work = [one._replace(at=max(one.at, one.low)) for one in work]
    for one in work:
        gaps.add(one.at, one.cost, port=one.port, span=one.span)
    found = sorted(at % 48 for at in evenly(work, gaps))
    assert [b - a for a, b in pairwise(found)] == [8] * 5
    assert max(gaps.used) == 10


def test_work_without_room_stays() -> None:
    gaps = Gaps(8, 0)
    work = [WideWork(3, 5, 2, 40, 20, 4), WideWork(3, 0, 4, 40, 20, 4)]
    assert evenly(work, gaps) == [3, 3]
