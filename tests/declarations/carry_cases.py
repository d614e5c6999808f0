"""Carried values: scans, running statistics, states that start from a tile, linear attention."""

from __future__ import annotations

from typing import Any

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Array, Arrays, Sizes, listed, right

ROWS = {"r": 7, "n": 100}


def started(name: str) -> tuple[pl.Loop, pl.Tensor]:
    loop = pl.Loop(name, over="r")
    return loop, loop.stream("X", pl.F32, r=1, n=64)


@right(lambda X: np.cumsum(X, 0), ROWS)
def running_sum() -> pl.Loop:
    loop, x = started("cumsum")
    total = loop.carry("total", r=1, n=64)
    total = total.becomes(total + x)
    loop.store("out", total)
    return loop


@right(lambda X: np.maximum.accumulate(X, 0), ROWS)
def running_maximum() -> pl.Loop:
    loop, x = started("cummax")
    top = loop.carry("top", start=-np.inf, r=1, n=64)
    top = top.becomes(pl.maximum(top, x))
    loop.store("out", top)
    return loop


def averaged(X: Array, decay: float) -> Any:
    state, found = np.zeros(X.shape[1]), []
    for row in X:
        state = decay * state + (1 - decay) * row
        found.append(state)
    return np.array(found)


@right(averaged, ROWS, scalars={"decay": 0.9})
def exponential_average_per_step() -> pl.Loop:
    loop, x = started("ema")
    decay = loop.scalar("decay", pl.F32)
    state = loop.carry("state", r=1, n=64)
    state = state.becomes(decay * state + (1.0 - decay) * x)
    loop.store("out", state)
    return loop


@right(lambda X, S: S + X.sum(0), ROWS)
def sum_that_starts_from_a_tile() -> pl.Loop:
    loop, x = started("from_tile")
    total = loop.carry("total", start=loop.resident("S", pl.F32, n=64), n=64)
    total += x.sum("r")
    loop.store("out", total)
    return loop


