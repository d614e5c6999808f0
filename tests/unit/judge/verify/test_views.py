"""How values lie in storage: whatever way is found, its boxes are those of the value."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeloom.judge.verify.views import behind, cells, value_box, view
from pipeloom.program import Box

SPANS = st.tuples(st.integers(0, 3), st.sampled_from([1, 1, 2, 4])).map(lambda s: (s[0], sum(s)))


def boxes(count: int) -> st.SearchStrategy[Box]:
    return st.tuples(*[SPANS] * count)


@given(boxes(2), boxes(2), st.permutations(["r", "s", "t"]))
def test_a_view_leads_back_to_the_box(box: Box, place: Box, names: list[str]) -> None:
    how = view(("r", "s"), box, tuple(names[:2]), place)
    if how is not None:
        assert value_box(how, place) == box


def test_axes_of_one_element_need_no_place() -> None:
    how = view(("r", "s"), ((2, 3), (4, 8)), ("t",), ((0, 4),))
    assert how is not None
    assert value_box(how, ((0, 4),)) == ((2, 3), (4, 8))
    assert view(("r", "s"), ((2, 4), (4, 8)), ("t",), ((0, 4),)) is None
    assert view(("r", "s"), ((2, 3), (4, 8)), ("t",), ((0, 2),)) is None


@given(boxes(2), st.tuples(st.integers(-1, 1), st.integers(-1, 1)), boxes(2), st.integers(0, 3))
def test_through_a_copy_it_is_the_same_part_of_the_value(
    cell: Box, axes: tuple[int, int], source: Box, offset: int
) -> None:
    """``how`` says it of the target, what is found of the source."""
    if axes[0] == axes[1] >= 0:
        return
    how = tuple((axis, offset + n) for n, axis in enumerate(axes))
    # The copy moves the target's second axis to the source's first; its first is one element.
    moved = ((1, source[0][0] - cell[1][0]), (-1, source[1][0]))
    source = ((source[0][0], source[0][0] + cell[1][1] - cell[1][0]), (source[1][0],) * 2)
    source = (source[0], (source[1][0], source[1][0] + 1))
    found = behind(how, cell, moved, source)
    if found is None:
        assert 0 in axes
        assert cell[0][1] - cell[0][0] > 1
    else:
        assert value_box(*found) == value_box(how, cell)
        assert found[1] == source


def _points(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(a, b) for a, b in box)))


@given(boxes(2), st.lists(boxes(2), max_size=4))
def test_cells_are_all_of_a_box_each_wholly_in_others_or_not_at_all(
    box: Box, others: list[Box]
) -> None:
    pieces = cells(box, others)
    assert sum(len(_points(piece)) for piece in pieces) == len(_points(box))
    assert set().union(*map(_points, pieces)) == _points(box)
    for piece in pieces:
        for other in others:
            common = _points(piece) & _points(other)
            assert common in (set(), _points(piece))


@pytest.mark.parametrize("rows", [(4, 8), (0, 1), (0, 4)])
def test_a_value_may_lie_with_its_dimensions_turned_round(rows: tuple[int, int]) -> None:
    """By their names, not by their lengths: a square tile has none to go by."""
    how = view(("m", "n"), (rows, (8, 12)), ("n", "m"), ((0, 4), rows))
    assert how is not None
    assert value_box(how, ((1, 3), rows)) == (rows, (9, 11))
