"""The GEMM families: D = A B^T from K-major operands, one or a few tiles of D.

Inputs are small whole numbers (with powers of two as scales), so that every sum is exact in f32
and the result is one rounding away from NumPy's. A preshuffled B has its 16 x 16-byte blocks one
after the other; E8M0 scales of 4-bit operands are shuffled in blocks of 32 x 8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from evidence.aiter_corpus.case import Array, Case, Value, worst
from pipeloom.judge.emulate.formats import bf16_to_f32, encode_float, f32_to_bf16, float_table

_TILE = re.compile(r"_(\d+)x(\d+)")
DEPTH = 4096
"""K of the 8-bit and 4-bit kernels, half of it for bf16: enough for unrolled loops to repeat."""
BF16_STEP = 2.0**-7
"""One unit in the last place: some kernels truncate."""


def tile_of(path: Path) -> tuple[int, int]:
    """M and N of the workgroup's tile, from the file's name."""
    found = _TILE.findall(path.stem)
    return int(found[-1][0]), int(found[-1][1])


def shuffle_rows(matrix: Array) -> Array:
    """Blocks of 16 rows and 16 bytes one after the other: a preshuffled B."""
    octets = np.ascontiguousarray(matrix).view(np.uint8)
    rows, width = octets.shape
    blocks = octets.reshape(rows // 16, 16, width // 16, 16).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(blocks).reshape(rows, width).view(matrix.dtype)


def shuffle_scales(scales: Array) -> Array:
    """E8M0 scales, padded to whole blocks of 256 x 8, in the order the 4-bit kernels load them."""
    rows, columns = -(-scales.shape[0] // 256) * 256, -(-scales.shape[1] // 8) * 8
    padded = np.zeros((rows, columns), np.uint8)
    padded[: scales.shape[0], : scales.shape[1]] = scales
    parts = padded.reshape(rows // 32, 2, 16, columns // 8, 2, 4).transpose(0, 3, 5, 2, 4, 1)
    return np.ascontiguousarray(parts).reshape(rows, columns)


def _whole(seed: int, shape: tuple[int, ...], low: int = -2, high: int = 3) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)


def bf16_case(path: Path) -> Case:
    """bf16 x bf16 to bf16, or to f32; strides in bytes. Split K adds up in D, under a semaphore.

    Two workgroups that a semaphore orders are run but not judged: those are judged alone.
    """
    alone = _bf16(path, 1)
    return replace(_bf16(path, 2), judged=alone) if "clean" in path.stem else alone


def _bf16(path: Path, split: int) -> Case:
    m, n = tile_of(path)
    k = DEPTH // 2
    half = "fp32" not in path.stem
    a, b = _whole(1, (m, k)), _whole(2, (n, k))
    shuffled = "shuffle" in path.stem

    def values() -> Mapping[str, Value]:
        right = f32_to_bf16(b)
        size = 2 if half else 4
        return {
            "D": np.zeros((m, n), np.uint16 if half else np.float32),
            "A": f32_to_bf16(a),
            "B": shuffle_rows(right) if shuffled else right,
            "alpha": np.float32(1),
            "beta": np.float32(0),
            "strideA0": 2 * k,
            "strideB0": 2 * k,
            "strideC0": size * n,
            "strideD0": size * n,
            "Mdim": m,
            "Ndim": n,
            "Kdim": k,
            "splitk": split,
            "is_out_b16": int(half),
            "ptr_semaphore": np.zeros(16 * 64, np.uint32),
        }

    def error(after: Mapping[str, Value]) -> float:
        got = bf16_to_f32(after["D"]) if half else after["D"]
        return worst(got, a @ b.T, BF16_STEP if half else 1e-6)

    return Case(path, (1, 1, split), values, error)


def i8_case(path: Path) -> Case:
    """i8 x i8 to bf16 with a scale per row of A and per row of B."""
    m, n = tile_of(path)
    k = DEPTH
    a, b = _whole(1, (m, k), -4, 5), _whole(2, (n, k), -4, 5)
    scale_a = np.exp2(_whole(3, (m, 1), -2, 2)).astype(np.float32)
    scale_b = np.exp2(_whole(4, (n, 1), -2, 2)).astype(np.float32)

    def values() -> Mapping[str, Value]:
        return {
            "C": np.zeros((m, n), np.uint16),
            "A": a.astype(np.int8),
            "B": shuffle_rows(b.astype(np.int8)),
            "SA": scale_a,
            "SB": scale_b,
            "BIAS": np.zeros(n, np.float32),
            "M": m,
            "Ndim": n,
            "K": k,
            "PA": k,
            "PB": k,
            "PC": 2 * n,
            "KS": 1,
        }

    def error(after: Mapping[str, Value]) -> float:
        want = (a @ b.T) * scale_a * scale_b.T
        return worst(bf16_to_f32(after["C"]), want, BF16_STEP)

    return Case(path, (1, 1, 1), values, error)


def fp8_case(path: Path) -> Case:
    """fp8 x fp8 to bf16 with a scale per row and 128 of K (A), per 128 x 128 block (B)."""
    m, n = tile_of(path)
    k = DEPTH
    a, b = _whole(1, (m, k)), _whole(2, (n, k))
    scale_a = np.exp2(_whole(3, (m, k // 128), -2, 2)).astype(np.float32)
    scale_b = np.exp2(_whole(4, (n // 128, k // 128), -2, 2)).astype(np.float32)

    def values() -> Mapping[str, Value]:
        return {
            "C": np.zeros((m, n), np.uint16),
            "A": encode_float(a, "e4m3"),
            "B": shuffle_rows(encode_float(b, "e4m3")),
            "SA": np.ascontiguousarray(scale_a.T),
            "SB": scale_b,
            "BIAS": np.zeros(n, np.float32),
            "M": m,
            "Ndim": n,
            "K": k,
            "PA": k,
            "PB": k,
            "PC": 2 * n,
            "KS": 1,
            "scale_m": m,
            "scale_n": n // 128,
            "scale_k": k // 128,
        }

    def error(after: Mapping[str, Value]) -> float:
        left = a * np.repeat(scale_a, 128, axis=1)
        right = b * np.repeat(np.repeat(scale_b, 128, axis=0), 128, axis=1)
        return worst(bf16_to_f32(after["C"]), left @ right.T, BF16_STEP)

    return Case(path, (1, 1, 1), values, error)


def f4_case(path: Path) -> Case:
    """fp4 x fp4 to bf16 with an E8M0 scale per row and 32 of K; strides in elements."""
    m, n = tile_of(path)
    k = DEPTH
    random = np.random.default_rng(1)
    codes_a, codes_b = (random.integers(0, 16, (rows, k)).astype(np.uint8) for rows in (m, n))
    power_a, power_b = (
        random.integers(125, 130, (rows, k // 32)).astype(np.uint8) for rows in (m, n)
    )
    shuffled = "_BpreShuffle" in path.stem

    def packed(codes: Array) -> Array:
        return np.ascontiguousarray(codes[:, 0::2] | codes[:, 1::2] << 4)

    def values() -> Mapping[str, Value]:
        right = packed(codes_b)
        scales_a, scales_b = shuffle_scales(power_a), shuffle_scales(power_b)
        return {
            "D": np.zeros((-(-m // 32) * 32, n), np.uint16),
            "A": packed(codes_a),
            "B": shuffle_rows(right) if shuffled else right,
            "alpha": np.float32(1),
            "beta": np.float32(0),
            "strideA0": k,
            "strideB0": k,
            "strideC0": n,
            "strideD0": n,
            "Mdim": m,
            "Ndim": n,
            "Kdim": k,
            "ScaleA": scales_a,
            "ScaleB": scales_b,
            "strideScaleA0": scales_a.shape[1],
            "strideScaleB0": scales_b.shape[1],
            "log2_k_split": 0,
        }

    def error(after: Mapping[str, Value]) -> float:
        table = float_table("e2m1").astype(np.float64)
        left, right = (
            table[codes] * np.repeat(np.exp2(powers.astype(np.float64) - 127), 32, axis=1)
            for codes, powers in ((codes_a, power_a), (codes_b, power_b))
        )
        return worst(bf16_to_f32(after["D"])[:m], left @ right.T, BF16_STEP)

    return Case(path, (1, 1, 1), values, error)
