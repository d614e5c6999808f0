"""MFMA register layouts, checked lane by lane on distinct integers against a NumPy product.

The oracle places every element by the layout formulas, one lane and register at a time, and
never shares code with the emulator's reshapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate.formats import encode_float, f32_to_bf16, float_table

Words = npt.NDArray[np.uint32]
Matrix = npt.NDArray[np.int64]

# name, side, depth, element kind, targets
SHAPES = [
    ("v_mfma_f32_16x16x32_bf16", 16, 32, "bf16", ["gfx950"]),
    ("v_mfma_f32_16x16x32_f16", 16, 32, "f16", ["gfx950"]),
    ("v_mfma_f32_32x32x16_bf16", 32, 16, "bf16", ["gfx950"]),
    ("v_mfma_f32_32x32x16_f16", 32, 16, "f16", ["gfx950"]),
    ("v_mfma_f32_16x16x16_bf16", 16, 16, "bf16", ["gfx942", "gfx950"]),
    ("v_mfma_f32_16x16x16_f16", 16, 16, "f16", ["gfx942", "gfx950"]),
    ("v_mfma_f32_32x32x8_bf16", 32, 8, "bf16", ["gfx942"]),
    ("v_mfma_f32_32x32x8_f16", 32, 8, "f16", ["gfx942"]),
    ("v_mfma_f32_16x16x32_fp8_fp8", 16, 32, "fp8", ["gfx942", "gfx950"]),
    ("v_mfma_f32_32x32x16_fp8_fp8", 32, 16, "fp8", ["gfx942", "gfx950"]),
    ("v_mfma_f32_16x16x4_f32", 16, 4, "f32", ["gfx942", "gfx950"]),
    ("v_mfma_f32_32x32x2_f32", 32, 2, "f32", ["gfx942", "gfx950"]),
    ("v_mfma_f32_16x16x8_xf32", 16, 8, "f32", ["gfx942"]),
    ("v_mfma_f32_32x32x4_xf32", 32, 4, "f32", ["gfx942"]),
    ("v_mfma_f32_16x16x128_f8f6f4", 16, 128, "fp8", ["gfx950"]),
    ("v_mfma_f32_32x32x64_f8f6f4", 32, 64, "fp8", ["gfx950"]),
]
CASES = [(*shape[:4], arch) for shape in SHAPES for arch in shape[4]]


def encode(values: npt.NDArray[Any], kind: str, arch: str) -> npt.NDArray[np.uint8]:
    """Element bytes, last axis expanded."""
    flat = values.astype(np.float32)
    if kind == "bf16":
        typed: npt.NDArray[Any] = f32_to_bf16(flat)
    elif kind == "f16":
        typed = flat.astype(np.float16)
    elif kind == "f32":
        typed = flat
    else:
        typed = encode_float(flat, "e4m3fnuz" if arch == "gfx942" else "e4m3")
    return np.ascontiguousarray(typed).view(np.uint8)


def operand(matrix: npt.NDArray[Any], side: int, kind: str, arch: str) -> Words:
    """Registers of A, or of B given by columns: lane l has row l % side, K block l // side.

    8-bit operands of the f8f6f4 instructions (depth 128 and 64) hold two chunks of 16 instead: K
    from 16 g and from depth/2 + 16 g for lane group g.
    """
    depth = matrix.shape[1]
    block = depth * side // 64
    rows = []
    for lane in range(64):
        row, group = matrix[lane % side], lane // side
        if kind == "fp8" and block == 32:
            starts = (16 * group, depth // 2 + 16 * group)
            chosen = np.concatenate([row[start : start + 16] for start in starts])
        else:
            chosen = row[group * block : (group + 1) * block]
        rows.append(encode(chosen, kind, arch))
    return np.ascontiguousarray(np.stack(rows).view(np.uint32).T)


def result_matrix(registers: Words, side: int) -> npt.NDArray[np.float32]:
    matrix = np.zeros((side, side), np.float32)
    for r, row in enumerate(registers.view(np.float32)):
        for lane in range(64):
            if side == 16:
                at = 4 * (lane // 16) + r
            else:
                at = 8 * (r // 4) + 4 * (lane // 32) + r % 4
            matrix[at, lane % side] = row[lane]
    return matrix


@pytest.mark.parametrize(("name", "side", "depth", "kind", "arch"), CASES)
def test_layout(bench: Any, name: str, side: int, depth: int, kind: str, arch: str) -> None:
    rng = np.random.default_rng(side * depth)
    a = rng.integers(-6, 7, (side, depth))
    b = rng.integers(-6, 7, (side, depth))
    left, right = operand(a, side, kind, arch), operand(b, side, kind, arch)
    words, out = len(left), side * side // 64
    first, second = 8, 8 + words
    addend = 64
    body = [f"v_mov_b32 v{addend + i}, {i}" for i in range(out)]
    body += [f"v_cvt_f32_i32 v{addend + i}, v{addend + i}" for i in range(out)]
    body.append("s_nop 4")
    sources = f"v[{first}:{first + words - 1}], v[{second}:{second + words - 1}]"
    if words == 1:
        sources = f"v{first}, v{second}"
    body.append(f"{name} v[96:{95 + out}], {sources}, v[{addend}:{addend + out - 1}]")
    rows = bench.run("\n".join(body), [*left, *right], [f"v{96 + i}" for i in range(out)], arch)
    added = result_matrix(
        np.repeat(np.arange(out, dtype=np.float32), 64).reshape(out, 64).view(np.uint32), side
    )
    np.testing.assert_array_equal(result_matrix(rows, side), a @ b.T + added)


def test_accumulators_in_agprs_and_constant_addend(bench: Any) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(-9, 10, (16, 32)), rng.integers(-9, 10, (16, 32))
    body = """
      v_accvgpr_write_b32 a0, v8
      v_accvgpr_write_b32 a1, v9
      v_accvgpr_write_b32 a2, v10
      v_accvgpr_write_b32 a3, v11
      s_nop 4
      v_mfma_f32_16x16x32_bf16 a[4:7], a[0:3], v[12:15], 0
      s_nop 15
      v_mfma_f32_16x16x32_bf16 a[4:7], a[0:3], v[12:15], a[4:7]
      s_nop 15
      v_accvgpr_read_b32 v20, a4
      v_accvgpr_read_b32 v21, a5
      v_accvgpr_read_b32 v22, a6
      v_accvgpr_mov_b32 a8, a7
      v_accvgpr_read_b32 v23, a8"""
    inputs = [*operand(a, 16, "bf16", "gfx950"), *operand(b, 16, "bf16", "gfx950")]
    rows = bench.run(body, inputs, ["v20", "v21", "v22", "v23"])
    np.testing.assert_array_equal(result_matrix(rows, 16), 2 * (a @ b.T))


def test_block_scales(bench: Any) -> None:
    """v_mfma_scale: each block of 32 along K has its own power of two, per row and per column."""
    rng = np.random.default_rng(6)
    a, b = rng.integers(-4, 5, (16, 128)), rng.integers(-4, 5, (16, 128))
    scale_a, scale_b = rng.integers(-3, 4, (16, 4)), rng.integers(-3, 4, (16, 4))
    packed = [
        np.array([exponents[lane % 16, lane // 16] + 127 for lane in range(64)], np.uint32)
        for exponents in (scale_a, scale_b)
    ]
    body = (
        "v_mfma_scale_f32_16x16x128_f8f6f4 v[96:99], v[8:15], v[16:23], 0, v24, v25 "
        "op_sel_hi:[0,0,0]"
    )
    inputs = [*operand(a, 16, "fp8", "gfx950"), *operand(b, 16, "fp8", "gfx950"), *packed]
    rows = bench.run(body, inputs, [f"v{96 + i}" for i in range(4)])
    left = a * np.exp2(np.repeat(scale_a, 32, axis=1))
    right = b * np.exp2(np.repeat(scale_b, 32, axis=1))
    np.testing.assert_array_equal(result_matrix(rows, 16), left @ right.T)


@pytest.mark.parametrize(
    ("code", "name", "words"), [(2, "e2m3", 6), (3, "e3m2", 6), (4, "e2m1", 4)]
)
def test_narrow_operand_formats(bench: Any, code: int, name: str, words: int) -> None:
    """cbsz and blgp choose 6- and 4-bit formats, packed low bits first."""
    width = 6 if words == 6 else 4
    rng = np.random.default_rng(code)
    codes = rng.integers(0, 1 << width, (2, 16, 128))
    table = float_table(name)
    inputs: list[Words] = []
    for matrix in codes:
        lanes = []
        for lane in range(64):
            chosen = matrix[lane % 16, lane // 16 * 32 : lane // 16 * 32 + 32]
            packed = sum(int(c) << (width * i) for i, c in enumerate(chosen))
            lanes.append([packed >> (32 * i) & 0xFFFFFFFF for i in range(words)])
        inputs += list(np.array(lanes, np.uint32).T)
    last = 8 + 2 * words - 1
    body = (
        f"v_mfma_f32_16x16x128_f8f6f4 v[96:99], v[8:{7 + words}], v[{8 + words}:{last}], 0 "
        f"cbsz:{code} blgp:{code}"
    )
    rows = bench.run(body, inputs, [f"v{96 + i}" for i in range(4)])
    wanted = table[codes[0]].astype(np.float64) @ table[codes[1]].astype(np.float64).T
    np.testing.assert_array_equal(result_matrix(rows, 16), wanted.astype(np.float32))


def test_mfma_ignores_exec(bench: Any) -> None:
    a = np.ones((16, 32), np.int64)
    body = """
      s_mov_b64 exec, 1
      s_nop 4
      v_mfma_f32_16x16x32_bf16 v[96:99], v[8:11], v[12:15], 0
      s_mov_b64 exec, -1"""
    inputs = [*operand(a, 16, "bf16", "gfx950"), *operand(a, 16, "bf16", "gfx950")]
    rows = bench.run(body, inputs, [f"v{96 + i}" for i in range(4)])
    assert (rows.view(np.float32) == 32).all()
