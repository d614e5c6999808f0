"""Blocks on compute units: dealt to XCDs in turn, each to the unit that is free first."""

from __future__ import annotations

from evidence.attention_tflops import PUBLISHED, Block, finished, tflops


def test_blocks_go_to_the_unit_that_is_free_first() -> None:
    assert finished([4, 3, 2, 1], units=2, xcds=1) == 5
    assert finished([4, 4, 1, 1], units=2, xcds=2) == 5
    assert finished([4, 1, 4, 1], units=2, xcds=2) == 8, "one XCD has both long ones"


def test_longest_first_is_even() -> None:
    block = Block(fixed=10_000, plain=2000, masked=2500)
    for problem in PUBLISHED:
        assert tflops(problem, block, causal=True)[1] > 0.95
    (full, _), (causal, _) = (tflops(PUBLISHED[0], block, causal=c) for c in (False, True))
    assert causal < full
