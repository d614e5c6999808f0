# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"
"""Flash attention, forward: two products, an online softmax between them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import triton
import triton.language as tl

from evidence.triton_corpus.harness import Case, Expected, Trial
from evidence.triton_corpus.numbers import EPSILON, decode, encode


@triton.jit
def attention(
    q, k, v, out, lse, scale, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rd = tl.arange(0, D)
    rows = tl.load(q + rm[:, None] * D + rd[None, :], mask=rm[:, None] < S, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    last = S
    if CAUSAL:
        last = min(S, (tl.program_id(0) + 1) * BM)
    for s in range(0, last, BN):
        inside = s + rn < S
        keys = tl.load(k + (s + rn)[None, :] * D + rd[:, None], mask=inside[None, :], other=0.0)
        score = tl.dot(rows, keys, input_precision=PRECISION) * (scale * 1.4426950408889634)
        seen = inside[None, :]
        if CAUSAL:
            seen = seen & (rm[:, None] >= (s + rn)[None, :])
        score = tl.where(seen, score, -float("inf"))
        new = tl.maximum(top, tl.max(score, 1))
        p = tl.math.exp2(score - new[:, None])
        fade = tl.math.exp2(top - new)
        total = total * fade + tl.sum(p, 1)
        values = tl.load(v + (s + rn)[:, None] * D + rd[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(values.dtype), values, acc * fade[:, None], input_precision=PRECISION)
        top = new
    tl.store(lse + rm, top + tl.math.log2(total), mask=rm < S)
    result = (acc / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + rm[:, None] * D + rd[None, :], result, mask=rm[:, None] < S)


def _attention(
    kind: str, depth: int, tile: tuple[int, int], length: int, *, causal: bool, warps: int = 4,
    stages: int = 2, side: int = 0,
) -> Case:  # fmt: skip
    def prepare(rng: np.random.Generator) -> Trial:
        given = [encode(rng.standard_normal((length, depth)), kind) for _ in range(3)]
        q, k, v = (decode(x, kind) for x in given)
        score = q @ k.T * 0.125
        if causal:
            score = np.where(np.tril(np.ones_like(score)) > 0, score, -np.inf)
        peak = score.max(1, keepdims=True)
        p = np.exp(score - peak)
        total = p.sum(1, keepdims=True)
        out, lse = np.zeros_like(given[0]), np.zeros(length, np.float32)
        wanted_lse = ((peak + np.log(total)) * np.log2(np.e))[:, 0]
        tolerance = 4 * EPSILON[kind] if kind != "fp32" else 1e-5
        return Trial(
            [*given, out, lse, 0.125, length],
            [
                Expected(3, kind, p / total @ v, tolerance, tolerance),
                Expected(4, "fp32", wanted_lse, 1e-5, 1e-4),
            ],
        )

    types = dict.fromkeys(("q", "k", "v", "out"), f"*{kind}")
    types |= {"lse": "*fp32", "scale": "fp32", "S": "i32"}
    fixed = {"D": depth, "BM": tile[0], "BN": tile[1], "CAUSAL": causal, "PRECISION": "ieee"}
    parts = [kind, f"D {depth}", f"{tile[0]}x{tile[1]}", f"{warps} warps"]
    parts += ["causal"] * causal + ["ragged"] * (length % tile[0] != 0)
    parts += [f"mfma {side}"] * bool(side)
    return Case("flash attention", ", ".join(parts), attention, types, fixed, prepare,
                (-(-length // tile[0]),), warps=warps,
                options={"num_stages": stages, "matrix_instr_nonkdim": side})  # fmt: skip


def cases() -> Iterator[Case]:
    """All attention kernels."""
    for kind in ("fp16", "bf16"):
        yield _attention(kind, 64, (64, 32), 128, causal=False)
        yield _attention(kind, 64, (64, 64), 128, causal=True, side=32)
        yield _attention(kind, 128, (128, 64), 128, causal=True, warps=8, side=16)
        yield _attention(kind, 32, (32, 32), 75, causal=False, warps=2, stages=1)
    yield _attention("fp32", 32, (32, 32), 64, causal=True)
