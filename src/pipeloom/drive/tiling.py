"""Which tile, and which machine, a source means where it leaves them open.

A schedule by name is compiled without a tile; a job that counts instructions gives it one.
The element type says how deep the tile is, the machine which matrix instruction it is made of:

    ping_pong      256x256, 128 bytes of K         bf16 on gfx950: BK 64, MMA_K 32
    single_buffer  128x128, at least two MMAs of K bf16 on gfx942: BK 64, MMA_K 16
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pipeloom.errors import SpecError
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.target import Target
from pipeloom.plain import key_paths
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.schedules import DEFAULT_TILES, SCHEDULES

ELEMENT_BYTES: Mapping[str, int] = MappingProxyType({"bf16": 2, "fp16": 2, "fp8": 1})
"""The element types that a tile can be named by."""

DEFAULT_TYPE = "bf16"
"""The type of the tile that a schedule is given where nothing says more."""

TYPES = ("none", *ELEMENT_BYTES)
"""What can be said of a tile's elements; ``none`` leaves a spec without a tile."""

SIDES = ("geometry.BM", "geometry.BN", "geometry.BK")
"""The keys of a spec that its tile is set by."""

ROW_BYTES = 128
"""Bytes of K in a row of the tile."""

DMA_BYTES = 16
"""Bytes per lane of the loads that the double-buffered tiles are counted for."""


def read_tile(text: str) -> tuple[int, int, int] | None:
    """``256x256x64`` as m, n and k; None where it is not that."""
    match = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})x([1-9]\d{0,5})", text.strip().lower())
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def tile_settings(tile: str | None) -> tuple[str, ...]:
    """The settings of a spec that give it a tile."""
    sizes = None if tile is None else read_tile(tile)
    return () if sizes is None else tuple(f"{k}={n}" for k, n in zip(SIDES, sizes, strict=True))


def refuse_tile(form: type, source: str) -> None:
    """Refuse a tile for what has no block of M, N and K to set."""
    keys = sorted(key_paths(form))
    if not set(SIDES) <= set(keys):
        raise SpecError(
            f"{source} has no tile of M, N and K that --tile could set",
            hint=f"drop --tile; it has the keys {', '.join(keys)}, which --set sets",
            field="tile",
        )


def tile_for(schedule: str, elements: str, machine: Target) -> dict[str, int]:
    """The ``[geometry]`` of a shipped schedule for elements of this type on this machine."""
    size = ELEMENT_BYTES[elements]
    dtype = "fp8" if size == 1 else "f16"
    depth = max(
        op.k
        for op in machine.matrix_ops
        if (op.m, op.n, op.dtype, op.scaled) == (16, 16, dtype, False)
    )
    rows = ROW_BYTES // size
    if schedule == "single_buffer":
        return {"BK": max(rows, 2 * depth), "MMA_K": depth, "elem_bytes": size}
    widest = machine.dma_max_bytes_per_lane.value
    if widest < DMA_BYTES:
        raise SpecError(
            f"{schedule} loads {DMA_BYTES} bytes per lane straight to LDS, but {machine.arch} "
            f"loads at most {widest}",
            hint=f"for {machine.arch} use single_buffer or gemm_tile; or give a tile whose counts "
            "are made for narrow loads, with geometry.vm_per_load_a and _b",
            field="geometry",
        )
    return {"BK": rows, "MMA_K": depth, "elem_bytes": size}


def fitting_types(geometry: KernelGeometry | None) -> list[str]:
    """The types of the size of a tile's elements."""
    size = None if geometry is None else geometry.elem_bytes
    return [name for name, width in ELEMENT_BYTES.items() if width == size]


def with_tile(
    data: Mapping[str, Any],
    source: str,
    *,
    dtype: str | None,
    default: str,
    arch: str | Target | None,
    settings: Sequence[str] = (),
) -> Mapping[str, Any]:
    """The spec with a tile of the type asked for, or the default one where it names none itself.

    Settings of some sizes of a tile change the default one.
    """
    name = str(data.get("schedule"))
    if dtype == "none":
        return data
    machine = target_for(arch or ANY_CHIP)
    if dtype is None:
        if default == "none" and sets_tile(name, settings):
            default = DEFAULT_TYPE
        if not gets_default_tile(data, default):
            return data
        return {"geometry": tile_for(name, default, machine), **data}
    if name in SCHEDULES and not takes_tile(name):
        takers = [schedule for schedule in SCHEDULES if takes_tile(schedule)]
        raise SpecError(
            f"{name} has no tile whose type --dtype could set",
            hint=f"drop --dtype; it is for {', '.join(takers)}",
            field="geometry",
        )
    if "geometry" in data:
        raise SpecError(
            f"{source} names its own tile, which --dtype does not replace",
            hint="drop --dtype, or change the tile with --set geometry.BK=... and the like",
            field="geometry",
        )
    return {"geometry": tile_for(name, dtype, machine), **data}


def gets_default_tile(data: Mapping[str, Any], default: str) -> bool:
    """Whether a spec is given the default tile."""
    named = str(data.get("schedule")) in DEFAULT_TILES and "geometry" not in data
    return default != "none" and named


def sets_tile(schedule: str, settings: Sequence[str]) -> bool:
    """Whether settings name a size of the tile, by its path or by its last part."""
    if not takes_tile(schedule):
        return False
    given = {setting.partition("=")[0].strip() for setting in settings}
    keys = (path for path in key_paths(SCHEDULES[schedule]) if path.startswith("geometry."))
    return any(key in given or key.rpartition(".")[2] in given for key in keys)


def takes_tile(schedule: str) -> bool:
    """Whether a shipped schedule has a ``[geometry]`` to set."""
    return schedule in SCHEDULES and any(
        path.startswith("geometry.") for path in key_paths(SCHEDULES[schedule])
    )
