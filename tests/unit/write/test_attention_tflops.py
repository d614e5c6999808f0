"""Blocks on compute units: dealt to XCDs in turn, each to the unit that is free first."""

from __future__ import annotations

import pytest

from benchmarks.bench_attention import QUERIES
from evidence.attention_tflops import MASKED, PUBLISHED, Block, finished, tflops


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


@pytest.mark.parametrize(("heads", "length"), [(1, 1024), (5, 16384), (2, 65536), (3, 65536)])
def test_small_grids_end_when_the_longest_block_or_equal_shares_allow(
    heads: int, length: int
) -> None:
    block = Block(fixed=19_000, plain=2100, masked=2500)
    count = length // QUERIES
    each = [block.cycles(MASKED * n, MASKED) for n in range(count, 0, -1)]
    blocks = [cycles for cycles in each for _ in range(heads)]
    took = finished(blocks, units=256, xcds=8)
    assert took <= 1.12 * max(each[0], sum(blocks) / 256)
    pairs = [one + other for one, other in zip(each, reversed(each), strict=True)][: count // 2]
    assert took <= 1.02 * finished([p for p in pairs for _ in range(heads)], units=256, xcds=8)
