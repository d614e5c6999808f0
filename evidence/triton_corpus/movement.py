# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"
"""Data that changes place: transposes, gathers, histograms, atomics, small convolutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl

from evidence.triton_corpus.harness import Case, Expected, Trial
from evidence.triton_corpus.numbers import Array, decode, encode


@triton.jit
def transpose(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=inside)
    tl.store(out + n[:, None] * M + m[None, :], tl.trans(v), mask=tl.trans(inside))


@triton.jit
def reshape(x, out, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    if OP == "ravel":
        tl.store(out + tl.arange(0, M * N), tl.ravel(tl.trans(v)))
    elif OP == "permute":
        w = tl.permute(tl.reshape(v, (M, N // 8, 8)), (2, 0, 1))
        tl.store(out + tl.arange(0, M * N), tl.ravel(w))
    elif OP == "join":
        w = tl.join(v, v + 1)
        tl.store(out + tl.arange(0, 2 * M * N), tl.ravel(w))
    elif OP == "split":
        left, right = tl.split(tl.reshape(v, (M, N // 2, 2)))
        tl.store(out + tl.arange(0, M * N // 2), tl.ravel(left - right))
    elif OP == "interleave":
        w = tl.interleave(v, -v)
        tl.store(out + tl.arange(0, 2 * M * N), tl.ravel(w))
    elif OP == "flip":
        tl.store(out + at, tl.flip(v, 1))
    elif OP == "broadcast":
        row = tl.sum(v, 0)
        tl.store(out + at, v + row[None, :])


@triton.jit
def take(x, index, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), AXIS))


@triton.jit
def embedding(table, index, out, n, D: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    d = tl.arange(0, D)
    tl.store(out + tl.program_id(0) * D + d, tl.load(table + row * D + d))


@triton.jit
def histogram(x, out, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    counts = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def atomic(x, out, old, n, B: tl.constexpr, BINS: tl.constexpr, OP: tl.constexpr,
           KEEP: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    p = out + i % BINS
    if OP == "add":
        r = tl.atomic_add(p, v, mask=m)
    elif OP == "max":
        r = tl.atomic_max(p, v, mask=m)
    elif OP == "min":
        r = tl.atomic_min(p, v, mask=m)
    elif OP == "and":
        r = tl.atomic_and(p, v, mask=m)
    elif OP == "or":
        r = tl.atomic_or(p, v, mask=m)
    elif OP == "xor":
        r = tl.atomic_xor(p, v, mask=m)
    else:
        r = tl.atomic_xchg(p, v, mask=m)
    if KEEP:
        tl.store(old + i, r, mask=m)


@triton.jit
def counter(lock, out, n):
    """Take a spin lock, add to a plain cell, release."""
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + tl.program_id(0) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def convolve(x, w, out, n, B: tl.constexpr, TAPS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for t in range(TAPS):
        at = i + t - TAPS // 2
        acc += tl.load(x + at, mask=(at >= 0) & (at < n), other=0.0) * tl.load(w + t)
    tl.store(out + i, acc, mask=i < n)


@triton.jit
def convolve_2d(
    x, w, out, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, F: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """3x3 convolution as nine products: channels last, padded with zeros."""
    place = tl.program_id(0) * B + tl.arange(0, B)
    row = place // W
    column = place % W
    c = tl.arange(0, C)
    f = tl.arange(0, F)
    acc = tl.zeros((B, F), tl.float32)
    for dy in range(3):
        for dx in range(3):
            y = row + dy - 1
            z = column + dx - 1
            inside = (y >= 0) & (y < H) & (z >= 0) & (z < W)
            at = (y * W + z)[:, None] * C + c[None, :]
            left = tl.load(x + at, mask=inside[:, None], other=0.0)
            taps = tl.load(w + ((dy * 3 + dx) * C + c)[:, None] * F + f[None, :])
            acc = tl.dot(left, taps, acc)
    tl.store(out + place[:, None] * F + f[None, :], acc)


@triton.jit
def rotary(x, cos, sin, out, D: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, D // 2)
    a = tl.load(x + row * D + d)
    b = tl.load(x + row * D + D // 2 + d)
    c = tl.load(cos + row * (D // 2) + d)
    s = tl.load(sin + row * (D // 2) + d)
    tl.store(out + row * D + d, a * c - b * s)
    tl.store(out + row * D + D // 2 + d, b * c + a * s)


@triton.jit
def dequantise(q, scales, out, N: tl.constexpr, GROUP: tl.constexpr):
    """int4 pairs to fp16 with one scale per group."""
    i = tl.arange(0, N)
    byte = tl.load(q + i // 2)
    nibble = (byte >> ((i % 2) * 4)) & 15
    value = (nibble.to(tl.int8) - 8).to(tl.float16)
    tl.store(out + i, value * tl.load(scales + i // GROUP))


def _transpose(kind: str, tile: tuple[int, int], warps: int) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.integers(0, 100, (70, 90)), kind)
        out = np.zeros((90, 70), x.dtype)
        return Trial([x, out, 70, 90], [Expected(1, kind, decode(x, kind).T)])

    types = {"x": f"*{kind}", "out": f"*{kind}", "M": "i32", "N": "i32"}
    grid = (-(-70 // tile[0]), -(-90 // tile[1]))
    name = f"{kind}, {tile[0]}x{tile[1]}, {warps} warps"
    fixed = {"BM": tile[0], "BN": tile[1]}
    return Case("transpose", name, transpose, types, fixed, prepare, grid, warps=warps)


_RESHAPE: dict[str, Callable[[Array], Array]] = {
    "ravel": lambda v: v.T.ravel(),
    "permute": lambda v: v.reshape(len(v), -1, 8).transpose(2, 0, 1).ravel(),
    "join": lambda v: np.stack([v, v + 1], -1).ravel(),
    "split": lambda v: (v[:, 0::2] - v[:, 1::2]).ravel(),
    "interleave": lambda v: np.stack([v, -v], -1).ravel(),
    "flip": lambda v: v[:, ::-1].ravel(),
    "broadcast": lambda v: (v + v.sum(0)).ravel(),
}


def _reshape(name: str, kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.integers(-4, 5, (16, 64))
        wanted = _RESHAPE[name](x)
        out = encode(np.zeros(wanted.size), kind)
        return Trial([encode(x, kind), out], [Expected(1, kind, wanted)])

    types = {"x": f"*{kind}", "out": f"*{kind}"}
    fixed = {"OP": name, "M": 16, "N": 64}
    return Case("shapes", f"{name} {kind}", reshape, types, fixed, prepare)


def _take(kind: str, axis: int, shape: tuple[int, int]) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.integers(-90, 90, shape)
        index = rng.integers(0, shape[axis], shape).astype(np.int32)
        args = [encode(x, kind), index, encode(np.zeros(shape), kind)]
        return Trial(args, [Expected(2, kind, np.take_along_axis(x, index, axis))])

    types = {"x": f"*{kind}", "index": "*i32", "out": f"*{kind}"}
    fixed = {"M": shape[0], "N": shape[1], "AXIS": axis}
    name = f"{kind}, {shape[0]}x{shape[1]}, axis {axis}"
    return Case("gather", name, take, types, fixed, prepare)


def _embedding(kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        table = rng.integers(0, 100, (50, 128))
        index = rng.integers(0, 50, 6)
        args = [encode(table, kind), index, encode(np.zeros((6, 128)), kind), 6]
        return Trial(args, [Expected(2, kind, table[index])])

    types = {"table": f"*{kind}", "index": "*i64", "out": f"*{kind}", "n": "i32"}
    return Case("gather", f"embedding {kind}", embedding, types, {"D": 128}, prepare, (6,), warps=1)


def _histogram(bins: int) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.integers(0, bins, 900).astype(np.int32)
        wanted = np.bincount(x, minlength=bins)
        return Trial([x, np.zeros(bins, np.int32), 900], [Expected(1, "i32", wanted)])

    types = {"x": "*i32", "out": "*i32", "n": "i32"}
    fixed = {"B": 512, "BINS": bins}
    return Case("histogram", f"{bins} bins", histogram, types, fixed, prepare, (2,))


_ATOMIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "max": max,
    "min": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "xchg": lambda a, b: b,
}


def _atomic(name: str, kind: str, keep: bool = False, bins: int = 16) -> Case:
    """With ``keep`` every update has its own cell, so that the old values are known."""
    count = 900
    bins = 1024 if keep or name == "xchg" else bins

    def prepare(rng: np.random.Generator) -> Trial:
        low = 0 if kind[0] == "u" else -8
        x = rng.integers(low, 9, count)
        start = rng.integers(low, 9, bins)
        cells = [int(v) for v in start]
        for i, v in enumerate(x):
            cells[i % bins] = _ATOMIC[name](cells[i % bins], int(v))
        old = encode(np.zeros(count), kind)
        args = [encode(x, kind), encode(start, kind), old, count]
        expected = [Expected(1, kind, np.array(cells).astype(np.int64))]
        if keep:
            expected.append(Expected(2, kind, start[:count]))
        return Trial(args, expected)

    types = {"x": f"*{kind}", "out": f"*{kind}", "old": f"*{kind}", "n": "i32"}
    fixed = {"B": 256, "BINS": bins, "OP": name, "KEEP": keep}
    title = f"{name} {kind}" + ", old value kept" * keep
    return Case("atomics", title, atomic, types, fixed, prepare, (4,))


def _counter() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        args = [np.zeros(1, np.int32), np.zeros(1, np.int32), 5]
        return Trial(args, [Expected(1, "i32", np.array([15])), Expected(0, "i32", np.array([0]))])

    types = {"lock": "*i32", "out": "*i32", "n": "i32"}
    return Case("atomics", "cas spin lock", counter, types, {}, prepare, (5,))


def _convolve() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.integers(-9, 10, 900).astype(np.float32)
        w = rng.integers(-4, 5, 5).astype(np.float32)
        wanted = np.convolve(x, w[::-1], "same")
        return Trial([x, w, np.zeros_like(x), 900], [Expected(2, "fp32", wanted)])

    types = {"x": "*fp32", "w": "*fp32", "out": "*fp32", "n": "i32"}
    fixed = {"B": 256, "TAPS": 5}
    return Case("convolution", "one axis, fp32", convolve, types, fixed, prepare, (4,))


def _convolve_2d(kind: str) -> Case:
    size, channels, filters = 8, 32, 32

    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.integers(-2, 3, (size, size, channels))
        w = rng.integers(-2, 3, (3, 3, channels, filters))
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        wanted = np.zeros((size, size, filters))
        for dy in range(3):
            for dx in range(3):
                wanted += padded[dy : dy + size, dx : dx + size] @ w[dy, dx]
        out = np.zeros((size, size, filters), np.float32)
        return Trial([encode(x, kind), encode(w, kind), out], [Expected(2, "fp32", wanted)])

    types = {"x": f"*{kind}", "w": f"*{kind}", "out": "*fp32"}
    fixed = {"C": channels, "H": size, "W": size, "F": filters, "B": 32}
    return Case("convolution", f"3x3, {kind}", convolve_2d, types, fixed, prepare, (2,))


def _rotary(kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.integers(-8, 9, (3, 128)), kind)
        cos, sin = (encode(rng.integers(-2, 3, (3, 64)), kind) for _ in range(2))
        a, b = decode(x, kind)[:, :64], decode(x, kind)[:, 64:]
        c, s = decode(cos, kind), decode(sin, kind)
        wanted = np.concatenate([a * c - b * s, b * c + a * s], 1)
        return Trial([x, cos, sin, np.zeros_like(x)], [Expected(3, kind, wanted)])

    types = dict.fromkeys(("x", "cos", "sin", "out"), f"*{kind}")
    return Case("rotary", kind, rotary, types, {"D": 128}, prepare, (3,), warps=1)


def _dequantise() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        codes = rng.integers(0, 16, 1024)
        q = (codes[0::2] | codes[1::2] << 4).astype(np.uint8)
        scales = np.exp2(rng.integers(-4, 4, 1024 // 64)).astype(np.float16)
        wanted = (codes - 8) * np.repeat(scales.astype(np.float64), 64)
        return Trial([q, scales, np.zeros(1024, np.float16)], [Expected(2, "fp16", wanted)])

    types = {"q": "*u8", "scales": "*fp16", "out": "*fp16"}
    fixed = {"N": 1024, "GROUP": 64}
    return Case("quantised", "int4 to fp16", dequantise, types, fixed, prepare)


def cases() -> Iterator[Case]:
    """All kernels that move data."""
    for kind in ("fp32", "fp16", "i8", "i64"):
        yield _transpose(kind, (32, 64), 4)
    yield _transpose("bf16", (64, 64), 1)
    for name in _RESHAPE:
        yield _reshape(name, "fp32")
        yield _reshape(name, "fp16")
    yield _reshape("permute", "i8")
    for kind in ("fp32", "i16", "i64"):
        yield _take(kind, 0, (64, 16))
        yield _take(kind, 1, (8, 128))
    yield _take("i32", 0, (512, 2))
    for kind in ("fp16", "i8"):
        yield _embedding(kind)
    for bins in (16, 64, 256):
        yield _histogram(bins)
    for name in _ATOMIC:
        for kind in ("i32", "u32", "i64"):
            yield _atomic(name, kind)
            yield _atomic(name, kind, True)
    for kind in ("fp32", "fp64", "fp16", "bf16"):
        yield _atomic("add", kind)
        yield _atomic("add", kind, True)
    for kind in ("fp32", "fp64"):
        yield _atomic("max", kind)
        yield _atomic("min", kind, True)
    yield _atomic("xchg", "fp32", True)
    yield _counter()
    yield _convolve()
    for kind in ("fp16", "bf16", "fp32"):
        yield _convolve_2d(kind)
        yield _rotary(kind)
    yield _dequantise()
