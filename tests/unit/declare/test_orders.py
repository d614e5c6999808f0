"""In which order a value has its dimensions: what a transpose says holds in all that follows."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from pickle import dumps
from random import Random
from typing import Any

import numpy as np
import pytest

import pipeloom as pl

numpy: Any = np
SIZES = {"i": 3, "m": 5, "n": 7}
TILE = {"i": 1, "m": 8, "n": 8}
Step = Callable[[Any], Any]
SAME: tuple[Step, ...] = (
    lambda x: 2 * x - 1,
    lambda x: x.astype("float32") + abs(x),
    lambda x: numpy.maximum(x, 0.5).clip(0, 3),
    lambda x: 1.0 - x * (x > 0),
)
"""What arrays and values of a loop are written alike for."""


def _chosen(x: Any, X: Any, random: Random) -> tuple[Any, Any]:
    """The same of a value and of an array: another order, or what keeps it, or one axis less."""
    order = random.sample(range(X.ndim), X.ndim)
    one, other = (random.choice([axis, axis - X.ndim]) for axis in (order[0], order[-1]))
    inner = random.choice([axis for axis, dim in enumerate(x.type.dims) if dim != "i"])
    dim, step = x.type.dims[inner], random.choice(SAME)
    most, loop = X.max(axis=inner, keepdims=True), x._loop
    kinds: list[Callable[[], tuple[Any, Any]]] = [
        lambda: (x.T, X.T),
        lambda: (x.transpose(*order), X.transpose(order)),
        lambda: (x.permute([x.type.dims[axis] for axis in order]), X.transpose(order)),
        lambda: (numpy.transpose(x, order), X.transpose(order)),
        lambda: (x.swapaxes(one, other), X.swapaxes(one, other)),
        lambda: (x.named(f"called {random.random()}"), X) if x.name != "X" else (copy(x), X),
        lambda: (step(x), step(X)),
        lambda: (x.to(pl.F32).contiguous(), X),
        lambda: (pl.where(x > 0, x, 0.25), np.where(X > 0, X, 0.25)),
        lambda: (pl.where(loop.index(dim) < loop.size(dim), x, 0.0), X),
        lambda: (x - x.max(axis=inner, keepdims=True), X - most),
        lambda: (x.softmax(inner), np.exp(X - most) / np.exp(X - most).sum(inner, keepdims=True)),
    ]
    if X.ndim > 2:
        name = random.choice(["sum", "max", "mean", "argmax"])
        kinds.append(lambda: (getattr(x, name)(axis=inner), getattr(X, name)(axis=inner)))
    return random.choice(kinds)()


def _chain(seed: int) -> tuple[pl.Loop, Any, Any]:
    """A declaration of random methods, its array, and what NumPy makes of it."""
    random, loop = Random(seed), pl.Loop("t", over="i")
    x: Any = loop.stream("X", pl.F32, **TILE)
    array = np.random.default_rng(seed).integers(-4, 5, [*SIZES.values()])
    wanted: Any = array.astype(np.float32)
    for _ in range(random.randrange(3, 9)):
        x, wanted = _chosen(x, wanted, random)
    loop.store("out", x)
    return loop, array, wanted


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_methods_leave_the_order_that_numpy_leaves(first: int) -> None:
    for seed in range(first, first + 20):
        loop, array, wanted = _chain(seed)
        found = loop.evaluate(X=array)["out"]
        assert found.shape == wanted.shape, seed
        np.testing.assert_allclose(found, wanted, atol=1e-4, err_msg=str(seed))


def test_a_kernel_stores_the_order_that_the_declaration_has() -> None:
    loop = pl.Loop("t", over="i")
    x = loop.stream("X", pl.F32, **TILE).transpose("i", "n", "m").named("q")
    loop.store("sums", x.sum(axis=1))
    loop.store("turned", pl.where(loop.index("m") < loop.size("m"), x.transpose(1, 2, 0), 0.0))
    array = np.random.default_rng(0).integers(-4, 5, [*SIZES.values()])
    trial = pl.run(loop, sizes=SIZES, arrays={"q": array})
    assert trial.ok
    np.testing.assert_array_equal(trial.outputs["sums"], array.sum(2))
    np.testing.assert_array_equal(trial.outputs["turned"], array.transpose(2, 1, 0))


def test_a_carried_value_keeps_the_order_it_is_taken_in() -> None:
    loop = pl.Loop("t", over="k")
    x, c = loop.stream("X", pl.F32, k=1, m=4, n=4), loop.carry("C", m=4, n=4)
    turned = c.T
    turned += x.sum("k").T * 2.0
    assert turned.type.dims == ("n", "m")
    assert turned.staged().named("total").type.dims == ("n", "m")
    loop.store("out", turned)
    array = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(loop.evaluate(X=array)["out"], 2 * array.sum(0).T)


def test_the_first_operand_with_all_dimensions_says_their_order() -> None:
    loop = pl.Loop("t", over="m")
    x = loop.stream("X", pl.F32, m=1, n=32)
    row = loop.resident("R", pl.F32, n=32)
    for value in (x.T + x, row * x.T, pl.where(x.T * row > 0, 1.0, x), pl.swapped(x.T, "n", 8)):
        assert value.type.dims == ("n", "m")
    assert (x + x.T).type.dims == ("m", "n")
    y = loop.stream("Y", pl.F32, b=2, m=1, n=32)
    assert (y.sum("n").T * row).type.dims == ("m", "b", "n")


def test_a_view_lies_as_its_tile_does() -> None:
    loop = pl.Loop("t", over="keys")
    k = loop.stream("K", pl.BF16, keys=32, k=64)
    with pytest.raises(pl.ConfigError, match="transposed") as found:
        loop.view("V", k.T, keys=32, v=32)
    assert "loop.view('V', K" in str(found.value.hint)


def test_a_copy_is_the_value_and_there_is_none_apart_from_its_loop() -> None:
    x = pl.Loop("t", over="m").stream("X", pl.F32, m=1, n=6).T
    assert copy(x) is x
    for copied in (deepcopy, dumps):
        with pytest.raises(pl.ConfigError) as found:
            copied(x)
        assert "declares the loop again" in str(found.value.hint)
