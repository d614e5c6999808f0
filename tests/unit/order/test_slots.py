"""Issue slots of an iteration: what is taken is the nearest that is free, on any lap."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipeloom.order.slots import Slots

II, ISSUE = 24, 4
TIMES = st.lists(st.integers(0, II - 1), unique=True, max_size=8)


@given(TIMES, st.integers(-40, 40), st.integers(0, 40), st.integers(0, 40))
def test_the_nearest_free_slot_between_the_limits_is_taken(
    times: list[int], low: int, length: int, ahead: int
) -> None:
    """By trying them all; of two that are as near, the earlier."""
    high, wanted = low + length, low + min(ahead, length)
    slots = Slots(list(map(float, times)), II, ISSUE)
    free = {t + II * lap for t in times for lap in range(-5, 6)}
    while True:
        inside = [t for t in free if low <= t <= high]
        taken = slots.take(low, wanted, high)
        if not inside:
            assert taken == wanted
            return
        nearest = min(inside, key=lambda t: (abs(t - wanted), t))
        assert taken == nearest
        free = {t for t in free if (t - nearest) % II}


@given(TIMES, st.integers(-40, 40), st.integers(0, II - 1))
def test_a_pair_is_two_slots_as_far_apart_as_issuing_takes(
    times: list[int], low: int, length: int
) -> None:
    slots = Slots(list(map(float, times)), II, ISSUE)
    ahead = [t for t in range(low, low + II) if t % II in times]
    gaps = [b - a for a, b in pairwise(sorted(times))]
    single = bool(gaps) and min(gaps) > ISSUE  # products leave no two slots beside each other
    expected = [a for a, b in pairwise(ahead) if single or b - a <= ISSUE]
    assert list(slots.pairs(low, low + length)) == [t for t in expected if t <= low + length]


@given(TIMES, st.integers(-40, 40), st.integers(0, II))
def test_what_is_dropped_is_dropped_on_every_lap(times: list[int], low: int, length: int) -> None:
    slots = Slots(list(map(float, times)), II, ISSUE)
    slots.drop(low, low + length)
    gone = {t % II for t in range(low, low + length)}
    for t in times:
        assert (slots.take(t, t, t) == t) or t in gone
    assert set(slots.pairs(0, II)) <= set(times) - gone
