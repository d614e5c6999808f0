"""Integers in kernels and in their meaning, against NumPy's own integers."""

from __future__ import annotations

from functools import cache

import numpy as np

from pipeloom import pipeline
from pipeloom.declare import Loop
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import BF16, F32, I8, I32
from pipeloom.order.strategy import Exact
from pipeloom.write import assemble, emit_program

SIZES = {"b": 2, "k": 3, "n": 256}


@cache
def built(name: str) -> Launchable:
    program = pipeline(LOOPS[name](), target_for("gfx950"), 1, stages=2, strategy=Exact(1.0))
    kernel = emit_program(program)
    return Launchable.load(kernel, assemble(kernel))


def product() -> Loop:
    loop = Loop("bytes", over="k")
    a, b = loop.stream("A", I8, m=16, k=64), loop.stream("B", I8, n=16, k=64)
    total = loop.carry("C", I32, m=16, n=16)
    total += a.staged() @ b.staged()
    loop.store("out", total)
    return loop


def rows() -> Loop:
    loop = Loop("rows", over="k")
    x = loop.stream("X", I32, b=1, k=1, n=256)
    loop.store("moved", x)
    loop.store("kept", x.to(I32))
    loop.store("number", x.to(F32))
    loop.store("short", x.to(BF16))
    return loop


def quantised() -> Loop:
    loop = Loop("quantised", over="k")
    x = loop.stream("X", F32, b=1, k=1, n=256)
    loop.store("byte", x.to(I8))
    loop.store("word", x.to(I32))
    return loop


LOOPS = {"product": product, "rows": rows, "quantised": quantised}


def test_sums_of_bytes_are_exact_and_wrap_around() -> None:
    """2,000 products of 127 * 127 are past what f32 counts, 132,000 of 128 * 128 past 32 bits."""
    kernel, rng = built("product"), np.random.default_rng(3)
    least, step = kernel.emitted.k_min, kernel.emitted.k_step
    for about, low, high in ((2_000, 100, 128), (132_000, -128, -127)):
        depth = least + (about - least) // step * step
        a, b = (rng.integers(low, high, (16, depth)) for _ in "ab")
        sizes = {"m": 16, "n": 16, "k": depth}
        trial = run_program(kernel.emitted, kernel, sizes=sizes, arrays={"A": a, "B": b})
        meant = (a @ b.T).astype(np.int32)
        assert trial.ok, trial.summary()
        np.testing.assert_array_equal(trial.outputs["out"].astype(np.int64), meant)
        outputs = product().evaluate(A=a, B=b)
        np.testing.assert_array_equal(outputs["out"].astype(np.int64), meant)


def test_words_that_f32_does_not_have() -> None:
    """What is moved is as it was; a number of another type is rounded to f32 on its way."""
    x = np.random.default_rng(5).integers(-(2**31), 2**31, (2, 3, 256))
    x[0, 0, :4] = 2**24 + 1, 2**31 - 1, -(2**31), 2**31 - 2
    kernel = built("rows")
    trial = run_program(kernel.emitted, kernel, sizes=SIZES, arrays={"X": x})
    assert trial.ok, trial.summary()
    for found in (trial.outputs, rows().evaluate(X=x)):
        for name in ("moved", "kept"):
            np.testing.assert_array_equal(found[name].astype(np.int64), x)
        np.testing.assert_array_equal(found["number"], x.astype(np.float32))
        np.testing.assert_array_equal(found["short"], BF16.round(x.astype(np.float32)))


def test_a_nan_is_no_number_but_0() -> None:
    x = np.zeros((2, 3, 256), np.float32)
    x[0, 0, :7] = np.nan, np.inf, -np.inf, 127.5, -128.5, 2.5, -0.5
    kernel = built("quantised")
    trial = run_program(kernel.emitted, kernel, sizes=SIZES, arrays={"X": x})
    assert trial.ok, trial.summary()
    for found in (trial.outputs, quantised().evaluate(X=x)):
        assert found["byte"][0, 0, :7].tolist() == [0, 127, -128, 127, -128, 2, 0]
        ends = [0, 2**31 - 1, -(2**31), 128, -128, 2, 0]
        assert found["word"][0, 0, :7].astype(np.int64).tolist() == ends
