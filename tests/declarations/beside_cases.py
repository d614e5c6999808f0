"""Sums and places beside products: of the columns' rows, of triangles, of what is taken away."""

from __future__ import annotations

from typing import Any

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Array, Arrays, Sizes, listed, right

SIZES = {"m": 20, "n": 37, "k": 77}


def of_both(
    name: str, dtype: pl.DType, n: int = 32
) -> tuple[pl.Loop, pl.Tensor, pl.Tensor, pl.Tensor]:
    """A loop, its operands, and their product's sum."""
    loop = pl.Loop(name, over="k")
    x, y = loop.stream("X", dtype, m=32, k=32), loop.stream("Y", dtype, n=n, k=32)
    c = loop.carry("C", pl.I32 if dtype == pl.I8 else pl.F32, m=32, n=n)
    c += x.staged() @ y.staged()
    return loop, x, y, c


def apart(X: Array, Y: Array) -> Any:
    return np.sqrt(((X[:, None] - Y[None]) ** 2).sum(-1))


@right(apart, SIZES, near=2.0**-8)
def distances_with_the_matrix_unit() -> pl.Loop:
    loop, x, y, c = of_both("distances", pl.BF16)
    xx, yy = loop.carry("xx", m=32), loop.carry("yy", n=32)
    xx += (x * x).sum("k")
    yy += (y * y).sum("k")
    loop.store("out", pl.sqrt(pl.maximum(xx + yy - 2 * c, 0)))
    return loop


@right(apart, SIZES | {"n": 70}, near=2.0**-8, chip="gfx942", waves=2)
def distances_on_the_older_chip() -> pl.Loop:
    loop, x, y, c = of_both("distances", pl.FP16, n=64)
    xx, yy = loop.carry("xx", m=32), loop.carry("yy", n=64)
    xx += (x * x).sum("k")
    yy += (y * y).sum("k")
    loop.store("out", pl.sqrt(pl.maximum(xx + yy - 2 * c, 0)))
    return loop


def cosines(X: Array, Y: Array) -> Any:
    return X @ Y.T / np.linalg.norm(X, axis=1)[:, None] / np.linalg.norm(Y, axis=1)


@right(cosines, SIZES, near=2.0**-10, waves=2)
def cosines_of_fp8() -> pl.Loop:
    loop, x, y, c = of_both("cosines", pl.FP8)
    xx, yy = loop.carry("xx", m=32), loop.carry("yy", n=32)
    xx += x.sum_squares("k")
    yy += y.sum_squares("k")
    loop.store("out", c * pl.rsqrt(xx) * pl.rsqrt(yy))
    return loop


def shifted(X: Array, Y: Array, zero: Array, s: Array) -> Any:
    return (X - zero[:, None]) @ Y.T * s


@right(shifted, SIZES, near=2.0**-8)
def zero_points_of_int8_rows() -> pl.Loop:
    loop, _, y, c = of_both("int8", pl.I8)
    sums = loop.carry("sums", n=32)
    sums += y.sum("k")
    zero, s = loop.resident("zero", pl.I32, m=32), loop.resident("s", pl.F32, n=32)
    loop.store("out", ((c.to(pl.F32) - zero * sums) * s).to(pl.BF16))
    return loop


@right(lambda X, Y, A, B: X @ Y.T - A @ B.T, SIZES, near=2.0**-6, chip="gfx942")
def the_real_part_of_a_complex_product() -> pl.Loop:
    loop, _, _, c = of_both("complex", pl.FP16)
    a, b = loop.stream("A", pl.FP16, m=32, k=32), loop.stream("B", pl.FP16, n=32, k=32)
    c -= a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@right(
    lambda X, s: np.cumsum(X, axis=1) * s, {"m": 10, "k": 77, "j": 77}, near=2.0**-12, chip="gfx942"
)
def running_sums_by_a_triangle() -> pl.Loop:
    loop = pl.Loop("running", over="k")
    x, c = loop.stream("X", pl.BF16, m=32, k=32).staged(), loop.carry("C", m=32, j=64)
    c += x @ pl.where(loop.index("k") <= loop.index("j", 64), 1.0, 0.0).to(pl.BF16)
    loop.store("out", c * loop.resident("s", pl.F32, j=64))
    return loop


def decayed(X: Array, Y: Array) -> Any:
    return (X * 0.9 ** np.arange(X.shape[1])[::-1]).astype(np.float16).astype(float) @ Y.T


