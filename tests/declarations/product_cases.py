"""Products of every type, layout and shape, and of any K."""

from __future__ import annotations

import numpy as np

import pipeloom as pl
from tests.declarations.cases import listed, right


def multiplied(name: str, a: dict[str, int], b: dict[str, int], dtype: pl.DType) -> pl.Loop:
    loop = pl.Loop(name, over="k")
    x, y = loop.stream("A", dtype, **a), loop.stream("B", dtype, **b)
    c = loop.carry("C", pl.F32, m=32, n=32)
    c += x.staged() @ y.staged()
    loop.store("out", c.to(pl.BF16))
    return loop


@right(lambda A, B: A @ B, {"m": 32, "n": 64, "k": 64})
def row_major_times_row_major() -> pl.Loop:
    return multiplied("nn", {"m": 32, "k": 32}, {"k": 32, "n": 32}, pl.BF16)


@right(lambda A, B: A.T @ B, {"m": 32, "n": 32, "k": 64})
def transposed_times_row_major() -> pl.Loop:
    return multiplied("tn", {"k": 32, "m": 32}, {"k": 32, "n": 32}, pl.FP16)


@right(lambda A, B: A @ B.T, *({"m": 20, "n": 37, "k": k} for k in (0, 1, 40, 77, 104)))
def any_number_of_whole_loads_along_k() -> pl.Loop:
    return multiplied("any_k", {"m": 32, "k": 32}, {"n": 32, "k": 32}, pl.BF16)


@right(lambda A, B: A @ B.T, {"m": 20, "n": 37, "k": 77})
def element_by_element_along_k() -> pl.Loop:
    loop = multiplied("elements", {"m": 32, "k": 32}, {"n": 32, "k": 32}, pl.BF16)
    loop.align("A", "B", to=2)
    return loop


@right(lambda A, B: A.T @ B, *({"m": 32, "n": 40, "k": k} for k in (0, 1, 40, 77)))
def any_k_where_it_is_no_row() -> pl.Loop:
    loop = pl.Loop("any_k", over="k")
    a = loop.stream("A", pl.BF16, k=32, m=32).staged()
    b = loop.stream("B", pl.BF16, k=32, n=32).staged()
    c = loop.carry("C", m=32, n=32)
    c += a @ b
    loop.store("out", c)
    return loop


