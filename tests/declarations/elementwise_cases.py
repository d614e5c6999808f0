"""Element by element: activations, casts, masks and scalars, on rows of any length."""

from __future__ import annotations

import numpy as np

import pipeloom as pl
from tests.declarations.cases import listed, right

ROWS = {"b": 2, "r": 3, "n": 200}
ODD = {"b": 1, "r": 2, "n": 77}
GELU = np.sqrt(2 / np.pi)


def started(name: str, dtype: pl.DType = pl.BF16) -> tuple[pl.Loop, pl.Tensor]:
    loop = pl.Loop(name, over="r")
    return loop, loop.stream("X", dtype, b=1, r=1, n=256)


@right(lambda X: np.maximum(X, 0), ROWS)
def relu() -> pl.Loop:
    loop, x = started("relu")
    loop.store("out", pl.maximum(x, 0).to(pl.BF16))
    return loop


@right(lambda X: np.maximum(X, 0), ODD, {**ROWS, "n": 1})
def relu_of_odd_rows() -> pl.Loop:
    loop, x = started("relu")
    loop.align("X", to=2)
    loop.store("out", pl.maximum(x, 0).to(pl.BF16))
    return loop


@right(lambda X: 0.5 * X * (1 + np.tanh(GELU * (X + 0.044715 * X**3))), ROWS)
def gelu_by_tanh() -> pl.Loop:
    loop, x = started("gelu")
    inner = (x + 0.044715 * x**3) * (2 / np.pi) ** 0.5
    loop.store("out", (0.5 * x * (1 + pl.tanh(inner))).to(pl.BF16))
    return loop


@right(lambda X: X / (1 + np.exp(-X)), ROWS)
def silu() -> pl.Loop:
    loop, x = started("silu")
    loop.store("out", (x * pl.sigmoid(x)).to(pl.BF16))
    return loop


@right(lambda X, G: X / (1 + np.exp(-X)) * G, ROWS)
def swiglu_of_two_arrays() -> pl.Loop:
    loop, x = started("swiglu")
    gate = loop.stream("G", pl.BF16, b=1, r=1, n=256)
    loop.store("out", (x / (1.0 + pl.exp(-x)) * gate).to(pl.BF16))
    return loop


@right(lambda X, alpha: np.where(X > 0, X, alpha * (np.exp(X) - 1)), ROWS, scalars={"alpha": 0.7})
def elu_with_a_scalar() -> pl.Loop:
    loop, x = started("elu", pl.F32)
    alpha = loop.scalar("alpha", pl.F32)
    loop.store("out", pl.where(x > 0, x, alpha * (pl.exp(x) - 1.0)))
    return loop


@right(lambda X, Y, alpha, beta: alpha * X + beta * Y, ROWS, scalars={"alpha": 2.5, "beta": -0.5})
def axpby() -> pl.Loop:
    loop, x = started("axpby", pl.FP16)
    y = loop.stream("Y", pl.FP16, b=1, r=1, n=256)
    a, b = loop.scalar("alpha", "f32"), loop.scalar("beta", "f32", usual=1.0)
    loop.store("out", a * x + b * y, pl.FP16)
    return loop


@right(lambda X: np.clip(np.abs(X) ** 0.5, 0.25, 1.5), ROWS)
def clamped_root() -> pl.Loop:
    loop, x = started("clamped_root")
    loop.store("out", pl.clamp(abs(x) ** 0.5, 0.25, 1.5).to(pl.BF16))
    return loop


@right(lambda X: np.log1p(np.exp(X)), ROWS)
def softplus() -> pl.Loop:
    loop, x = started("softplus", pl.F32)
    loop.store("out", pl.maximum(x, 0.0) + pl.log(1.0 + pl.exp(-abs(x))))
    return loop


@right(lambda X: np.sqrt(X**2 + 1) - 1 / np.sqrt(X * X + 2), ROWS)
def roots_and_powers() -> pl.Loop:
    loop, x = started("roots", pl.F32)
    loop.store("out", pl.sqrt(x**2 + 1) - pl.rsqrt(x * x + 2))
    return loop


@right(lambda X: X, ROWS)
def cast_to_fp16() -> pl.Loop:
    loop, x = started("cast")
    loop.store("out", x.to(pl.FP16))
    return loop


@right(lambda X: X, ROWS)
def copy() -> pl.Loop:
    loop, x = started("copy", pl.F32)
    loop.store("out", x)
    return loop


@right(
    lambda X, M, p: X * (M != 0) / (1 - p),
    ROWS,
    arrays=lambda rng, s: {"M": rng.integers(0, 2, (s["b"], s["r"], s["n"]))},
    scalars={"p": 0.25},
)
def dropout_by_an_array() -> pl.Loop:
    loop, x = started("dropout")
    mask = loop.stream("M", pl.I8, b=1, r=1, n=256)
    p = loop.scalar("p", pl.F32)
    loop.store("out", pl.where(mask != 0, x / (1.0 - p), 0.0).to(pl.BF16))
    return loop


@right(
    lambda X, scale: np.clip(np.rint(X / scale), -128, 127),
    ROWS,
    scalars={"scale": 0.03},
    steps=1.0,
)
def quantised_to_int8() -> pl.Loop:
    loop, x = started("quantise")
    loop.store("out", (x / loop.scalar("scale", pl.F32)).to(pl.I8))
    return loop


@right(lambda X, S: X * S[:, :, None], ROWS)
def dequantised_from_int8_by_row() -> pl.Loop:
    loop, x = started("dequantise", pl.I8)
    scale = loop.stream("S", pl.F32, b=1, r=1)
    loop.store("out", (x.to(pl.F32) * scale).to(pl.BF16))
    return loop


@right(lambda X, w: X * w[None, None, :], ROWS)
def broadcast_of_a_row() -> pl.Loop:
    loop, x = started("scaled_columns")
    w = loop.resident("w", pl.BF16, n=256)
    loop.store("out", (x * w).to(pl.BF16))
    return loop


@right(lambda X: X, {"m": 5, "n": 130})
def two_dimensions_only() -> pl.Loop:
    loop = pl.Loop("plain", over="m")
    x = loop.stream("X", pl.BF16, m=4, n=128)
    loop.store("out", (x * 1.0).to(pl.BF16))
    return loop


CASES = listed(globals())
