# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"
"""Kernels as models use them: backward passes, quantised products, persistent loops, many warps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl

from evidence.triton_corpus.harness import ARCHS, Case, Expected, Trial
from evidence.triton_corpus.numbers import EPSILON, decode, encode, rounded


@triton.jit
def persistent(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DEEP: tl.constexpr
):
    """Each program takes tile after tile; block pointers; int64 offsets."""
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=DEEP):
        m = (tile // tiles_n * BM).to(tl.int64)
        n = (tile % tiles_n * BN).to(tl.int64)
        acc = tl.zeros((BM, BN), tl.float32)
        rm = m + tl.arange(0, BM)
        rn = n + tl.arange(0, BN)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            left = tl.load(a + rm[:, None] * K + rk[None, :], mask=rm[:, None] < M, other=0.0)
            right = tl.load(b + rn[None, :] * K + rk[:, None], mask=rn[None, :] < N, other=0.0)
            acc = tl.dot(left, right, acc)
        inside = (rm[:, None] < M) & (rn[None, :] < N)
        tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def attention_backward(
    q, k, v, do, lse, delta, dq, dk, dv, scale, S: tl.constexpr, D: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    """Gradients of attention for one block of keys; dq by atomics."""
    rn = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    at = rn[:, None] * D + rd[None, :]
    keys = tl.load(k + at)
    values = tl.load(v + at)
    acc_k = tl.zeros((BM, D), tl.float32)
    acc_v = tl.zeros((BM, D), tl.float32)
    for s in range(0, S, BM):
        rm = s + tl.arange(0, BM)
        rows = tl.load(q + rm[:, None] * D + rd[None, :])
        grad = tl.load(do + rm[:, None] * D + rd[None, :])
        p = tl.exp(tl.dot(rows, tl.trans(keys)) * scale - tl.load(lse + rm)[:, None])
        acc_v += tl.dot(tl.trans(p.to(grad.dtype)), grad)
        dp = tl.dot(grad, tl.trans(values))
        ds = (p * (dp - tl.load(delta + rm)[:, None]) * scale).to(rows.dtype)
        acc_k += tl.dot(tl.trans(ds), rows)
        tl.atomic_add(dq + rm[:, None] * D + rd[None, :], tl.dot(ds, keys))
    tl.store(dk + at, acc_k)
    tl.store(dv + at, acc_v)


@triton.jit
def weight_only(a, q, scales, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                BK: tl.constexpr):  # fmt: skip
    """fp16 activations times int4 weights with a scale per column and K block."""
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :])
        packed = tl.load(q + (k // 2)[:, None] * N + n[None, :])
        nibble = (packed >> ((k % 2) * 4)[:, None].to(tl.uint8)) & 15
        scale = tl.load(scales + start // BK * N + n)
        right = (nibble.to(tl.int8) - 8).to(tl.float16) * scale[None, :]
        acc = tl.dot(left, right, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def quantised(a, b, sa, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """int8 product with a scale per row and per column, bf16 out."""
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + n[None, :] * K + k[:, None])
    acc = tl.dot(left, right, out_dtype=tl.int32).to(tl.float32)
    acc = acc * tl.load(sa + m)[:, None] * tl.load(sb + n)[None, :]
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))


@triton.jit
def quantise_rows(x, q, scales, N: tl.constexpr, TOP: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, N)
    v = tl.load(x + row * N + n).to(tl.float32)
    scale = tl.max(tl.abs(v), axis=0) / TOP
    tl.store(scales + row, scale)
    tl.store(q + row * N + n, (v / scale).to(q.dtype.element_ty))


@triton.jit
def swiglu(x, out, N: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, N)
    gate = tl.load(x + row * 2 * N + n).to(tl.float32)
    up = tl.load(x + row * 2 * N + N + n).to(tl.float32)
    tl.store(out + row * N + n, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty))


@triton.jit
def adam(p, g, m, v, lr, step, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    grad = tl.load(g + i, mask=inside)
    first = 0.9 * tl.load(m + i, mask=inside) + 0.1 * grad
    second = 0.999 * tl.load(v + i, mask=inside) + 0.001 * grad * grad
    tl.store(m + i, first, mask=inside)
    tl.store(v + i, second, mask=inside)
    hat = first / (1 - tl.exp(step * tl.log(0.9)))
    size = second / (1 - tl.exp(step * tl.log(0.999)))
    tl.store(p + i, tl.load(p + i, mask=inside) - lr * hat / (tl.sqrt(size) + 1e-8), mask=inside)


@triton.jit
def collatz(x, out, n, B: tl.constexpr):
    """A data-dependent loop: lanes leave at different times."""
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=1)
    steps = tl.zeros((B,), tl.int32)
    while tl.max((v != 1).to(tl.int32), axis=0) != 0:
        odd = v % 2 == 1
        v2 = tl.where(odd, 3 * v + 1, v // 2)
        steps += (v != 1).to(tl.int32)
        v = tl.where(v == 1, v, v2)
    tl.store(out + i, steps, mask=i < n)


@triton.jit
def bisect(table, x, out, n, SIZE: tl.constexpr, B: tl.constexpr):
    """Binary search: loads at addresses that depend on loads."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    low = tl.zeros((B,), tl.int32)
    high = tl.full((B,), SIZE, tl.int32)
    for _ in range(10):
        middle = (low + high) // 2
        smaller = tl.load(table + middle, mask=middle < SIZE, other=2147483647) < v
        low = tl.where(smaller & (low < high), middle + 1, low)
        high = tl.where(smaller, high, middle)
    tl.store(out + i, low, mask=i < n)