@right(lambda A, B: A @ B.T, {"m": 20, "n": 37, "k": 40})
def products_of_f32() -> pl.Loop:
    loop = pl.Loop("sgemm", over="k")
    a, b = loop.stream("A", pl.F32, m=32, k=32), loop.stream("B", pl.F32, n=32, k=32)
    c = loop.carry("C", pl.F32, m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@right(lambda A, B: A @ B.T, {"m": 20, "n": 37, "k": 128})
def products_of_int8_summed_in_int32() -> pl.Loop:
    loop = pl.Loop("igemm", over="k")
    a, b = loop.stream("A", pl.I8, m=32, k=64), loop.stream("B", pl.I8, n=32, k=64)
    c = loop.carry("C", pl.I32, m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@right(lambda A, B, s: (A @ B.T) * s, {"m": 20, "n": 37, "k": 128})
def products_of_int8_dequantised() -> pl.Loop:
    loop = pl.Loop("w8a8", over="k")
    a, b = loop.stream("A", pl.I8, m=32, k=64), loop.stream("B", pl.I8, n=32, k=64)
    c = loop.carry("C", pl.I32, m=32, n=32)
    c += a.staged() @ b.staged()
    s = loop.resident("s", pl.F32, n=32)
    loop.store("out", (c.to(pl.F32) * s).to(pl.BF16))
    return loop


@right(lambda A, B: A.T @ B, {"m": 30, "n": 33, "k": 77})
def tiles_of_no_whole_instructions() -> pl.Loop:
    loop = pl.Loop("parts", over="k")
    a, b = loop.stream("A", pl.BF16, k=48, m=24), loop.stream("B", pl.BF16, k=48, n=40)
    c = loop.carry("C", m=24, n=40)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@right(lambda A, B: A @ B.T, {"m": 7, "n": 70, "k": 72}, waves=4)
def few_rows_for_four_waves() -> pl.Loop:
    loop = pl.Loop("skinny", over="k")
    a, b = loop.stream("A", pl.BF16, m=16, k=64), loop.stream("B", pl.BF16, n=64, k=64)
    c = loop.carry("C", m=16, n=64)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@right(lambda A, B: A @ B.T, {"m": 20, "n": 37, "k": 320})
def rows_of_160_along_k() -> pl.Loop:
    return multiplied("rows", {"m": 32, "k": 160}, {"n": 32, "k": 160}, pl.FP16)


@right(
    lambda A, B, C: A @ B @ C,
    *({"m": 20, "j": j, "k": 32, "n": 37} for j in (0, 45, 96)),
    near=2.0**-6,
)
def three_matrices_in_a_row() -> pl.Loop:
    loop = pl.Loop("abc", over="j")
    a, b = loop.resident("A", pl.BF16, m=32, k=32), loop.stream("B", pl.BF16, k=32, j=32)
    c = loop.carry("acc", m=32, n=32)
    c += (a @ b.staged()).to(pl.BF16) @ loop.stream("C", pl.BF16, j=32, n=32).staged()
    loop.store("out", c.to(pl.BF16))
    return loop


@right(
    lambda X, W, L, R: X @ W.T + X @ L.T @ R.T,
    {"m": 20, "n": 37, "k": 64, "r": 16},
    near=2.0**-5,
)
def low_rank_beside_the_product() -> pl.Loop:
    loop = pl.Loop("lora", over="k")
    x, w = loop.stream("X", pl.BF16, m=32, k=32).staged(), loop.stream("W", pl.BF16, n=32, k=32)
    low, r = loop.stream("L", pl.BF16, r=16, k=32), loop.resident("R", pl.BF16, n=32, r=16)
    c, t = loop.carry("C", m=32, n=32), loop.carry("T", m=32, r=16)
    c += x @ w.staged()
    t += x @ low.staged()
    loop.store("out", c + t.to(pl.BF16) @ r)
    return loop


@right(lambda A, B: A @ B.T, {"m": 20, "n": 37, "k": 64}, chip="gfx942")
def fp16_on_the_older_chip() -> pl.Loop:
    return multiplied("fp16", {"m": 32, "k": 32}, {"n": 32, "k": 32}, pl.FP16)


@right(lambda A, x: A @ x, {"m": 20, "k": 200}, {"m": 3, "k": 64})
def matrix_times_vector() -> pl.Loop:
    loop = pl.Loop("gemv", over="k")
    a, x = loop.stream("A", pl.BF16, m=8, k=64), loop.stream("x", pl.BF16, k=64)
    y = loop.carry("y", m=8)
    y += (a * x).sum("k")
    loop.store("out", y)
    return loop


@right(lambda A, x: A @ x, {"m": 20, "k": 200})
def matrix_times_vector_by_the_operator() -> pl.Loop:
    loop = pl.Loop("gemv", over="k")
    a, x = loop.stream("A", pl.F32, m=8, k=64), loop.stream("x", pl.F32, k=64)
    y = loop.carry("y", m=8)
    y += a @ x
    loop.store("out", y)
    return loop


@right(lambda x, y: np.outer(x, y), {"m": 20, "n": 100})
def outer_product_of_two_vectors() -> pl.Loop:
    loop = pl.Loop("outer", over="m")
    x, y = loop.stream("x", pl.F32, m=4), loop.resident("y", pl.F32, n=64)
    loop.store("out", x * y)
    return loop


@right(lambda x, y: np.array([x @ y]), {"k": 300, "one": 1})
def dot_product_of_two_vectors() -> pl.Loop:
    loop = pl.Loop("dot", over="k")
    x, y = loop.stream("x", pl.F32, k=64), loop.stream("y", pl.F32, k=64)
    total = loop.carry("total", one=1)
    total += (x * y).sum("k")
    loop.store("out", total)
    return loop


@right(lambda A, B: np.einsum("bmk,bnk->bmn", A, B), {"batch": 3, "m": 20, "n": 37, "k": 64})
def batched() -> pl.Loop:
    loop = multiplied("batched", {"m": 32, "k": 32}, {"n": 32, "k": 32}, pl.BF16)
    loop.batch("A", "B", "out", over=("batch",))
    return loop


@right(lambda A, B: A @ B.T, {"m": 20, "n": 37, "k": 64})
def numpy_sizes() -> pl.Loop:
    n, k = np.int64(32), np.int32(32)
    return multiplied("np", {"m": n, "k": k}, {"n": n, "k": k}, pl.BF16)  # type: ignore[dict-item]


@right(
    lambda A, B: A @ B.T,
    *({"m": m, "n": n, "k": k} for m, n, k in ((1, 1, 64), (0, 5, 64), (5, 0, 32), (2, 3, 0))),
)
def sizes_of_zero_and_one() -> pl.Loop:
    return multiplied("tiny", {"m": 32, "k": 32}, {"n": 32, "k": 32}, pl.BF16)


CASES = listed(globals())
