"""Fused mixture of experts: one block of tokens, one expert, one tile of the inner dimension.

The kernels multiply tokens by two weight matrices (gate and up), apply an activation, multiply by a
third (down) and add up in the output. They are run, not compared: how the weights are shuffled and
the inner values requantised differs from kernel to kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from evidence.aiter_corpus.case import Array, Case, Value
from pipeloom.judge.emulate.formats import encode_float8, f32_to_bf16

DIM = 512
"""Model dimension: a few steps of every kernel's K loop."""
_TILE = re.compile(r"_(\d+)x(\d+)|_subGU_(\d+)")


def _tile(path: Path) -> tuple[int, int]:
    """Tokens of a block and width of the inner tile, from the file's name."""
    found = _TILE.findall(path.stem)[-1]
    return (32, int(found[2])) if found[2] else (int(found[0]), int(found[1]))


def _elements(kind: str, seed: int, rows: int, width: int) -> Array:
    """Small random numbers of the kernel's element type, a row of bytes per row."""
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, (rows, width)).astype(np.float32)
    if kind == "fp4":
        return random.integers(0, 256, (rows, width // 2)).astype(np.uint8)
    if kind == "i8":
        return random.integers(-8, 9, (rows, width)).astype(np.int8)
    if kind == "fp8":
        return encode_float8(values, "e4m3")
    return values.astype(np.float16) if kind == "fp16" else f32_to_bf16(values)


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


def moe_case(path: Path) -> Case:
    """The case of any file of the family."""
    tokens, inner = _tile(path)
    name = path.stem
    kind_x, kind_w = _kinds(name)
    halves = 2 if "g1u1" in name else 1

    def values() -> Mapping[str, Value]:
        x = _elements(kind_x, 1, tokens, DIM)
        gate = _elements(kind_w, 2, halves * inner, DIM)
        down = _elements(kind_w, 3, DIM, inner)
        row_x, row_g, row_d = (part.itemsize * part.shape[1] for part in (x, gate, down))
        narrow = kind_w == "fp4"
        # E8M0 codes of 1/8 to 1 for 4-bit operands, f32 scales for the others.
        scale: Array = np.full(1 << 16, 125, np.uint8) if narrow else np.full(1 << 14, 2.0**-4)
        scale = scale if narrow else scale.astype(np.float32)
        per_gate = halves * inner * (DIM // 32 if narrow else 4)
        per_down = DIM * (inner // 32 if narrow else 4)
        return {
            # A row more than tokens: some kernels count workgroups behind the last one.
            "O": np.zeros((tokens + 1, DIM), np.uint16),
            "X": x,
            "G": gate,
            "U": np.array([tokens, tokens], np.int32),
            "D": down,
            "XQ": scale.copy(),
            "GQ": scale.copy(),
            "DQ": scale.copy(),
            "SMQ": np.ones(1 << 14, np.float32),
            "STP": np.arange(tokens, dtype=np.int32),
            "SW": np.ones(tokens, np.float32),
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
            "eGUQs": per_gate,
            "eDQs": per_down,
            "eSMQs": 4 * inner,
            "topk": 1,
            "total_tgs": 1,
            "_s_total_tgs": 1,
            "ps_deno": 1,
            "_s_deno_tgs": 1,
            "a2": np.zeros(1 << 18, np.uint8),
            "a2q": np.zeros(1 << 16, np.uint8),
        }

    return Case(path, (1, 1, 1), values)
