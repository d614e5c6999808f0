"""What a kernel is timed on: sizes where none are given, and arrays of random numbers.

sizes = sizes_of(record, {"m": 512})
arrays = made_up_arrays(record, sizes, seed=0)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.checks import check_known
from pipeloom.device.contracts import KernelContract
from pipeloom.device.laid_arrays import ArrayRule
from pipeloom.device.sequence import operand_rules
from pipeloom.drive.heads import by_head
from pipeloom.errors import SpecError
from pipeloom.machine.dtypes import dtype_for

USUAL = 4096
"""The size along a dimension that is cut into tiles, where none is given."""
BATCH = {"heads": 16}
DRAWN = 1 << 20
"""Random codes that arrays are filled from."""
Array = npt.NDArray[Any]


def sizes_of(record: Mapping[str, Any], given: Mapping[str, int]) -> dict[str, int]:
    """The size of every dimension: the given one, that of the record, or a usual one."""
    contract = KernelContract.of(record)
    dims = dict.fromkeys(d for r in contract.arrays.values() for d in (*r.batch, *r.dims))
    told: dict[str, int] = dict((record.get("made_from") or {}).get("sizes") or {})
    given = by_head(tuple(dims), given)
    if record["batched"]:
        dims = {"batches": None, **dims}
    for dim in given:
        check_known(dim, dims, f"{record['kernel']} has no dimension {dim!r}", dim, SpecError)
    cut = {word for formula in record["grid"] for word in re.findall(r"\w+", formula)}
    sizes = {}
    for dim in dims:
        usual = USUAL if dim in cut or dim == record["over"] else int(record["tile"].get(dim, 1))
        if dim == "batches" or dim in record["batch"]:
            usual = BATCH.get(dim, 1)
        sizes[dim] = {**told, **given}.get(dim) or usual
    over, step = record["over"], record["k_step"]
    if over in sizes and over not in given and over not in told:
        beyond = max(sizes[over] - record["k_min"], 0)
        sizes[over] = record["k_min"] + (beyond // step * step if step else 0)
    return sizes


def made_up_arrays(
    record: Mapping[str, Any], sizes: Mapping[str, int], seed: int
) -> dict[str, Array]:
    """Normal numbers in every array, in its own type; where a kernel stores its times, zeros.

    Matrices have batches where the kernel takes any; a vector, such as a bias, is one for all.
    """
    contract = KernelContract.of(record)
    found: dict[str, Array] = {}
    for number, (name, rule) in enumerate(operand_rules(record).items()):
        if name == contract.timing.get("pointer"):
            stored = contract.timing_bytes(contract.grid(sizes, sizes.get("batches", 1)))
            found[name] = np.zeros(stored // 4, np.uint32)
        else:
            found[name] = made_up_array(rule, sizes, np.random.default_rng([seed, number]))
    return found


def made_up_array(rule: ArrayRule, sizes: Mapping[str, int], rng: np.random.Generator) -> Array:
    """Normal numbers in the type of one array; scales of blocks are near 1."""
    shape = [sizes[dim] for dim in (*rule.batch, *rule.dims)]
    shape[-1] = -(-shape[-1] // rule.covers) * min(rule.bits, 8) // 8
    if "batches" in sizes and len(rule.dims) > 1:
        shape.insert(0, sizes["batches"])
    return np.resize(_codes(rule, rng), shape)


def _codes(rule: ArrayRule, rng: np.random.Generator) -> Array:
    if rule.dtype == "f32":
        return rng.standard_normal(DRAWN).astype(np.float32)
    if rule.dtype == "e8m0":
        return rng.integers(125, 130, DRAWN).astype(np.uint8)
    if rule.bits < 8:
        return rng.integers(0, 256, DRAWN).astype(np.uint8)
    codes = dtype_for(rule.dtype).encode(rng.standard_normal(DRAWN).astype(np.float32))
    return codes.astype(f"u{rule.bits // 8}")


def usual_number(record: Mapping[str, Any], name: str) -> float:
    """The value of a scalar: the usual one of the record, or 1."""
    parts = (record, record.get("then") or {})
    return float(next((one["scalars"][name] for one in parts if name in one.get("scalars", {})), 1))
