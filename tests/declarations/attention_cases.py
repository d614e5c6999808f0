"""Attention as textbooks write it: masks of every kind, any number of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Array, listed, right

Q, KEYS, D = 32, 32, 32
EVEN = {"q": 32, "keys": 64, "d": 32, "v": 32}
ANY = {"q": 21, "keys": 45, "d": 32, "v": 32}
SHORT = {"q": 3, "keys": 5, "d": 32, "v": 32}
SCALE = D**-0.5


class Parts:
    """The arrays of one attention, the scores and places of a tile, and the carried values."""

    def __init__(self, name: str, depth: int = D, *, keys_last: bool = False) -> None:
        loop = self.loop = pl.Loop(name, over="keys")
        self.q = loop.resident("Q", pl.BF16, q=Q, d=depth)
        sizes = {"d": depth, "keys": KEYS} if keys_last else {"keys": KEYS, "d": depth}
        self.k = loop.stream("K", pl.BF16, **sizes)
        self.v = loop.stream("V", pl.BF16, keys=KEYS, v=D)
        self.scores = self.q @ self.k.staged() * SCALE

    @property
    def row(self) -> pl.Tensor:
        return self.loop.index("q", Q)

    @property
    def column(self) -> pl.Tensor:
        return self.loop.index("keys", KEYS)

    @property
    def inside(self) -> pl.Tensor:
        return self.column < self.loop.size("keys")

    def online(self, scores: pl.Tensor) -> pl.Loop:
        """The textbook's online softmax, and the second product."""
        loop = self.loop
        m = loop.carry("m", start=-1e30, q=Q)
        total = loop.carry("l", q=Q)
        o = loop.carry("O", q=Q, v=D)
        new = pl.maximum(m, scores.max("keys"))
        alpha = pl.exp(m - new)
        p = pl.exp(scores - new)
        total = total.becomes(total * alpha + p.sum("keys"))
        o = o.becomes(o * alpha)
        o += p.to(pl.BF16) @ self.v.staged()
        m = m.becomes(new)
        loop.store("out", (o / total).to(pl.BF16))
        return loop


def attended(s: Array, v: Array) -> Any:
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


def scored(q: Array, k: Array) -> Any:
    return q @ k.T * SCALE, np.arange(len(q))[:, None], np.arange(len(k))[None]


def plainly(Q: Array, K: Array, V: Array) -> Any:
    return attended(scored(Q, K)[0], V)


@right(plainly, EVEN, ANY, SHORT, near=2.0**-6)
def textbook_without_a_mask() -> pl.Loop:
    parts = Parts("textbook")
    return parts.online(parts.scores)


@right(plainly, EVEN, ANY, SHORT, near=2.0**-6)
def textbook_with_a_length_mask() -> pl.Loop:
    parts = Parts("masked")
    return parts.online(pl.where(parts.inside, parts.scores, -np.inf))


@right(lambda Q, K, V: plainly(Q, K.T, V), ANY, SHORT, near=2.0**-6)
def keys_as_columns() -> pl.Loop:
    parts = Parts("columns", keys_last=True)
    return parts.online(parts.scores)


@right(plainly, {**ANY, "d": 80}, near=2.0**-6)
def heads_of_80() -> pl.Loop:
    parts = Parts("d80", depth=80)
    return parts.online(parts.scores)


@right(plainly, ANY, near=2.0**-6)
def textbook_with_a_large_number_for_infinity() -> pl.Loop:
    parts = Parts("masked")
    return parts.online(pl.where(parts.inside, parts.scores, -1e30))


def causally(Q: Array, K: Array, V: Array) -> Any:
    s, row, column = scored(Q, K)
    return attended(np.where(column <= row, s, -np.inf), V)


@right(causally, {**EVEN, "keys": 32}, ANY, near=2.0**-6)
def causal_from_the_start() -> pl.Loop:
    parts = Parts("causal")
    seen = parts.inside & (parts.column <= parts.row)
    return parts.online(pl.where(seen, parts.scores, -np.inf))


def causal_at_end(Q: Array, K: Array, V: Array) -> Any:
    s, row, column = scored(Q, K)
    return attended(np.where(column <= row + len(K) - len(Q), s, -np.inf), V)


@right(causal_at_end, ANY, near=2.0**-6)
def causal_aligned_to_the_end() -> pl.Loop:
    parts = Parts("causal_end")
    shift = parts.loop.size("keys") - parts.loop.size("q")
    seen = (parts.column - parts.row <= shift) & parts.inside
    return parts.online(pl.where(seen, parts.scores, -np.inf))


