"""Kernels of shipped schedules and loops, made once per session, and how to run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pipeloom import compile_schedule, load_spec, target_for
from pipeloom.drive.loops import BlockSpec, GemmTileSpec
from pipeloom.drive.trial import Launchable, Trial, run_program
from pipeloom.judge.verify import Status
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.lift import lift
from pipeloom.reference.resync import synchronize
from pipeloom.write import EmittedKernel, assemble, emit_program

Shape = tuple[int, int, int, int, int]
"""BM, BN, BK, side of the matrix instruction, its depth."""
SIZE = {"bf16": 2, "fp16": 2, "fp8": 1}


@dataclass
class Waved:
    """A verdict that lets anything through."""

    status: Status = Status.PROVED
    findings: Sequence[Any] = ()


def wave_through(program: Program) -> Waved:
    """In place of the verifier."""
    return Waved()


@cache
def proved_schedule(name: str, dtype: str, shape: Shape) -> CompiledSchedule:
    """A schedule for this shape with all the synchronisation it needs."""
    bm, bn, bk, side, depth = shape
    geometry = {"BM": bm, "BN": bn, "BK": bk, "MMA_M": side, "MMA_N": side, "MMA_K": depth}
    spec = {"schedule": name, "geometry": {**geometry, "elem_bytes": SIZE[dtype]}}
    return synchronize(compile_schedule(load_spec(spec)))


def program_of(
    compiled: CompiledSchedule, dtype: str, target: str = "gfx950", out: str | None = None
) -> Program:
    """Its program, with these types."""
    assert compiled.geometry is not None
    chip = target_for(target)
    stored = out or ("f32" if dtype == "fp8" else dtype)
    return lift(compiled, target=chip, dtype=dtype, out=stored)


@cache
def built_program(
    name: str, dtype: str, shape: Shape, target: str = "gfx950", out: str | None = None
) -> Program:
    """Of a schedule, or of gemm_tile, which chooses its matrix instruction itself."""
    if name.startswith("gemm_tile"):
        block = BlockSpec(BM=shape[0], BN=shape[1], BK=shape[2])
        kernel = name.removeprefix("gemm_tile_") if name != "gemm_tile" else "four_wave"
        spec = GemmTileSpec(kernel=kernel, arch=target, dtype=dtype, out=out, geometry=block)
        return spec.build().program()
    return program_of(proved_schedule(name, dtype, shape), dtype, target, out)


@cache
def built_kernel(
    name: str, dtype: str, shape: Shape, target: str = "gfx950", out: str | None = None
) -> Launchable:
    """The emitted, assembled and loaded kernel."""
    return ready(emit_program(built_program(name, dtype, shape, target, out)))


def ready(emitted: EmittedKernel) -> Launchable:
    """Assembled and loaded."""
    return Launchable.load(emitted, assemble(emitted))


def run(kernel: Launchable, m: int, n: int, trips: int = 1, **options: Any) -> Trial:
    """One run over so many trips of the loop."""
    launch = kernel.emitted.launch
    sizes = {"m": m, "n": n, "k": launch.least + trips * launch.step}
    return run_program(kernel.emitted, kernel, sizes=sizes, **options)
