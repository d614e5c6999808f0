"""The ping-pong matmul of section 3."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import (
    BlockSizing,
    DeclarativeSchedule,
    KernelGeometry,
    KOffsetKind,
    OpRole,
    OpTag,
    Phase,
    ScheduleConfig,
    SchedulingStrategy,
    StructureError,
    TargetProfile,
    WarpStaggerRule,
    compile_schedule,
    double_buffer_reorder,
    mi355x_cost_model,
    mi355x_double_buffer,
    mi355x_target,
)
from pipeloom.reference.tag_costs import annotate_ops


def test_defaults() -> None:
    schedule = DeclarativeSchedule()
    assert schedule.schedule_config() == ScheduleConfig(scheduling=SchedulingStrategy.CSP)
    assert schedule.config() == mi355x_double_buffer()
    assert schedule.is_fp8 is False
    assert schedule.geometry() is None
    assert schedule.name == "ping_pong"


def test_lgkm_arguments_override_the_given_knobs() -> None:
    knobs = ScheduleConfig(max_vgpr=99, lgkm_per_load_a=1, lgkm_per_load_b=2)
    schedule = DeclarativeSchedule(True, 8, 4, knobs)
    assert schedule.schedule_config() == replace(knobs, lgkm_per_load_a=8, lgkm_per_load_b=4)
    assert schedule.is_fp8 is True


def test_the_machine_comes_whole_or_in_two_parts() -> None:
    target = mi355x_target(2, 3, 0)
    whole = DeclarativeSchedule(target=target)
    parts = DeclarativeSchedule(hw_config=target.pipeline, cost_model=target.cost_model)
    assert whole.config() == parts.config() == target.pipeline
    assert whole.build_body() == parts.build_body()


def test_the_body_is_annotated_then_interleaved() -> None:
    schedule = DeclarativeSchedule()
    annotated = annotate_ops(schedule.declare_ops(), mi355x_cost_model())
    assert schedule.build_body() == double_buffer_reorder(annotated, schedule.config())


def test_latencies_come_from_the_cost_model() -> None:
    slow = mi355x_cost_model().with_latency({"MMA": 99})
    schedule = DeclarativeSchedule(target=TargetProfile(slow, mi355x_double_buffer()))
    assert {op.latency for op in schedule.build_body() if op.role is OpRole.COMPUTE} == {99}


def test_a_geometry_is_passed_on() -> None:
    shape = KernelGeometry.ping_pong(
        BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2
    )
    assert compile_schedule(DeclarativeSchedule(geometry=shape)).geometry == shape


def test_the_default_prologue() -> None:
    """Seven prefetch loads: four of stage 0, three of stage 1, drained stage by stage."""
    compiled = compile_schedule(DeclarativeSchedule(config=ScheduleConfig()))
    tags = [e.op.tag for e in compiled.prologue]
    assert tags.count(OpTag.WAIT_VM) == 2
    loads = [e.op for e in compiled.prologue if e.op.role is OpRole.GLOBAL_LOAD]
    assert [(op.stage, op.k_offset) for op in loads] == [(0, KOffsetKind.K0)] * 4 + [
        (1, KOffsetKind.K1)
    ] * 3
    assert {op.vm_cost for op in loads} == {4}
    assert {op.channel for op in loads} == {-1}
    assert compiled.warp_stagger_index == 4


def test_the_default_waits_with_lgkm_costs() -> None:
    """One A load in block 0 of each half; own-stage loads per half: 3 of vm 4, then 3."""
    compiled = compile_schedule(DeclarativeSchedule(lgkm_a=8, lgkm_b=4, config=ScheduleConfig()))
    assert compiled.program is not None
    blocks = compiled.program.blocks
    assert [b.pre_sync.wait_value if b.pre_sync else None for b in blocks] == [
        8,
        None,
        None,
        12,
    ] * 2


def test_epilogue_counts() -> None:
    compiled = compile_schedule(DeclarativeSchedule(config=ScheduleConfig()))
    kinds = [e.op.role for e in compiled.epilogue]
    assert kinds.count(OpRole.COMPUTE) == 8
    assert kinds.count(OpRole.FRAGMENT_LOAD) == 8
    assert kinds.count(OpRole.GLOBAL_LOAD) == 1  # the K_PREV completion load
    assert compiled.epilogue[-1].op.tag == OpTag.BARRIER
    assert compiled.counts(Phase.KERNEL).barriers == 16


def test_without_spreading_the_stagger_check_guards_the_order() -> None:
    """Sizes 4 and 3 put an own-stage load into block 1, and block 2 still reads that stage."""
    wide = mi355x_target().with_pipeline(block_sizing=BlockSizing(4, 3, 0))
    knobs = ScheduleConfig()
    with pytest.raises(StructureError, match="cross-block LDS race: block 1 issues"):
        compile_schedule(DeclarativeSchedule(config=knobs, target=wide))
    in_step = wide.with_pipeline(warp_stagger=WarpStaggerRule.none())
    compiled = compile_schedule(DeclarativeSchedule(config=knobs, target=in_step))
    assert compiled.warp_stagger_index == len(compiled.prologue) + 1
