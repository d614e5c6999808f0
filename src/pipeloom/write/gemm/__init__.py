"""GEMM emitters, one file per kernel: C[M, N] = A[M, K] B[N, K]^T."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipeloom.checks import nearest
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.tile import (
    FOUR_WAVE_GRID,
    PING_PONG_GRID,
    SINGLE_BUFFER_GRID,
)
from pipeloom.reference.tile import (
    GemmTile as CountedTile,
)
from pipeloom.write.chips import chip_for
from pipeloom.write.entry import MakeEmitter
from pipeloom.write.faults import EmitError
from pipeloom.write.gemm.four_wave import four_wave_emitter
from pipeloom.write.gemm.gemm_tile import gemm_tile_emitter
from pipeloom.write.gemm.gemm_tile_staged import staged_gemm_tile_emitter
from pipeloom.write.gemm.lds_dma import require_lds_dma
from pipeloom.write.gemm.ping_pong import ping_pong_emitter
from pipeloom.write.gemm.single_buffer import single_buffer_emitter, single_buffer_geometry
from pipeloom.write.gemm.tile import ELEMENT_BYTES

EMITTERS: Mapping[str, MakeEmitter] = MappingProxyType(
    {
        "ping_pong": ping_pong_emitter,
        "four_wave": four_wave_emitter,
        "single_buffer": single_buffer_emitter,
        "gemm_tile": gemm_tile_emitter,
        "gemm_tile_ping_pong": gemm_tile_emitter,
        "gemm_tile_single_buffer": staged_gemm_tile_emitter,
    }
)
"""Schedule name -> its emitter."""

_MODULO_GRIDS = {
    "gemm_tile": FOUR_WAVE_GRID,
    "gemm_tile_ping_pong": PING_PONG_GRID,
    "gemm_tile_single_buffer": SINGLE_BUFFER_GRID,
}
_ROW_BYTES = {"gfx950": 128, "gfx942": 64}
"""K of a 256 x 256 tile, such that two of them fit in LDS."""


def default_geometry(schedule: str, target: str, dtype: str) -> KernelGeometry:
    """A tile that suits a shipped kernel: 256 x 256, or single buffer's own.

    Rows hold 128 bytes of K, and 64 on gfx942, which has less LDS.

    For compiling a schedule by name; its counter costs are those that the emitter will find.
    """
    chip = chip_for(target)
    if schedule == "single_buffer":
        return single_buffer_geometry(chip, dtype)
    derive = {"ping_pong": KernelGeometry.ping_pong, "four_wave": KernelGeometry.four_wave}
    if schedule not in derive and schedule not in _MODULO_GRIDS:
        raise EmitError(
            f"no tile is known for schedule {schedule!r}",
            hint=nearest(schedule, EMITTERS),
            field="geometry",
        )
    if dtype not in ELEMENT_BYTES:
        raise EmitError(
            f"dtype {dtype!r} is not known to the emitter",
            hint=f"one of: {', '.join(ELEMENT_BYTES)}",
            field="dtype",
        )
    size = ELEMENT_BYTES[dtype]
    depth = max(k for kind, side, _, k in chip.matrix if kind == dtype and side == 16)
    shape = {
        "BM": 256,
        "BN": 256,
        "BK": _ROW_BYTES[chip.name] // size,
        "MMA_M": 16,
        "MMA_N": 16,
        "MMA_K": depth,
        "elem_bytes": size,
    }
    if schedule in derive:
        require_lds_dma(schedule, chip)
        return derive[schedule](**shape)
    grid = _MODULO_GRIDS[schedule]
    quadrants = 1 if grid.staged else 2
    return CountedTile(
        **shape, m=quadrants, n=quadrants, grid=grid, dma_bytes=chip.lds_dma_bytes
    ).geometry()
