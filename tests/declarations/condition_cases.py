"""Truth values as people combine them."""

from __future__ import annotations

import numpy as np

import pipeloom as pl
from tests.declarations.cases import listed, right

ROWS = {"b": 2, "r": 3, "n": 200}


def started(name: str, dtype: pl.DType = pl.F32) -> tuple[pl.Loop, pl.Tensor, pl.Tensor]:
    loop = pl.Loop(name, over="r")
    x = loop.stream("X", dtype, b=1, r=1, n=256)
    return loop, x, loop.stream("Y", dtype, b=1, r=1, n=256)


@right(lambda X, Y: np.where((X > 0) & (Y > 0), X, Y), ROWS)
def both_hold() -> pl.Loop:
    loop, x, y = started("both")
    loop.store("out", pl.where((x > 0) & (y > 0), x, y))
    return loop


@right(lambda X, Y: np.where((X > 1) | ~(Y > 0), X, -1), ROWS)
def one_or_not_the_other() -> pl.Loop:
    loop, x, y = started("either")
    loop.store("out", pl.where((x > 1) | ~(y > 0), x, -1))
    return loop


@right(lambda X, Y: np.where((X > 0) ^ (Y > 0), 1, 0), ROWS)
def exactly_one_holds() -> pl.Loop:
    loop, x, y = started("xor")
    loop.store("out", pl.where((x > 0) ^ (y > 0), 1.0, 0.0))
    return loop


@right(lambda X, Y: np.where((X > -1) & (X <= 1) & (Y != 0), X * 2, X), ROWS)
def a_range_and_unequal() -> pl.Loop:
    loop, x, y = started("range")
    loop.store("out", pl.where((x > -1) & (x <= 1) & (y != 0), x * 2, x))
    return loop


@right(lambda X, Y: np.where(X == Y, 1, 0), ROWS)
def equal_integers() -> pl.Loop:
    loop, x, y = started("equal", pl.I32)
    loop.store("out", pl.where(x == y, 1.0, 0.0))
    return loop


@right(lambda X, Y: (X > Y).sum(-1), ROWS)
def truths_counted() -> pl.Loop:
    loop, x, y = started("counted")
    loop.store("out", (x > y).sum("n"))
    return loop


@right(lambda X, Y: (X > Y) * X, ROWS)
def truths_multiplied() -> pl.Loop:
    loop, x, y = started("multiplied")
    loop.store("out", (x > y) * x)
    return loop


@right(lambda X, Y: np.where((X > 2).any(-1, keepdims=True), Y, X), ROWS)
def any_of_a_row() -> pl.Loop:
    loop, x, y = started("any")
    loop.store("out", pl.where((x > 2).any("n"), y, x))
    return loop


@right(lambda X, Y: np.where((X > -4).all(-1, keepdims=True), Y, X), ROWS)
def all_of_a_row() -> pl.Loop:
    loop, x, y = started("all")
    loop.store("out", pl.where((x > -4).all("n"), y, x))
    return loop


@right(lambda X, Y: np.where(np.arange(X.shape[-1]) % 2 == 0, X, Y), ROWS)
def every_second_column() -> pl.Loop:
    loop, x, y = started("even")
    loop.store("out", pl.where(loop.index("n", 256) % 2 == 0, x, y))
    return loop


CASES = listed(globals())
