"""Numbers stand for values in the executor, so what it compares to the bit must be exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeloom.declare.functions import within
from pipeloom.declare.kernels import gemm, gemm_bias
from pipeloom.declare.loop import Loop
from pipeloom.judge.execute.truth import SPREADS, STEPS, truth_for
from pipeloom.machine.dtypes import F32
from pipeloom.program import VOCABULARY, Meaning, NodeKind
from pipeloom.program.block_values import is_exact


def powers(of: int) -> Loop:
    """A sum of ``of``-th powers, which grow past what f32 holds as whole numbers."""
    loop = Loop("powers", over="k")
    x = loop.stream("X", F32, k=8, n=4)
    power = x
    for _ in range(of - 1):
        power = power * x
    total = loop.carry("total", F32, start=0, n=4)
    total += power.sum("k")
    loop.store("out", total)
    return loop


def test_inputs_shrink_until_every_value_is_exact() -> None:
    small, large = (truth_for(powers(of).meaning, 5, 0) for of in (2, 5))
    assert small.exact
    assert large.exact
    assert np.abs(large.outputs["out"]).max() < 2**24
    largest = [
        max(float(np.abs(t).max()) for s in truth.sets for t in s["X"]) for truth in (small, large)
    ]
    assert largest[1] < largest[0]
    assert largest[0] >= SPREADS[0]


def test_arguments_shrink_with_the_inputs() -> None:
    """Twelfth powers are exact with the smallest numbers only, 1 and 2."""
    loop = Loop("scaled", over="k")
    x = loop.stream("X", F32, k=8, n=4)
    cube = x * x * x
    total = loop.carry("total", F32, start=0, n=4)
    total += (cube * cube * cube * cube * loop.scalar("s")).sum("k")
    loop.store("out", total)
    truth = truth_for(loop.meaning, 1, 0)
    assert truth.exact
    assert {given["s"] for given in truth.scalars} <= {1.0, 2.0}


def test_sums_are_exact_where_every_op_is_known_to_be() -> None:
    assert is_exact(gemm().meaning)
    assert is_exact(powers(3).meaning)
    assert not is_exact(gemm_bias().meaning)
    loop = Loop("own", over="k")
    x = loop.stream("X", F32, k=8, n=4)
    total = loop.carry("total", F32, start=0, n=4)
    total += loop.apply(replace(VOCABULARY["mul"], name="times"), x, x).sum("k")
    loop.store("out", total)
    assert not is_exact(loop.meaning)


def test_whole_numbers_are_odd_and_even() -> None:
    """A lost last bit shows only in odd ones."""
    truth = truth_for(powers(2).meaning, 5, 0)
    assert {float(n) % 2 for tiles in truth.sets for tile in tiles["X"] for n in tile.flat} == {
        0,
        1,
    }


def test_what_stays_is_of_the_size_of_what_rises_and_falls() -> None:
    """Half of it, so that either may be the larger one of any iteration."""
    loop = Loop("above", over="k")
    x, q = loop.stream("X", F32, k=8, n=64), loop.resident("Q", F32, n=64)
    total = loop.carry("total", F32, start=0, n=64)
    total += x.sum("k") + q
    loop.store("out", total)
    iterations, step = 6, SPREADS[0] // STEPS
    for tiles in truth_for(loop.meaning, iterations, 0).sets[1:]:
        low = tiles["Q"][0] <= SPREADS[0]
        raised = tiles["Q"][0] > step * iterations
        assert (low | raised).all()
        assert not low.all()
        assert not raised.all()
        assert np.max(tiles["Q"][0]) > max(np.min(tile) for tile in tiles["X"])
        assert np.max(tiles["Q"][0]) > SPREADS[0] + iterations


def test_what_cannot_be_exact_is_compared_to_within_rounding() -> None:
    assert not truth_for(powers(40).meaning, 5, 0).exact


def test_every_seed_ends_a_tile_earlier_and_never_before_the_masks() -> None:
    loop = Loop("masked", over="k")
    x = loop.stream("X", "f32", m=4, k=4)
    total = loop.carry("total", m=4)
    total += within(x, loop.left("k", 4)).sum("k")
    loop.store("out", total)
    assert [least_left(loop.meaning, seed, plain=1) for seed in range(4)] == [1, -3, -7, -7]


def least_left(meaning: Meaning, seed: int, *, plain: int) -> float:
    """The first element's distance from the end in the last of 4 iterations, where it is least."""
    (name,) = [node.name for node in meaning.nodes if node.kind is NodeKind.LEFT]
    truth = truth_for(meaning, 4, seed, plain=plain)
    return float(min(tiles[name][3].flat[0] for tiles in truth.sets))
