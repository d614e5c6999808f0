"""Declarations drawn at random: where one takes any size, more iterations change no result.

The oracle is NumPy: the arrays of so many iterations, then the same arrays with zeros behind them
and nothing left. Data is made to overflow: large numbers, and infinities where none are excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pytest

from pipeloom.array_kinds import Array
from pipeloom.declare import Loop, Tensor, exp2, log2, maximum, minimum, rcp, rsqrt, where
from pipeloom.declare.functions import fma, keep, within
from pipeloom.errors import ScheduleError
from pipeloom.machine.dtypes import BF16, F32, FP8, FP16
from pipeloom.program.block_values import evaluate_block, place_tile
from pipeloom.program.idle import Inputs, idles_past_end
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import NodeKind

ROWS, COLUMNS, TRIPS, MORE = 2, 8, 3, 2
HARD = (0.0, 1.0, -1.0, 0.5, 3.0, 60.0, -60.0, 1e4, -1e4, 1e19, -1e19, 3e38, -3e38)

UNARY: tuple[Callable[[Tensor], Tensor], ...] = (
    exp2,
    log2,
    rcp,
    rsqrt,
    lambda x: -x,
    lambda x: x * 0.5,
    lambda x: x + 1.0,
    lambda x: x.to(FP16),
    lambda x: x.to(FP8),
    lambda x: maximum(x, 0.0),
    lambda x: minimum(x, 100.0),
)
BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    maximum,
    minimum,
    lambda a, b: where(a > b, a, b),
    lambda a, b: where(a <= b, a, 0.0),
    lambda a, b: fma(a, b, a),
)


def drawn(seed: int) -> Loop:
    """Two carried values, each updated by what is made of the stream, a resident and both."""
    rng = np.random.default_rng(seed)
    loop = Loop("drawn", over="k")
    x = loop.stream("X", [F32, BF16, FP16][rng.integers(3)], b=1, k=ROWS, n=COLUMNS)
    left = loop.left("k", ROWS)
    starts = (0.0, 0.0, 1.0, -1e30, float("-inf"))
    first, second = (
        loop.carry(name, F32, start=starts[rng.integers(5)], b=1, n=COLUMNS) for name in "st"
    )
    masks: tuple[Callable[[], Tensor], ...] = (
        lambda: within(x, left).sum("k"),
        lambda: keep(x, left, 1).max("k"),
        lambda: within(exp2(x), left).sum("k"),
    )
    masked = masks[rng.integers(3)]()
    positive = bool(rng.integers(2))
    resident = cache(lambda: loop.resident("R", F32, b=1, n=COLUMNS))
    scalar = cache(lambda: loop.scalar("f", usual=2.0, positive=positive))
    pool: tuple[Callable[[], Tensor], ...] = (
        *[lambda: masked] * 3,
        resident,
        lambda: first * scalar(),
        lambda: first,
        lambda: second,
    )

    def made(depth: int) -> Tensor:
        if not depth or rng.random() < 0.25:
            return pool[rng.integers(len(pool))]()
        if rng.random() < 0.4:
            return UNARY[rng.integers(len(UNARY))](made(depth - 1))
        return BINARY[rng.integers(len(BINARY))](made(depth - 1), made(depth - 1))

    def next_value(carried: Tensor) -> Tensor:
        how = rng.integers(6)
        if how < 3:
            return carried + masked * made(2)
        return maximum(carried, made(2)) if how == 3 else carried + made(3)

    if rng.random() < 0.3:
        with loop.when(made(1) > made(1)):
            loop.store("S", first.becomes(next_value(first)))
    else:
        loop.store("S", first.becomes(next_value(first)))
    loop.store("T", second.becomes(next_value(second)))
    return loop


def run(meaning: Meaning, arrays: Mapping[str, Array], trips: int) -> dict[str, list[Array]]:
    """``TRIPS`` iterations of the stream, then zeros."""
    rows = arrays["X"]
    tiles = {"X": [rows[:, i * ROWS : (i + 1) * ROWS] for i in range(TRIPS)]}
    tiles["X"] += [np.zeros_like(tiles["X"][0])] * (trips - TRIPS)
    tiles |= {
        n.name: [place_tile(meaning, n, {"k": TRIPS * ROWS}, {}, i) for i in range(trips)]
        for n in meaning.nodes
        if n.kind is NodeKind.LEFT
    }
    if "R" in meaning:
        tiles["R"] = [arrays["R"]]
    return evaluate_block(meaning, tiles, trips)


@pytest.mark.parametrize("seed", range(6))
def test_more_iterations_change_nothing_where_any_size_is_taken(seed: int) -> None:
    taken = 0
    for number in range(seed * 200, seed * 200 + 200):
        try:
            meaning = drawn(number).as_written
        except ScheduleError:  # the stream is not used
            continue
        if not meaning.ragged:
            continue
        taken += 1
        rng = np.random.default_rng(number)
        finite = not idles_past_end(meaning, Inputs.ALL)
        hard = HARD if finite else (*HARD, np.inf, -np.inf, np.nan)
        for _ in range(6):
            arrays = {
                "X": rng.choice(hard, (1, TRIPS * ROWS, COLUMNS)).astype(np.float32),
                "R": rng.choice(hard, (1, COLUMNS)).astype(np.float32),
            }
            if finite:
                largest = meaning["X"].type.dtype.largest
                arrays["X"] = np.clip(arrays["X"], -largest, largest)
            ended, later = (run(meaning, arrays, n) for n in (TRIPS, TRIPS + MORE))
            for name in ended:
                np.testing.assert_array_equal(ended[name], later[name], err_msg=str(number))
    assert taken > 5