@right(lambda A, B, C0: C0 + A @ B.T, {"m": 20, "n": 37, "k": 64})
def product_that_starts_from_a_tile() -> pl.Loop:
    loop = pl.Loop("accumulate", over="k")
    a, b = loop.stream("A", pl.BF16, m=32, k=32), loop.stream("B", pl.BF16, n=32, k=32)
    c = loop.carry("C", start=loop.resident("C0", pl.F32, m=32, n=32), m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@right(lambda X, m0: np.maximum(m0, X.max(0)), ROWS)
def maximum_that_starts_from_a_computed_tile() -> pl.Loop:
    loop, x = started("from_computed")
    first = loop.resident("m0", pl.BF16, n=64)
    top = loop.carry("top", start=first * 1.0, n=64)
    top = top.becomes(pl.maximum(top, x.max("r")))
    loop.store("out", top)
    return loop


def two_moments(X: Array) -> Any:
    return {"mean": X.mean(0), "var": (X**2).mean(0) - X.mean(0) ** 2}


@right(two_moments, ROWS, near=2.0**-10)
def mean_and_variance_in_one_pass() -> pl.Loop:
    loop, x = started("moments")
    s1, s2 = loop.carry("s1", n=64), loop.carry("s2", n=64)
    s1 += x.sum("r")
    s2 += (x**2).sum("r")
    mean = s1 / loop.size("r")
    loop.store("mean", mean)
    loop.store("var", s2 / loop.size("r") - mean**2)
    return loop


def scaled_twice(A: Array, B: Array) -> Any:
    return {"out": A @ B.T, "rows": A.sum(1), "columns": B.sum(1)}


@right(scaled_twice, {"m": 20, "n": 32, "k": 64}, {"m": 32, "n": 21, "k": 96})
def carries_of_three_shapes() -> pl.Loop:
    loop = pl.Loop("three", over="k")
    a = loop.stream("A", pl.BF16, m=32, k=32).staged()
    b = loop.stream("B", pl.BF16, n=32, k=32).staged()
    c, rows, columns = (
        loop.carry("C", m=32, n=32),
        loop.carry("rows_", m=32),
        loop.carry("columns_", n=32),
    )
    c += a @ b
    rows += a.sum("k")
    columns += b.sum("k")
    loop.store("out", c)
    loop.store("rows", rows)
    loop.store("columns", columns)
    return loop


@right(lambda K, V: K.T @ V, {"t": 64, "d": 32, "v": 32}, {"t": 45, "d": 32, "v": 32})
def state_of_linear_attention() -> pl.Loop:
    loop = pl.Loop("state", over="t")
    k, v = loop.stream("K", pl.BF16, t=32, d=32), loop.stream("V", pl.BF16, t=32, v=32)
    s = loop.carry("S", d=32, v=32)
    s += k.staged().T @ v.staged()
    loop.store("out", s)
    return loop


@right(lambda X: X - np.concatenate([np.zeros((1, X.shape[1])), X[:-1]]), ROWS)
def differences_of_neighbours() -> pl.Loop:
    loop, x = started("diff")
    last = loop.carry("last", r=1, n=64)
    loop.store("out", x - last)
    last = last.becomes(x)
    return loop


def counted(X: Array) -> Any:
    return np.where(X > 0.5, 1, 0).sum(0)


@right(counted, ROWS)
def count_of_what_is_above() -> pl.Loop:
    loop, x = started("count")
    n = loop.carry("count", n=64)
    n += pl.where(x > 0.5, 1.0, 0.0).sum("r")
    loop.store("out", n.to(pl.I32))
    return loop


def far_below_zero(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    return {"X": -(2**24) * rng.integers(2, 9, (sizes["r"], sizes["n"]))}


@right(lambda X: X.max(0), ROWS, arrays=far_below_zero)
def largest_of_very_negative_integers() -> pl.Loop:
    loop = pl.Loop("most", over="r")
    x, top = loop.stream("X", pl.I32, r=4, n=64), loop.carry("top", start=-np.inf, n=64)
    top = top.becomes(pl.maximum(top, x.max("r")))
    loop.store("out", top)
    return loop


def kept_where_larger(X: Array) -> Any:
    top = np.zeros(X.shape[1])
    for row in X:
        top = np.where(row > top + 0.5, row, top)
    return top


@right(kept_where_larger, ROWS)
def carried_under_a_condition() -> pl.Loop:
    loop, x = started("when")
    top = loop.carry("top", n=64)
    new = x.sum("r")
    with loop.when(new > top + 0.5):
        top = top.becomes(new * 1.0)
    loop.store("out", top)
    return loop


def of_everything(X: Array, scale: Array) -> Any:
    return {"mean": X.mean(), "most": X.max() * scale, "count": (X > 0).sum()}


@right(
    of_everything,
    *({"r": r, "n": n} for r, n in ((7, 61), (1, 1))),
    arrays=lambda _, s: {"scale": np.array(2.5)},
)
def numbers_of_a_whole_array() -> pl.Loop:
    loop = pl.Loop("all", over="r")
    x, scale = loop.stream("X", pl.F32, r=4, n=64), loop.resident("scale", pl.F32)
    total, count = loop.carry("total"), loop.carry("above")
    most = loop.carry("top", start=-np.inf)
    total += x.sum()
    count += pl.where(x > 0, 1.0, 0.0).sum()
    most = most.becomes(pl.maximum(most, x.max()))
    loop.store("mean", total / (loop.size("r") * loop.size("n")))
    loop.store("most", most * scale)
    loop.store("count", count.to(pl.I32))
    return loop


@right(lambda X, Y: X @ Y, *({"i": i} for i in (1001, 3, 0)))
def dot_product_of_any_length() -> pl.Loop:
    loop = pl.Loop("dot", over="i")
    total = loop.carry("total")
    total += loop.stream("X", pl.F32, i=256) @ loop.stream("Y", pl.F32, i=256)
    loop.store("out", total)
    return loop


def last_state(A: Array, B: Array, h0: Array) -> Any:
    state = h0
    for a, b in zip(A, B, strict=True):
        state = a * state + b
    return state


@right(last_state, *({"r": r, "n": 33} for r in (17, 18, 1, 0)))
def a_recurrence_of_any_length_from_a_state() -> pl.Loop:
    loop = pl.Loop("recurrence", over="r")
    a, b = loop.stream("A", pl.F32, r=1, n=64), loop.stream("B", pl.F32, r=1, n=64)
    h = loop.carry("h", start=loop.resident("h0", pl.F32, n=64), n=64)
    h = h.becomes((a * h + b).sum("r"))
    loop.store("out", h)
    return loop


@right(lambda X: X.prod(0), *({"r": r, "n": 33} for r in (9, 1, 0)))
def a_product_of_any_length() -> pl.Loop:
    loop, x = started("product")
    total = loop.carry("total", start=1.0, n=64)
    total = total.becomes(total * x.sum("r"))
    loop.store("out", total)
    return loop


def retained(q: Array, k: Array, v: Array, g: float) -> Any:
    state, out = np.zeros((k.shape[1], v.shape[1])), []
    for row, key, value in zip(q, k, v, strict=True):
        state = g * state + np.outer(key, value)
        out.append(row @ state)
    return np.array(out)


@right(retained, {"t": 21, "d": 32, "w": 30}, scalars={"g": 0.9}, near=2.0**-12)
def retention_token_by_token() -> pl.Loop:
    loop = pl.Loop("retention", over="t")
    q, k = (loop.stream(name, pl.F32, t=1, d=32) for name in "qk")
    v, s = loop.stream("v", pl.F32, t=1, w=32), loop.carry("S", d=32, w=32)
    s = s.becomes(loop.scalar("g") * s + (k * v).sum("t"))
    loop.store("out", (q * s).sum("d"))
    return loop


def corrected(k: Array, v: Array, beta: Array) -> Any:
    state = np.zeros((k.shape[1], v.shape[1]))
    for key, value, share in zip(k, v, beta, strict=True):
        state = state + share * np.outer(key, value - key @ state)
    return state


def short_keys(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    return {"k": rng.standard_normal((sizes["t"], sizes["d"])) / 6}


@right(corrected, {"t": 21, "d": 32, "w": 30}, arrays=short_keys, near=2.0**-12, chip="gfx942")
def delta_rule() -> pl.Loop:
    loop = pl.Loop("delta", over="t")
    k, v = loop.stream("k", pl.F32, t=1, d=32), loop.stream("v", pl.F32, t=1, w=32)
    s = loop.carry("S", d=32, w=32)
    error = v - (k * s).sum("d")
    s.becomes(s + (loop.stream("beta", pl.F32, t=1) * k * error).sum("t"))
    loop.store("out", s)
    return loop


def selected(dt: Array, x: Array, B: Array, C: Array, A: Array) -> Any:
    state, out = np.zeros(A.shape), []
    for step, row, b, c in zip(dt, x, B, C, strict=True):
        state = np.exp(step[:, None] * A) * state + (step * row)[:, None] * b
        out.append(state @ c)
    return np.array(out)


def falling(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    c = sizes["c"]
    return {"A": -rng.random((c, sizes["n"])), "dt": rng.random((sizes["t"], c))}


@right(selected, {"t": 21, "c": 64, "n": 8}, arrays=falling, near=2.0**-12, chip="gfx942")
def selective_scan() -> pl.Loop:
    loop = pl.Loop("scan", over="t")
    dt, x = loop.stream("dt", pl.F32, t=1, c=64), loop.stream("x", pl.F32, t=1, c=64)
    b, c = loop.stream("B", pl.F32, t=1, n=8), loop.stream("C", pl.F32, t=1, n=8)
    h, a = loop.carry("h", t=1, c=64, n=8), loop.resident("A", pl.F32, c=64, n=8)
    h = h.becomes(pl.exp(dt * a) * h + dt * b * x)
    loop.store("out", (h * c).sum("n"))
    return loop


def running(X: Array) -> Any:
    return {"mean": X.mean(0), "var": X.var(0)}


@right(running, {"r": 37, "c": 60}, near=2.0**-12)
def mean_and_variance_row_by_row() -> pl.Loop:
    loop = pl.Loop("welford", over="r")
    x = loop.stream("X", pl.F32, r=1, c=64).sum("r")
    n, mean, squares = loop.carry("n"), loop.carry("m", c=64), loop.carry("s", c=64)
    n = n.becomes(n + 1)
    off = x - mean
    mean = mean.becomes(mean + off / n)
    squares = squares.becomes(squares + off * (x - mean))
    loop.store("mean", mean)
    loop.store("var", squares / n)
    return loop


@right(running, {"r": 90, "c": 60}, near=2.0**-12)
def mean_and_variance_of_several_rows_at_a_time() -> pl.Loop:
    loop = pl.Loop("chunks", over="r")
    x, n = loop.stream("X", pl.F32, r=16, c=64), loop.carry("n")
    mean, squares = loop.carry("m", c=64), loop.carry("s", c=64)
    rows = pl.where(loop.left("r") >= 1, 1.0, 0.0).sum("r")
    here = x.sum("r") / rows
    off, both = here - mean, n + rows
    more = ((x - here) ** 2).sum("r") + off * off * n * rows / both
    loop.store("var", squares.becomes(squares + more) / loop.size("r"))
    loop.store("mean", mean.becomes(mean + off * rows / both))
    n.becomes(both)
    return loop


def chunked(Q: Array, K: Array, V: Array) -> Any:
    state, out = np.zeros((Q.shape[1], V.shape[1])), []
    for at in range(0, len(Q), 32):
        out.append(Q[at : at + 32] @ state)
        state = state + K[at : at + 32].T @ V[at : at + 32]
    return np.concatenate(out)


@right(chunked, {"t": 96, "d": 32, "w": 32}, near=2.0**-7)
def linear_attention_to_the_states_of_chunks() -> pl.Loop:
    loop = pl.Loop("chunks", over="t")
    q, k = (loop.stream(name, pl.BF16, t=32, d=32) for name in "QK")
    v, s = loop.stream("V", pl.BF16, t=32, w=32), loop.carry("S", d=32, w=32)
    out = q @ s.to(pl.BF16)
    s += k.staged() @ v.staged()
    loop.store("out", out)
    return loop


def before_each_chunk(Q: Array, K: Array, V: Array) -> Any:
    last = np.arange(len(Q)) // 32 * 32
    return np.where(np.arange(len(Q)) < last[:, None], Q @ K.T, 0.0) @ V


@right(before_each_chunk, {"t": 96, "d": 32, "v": 32}, {"t": 70, "d": 32, "v": 20}, near=2.0**-5)
def linear_attention_to_what_is_before_a_chunk() -> pl.Loop:
    loop = pl.Loop("inter", over="t")
    q, k, v = (
        loop.stream(name, pl.BF16, t=32, **{dim: 32}).staged()
        for name, dim in (("Q", "d"), ("K", "d"), ("V", "v"))
    )
    state = loop.carry("S", d=32, v=32)
    loop.store("out", (q @ state.to(pl.BF16)).to(pl.BF16))
    state += k @ v  # the last one is nobody's
    return loop


CASES = listed(globals())
