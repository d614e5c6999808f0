"""Blocks of columns by rows: quantised with a scale each, dequantised, rotated."""

from __future__ import annotations

from typing import Any

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Array, Arrays, Sizes, listed, right


def rows(name: str, dtype: pl.DType = pl.BF16, n: int = 256) -> tuple[pl.Loop, pl.Tensor]:
    """Four rows at a time, of each workgroup."""
    loop = pl.Loop(name, over="r")
    return loop, loop.stream("X", dtype, b=1, r=4, n=n)


def largest(x: Array, size: int) -> Any:
    """Of each block, for each of its elements."""
    blocks = np.abs(x.reshape(*x.shape[:-1], -1, size)).max(-1)
    return np.repeat(blocks, size, axis=-1)


def to_int8(X: Array) -> Any:
    scale = largest(X, 32) / 127
    return {"scale": scale, "q": np.round(X / scale)}


@right(to_int8, {"b": 2, "r": 5, "n": 192}, chip="gfx942", near=2.0**-7, steps=1)
def rows_quantised_to_int8_by_groups() -> pl.Loop:
    loop, x = rows("int8")
    scale = pl.block_amax(x, "n", 32) / 127
    loop.store("scale", scale)
    loop.store("q", pl.round(x / scale).to(pl.I8))
    return loop


def to_fp8(X: Array) -> Any:
    scale = np.maximum(largest(X, 128) / 448, 1e-12)
    return {"scale": scale, "q": X / scale}


@right(to_fp8, {"b": 2, "r": 5, "n": 256}, near=2.0**-4, waves=2)
def rows_quantised_to_fp8_by_groups_of_128() -> pl.Loop:
    loop, x = rows("fp8", pl.FP16)
    scale = pl.maximum(pl.block_amax(x, "n", 128) / 448, 1e-12)
    loop.store("scale", scale)
    loop.store("q", (x / scale).to(pl.FP8))
    return loop


def powers(X: Array) -> Any:
    scale = 2.0 ** np.floor(np.log2(largest(X, 32) / 256))
    return {"scale": scale, "q": X / scale}


@right(powers, {"b": 2, "r": 5, "n": 64}, near=2.0**-3)
def rows_quantised_to_mxfp8() -> pl.Loop:
    loop, x = rows("mx", pl.F32, n=128)
    scale = pl.power_below(pl.block_amax(x, "n", 32) * 2**-8)
    loop.store("scale", scale.to("e8m0"))
    loop.store("q", (x / scale).to(pl.FP8))
    return loop


