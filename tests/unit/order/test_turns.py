"""Priorities that keep waves even from barrier to barrier."""

from __future__ import annotations

from pipeloom.order.turns import AHEAD, PARTS, _first_in_turn, _raised, in_step
from pipeloom.program.program import Section
from pipeloom.program.steps import Barrier, Issue, Priority, Step, Unit, Work

PRODUCT = Work(node="S", label="S", iteration=0, issues=(Issue(unit=Unit.MATRIX),))
BEGIN = 5
"""Products of the loop in front of its barrier."""


def levels(steps: tuple[Step, ...]) -> list[int]:
    return [step.level for step in steps if isinstance(step, Priority)]


def test_a_wave_early_on_its_way_to_the_barrier_goes_first() -> None:
    pair = (PRODUCT, Priority(1))
    found = in_step((*pair * BEGIN, Barrier(), *pair * (PARTS - BEGIN)))
    way = [1 + any(a <= n < b for a, b in AHEAD) for n in range(PARTS)]
    assert levels(found) == way[-BEGIN:] + way[:-BEGIN], "the way goes on over the loop's end"
    assert [s for s in found if not isinstance(s, Priority)] == [
        *[PRODUCT] * BEGIN,
        Barrier(),
        *[PRODUCT] * (PARTS - BEGIN),
    ]


def test_without_barriers_there_is_nothing_to_come_late_to() -> None:
    steps = (PRODUCT, Priority(0), PRODUCT, Priority(2))
    assert in_step(steps) == steps


def test_with_more_barriers_than_products_there_is_no_way_to_tell_parts_of() -> None:
    steps = (Barrier(), Priority(1), Barrier(), Priority(0), PRODUCT, Barrier())
    assert in_step(steps) == steps


def test_products_that_follow_each_other_are_not_parted_by_priorities() -> None:
    vector = Work(node="V", label="V", iteration=0, issues=(Issue(unit=Unit.VECTOR),))
    steps = (PRODUCT, PRODUCT, vector, PRODUCT)
    loop = Section(name="loop", steps=steps, trips="T", advance=1)
    found = list(_raised(loop))
    assert [s for s in found if not isinstance(s, Priority)] == list(steps)
    assert found[:3] == [PRODUCT, PRODUCT, Priority(0)]
    assert found[-2:] == [Priority(2), PRODUCT]


def test_whose_turn_it_is_goes_first_until_the_last_product_of_its_turn() -> None:
    other = Work(node="P", label="P", iteration=0, issues=(Issue(unit=Unit.VECTOR),))
    steps = (PRODUCT, other, Barrier(), other, other, Barrier(), other, PRODUCT, other, PRODUCT)
    found = [*_first_in_turn(Section(name="loop", steps=steps, trips="trips"))]
    up, down = Priority(1), Priority(0)
    expected = [PRODUCT, down, other, Barrier(), other, other, Barrier(), other, up]
    assert found == [*expected, PRODUCT, other, PRODUCT]
