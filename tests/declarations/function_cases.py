"""Functions by the names that people know, bits of whole numbers, and truth values in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Arrays, Sizes, listed, right

SIZES = {"m": 5, "n": 100}
ERF = np.vectorize(math.erf)


def rows(name: str, dtype: pl.DType = pl.F32) -> tuple[pl.Loop, Any]:
    """A loop over rows, and X, which NumPy's types do not know."""
    loop = pl.Loop(name, over="m")
    return loop, loop.stream("X", dtype, m=4, n=128)


def bits(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    shape = (sizes["m"], sizes["n"])
    return {name: rng.integers(-(2**31), 2**31, shape) for name in "XY"}


def nibbles(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    shape = (sizes["m"], sizes["n"])
    return {name: rng.integers(0, 16, shape) for name in "XY"}


def truths(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    return {"M": rng.integers(0, 2, (sizes["m"], sizes["n"]))}


@right(lambda X: 0.5 * X * (1 + ERF(X / math.sqrt(2))), SIZES)
def gelu_by_the_error_function() -> pl.Loop:
    loop, x = rows("gelu")
    loop.store("out", 0.5 * x * (1 + pl.erf(x / np.sqrt(2))))
    return loop


def tiny(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    return {"X": 1e-7 * rng.standard_normal((sizes["m"], sizes["n"]))}


@right(lambda X: np.sin(X), SIZES, arrays=tiny)
def sines_of_small_angles_of_both_signs() -> pl.Loop:
    loop, x = rows("small")
    loop.store("out", np.sin(x))
    return loop


@right(lambda X: {"c": np.cos(X), "s": np.sin(9 * X)}, SIZES)
def sine_and_cosine() -> pl.Loop:
    loop, x = rows("waves")
    loop.store("c", pl.cos(x))
    loop.store("s", np.sin(9 * x))
    return loop


@right(lambda X: {"a": np.log1p(np.exp(X)), "b": np.expm1(X / 8)}, SIZES)
def softplus_and_elu() -> pl.Loop:
    loop, x = rows("softplus")
    loop.store("a", np.log1p(np.exp(x)))
    loop.store("b", pl.expm1(x / 8))
    return loop


@right(lambda X: {"r": np.rint(4 * X), "c": np.ceil(X), "t": np.trunc(X), "g": np.sign(X)}, SIZES)
def whole_numbers_and_signs() -> pl.Loop:
    loop, x = rows("whole")
    loop.store("r", np.round(4 * x))
    loop.store("c", pl.ceil(x))
    loop.store("t", np.trunc(x))
    loop.store("g", pl.sign(x))
    return loop


@right(lambda X: {"a": (1 + X * X) ** 1.5, "b": (1 + X * X) ** -2.5, "c": 3.0**X}, SIZES)
def powers_with_halves_and_of_numbers() -> pl.Loop:
    loop, x = rows("powers")
    loop.store("a", (1 + x * x) ** 1.5)
    loop.store("b", (1 + x * x) ** -2.5)
    loop.store("c", 3.0**x)
    return loop


@right(lambda X: np.where(np.abs(X) > 1, np.clip(X, -2, 2), X.max(1, keepdims=True)), SIZES)
def as_numpy_calls_it() -> pl.Loop:
    loop, x = rows("numpy")
    numpy: Any = np
    loop.store("out", numpy.where(pl.abs(x) > 1, np.clip(x, -2, 2), numpy.max(x, axis="n")))
    return loop


@right(lambda X: {"first": X.argmax(1), "least": X.argmin(1)}, SIZES)
def argmax_of_rows() -> pl.Loop:
    loop, x = rows("argmax")
    loop.store("first", x.argmax("n"))
    loop.store("least", x.argmin("n"))
    return loop


@right(
    lambda X, Y: {
        "a": X.astype(np.int32) & Y.astype(np.int32),
        "o": X.astype(np.int32) | 15,
        "x": X.astype(np.int32) ^ Y.astype(np.int32),
        "r": X.astype(np.int32) >> 3,
        "l": X.astype(np.int32) << 2,
        "i": ~X.astype(np.int32),
    },
    SIZES,
    arrays=bits,
)
def bits_of_whole_numbers() -> pl.Loop:
    loop, x = rows("bits", pl.I32)
    y = loop.stream("Y", pl.I32, m=4, n=128)
    for name, value in (("a", x & y), ("o", x | 15), ("x", x ^ y), ("r", x >> 3), ("l", x << 2)):
        loop.store(name, value)
    loop.store("i", ~x)
    return loop


@right(lambda X, Y: X + 16 * Y, SIZES, arrays=nibbles, near=0.0)
def two_nibbles_in_a_byte() -> pl.Loop:
    loop, x = rows("nibbles", pl.U8)
    y = loop.stream("Y", pl.U8, m=4, n=128)
    loop.store("out", (x | (y << 4)).to(pl.U8))
    return loop


@right(lambda X: {"lo": X % 16, "hi": X // 16}, SIZES, arrays=nibbles)
def a_byte_in_two_nibbles() -> pl.Loop:
    loop, x = rows("halves", pl.U8)
    loop.store("lo", x & 0xF)
    loop.store("hi", x >> 4)
    return loop


@right(lambda X, M: np.where(M != 0, X / 0.9, 0), SIZES, arrays=truths)
def dropout_by_an_array_of_truths() -> pl.Loop:
    loop, x = rows("dropout")
    loop.store("out", pl.where(loop.stream("M", pl.BOOL, m=4, n=128), x / 0.9, 0.0))
    return loop


@right(lambda X: {"out": np.maximum(X, 0), "mask": X > 0}, SIZES, near=0.0)
def a_mask_is_stored() -> pl.Loop:
    loop, x = rows("mask")
    loop.store("out", pl.maximum(x, 0))
    loop.store("mask", x > 0)
    return loop


@right(lambda X: X.sum(0), {"m": 9, "n": 100})
def an_output_named_like_its_sum() -> pl.Loop:
    loop, x = rows("named")
    total = loop.carry("out", n=128)
    total += x.sum("m")
    loop.store("out", total)
    return loop


@right(lambda X: X + 1, SIZES)
def a_value_that_nothing_uses() -> pl.Loop:
    loop, x = rows("unused")
    _ = pl.exp(x) * 2
    loop.store("out", x + 1)
    return loop


def whole_and_positive(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    shape = (sizes["m"], sizes["n"])
    return {"X": rng.integers(-60, 60, shape), "Y": rng.integers(1, 9, shape)}


@right(
    lambda X, Y: {"q": X // Y, "r": X % Y, "h": np.hypot(X, Y), "l": np.log10(Y)},
    SIZES,
    arrays=whole_and_positive,
)
def divided_by_values() -> pl.Loop:
    loop, x = rows("divided", pl.I32)
    y: Any = loop.stream("Y", pl.I32, m=4, n=128)
    loop.store("q", (x // y).to(pl.I32))
    loop.store("r", (x % y).to(pl.I32))
    loop.store("h", np.hypot(x, y))
    loop.store("l", np.log10(y))
    return loop


@right(lambda X: np.minimum(1, 2 / X.std(1, keepdims=True)) * X, SIZES)
def a_number_first_and_a_spread() -> pl.Loop:
    loop, x = rows("clipped")
    loop.store("out", pl.minimum(1, 2 / x.std("n")) * x)
    return loop


CASES = listed(globals())
