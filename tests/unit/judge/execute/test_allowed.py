"""Bounds for the elements of a kernel's outputs, from the data that it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.declare import Loop, Tensor
from pipeloom.declare.kernels import gemm, softmax
from pipeloom.judge.execute.allowed import allowed, outside
from pipeloom.program import evaluate

Array = np.ndarray[Any, Any]


def product() -> Loop:
    return gemm(32, 32, 32, out="f32")


def drawn(seed: int, depth: int = 512) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    loop = product().meaning
    found = {n: rng.standard_normal((48, depth)) for n in "AB"}
    return {n: np.asarray(loop[n].type.dtype.round(a)) for n, a in found.items()}


def judged(loop: Loop, arrays: Mapping[str, Array], got: Mapping[str, Array]) -> int:
    bounds = allowed(loop.meaning, arrays)
    return sum(outside(got[n], evaluate(loop.meaning, arrays)[n], bounds[n]).wrong for n in bounds)


@pytest.mark.parametrize("seed", range(3))
def test_every_order_of_a_sum_is_allowed_and_a_wrong_element_is_not(seed: int) -> None:
    """Numbers that are not whole: sums in another order differ in their last bits."""
    arrays = drawn(seed)
    order = np.random.default_rng(seed).permutation(512)
    a, b = (arrays[n][:, order].astype(np.float32) for n in "AB")
    got = np.zeros((48, 48), np.float32)
    for k in range(512):
        got += np.outer(a[:, k], b[:, k])
    meant = evaluate(product().meaning, arrays)["out"]
    assert (got != meant).any()
    assert judged(product(), arrays, {"out": got}) == 0
    got[5, 7] += 0.05
    assert judged(product(), arrays, {"out": got}) == 1


def test_what_is_large_elsewhere_excuses_nothing() -> None:
    arrays = drawn(4, 64)
    arrays["A"][:40] *= 2.0**20
    got = evaluate(product().meaning, arrays)["out"]
    got[47] *= 1.001
    assert judged(product(), arrays, {"out": got}) == 48


def test_whole_numbers_are_exact_whatever_they_are() -> None:
    rng = np.random.default_rng(6)
    arrays = {n: rng.integers(-100, 100, (40, 64)).astype(np.float32) for n in "AB"}
    got = evaluate(product().meaning, arrays)["out"]
    assert judged(product(), arrays, {"out": got}) == 0
    got[3, 3] = np.nextafter(got[3, 3], np.float32(np.inf))
    assert judged(product(), arrays, {"out": got}) == 1


def test_infinities_and_nans_are_what_numpy_has() -> None:
    arrays = drawn(7, 64)
    arrays["A"][0, 0], arrays["A"][1, 1], arrays["A"][2, :2] = np.inf, np.nan, (np.inf, -np.inf)
    got = evaluate(product().meaning, arrays)["out"]
    assert judged(product(), arrays, {"out": got}) == 0
    assert judged(product(), arrays, {"out": np.where(np.isnan(got), 0, got)}) > 48
    assert (
        judged(product(), arrays, {"out": np.where(np.isinf(got), 0, got)}) == np.isinf(got).sum()
    )


def test_probabilities_lie_within_what_the_chip_gives() -> None:
    loop = softmax(rows=1, columns=256)
    x = np.random.default_rng(8).standard_normal((3, 5, 256)) * 4
    arrays = {loop.meaning.inputs[0].name: np.asarray(loop.meaning.inputs[0].type.dtype.round(x))}
    name = loop.meaning.outputs[0].name
    got = evaluate(loop.meaning, arrays)[name]
    assert judged(loop, arrays, {name: got}) == 0
    assert judged(loop, arrays, {name: got * np.float32(1.02)}) == got.size


def test_what_overflows_in_some_order_may_be_anything() -> None:
    """And nothing else: a row beside it is judged as ever."""
    arrays = drawn(9, 64)
    arrays["A"][3, :4], arrays["B"][:, :4] = 3e38, (1, 1, -1, -1)
    got = evaluate(product().meaning, arrays)["out"]
    got[3] = np.nan
    assert judged(product(), arrays, {"out": got}) == 0
    got[4, 0] = np.nan
    assert judged(product(), arrays, {"out": got}) == 1


@pytest.mark.parametrize("seed", range(2))
def test_what_overflows_on_a_grid_may_be_anything(seed: int) -> None:
    """Terms of one mantissa: their sum is exact, if no order of it overflows."""
    rng = np.random.default_rng(seed)
    arrays = {n: rng.choice([-1.0, 1.0], (32, 64)).astype(np.float32) for n in "AB"}
    anything = np.full((32, 32), np.nan)
    assert judged(product(), arrays, {"out": anything}) == 32 * 32
    arrays["A"] *= np.float32(2.0**127)
    assert judged(product(), arrays, {"out": anything}) == 0


def gate(best: int = 2) -> Loop:
    """The largest labels of each row, one after the other, and the softmax of those."""
    loop = Loop("gate", over="r")
    left = loop.stream("X", "f32", r=2, e=64)
    place, found = loop.index("e"), []
    for n in range(best):
        found.append(left.max("e"))
        first = pl.where(left == found[-1], place, 512.0).min("e")
        loop.store(f"at{n}", first)
        left = pl.where(place == first, -np.inf, left)
    powers = [pl.exp(value - found[0]) for value in found]
    loop.store("first", powers[0] / sum(powers))
    return loop


def test_what_a_mask_keeps_is_not_in_doubt() -> None:
    """Rows that lack some of a tile: what is compared with their largest is one number."""
    x = np.random.default_rng(10).standard_normal((3, 60)).astype(np.float32)
    meaning = gate().meaning
    meant, bounds = evaluate(meaning, {"X": x}), allowed(meaning, {"X": x})
    assert (meant["at0"] == x.argmax(1)).all()
    for name in ("at0", "at1"):
        assert (bounds[name]["low"] == meant[name]).all()
        assert (bounds[name]["high"] == meant[name]).all()
    assert outside(np.nextafter(meant["first"], 1), meant["first"], bounds["first"]).wrong == 0
    assert outside(meant["first"] * 1.00001, meant["first"], bounds["first"]).wrong == 3


def about(kind: str) -> tuple[Loop, float]:
    """A function of numbers that a division leaves in doubt by about one half; what it gives in
    the middle."""
    loop = Loop(kind, over="r")
    x = loop.stream("X", "f32", r=4, n=64)
    near = (x / 3.0 - 1.0) * 2.0**20

    def stored(value: Tensor, middle: float) -> tuple[Loop, float]:
        loop.store("out", value)
        return loop, middle

    match kind:
        case "cos":
            return stored(pl.cos(near + 6.25), np.cos(6.25))
        case "sin":
            return stored(pl.sin(near + 1.5), np.sin(1.5))
        case "xor":
            return stored(pl.round(near * 2.0 + 8.0).to(pl.I32) ^ 8, 0.0)
        case "eq":
            return stored(pl.where(near + 8.0 == 8.125, 1.0, 0.0), 1.0)
        case _:
            return stored(1.0 / near, -np.inf)


@pytest.mark.parametrize("kind", ["cos", "sin", "xor", "eq", "rcp"])
def test_between_its_ends_a_function_may_turn(kind: str) -> None:
    loop, middle = about(kind)
    bounds = allowed(loop.meaning, {"X": np.full((4, 64), 3, np.float32)})["out"]
    assert (bounds["low"] <= middle).all()
    assert (bounds["high"] >= middle).all()
    if kind in ("cos", "sin", "eq"):
        assert (np.abs(bounds["low"]) < 1.001).all()
        assert (np.abs(bounds["high"]) < 1.001).all()


def test_turns_are_counted_in_f32() -> None:
    x = np.random.default_rng(11).uniform(-500, 500, 1000).astype(np.float32)
    for name in ("sin", "cos"):
        narrow = pl.VOCABULARY[name].apply(x)
        assert (pl.VOCABULARY[name].apply(x.astype(np.float64)).astype(np.float32) == narrow).all()


@pytest.mark.parametrize("kind", ["scaled", "relu", "chosen", "summed", "squared"])
def test_what_follows_from_an_overflow_may_be_what_follows_from_nan(kind: str) -> None:
    """Of every order that a kernel may take: of an infinity of either sign, of NaN, of a number."""
    loop = Loop(kind, over="r")
    x, s = loop.stream("X", "f32", r=4, n=64), loop.stream("S", "f32", r=4)
    total = x.sum("n")
    match kind:
        case "scaled":
            loop.store("out", total * s)
        case "relu":
            loop.store("out", pl.maximum(total, s))
        case "chosen":
            loop.store("out", pl.where(s == 0.0, total, s))
        case "summed":
            loop.store("out", (total * (x * 0.0 + 1.0)).sum("n") + s)
        case _:
            loop.store("out", (total * total - total) * s + 1.0)
    arrays = {"X": np.ones((8, 64), np.float32), "S": np.zeros(8, np.float32)}
    arrays["X"][:4] = 3e38 * (-1.0) ** (np.arange(64) + np.arange(64) // 8)
    meaning = loop.meaning
    bounds, meant = allowed(meaning, arrays)["out"], evaluate(meaning, arrays)["out"]
    assert np.isfinite(meant).all()
    for sum_ in (np.inf, -np.inf, np.nan, 5.0):
        with np.errstate(invalid="ignore"):
            follows = {
                "scaled": sum_ * 0.0,
                "relu": np.fmax(sum_, 0.0),
                "chosen": sum_,
                "summed": 64 * sum_,
                "squared": (sum_ * sum_ - sum_) * 0.0 + 1.0,
            }[kind]
        got = np.where(np.arange(8) < 4, np.float32(follows), meant)
        assert outside(got, meant, bounds).wrong == 0, sum_
    assert outside(meant + 1, meant, bounds).wrong >= 4


def test_a_comparison_with_anything_shows_nothing() -> None:
    arrays = {n: np.full((32, 32), 1, np.float32) for n in "AB"}
    arrays["A"][...] = np.where(np.arange(32) % 2, np.float32(2.0**127), -np.float32(2.0**127))
    meant = evaluate(product().meaning, arrays)["out"]
    found = outside(np.full((32, 32), 123.0), meant, allowed(product().meaning, arrays)["out"])
    assert (found.wrong, found.unbounded, found.empty) == (0, 32 * 32, True)
    arrays["A"][0] = 1
    found = outside(meant, meant, allowed(product().meaning, arrays)["out"])
    assert (found.unbounded, found.empty) == (31 * 32, False)
    assert not outside(meant[:0], meant[:0]).empty
