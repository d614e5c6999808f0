"""What the ops of a schedule of your own touch, read from the ops themselves.

Role and channel say what an op does to which operand, stage and subtile where, ``k_offset`` which K
tile it brings, the pipeline's match fields which fragments an MMA reads:

    load B (stage 1, sub 0) K1    all waves fill region 0 of B in LDS stage 1, with the K tile + 1
    fragment B (stage 1, sub 0)   each wave reads its first part of B there, into fragment B0
    MMA (1, 0)                    fragment A1 times fragment B0, into accumulator (1, 0)

Ops do not say which waves there are. The pipeline does, by the kernels that it was written for: a
stagger is the ping-pong's, two groups of waves that each own rows of A; depth 2 in step is the
four-wave kernel's; depth 1 the single buffer's. ``reading`` says that in a sentence, for the notes
of a result. A tile says how many waves there are by what its loads count; where its counts fit no
grid of waves, the schedule's ``kernel`` hook is asked.
"""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.geometry import FOUR_WAVE_GRID, PING_PONG_GRID, KernelGeometry
from pipeloom.reference.kernels.grid import GridKernel
from pipeloom.reference.kernels.mapping import Kernel
from pipeloom.reference.kernels.single_buffer import SingleBufferKernel

DOUBLE_BUFFER = 2
_ALONG = (1, 2, 4, 8)
"""Waves along one side; a workgroup has at most 1024 threads, 16 waves."""
_MOST_WAVES = 16


def derived_kernel(compiled: CompiledSchedule) -> Kernel:
    """The kernel that the roles, channels and stages of ``compiled`` describe.

    Args:
        compiled: a schedule of the user's own.
    """
    if compiled.config.depth < DOUBLE_BUFFER:
        return SingleBufferKernel.for_schedule(compiled)
    staggered = compiled.config.warp_stagger.enabled
    usual = PING_PONG_GRID if staggered else FOUR_WAVE_GRID
    waves = usual if compiled.geometry is None else _waves(compiled, compiled.geometry, usual)
    return GridKernel.for_schedule(
        compiled, waves=waves, staggered=staggered, together=staggered, name=compiled.schedule
    )


def reading(config: PipelineConfig) -> str:
    """What is taken for granted about a schedule's waves, in a sentence.

    Args:
        config: the schedule's pipeline.
    """
    if config.depth < DOUBLE_BUFFER:
        like = "the single buffer's: four waves, registers between global memory and LDS"
    elif config.warp_stagger.enabled:
        like = "the ping-pong's: two groups, each wave's rows side by side"
    else:
        like = "the four-wave kernel's: all in step, each wave a slice of every region"
    return f"what ops touch follows from their roles, and the waves are {like}; kernel() overrides"


def _waves(
    compiled: CompiledSchedule, geometry: KernelGeometry, usual: tuple[int, int]
) -> tuple[int, int]:
    """The grid of waves whose loads count what the tile says; the usual one where that fits."""
    grid = (compiled.config.m_mmas, compiled.config.n_mmas)
    grids = [(m, n) for m in _ALONG for n in _ALONG if m * n <= _MOST_WAVES]
    fitting = [waves for waves in grids if geometry.fits(waves, grid)]
    if usual in fitting:
        return usual
    if len(fitting) == 1:
        return fitting[0]
    counts = ", ".join(
        f"{name}={getattr(geometry, name)}"
        for name in ("vm_per_load_a", "vm_per_load_b", "lgkm_per_load_a", "lgkm_per_load_b")
    )
    many = f"{len(fitting)} grids of waves" if fitting else "no grid of waves"
    raise ConfigError(
        f"{compiled.schedule}: the counts of its KernelGeometry ({counts}) fit {many}, so it is "
        "open which wave reads what",
        hint="build the geometry with KernelGeometry.four_wave(...) or .ping_pong(...), or say it "
        "in kernel(): return GridKernel.for_schedule(compiled, waves=(2, 2))",
        field="KernelGeometry.lgkm_per_load_a",
    )
