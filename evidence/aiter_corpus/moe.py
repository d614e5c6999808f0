"""Fused mixture of experts: one block of tokens, one expert, one tile of the inner dimension.

The kernels multiply tokens by two weight matrices (gate and up), apply an activation, quantise the
inner values row by row, multiply by a third matrix (down) and add up in the output. 8-bit kernels
with a scale per token are compared with NumPy; the others lay out scales or inner values in a way
for which there is no reference here: they are only run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import erf
from pathlib import Path

import numpy as np

from evidence.aiter_corpus.case import Array, Case, Value, worst
from evidence.aiter_corpus.gemm import shuffle_rows
from pipeloom.judge.emulate.formats import bf16_to_f32, encode_float, f32_to_bf16, float_table

DIM = 1024
"""Model dimension: a few steps of every loop; at half of it some kernels read past their tokens."""
ALLOWED = 0.01
"""Of the largest result: inner values near a step of their quantisation may fall either way."""
ALLOWED_SMOOTH = 0.06
"""Where tokens are quantised in the kernel, by steps of its own: left out in NumPy."""
_TILE = re.compile(r"_(\d+)x(\d+)|_subGU_(\d+)")


def _tile(path: Path) -> tuple[int, int]:
    """Tokens of a block and width of the inner tile, from the file's name."""
    found = _TILE.findall(path.stem)[-1]
    return (32, int(found[2])) if found[2] else (int(found[0]), int(found[1]))


