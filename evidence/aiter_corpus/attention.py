"""Attention backward: one head of one batch, a few query tiles against one or two tiles of keys.

Three kinds of kernels make it up: ``odo`` (D = rows of O * dO added up), ``dqdkdv`` (the gradients;
dQ is added up by atomics in f32, a32, or in the element type, a16), and ``dq_convert`` or
``dq_shuffle``, which brings the added-up dQ into its final form. Arguments are slots of 16 bytes in
a fixed order, whatever names and sizes the metadata gives them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evidence.aiter_corpus.case import Array, Case, Value, worst
from pipeloom.judge.emulate.formats import bf16_to_f32, f32_to_bf16


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GRADIENT_SLOTS = _names(
    "dQ dK dV Q K V dO lse D scale log2e seqlen_q Ts Hs_q BAs_q Seqs_q ratio Hs_k BAs_k Seqs_k "
    "Seqs_dk seqlen_k head_dim_q head_dim_v heads Hs_v BAs_v Seqs_v Hs_do BAs_do Seqs_do Hs_dk "
    "BAs_dk Hs_dv BAs_dv Seqs_dv Hs_lsed starts_q starts_k padded_q padded_k max_seqlen_dq mask_x "
    "mask_y"
)
ODO_SLOTS = _names(
    "O dO D Hs_o BAs_o Seqs_o Hs_do BAs_do Seqs_do Hs_d BAs_d Seqs_d seqlen_q head_dim starts_q "
    "padded_q"
)
FINAL_SLOTS = _names(
    "sum dQ Hs_sum BAs_sum Seqs_sum Hs_dq BAs_dq Seqs_dq seqlen_q head_dim starts_q padded_q"
)
KEY_TILE = {(64, 64): 192, (128, 128): 256, (192, 128): 192, (192, 192): 64}
"""Keys of one workgroup, by head sizes."""
QUERIES = 128
"""Of kernels that take any number: their loops go round two to four times."""
ALLOWED = 2e-2
"""Of the largest gradient: P and dS are rounded to 16 bits on the way, a16 sums too."""
SHUFFLED = {
    128: ((2, 128), (4, 32), (8, 256)),
    192: ((2, 384), (2, 32), (2, 192), (4, 768), (3, 64)),
}
"""Order of an a16 sum: of 16 rows together, a row's pairs of columns at (count, distance)."""
LEFT, RIGHT = 40, 24
"""The window of the sliding-window kernels, in keys left and right of the query."""


@dataclass(frozen=True)
class Kind:
    """What a file's name says of its kernel."""

    part: str
    head_q: int
    head_v: int
    half: bool
    mask: str
    wide_sum: bool
    grouped: bool

    @classmethod
    def of(cls, path: Path) -> Kind:
        name = path.stem
        sizes = re.match(r"bwd_hd(\d+)(?:_(\d+)_)?", name)
        assert sizes is not None
        head_q = int(sizes[1])
        part = next((p for p in ("odo", "dq_convert", "dq_shuffle") if p in name), "dqdkdv")
        mask = next((m for m in ("causal_br", "causal", "swa") if m in name), "")
        return cls(
            part=part,
            head_q=head_q,
            head_v=int(sizes[2] or head_q),
            half="fp16" in name,
            mask=mask,
            wide_sum="a32" in name,
            grouped="group" in name,
        )

    def encode(self, values: Array) -> Array:
        return values.astype(np.float16) if self.half else f32_to_bf16(values.astype(np.float32))

    def decode(self, codes: Array) -> Array:
        return codes.astype(np.float32) if self.half else bf16_to_f32(codes)


