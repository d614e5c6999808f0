"""MI355X, as the specification's reference profile sees it.

The latencies (200 global, 20 LDS, 16 MMA) are the specification's scheduling heuristic, kept so
that its schedules reproduce; measured machine constants live in ``pipeloom.machine.gfx950``.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from pipeloom.reference.config import (
    BlockSizing,
    FragOrder,
    LoopCarriedSpec,
    PipelineConfig,
    TargetProfile,
    WarpStaggerRule,
)
from pipeloom.reference.ops import OpRole, ResourceKind
from pipeloom.reference.tag_costs import OpCost, TargetCostModel


class MatmulTag(IntEnum):
    """Op tags of the double-buffered matmuls."""

    LOAD_A = 0
    """Load half a tile of A from global memory to LDS."""
    LOAD_B = 1
    """Load half a tile of B from global memory to LDS."""
    COMPUTE = 2
    """Multiply, where one op stands for all MMAs."""
    MMA_LOAD_A = 3
    """Read a fragment of A from LDS."""
    MMA_LOAD_B = 4
    """Read a fragment of B from LDS."""
    MMA = 5
    """Multiply one quadrant."""


class SingleBufferTag(IntEnum):
    """Op tags of the single-buffered matmul."""

    LOAD_DRAM = 0
    """Load the next tile from global memory to registers."""
    STORE_SMEM = 1
    """Write it from registers to LDS."""
    LOAD_FRAG = 2
    """Read a fragment from LDS."""
    COMPUTE = 3
    """Multiply one K step."""


_GLOBAL = OpCost(ResourceKind.GLOBAL_MEM, 200, OpRole.GLOBAL_LOAD)


def mi355x_cost_model() -> TargetCostModel:
    """Costs of the double-buffered matmul ops."""
    fragment = OpCost(ResourceKind.LDS, 20, OpRole.FRAGMENT_LOAD, vgpr_def=8)
    mma = OpCost(ResourceKind.MMA_UNIT, 16, OpRole.COMPUTE, vgpr_def=4)
    costs = {
        MatmulTag.LOAD_A: _GLOBAL,
        MatmulTag.LOAD_B: _GLOBAL,
        MatmulTag.COMPUTE: mma,
        MatmulTag.MMA_LOAD_A: fragment,
        MatmulTag.MMA_LOAD_B: fragment,
        MatmulTag.MMA: mma,
    }
    return TargetCostModel({int(t): c for t, c in costs.items()}, {int(t): t.name for t in costs})


def mi355x_single_buffer_cost_model() -> TargetCostModel:
    """Costs of the single-buffered matmul ops."""
    costs = {
        SingleBufferTag.LOAD_DRAM: _GLOBAL,
        SingleBufferTag.STORE_SMEM: OpCost(ResourceKind.LDS, 20, OpRole.SHARED_STORE),
        SingleBufferTag.LOAD_FRAG: OpCost(ResourceKind.LDS, 20, OpRole.FRAGMENT_LOAD, vgpr_def=4),
        SingleBufferTag.COMPUTE: OpCost(ResourceKind.MMA_UNIT, 64, OpRole.COMPUTE, vgpr_def=16),
    }
    return TargetCostModel({int(t): c for t, c in costs.items()}, {int(t): t.name for t in costs})


def mi355x_double_buffer(
    vm_per_load_a: int = 4, vm_per_load_b: int = 4, max_globals: int = 1
) -> PipelineConfig:
    """Two LDS stages, two partitions of a 2x2 MMA grid, staggered wave groups.

    Args:
        vm_per_load_a: ``vmcnt`` entries of one load op of A.
        vm_per_load_b: ``vmcnt`` entries of one load op of B.
        max_globals: The most global loads of one block; 0 for no cap.
    """
    return replace(
        mi355x_single_buffer(),
        depth=2,
        prologue_fill=1,
        loop_carried=LoopCarriedSpec.none(),
        block_sizing=BlockSizing(4, 2, max_globals),
        num_partitions=2,
        vm_per_load_a=vm_per_load_a,
        vm_per_load_b=vm_per_load_b,
        warp_stagger=WarpStaggerRule.auto(),
    )


def mi355x_single_buffer() -> PipelineConfig:
    """One LDS stage; fragment 0 crosses the iteration boundary."""
    return PipelineConfig(
        depth=1,
        prefetch=1,
        drain_passes=2,
        prologue_fill=0,
        loop_carried=LoopCarriedSpec.fragment_zero(),
        block_sizing=BlockSizing(4, 2, 0),
        frag_order=FragOrder.b_first(),
        m_mmas=2,
        n_mmas=2,
        num_partitions=1,
        mma_serial=True,
        mma_latency=16,
        vm_per_load_a=4,
        vm_per_load_b=4,
        ch0_match_field=0,
        ch1_match_field=1,
        warp_stagger=WarpStaggerRule.none(),
    )


def mi355x_target(
    vm_per_load_a: int = 4, vm_per_load_b: int = 4, max_globals: int = 1
) -> TargetProfile:
    """The reference profile of the double-buffered matmuls.

    Args:
        vm_per_load_a: ``vmcnt`` entries of one load op of A.
        vm_per_load_b: ``vmcnt`` entries of one load op of B.
        max_globals: The most global loads of one block; 0 for no cap.
    """
    pipeline = mi355x_double_buffer(vm_per_load_a, vm_per_load_b, max_globals)
    return TargetProfile(mi355x_cost_model(), pipeline)


def mi355x_single_buffer_target() -> TargetProfile:
    """The reference profile of the single-buffered matmul."""
    return TargetProfile(mi355x_single_buffer_cost_model(), mi355x_single_buffer())