def _elements(kind: str, seed: int, rows: int, width: int) -> tuple[Array, Array | None]:
    """Small random numbers of the kernel's element type, a row of bytes per row; and their values.

    The values of packed 4-bit numbers are not needed.
    """
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, (rows, width)).astype(np.float32)
    if kind == "fp4":
        return random.integers(0, 256, (rows, width // 2)).astype(np.uint8), None
    if kind == "i8":
        whole = random.integers(-8, 9, (rows, width)).astype(np.int8)
        return whole, whole.astype(np.float32)
    if kind == "fp8":
        codes = encode_float(values, "e4m3")
        return codes, float_table("e4m3")[codes]
    if kind == "fp16":
        half = values.astype(np.float16)
        return half, half.astype(np.float32)
    brain = f32_to_bf16(values)
    return brain, bf16_to_f32(brain)


def _kinds(name: str) -> tuple[str, str]:
    """Element types of the tokens and of the weights."""
    lower = name.lower()
    if "mxfp4" in lower:
        return "fp4", "fp4"
    if "noquant" in lower:
        kind = "fp16" if "noquantfp16" in lower else "bf16"
        return kind, kind
    if "blockscalebf16" in lower:
        return "bf16", "fp8"
    return ("i8", "i8") if "int8" in lower else ("fp8", "fp8")


def _per_token(name: str) -> bool:
    """Whether a kernel is compared: 8-bit products with a scale per token and per row."""
    return "pertokenFp8" in name or "pertokenInt8" in name


def _activated(name: str, values: Array) -> Array:
    if "silu" in name:
        return np.asarray(values / (1 + np.exp(-values)))
    return np.asarray(values * (1 + np.vectorize(erf)(values / np.sqrt(2))) / 2)


def _requantised(kind: str, values: Array) -> Array:
    """Rows scaled to the largest number of the type, and cut (i8) or rounded (fp8) to it."""
    largest = {"i8": 127.0, "fp8": 448.0}[kind]
    step = np.abs(values).max(1, keepdims=True) / largest
    if kind == "i8":
        return np.asarray(np.trunc(values / step) * step)
    codes = encode_float((values / step).astype(np.float32), "e4m3")
    return np.asarray(float_table("e4m3")[codes] * step)


def moe_case(path: Path) -> Case:
    """The case of any file of the family."""
    tokens, inner = _tile(path)
    name = path.stem
    kind_x, kind_w = _kinds(name)
    smooth = "_smf" in name  # tokens are bf16, scaled by column and quantised in the kernel
    kind_x = "bf16" if smooth else kind_x
    halves = 2 if "g1u1" in name else 1
    compared = _per_token(name)
    x, x_values = _elements(kind_x, 1, tokens, DIM)
    gate, gate_values = _elements(kind_w, 2, halves * inner, DIM)
    down, down_values = _elements(kind_w, 3, DIM, inner)
    random = np.random.default_rng(4)
    unit = {"i8": 1 / 24, "fp8": 1 / 3}.get(kind_w, 1.0)
    weights, columns, inner_columns, scale_x, scale_gate, scale_down = (
        (one * random.uniform(0.5, 1, count)).astype(np.float32)
        for one, count in (
            (1.0, tokens),
            (0.3, DIM),
            (1.0, inner),
            (unit / 2, tokens),
            (unit, halves * inner),
            (unit, DIM),
        )
    )

    def scales() -> Mapping[str, Value]:
        if compared:
            return {
                "G": shuffle_rows(gate),
                "D": shuffle_rows(down),
                "XQ": columns if smooth else scale_x,
                "GQ": scale_gate,
                "DQ": scale_down,
                "SW": weights,
            }
        # E8M0 codes of 1/4 for 4-bit operands, f32 scales for the others.
        narrow = kind_w == "fp4"
        scale: Array = np.full(1 << 16, 125, np.uint8) if narrow else np.full(1 << 14, 2.0**-4)
        scale = scale if narrow else scale.astype(np.float32)
        same = {"XQ": scale.copy(), "GQ": scale.copy(), "DQ": scale.copy()}
        return {"G": gate, "D": down, "SW": np.ones(tokens, np.float32), **same}

    def values() -> Mapping[str, Value]:
        row_x, row_g, row_d = (part.itemsize * part.shape[1] for part in (x, gate, down))
        per_row = DIM // 32 if kind_w == "fp4" else 4
        per_down = inner // 32 if kind_w == "fp4" else 4
        return {
            # A row more than tokens: some kernels count workgroups behind the last one.
            "O": np.zeros((tokens + 1, DIM), np.uint16),
            "X": x,
            "U": np.array([tokens, tokens], np.int32),
            **scales(),
            "SMQ": inner_columns if smooth else np.ones(1 << 14, np.float32),
            "STP": np.arange(tokens, dtype=np.int32),
            "SEP": np.zeros(4, np.int32),
            "dim": DIM,
            "hdim": inner,
            "batch": tokens,
            "eprt": 1,
            "Xs": row_x,
            "GUs": row_g,
            "Ds": row_d,
            "Os": 2 * DIM,
            "eGUs": row_g * halves * inner,
            "eDs": row_d * DIM,
            "eGUQs": halves * inner * per_row,
            "eDQs": DIM * per_down,
            "eSMQs": 4 * inner,
            "topk": 1,
            "total_tgs": 1,
            "_s_total_tgs": 1,
            "ps_deno": 1,
            "_s_deno_tgs": 1,
            "a2": np.zeros(1 << 18, np.uint8),
            "a2q": np.zeros(1 << 16, np.uint8),
        }

    def error(after: Mapping[str, Value]) -> float:
        assert x_values is not None
        assert gate_values is not None
        assert down_values is not None
        read = x_values * (columns if smooth else scale_x[:, None])
        first = (read @ gate_values.T) * scale_gate
        late = weights[:, None]
        if "tkw1" in name:  # weights go in before the activation
            first, late = first * late, np.ones_like(late)
        middle = _activated(name, first[:, :inner])
        if halves == 2:
            middle = middle * first[:, inner:]
        middle = middle * inner_columns if smooth else _requantised(kind_w, middle)
        want = (middle @ down_values.T) * scale_down * late
        out = after["O"][:tokens]
        got = bf16_to_f32(out) if "_bf16_" in name else out.view(np.float16)
        return worst(got, want, ALLOWED_SMOOTH if smooth else ALLOWED)

    return Case(path, (1, 1, 1), values, error if compared else None)
