"""Methods of values that are called with what they do not take: refused, with a remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.declare import methods, numpy_names
from pipeloom.declare.tensor import Tensor
from pipeloom.program.vocabulary import VOCABULARY

numpy: Any = np
METHODS = sorted(
    {name for name in vars(Tensor) if name[0] != "_" and callable(getattr(Tensor, name))}
    | {*methods._METHODS, *numpy_names.ELEMENTS, *numpy_names.FUNCTIONS}
    | {op.name for op in VOCABULARY if op.reduce is None}
)
NEVER: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((), {"alpha": 2}),
    ((2.0,), {"rounding_mode": "floor"}),
    ((object(),) * 6, {}),
)
ODD: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    *(((one,), {}) for one in (None, "a", object(), [1], 7, -9, np.ones(3), 1j, True, np.nan)),
    (("n", 7), {}),
    ((0, 7), {}),
    ((None, None), {}),
    (({}, "n"), {}),
    *(((), {name: object()}) for name in ("dim", "axis", "ddof", "dtype", "min", "nan")),
    ((), {}),
)


def value() -> Any:
    return pl.Loop("t", over="m").stream("X", pl.F32, m=1, n=6)


def remedy(name: str, *given: Any, **options: Any) -> str | None:
    """What a refusal advises."""
    try:
        getattr(value(), name)(*given, **options)
    except pl.ScheduleError as error:
        return error.hint
    return "none is needed"


@pytest.mark.parametrize("part", range(4))
def test_a_wrong_call_of_any_method_is_refused_with_a_remedy(part: int) -> None:
    assert len(METHODS) > 130
    for name in METHODS[part::4]:
        for given, options in NEVER:
            with pytest.raises(pl.ScheduleError) as found:
                getattr(value(), name)(*given, **options)
            assert found.value.hint, name
        for given, options in ODD:
            assert remedy(name, *given, **options), (name, given, options)


def test_a_remedy_says_what_the_method_takes() -> None:
    with pytest.raises(pl.ConfigError, match="alpha") as found:
        value().add(1.0, alpha=2)
    assert "x.add(other)" in str(found.value.hint)
    with pytest.raises(pl.ConfigError, match="dtype") as found:
        value().to()
    assert "x.to(dtype)" in str(found.value.hint)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x.swapaxes(0, 7),
        lambda x: numpy.swapaxes(x, 0, "k"),
        lambda x: x.transpose("m", "n", "n"),
        lambda x: numpy.hypot(x, "a"),
        lambda x: numpy.logical_and(x, None),
        lambda x: x.var(dim="n"),
        lambda x: x.std(dim=-1, keepdim=True),
        lambda x: x.var("n", ddof=1, correction=1),
        lambda x: x.std(axis="n", unbiased=False),
    ],
)
def test_what_would_be_something_else_than_elsewhere_is_refused(build: Any) -> None:
    with pytest.raises(pl.ConfigError) as found:
        build(value())
    assert found.value.hint


@pytest.mark.parametrize("correction", [0, 1])
def test_a_spread_by_pytorch_s_keyword_has_its_correction(correction: int) -> None:
    loop = pl.Loop("t", over="m")
    x: Any = loop.stream("X", pl.F32, m=1, n=6)
    loop.store("a", x.var(dim="n", correction=correction))
    loop.store("b", x.std(dim=1, ddof=correction))
    numbers = np.array([[1.0, 2, 3, 4, 0, 0], [2, 1, 1, 3, 0, 5]])
    found = loop.evaluate(X=numbers)
    np.testing.assert_allclose(found["a"], numbers.var(1, ddof=correction), rtol=1e-6)
    np.testing.assert_allclose(found["b"], numbers.std(1, ddof=correction), rtol=1e-6)
