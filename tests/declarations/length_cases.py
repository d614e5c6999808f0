"""Any length, along the loop and across it, of loops that store as they go and of sums of rows."""

from __future__ import annotations

import numpy as np

import pipeloom as pl
from tests.declarations.cases import listed, right

LENGTHS = tuple({"m": 20, "n": n} for n in (0, 2, 100, 134))
ODD = tuple({"m": 20, "n": n} for n in (1, 133))


@right(lambda X: np.maximum(X, 0), *LENGTHS)
def elementwise_along_its_rows() -> pl.Loop:
    loop = pl.Loop("relu", over="n")
    loop.store("out", pl.maximum(loop.stream("X", pl.BF16, m=16, n=64), 0).to(pl.BF16))
    return loop


@right(lambda X: np.maximum(X, 0), *ODD)
def elementwise_along_odd_rows() -> pl.Loop:
    loop = pl.Loop("relu", over="n")
    x = loop.stream("X", pl.BF16, m=16, n=64)
    loop.align("X", to=2)
    loop.store("out", pl.maximum(x, 0).to(pl.BF16))
    return loop


@right(lambda X: X * 2, {"m": 20, "g": 3, "n": 5}, {"m": 3, "g": 0, "n": 33})
def elementwise_along_a_dimension_between() -> pl.Loop:
    loop = pl.Loop("twice", over="g")
    loop.store("out", loop.stream("X", pl.F32, m=2, g=2, n=32) * 2)
    return loop


@right(lambda X, Y: X + Y, {"i": 1000}, {"i": 3})
def vectors() -> pl.Loop:
    loop = pl.Loop("add", over="i")
    loop.store("out", loop.stream("X", pl.F32, i=256) + loop.stream("Y", pl.F32, i=256))
    return loop


@right(lambda X: np.exp(X - X.max(0)), {"m": 20, "n": 100})
def softmax_over_columns() -> pl.Loop:
    loop = pl.Loop("columns", over="n")
    x = loop.stream("X", pl.F32, m=32, n=64)
    loop.store("out", pl.exp(x - x.max("m")))
    return loop


@right(lambda X: X.sum(1), *LENGTHS)
def sums_of_long_rows_in_16_bits() -> pl.Loop:
    loop = pl.Loop("sums", over="n")
    total = loop.carry("total", m=16)
    total += loop.stream("X", pl.BF16, m=16, n=64).sum("n")
    loop.store("out", total)
    return loop


@right(lambda A, x: A @ x, {"m": 70, "k": 102})
def a_matrix_times_a_vector_of_any_length() -> pl.Loop:
    loop = pl.Loop("gemv", over="k")
    total = loop.carry("total", m=64)
    total += loop.stream("A", pl.BF16, m=64, k=64) @ loop.stream("x", pl.BF16, k=64)
    loop.store("out", total)
    return loop


@right(
    lambda X, w: (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5) * w,
    *({"r": 5, "n": n} for n in (2, 100, 126)),
    near=0.02,
)
def layer_norm_of_rows_that_loads_do_not_divide() -> pl.Loop:
    loop = pl.Loop("norm", over="r")
    x, w = loop.stream("X", pl.BF16, r=4, n=128), loop.resident("w", pl.F32, n=128)
    centred = x - x.mean("n")
    spread = (centred * centred).mean("n")
    loop.store("out", (centred * pl.rsqrt(spread + 1e-5) * w).to(pl.BF16))
    return loop


@right(lambda X: {"copy": X, "sum": X.sum(0)}, *({"k": k, "n": 20} for k in (33, 16, 1)))
def copied_and_summed() -> pl.Loop:
    loop = pl.Loop("all", over="k")
    x, total = loop.stream("X", pl.F32, k=16, n=16), loop.carry("total", n=16)
    total += x.sum("k")
    loop.store("sum", total)
    loop.store("copy", x)
    return loop


