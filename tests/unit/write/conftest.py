"""Synchronised schedules and emitted kernels, made once per session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from pipeloom import compile_schedule
from pipeloom.drive.trial import Launchable
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules.four_wave import FourWaveSpec
from pipeloom.reference.schedules.gemm_tile import GemmTileSpec, TileSpec
from pipeloom.reference.schedules.ping_pong import PingPongSpec
from pipeloom.reference.schedules.single_buffer import SingleBufferSpec
from pipeloom.reference.schedules.spec_parts import GeometrySpec
from pipeloom.write import EmittedKernel, assemble, emit_kernel, single_buffer_geometry
from pipeloom.write.chips import chip_for

Shape = tuple[int, int, int, int, int]
"""BM, BN, BK, side of the matrix instruction, its depth."""
SIZE = {"bf16": 2, "fp16": 2, "fp8": 1}
MODULO_GRIDS = {
    "gemm_tile": "four_wave",
    "gemm_tile_ping_pong": "ping_pong",
    "gemm_tile_single_buffer": "single_buffer",
}


@cache
def proved_schedule(
    name: str, dtype: str, shape: Shape, target: str = "gfx950"
) -> CompiledSchedule:
    """A schedule for this shape with all the synchronisation it needs."""
    if name == "single_buffer":
        return synchronize(compile_schedule(SingleBufferSpec().build()))
    bm, bn, bk, side, depth = shape
    if name in MODULO_GRIDS:
        tile = TileSpec(
            BM=bm, BN=bn, BK=bk, MMA_M=side, MMA_N=side, MMA_K=depth, elem_bytes=SIZE[dtype]
        )
        modulo = GemmTileSpec(
            kernel=MODULO_GRIDS[name], arch=target, geometry=tile, objectives=(), time_limit=None
        )
        return compile_schedule(modulo.build())
    geometry = GeometrySpec(
        BM=bm, BN=bn, BK=bk, MMA_M=side, MMA_N=side, MMA_K=depth, elem_bytes=SIZE[dtype]
    )
    spec = PingPongSpec if name == "ping_pong" else FourWaveSpec
    return synchronize(compile_schedule(spec(geometry=geometry).build()))


@cache
def built_kernel(
    name: str,
    dtype: str,
    shape: Shape,
    target: str = "gfx950",
    out_dtype: str | None = None,
    accumulators: str = "agpr",
) -> Launchable:
    """The emitted, assembled and loaded kernel."""
    geometry = None
    if name == "single_buffer":
        bm, bn, bk, side, _ = shape
        geometry = single_buffer_geometry(chip_for(target), dtype, BM=bm, BN=bn, BK=bk, side=side)
    emitted: EmittedKernel = emit_kernel(
        proved_schedule(name, dtype, shape, target),
        target=target,
        dtype=dtype,
        out_dtype=out_dtype,
        geometry=geometry,
        accumulators=accumulators,
    )
    return Launchable.load(emitted, assemble(emitted))


@pytest.fixture(scope="session")
def proved() -> Callable[..., CompiledSchedule]:
    """``proved(name, dtype, shape, target)``."""
    return proved_schedule


@pytest.fixture(scope="session")
def built() -> Callable[..., Launchable]:
    """``built(name, dtype, shape, target, out_dtype, accumulators)``."""
    return built_kernel
