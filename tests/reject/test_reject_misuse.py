"""The public functions, used wrongly: each call works or says what to change, never a raw error."""

# mypy: ignore-errors
# Every call here is of a wrong type, or may be.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.program import Program


class Declared:
    """A small declaration, new for every case."""

    def __init__(self) -> None:
        self.loop = pl.Loop("misused", over="k")
        self.x = self.loop.stream("X", "f32", k=2, n=256)
        self.y = self.loop.stream("Y", "f32", k=2, n=256)
        self.c = self.loop.carry("C", "f32", start=0, n=256)


Case = Callable[[Declared], Any]

DECLARE: dict[str, Case] = {
    "x == y in where": lambda d: pl.where(d.x == d.y, d.x, 0.0),
    "x != y": lambda d: pl.where(d.x != d.y, d.x, 0.0),
    "x == text": lambda d: d.x == "a",
    "x == None": lambda d: d.x == None,  # noqa: E711
    "truths and": lambda d: pl.where((d.x > 0) & (d.y > 0), d.x, 0.0),
    "truths or": lambda d: pl.where((d.x > 0) | (d.y > 0), d.x, 0.0),
    "truths not": lambda d: pl.where(~(d.x > 0), d.x, 0.0),
    "x & y": lambda d: d.x & d.y,
    "x | 1": lambda d: d.x | 1,
    "~x": lambda d: ~d.x,
    "x > 0 & y": lambda d: d.x > 0 & d.y,
    "True & truth": lambda d: True & (d.x > 0),
    "1 | truth": lambda d: 1 | (d.x > 0),
    "x ^ y": lambda d: d.x ^ d.y,
    "1 ^ truth": lambda d: 1 ^ (d.x > 0),
    "2 ** x": lambda d: 2**d.x,
    "x + a number that no float holds": lambda d: d.x + 10**400,
    "carry from a number that no float holds": lambda d: d.loop.carry("Z", start=10**400, n=2),
    "abs": lambda d: abs(d.x),
    "x ** 2": lambda d: d.x**2,
    "x ** 5": lambda d: d.x**5,
    "x ** 0.5": lambda d: d.x**0.5,
    "x ** -1": lambda d: d.x**-1,
    "x ** y": lambda d: d.x**d.y,
    "np.exp": lambda d: np.exp(d.x),
    "np.exp2": lambda d: np.exp2(d.x),
    "np.maximum": lambda d: np.maximum(d.x, d.y),
    "np.add.reduce": lambda d: np.add.reduce(d.x),
    "np.float64 * x": lambda d: np.float64(2.0) * d.x,
    "array * x": lambda d: np.ones(4) * d.x,
    "x[0]": lambda d: d.x[0],
    "x[:, 1]": lambda d: d.x[:, 1],
    "iter": lambda d: list(d.x),
    "len": lambda d: len(d.x),
    "float": lambda d: float(d.x),
    "int": lambda d: int(d.x),
    "if x": lambda d: 1 if d.x else 0,
    "0 < x < 1": lambda d: 0 < d.x < 1,
    "x % 2": lambda d: d.x % 2,
    "x // 2": lambda d: d.x // 2,
    "x + text": lambda d: d.x + "a",
    "x + None": lambda d: d.x + None,
    "x @ 2": lambda d: d.x @ 2,
    "x @ y": lambda d: d.x @ d.y,
    "exp2(1.0)": lambda d: pl.exp2(1.0),
    "log2(None)": lambda d: pl.log2(None),
    "rcp(text)": lambda d: pl.rcp("x"),
    "rsqrt(1)": lambda d: pl.rsqrt(1),
    "maximum(1, x)": lambda d: pl.maximum(1.0, d.x),
    "minimum(None, x)": lambda d: pl.minimum(None, d.x),
    "where(True)": lambda d: pl.where(True, d.x, d.y),
    "where(x)": lambda d: pl.where(d.x, d.x, d.y),
    "keep(1, x)": lambda d: pl.keep(1.0, d.x, 1),
    "within(x, 1)": lambda d: pl.within(d.x, 1.0),
    "fma(1, x, y)": lambda d: pl.fma(1.0, d.x, d.y),
    "sum of no dimension": lambda d: d.x.sum(),
    "sum of an unknown dimension": lambda d: d.x.sum("z"),
    "max of a number": lambda d: d.x.max(1),
    "to an unknown type": lambda d: d.x.to("f31"),
    "to a number": lambda d: d.x.to(3),
    "to None": lambda d: d.x.to(None),
    "named None": lambda d: d.x.named(None),
    "named twice": lambda d: d.x.named("Y"),
    "becomes of no carry": lambda d: d.x.becomes(d.y),
    "becomes text": lambda d: d.c.becomes("a"),
    "stream None": lambda d: d.loop.stream(None, "f32", k=2),
    "stream 3": lambda d: d.loop.stream(3, "f32", k=2),
    "stream without a name": lambda d: d.loop.stream("", "f32", k=2),
    "stream again": lambda d: d.loop.stream("X", "f32", k=2),
    "stream without over": lambda d: d.loop.stream("Z", "f32", n=2),
    "stream of NumPy sizes": lambda d: d.loop.stream("Z", "f32", k=np.int64(2)),
    "stream of 0": lambda d: d.loop.stream("Z", "f32", k=0),
    "stream of -1": lambda d: d.loop.stream("Z", "f32", k=-1),
    "stream of 1.5": lambda d: d.loop.stream("Z", "f32", k=1.5),
    "stream of True": lambda d: d.loop.stream("Z", "f32", k=True),
    "stream of text": lambda d: d.loop.stream("Z", "f32", k="2"),
    "stream of no type": lambda d: d.loop.stream("Z", None, k=2),
    "resident of 0": lambda d: d.loop.resident("Z", "f32", n=0),
    "carry of 0": lambda d: d.loop.carry("Z", "f32", n=0),
    "carry of 1.5": lambda d: d.loop.carry("Z", "f32", n=1.5),
    "carry from text": lambda d: d.loop.carry("Z", "f32", start="0", n=2),
    "carry from a value": lambda d: d.loop.carry("Z", "f32", start=d.x, n=2),
    "carry None": lambda d: d.loop.carry(None, "f32", n=2),
    "left of 0": lambda d: d.loop.left("k", 0),
    "left of 1.5": lambda d: d.loop.left("k", 1.5),
    "left of NumPy": lambda d: d.loop.left("k", np.int32(2)),
    "scalar None": lambda d: d.loop.scalar(None),
    "store None": lambda d: d.loop.store("out", None),
    "store a number": lambda d: d.loop.store("out", 1.0),
    "store by no name": lambda d: d.loop.store(None, d.x),
    "store as text": lambda d: d.loop.store("out", d.x, dtype="f31"),
    "apply of nothing": lambda d: d.loop.apply("nothing", d.x),
    "apply None": lambda d: d.loop.apply(None, d.x),
    "apply a function": lambda d: d.loop.apply(np.add, d.x, d.y),
    "apply to too few": lambda d: d.loop.apply("add", d.x),
    "apply over text": lambda d: d.loop.apply("sum", d.x, over="k"),
    "apply over nothing": lambda d: d.loop.apply("sum", d.x),
    "apply to a list": lambda d: d.loop.apply("add", d.x, [1.0]),
    "when a number": lambda d: d.loop.when(d.x).__enter__(),
    "meaning of nothing stored": lambda d: d.loop.meaning,
    "another loop's value": lambda d: d.x + Declared().x,
    "sizes that disagree": lambda d: d.x + d.loop.stream("Z", "f32", k=2, n=3),
    "batch of nothing": lambda d: d.loop.batch("Z", over=("b",)),
    "loop without a name": lambda d: pl.Loop("", over="k"),
}


