"""The shipped declarations are short, and mean what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, row_sum
from pipeloom.errors import GraphError
from pipeloom.program.block_values import evaluate_block, place_tile
from pipeloom.program.evaluate import padded_tile
from pipeloom.program.nodes import NodeKind

Array = np.ndarray[Any, np.dtype[Any]]


def test_row_sum() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 10, 256)).astype(np.float32)
    for rows in (1, 4):
        np.testing.assert_array_equal(row_sum(rows=rows).evaluate(X=x)["out"], x.sum(1))


def heads(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def in_numpy(q: Array, k: Array, v: Array, scale: float, causal: bool) -> tuple[Array, Array]:
    """Attention as everybody knows it, in double precision: (out, lse)."""
    group = q.shape[2]
    k, v = (np.repeat(x[:, :, None].astype(np.float64), group, 2) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        rows, columns = scores.shape[-2:]
        hidden = np.arange(columns) > np.arange(rows)[:, None] + columns - rows
        scores = np.where(hidden, -np.inf, scores)
    top = scores.max(-1, keepdims=True, initial=-1e30)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    return weights / np.maximum(total, 1e-300) @ v, lse


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(64, 96), (70, 40), (5, 1), (40, 75), (3, 0)])
def test_attention(queries: int, keys: int, causal: bool) -> None:
    """Rows that see no key give 0, and minus infinity; heads of a group share their keys."""
    rng = np.random.default_rng(queries + keys)
    q = heads(rng, 2, 1, 2, queries, 32)
    k, v = heads(rng, 2, 1, keys, 32), heads(rng, 2, 1, keys, 16)
    loop = attention(32, 32, 32, 16, causal=causal, lse=True)
    found = loop.evaluate({"scale": 0.25}, Q=q, K=k, V=v)
    out, lse = in_numpy(q, k, v, 0.25, causal)
    np.testing.assert_allclose(found["out"], out, atol=0.05)
    np.testing.assert_allclose(found["lse"], lse, atol=0.05)


@pytest.mark.parametrize("until", [None, "q"])
def test_iterations_past_the_end_change_nothing(until: str | None) -> None:
    """Nor does a causal block need those in which none of its queries has a key."""
    random = np.random.default_rng(1)
    loop = attention(32, 32, 32, causal=until is not None)
    meaning = loop.meaning
    sizes = {"q": 64, "keys": 100, "d": 32, "v": 32, "batch": 1, "heads": 1, "group": 1}
    arrays = {n.name: random.standard_normal([sizes[d] for d in n.dims]) for n in meaning.inputs}
    wanted = loop.evaluate(None, **arrays)["out"][0, 0, 0]
    for block in range(2):
        at = {"q": block, "v": 0}
        tiles = {
            n.name: [
                padded_tile(meaning, n, arrays[n.name][(0,) * len(n.batch)], at, i)
                for i in range(6)
            ]
            for n in meaning.inputs
        }
        tiles |= {
            n.name: [place_tile(meaning, n, sizes, at, i) for i in range(6)]
            for n in meaning.nodes
            if n.kind is NodeKind.LEFT
        }
        end = 100 if until is None else 100 - (1 - block) * 32
        for trips in (-(-end // 32), 6):
            found = evaluate_block(meaning, tiles, trips)["out"][0]
            np.testing.assert_array_equal(found, wanted[32 * block : 32 * block + 32])


def test_until_names_a_dimension_of_the_grid() -> None:
    loop = Loop("causal", over="k", until="k")
    x = loop.stream("X", "f32", k=1, n=256)
    total = loop.carry("total", n=256)
    total += x.sum("k")
    loop.store("out", total)
    with pytest.raises(GraphError, match="runs until the end of"):
        _ = loop.meaning


@pytest.mark.parametrize(("given", "stored"), [(("b",), ()), (("n",), ("n",))])
def test_a_batch_has_dimensions_of_its_own(given: tuple[str, ...], stored: tuple[str, ...]) -> None:
    loop = Loop("sums", over="k")
    x = loop.stream("X", "f32", k=1, n=256)
    total = loop.carry("total", n=256)
    total += x.sum("k")
    loop.store("out", total)
    loop.batch("X", over=given)
    loop.batch("out", over=stored)
    with pytest.raises(GraphError, match="has no array 'Y'"):
        loop.batch("Y", over=("b",))
    with pytest.raises(GraphError, match="has the batch dimensions"):
        _ = loop.meaning
