"""What people bring along: methods of PyTorch, types of NumPy, ``.T``, whole numbers as scalars."""

from __future__ import annotations

from typing import Any

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Array, listed, right


@right(lambda X: X.T, {"m": 70, "n": 41})
def transposed_rows() -> pl.Loop:
    loop = pl.Loop("t", over="m")
    loop.store("out", loop.stream("X", "bfloat16", m=16, n=64).T)
    return loop


def both(A: Array, B: Array) -> Any:
    c = np.einsum("bmk,bnk->bmn", A, B)
    return {"c": c, "turned": np.swapaxes(c - c.mean(-1, keepdims=True), 1, 2)}


@right(both, {"b": 2, "m": 40, "n": 30, "k": 64})
def a_product_as_it_lies_and_transposed() -> pl.Loop:
    loop = pl.Loop("g", over="k")
    c = loop.carry("C", m=32, n=32)
    c += np.matmul(loop.stream("A", pl.BF16, m=32, k=32), loop.stream("B", pl.BF16, n=32, k=32).T)
    loop.store("c", c.bfloat16())
    loop.store("turned", (c - c.mean(-1, keepdims=True)).T, dtype=pl.BF16)
    loop.batch("A", "B", "c", "turned", over=("b",))
    return loop


@right(lambda X: X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6), {"b": 5, "n": 200})
def a_norm_by_methods() -> pl.Loop:
    loop = pl.Loop("rms", over="b")
    x = loop.stream("X", np.float16, b=4, n=256).float()
    loop.store("out", (x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).half())
    return loop


def stepped(P: Array, G: Array, step: float, nesterov: float) -> Any:
    m = 0.1 * G / (1 - 0.9**step)
    return P - (0.9 * m + 0.1 * G if nesterov else m)


@right(stepped, {"n": 700}, scalars={"step": 7, "nesterov": 1})
def an_optimizer_with_a_step_and_a_switch() -> pl.Loop:
    loop = pl.Loop("nadam", over="n")
    p, g = loop.stream("P", pl.F32, n=256), loop.stream("G", pl.F32, n=256)
    step, nesterov = loop.scalar("step", pl.I32), loop.scalar("nesterov", pl.BOOL)
    m = 0.1 * g / (1 - 0.9**step)
    loop.store("out", p - pl.where(nesterov, 0.9 * m + 0.1 * g, m))
    return loop


@right(lambda X: np.cumsum(X, 1), {"b": 20, "n": 60}, {"b": 1, "n": 1})
def running_sums() -> pl.Loop:
    loop = pl.Loop("cumsum", over="n")
    x, total = loop.stream("X", pl.F32, b=16, n=1), loop.carry("total", b=16)
    y = total + x
    loop.store("out", y)
    total.becomes(y.sum("n"))
    return loop


def latent(Q: Array, K: Array) -> Any:
    return np.exp(0.2 * Q @ K.T) @ K[:, :32]


@right(latent, {"q": 8, "d": 64, "keys": 50, "v": 32}, near=2.0**-6)
def values_that_are_columns_of_keys_stored_in_16_bits() -> pl.Loop:
    loop = pl.Loop("mla", over="keys")
    q = loop.resident("Q", pl.BF16, q=16, d=64)
    k = loop.stream("K", pl.BF16, keys=32, d=64).staged()
    v = loop.view("V", k, keys=32, v=32)
    o = loop.carry("o", q=16, v=32)
    o += (0.2 * (q @ k)).exp().bfloat16() @ v
    loop.store("out", o.bfloat16())
    return loop


CASES = listed(globals())