@triton.jit
def black_scholes(spot, strike, years, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.load(spot + i, mask=i < n, other=1.0)
    k = tl.load(strike + i, mask=i < n, other=1.0)
    t = tl.load(years + i, mask=i < n, other=1.0)
    root = 0.3 * tl.sqrt(t)
    d = (tl.log(s / k) + (0.02 + 0.045) * t) / root
    first = 0.5 * (1 + tl.erf(d * 0.7071067811865476))
    second = 0.5 * (1 + tl.erf((d - root) * 0.7071067811865476))
    tl.store(out + i, s * first - k * tl.exp(-0.02 * t) * second, mask=i < n)


def _small(rng: np.random.Generator, shape: tuple[int, ...], top: int = 3) -> Any:
    return rng.integers(-top, top + 1, shape)


def _persistent(
    kind: str,
    tile: tuple[int, int, int],
    sizes: tuple[int, int, int],
    warps: int,
    stages: int,
    deep: bool = False,
    side: int = 0,
    small: bool = False,
) -> Case:
    m, n, k = sizes

    def prepare(rng: np.random.Generator) -> Trial:
        a, b = _small(rng, (m, k)), _small(rng, (n, k))
        c = encode(np.zeros((m, n)), kind)
        args = [encode(a, kind), encode(b, kind), c, m, n, k]
        return Trial(args, [Expected(2, kind, rounded(a @ b.T, kind))])

    types = {"a": f"*{kind}", "b": f"*{kind}", "c": f"*{kind}", "M": "i32", "N": "i32", "K": "i32"}
    fixed = {"BM": tile[0], "BN": tile[1], "BK": tile[2], "DEEP": deep}
    name = f"{kind}, {'x'.join(map(str, tile))}, {warps} warps, {stages} stages"
    name += ", flattened" * deep + ", small arrays" * small
    return Case("persistent GEMM", name, persistent, types, fixed, prepare, (2,), warps=warps,
                aligned=("K",), small=small,
                options={"num_stages": stages, "matrix_instr_nonkdim": side})  # fmt: skip


def _attention_backward(kind: str) -> Case:
    size, depth, scale = 64, 32, 0.2

    def prepare(rng: np.random.Generator) -> Trial:
        given = [encode(rng.standard_normal((size, depth)) * 0.5, kind) for _ in range(4)]
        q, k, v, do = (decode(x, kind) for x in given)
        score = q @ k.T * scale
        lse = np.log(np.exp(score).sum(1))
        p = np.exp(score - lse[:, None])
        dp = do @ v.T
        delta = (p @ v * do).sum(1)
        ds = p * (dp - delta[:, None]) * scale
        wanted = [ds @ k, ds.T @ q, p.T @ do]
        grads = [np.zeros((size, depth), np.float32) for _ in range(3)]
        args = [*given, lse.astype(np.float32), delta.astype(np.float32), *grads, scale]
        slack = 8 * EPSILON[kind]
        return Trial(args, [Expected(6 + i, "fp32", wanted[i], slack, slack) for i in range(3)])

    types = dict.fromkeys(("q", "k", "v", "do"), f"*{kind}")
    types |= dict.fromkeys(("lse", "delta", "dq", "dk", "dv"), "*fp32") | {"scale": "fp32"}
    fixed = {"S": size, "D": depth, "BM": 32}
    return Case("attention backward", kind, attention_backward, types, fixed, prepare, (2,))


def _weight_only() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        a = _small(rng, (16, 128))
        codes = rng.integers(0, 16, (128, 32))
        scales = np.exp2(rng.integers(-2, 2, (2, 32))).astype(np.float16)
        q = (codes[0::2] | codes[1::2] << 4).astype(np.uint8)
        wanted = a @ ((codes - 8) * np.repeat(scales.astype(np.float64), 64, axis=0))
        args = [encode(a, "fp16"), q, scales, np.zeros((16, 32), np.float32)]
        return Trial(args, [Expected(3, "fp32", wanted)])

    types = {"a": "*fp16", "q": "*u8", "scales": "*fp16", "c": "*fp32"}
    fixed = {"M": 16, "N": 32, "K": 128, "BK": 64}
    return Case("quantised", "fp16 x int4 GEMM", weight_only, types, fixed, prepare)


def _quantised() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        a, b = rng.integers(-128, 128, (2, 32, 64)).astype(np.int8)
        sa, sb = (np.exp2(rng.integers(-9, -4, 32)).astype(np.float32) for _ in range(2))
        exact = (a.astype(np.int64) @ b.astype(np.int64).T) * sa[:, None] * sb[None, :]
        args = [a, b, sa, sb, np.zeros((32, 32), np.uint16)]
        return Trial(args, [Expected(4, "bf16", rounded(exact, "bf16"))])

    types = {"a": "*i8", "b": "*i8", "sa": "*fp32", "sb": "*fp32", "c": "*bf16"}
    fixed = {"M": 32, "N": 32, "K": 64}
    return Case("quantised", "int8 x int8 GEMM, scaled", quantised, types, fixed, prepare)


def _quantise_rows(kind: str, top: float, archs: tuple[str, ...] = ARCHS) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.standard_normal((3, 256)), "fp16")
        wide = x.astype(np.float64)
        scale = np.abs(wide).max(1) / top
        args = [x, encode(np.zeros((3, 256)), kind), np.zeros(3, np.float32)]
        ratio = wide / scale[:, None]
        rtol, atol = (0.0, 1.0) if kind == "i8" else (0.13, 0.01)
        wanted = np.trunc(ratio) if kind == "i8" else ratio
        expected = [Expected(1, kind, wanted, rtol, atol), Expected(2, "fp32", scale, 1e-6)]
        return Trial(args, expected)

    types = {"x": "*fp16", "q": f"*{kind}", "scales": "*fp32"}
    fixed = {"N": 256, "TOP": top}
    return Case("quantised", f"rows to {kind}", quantise_rows, types, fixed, prepare, (3,), archs)


