"""Sparse matrix products against NumPy, element by element from the layout formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate.formats import encode_float, f32_to_bf16

# name, side, depth, bits
SHAPES = [
    ("v_smfmac_f32_16x16x32_f16", 16, 32, 16),
    ("v_smfmac_f32_32x32x16_bf16", 32, 16, 16),
    ("v_smfmac_i32_16x16x64_i8", 16, 64, 8),
    ("v_smfmac_f32_32x32x32_fp8_fp8", 32, 32, 8),
    ("v_smfmac_f32_16x16x64_bf16", 16, 64, 16),
    ("v_smfmac_i32_32x32x64_i8", 32, 64, 8),
]


def encoded(values: Any, name: str) -> Any:
    """One row of elements per lane as registers of 64 words."""
    floats = values.astype(np.float32)
    if name.endswith("_f16"):
        codes = floats.astype(np.float16).view(np.uint16)
    elif name.endswith("_bf16"):
        codes = f32_to_bf16(floats)
    elif name.endswith("_i8"):
        codes = values.astype(np.int8)
    else:
        codes = encode_float(floats, "e4m3")
    return np.ascontiguousarray(codes).view(np.uint32).T


SETS = [(0, 0), (0, 1), (1, 1)]
"""(cbsz, abid): which of the index sets in the register is used."""


@pytest.mark.parametrize(("name", "side", "depth", "bits"), SHAPES)
def test_against_numpy(bench: Any, name: str, side: int, depth: int, bits: int) -> None:
    rng = np.random.default_rng([side, depth, bits])
    groups = 64 // side
    share = depth // groups
    kept = share // 2
    stored = rng.integers(-3, 4, (64, kept))
    # Two different places of every four, in any order.
    places = np.array(
        [[rng.permutation(4)[:2] for _ in range(kept // 2)] for _ in range(64)]
    ).reshape(64, kept)
    right = rng.integers(-3, 4, (64, share))
    start = rng.integers(-5, 6, (side * side // 64, 64))
    width = 2 * kept
    indices = []
    for cbsz, abid in SETS:
        chosen = 0 if cbsz else abid % (32 // width)
        index = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
        for lane in range(64):
            code = sum(int(place) << 2 * i for i, place in enumerate(places[lane]))
            mask = (1 << width) - 1 << width * chosen
            index[lane] = int(index[lane]) & ~mask | code << width * chosen
        indices.append(index)
    a, b = np.zeros((side, depth), np.int64), np.zeros((side, depth), np.int64)
    for lane in range(64):
        row, first = lane % side, lane // side * share
        for i in range(kept):
            a[row, first + 4 * (i // 2) + places[lane, i]] = stored[lane, i]
        b[row, first : first + share] = right[lane]
    product = a @ b.T
    rows_a, rows_b = encoded(stored, name), encoded(right, name)
    is_float = "_f32_" in name
    rows_d = start.astype(np.float32).view(np.uint32) if is_float else start.astype(np.uint32)
    inputs = [*rows_a, *rows_b, *np.concatenate([rows_d] * len(SETS)), *indices]
    at_b = 8 + len(rows_a)
    at_d = at_b + len(rows_b)
    count = len(rows_d)
    at_i = at_d + len(SETS) * count
    lines = []
    for number, (cbsz, abid) in enumerate(SETS):
        first = at_d + number * count
        operands = f"v[{first}:{first + count - 1}], v[8:{at_b - 1}], v[{at_b}:{at_d - 1}]"
        lines.append(f"{name} {operands}, v{at_i + number} cbsz:{cbsz} abid:{abid}")
    outputs = [f"v{i}" for i in range(at_d, at_i)]
    found = bench.run("\n".join(lines), inputs, outputs).reshape(len(SETS), count, 64)
    for got in found.view(np.float32) if is_float else found.view(np.int32):
        for register in range(count):
            for lane in range(64):
                if side == 16:
                    row = 4 * (lane // 16) + register
                else:
                    row = 8 * (register // 4) + 4 * (lane // 32) + register % 4
                assert got[register, lane] == start[register, lane] + product[row, lane % side]
