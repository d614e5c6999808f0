"""Which choices of a loop go together, and where a trip begins."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pipeloom.order.gaps import least_cut
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import sensible
from pipeloom.order.roles import Loading


@pytest.mark.parametrize("seed", range(4))
def test_a_trip_begins_where_the_least_is_cut(seed: int) -> None:
    """Of what takes several gaps, the shorter side of each cut counts."""
    rng = random.Random(seed)
    for _ in range(50):
        count, start = rng.randint(2, 12), rng.randint(0, 30)
        spans = [
            (rng.randint(0, 30), rng.randint(1, min(5, count))) for _ in range(rng.randint(0, 5))
        ]

        def cut(at: int, count: int = count, spans: list[tuple[int, int]] = spans) -> int:
            sides = (
                next((n for n in range(1, length) if (gap + n - at) % count == 0), 0)
                for gap, length in spans
            )
            return sum(min(n, length - n) for n, (_, length) in zip(sides, spans, strict=True))

        found = least_cut(start, count, spans)
        near = range(start - count // 2, start + count // 2 + 1)
        least = min(map(cut, near))
        assert found in near
        assert cut(found) == least
        assert abs(found - start) == min(abs(g - start) for g in near if cut(g) == least)


def test_one_group_has_nobody_to_stand_behind_or_to_take_turns_with() -> None:
    assert sensible(Pattern())
    for shared in (Pattern(stagger=True), Pattern(loading=Loading.FIRST), Pattern(cluster=2)):
        assert not sensible(shared)
        assert sensible(replace(shared, groups=2, barriers=1 if shared.cluster else 2))


def test_what_goes_with_few_barriers_and_with_none_to_spare() -> None:
    assert sensible(Pattern(exact=True))
    assert not sensible(Pattern(exact=True, groups=2))
    assert not sensible(Pattern(exact=True, barriers=2))
    hurried = Pattern(span=60, barriers=2)
    assert [n for n in range(1, 6) if sensible(replace(hurried, barriers=n))] == [2, 3]
    assert not sensible(replace(hurried, groups=2, stagger=True))
    staggered = Pattern(groups=4, stagger=True)
    assert [n for n in range(1, 6) if sensible(replace(staggered, barriers=n))] == [4, 5]
    assert not sensible(Pattern(groups=2, cluster=2, stagger=True))
