# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"
"""Matrix products: every operand type, tile, stage count and MFMA side that Triton offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl

from evidence.triton_corpus.harness import ARCHS, Case, Expected, Trial
from evidence.triton_corpus.numbers import encode, rounded


@triton.jit
def gemm(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr, GROUP: tl.constexpr,
    MASKED: tl.constexpr, PRECISION: tl.constexpr, LEAKY: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    pid = tl.program_id(0)
    width = GROUP * tiles_n
    first = pid // width * GROUP
    height = min(tiles_m - first, GROUP)
    rm = (first + pid % width % height) * BM + tl.arange(0, BM)
    rn = pid % width // height * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + (rm % M)[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + (rn % N)[None, :] * sbn
    acc = tl.zeros((BM, BN), ACC)
    for k in range(tl.cdiv(K, BK)):
        if MASKED:
            left = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
            right = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        else:
            left = tl.load(pa)
            right = tl.load(pb)
        acc = tl.dot(left, right, acc, input_precision=PRECISION, out_dtype=ACC)
        pa += BK * sak
        pb += BK * sbk
    if LEAKY:
        acc = tl.where(acc >= 0, acc, 0.5 * acc)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * scm + rn[None, :], acc.to(c.dtype.element_ty), mask=mask)


@triton.jit
def split_k(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, S: tl.constexpr):
    rm = tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rk = tl.program_id(0) * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK * S):
        left = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        right = tl.load(b + (k + rk)[:, None] * BN + rn[None, :])
        acc = tl.dot(left, right, acc)
    tl.atomic_add(c + rm[:, None] * BN + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def batched(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, B)[:, None, None]
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    left = tl.load(a + i * M * K + m[None, :, None] * K + k[None, None, :])
    right = tl.load(b + i * K * N + k[None, :, None] * N + n[None, None, :])
    tl.store(c + i * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(left, right))


@triton.jit
def scaled(
    a, sa, b, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr,
):  # fmt: skip
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    ka = tl.arange(0, K // PA)
    kb = tl.arange(0, K // PB)
    ks = tl.arange(0, K // 32)
    left = tl.load(a + m[:, None] * (K // PA) + ka[None, :])
    right = tl.load(b + kb[:, None] + n[None, :] * (K // PB))
    left_scale = tl.load(sa + m[:, None] * (K // 32) + ks[None, :])
    right_scale = tl.load(sb + n[:, None] * (K // 32) + ks[None, :])
    if FA == "bf16" or FA == "fp16":
        acc = tl.dot_scaled(left, None, FA, right, right_scale, FB)
    else:
        acc = tl.dot_scaled(left, left_scale, FA, right, right_scale, FB)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def chained(a, b, d, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """(A B) D: the first product's result layout becomes an operand's."""
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    middle = tl.dot(left, right).to(left.dtype)
    last = tl.load(d + n[:, None] * K + k[None, :])
    tl.store(c + m[:, None] * K + k[None, :], tl.dot(middle, last))


def _small(rng: np.random.Generator, shape: tuple[int, ...], top: int = 4) -> Any:
    return rng.integers(-top, top + 1, shape)


def _gemm(
    kind: str, tile: tuple[int, int, int], sizes: tuple[int, int, int], *, layout: str = "nn",
    warps: int = 4, stages: int = 2, side: int = 0, archs: tuple[str, ...] = ARCHS,
    out: str = "", group: int = 2, precision: str = "ieee", leaky: bool = False,
    right: str = "", family: str = "GEMM", **options: Any,
) -> Case:  # fmt: skip
    m, n, k = sizes
    integer = kind == "i8"
    out = out or ("i32" if integer else "fp64" if kind == "fp64" else "fp32")
    right = right or kind
    accumulator = tl.int32 if integer else tl.float64 if kind == "fp64" else tl.float32
    masked = k % tile[2] != 0
    unit = {"sak": layout[0] == "n", "sam": layout[0] == "t",
            "sbn": layout[1] == "n", "sbk": layout[1] == "t"}  # fmt: skip
    strides = {"sam": k, "sak": m, "sbk": n, "sbn": k, "scm": n}
    types = {"a": f"*{kind}", "b": f"*{right}", "c": f"*{out}", "M": "i32", "N": "i32", "K": "i32"}
    types |= {name: "i32" for name in ("sam", "sak", "sbk", "sbn", "scm") if not unit.get(name)}
    fixed: dict[str, Any] = {name: 1 for name, one in unit.items() if one}
    fixed |= {"BM": tile[0], "BN": tile[1], "BK": tile[2], "ACC": accumulator, "GROUP": group}
    fixed |= {"MASKED": masked, "PRECISION": precision, "LEAKY": leaky}
    numbers = {"M": m, "N": n, "K": k, **strides}
    names = ["M", "N", "K", *[s for s in ("sam", "sak", "sbk", "sbn", "scm") if not unit.get(s)]]

    def prepare(rng: np.random.Generator) -> Trial:
        a, b = _small(rng, (m, k)), _small(rng, (k, n))
        wanted = a @ b
        if leaky:
            wanted = np.where(wanted >= 0, wanted, 0.5 * wanted)
        given = [a if layout[0] == "n" else a.T, b if layout[1] == "n" else b.T]
        arrays = [
            encode(np.ascontiguousarray(x), t) for x, t in zip(given, (kind, right), strict=True)
        ]
        c = encode(np.full((m, n), 99), out)
        return Trial(
            [*arrays, c, *[numbers[s] for s in names]], [Expected(2, out, rounded(wanted, out))]
        )

    grid = (-(-m // tile[0]) * -(-n // tile[1]),)
    parts = [kind if kind == right else f"{kind} x {right}", layout, "x".join(map(str, tile))]
    parts += [f"{warps} warps", f"{stages} stages"] + ([f"mfma {side}"] if side else [])
    if precision != "ieee":
        parts.append(precision)
    if leaky:
        parts.append("leaky relu")
    if any(size % block for size, block in zip(sizes, tile, strict=True)):
        parts.append("ragged")
    if out not in ("fp32", "i32", "fp64"):
        parts.append(f"to {out}")
    parts += [f"{key} {value}" for key, value in options.items()]
    aligned = tuple(name for name in names if numbers[name] % 16 == 0)
    return Case(
        family, ", ".join(parts), gemm, types, fixed, prepare, grid, archs, warps, aligned,
        {"num_stages": stages, "matrix_instr_nonkdim": side, **options},
    )  # fmt: skip


def _split(kind: str, out: str = "fp32") -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        a, b = _small(rng, (32, 256), 2), _small(rng, (256, 64), 2)
        c = encode(np.zeros((32, 64)), out)
        args = [encode(a, kind), encode(b, kind), c, 256]
        return Trial(args, [Expected(2, out, a @ b)])

    types = {"a": f"*{kind}", "b": f"*{kind}", "c": f"*{out}", "K": "i32"}
    fixed = {"BM": 32, "BN": 64, "BK": 32, "S": 4}
    name = f"{kind}, 4 ways, atomic {out}"
    return Case("split-K GEMM", name, split_k, types, fixed, prepare, (4,), aligned=("K",))


def _batched(kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        a, b = _small(rng, (4, 32, 32)), _small(rng, (4, 32, 64))
        c = np.zeros((4, 32, 64), np.float32)
        return Trial([encode(a, kind), encode(b, kind), c], [Expected(2, "fp32", a @ b)])

    types = {"a": f"*{kind}", "b": f"*{kind}", "c": "*fp32"}
    fixed = {"B": 4, "M": 32, "N": 64, "K": 32}
    return Case("batched GEMM", kind, batched, types, fixed, prepare)


def _chained(kind: str, warps: int, side: int) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        a, b, d = _small(rng, (64, 32), 1), _small(rng, (32, 64), 1), _small(rng, (64, 32), 1)
        c = np.zeros((64, 32), np.float32)
        args = [*(encode(x, kind) for x in (a, b, d)), c]
        return Trial(args, [Expected(3, "fp32", a @ b @ d)])

    types = {"a": f"*{kind}", "b": f"*{kind}", "d": f"*{kind}", "c": "*fp32"}
    fixed = {"M": 64, "N": 64, "K": 32}
    return Case("chained GEMM", f"{kind}, {warps} warps, mfma {side}", chained, types, fixed,
                prepare, warps=warps, options={"matrix_instr_nonkdim": side})  # fmt: skip


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float64)
_SCALED_KINDS = {"e4m3": "fp8e4nv", "e5m2": "fp8e5", "bf16": "bf16", "fp16": "fp16"}


def _scaled(left: str, right: str, depth: int = 128, side: int = 0) -> Case:
    size = {"a": 2 if left == "e2m1" else 1, "b": 2 if right == "e2m1" else 1}

    def operand(rng: np.random.Generator, kind: str, rows: int) -> tuple[Any, Any]:
        if kind == "e2m1":
            codes = rng.integers(0, 16, (rows, depth))
            values = np.where(codes & 8, -1, 1) * _E2M1[codes & 7]
            return (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8), values
        values = _small(rng, (rows, depth))
        return encode(values, _SCALED_KINDS[kind]), values

    def prepare(rng: np.random.Generator) -> Trial:
        a, left_values = operand(rng, left, 32)
        b, right_values = operand(rng, right, 64)
        sa, sb = (
            rng.integers(125, 130, (32, depth // 32)),
            rng.integers(125, 130, (64, depth // 32)),
        )
        if left in ("bf16", "fp16"):
            sa[:] = 127
        wide_a = left_values * np.repeat(2.0 ** (sa - 127), 32, axis=1)
        wide_b = right_values * np.repeat(2.0 ** (sb - 127), 32, axis=1)
        c = np.zeros((32, 64), np.float32)
        args = [a, sa.astype(np.uint8), b, sb.astype(np.uint8), c]
        return Trial(args, [Expected(4, "fp32", wide_a @ wide_b.T)])

    types = {
        "a": "*" + _SCALED_KINDS.get(left, "u8"), "sa": "*u8",
        "b": "*" + _SCALED_KINDS.get(right, "u8"), "sb": "*u8", "c": "*fp32",
    }  # fmt: skip
    fixed = {
        "M": 32,
        "N": 64,
        "K": depth,
        "FA": left,
        "FB": right,
        "PA": size["a"],
        "PB": size["b"],
    }
    name = f"{left} x {right}, K {depth}" + (f", mfma {side}" if side else "")
    return Case("scaled dot", name, scaled, types, fixed, prepare,
                options={"matrix_instr_nonkdim": side})  # fmt: skip


def cases() -> Iterator[Case]:
    """All matrix products."""
    for kind in ("fp16", "bf16"):
        for side in (16, 32):
            for layout in ("nn", "nt", "tn", "tt"):
                yield _gemm(kind, (64, 64, 32), (128, 64, 96), layout=layout, side=side)
        yield _gemm(kind, (128, 128, 64), (128, 128, 192), layout="nt", stages=3, warps=8, side=16)
        yield _gemm(kind, (32, 32, 64), (64, 32, 128), warps=1, stages=1)
        yield _gemm(kind, (16, 16, 32), (16, 32, 64), warps=1)
        yield _gemm(kind, (64, 64, 32), (80, 100, 75), layout="nt", out=kind)
        yield _gemm(kind, (64, 64, 64), (64, 128, 128), leaky=True, out=kind)
        yield _gemm(kind, (128, 64, 32), (128, 64, 128), warps=4, stages=4, side=32)
        yield _split(kind)
        yield _batched(kind)
        for warps, side in ((1, 16), (4, 32)):
            yield _chained(kind, warps, side)
    yield _gemm("bf16", (256, 256, 64), (256, 256, 128), layout="nt", warps=8, side=16)
    yield _gemm("bf16", (64, 64, 32), (64, 64, 64), kpack=2, archs=("gfx942",), layout="nt")
    yield _gemm("fp16", (64, 32, 32), (64, 64, 64), waves_per_eu=2)
    yield _split("fp16", "fp16")
    yield _split("bf16", "bf16")
    for kind, right in (("fp8e4b8", ""), ("fp8e5b16", ""), ("fp8e4b8", "fp8e5b16")):
        for side in (16, 32):
            yield _gemm(kind, (64, 64, 64), (64, 128, 128), right=right, side=side, archs=ARCHS[:1])
            yield _gemm(kind, (64, 64, 64), (64, 64, 128), right=right, side=side, layout="nt",
                        archs=ARCHS[:1])  # fmt: skip
    for kind, right in (("fp8e4nv", ""), ("fp8e5", ""), ("fp8e5", "fp8e4nv")):
        for side in (16, 32):
            yield _gemm(kind, (64, 64, 64), (64, 128, 128), right=right, side=side)
            yield _gemm(kind, (64, 64, 128), (64, 64, 256), right=right, side=side, layout="nt")
    for side in (16, 32):
        yield _gemm("i8", (64, 64, 64), (64, 128, 128), side=side)
    yield _gemm("i8", (32, 64, 64), (32, 64, 128), layout="nt", warps=2)
    for side in (16, 32):
        yield _gemm("fp32", (64, 64, 32), (64, 128, 96), side=side)
        yield _gemm("fp32", (64, 64, 32), (64, 64, 64), side=side, layout="nt", precision="tf32",
                    archs=ARCHS[:1])  # fmt: skip
    yield _gemm("fp32", (32, 32, 16), (50, 40, 37), layout="nt", stages=1)
    for precision in ("bf16x3", "bf16x6"):
        yield _gemm("fp32", (32, 32, 32), (32, 32, 64), precision=precision)
    yield _gemm("fp64", (32, 32, 16), (32, 64, 48))
    yield _gemm("fp64", (64, 32, 16), (64, 32, 32), layout="nt", warps=2, stages=1)
    yield _gemm("fp16", (16, 16, 16), (16, 16, 32), warps=4)
    yield _gemm("fp16", (4, 64, 64), (4, 64, 64), warps=1, family="thin GEMM")
    yield _gemm("fp16", (64, 4, 64), (64, 4, 64), warps=1, family="thin GEMM")
    yield _gemm("fp32", (8, 16, 16), (8, 16, 32), warps=1, family="thin GEMM")
    for kind in ("bf16", "i8", "fp32"):
        yield _gemm(kind, (4, 64, 64), (8, 64, 64), warps=1, family="thin GEMM")
    for left, right in (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m1", "e2m1"), ("e4m3", "e2m1"),
                        ("bf16", "e2m1"), ("fp16", "e4m3")):  # fmt: skip
        yield _scaled(left, right)
    yield _scaled("e4m3", "e5m2", 256, 32)
    yield _scaled("e2m1", "e2m1", 256, 16)
