"""Kernels of Triton and Gluon, by what the compiler leaves beside them in its cache.

``k.json`` has the waves and the LDS that the launcher adds, ``k.ttir`` the names and types of the
arguments that are passed; behind them come two pointers to scratch areas. How large arrays are, and
the grid, is the caller's: each is asked for by name.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pipeloom.files import read_text
from pipeloom.judge.emulate import CodeKernel
from pipeloom.launch_families.drafts import Draft

_FUNCTION = re.compile(r"tt\.func public @(\w+)\((.*?)\) attributes", re.DOTALL)
_PARAMETER = re.compile(r"%(\w+): (!tt\.ptr<([\w.]+)[^>]*>|!tt\.\w+<[^>]*>|\w+)")
_TYPES = {
    "f16": "fp16",
    "bf16": "bf16",
    "f32": "f32",
    "f64": "f64",
    "i1": "u8",
    **{f"i{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    "f8E4M3FN": "fp8",
    "f8E5M2": "bf8",
    "f8E4M3FNUZ": "fp8_fnuz",
    "f8E5M2FNUZ": "bf8_fnuz",
}


def triton_launch(kernel: CodeKernel, path: str) -> Draft | None:
    """The draft of a kernel that Triton's files lie beside."""
    said = _metadata(path)
    if said is None:
        return None
    listed = sorted(kernel.explicit_arguments, key=lambda one: one.offset)
    parameters = _parameters(path, kernel.name)
    known: dict[str, dict[str, Any] | None] = {}
    places = []
    for at, one in enumerate(listed):
        name, kind = parameters[at] if at < len(parameters) else (f"arg_{one.offset}", "")
        if at >= len(parameters) > 0:  # scratch areas, of which the files say whether there are any
            name, known[name] = f"scratch_{at - len(parameters)}", None
        elif kind:
            size = {"shape": [name]} if one.is_pointer else {"value": name}
            known[name] = {"type": kind, **({"fill": "random"} if one.is_pointer else {}), **size}
        places.append((name, one.offset, one.size, one.is_pointer))
    asked: dict[str, int | str | None] = {"grid_x": None, "grid_y": 1, "grid_z": 1}
    asked |= {name: None for name, row in known.items() if row is not None}
    waves = int(said["num_warps"]) * int(said.get("num_ctas", 1))
    return Draft(
        "Triton",
        asked,
        ["grid_x", "grid_y", "grid_z"],
        [waves * int(said.get("warp_size", 64)), 1, 1],
        int(said["shared"]),
        known,
        places,
        "the compiler's files beside it",
    )


def _metadata(path: str) -> dict[str, Any] | None:
    try:
        found = json.loads(read_text(Path(path).with_suffix(".json")))
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(found, dict) and {"num_warps", "shared"} <= set(found)
    return found if whole and all(type(found[k]) is int for k in ("num_warps", "shared")) else None


def _parameters(path: str, kernel: str) -> list[tuple[str, str]]:
    """Names and types of the arguments that are passed; types that are not numbers are empty."""
    try:
        text = read_text(Path(path).with_suffix(".ttir"))
    except (OSError, ValueError):
        return []
    found = next((one for one in _FUNCTION.finditer(text) if one[1] == kernel), None)
    if found is None:
        return []
    plain = re.sub(r" loc\([^)]*\)\)?", "", found[2])
    return [(one[1], _TYPES.get(one[3] or one[2], "")) for one in _PARAMETER.finditer(plain)]
