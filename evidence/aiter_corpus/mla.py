"""Latent attention for decoding (mla): one batch, all heads on one latent key per token.

The first stage: every workgroup takes a part of the keys and writes its share of the output with
the logarithm of its sum. Here there is one part. Persistent kernels (``_ps``), which take their
work from a list, and prefill are not run. Arguments are slots of 16 bytes in a fixed order. Results
are compared where one query has 16 heads in bf16; the others are run and judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from evidence.aiter_corpus.case import Array, Case, Value, worst
from pipeloom.judge.emulate import load_code_object
from pipeloom.judge.emulate.formats import (
    bf16_to_f32,
    encode_float,
    f32_to_bf16,
    float_table,
)

SLOTS = (
    *("R", "LSE", "Q", "KV", "LTP", "LTD", "LTL", "scale", "MQA", "kv_split", "Q_Bs", "Bs"),
    *("log2_page", "QTP", "STP", "RP", "QSCALE", "KVSCALE", "out_16_nosplit", "LSEP", "GKVTP"),
    *("cp_world_size", "cp_rank"),
)
WIDTH, OUT = 576, 512
"""Elements of a latent key, and how many of them are the value."""
KEYS = 970
"""Not a multiple of any tile, and enough for unrolled loops to repeat."""
ALLOWED = 2e-2
_SIZES = re.compile(r"qh(\d+)_qseqlen(\d+)_gqaratio(\d+)|subQ(\d+)_mqa(\d+)")


def is_decode(path: Path) -> bool:
    """Whether this module can launch a file of the family."""
    return bool(_SIZES.search(path.stem)) and "_ps" not in path.stem and "pfl" not in path.stem


def mla_case(path: Path, keys: int = KEYS) -> Case:
    """The case of a file of the family whose name says its sizes."""
    found = _SIZES.search(path.stem)
    assert found is not None, f"{path.stem} does not say its sizes"
    rows = int(found[1] or found[5])
    queries = int(found[2] or 1)
    wide = "a8" not in path.stem
    q, kv = (_random(seed, count, wide) for seed, count in ((1, rows), (2, keys)))
    taken = load_code_object(path).kernel().kernarg_size // 16
    rounded = taken > SLOTS.index("out_16_nosplit")
    scale = WIDTH**-0.5
    scores = q @ kv.T * scale
    per_query = rows // queries
    for query in range(queries):
        # A query sees the keys up to its own.
        last = keys - queries + query + 1
        scores[query * per_query : (query + 1) * per_query, last:] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    want = weights @ kv[:, :OUT] / weights.sum(axis=1, keepdims=True)

    def values() -> Mapping[str, Value]:
        size = 2 if wide else 1
        one = np.ones(1, np.float32)
        return {
            "R": np.zeros((rows, OUT), np.uint16 if rounded else np.float32),
            "LSE": np.zeros(rows, np.float32),
            "Q": _encode(q, wide),
            "KV": _encode(kv, wide),
            "LTP": np.array([0, keys], np.int32),
            "LTD": np.arange(keys, dtype=np.int32),
            "LTL": np.ones(1, np.int32),
            "scale": np.float32(scale),
            "MQA": rows,
            "kv_split": 1,
            "Q_Bs": rows * WIDTH * size,
            "Bs": WIDTH * size,
            "log2_page": 0,
            "QTP": np.array([0, queries], np.int32),
            "STP": np.array([0, 1], np.int32),
            "RP": None,
            "QSCALE": one,
            "KVSCALE": one.copy(),
            "out_16_nosplit": 1,
            "LSEP": None,
            "GKVTP": None,
            "cp_world_size": 1,
            "cp_rank": 0,
        }

    def error(after: Mapping[str, Value]) -> float:
        out = bf16_to_f32(after["R"]) if rounded else after["R"]
        return worst(out, want, ALLOWED)

    compared = error if "subQ16" in path.stem else None
    return Case(path, (1, 1, 1), values, compared, slots=SLOTS[:taken])


def _random(seed: int, rows: int, wide: bool) -> Array:
    """Numbers that the element type holds exactly."""
    values = np.random.default_rng(seed).uniform(-1, 1, (rows, WIDTH)).astype(np.float32)
    return _decode(_encode(values, wide), wide)


def _encode(values: Array, wide: bool) -> Array:
    return f32_to_bf16(values) if wide else encode_float(values, "e4m3")


def _decode(codes: Array, wide: bool) -> Array:
    return bf16_to_f32(codes) if wide else float_table("e4m3")[codes]
