"""Problems of a batch that share the tiles of one loop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeloom.program.problem_spans import ProblemSpan, stretch_of


@given(st.integers(0, 200), st.integers(1, 20), st.integers(1, 9))
def test_each_tile_is_taken_once_and_in_order(size: int, tile: int, count: int) -> None:
    """The last tile may be cut short; those who come last may have none."""
    span = ProblemSpan(shares="split")
    parts = [stretch_of(span, tile, size, {"split": n}, {"split": count}, {}) for n in range(count)]
    taken = [n for part in parts for n in range(part.first, part.first + part.tiles)]
    assert taken == [n for n, _ in enumerate(range(0, size, tile))]
    assert all(part.tiles <= parts[0].tiles for part in parts)
