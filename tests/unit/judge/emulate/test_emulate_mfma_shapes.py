"""MFMA beyond one block of floats: i8, f64, several blocks and the broadcast of A.

Every element is placed by the layout formulas, one lane and register at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Words = npt.NDArray[np.uint32]
DTYPES: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "f64": np.float64}

# name, side, depth, blocks, element kind, target
SHAPES = [
    ("v_mfma_i32_16x16x32_i8", 16, 32, 1, "i8", "gfx942"),
    ("v_mfma_i32_32x32x16_i8", 32, 16, 1, "i8", "gfx942"),
    ("v_mfma_i32_16x16x64_i8", 16, 64, 1, "i8", "gfx950"),
    ("v_mfma_i32_32x32x32_i8", 32, 32, 1, "i8", "gfx950"),
    ("v_mfma_f64_16x16x4_f64", 16, 4, 1, "f64", "gfx942"),
    ("v_mfma_f64_4x4x4_4b_f64", 4, 4, 4, "f64", "gfx950"),
    ("v_mfma_f32_4x4x4_16b_f16", 4, 4, 16, "f16", "gfx942"),
    ("v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, "f16", "gfx950"),
    ("v_mfma_f32_32x32x4_2b_f16", 32, 4, 2, "f16", "gfx942"),
    ("v_mfma_f32_32x32x1_2b_f32", 32, 1, 2, "f32", "gfx950"),
    ("v_mfma_f32_4x4x1_16b_f32", 4, 1, 16, "f32", "gfx942"),
    ("v_mfma_i32_4x4x4_16b_i8", 4, 4, 16, "i8", "gfx942"),
]


def operand(matrix: npt.NDArray[Any], kind: str) -> list[Words]:
    """blocks x side x depth as registers: lane = row + side * (block + blocks * K group)."""
    blocks, side, depth = matrix.shape
    share = depth * side * blocks // 64
    lanes = []
    for lane in range(64):
        group = lane // (side * blocks)
        row = matrix[lane // side % blocks, lane % side, group * share : (group + 1) * share]
        octets = np.ascontiguousarray(row.astype(DTYPES[kind])).tobytes()
        lanes.append(np.frombuffer(octets, np.uint32))
    return list(np.ascontiguousarray(np.stack(lanes).T))


def place(register: int, lane: int, side: int, kind: str) -> tuple[int, int, int]:
    """(block, row, column) of a result register (pair, for f64)."""
    column = lane % side
    if kind == "f64":
        return (
            (lane // 4 % 4, lane // 16, column)
            if side == 4
            else (0, 4 * register + lane // 16, column)
        )
    if side == 4:
        return lane // 4, register, column
    if side == 16:
        return register // 4, 4 * (lane // 16) + register % 4, column
    inner = register % 16
    return register // 16, 8 * (inner // 4) + 4 * (lane // 32) + inner % 4, column


def span(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def product(
    bench: Any, shape: tuple[str, int, int, int, str, str], a: Any, b: Any, modifiers: str = ""
) -> npt.NDArray[Any]:
    name, side, _, blocks, kind, arch = shape
    left, right = operand(a, kind), operand(b, kind)
    out = side * side * blocks // 64 * (2 if kind == "f64" else 1)
    words = len(left)
    body = f"{name} {span(100, out)}, {span(8, words)}, {span(8 + words, words)}, 0 {modifiers}"
    rows = bench.run(body, [*left, *right], [f"v{100 + i}" for i in range(out)], arch)
    if kind == "f64":
        pairs = rows.reshape(-1, 2, 64).transpose(0, 2, 1)
        typed: npt.NDArray[Any] = np.ascontiguousarray(pairs).view(np.float64)[:, :, 0]
    else:
        typed = rows.view(np.int32 if kind == "i8" else np.float32)
    result = np.full((blocks, side, side), np.nan)
    for register, row in enumerate(typed):
        for lane in range(64):
            result[place(register, lane, side, kind)] = row[lane]
    return result


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}-{shape[5]}")
def test_layout(bench: Any, shape: tuple[str, int, int, int, str, str]) -> None:
    _, side, depth, blocks, _, _ = shape
    rng = np.random.default_rng(side + depth)
    a, b = rng.integers(-9, 10, (2, blocks, side, depth))
    np.testing.assert_array_equal(product(bench, shape, a, b), a @ b.transpose(0, 2, 1))


@pytest.mark.parametrize(("cbsz", "abid"), [(4, 0), (4, 11), (2, 3), (1, 1)])
def test_broadcast_of_blocks_of_a(bench: Any, cbsz: int, abid: int) -> None:
    """Of every 2**cbsz blocks of A, block abid serves all."""
    shape = ("v_mfma_f32_4x4x4_16b_f16", 4, 4, 16, "f16", "gfx942")
    rng = np.random.default_rng(cbsz + abid)
    a, b = rng.integers(-9, 10, (2, 16, 4, 4))
    got = product(bench, shape, a, b, f"cbsz:{cbsz} abid:{abid}")
    served = a[(np.arange(16) // 2**cbsz) * 2**cbsz + abid]
    np.testing.assert_array_equal(got, served @ b.transpose(0, 2, 1))
