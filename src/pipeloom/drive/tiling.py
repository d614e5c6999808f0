"""Which tile, and which machine, a source means where it leaves them open.

A schedule by name is compiled without a tile; a job that counts instructions gives it one.
The element type says how deep the tile is, the machine which matrix instruction it is made of:

    ping_pong      256x256, 128 bytes of K         bf16 on gfx950: BK 64, MMA_K 32
    single_buffer  128x128, at least two MMAs of K bf16 on gfx942: BK 64, MMA_K 16
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pipeloom.errors import SpecError
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.target import Target
from pipeloom.plain import key_paths
from pipeloom.reference.schedules import DEFAULT_TILES, SCHEDULES

ELEMENT_BYTES: Mapping[str, int] = MappingProxyType({"bf16": 2, "fp16": 2, "fp8": 1})
"""The element types that a tile can be named by."""

ROW_BYTES = 128
"""Bytes of K in a row of the tile."""

DMA_BYTES = 16
"""Bytes per lane of the loads that the double-buffered tiles are counted for."""


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


def with_tile(
    data: Mapping[str, Any], source: str, *, tile: str | None, default: str, arch: str | None
) -> Mapping[str, Any]:
    """The spec with the tile asked for, or the default one where it names none itself."""
    name = str(data.get("schedule"))
    if tile == "none":
        return data
    machine = target_for(arch or ANY_CHIP)
    if tile is None:
        if not gets_default_tile(data, default):
            return data
        return {"geometry": tile_for(name, default, machine), **data}
    if name in SCHEDULES and not takes_tile(name):
        takers = [schedule for schedule in SCHEDULES if takes_tile(schedule)]
        raise SpecError(
            f"{name} has no tile shape that --tile could set",
            hint=f"drop --tile; it is for {', '.join(takers)}",
            field="geometry",
        )
    if "geometry" in data:
        raise SpecError(
            f"{source} names its own tile, which --tile does not replace",
            hint="drop --tile, or change the tile with --set geometry.BK=... and the like",
            field="geometry",
        )
    return {"geometry": tile_for(name, tile, machine), **data}


def gets_default_tile(data: Mapping[str, Any], default: str) -> bool:
    """Whether a spec is given the default tile."""
    named = str(data.get("schedule")) in DEFAULT_TILES and "geometry" not in data
    return default != "none" and named


def takes_tile(schedule: str) -> bool:
    """Whether a shipped schedule has a ``[geometry]`` to set."""
    return schedule in SCHEDULES and any(
        path.startswith("geometry.") for path in key_paths(SCHEDULES[schedule])
    )
