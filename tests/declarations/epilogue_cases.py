"""Matrix products and what people do to a sum before they store it."""

from __future__ import annotations

from typing import Any

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Array, listed, right

TILE = {"m": 32, "n": 32, "k": 64}
RAGGED = {"m": 20, "n": 37, "k": 64}


def summed(
    name: str, dtype: pl.DType = pl.BF16, m: int = 32, n: int = 32, k: int = 32
) -> tuple[pl.Loop, pl.Tensor]:
    loop = pl.Loop(name, over="k")
    a, b = loop.stream("A", dtype, m=m, k=k), loop.stream("B", dtype, n=n, k=k)
    c = loop.carry("C", pl.F32, m=m, n=n)
    c += a.staged() @ b.staged()
    return loop, c


def gelu(x: Array) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@right(lambda A, B: A @ B.T, TILE, RAGGED)
def plain() -> pl.Loop:
    loop, c = summed("gemm")
    loop.store("out", c.to(pl.BF16))
    return loop


@right(lambda A, B, bias: A @ B.T + bias, RAGGED)
def bias_per_column() -> pl.Loop:
    loop, c = summed("bias")
    loop.store("out", (c + loop.resident("bias", pl.BF16, n=32)).to(pl.BF16))
    return loop


@right(lambda A, B, bias: A @ B.T + bias[:, None], RAGGED)
def bias_per_row() -> pl.Loop:
    loop, c = summed("row_bias")
    loop.store("out", (c + loop.resident("bias", pl.F32, m=32)).to(pl.BF16))
    return loop


@right(lambda A, B, R: np.maximum(A @ B.T + R, 0), RAGGED)
def residual_and_relu() -> pl.Loop:
    loop, c = summed("residual")
    loop.store("out", pl.maximum(c + loop.resident("R", pl.BF16, m=32, n=32), 0).to(pl.BF16))
    return loop


@right(
    lambda A, B, C0, alpha, beta: alpha * (A @ B.T) + beta * C0,
    RAGGED,
    scalars={"alpha": 0.5, "beta": 2.0},
)
def alpha_and_beta() -> pl.Loop:
    loop, c = summed("blas")
    alpha, beta = loop.scalar("alpha", pl.F32), loop.scalar("beta", pl.F32)
    loop.store("out", alpha * c + beta * loop.resident("C0", pl.F32, m=32, n=32))
    return loop


@right(lambda A, B, bias: gelu(A @ B.T + bias), RAGGED)
def bias_and_gelu_by_tanh() -> pl.Loop:
    loop, c = summed("bias_gelu", pl.FP16)
    x = c + loop.resident("bias", pl.FP16, n=32)
    inner = (x + 0.044715 * x**3) * 0.7978845608
    loop.store("out", (0.5 * x * (1 + pl.tanh(inner))).to(pl.FP16))
    return loop


@right(lambda A, B, cap: cap * np.tanh((A @ B.T) / cap), RAGGED, scalars={"cap": 5.0})
def soft_cap() -> pl.Loop:
    loop, c = summed("cap")
    cap = loop.scalar("cap", pl.F32)
    loop.store("out", (cap * pl.tanh(c / cap)).to(pl.BF16))
    return loop


@right(lambda A, B: np.clip(A @ B.T, -3, 3), RAGGED)
def clamped() -> pl.Loop:
    loop, c = summed("clamp")
    loop.store("out", pl.clamp(c, -3.0, 3.0).to(pl.BF16))
    return loop


@right(
    lambda A, B, M: (A @ B.T) * M * 2.0,
    RAGGED,
    arrays=lambda rng, s: {"M": rng.integers(0, 2, (s["m"], s["n"]))},
)
def dropout_mask_array() -> pl.Loop:
    loop, c = summed("dropout")
    mask = loop.resident("M", pl.I8, m=32, n=32)
    loop.store("out", pl.where(mask != 0, c * 2.0, 0.0).to(pl.BF16))
    return loop


def both(A: Array, B: Array) -> Any:
    c = A @ B.T
    return {"pre": c, "out": np.maximum(c, 0)}


@right(both, RAGGED)
def before_and_after_the_activation() -> pl.Loop:
    loop, c = summed("two_outputs")
    loop.store("pre", c.to(pl.BF16))
    loop.store("out", pl.maximum(c, 0.0).to(pl.FP16))
    return loop


def with_row_maxima(A: Array, B: Array) -> Any:
    c = A @ B.T
    return {"out": c, "amax": np.abs(c).max(1)}


@right(with_row_maxima, {"m": 20, "n": 32, "k": 64}, {"m": 32, "n": 21, "k": 64})
def row_maxima_beside_the_product() -> pl.Loop:
    loop, c = summed("amax")
    loop.store("out", c.to(pl.BF16))
    loop.store("amax", abs(c).max("n"))
    return loop