@pytest.mark.parametrize("case", DECLARE)
def test_declarations(case: str) -> None:
    survives(lambda: DECLARE[case](Declared()))


def survives(call: Callable[[], Any]) -> None:
    """It returns, or raises what names a remedy."""
    refused: list[pl.ScheduleError] = []
    try:
        call()
    except pl.ScheduleError as error:
        refused.append(error)
    assert all(error.hint for error in refused), refused


@cache
def program() -> Program:
    loop = pl.Loop("rows", over="k")
    x = loop.stream("X", "f32", b=1, k=2, n=256)
    total = loop.carry("total", "f32", start=0, b=1, n=256)
    total += x.sum("k")
    loop.store("out", total * loop.scalar("f", usual=2.0))
    return pl.pipeline(loop, "gfx950", 1, stages=1)


@cache
def emitted() -> Any:
    return pl.emit(program())


SIZES = {"b": 1, "k": 4, "n": 256}
X = np.zeros((1, 4, 256), np.float32)

USE: dict[str, Callable[[], Any]] = {
    "verify None": lambda: pl.verify(None),
    "verify 3": lambda: pl.verify(3),
    "verify an unknown name": lambda: pl.verify("nothing"),
    "verify a class": lambda: pl.verify(pl.Loop),
    "execute 1.5 trips": lambda: pl.execute(program(), trips=1.5),
    "execute -1 trips": lambda: pl.execute(program(), trips=-1),
    "execute None trips": lambda: pl.execute(program(), trips=None),
    "execute text trips": lambda: pl.execute(program(), trips="2"),
    "execute NumPy trips": lambda: pl.execute(program(), trips=np.int64(2)),
    "execute unknown trips": lambda: pl.execute(program(), trips={"Z": 1}),
    "execute seed 1.5": lambda: pl.execute(program(), trips=1, seed=1.5),
    "execute seed -1": lambda: pl.execute(program(), trips=1, seed=-1),
    "execute an unknown policy": lambda: pl.execute(program(), trips=1, policy="soon"),
    "execute an unknown order": lambda: pl.execute(program(), trips=1, order="soon"),
    "execute arrays of nothing": lambda: pl.execute(program(), trips=1, arrays={}),
    "execute arrays of a wrong shape": lambda: pl.execute(
        program(), trips=1, arrays={"X": np.zeros(3), "f": 1.0}
    ),
    "simulate text": lambda: pl.simulate(program(), k_tiles="a"),
    "simulate 1.5": lambda: pl.simulate(program(), k_tiles=1.5),
    "simulate -1": lambda: pl.simulate(program(), k_tiles=-1),
    "simulate NumPy": lambda: pl.simulate(program(), k_tiles=np.int64(32)),
    "simulate jitter text": lambda: pl.simulate(program(), jitter="a"),
    "simulate jitter nan": lambda: pl.simulate(program(), jitter=float("nan")),
    "simulate seed 1.5": lambda: pl.simulate(program(), seed=1.5),
    "emit None": lambda: pl.emit(None),
    "emit with a type": lambda: pl.emit(program(), dtype="bf16"),
    "report None": lambda: pl.report(None),
    "run sizes None": lambda: pl.run(emitted(), sizes=None),
    "run sizes a list": lambda: pl.run(emitted(), sizes=[1, 4, 256]),
    "run sizes empty": lambda: pl.run(emitted(), sizes={}),
    "run sizes of text": lambda: pl.run(emitted(), sizes=SIZES | {"k": "4"}),
    "run sizes of 0": lambda: pl.run(emitted(), sizes=SIZES | {"n": 0}),
    "run unknown sizes": lambda: pl.run(emitted(), sizes=SIZES | {"z": 1}),
    "run NumPy sizes": lambda: pl.run(emitted(), sizes={d: np.int64(s) for d, s in SIZES.items()}),
    "run seed 1.5": lambda: pl.run(emitted(), sizes=SIZES, seed=1.5),
    "run seed -1": lambda: pl.run(emitted(), sizes=SIZES, seed=-1),
    "run data normal": lambda: pl.run(emitted(), sizes=SIZES, data="normal"),
    "run data odd": lambda: pl.run(emitted(), sizes=SIZES, data="odd"),
    "run timing odd": lambda: pl.run(emitted(), sizes=SIZES, timing="odd"),
    "run arrays of a wrong shape": lambda: pl.run(emitted(), sizes=SIZES, arrays={"X": X[0]}),
    "run arrays of text": lambda: pl.run(emitted(), sizes=SIZES, arrays={"X": "a"}),
    "run unknown arrays": lambda: pl.run(emitted(), sizes=SIZES, arrays={"Z": X}),
    "run arrays a list": lambda: pl.run(emitted(), sizes=SIZES, arrays=[X]),
    "run an unknown scalar": lambda: pl.run(emitted(), sizes=SIZES, scalars={"g": 1.0}),
    "run a scalar of text": lambda: pl.run(emitted(), sizes=SIZES, scalars={"f": "a"}),
    "run scalars a number": lambda: pl.run(emitted(), sizes=SIZES, scalars=2.0),
    "pipeline None": lambda: pl.pipeline(None, "gfx950", 4),
    "pipeline a function": lambda: pl.pipeline(pl.kernels.gemm, "gfx950", 4),
    "pipeline an unknown chip": lambda: pl.pipeline(pl.kernels.gemm(32, 32, 64), "gfx1", 1),
    "pipeline 0 waves": lambda: pl.pipeline(pl.kernels.gemm(32, 32, 64), "gfx950", 0),
    "pipeline 1.5 waves": lambda: pl.pipeline(pl.kernels.gemm(32, 32, 64), "gfx950", 1.5),
    "pipeline text k_tiles": lambda: pl.pipeline(
        pl.kernels.gemm(32, 32, 64),
        "gfx950",
        1,
        k_tiles="a",
    ),
    "a tile for more registers than there are": lambda: pl.pipeline(
        pl.kernels.gemm(1024, 1024, 64), "gfx950", 1
    ),
    "a tile for more LDS than there is": lambda: pl.pipeline(
        pl.kernels.gemm(32, 32, 1 << 20), "gfx950", 1
    ),
}


@pytest.mark.parametrize("case", USE)
def test_uses(case: str) -> None:
    survives(USE[case])


def test_what_is_supported_means_what_it_says() -> None:
    loop = pl.Loop("mixed", over="k")
    x, y = (loop.stream(name, "f32", k=2, n=8) for name in "XY")
    loop.store("out", pl.where((x == y) | ~(x > 0), abs(x) ** 3, np.multiply(2.0, y)))
    rng = np.random.default_rng(1)
    a, b = rng.integers(-2, 3, (2, 4, 8)).astype(np.float32)
    found = loop.evaluate(X=a, Y=b)["out"]
    np.testing.assert_array_equal(found, np.where((a == b) | (a <= 0), np.abs(a) ** 3, 2 * b))
