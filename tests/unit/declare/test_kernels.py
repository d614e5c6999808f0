"""The shipped declarations are short, and mean what they say."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, row_sum


@pytest.mark.parametrize(("kernel", "lines"), [(gemm, 20), (row_sum, 15), (attention, 30)])
def test_they_are_short(kernel: Callable[..., Loop], lines: int) -> None:
    assert len(inspect.getsource(kernel).splitlines()) <= lines


def test_row_sum() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 10, 256)).astype(np.float32)
    for rows in (1, 4):
        np.testing.assert_array_equal(row_sum(rows=rows).evaluate(X=x)["out"], x.sum(1))


def test_attention() -> None:
    random = np.random.default_rng(0)
    q, k = (random.standard_normal((rows, 32)).astype(np.float32) for rows in (64, 96))
    v = random.standard_normal((32, 96)).astype(np.float32)
    out = attention(64, 32, 32).evaluate({"scale": 0.25}, Q=q, K=k, V=v)["out"]
    weights = np.exp2((q @ k.T) * 0.25)
    wanted = weights / weights.sum(1, keepdims=True) @ v.T
    np.testing.assert_allclose(out, wanted, atol=0.05)
