"""Declarations as kernel engineers write them: accepted and right, or refused with a remedy."""

from __future__ import annotations

from types import ModuleType

import pytest

import pipeloom as pl
from tests.declarations import (
    attention_cases,
    carry_cases,
    condition_cases,
    elementwise_cases,
    epilogue_cases,
    function_cases,
    length_cases,
    product_cases,
    refused_cases,
    row_cases,
)
from tests.declarations.cases import Case, accepted, check_right

FAMILIES: tuple[ModuleType, ...] = (
    elementwise_cases,
    row_cases,
    epilogue_cases,
    product_cases,
    attention_cases,
    carry_cases,
    condition_cases,
    function_cases,
    length_cases,
    refused_cases,
)
CASES: tuple[Case, ...] = tuple(case for family in FAMILIES for case in family.CASES)
RIGHT = [case for case in CASES if case.numpy is not None]
REFUSED = [case for case in CASES if case.numpy is None]


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.name)
def test_accepted_proved_and_right(case: Case) -> None:
    check_right(case)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refused_with_a_remedy_before_anything_is_written(case: Case) -> None:
    with pytest.raises(pl.ScheduleError) as found:
        accepted(case)
    assert found.value.hint


def test_a_loop_that_four_waves_cannot_share_is_run_by_fewer() -> None:
    loop = row_cases.softmax_plain.declare()
    assert pl.run(loop, sizes={"b": 1, "r": 2, "n": 100}, data="normal").ok
    assert pl.emit(loop).waves == 1


def test_enough_of_them() -> None:
    assert len(CASES) >= 100
    assert len(RIGHT) >= 90
    assert len({case.name for case in CASES}) == len(CASES)