@right(
    lambda X: {
        "tops": sum(X[k : k + 16].max(0) for k in range(0, len(X), 16)),
        "sum": X.sum(0),
        "copy": X,
    },
    *({"k": k, "n": 20} for k in (33, 7)),
    arrays=lambda rng, s: {"X": -1 - rng.random((s["k"], s["n"]))},
)
def sums_of_the_largest_of_each_tile_beside_a_mask() -> pl.Loop:
    loop = pl.Loop("tops", over="k")
    x = loop.stream("X", pl.F32, k=16, n=16)
    tops, total = loop.carry("most", n=16), loop.carry("total", n=16)
    tops += x.max("k")
    total += pl.where(loop.left("k") > 0, x, 0.0).sum("k")
    for name, value in (("tops", tops), ("sum", total), ("copy", x)):
        loop.store(name, value)
    return loop


@right(lambda X, Y: {"copy": X, "scale": Y * 2}, *({"i": i} for i in (3, 8, 0)))
def copied_beside_what_has_nothing_to_do_with_it() -> pl.Loop:
    loop = pl.Loop("copy", over="i")
    loop.store("copy", loop.stream("X", pl.BF16, i=2))
    loop.store("scale", loop.resident("Y", pl.F32) * 2)
    return loop


@right(
    lambda X: {"out": X * 2, "top": X.max(1)},
    *({"a": 20, "b": b, "c": c} for b, c in ((2, 1), (2, 8), (3, 9), (1, 3))),
)
def largest_of_single_rows_between() -> pl.Loop:
    loop = pl.Loop("between", over="b")
    x = loop.stream("X", pl.F32, a=16, b=1, c=8)
    top = loop.carry("most", start=-np.inf, a=16, c=8)
    loop.store("out", x * 2)
    loop.store("top", top.becomes(pl.maximum(top, x.max("b"))))
    return loop


@right(
    lambda X: sum((X[t : t + 4].sum(0) ** 2 for t in range(0, len(X), 4)), np.zeros(X.shape[1])),
    *({"t": t, "n": 20} for t in (0, 3, 9, 12)),
)
def squares_of_sums_of_tiles() -> pl.Loop:
    loop = pl.Loop("squares", over="t")
    total, part = loop.carry("total", n=16), loop.stream("X", pl.F32, t=4, n=16).sum("t")
    total += part * part
    loop.store("out", total)
    return loop


@right(
    lambda A, B: sum(
        (np.maximum(A[:, k : k + 32] @ B[:, k : k + 32].T, 0) for k in range(0, A.shape[1], 32)),
        np.zeros((len(A), len(B))),
    ),
    *({"m": 20, "n": 7, "k": k} for k in (5, 40, 64)),
)
def products_of_tiles_above_zero() -> pl.Loop:
    loop = pl.Loop("above", over="k")
    a, b = loop.stream("A", pl.BF16, m=32, k=32), loop.stream("B", pl.BF16, n=32, k=32)
    total = loop.carry("total", m=32, n=32)
    total += pl.maximum(a.staged() @ b.staged(), 0.0)
    loop.store("out", total)
    return loop


def decayed_where_above_zero(X: np.ndarray) -> np.ndarray:
    state = np.ones(X.shape[1])
    for t in range(0, len(X), 2):
        new = X[t : t + 2].sum(0)
        state = np.where(new > 0, state * 0.5 + new, state)
    return state


@right(decayed_where_above_zero, *({"t": t, "n": 20} for t in (0, 3, 8)))
def decays_under_a_condition() -> pl.Loop:
    loop = pl.Loop("decays", over="t")
    new = loop.stream("X", pl.F32, t=2, n=16).sum("t")
    state = loop.carry("state", start=1.0, n=16)
    with loop.when(new > 0.0):
        state = state.becomes(state * 0.5 + new)
    loop.store("out", state)
    return loop


CASES = listed(globals())
