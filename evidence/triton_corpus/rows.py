# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"
"""Reductions, scans and sorts along rows; softmax and the normalisations built on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl

from evidence.triton_corpus.harness import Case, Expected, Trial
from evidence.triton_corpus.numbers import EPSILON, Array, decode, encode, is_float


@triton.jit
def softmax(x, out, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * stride + c, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(out + row * stride + c, y.to(out.dtype.element_ty), mask=c < n)


@triton.jit
def layer_norm(x, out, weight, bias, stride, n, eps, B: tl.constexpr, RMS: tl.constexpr):
    row = tl.program_id(0)
    mean = 0.0
    if not RMS:
        total = tl.zeros((B,), tl.float32)
        for start in range(0, n, B):
            c = start + tl.arange(0, B)
            total += tl.load(x + row * stride + c, mask=c < n, other=0.0).to(tl.float32)
        mean = tl.sum(total, axis=0) / n
    square = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        v = tl.load(x + row * stride + c, mask=c < n, other=0.0).to(tl.float32)
        v = tl.where(c < n, v - mean, 0.0)
        square += v * v
    scale = 1 / tl.sqrt(tl.sum(square, axis=0) / n + eps)
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        v = tl.load(x + row * stride + c, mask=c < n, other=0.0).to(tl.float32)
        w = tl.load(weight + c, mask=c < n)
        b = tl.load(bias + c, mask=c < n)
        tl.store(out + row * stride + c, (v - mean) * scale * w + b, mask=c < n)


@triton.jit
def reduce(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, OP: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :])
    if OP == "sum":
        r = tl.sum(v, AXIS)
    elif OP == "max":
        r = tl.max(v, AXIS)
    elif OP == "min":
        r = tl.min(v, AXIS)
    elif OP == "argmax":
        r = tl.argmax(v, AXIS)
    elif OP == "argmin":
        r = tl.argmin(v, AXIS)
    else:
        r = tl.xor_sum(v, AXIS)
    tl.store(out + (m if AXIS == 1 else n), r)


@triton.jit
def total(x, out, n, B: tl.constexpr):
    acc = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        acc += tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out, tl.sum(acc, axis=0))


@triton.jit
def variance(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    mean = tl.sum(v, axis=0) / N
    tl.store(out, mean)
    tl.store(out + 1, tl.sum((v - mean) * (v - mean), axis=0) / N)


@triton.jit
def combine(a0, b0, a1, b1):
    """First-order recurrence y = a y + b."""
    return a0 * a1, b0 * a1 + b1


@triton.jit
def scan(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr,
         OP: tl.constexpr):  # fmt: skip
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    if OP == "cumsum":
        r = tl.cumsum(v, AXIS, reverse=REVERSE)
    elif OP == "cumprod":
        r = tl.cumprod(v, AXIS, reverse=REVERSE)
    else:
        decay = tl.full((M, N), 0.5, tl.float32)
        _, r = tl.associative_scan((decay, v), AXIS, combine, reverse=REVERSE)
    tl.store(out + at, r)


@triton.jit
def sort(x, out, M: tl.constexpr, N: tl.constexpr, DOWN: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), 1, descending=DOWN))


@triton.jit
def top_k(x, out, N: tl.constexpr, K: tl.constexpr):
    best = tl.topk(tl.load(x + tl.arange(0, N)[None, :]), K)
    tl.store(out + tl.arange(0, K)[None, :], best)


@triton.jit
def cross_entropy(x, labels, out, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * stride + c, mask=c < n, other=-float("inf"))
    top = tl.max(v, axis=0)
    label = tl.load(labels + row)
    picked = tl.load(x + row * stride + label)
    tl.store(out + row, top + tl.log(tl.sum(tl.exp(v - top), axis=0)) - picked)


def _softmax(kind: str, block: int, n: int, warps: int) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.standard_normal((3, block)) * 3, kind)
        wide = decode(x, kind)[:, :n]
        powers = np.exp(wide - wide.max(1, keepdims=True))
        wanted = np.zeros((3, block))
        wanted[:, :n] = powers / powers.sum(1, keepdims=True)
        args = [x, np.zeros_like(x), block, n]
        return Trial(args, [Expected(1, kind, wanted, max(EPSILON[kind], 2e-6), 1e-7)])

    types = {"x": f"*{kind}", "out": f"*{kind}", "stride": "i32", "n": "i32"}
    name = f"{kind}, {n} of {block}, {warps} warps"
    return Case("softmax", name, softmax, types, {"B": block}, prepare, (3,), warps=warps,
                aligned=("stride",))  # fmt: skip


def _normalise(kind: str, n: int, block: int, rms: bool) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.standard_normal((2, n)) * 2 + 1, kind)
        w, b = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
        wide = decode(x, kind)
        centred = wide if rms else wide - wide.mean(1, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b
        tolerance = max(EPSILON[kind], 1e-5)
        args = [x, np.zeros_like(x), w, b, n, n, 1e-5]
        return Trial(args, [Expected(1, kind, wanted, tolerance, tolerance)])

    types = {"x": f"*{kind}", "out": f"*{kind}", "weight": "*fp32", "bias": "*fp32"}
    types |= {"stride": "i32", "n": "i32", "eps": "fp32"}
    name = f"{'rms' if rms else 'layer'} {kind}, {n} by {block}"
    fixed = {"B": block, "RMS": rms}
    return Case("normalisation", name, layer_norm, types, fixed, prepare, (2,))


_REDUCE: dict[str, Callable[[Array, int], Array]] = {
    "sum": lambda x, axis: x.sum(axis),
    "max": lambda x, axis: x.max(axis),
    "min": lambda x, axis: x.min(axis),
    "argmax": lambda x, axis: x.argmax(axis),
    "argmin": lambda x, axis: x.argmin(axis),
    "xor": lambda x, axis: np.bitwise_xor.reduce(x, axis),
}


def _reduce(name: str, kind: str, shape: tuple[int, int], axis: int, warps: int = 4) -> Case:
    out_kind = "i32" if name.startswith("arg") else kind
    if name == "sum" and kind in ("i8", "i16", "u8"):
        out_kind = "i32"

    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.integers(0 if kind[0] == "u" else -9, 10, shape), kind)
        out = encode(np.zeros(shape[1 - axis]), out_kind)
        return Trial([x, out], [Expected(1, out_kind, _REDUCE[name](decode(x, kind), axis))])

    types = {"x": f"*{kind}", "out": f"*{out_kind}"}
    fixed = {"M": shape[0], "N": shape[1], "AXIS": axis, "OP": name}
    title = f"{name} {kind}, {shape[0]}x{shape[1]}, axis {axis}, {warps} warps"
    return Case("reductions", title, reduce, types, fixed, prepare, warps=warps)


def _total() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.integers(-50, 50, 3000).astype(np.float32)
        return Trial([x, np.zeros(1, np.float32), 3000], [Expected(1, "fp32", np.array([x.sum()]))])

    types = {"x": "*fp32", "out": "*fp32", "n": "i32"}
    return Case("reductions", "running sum fp32", total, types, {"B": 512}, prepare)


def _variance(kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.standard_normal(1024), kind)
        wide = decode(x, kind)
        wanted = np.array([wide.mean(), wide.var()])
        return Trial([x, encode(np.zeros(2), kind)], [Expected(1, kind, wanted, 1e-5, 1e-6)])

    types = {"x": f"*{kind}", "out": f"*{kind}"}
    return Case("reductions", f"variance {kind}", variance, types, {"N": 1024}, prepare)


def _scan(name: str, kind: str, shape: tuple[int, int], axis: int, reverse: bool) -> Case:
    def oracle(x: Array) -> Array:
        x = np.flip(x, axis) if reverse else x
        if name == "cumsum":
            r = np.cumsum(x, axis)
        elif name == "cumprod":
            r = np.cumprod(x, axis)
        else:
            r = np.moveaxis(x.astype(np.float64), axis, 0).copy()
            for i in range(1, len(r)):
                r[i] += 0.5 * r[i - 1]
            r = np.moveaxis(r, 0, axis)
        return np.flip(r, axis) if reverse else r

    def prepare(rng: np.random.Generator) -> Trial:
        choices: Any = [-1, 1] if name == "cumprod" else np.arange(-5, 6)
        x = encode(rng.choice(choices, shape), kind)
        tolerance = 1e-5 if name == "recurrence" else 0.0
        expected = Expected(1, kind, oracle(decode(x, kind)), tolerance, tolerance)
        return Trial([x, np.zeros_like(x)], [expected])

    types = {"x": f"*{kind}", "out": f"*{kind}"}
    fixed = {"M": shape[0], "N": shape[1], "AXIS": axis, "REVERSE": reverse, "OP": name}
    title = f"{name} {kind}, {shape[0]}x{shape[1]}, axis {axis}" + ", reverse" * reverse
    return Case("scans", title, scan, types, fixed, prepare)


def _sort(kind: str, shape: tuple[int, int], down: bool) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.integers(-100, 100, shape), kind)
        wanted = np.sort(decode(x, kind), 1)
        if down:
            wanted = wanted[:, ::-1]
        return Trial([x, np.zeros_like(x)], [Expected(1, kind, wanted)])

    types = {"x": f"*{kind}", "out": f"*{kind}"}
    fixed = {"M": shape[0], "N": shape[1], "DOWN": down}
    title = f"{kind}, {shape[0]}x{shape[1]}" + ", descending" * down
    return Case("sort", title, sort, types, fixed, prepare)


def _top_k() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.permutation(256).astype(np.float32)[None, :]
        wanted = np.sort(x, 1)[:, ::-1][:, :8]
        return Trial([x, np.zeros((1, 8), np.float32)], [Expected(1, "fp32", wanted)])

    types = {"x": "*fp32", "out": "*fp32"}
    return Case("sort", "top 8 of 256 fp32", top_k, types, {"N": 256, "K": 8}, prepare)


def _cross_entropy() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = (rng.standard_normal((4, 512)) * 4).astype(np.float32)
        labels = rng.integers(0, 500, 4)
        wide = x[:, :500].astype(np.float64)
        wanted = np.log(np.exp(wide).sum(1)) - wide[np.arange(4), labels]
        args = [x, labels, np.zeros(4, np.float32), 512, 500]
        return Trial(args, [Expected(2, "fp32", wanted, 1e-5, 1e-5)])

    types = {"x": "*fp32", "labels": "*i64", "out": "*fp32", "stride": "i32", "n": "i32"}
    return Case("softmax", "cross entropy fp32", cross_entropy, types, {"B": 512}, prepare, (4,))


def cases() -> Iterator[Case]:
    """All row kernels."""
    for kind in ("fp32", "fp16", "bf16"):
        yield _softmax(kind, 1024, 700, 4)
        yield _softmax(kind, 256, 256, 1)
        yield _softmax(kind, 2048, 2000, 8)
        yield _normalise(kind, 700, 256, False)
        yield _normalise(kind, 512, 512, True)
    yield _cross_entropy()
    for kind in ("fp32", "fp16", "bf16", "i32", "i64", "i8", "fp64"):
        for name in ("sum", "max"):
            if is_float(kind) or name == "max" or kind != "i64":
                yield _reduce(name, kind, (32, 64), 1)
    yield _reduce("sum", "i64", (32, 64), 1)
    for name in ("argmax", "argmin", "min"):
        for kind in ("fp32", "i32", "fp16"):
            yield _reduce(name, kind, (16, 128), 1)
    yield _reduce("xor", "i32", (64, 32), 0)
    yield _reduce("sum", "fp32", (128, 16), 0)
    yield _reduce("max", "fp16", (64, 64), 0, 1)
    yield _reduce("argmax", "fp32", (4, 1024), 1, 8)
    yield _total()
    yield _variance("fp32")
    for name, kind in (
        ("cumsum", "fp32"),
        ("cumsum", "i32"),
        ("cumprod", "fp32"),
        ("recurrence", "fp32"),
        ("cumsum", "i64"),
        ("cumsum", "fp16"),
    ):
        yield _scan(name, kind, (8, 128), 1, False)
        yield _scan(name, kind, (64, 16), 0, True)
    for kind in ("i32", "fp32", "i16", "fp16", "i64"):
        yield _sort(kind, (4, 128), False)
    yield _sort("i32", (1, 512), True)
    yield _top_k()
