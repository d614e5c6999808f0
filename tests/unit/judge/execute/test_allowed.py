"""Bounds for the elements of a kernel's outputs, from the data that it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pipeloom.declare import Loop
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
    return sum(outside(got[n], evaluate(loop.meaning, arrays)[n], bounds[n])[0] for n in bounds)


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