def by_groups(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    scales = rng.random((sizes["r"], sizes["n"] // 32))
    return {"S": np.repeat(scales, 32, axis=-1)}


@right(lambda Q, S: Q * S, {"r": 5, "n": 96}, arrays=by_groups)
def rows_dequantised_by_groups() -> pl.Loop:
    loop = pl.Loop("dequantised", over="r")
    q = loop.stream("Q", pl.I8, r=4, n=128)
    loop.store("out", (q * loop.stream("S", pl.F32.per(32), r=4, n=128)).to(pl.BF16))
    return loop


@right(lambda X, S: X * S, {"r": 5, "n": 256}, arrays=by_groups, chip="gfx942", waves=8)
def rows_whose_groups_several_waves_share() -> pl.Loop:
    loop = pl.Loop("dequantised", over="r")
    x = loop.stream("X", pl.F32, r=1, n=128)
    loop.store("out", x * loop.stream("S", pl.F32.per(32), r=1, n=128))
    return loop


@right(
    lambda A, B, S: (A @ B.T) * S,
    {"r": 35, "n": 128, "k": 64},
    arrays=by_groups,
    near=2.0**-9,
    waves=2,
)
def a_product_whose_groups_of_columns_waves_share() -> pl.Loop:
    loop = pl.Loop("gemm", over="k")
    a, b = loop.stream("A", pl.FP16, r=32, k=32), loop.stream("B", pl.FP16, n=64, k=32)
    c = loop.carry("C", r=32, n=64)
    c += a.staged() @ b.staged()
    loop.store("out", c * loop.resident("S", pl.F32.per(32), r=32, n=64))
    return loop


def by_groups_of_16(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    scales = rng.integers(1, 9, (sizes["r"], sizes["n"] // 16))
    return {"S": np.repeat(scales, 16, axis=-1)}


def scaled_by_groups_of_16(name: str, scale: pl.DType, out: pl.DType) -> pl.Loop:
    loop = pl.Loop(name, over="k")
    a, b = loop.stream("A", pl.BF16, r=16, k=32), loop.stream("B", pl.BF16, n=64, k=32)
    c = loop.carry("C", r=16, n=64)
    c += a.staged() @ b.staged()
    loop.store("out", c * loop.resident("S", scale.per(16), r=16, n=64), out)
    return loop


IN_16 = {"r": 19, "n": 128, "k": 32}


@right(lambda A, B, S: (A @ B.T) * S, IN_16, arrays=by_groups_of_16, near=2.0**-12)
def a_product_with_16_bit_scales_of_16_columns() -> pl.Loop:
    return scaled_by_groups_of_16("bf16", pl.BF16, pl.F32)


@right(lambda A, B, S: (A @ B.T) * S, IN_16, arrays=by_groups_of_16)
def a_product_in_16_bits_with_scales_of_16_columns() -> pl.Loop:
    return scaled_by_groups_of_16("f32", pl.F32, pl.BF16)


def by_groups_of_k(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    scales = rng.integers(-3, 4, (sizes["m"], sizes["k"] // 32))
    return {"S": np.repeat(scales, 32, axis=-1)}


def with_scales_along_k(name: str, dtype: pl.DType) -> pl.Loop:
    """Sums of rows times the scales of their groups, of which the last tile lacks one."""
    loop = pl.Loop(name, over="k")
    x, c = loop.stream("X", pl.BF16, m=16, k=64), loop.carry("C", m=16)
    c += (x * loop.stream("S", dtype.per(32), m=16, k=64)).sum("k")
    loop.store("out", c)
    return loop


K_GROUPS = {"m": 20, "k": 96}


@right(lambda X, S: (X * S).sum(1), K_GROUPS, arrays=by_groups_of_k)
def sums_with_fp16_scales_of_groups() -> pl.Loop:
    return with_scales_along_k("fp16", pl.FP16)


@right(lambda X, S: (X * S).sum(1), K_GROUPS, arrays=by_groups_of_k, chip="gfx942")
def sums_with_bf16_scales_of_groups_on_the_older_chip() -> pl.Loop:
    return with_scales_along_k("bf16", pl.BF16)


def angles(loop: pl.Loop, d: int) -> tuple[pl.Tensor, pl.Tensor]:
    return loop.stream("cos", pl.F32, t=2, d=d), loop.stream("sin", pl.F32, t=2, d=d)


def halves(x: Array, cos: Array, sin: Array) -> Any:
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin


@right(halves, {"b": 3, "t": 9, "d": 64})
def rotary_of_halves() -> pl.Loop:
    loop = pl.Loop("rotary", over="t")
    x = loop.stream("x", pl.BF16, b=1, t=2, d=64)
    cos, sin = angles(loop, 64)
    sign = pl.where(loop.index("d") < 32, -1.0, 1.0)
    loop.store("out", (x * cos + pl.swapped(x, "d", 64) * sign * sin).to(pl.BF16))
    return loop


def pairs(x: Array, cos: Array, sin: Array) -> Any:
    other = x.reshape(*x.shape[:-1], -1, 2)[..., ::-1].reshape(x.shape)
    return x * cos + other * np.where(np.arange(x.shape[-1]) % 2, 1, -1) * sin


@right(pairs, {"b": 3, "t": 9, "d": 128}, chip="gfx942")
def rotary_of_neighbours() -> pl.Loop:
    loop = pl.Loop("rotary", over="t")
    x = loop.stream("x", pl.FP16, b=1, t=2, d=128)
    cos, sin = angles(loop, 128)
    sign = pl.where(loop.index("d") % 2 == 0, -1.0, 1.0)
    loop.store("out", (x * cos + pl.swapped(x, "d", 2) * sign * sin).to(pl.FP16))
    return loop


@right(halves, {"b": 3, "t": 9, "d": 128}, chip="gfx942")
def rotary_of_halves_in_two_halves_of_a_wave() -> pl.Loop:
    loop = pl.Loop("rotary", over="b")
    x = loop.stream("x", pl.F32, b=1, t=2, d=128)
    cos, sin = (loop.resident(name, pl.F32, t=2, d=128) for name in ("cos", "sin"))
    sign = pl.where(loop.index("d") < 64, -1.0, 1.0)
    loop.store("out", x * cos + pl.swapped(x, "d", 128) * sign * sin)
    return loop


CASES = listed(globals())
