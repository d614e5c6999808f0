"""NumPy's names and keywords for values of a loop: what NumPy computes, or a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pipeloom as pl

numpy: Any = np
NUMBERS = np.array([[1, 2, 3, 4, 0, 0], [2, 1, 1, 3, 0, 5]], np.float64)


def evaluated(dtype: pl.DType, build: Callable[[Any, Any], Any]) -> np.ndarray[Any, Any]:
    """What a function of X and Y gives, for the two rows of ``NUMBERS``."""
    loop = pl.Loop("t", over="m")
    x, y = (loop.stream(name, dtype, m=1, n=6) for name in "XY")
    loop.store("out", pl.where(build(x, y), 1.0, y * 0.0))
    found: np.ndarray[Any, Any] = loop.evaluate(X=NUMBERS[:1], Y=NUMBERS[1:])["out"][0]
    return found


@pytest.mark.parametrize("dtype", [pl.I32, pl.F32])
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor", "logical_not"])
def test_logical_functions_ask_whether_numbers_are_zero(dtype: pl.DType, name: str) -> None:
    function = getattr(np, name)
    given = slice(1 if name == "logical_not" else 2)
    got = evaluated(dtype, lambda x, y: function(*(x, y)[given]))
    np.testing.assert_array_equal(got, function(*NUMBERS[given]))


@pytest.mark.parametrize(
    "build",
    [
        lambda x, _: numpy.clip(x, 2, None) == 2,
        lambda x, _: numpy.clip(x, None, 2) == 2,
        lambda x, _: numpy.clip(x, min=1, max=3) == 1,
        lambda x, y: numpy.clip(x, a_min=y, a_max=3) == 3,
    ],
)
def test_clip_has_the_ends_that_it_is_given(build: Callable[[Any, Any], Any]) -> None:
    np.testing.assert_array_equal(evaluated(pl.F32, build), build(*NUMBERS))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "argmax", "argmin"])
def test_a_reduction_takes_an_axis_as_numpy_says_it(name: str) -> None:
    loop = pl.Loop("t", over="m")
    x = loop.stream("X", pl.F32, m=1, n=6)
    loop.store("a", getattr(x, name)(axis="n"))
    loop.store("b", getattr(x, name)("n"))
    loop.store("c", getattr(np, name)(x, ("n",)))
    found = loop.evaluate(X=NUMBERS)
    wanted = getattr(NUMBERS, name)(axis=1)
    for output in "abc":
        np.testing.assert_array_equal(found[output], wanted.astype(np.float32))


NO = [
    lambda x: numpy.argmax(x),
    lambda x: x.argmin(axis=("m", "n")),
    lambda x: x.max(axis="n", keepdims=True),
    lambda x: x.max(0),
    lambda x: numpy.sum(x, axis=1),
    lambda x: numpy.clip(x, 0),
    lambda x: numpy.clip(x, 0, min=1),
    lambda x: numpy.clip(x, 0, 1, casting="no"),
    lambda x: numpy.logical_and(x, 1),
    lambda x: x ** [1],
]
"""What is refused of an i32."""


@pytest.mark.parametrize("build", NO)
def test_what_cannot_be_is_refused_with_a_remedy(build: Callable[[Any], Any]) -> None:
    loop = pl.Loop("t", over="m")
    with pytest.raises(pl.ScheduleError) as found:
        build(loop.stream("X", pl.I32, m=1, n=6))
    assert found.value.hint
