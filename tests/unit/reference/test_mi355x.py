"""The MI355X profiles of section 2, field by field."""

from __future__ import annotations

from dataclasses import asdict

from pipeloom import (
    BlockSizing,
    FragOrder,
    LoopCarriedSpec,
    OpCost,
    OpRole,
    PipelineConfig,
    ResourceKind,
    WarpStaggerRule,
    mi355x_cost_model,
    mi355x_double_buffer,
    mi355x_single_buffer,
    mi355x_single_buffer_cost_model,
    mi355x_single_buffer_target,
    mi355x_target,
)

DOUBLE = PipelineConfig(
    depth=2,
    prefetch=1,
    drain_passes=2,
    prologue_fill=1,
    loop_carried=LoopCarriedSpec(OpRole.NONE, 0),
    block_sizing=BlockSizing(4, 2, 1),
    frag_order=FragOrder(True),
    m_mmas=2,
    n_mmas=2,
    num_partitions=2,
    mma_serial=True,
    mma_latency=16,
    vm_per_load_a=4,
    vm_per_load_b=4,
    ch0_match_field=0,
    ch1_match_field=1,
    warp_stagger=WarpStaggerRule(True, True, 0),
)
SINGLE = PipelineConfig(
    depth=1,
    prefetch=1,
    drain_passes=2,
    prologue_fill=0,
    loop_carried=LoopCarriedSpec(OpRole.FRAGMENT_LOAD, 0),
    block_sizing=BlockSizing(4, 2, 0),
    frag_order=FragOrder(True),
    m_mmas=2,
    n_mmas=2,
    num_partitions=1,
    mma_serial=True,
    mma_latency=16,
    vm_per_load_a=4,
    vm_per_load_b=4,
    ch0_match_field=0,
    ch1_match_field=1,
    warp_stagger=WarpStaggerRule(False, False, 0),
)


def test_pipelines() -> None:
    assert asdict(mi355x_double_buffer()) == asdict(DOUBLE)
    assert asdict(mi355x_single_buffer()) == asdict(SINGLE)


def test_double_buffer_costs() -> None:
    load = OpCost(ResourceKind.GLOBAL_MEM, 200, OpRole.GLOBAL_LOAD)
    mma = OpCost(ResourceKind.MMA_UNIT, 16, OpRole.COMPUTE, vgpr_def=4)
    fragment = OpCost(ResourceKind.LDS, 20, OpRole.FRAGMENT_LOAD, vgpr_def=8)
    assert mi355x_cost_model().entries == (
        (0, "LOAD_A", load),
        (1, "LOAD_B", load),
        (2, "COMPUTE", mma),
        (3, "MMA_LOAD_A", fragment),
        (4, "MMA_LOAD_B", fragment),
        (5, "MMA", mma),
    )


def test_single_buffer_costs() -> None:
    assert mi355x_single_buffer_cost_model().entries == (
        (0, "LOAD_DRAM", OpCost(ResourceKind.GLOBAL_MEM, 200, OpRole.GLOBAL_LOAD)),
        (1, "STORE_SMEM", OpCost(ResourceKind.LDS, 20, OpRole.SHARED_STORE)),
        (2, "LOAD_FRAG", OpCost(ResourceKind.LDS, 20, OpRole.FRAGMENT_LOAD, vgpr_def=4)),
        (3, "COMPUTE", OpCost(ResourceKind.MMA_UNIT, 64, OpRole.COMPUTE, vgpr_def=16)),
    )


def test_targets_pair_costs_and_pipeline() -> None:
    assert mi355x_target().pipeline == DOUBLE
    assert mi355x_target().cost_model == mi355x_cost_model()
    assert mi355x_single_buffer_target().pipeline == SINGLE
    assert mi355x_single_buffer_target().cost_model == mi355x_single_buffer_cost_model()


def test_target_arguments_in_order() -> None:
    pipeline = mi355x_target(2, 3, 0).pipeline
    assert (pipeline.vm_per_load_a, pipeline.vm_per_load_b) == (2, 3)
    assert pipeline.block_sizing == BlockSizing(4, 2, 0)
