"""Element types by Triton's names: NumPy storage, encoding and decoding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.formats import bf16_to_f32, encode_float, f32_to_bf16, float_table

Array = npt.NDArray[Any]

FLOAT8 = {"fp8e4nv": "e4m3", "fp8e5": "e5m2", "fp8e4b8": "e4m3fnuz", "fp8e5b16": "e5m2fnuz"}
DTYPES: dict[str, Any] = {
    "fp64": np.float64,
    "fp32": np.float32,
    "fp16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u64": np.uint64,
    "u32": np.uint32,
    "u16": np.uint16,
    "u8": np.uint8,
    "i1": np.bool_,
}
EPSILON = {"fp64": 2.0**-52, "fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}


def is_float(kind: str) -> bool:
    return kind.startswith(("fp", "bf"))


def encode(values: npt.ArrayLike, kind: str) -> Array:
    """Numbers as the array a kernel is given."""
    array = np.asarray(values)
    if kind == "bf16":
        return f32_to_bf16(array.astype(np.float32))
    if kind in FLOAT8:
        return encode_float(array.astype(np.float32), FLOAT8[kind])
    return np.ascontiguousarray(array.astype(DTYPES[kind]))


def decode(stored: Array, kind: str) -> Array:
    """What a kernel stored, as numbers: float64 for floats, else the integers themselves."""
    if kind == "bf16":
        return bf16_to_f32(stored).astype(np.float64)
    if kind in FLOAT8:
        return float_table(FLOAT8[kind])[stored].astype(np.float64)
    return stored.astype(np.float64) if is_float(kind) else stored


def rounded(values: npt.ArrayLike, kind: str) -> Array:
    """Numbers after a round trip through the type."""
    return decode(encode(values, kind), kind)
