"""NumPy's names and keywords for values of a loop: what NumPy computes, or a remedy."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
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


HARD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 2.5, -3.0, 1e-3, -1e-3, 1e38, 1.0, -1.0])
ONE = (
    *(
        "sinh",
        "cosh",
        "tan",
        "arctanh",
        "log1p",
        "log10",
        "cbrt",
        "fabs",
        "positive",
        "degrees",
        "radians",
    ),
    *("isnan", "isinf", "isfinite", "nan_to_num"),
)
TWO = ("hypot", "logaddexp", "heaviside", "remainder", "floor_divide")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_composed_functions_are_numpy_s_for_hard_numbers_too(name: str) -> None:
    function = getattr(np, name)
    finite = name in ("tan", "remainder", "floor_divide")  # of infinities each is its own case
    hard = HARD[(np.abs(HARD) < 1e3) & (np.abs(HARD) != 1e-3)] if finite else HARD
    hard = hard.astype(np.float32)
    pairs = np.array([(a, b) for a in hard for b in hard if b or not finite], np.float32).T
    loop = pl.Loop("t", over="m")
    x, y = (loop.stream(array, pl.F32, m=1, n=256) for array in "XY")
    given = slice(2 if name in TWO else 1)
    loop.store("out", pl.where(y == y, 1.0, 1.0) * function(*(x, y)[given]))
    got = loop.evaluate(X=pairs[:1], Y=pairs[1:])["out"][0]
    np.testing.assert_allclose(got, function(*pairs[given]), rtol=5e-6, atol=2e-6)


def test_spread_with_and_without_the_mean_s_own_freedom() -> None:
    loop = pl.Loop("t", over="m")
    x = loop.stream("X", pl.F32, m=1, n=6)
    for name, value in (("a", x.var("n")), ("b", numpy.std(x, axis="n", ddof=1))):
        loop.store(name, value)
    found = loop.evaluate(X=NUMBERS)
    np.testing.assert_allclose(found["a"], NUMBERS.var(1), rtol=1e-6)
    np.testing.assert_allclose(found["b"], NUMBERS.std(1, ddof=1), rtol=1e-6)


def test_numbers_may_stand_first_and_powers_be_any() -> None:
    loop = pl.Loop("t", over="m")
    x = loop.stream("X", pl.F32, m=1, n=6)
    loop.store("a", pl.minimum(1, x) + pl.fma(2, x, 1) + 7 % (x + 1) + 9 // (x + 1))
    loop.store("b", x**0.3 + x**20 + numpy.power(x, -1.5))
    found, big = loop.evaluate(X=NUMBERS + 1), NUMBERS + 1
    wanted = np.minimum(1, big) + 2 * big + 1 + 7 % (big + 1) + 9 // (big + 1)
    np.testing.assert_allclose(found["a"], wanted, rtol=1e-6)
    np.testing.assert_allclose(found["b"], big**0.3 + big**20 + big**-1.5, rtol=1e-5)


def test_what_is_no_method_says_which_function_it_is() -> None:
    x = pl.Loop("t", over="m").stream("X", pl.F32, m=1, n=6)
    with pytest.raises(pl.ConfigError) as found:
        x.take_along_axis(x)
    assert "pl.where(loop.index" in str(found.value.hint)
    assert not hasattr(x, "take_along_axis")


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


METHODS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x.sub(2.5).relu().square(), lambda x: np.maximum(x - 2.5, 0) ** 2),
    (lambda x: (-x.abs()).exp().pow(2).add(1), lambda x: np.exp(-np.abs(x)) ** 2 + 1),
    (lambda x: (x + 1).rsqrt().float(), lambda x: (x + 1) ** -0.5),
    (lambda x: x.clamp(min=1).mul(x.clamp_max(2)), lambda x: np.clip(x, 1, 9) * np.minimum(x, 2)),
    (lambda x: x.clip(1, 2).neg().sigmoid(), lambda x: 1 / (1 + np.exp(np.clip(x, 1, 2)))),
    (lambda x: x.masked_fill(x == 0, -1.0), lambda x: np.where(x == 0, -1, x)),
    (lambda x: (x * -1.7).int(), lambda x: np.trunc(x * -1.7)),
    (lambda x: (x * 1.7).astype(numpy.int32), lambda x: np.trunc(x * 1.7)),
    (lambda x: x.softmax(dim=-1), _softmax),
    (lambda x: x.log_softmax("n"), lambda x: np.log(_softmax(x))),
    (lambda x: x - x.mean(-1, keepdims=True), lambda x: x - x.mean(-1, keepdims=True)),
    (lambda x: x.norm(dim="n"), lambda x: np.linalg.norm(x, axis=1)),
    (lambda x: numpy.linalg.norm(x, axis=1), lambda x: np.linalg.norm(x, axis=1)),
    (lambda x: numpy.ptp(x, axis="n"), lambda x: np.ptp(x, axis=1)),
    (lambda x: numpy.count_nonzero(x, axis=1), lambda x: np.count_nonzero(x, axis=1)),
    (lambda x: numpy.select([x < 1, x > 2], [x, 7.0]), lambda x: np.select([x < 1, x > 2], [x, 7])),
    (lambda x: numpy.logaddexp.reduce(x, axis=1), lambda x: np.logaddexp.reduce(x, axis=1)),
    (lambda x: numpy.add.reduce(x, axis="n"), lambda x: x.sum(1)),
    (lambda x: x.T, lambda x: x.T),
    (lambda x: numpy.exp(x.transpose("n", "m")), lambda x: np.exp(x.T)),
    (lambda x: numpy.swapaxes(x, 0, 1).bfloat16(), lambda x: x.T),
    (lambda x: 2 * x.permute(1, 0) + x, lambda x: 3 * x.T),
]


@pytest.mark.parametrize(("build", "wanted"), METHODS)
def test_methods_and_functions_of_numpy_and_pytorch(
    build: Callable[[Any], Any], wanted: Callable[[Any], Any]
) -> None:
    loop = pl.Loop("t", over="m")
    loop.store("out", build(loop.stream("X", "float32", m=2, n=6)))
    got = loop.evaluate(X=NUMBERS)["out"]
    np.testing.assert_allclose(got, wanted(NUMBERS), rtol=2e-6, atol=1e-6)


def test_nan_is_left_out_where_numpy_leaves_it_out() -> None:
    loop = pl.Loop("t", over="m")
    x = loop.stream("X", np.float32, m=1, n=3)
    numbers = np.array([[np.nan, 2.0, -1.0]])
    for name in ("nansum", "nanmax", "nanmin"):
        loop.store(name, getattr(np, name)(x, axis="n"))
    found = loop.evaluate(X=numbers)
    for name in found:
        assert found[name] == getattr(np, name)(numbers, axis=1)


def test_the_sum_of_nothing_but_minus_infinity_has_that_logarithm() -> None:
    loop = pl.Loop("t", over="m")
    loop.store("out", loop.stream("X", "f32", m=1, n=3).logsumexp("n"))
    assert loop.evaluate(X=np.full((1, 3), -np.inf))["out"] == -np.inf


def test_types_go_by_the_names_of_numpy_and_pytorch() -> None:
    class Torch:  # its types print like this
        def __repr__(self) -> str:
            return "torch.float8_e4m3fnuz"

    loop = pl.Loop("t", over="m")
    given: dict[str, Any] = {"a": np.float16, "b": np.dtype("int8"), "c": "bfloat16", "d": Torch()}
    for name, dtype in given.items():
        loop.stream(name, dtype, m=1, n=4)
    types = [loop.value(name).type.dtype for name in given]
    assert types == [pl.FP16, pl.I8, pl.BF16, pl.FP8_FNUZ]


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
    lambda x: x.max(2),
    lambda x: numpy.sum(x, axis=1, dtype="f64"),
    lambda x: numpy.sum(x, where=x > 0),
    lambda x: numpy.linalg.norm(x, 1),
    lambda x: x.transpose("m"),
    lambda x: x.transpose("m", "k"),
    lambda x: numpy.sort(x),
    lambda x: x.cumsum("n"),
    lambda x: numpy.multiply.reduce(x),
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


def test_a_misspelt_method_is_told_the_nearest_of_our_own() -> None:
    x = pl.Loop("near", over="k").stream("X", "f32", k=4, n=8)
    for typed, meant in {"stagd": "staged", "softmx": "softmax", "silv": "silu"}.items():
        with pytest.raises(pl.ScheduleError) as caught:
            getattr(x, typed)
        assert repr(meant) in str(caught.value.hint)


def test_activations_are_pytorchs() -> None:
    loop = pl.Loop("activated", over="k")
    x = loop.stream("X", "f32", k=8, n=64)
    loop.store("gelu", x.gelu())
    loop.store("silu", x.silu())
    given = np.linspace(-6, 6, 512, dtype=np.float32).reshape(8, 64)
    found = loop.evaluate(X=given)
    exact = given / 2 * (1 + np.vectorize(erf)(given / 2**0.5))
    np.testing.assert_allclose(found["gelu"], exact, atol=2e-6)
    np.testing.assert_allclose(found["silu"], given / (1 + np.exp(-given)), atol=2e-6)
    with pytest.raises(pl.ScheduleError) as caught:
        x.gelu(approximate="tanh")
    assert caught.value.field == "approximate"
