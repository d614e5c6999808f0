"""Section 2 of the specification: defaults, factories, groups and derived counts."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict, fields, replace
from typing import Any

import pytest

from pipeloom import (
    BarrierStrategy,
    BlockSizing,
    FragOrder,
    LoadStrategy,
    LoopCarriedSpec,
    OpDesc,
    OpRole,
    PipelineConfig,
    ScheduleConfig,
    SchedulingStrategy,
    TargetProfile,
    WaitStrategy,
    WarpStaggerRule,
    mi355x_cost_model,
    mi355x_double_buffer,
)

SCHEDULE_DEFAULTS = {
    "scheduling": SchedulingStrategy.IDENTITY,
    "sched_barrier_mask": 0b01010101,
    "auto_waits": True,
    "drain_lgkm_mask": 0,
    "auto_drain": False,
    "lds_contention_penalty": 0,
    "wait_lgkm_first": 8,
    "wait_vm_last": 6,
    "lgkm_per_load_a": 0,
    "lgkm_per_load_b": 0,
    "lgkm_after_last": False,
    "minimal_barriers": False,
    "omit_mma_set_prio": False,
    "max_vgpr": 999999,
    "global_before_frag": False,
    "barrier_before_pre_ops": False,
    "inter_block_lgkm_drain": False,
    "partial_prologue_drain": False,
    "wrap_waits_with_sched_barrier": False,
}


def test_schedule_config_defaults() -> None:
    assert asdict(ScheduleConfig()) == SCHEDULE_DEFAULTS


def test_schedule_config_is_keyword_only_and_frozen() -> None:
    with pytest.raises(TypeError):
        ScheduleConfig(SchedulingStrategy.CSP)  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        ScheduleConfig().auto_waits = False  # type: ignore[misc]


def test_scheduling_strategies() -> None:
    assert [s.name for s in SchedulingStrategy][:3] == ["IDENTITY", "GREEDY", "CSP"]


def test_factories_of_the_small_values() -> None:
    assert LoopCarriedSpec.fragment_zero() == LoopCarriedSpec(OpRole.FRAGMENT_LOAD, 0)
    assert LoopCarriedSpec.none() == LoopCarriedSpec(OpRole.NONE, 0)
    assert BlockSizing.default_2x2() == BlockSizing(4, 2, 0)
    assert BlockSizing.uniform(3) == BlockSizing(3, 3, 0)
    assert FragOrder.b_first() == FragOrder(True)
    assert FragOrder.a_first() == FragOrder(False)
    assert WarpStaggerRule.none() == WarpStaggerRule(False, False, 0)
    assert WarpStaggerRule.auto() == WarpStaggerRule(True, True, 0)
    assert WarpStaggerRule.fixed(5) == WarpStaggerRule(True, False, 5)


def test_pipeline_config_fields_and_their_defaults() -> None:
    names = [f.name for f in fields(PipelineConfig)]
    assert names == [
        "depth",
        "prefetch",
        "drain_passes",
        "prologue_fill",
        "loop_carried",
        "block_sizing",
        "frag_order",
        "m_mmas",
        "n_mmas",
        "num_partitions",
        "mma_serial",
        "mma_latency",
        "vm_per_load_a",
        "vm_per_load_b",
        "ch0_match_field",
        "ch1_match_field",
        "warp_stagger",
        "lgkm_per_load_a",
        "lgkm_per_load_b",
        "cross_stage_rotation",
    ]
    base = mi355x_double_buffer()
    assert (base.lgkm_per_load_a, base.lgkm_per_load_b) == (0, 0)
    assert base.cross_stage_rotation is False


def shaped(m: int, n: int, partitions: int) -> PipelineConfig:
    return replace(mi355x_double_buffer(), m_mmas=m, n_mmas=n, num_partitions=partitions)


@pytest.mark.parametrize(
    ("m", "n", "p", "mmas", "loads", "ops", "total", "blocks", "edges"),
    [
        # g = m+n; edges = p*2*m*n + 2*m*n + p*g*2 + (2g-1)*2, each worked by hand
        (2, 2, 2, 4, 4, 12, 24, 8, 16 + 8 + 16 + 14),
        (1, 1, 1, 1, 2, 5, 5, 1, 2 + 2 + 4 + 6),
        (3, 2, 2, 6, 5, 16, 32, 12, 24 + 12 + 20 + 18),
        (4, 4, 3, 16, 8, 32, 96, 48, 96 + 32 + 48 + 30),
    ],
)
def test_derived_counts(
    m: int, n: int, p: int, mmas: int, loads: int, ops: int, total: int, blocks: int, edges: int
) -> None:
    config = shaped(m, n, p)
    assert config.mmas_per_partition() == mmas
    assert config.globals_per_partition() == loads
    assert config.frags_per_partition() == loads
    assert config.ops_per_partition() == ops
    assert config.total_ops() == total
    assert config.blocks_per_partition() == mmas
    assert config.total_blocks() == blocks
    assert config.total_edges() == edges


def test_match_key_is_the_row_where_the_field_is_0_and_else_the_column() -> None:
    config = replace(mi355x_double_buffer(), ch0_match_field=0, ch1_match_field=1)
    mma = OpDesc(5, stage=2, subtile=3)
    assert config.compute_match_key(mma, 0) == 2
    assert config.compute_match_key(mma, 1) == 3
    swapped = replace(config, ch0_match_field=1, ch1_match_field=0)
    assert swapped.compute_match_key(mma, 0) == 3
    assert swapped.compute_match_key(mma, 1) == 2


def test_costs_per_channel() -> None:
    config = replace(mi355x_double_buffer(3, 5), lgkm_per_load_a=7, lgkm_per_load_b=9)
    assert (config.vm_per_channel(0), config.vm_per_channel(1)) == (3, 5)
    assert (config.lgkm_per_channel(0), config.lgkm_per_channel(1)) == (7, 9)


def test_barrier_strategy() -> None:
    assert asdict(BarrierStrategy.default()) == {
        "minimal": False,
        "omit_set_prio": False,
        "sched_barrier_mask": 0b01010101,
        "wrap_waits_sched_barrier": False,
        "barrier_before_pre_ops": False,
    }
    assert BarrierStrategy.minimal_no_set_prio() == BarrierStrategy(True, True, 0, False, False)
    assert BarrierStrategy.minimal_no_set_prio(
        sched_barrier_mask=0xFF, wrap_waits=True, barrier_before_pre_ops=True
    ) == BarrierStrategy(True, True, 0xFF, True, True)


def test_wait_strategy() -> None:
    default = {
        "auto_waits": True,
        "drain_lgkm_mask": 0,
        "auto_drain": False,
        "wait_lgkm_first": 8,
        "wait_vm_last": 6,
        "lgkm_after_last": False,
        "inter_block_lgkm_drain": False,
        "partial_prologue_drain": False,
    }
    assert asdict(WaitStrategy.default()) == default
    drained = {**default, "inter_block_lgkm_drain": True}
    assert asdict(WaitStrategy.auto_with_inter_block_drain()) == drained
    assert asdict(WaitStrategy.auto_with_inter_block_drain(partial_prologue_drain=True)) == {
        **drained,
        "partial_prologue_drain": True,
    }


def test_load_strategy() -> None:
    assert asdict(LoadStrategy.default()) == {
        "global_before_frag": False,
        "lgkm_per_load_a": 0,
        "lgkm_per_load_b": 0,
    }


def test_from_strategies_of_nothing_is_the_default() -> None:
    assert ScheduleConfig.from_strategies() == ScheduleConfig()
    defaults = (BarrierStrategy.default(), WaitStrategy.default(), LoadStrategy.default())
    assert ScheduleConfig.from_strategies(*defaults) == ScheduleConfig()


def test_from_strategies_carries_every_field_of_every_group() -> None:
    config = ScheduleConfig.from_strategies(
        BarrierStrategy(True, True, 3, True, True),
        waits=WaitStrategy(False, 5, True, 1, 2, True, True, True),
        loads=LoadStrategy(True, 7, 9),
        scheduling=SchedulingStrategy.GREEDY,
        max_vgpr=128,
        lds_contention_penalty=4,
    )
    assert asdict(config) == {
        "scheduling": SchedulingStrategy.GREEDY,
        "sched_barrier_mask": 3,
        "auto_waits": False,
        "drain_lgkm_mask": 5,
        "auto_drain": True,
        "lds_contention_penalty": 4,
        "wait_lgkm_first": 1,
        "wait_vm_last": 2,
        "lgkm_per_load_a": 7,
        "lgkm_per_load_b": 9,
        "lgkm_after_last": True,
        "minimal_barriers": True,
        "omit_mma_set_prio": True,
        "max_vgpr": 128,
        "global_before_frag": True,
        "barrier_before_pre_ops": True,
        "inter_block_lgkm_drain": True,
        "partial_prologue_drain": True,
        "wrap_waits_with_sched_barrier": True,
    }


def test_a_plain_value_wins_over_its_group() -> None:
    config = ScheduleConfig.from_strategies(WaitStrategy(wait_vm_last=2), wait_vm_last=3)
    assert config.wait_vm_last == 3


def test_a_plain_value_wins_even_where_it_is_the_default() -> None:
    minimal = BarrierStrategy.minimal_no_set_prio()
    config = ScheduleConfig.from_strategies(minimal, omit_mma_set_prio=False)
    assert (config.minimal_barriers, config.omit_mma_set_prio) == (True, False)


@pytest.mark.parametrize(
    "group",
    [
        BarrierStrategy(True, True, 3, True, True),
        BarrierStrategy.minimal_no_set_prio(sched_barrier_mask=7, wrap_waits=True),
        WaitStrategy(False, 5, True, 1, 2, True, True, True),
        WaitStrategy.auto_with_inter_block_drain(partial_prologue_drain=True),
        LoadStrategy(True, 7, 9),
    ],
    ids=lambda group: type(group).__name__,
)
def test_a_group_spreads_into_what_it_is_passed_as(group: Any) -> None:
    passed = ScheduleConfig.from_strategies(group)
    assert ScheduleConfig.from_strategies(**group) == ScheduleConfig(**group) == passed
    with pytest.raises(KeyError):
        group["minimal"]


def test_target_profile_replaces_pipeline_fields_in_a_copy() -> None:
    target = TargetProfile(mi355x_cost_model(), mi355x_double_buffer())
    changed = target.with_pipeline(vm_per_load_a=9)
    assert changed.pipeline == replace(target.pipeline, vm_per_load_a=9)
    assert changed.cost_model == target.cost_model
    assert target.pipeline.vm_per_load_a == 4
