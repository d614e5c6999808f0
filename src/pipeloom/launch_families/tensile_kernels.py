"""Products by Tensile and TensileLite, which rocBLAS and hipBLASLt are made of.

A kernel's symbol says which index of each operand lies close together (``Cijk_Alik_Bljk``: D[i, j]
adds up A[l, i] B[l, j], the first index contiguous), the types and the macro tile. Strides count
elements. Facts: hipBLASLt, tensilelite, ContractionSolution.cpp (what is passed: the numbers
``Gemm info`` to ``numWG`` where the kernel takes them, GSU in the low bits of ``kernel info0``, the
grid in x alone for such kernels), KernelArguments of its CustomKernels (names in the metadata).
"""

from __future__ import annotations

import re
from typing import Any

from pipeloom.judge.emulate import CodeKernel
from pipeloom.launch_families.drafts import Draft

_SYMBOL = re.compile(r"Cijk_A(?P<a>il|li)kC?_B(?P<b>lj|jl)kC?_(?P<types>[A-Z0-9_]+?)_(?:BH|MT|A)")
_TILE = re.compile(r"_MT(\d+)x(\d+)x(\d+)")
_TYPE = re.compile(r"F8N|B8N|F8|B8|I8|[SDHBIX]")
_TYPES = {
    "S": "f32",
    "X": "f32",
    "D": "f64",
    "H": "fp16",
    "B": "bf16",
    "I8": "i8",
    "I": "i32",
    "F8": "fp8",
    "B8": "bf8",
    "F8N": "fp8_fnuz",
    "B8N": "bf8_fnuz",
}
_ONE = {"value": 1}


def tensile_launch(kernel: CodeKernel) -> Draft | None:
    """The draft of a kernel that is named and called as Tensile's are."""
    found, tile = _SYMBOL.search(kernel.name), _TILE.search(kernel.name)
    listed = {one.name for one in kernel.explicit_arguments}
    if found is None or tile is None or not {"SizesFree0", "SizesSum0", "A", "B", "D"} <= listed:
        return None
    if "dstD" in listed:  # slices of K with a workspace, whose layout is not described here
        return None
    *mixed, main = found["types"].split("_")
    kinds = [_TYPES[one] for one in _TYPE.findall(main)] or ["f32"]
    # One letter is all types; else data, destination, compute. Before them, those of A and B.
    out = kinds[1] if len(kinds) > 1 else kinds[0]
    inputs = [_TYPES[one] for one in _TYPE.findall(mixed[0])] if mixed else kinds[:1]
    scalar = kinds[2] if len(kinds) > 2 else kinds[0]
    scalar = scalar if scalar in ("f32", "f64", "i32") else "f32"
    rows = _rows(inputs[0], inputs[-1], out, scalar, found["a"] == "il", found["b"] == "jl")
    flat = "numWG" in listed
    grid = ["tiles_m", "tiles_n", "batch"]
    tiles: dict[str, int | str | None] = {
        "tile_m": int(tile[1]),
        "tile_n": int(tile[2]),
        "tiles_m": "ceil(M / tile_m)",
        "tiles_n": "ceil(N / tile_n)",
    }
    threads = kernel.metadata.max_work_items or 256
    return Draft(
        "Tensile",
        {"M": None, "N": None, "K": None, "batch": 1, **tiles},
        ["tiles_m * tiles_n * batch", 1, 1] if flat else grid,
        list(kernel.metadata.required_block or (threads, 1, 1)),
        0,
        {name: row for name, row in rows.items() if name in listed},
        source="hipBLASLt, tensilelite, ContractionSolution.cpp",
    )


def _rows(
    left: str, right: str, out: str, scalar: str, m_first: bool, n_first: bool
) -> dict[str, dict[str, Any] | None]:
    """Arguments by their names in the metadata."""
    shape_a = ["batch", "K", "M"] if m_first else ["batch", "M", "K"]
    shape_b = ["batch", "K", "N"] if n_first else ["batch", "N", "K"]
    result = {"shape": ["batch", "N", "M"], "type": out, "fill": "zeros"}
    return {
        "SizesFree0": {"value": "M"},
        "SizesFree1": {"value": "N"},
        "SizesFree2": {"value": "batch"},
        "SizesSum0": {"value": "K"},
        "D": result,
        "C": result,
        "A": {"shape": shape_a, "type": left, "fill": "random"},
        "B": {"shape": shape_b, "type": right, "fill": "random"},
        "strideD0": {"value": "M"},
        "strideD1": {"value": "M * N"},
        "strideC0": {"value": "M"},
        "strideC1": {"value": "M * N"},
        "strideA0": {"value": "M" if m_first else "K"},
        "strideA1": {"value": "M * K"},
        "strideB0": {"value": "N" if n_first else "K"},
        "strideB1": {"value": "N * K"},
        "alpha": {"type": scalar, "value": 1},
        "beta": {"type": scalar, "value": 0},
        "Gemm info": _ONE,
        "kernel info0": _ONE,
        "kernel info1": _ONE,
        "internalArgs": _ONE,
        "numWG": {"value": "tiles_m * tiles_n * batch"},
        "OrigStaggerUIter": {"value": 0},
        "NumWorkGroups0": {"value": "tiles_m"},
        "NumWorkGroups1": {"value": "tiles_n"},
    }