def unshuffled(added: Array) -> Array:
    """dQ row by row from an a16 sum; that this order is right is what the gradients show."""
    rows, width = added.shape
    places = np.arange(2)
    for count, distance in SHUFFLED[width]:
        places = (np.arange(count)[:, None] * distance + places).ravel()
    blocks = added.reshape(rows // 16, 16 * width)
    picked = blocks[:, 2 * np.arange(16)[:, None] + places]
    return picked.reshape(rows, width)


def attention_case(path: Path) -> Case:
    """The case of any file of the family."""
    kind = Kind.of(path)
    make = {"odo": _odo, "dqdkdv": _gradients}.get(kind.part, _final)
    return make(path, kind)


def _random(seed: int, kind: Kind, rows: int, width: int) -> Array:
    """Numbers that the element type holds exactly."""
    values = np.random.default_rng(seed).uniform(-1, 1, (rows, width)).astype(np.float32)
    return kind.decode(kind.encode(values))


def _starts(kind: Kind, rows: int) -> Array | None:
    return np.array([0, rows], np.int32) if kind.grouped else None


def _odo(path: Path, kind: Kind) -> Case:
    rows, width = 64, kind.head_q
    out, gradient = _random(1, kind, rows, width), _random(2, kind, rows, width)

    def values() -> Mapping[str, Value]:
        size = 2 * width
        strides = {f"{s}_{x}": rows * size for s in ("Hs", "BAs") for x in ("o", "do")}
        return {
            "O": kind.encode(out),
            "dO": kind.encode(gradient),
            "D": np.zeros(rows, np.float32),
            **strides,
            "Seqs_o": size,
            "Seqs_do": size,
            "Hs_d": 4 * rows,
            "BAs_d": 4 * rows,
            "Seqs_d": 4,
            "seqlen_q": rows,
            "head_dim": width,
            "starts_q": _starts(kind, rows),
            "padded_q": _starts(kind, rows),
        }

    def error(after: Mapping[str, Value]) -> float:
        return worst(after["D"], (out * gradient).sum(axis=1), 1e-4)

    return Case(path, (1, 1, 1), values, error, slots=ODO_SLOTS)


def _final(path: Path, kind: Kind) -> Case:
    rows, width = 64, kind.head_q
    total = _random(1, kind, rows, width)
    shuffled = "dq_shuffle" in path.stem

    def values() -> Mapping[str, Value]:
        size = 2 if shuffled else 4
        return {
            "sum": kind.encode(total) if shuffled else total.astype(np.float32),
            "dQ": np.zeros((rows, width), np.float16 if kind.half else np.uint16),
            "Hs_sum": rows * width * size,
            "BAs_sum": rows * width * size,
            "Seqs_sum": width * size,
            "Hs_dq": 2 * rows * width,
            "BAs_dq": 2 * rows * width,
            "Seqs_dq": 2 * width,
            "seqlen_q": rows,
            "head_dim": width,
            "starts_q": _starts(kind, rows),
            "padded_q": _starts(kind, rows),
        }

    def error(after: Mapping[str, Value]) -> float:
        if shuffled:
            return worst(kind.decode(after["dQ"]), kind.decode(unshuffled(after["sum"])), 1e-9)
        return worst(kind.decode(after["dQ"]), total, 1e-2)

    return Case(path, (1, 1, 1), values, error, slots=FINAL_SLOTS)


def _mask(kind: Kind, queries: int, keys: int) -> Array:
    row, column = np.arange(queries)[:, None], np.arange(keys)[None, :]
    if kind.mask == "causal":
        return column <= row
    if kind.mask == "causal_br":
        return column <= row + keys - queries
    if kind.mask == "swa":
        return (column >= row - LEFT) & (column <= row + RIGHT)
    return np.ones((queries, keys), np.bool_)


def _gradients(path: Path, kind: Kind) -> Case:
    tile = KEY_TILE[kind.head_q, kind.head_v]
    padded = "pssk" in path.stem
    keys = tile
    queries = QUERIES if padded else keys
    if kind.mask == "causal_br":
        # A query without a key has no softmax.
        queries = min(queries, keys)
    head_q, head_v = kind.head_q, kind.head_v
    q, k = _random(1, kind, queries, head_q), _random(2, kind, keys, head_q)
    v, do = _random(3, kind, keys, head_v), _random(4, kind, queries, head_v)
    scale = head_q**-0.5
    scores = np.where(_mask(kind, queries, keys), q @ k.T * scale, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - top)
    sums = weights.sum(axis=1, keepdims=True)
    p = weights / sums
    lse = (top + np.log(sums))[:, 0].astype(np.float32)
    dot = ((p @ v) * do).sum(axis=1).astype(np.float32)
    ds = p * (do @ v.T - dot[:, None])
    want = {"dV": p.T @ do, "dK": ds.T @ q * scale, "dQ": ds @ k * scale}
    post = not (head_q == 64 and not kind.wide_sum)

    def values() -> Mapping[str, Value]:
        dtype = np.float16 if kind.half else np.uint16
        sum_width = head_q if kind.wide_sum or head_q == 64 else (192 if head_q == 192 else 128)
        strides: dict[str, Value] = {}
        for name, rows, width in (
            ("q", queries, head_q),
            ("k", keys, head_q),
            ("v", keys, head_v),
            ("do", queries, head_v),
            ("dk", keys, head_q),
            ("dv", keys, head_v),
        ):
            strides[f"Hs_{name}"] = strides[f"BAs_{name}"] = 2 * rows * width
            strides[f"Seqs_{name}"] = 2 * width
        return {
            "dQ": np.zeros((queries, sum_width), np.float32 if kind.wide_sum else dtype),
            "dK": np.zeros((keys, head_q), dtype),
            "dV": np.zeros((keys, head_v), dtype),
            "Q": kind.encode(q),
            "K": kind.encode(k),
            "V": kind.encode(v),
            "dO": kind.encode(do),
            "lse": lse,
            "D": dot,
            "scale": np.float32(scale),
            "log2e": np.float32(np.log2(np.e)),
            "seqlen_q": queries,
            "seqlen_k": keys,
            "Ts": tile * 2 * head_q,
            "ratio": 1,
            "head_dim_q": head_q,
            "head_dim_v": head_v,
            "heads": 1,
            **strides,
            "Hs_lsed": 4 * queries,
            "starts_q": _starts(kind, queries),
            "starts_k": _starts(kind, keys),
            "padded_q": _starts(kind, queries),
            "padded_k": _starts(kind, keys),
            "max_seqlen_dq": queries,
            "mask_x": 1 + RIGHT if kind.mask == "swa" else 0,
            "mask_y": 1 + LEFT if kind.mask == "swa" else 0,
        }

    def error(after: Mapping[str, Value]) -> float:
        got = {name: kind.decode(after[name]) for name in ("dV", "dK")}
        got["dQ"] = after["dQ"] if kind.wide_sum else kind.decode(after["dQ"])
        if post and not kind.wide_sum:
            got["dQ"] = kind.decode(unshuffled(after["dQ"]))
        return max(worst(got[name], want[name], ALLOWED) for name in want)

    return Case(path, (1, 1, 1), values, error, slots=GRADIENT_SLOTS)
