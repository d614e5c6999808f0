"""Matrix products mean what BLAS says, whatever the layout, the types and what follows the sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.declare.gemm_problem import LAYOUTS, Finish, GemmProblem, some_type
from pipeloom.declare.products import product
from pipeloom.errors import ScheduleError
from pipeloom.machine.dtypes import E8M0

Array = np.ndarray[Any, np.dtype[Any]]
M, N, K = 33, 20, 96


def small(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-3, 4, shape).astype(np.float32)


def in_numpy(
    finish: Finish, value: Array, alpha: float, beta: float, given: dict[str, Array]
) -> Array:
    """What follows a sum, in double precision."""
    if finish.scales:
        value = value * given["scale_A"][:, None] * given["scale_B"]
    value = value * (alpha if finish.alpha else 1.0)
    if finish.beta:
        value = value + beta * given["C"]
    if finish.bias:
        value = value + given["bias"]
    if finish.activation == "relu":
        value = np.maximum(value, 0)
    elif finish.activation == "silu":
        value = value / 2 * (1 + np.tanh(value / 2))
    elif finish.activation == "gelu":
        inner = np.sqrt(2 / np.pi) * (value + 0.044715 * value**3)
        value = value / 2 * (1 + np.tanh(inner))
    return np.asarray(value)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "finish",
    [
        Finish(),
        Finish(alpha=True, beta=True),
        Finish(scales=True, bias=True, activation="relu"),
        Finish(alpha=True, bias=True, activation="silu"),
        Finish(beta=True, activation="gelu"),
    ],
    ids=str,
)
def test_it_is_the_formula(layout: str, finish: Finish) -> None:
    rng = np.random.default_rng(len(str(finish)))
    a, b = small(rng, M, K), small(rng, N, K)
    given = {"A": a if layout[0] == "N" else a.T, "B": b if layout[1] == "T" else b.T}
    given |= {"C": small(rng, M, N)} if finish.beta else {}
    given |= {"scale_A": small(rng, M), "scale_B": small(rng, N)} if finish.scales else {}
    given |= {"bias": small(rng, N)} if finish.bias else {}
    loop = product(32, 32, 32, "bf16", "f32", layout=layout, finish=finish)
    scalars = {"alpha": 0.5} if finish.alpha else {}
    scalars |= {"beta": -2.0} if finish.beta else {}
    found = loop.evaluate(scalars, **given)["out"]
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(
        found, in_numpy(finish, exact, 0.5, -2.0, given), rtol=1e-5, atol=1e-4
    )


def test_32_elements_along_k_share_a_scale() -> None:
    rng = np.random.default_rng(3)
    a, b = small(rng, M, K), small(rng, N, K)
    scales = [np.exp2(rng.integers(-2, 3, (rows, K // E8M0.covers))) for rows in (M, N)]
    each = [np.repeat(one, E8M0.covers, axis=-1).astype(np.float32) for one in scales]
    loop = product(32, 32, 32, "fp8", "f32", blocks=True)
    found = loop.evaluate(A=a, B=b, blocks_A=each[0], blocks_B=each[1])["out"]
    np.testing.assert_array_equal(found, (a * each[0]) @ (b * each[1]).T)


def test_bytes_of_a_problem() -> None:
    """Of a type, with the share of a block scale; and some type for so many bytes."""
    fp4 = GemmProblem(64, 64, 64, "mxfp4")
    assert (fp4.element_bytes, fp4.in_bytes, fp4.out_bytes) == (0.5, (17 / 32, 17 / 32), 2)
    assert GemmProblem(64, 64, 64, "fp8", "f32").out_bytes == 4
    for size in (0.5, 0.75, 1, 2, 4, 8):
        assert GemmProblem(1, 1, 1, some_type(size)).element_bytes == size


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"m": 0}, "m"),
        ({"n": 2.5}, "n"),
        ({"batches": 1 << 31}, "batches"),
        ({"layout": "XY"}, "layout"),
        ({"dtype": "bf61"}, "dtype"),
        ({"k": 40, "dtype": "mxfp8"}, "k"),
    ],
    ids=str,
)
def test_what_is_no_problem(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        GemmProblem(**{"m": 1, "n": 1, "k": 1, **wrong})
    assert caught.value.field == field
    assert caught.value.hint