def windowed(Q: Array, K: Array, V: Array) -> Any:
    s, row, column = scored(Q, K)
    return attended(np.where((column <= row) & (row - column < 8), s, -np.inf), V)


@right(windowed, {**ANY, "keys": 21}, near=2.0**-6)
def sliding_window() -> pl.Loop:
    parts = Parts("window")
    seen = parts.inside & (parts.column <= parts.row) & (parts.row - parts.column < 8)
    return parts.online(pl.where(seen, parts.scores, -np.inf))


def sloped(Q: Array, K: Array, V: Array, slope: float) -> Any:
    s, row, column = scored(Q, K)
    return attended(np.where(column <= row, s - slope * (row - column), -np.inf), V)


@right(sloped, ANY, near=2.0**-6, scalars={"slope": 0.25})
def alibi() -> pl.Loop:
    parts = Parts("alibi")
    slope = parts.loop.scalar("slope", pl.F32)
    scores = parts.scores - slope * (parts.row - parts.column)
    seen = (parts.column <= parts.row) & parts.inside
    return parts.online(pl.where(seen, scores, -np.inf))


def capped(Q: Array, K: Array, V: Array) -> Any:
    return attended(2 * np.tanh(scored(Q, K)[0] / 2), V)


@right(capped, ANY, near=2.0**-6)
def soft_capped_scores() -> pl.Loop:
    parts = Parts("capped")
    return parts.online(pl.where(parts.inside, 2.0 * pl.tanh(parts.scores / 2.0), -np.inf))


def by_document(Q: Array, K: Array, V: Array, dq: Array, dk: Array) -> Any:
    s, _, _ = scored(Q, K)
    return attended(np.where(dq[:, None] == dk[None], s, -np.inf), V)


@right(
    by_document,
    ANY,
    near=2.0**-6,
    arrays=lambda rng, s: {
        "dq": np.arange(s["q"]) * 3 // s["q"],
        "dk": np.arange(s["keys"]) * 3 // s["keys"],
    },
)
def document_mask_from_arrays() -> pl.Loop:
    parts = Parts("documents")
    dq = parts.loop.resident("dq", pl.I32, q=Q)
    dk = parts.loop.stream("dk", pl.I32, keys=KEYS)
    return parts.online(pl.where((dq == dk) & parts.inside, parts.scores, -np.inf))


def biased(Q: Array, K: Array, V: Array, bias: Array) -> Any:
    return attended(scored(Q, K)[0] + bias, V)


@right(biased, EVEN, ANY, near=2.0**-6)
def bias_array() -> pl.Loop:
    parts = Parts("biased")
    bias = parts.loop.stream("bias", pl.F32, q=Q, keys=KEYS)
    return parts.online(parts.scores + bias)


def kept(Q: Array, K: Array, V: Array, M: Array) -> Any:
    return attended(np.where(M != 0, scored(Q, K)[0], -1e9), V)


@right(
    kept,
    ANY,
    near=2.0**-6,
    arrays=lambda rng, s: {"M": rng.integers(0, 2, (s["q"], s["keys"]))},
)
def mask_array_of_bytes() -> pl.Loop:
    parts = Parts("mask_array")
    mask = parts.loop.stream("M", pl.I8, q=Q, keys=KEYS)
    return parts.online(pl.where(mask != 0, parts.scores, -1e9))


def sigmoidal(Q: Array, K: Array, V: Array) -> Any:
    return 1 / (1 + np.exp(-scored(Q, K)[0])) @ V


@right(sigmoidal, EVEN, ANY, near=2.0**-6)
def sigmoid_attention() -> pl.Loop:
    parts = Parts("sigmoid")
    o = parts.loop.carry("O", q=Q, v=D)
    o += pl.sigmoid(parts.scores).to(pl.BF16) @ parts.v.staged()
    parts.loop.store("out", o.to(pl.BF16))
    return parts.loop


def squared(Q: Array, K: Array, V: Array) -> Any:
    return np.maximum(scored(Q, K)[0], 0) ** 2 @ V


@right(squared, ANY, near=2.0**-6)
def squared_relu_attention() -> pl.Loop:
    parts = Parts("relu2")
    o = parts.loop.carry("O", q=Q, v=D)
    o += (pl.maximum(parts.scores, 0) ** 2).to(pl.BF16) @ parts.v.staged()
    parts.loop.store("out", o.to(pl.BF16))
    return parts.loop


@right(
    lambda Q, K, V: plainly(Q[0, 0, 0], K[0, 0], V[0, 0])[None, None, None],
    {**ANY, "batch": 1, "heads": 1, "group": 1},
    near=2.0**-6,
)
def shipped_attention() -> pl.Loop:
    return pl.kernels.attention(32, 32, 32)


CASES = listed(globals())
