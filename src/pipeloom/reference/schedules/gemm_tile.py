"""The modulo matmul: one K tile is declared; depth, buffers and phases are derived.

The wave grids are those of the specification's kernels: ``four_wave`` (one wave per SIMD),
``ping_pong`` (eight waves, two per SIMD) and ``single_buffer`` (staged through registers). What the
specification fixes by hand, the LDS stages and an order for them, follows here from the machine's
costs and budgets.

    compiled = compile_schedule(GemmTileSchedule(tile, target_for("gfx950")))
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.checks import check_instance, nearest
from pipeloom.errors import ConfigError
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.order.modulo import Budget, Objective
from pipeloom.reference.config import (
    BlockSizing,
    FragOrder,
    LoopCarriedSpec,
    PipelineConfig,
    ScheduleConfig,
    SchedulingStrategy,
    WarpStaggerRule,
)
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import DepEdge
from pipeloom.reference.ops import OpDesc
from pipeloom.reference.pipelining import DEFAULT_OBJECTIVES, PipeliningGoal, TileLoop
from pipeloom.reference.schedules.gemm_loop import gemm_tile_loop
from pipeloom.reference.schedules.staged_loop import staged_tile_loop
from pipeloom.reference.tile import FOUR_WAVE_GRID, GRIDS, GemmTile

WORK_LIMIT = 10.0
"""Units of about a second, the same on every machine; a search that has not ended by then keeps
the best so far and says so in a note."""


class GemmTileSchedule(PipelineSchedule):
    """A matmul pipelined to the smallest II that the machine and the budgets allow.

    ``budget`` tightens the machine's registers and LDS, and limits the stages; ``global_latency``
    plans for another latency than the machine's; ``k_tiles`` is the K it is for, in tiles;
    ``objectives`` are what to improve at the smallest II, in order.
    """

    def __init__(
        self,
        tile: GemmTile,
        machine: Target,
        *,
        budget: Budget | None = None,
        global_latency: int | None = None,
        k_tiles: int | None = None,
        objectives: tuple[Objective, ...] = DEFAULT_OBJECTIVES,
        work_limit: float | None = WORK_LIMIT,
        time_limit: float | None = None,
    ) -> None:
        check_instance("GemmTileSchedule", "tile", tile, GemmTile)
        check_instance("GemmTileSchedule", "machine", machine, Target)
        self.tile = tile
        self.machine = machine
        declare = staged_tile_loop if tile.grid.staged else gemm_tile_loop
        self.loop: TileLoop = declare(tile, machine, budget, global_latency)
        self._goal = PipeliningGoal(
            loop=self.loop,
            k_tiles=k_tiles,
            objectives=objectives,
            work_limit=work_limit,
            time_limit=time_limit,
        )

    @property
    def name(self) -> str:
        """``gemm_tile``; other wave grids add their name."""
        grid = self.tile.grid
        return "gemm_tile" if grid is FOUR_WAVE_GRID else f"gemm_tile_{grid.name}"

    def config(self) -> PipelineConfig:
        """The shape, before its depth is known: one buffer, one tile per trip."""
        tile = self.tile
        return PipelineConfig(
            depth=1,
            prefetch=0,
            drain_passes=0,
            prologue_fill=0,
            loop_carried=LoopCarriedSpec.none(),
            block_sizing=BlockSizing.default_2x2(),
            frag_order=FragOrder.a_first(),
            m_mmas=tile.m,
            n_mmas=tile.n,
            num_partitions=1,
            mma_serial=True,
            mma_latency=self.loop.ops[-1].cycles.latency,
            vm_per_load_a=tile.load_entries("A"),
            vm_per_load_b=tile.load_entries("B"),
            ch0_match_field=0,
            ch1_match_field=1,
            warp_stagger=WarpStaggerRule.none(),
            lgkm_per_load_a=tile.fragment_reads("A"),
            lgkm_per_load_b=tile.fragment_reads("B"),
        )

    def schedule_config(self) -> ScheduleConfig:
        """Strategy MODULO; no other knob applies."""
        return ScheduleConfig(scheduling=SchedulingStrategy.MODULO, sched_barrier_mask=0)

    def build_body(self) -> list[OpDesc]:
        """One K tile, buffers and registers not yet assigned."""
        return [op.desc for op in self.loop.ops]

    def derive_edges(self, body: object) -> list[DepEdge]:
        """The declared dependences; reuse of buffers is the channels' business."""
        return list(self.loop.edges)

    def pipelining(self) -> PipeliningGoal:
        """The loop to pipeline."""
        return self._goal

    def geometry(self) -> KernelGeometry:
        """The tile shape with its counter costs."""
        return self.tile.geometry()

    def arch(self) -> str:
        """The machine whose costs and instruction widths the schedule is made of."""
        return self.machine.arch


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpec:
    """Limits below the machine's own; LDS in bytes, registers per lane for fragments."""

    registers: int | None = None
    lds: int | None = None
    stages: int | None = None

    def build(self) -> Budget:
        """As the solver takes it."""
        return Budget(self.registers, self.lds, self.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSpec:
    """A tile shape; the MMA shape is the machine's 16x16 one for the element size by default.

    m x n quadrants: 2 x 2, or 1 x 1 where a tile is staged through registers.
    """

    BM: int = 256
    BN: int = 256
    BK: int | None = None
    MMA_M: int = 16
    MMA_N: int = 16
    MMA_K: int | None = None
    elem_bytes: int = 2
    m: int | None = None
    n: int | None = None


DEFAULT_BK = {("gfx950", 2): 64, ("gfx950", 1): 128, ("gfx942", 2): 32, ("gfx942", 1): 64}
"""BK where none is given: two K tiles fill the LDS that a 256x256 tile leaves room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmTileSpec:
    """Modulo matmul: depth, buffers and order derived from one declared K tile."""

    kernel: str = "four_wave"
    arch: str = "gfx950"
    geometry: TileSpec = TileSpec()
    budget: BudgetSpec = BudgetSpec()
    global_latency: int | None = None
    k_tiles: int | None = None
    objectives: tuple[Objective, ...] = DEFAULT_OBJECTIVES
    work_limit: float | None = WORK_LIMIT
    time_limit: float | None = None

    def build(self) -> GemmTileSchedule:
        """The schedule it describes."""
        if self.kernel not in GRIDS:
            raise ConfigError(
                f"kernel is {self.kernel!r}, which is not a wave grid",
                hint=nearest(self.kernel, GRIDS),
                field="kernel",
            )
        machine = target_for(self.arch)
        shape = self.geometry
        grid = GRIDS[self.kernel]
        quadrants = 1 if grid.staged else 2
        tile = GemmTile(
            BM=shape.BM,
            BN=shape.BN,
            BK=shape.BK or DEFAULT_BK.get((machine.arch, shape.elem_bytes), 64),
            MMA_M=shape.MMA_M,
            MMA_N=shape.MMA_N,
            MMA_K=shape.MMA_K or _widest_k(machine, shape),
            elem_bytes=shape.elem_bytes,
            m=shape.m or quadrants,
            n=shape.n or quadrants,
            grid=grid,
            dma_bytes=machine.dma_max_bytes_per_lane.value,
        )
        return GemmTileSchedule(
            tile,
            machine,
            budget=self.budget.build(),
            global_latency=self.global_latency,
            k_tiles=self.k_tiles,
            objectives=self.objectives,
            work_limit=self.work_limit,
            time_limit=self.time_limit,
        )


def _widest_k(machine: Target, shape: TileSpec) -> int:
    """K of the machine's widest plain matrix instruction of this MMA_M x MMA_N and type."""
    dtype = {1: "fp8", 2: "f16", 4: "f32"}.get(shape.elem_bytes)
    found = [
        op.k
        for op in machine.matrix_ops
        if (op.m, op.n, op.dtype, op.scaled) == (shape.MMA_M, shape.MMA_N, dtype, False)
    ]
    if not found:
        raise ConfigError(
            f"{machine.arch} has no {shape.MMA_M}x{shape.MMA_N} matrix instruction for elements "
            f"of {shape.elem_bytes} byte(s)",
            hint="its instructions: " + ", ".join(op.name for op in machine.matrix_ops),
            field="geometry",
        )
    return max(found)