def requantised(A: Array, B: Array) -> Any:
    c = A @ B.T
    scale = np.abs(c).max(1) / 448
    return {"out": c / scale[:, None], "scale": scale}


@right(requantised, {"m": 20, "n": 32, "k": 64}, near=2.0**-4)
def requantised_to_fp8_with_row_scales() -> pl.Loop:
    loop, c = summed("requant")
    scale = abs(c).max("n") / 448.0
    loop.store("scale", scale)
    loop.store("out", (c / scale).to(pl.FP8))
    return loop


@right(lambda A, B, s: np.clip(np.rint((A @ B.T) / s), -128, 127), RAGGED, scalars={"s": 0.2},
       steps=1.0)  # fmt: skip
def requantised_to_int8() -> pl.Loop:
    loop, c = summed("requant8")
    loop.store("out", (c / loop.scalar("s", pl.F32)).to(pl.I8))
    return loop


@right(lambda A, B, sa, sb: (A @ B.T) * sa[:, None] * sb, {"m": 20, "n": 37, "k": 128})
def fp8_with_row_and_column_scales() -> pl.Loop:
    loop, c = summed("scaled", pl.FP8, k=128)
    sa, sb = loop.resident("sa", pl.F32, m=32), loop.resident("sb", pl.F32, n=32)
    loop.store("out", (c * sa * sb).to(pl.BF16))
    return loop


def gated(A: Array, G: Array, U: Array) -> Any:
    g, u = A @ G.T, A @ U.T
    return g / (1 + np.exp(-g)) * u


@right(gated, RAGGED)
def swiglu_of_two_products() -> pl.Loop:
    loop = pl.Loop("swiglu", over="k")
    a = loop.stream("A", pl.BF16, m=32, k=32).staged()
    gate, up = loop.carry("gate", m=32, n=32), loop.carry("up", m=32, n=32)
    gate += a @ loop.stream("G", pl.BF16, n=32, k=32).staged()
    up += a @ loop.stream("U", pl.BF16, n=32, k=32).staged()
    loop.store("out", (gate * pl.sigmoid(gate) * up).to(pl.BF16))
    return loop


def clamped_gate(A: Array, G: Array, U: Array) -> Any:
    g, u = np.minimum(A @ G.T, 7), np.clip(A @ U.T, -7, 7)
    return (u + 1) * g / (1 + np.exp(-1.702 * g))


@right(clamped_gate, RAGGED)
def clamped_swiglu() -> pl.Loop:
    loop = pl.Loop("clamped_swiglu", over="k")
    a = loop.stream("A", pl.BF16, m=32, k=32).staged()
    gate, up = loop.carry("gate", m=32, n=32), loop.carry("up", m=32, n=32)
    gate += a @ loop.stream("G", pl.BF16, n=32, k=32).staged()
    up += a @ loop.stream("U", pl.BF16, n=32, k=32).staged()
    g, u = pl.minimum(gate, 7.0), pl.clamp(up, -7.0, 7.0)
    loop.store("out", ((u + 1.0) * g * pl.sigmoid(1.702 * g)).to(pl.BF16))
    return loop


def product_softmax(A: Array, B: Array) -> Any:
    c = A @ B.T
    e = np.exp(c - c.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@right(product_softmax, {"m": 20, "n": 32, "k": 64}, {"m": 32, "n": 21, "k": 64})
def softmax_of_the_rows_of_a_product() -> pl.Loop:
    loop, c = summed("product_softmax")
    e = pl.exp(c - c.max("n"))
    loop.store("out", (e / e.sum("n")).to(pl.BF16))
    return loop


def normed_product(A: Array, B: Array, w: Array) -> Any:
    c = A @ B.T
    return c / np.sqrt((c**2).mean(1, keepdims=True) + 1e-6) * w


@right(normed_product, {"m": 20, "n": 32, "k": 64}, {"m": 32, "n": 21, "k": 64})
def rms_norm_of_the_rows_of_a_product() -> pl.Loop:
    loop, c = summed("product_norm")
    w = loop.resident("w", pl.BF16, n=32)
    loop.store("out", (c * pl.rsqrt((c**2).mean("n") + 1e-6) * w).to(pl.BF16))
    return loop


def normed_input(A: Array, B: Array) -> Any:
    return A / np.sqrt((A**2).mean(1, keepdims=True) + 1e-6) @ B.T


@right(normed_input, RAGGED)
def rms_norm_before_the_product() -> pl.Loop:
    loop = pl.Loop("norm_gemm", over="k")
    a = loop.stream("A", pl.BF16, m=32, k=32).staged()
    b = loop.stream("B", pl.BF16, n=32, k=32).staged()
    squares, c = loop.carry("squares", m=32), loop.carry("C", m=32, n=32)
    squares += a.sum_squares("k")
    c += a @ b
    mean = squares / loop.size("k")
    loop.store("out", (c * pl.rsqrt(mean + 1e-6)).to(pl.BF16))
    return loop


CASES = listed(globals())
