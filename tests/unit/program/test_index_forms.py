"""Sums of digits, as they are written and in numbers: drawn expressions against Python's."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from pipeloom.program.index_forms import Digit, DigitSum, IndexEntry, IndexForm

VALUES = {"a": 3, "b": -7, "e": 1000}
NUMBERS: tuple[DigitSum | int, ...] = (3, 1, 0, -1, -3)
PARTS: tuple[DigitSum, ...] = (
    Digit("a", 4),
    Digit("b", 9),
    IndexEntry("e", "table", "m"),
    IndexForm(5),
    IndexForm(),
)


@pytest.mark.parametrize("seed", range(60))
def test_an_expression_is_the_number_that_python_makes_of_it(seed: int) -> None:
    rng = Random(seed)
    form: DigitSum = rng.choice(PARTS)
    number = _value(form.form)
    for _ in range(rng.randint(1, 5)):
        other = rng.choice(PARTS + NUMBERS)
        worth = other if isinstance(other, int) else _value(other.form)
        match rng.randrange(3):
            case 0:
                form, number = form + other, number + worth
            case 1:
                form, number = form - other, number - worth
            case _:
                factor = rng.randint(-2, 2)
                form, number = factor * form, number * factor
        assert _value(form.form) == number
        assert all(factor for _, factor in form.form.factors), "what is taken 0 times is left out"


def _value(form: IndexForm) -> int:
    return form.constant + sum(VALUES[name] * factor for name, factor in form.factors)


@pytest.mark.parametrize("seed", range(20))
def test_a_part_of_an_entry_is_some_of_its_bits(seed: int) -> None:
    rng = Random(seed)
    numbers = np.array([rng.getrandbits(31) for _ in range(8)] + [0, 2**31 - 1])
    entry = IndexEntry("e", "table", "m")
    low = rng.randint(0, 30)
    width = rng.randint(1, 31 - low)
    wanted = [n // 2**low % 2**width for n in numbers.tolist()]
    assert entry.part(low, width).value(numbers).tolist() == wanted
    assert entry.value(-numbers).tolist() == (-numbers).tolist()


@pytest.mark.parametrize("size", range(1, 20))
def test_a_digit_has_as_many_values_as_steps_reach(size: int) -> None:
    """As windows count: a step apart, as long as ``-more`` elements follow."""
    for more in (-3, 0, 2):
        for step in (1, 2, 5):
            digit = Digit("p", along="h", more=more, step=step)
            assert digit.number({"h": size}) == len(range(0, max(size + more, 0), step))
            assert eval(digit.formula, {"max": max, "ceil": _ceil, "h": size}) == digit.number(
                {"h": size}
            )


def _ceil(quotient: float) -> int:
    return int(-(-quotient // 1))
