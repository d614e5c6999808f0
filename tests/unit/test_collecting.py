"""The collector is asked rarely inside a search, and as its owner had it outside."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pipeloom.collecting import RARELY, rarely_collected


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_rarely_inside_and_as_before_outside() -> None:
    gc.set_threshold(700, 10, 10)
    with rarely_collected():
        assert gc.get_threshold() == RARELY
        with rarely_collected():
            assert gc.get_threshold() == RARELY
        assert gc.get_threshold() == RARELY
    assert gc.get_threshold() == (700, 10, 10)


def test_what_fails_inside_changes_nothing_outside() -> None:
    gc.set_threshold(900, 8, 7)
    with pytest.raises(ZeroDivisionError), rarely_collected():
        _ = 1 // 0
    assert gc.get_threshold() == (900, 8, 7)


@pytest.mark.parametrize("own", [(0, 10, 10), (10**6, 5, 5)])
def test_who_turned_it_off_or_asks_less_still_is_obeyed(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with rarely_collected():
        assert gc.get_threshold() == own