def _swiglu(kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = encode(rng.standard_normal((2, 512)) * 2, kind)
        gate, up = decode(x, kind)[:, :256], decode(x, kind)[:, 256:]
        wanted = gate / (1 + np.exp(-gate)) * up
        slack = max(EPSILON[kind], 1e-5)
        return Trial(
            [x, encode(np.zeros((2, 256)), kind)], [Expected(1, kind, wanted, slack, slack)]
        )

    types = {"x": f"*{kind}", "out": f"*{kind}"}
    return Case("activations", f"swiglu {kind}", swiglu, types, {"N": 256}, prepare, (2,), warps=2)


def _adam() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        p, g, m = (rng.standard_normal(700).astype(np.float32) for _ in range(3))
        v = np.abs(rng.standard_normal(700)).astype(np.float32)
        first = 0.9 * m.astype(np.float64) + 0.1 * g
        second = 0.999 * v.astype(np.float64) + 0.001 * g.astype(np.float64) ** 2
        hat, size = first / (1 - 0.9**3), second / (1 - 0.999**3)
        moved = p - 0.01 * hat / (np.sqrt(size) + 1e-8)
        args = [p, g, m, v, 0.01, 3.0, 700]
        return Trial(args, [Expected(0, "fp32", moved, 1e-4, 1e-5),
                            Expected(2, "fp32", first, 1e-5, 1e-6),
                            Expected(3, "fp32", second, 1e-5, 1e-6)])  # fmt: skip

    types = dict.fromkeys(("p", "g", "m", "v"), "*fp32")
    types |= {"lr": "fp32", "step": "fp32", "n": "i32"}
    return Case("optimiser", "adam fp32", adam, types, {"B": 256}, prepare, (3,))


def _collatz(kind: str) -> Case:
    def steps(value: int) -> int:
        count = 0
        while value != 1:
            value = 3 * value + 1 if value % 2 else value // 2
            count += 1
        return count

    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.integers(1, 60, 200)
        wanted = np.array([steps(int(v)) for v in x])
        args = [encode(x, kind), np.zeros(200, np.int32), 200]
        return Trial(args, [Expected(1, "i32", wanted)])

    types = {"x": f"*{kind}", "out": "*i32", "n": "i32"}
    return Case("control flow", f"collatz {kind}", collatz, types, {"B": 256}, prepare)


def _bisect() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        table = np.sort(rng.integers(0, 1000, 300)).astype(np.int32)
        x = rng.integers(0, 1000, 700).astype(np.int32)
        args = [table, x, np.zeros(700, np.int32), 700]
        return Trial(args, [Expected(2, "i32", np.searchsorted(table, x))])

    types = {"table": "*i32", "x": "*i32", "out": "*i32", "n": "i32"}
    fixed = {"SIZE": 300, "B": 256}
    return Case("control flow", "binary search", bisect, types, fixed, prepare, (3,))


def _black_scholes(kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        from math import erf

        s, k, t = (encode(rng.uniform(low, high, 700), kind)
                   for low, high in ((50, 150), (50, 150), (0.2, 2)))  # fmt: skip
        a, b, c = (decode(x, kind) for x in (s, k, t))
        root = 0.3 * np.sqrt(c)
        d = (np.log(a / b) + 0.065 * c) / root
        normal = np.vectorize(lambda z: 0.5 * (1 + erf(z / 2**0.5)))
        wanted = a * normal(d) - b * np.exp(-0.02 * c) * normal(d - root)
        args = [s, k, t, np.zeros_like(s), 700]
        slack = 1e-4 if kind == "fp32" else 1e-5
        return Trial(args, [Expected(3, kind, wanted, slack, slack)])

    types = dict.fromkeys(("spot", "strike", "years", "out"), f"*{kind}") | {"n": "i32"}
    return Case("math", f"black-scholes {kind}", black_scholes, types, {"B": 256}, prepare, (3,))


def cases() -> Iterator[Case]:
    """All of them."""
    for kind in ("fp16", "bf16"):
        for small in (False, True):
            yield _persistent(kind, (64, 64, 32), (100, 130, 96), 4, 2, small=small)
            yield _persistent(kind, (32, 64, 64), (64, 128, 192), 4, 3, side=32, small=small)
        yield _persistent(kind, (64, 64, 64), (128, 128, 128), 8, 3, True)
        yield _persistent(kind, (128, 128, 32), (128, 128, 96), 2, 2)
        yield _persistent(kind, (128, 128, 32), (128, 256, 64), 16, 2)
        yield _attention_backward(kind)
    yield _persistent("fp16", (256, 128, 32), (256, 128, 64), 4, 2, side=16, small=True)
    yield _weight_only()
    yield _quantised()
    yield _quantise_rows("i8", 127.0)
    yield _quantise_rows("fp8e4b8", 240.0, ARCHS[:1])
    yield _quantise_rows("fp8e4nv", 448.0)
    for kind in ("fp32", "bf16"):
        yield _swiglu(kind)
    yield _adam()
    for kind in ("i32", "i64"):
        yield _collatz(kind)
    yield _bisect()
    for kind in ("fp32", "fp64"):
        yield _black_scholes(kind)
