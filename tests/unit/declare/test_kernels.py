"""The shipped declarations are short, and mean what they say."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.errors import GraphError
from pipeloom.program.evaluate import evaluate_block, left_tile, padded_tile


@pytest.mark.parametrize(("kernel", "lines"), [(gemm, 20), (row_sum, 15), (attention, 80)])
def test_they_are_short(kernel: Callable[..., Loop], lines: int) -> None:
    assert len(inspect.getsource(kernel).splitlines()) <= lines


def test_row_sum() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 10, 256)).astype(np.float32)
    for rows in (1, 4):
        np.testing.assert_array_equal(row_sum(rows=rows).evaluate(X=x)["out"], x.sum(1))


def test_attention() -> None:
    random = np.random.default_rng(0)
    q, k = (random.standard_normal((rows, 32)).astype(np.float32) for rows in (64, 96))
    v = random.standard_normal((96, 32)).astype(np.float32)
    loop = attention(64, 32, 32, lse=True)
    for keys in (96, 70, 1):
        found = loop.evaluate({"scale": 0.25}, Q=q, K=k[:keys], V=v[:keys])
        weights = np.exp2((q @ k[:keys].T) * 0.25)
        wanted = weights / weights.sum(1, keepdims=True) @ v[:keys]
        np.testing.assert_allclose(found["out"], wanted, atol=0.05)
        np.testing.assert_allclose(found["lse"], np.log(weights.sum(1)), atol=0.05)


def test_attention_without_keys() -> None:
    empty = np.zeros((0, 32), np.float32)
    loop = attention(64, 32, 32, lse=True)
    found = loop.evaluate({"scale": 0.25}, Q=np.ones((64, 32)), K=empty, V=empty)
    assert (found["out"] == 0).all()
    assert (found["lse"] == -np.inf).all()


def test_iterations_past_the_end_change_nothing() -> None:
    random = np.random.default_rng(1)
    loop = attention(32, 32, 32)
    meaning, sizes = loop.meaning, {"q": 32, "keys": 40, "d": 32, "v": 32}
    arrays = {
        n.name: random.standard_normal([sizes[d] for d in n.type.dims]) for n in meaning.inputs
    }
    wanted = loop.evaluate({"scale": 0.25}, **arrays)["out"]
    tiles = {
        node.name: [padded_tile(meaning, node, arrays[node.name], {}, i) for i in range(5)]
        for node in meaning.inputs
    }
    left = {"keys left": [left_tile(meaning, meaning["keys left"], sizes, {}, i) for i in range(5)]}
    for trips in (2, 5):
        found = evaluate_block(meaning, {**tiles, **left}, trips, {"scale": 0.25})
        np.testing.assert_array_equal(found["out"][0], wanted)


def test_until_names_a_dimension_of_the_grid() -> None:
    loop = Loop("causal", over="k", until="k")
    x = loop.stream("X", "f32", k=1, n=256)
    total = loop.carry("total", n=256)
    total += x.sum("k")
    loop.store("out", total)
    with pytest.raises(GraphError, match="runs until the end of"):
        _ = loop.meaning
