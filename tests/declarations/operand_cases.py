"""Operands of products that are computed, or lie across: rows of memory that are columns there."""

from __future__ import annotations

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Arrays, Sizes, listed, right

NEAR = 2.0**-6


def across(name: str, dtype: pl.DType, *, staged: bool = True) -> tuple[pl.Loop, pl.Tensor]:
    """A loop with A as rows of K, and B as columns."""
    loop = pl.Loop(name, over="k")
    loop.stream("A", pl.BF16, m=32, k=32).staged()
    b = loop.stream("B", dtype, k=32, n=32)
    return loop, b.staged() if staged else b


def summed(loop: pl.Loop, b: pl.Tensor) -> pl.Loop:
    """A times B, and no more."""
    c = loop.carry("C", m=32, n=32)
    c += pl.Tensor(loop, "A") @ b
    loop.store("out", c.to(pl.BF16))
    return loop


@right(lambda A, B: A @ np.maximum(B, 0), {"m": 20, "n": 37, "k": 77}, near=NEAR)
def activated_columns() -> pl.Loop:
    loop, b = across("relu", pl.BF16)
    return summed(loop, pl.maximum(b, 0).to(pl.BF16))


@right(lambda A, B: A @ np.maximum(B, 0), {"m": 20, "n": 36, "k": 64}, near=NEAR, chip="gfx942")
def activated_columns_on_the_older_chip() -> pl.Loop:
    return activated_columns.declare()


@right(lambda A, B: A @ B, {"m": 20, "n": 37, "k": 40}, near=NEAR, chip="gfx942")
def columns_of_fp8_on_the_older_chip() -> pl.Loop:
    loop, b = across("fp8", pl.FP8_FNUZ)
    return summed(loop, b.to(pl.BF16))


@right(lambda A, B, s: A @ (B * s), {"m": 20, "n": 37, "k": 40}, near=NEAR)
def columns_of_int8_with_a_scale() -> pl.Loop:
    loop, b = across("int8", pl.I8)
    return summed(loop, (b * loop.resident("s", pl.F32, n=32)).to(pl.BF16))


@right(lambda A, B: A @ B, {"m": 20, "n": 37, "k": 40}, near=NEAR)
def columns_straight_from_memory() -> pl.Loop:
    return summed(*across("memory", pl.BF16, staged=False))


@right(lambda A, B: A @ B, {"m": 20, "n": 37, "k": 77})
def columns_of_f32() -> pl.Loop:
    loop = pl.Loop("sgemm", over="k")
    a, b = loop.stream("A", pl.F32, m=32, k=16), loop.stream("B", pl.F32, k=16, n=32)
    c = loop.carry("C", m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@right(lambda Q, K, V: (Q @ K.T) @ V, {"q": 20, "keys": 45, "d": 32, "v": 32}, near=NEAR)
def values_of_int8_behind_a_product() -> pl.Loop:
    loop = pl.Loop("linear", over="keys")
    q, k = loop.resident("Q", pl.BF16, q=32, d=32), loop.stream("K", pl.BF16, keys=32, d=32)
    v = loop.stream("V", pl.I8, keys=32, v=32)
    o = loop.carry("O", q=32, v=32)
    o += (q @ k.staged()).to(pl.BF16) @ v.staged().to(pl.BF16)
    loop.store("out", o)
    return loop


@right(lambda X: X, {"r": 5, "n": 33})
def converted_element_by_element() -> pl.Loop:
    loop = pl.Loop("converted", over="r")
    x = loop.stream("X", pl.BF16, r=1, n=64)
    loop.align("X", to=2)
    loop.store("out", x.to(pl.FP16))
    return loop


@right(
    lambda A, B, U: A.T @ (B @ U),
    {"k": 35, "m": 16, "f": 64, "u": 32},
    near=2.0**-7,
    chip="gfx942",
)
def weights_in_registers_that_are_awaited_in_the_loop() -> pl.Loop:
    loop = pl.Loop("twice", over="k")
    a, b = loop.stream("A", pl.FP16, k=16, m=16), loop.stream("B", pl.FP16, k=16, f=64)
    c = loop.carry("C", m=16, u=32)
    c += a.staged() @ (b.staged() @ loop.resident("U", pl.FP16, f=64, u=32)).to(pl.FP16)
    loop.store("out", c)
    return loop


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def microscaled(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    n, k = sizes["n"], sizes["k"]
    codes = np.arange(n * k).reshape(n, k) % 16  # all of them
    return {
        "W": np.where(codes < 8, 1, -1) * FP4[codes % 8],
        "S": 2.0 ** rng.integers(-4, 5, (n, k // 32)),
    }


@right(
    lambda A, W, S: A @ (W * np.repeat(S, 32, 1)).T,
    {"m": 40, "n": 35, "k": 192},
    arrays=microscaled,
    chip="gfx942",
)
def weights_of_mxfp4_times_bf16() -> pl.Loop:
    loop = pl.Loop("w4a16", over="k")
    a, w = loop.stream("A", pl.BF16, m=32, k=64), loop.stream("W", pl.FP4, n=32, k=64)
    scale, c = loop.stream("S", "e8m0", n=32, k=64), loop.carry("C", m=32, n=32)
    c += a.staged() @ (w.staged() * scale).to(pl.BF16)
    loop.store("out", c.to(pl.BF16))
    return loop


def hard_scales(_: np.random.Generator, __: Sizes) -> Arrays:
    return {"S": np.array([[2.0**-127, 2.0**-126], [np.nan, 2.0**100]])}


@right(lambda X, S: X * np.repeat(S, 32, 1) * 2.0**20, {"b": 2, "n": 64}, arrays=hard_scales)
def powers_of_two_as_numbers() -> pl.Loop:
    loop = pl.Loop("mx", over="b")
    x, scale = loop.stream("X", pl.F32, b=1, n=64), loop.stream("S", "e8m0", b=1, n=64)
    loop.store("out", x * scale * 2.0**20)
    return loop


@right(lambda A, W: np.einsum("bmk,bnk->bmn", A, W), {"b": 3, "m": 9, "n": 35, "k": 64})
def weights_of_4_bits_in_batches() -> pl.Loop:
    loop = pl.Loop("w4", over="k")
    a, w = loop.stream("A", pl.BF16, m=32, k=64), loop.stream("W", pl.I4, n=32, k=64)
    c = loop.carry("C", m=32, n=32)
    c += a.staged() @ w.staged().to(pl.BF16)
    loop.store("out", c)
    loop.batch("A", "W", "out", over=("b",))
    return loop


@right(
    lambda X, S: X * np.repeat(S, 32, -1),
    {"z": 2, "b": 7, "n": 160},
    {"z": 1, "b": 2, "n": 256},
    arrays=lambda rng, sizes: {"S": rng.random((sizes["z"], sizes["b"], sizes["n"] // 32))},
)
def rows_of_4_bits_times_scales() -> pl.Loop:
    loop = pl.Loop("dequantised", over="b")
    x, scale = loop.stream("X", pl.I4, b=4, n=256), loop.stream("S", pl.F32.per(32), b=4, n=256)
    loop.store("out", (x * scale).to(pl.BF16))
    loop.batch("X", "S", "out", over=("z",))
    return loop


CASES = listed(globals())
