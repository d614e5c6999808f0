"""Free barriers: the fewest slots that meet every interval, against exhaustive search."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom.order.modulo.circle import fewest_points
from pipeloom.order.modulo.expand import Step
from pipeloom.reference.pipelining.barriers import kernel_gaps


def meets(slots: tuple[int, ...] | list[int], interval: tuple[int, int], ii: int) -> bool:
    return any((time % ii) in slots for time in range(interval[0], interval[1] + 1))


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12)), max_size=6),
)
def test_fewest_slots(ii: int, drawn: list[tuple[int, int]]) -> None:
    intervals = [(start, start + length) for start, length in drawn]
    bounded = [(a, b) for a, b in intervals if b - a < ii]
    chosen = fewest_points(intervals, ii)
    assert all(meets(chosen, interval, ii) for interval in bounded)
    fewest = next(
        size
        for size in range(ii + 1)
        if any(
            all(meets(slots, interval, ii) for interval in bounded)
            for slots in combinations(range(ii), size)
        )
    )
    assert len(chosen) == fewest


def test_a_barrier_stands_before_the_first_op_at_its_slot() -> None:
    kernel = [Step(0, 0, 0), Step(1, 0, 3), Step(2, 0, 3), Step(0, 1, 4), Step(1, 1, 7)]
    assert kernel_gaps([3], kernel, 4) == (1, 4)
    assert kernel_gaps([1], kernel, 4) == (1, 4)
    assert kernel_gaps([0], kernel, 4) == (0, 3)