@right(decayed, SIZES, near=2.0**-9)
def a_product_that_decays_from_its_end() -> pl.Loop:
    loop = pl.Loop("decayed", over="k")
    x, y = loop.stream("X", pl.FP16, m=32, k=32), loop.stream("Y", pl.FP16, n=32, k=32)
    c = loop.carry("C", m=32, n=32)
    c += (x * 0.9 ** (loop.size("k") - 1 - loop.index("k"))).to(pl.FP16) @ y.staged()
    loop.store("out", c)
    return loop


def per_tile(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    blocks = sizes["k"] // 128
    each = {"SX": rng.random((sizes["m"], blocks)), "SY": rng.random((sizes["n"], blocks))}
    return {name: np.repeat(scales, 128, axis=-1) for name, scales in each.items()}


@right(
    lambda X, Y, SX, SY: (X * SX) @ (Y * SY).T,
    {"m": 37, "n": 29, "k": 384},
    {"m": 5, "n": 40, "k": 128},
    arrays=per_tile,
    near=2.0**-10,
    chip="gfx942",
    waves=2,
)
def fp8_with_scales_of_128_along_k() -> pl.Loop:
    loop = pl.Loop("blocks", over="k")
    x, y = (loop.stream(a, pl.FP8_FNUZ, **{d: 32}, k=128) for a, d in (("X", "m"), ("Y", "n")))
    sx = loop.stream("SX", pl.F32.per(128), m=32, k=128).max("k")
    sy = loop.stream("SY", pl.F32.per(128), n=32, k=128).max("k")
    c = loop.carry("C", m=32, n=32)
    c += (x.staged() @ y.staged()) * sx * sy
    loop.store("out", c)
    return loop


def positive(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    return {"X": rng.uniform(1, 2, (sizes["m"], sizes["k"]))}


@right(lambda X, Y: (1 / X) @ Y.T, SIZES, near=2.0**-6, arrays=positive)
def reciprocals_in_tiles_of_no_whole_instructions() -> pl.Loop:
    loop = pl.Loop("reciprocals", over="k")
    x, c = loop.stream("X", pl.BF16, m=32, k=48), loop.carry("C", m=32, n=32)
    c += (1.0 / x.staged()).to(pl.BF16) @ loop.stream("Y", pl.BF16, n=32, k=48).staged()
    loop.store("out", c)
    return loop


@right(lambda X, Y: X @ Y.T, SIZES, near=2.0**-9, chip="gfx942", waves=2)
def rows_of_160_bytes_along_k_on_the_older_chip() -> pl.Loop:
    loop = pl.Loop("rows", over="k")
    x, y = loop.stream("X", pl.FP16, m=32, k=80), loop.stream("Y", pl.FP16, n=32, k=80)
    c = loop.carry("C", m=32, n=32)
    c += x.staged() @ y.staged()
    loop.store("out", c)
    return loop


@right(
    lambda X, Y, Z: {"xy": X @ Y.T, "yz": Y @ Z.T, "most": Y.max(1)},
    {"m": 1, "n": 32, "u": 5, "k": 33},
    near=2.0**-9,
)
def a_single_row_beside_arrays_that_go_on() -> pl.Loop:
    loop = pl.Loop("ends", over="k")
    x, y, z = (
        loop.stream(a, pl.FP16, **{d: 32}, k=32).staged() for a, d in zip("XYZ", "mnu", strict=True)
    )
    xy, yz = loop.carry("xy_", m=32, n=32), loop.carry("yz_", n=32, u=32)
    most = loop.carry("top", start=-np.inf, n=32)
    xy += x @ y
    yz += y @ z
    most = most.becomes(pl.maximum(most, y.max("k")))
    for name, value in (("xy", xy), ("yz", yz), ("most", most)):
        loop.store(name, value)
    return loop


@right(lambda x, W: x @ W, {"k": 77, "n": 70}, near=2.0**-9, waves=2)
def a_row_of_16_bits_times_a_matrix() -> pl.Loop:
    loop = pl.Loop("row", over="k")
    x, w = loop.stream("x", pl.BF16, k=32), loop.stream("W", pl.BF16, k=32, n=64)
    y = loop.carry("y", n=64)
    y += x @ w
    loop.store("out", y)
    return loop


CASES = listed(globals())
