"""The four-wave matmul of section 3, with register rotation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import (
    DepKind,
    KernelGeometry,
    KOffsetKind,
    OpDesc,
    OpRole,
    OpTag,
    Phase,
    Pipeline4Wave,
    ScheduleConfig,
    SchedulingStrategy,
    WarpStaggerRule,
    compile_schedule,
    derive_edges_from_ops,
    emit_minimal_barrier_block,
    mi355x_target,
)

SHAPE = KernelGeometry.four_wave(BM=256, BN=128, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2)
SCHEDULE = Pipeline4Wave(SHAPE)
COMPILED = compile_schedule(SCHEDULE)
FORCED = {
    "scheduling": SchedulingStrategy.IDENTITY,
    "minimal_barriers": True,
    "omit_mma_set_prio": True,
    "inter_block_lgkm_drain": True,
    "partial_prologue_drain": True,
}


def test_default_config() -> None:
    assert SCHEDULE.schedule_config() == ScheduleConfig(**FORCED)  # type: ignore[arg-type]


def test_five_knobs_are_forced_and_the_others_kept() -> None:
    knobs = ScheduleConfig(
        scheduling=SchedulingStrategy.CSP, wrap_waits_with_sched_barrier=True, auto_waits=False
    )
    forced = replace(knobs, **FORCED)  # type: ignore[arg-type]
    assert Pipeline4Wave(SHAPE, knobs).schedule_config() == forced


def test_the_pipeline_is_changed_in_four_fields() -> None:
    assert SHAPE.lgkm_per_load_a != SHAPE.lgkm_per_load_b
    assert SCHEDULE.config() == replace(
        mi355x_target().pipeline,
        warp_stagger=WarpStaggerRule.none(),
        lgkm_per_load_a=SHAPE.lgkm_per_load_a,
        lgkm_per_load_b=SHAPE.lgkm_per_load_b,
        cross_stage_rotation=True,
    )


def test_body_is_declared_in_mini_iterations_and_not_reordered() -> None:
    expected: list[tuple[int, int, int, int, KOffsetKind]] = []
    no = KOffsetKind.NONE
    for p, k in ((0, KOffsetKind.K0), (1, KOffsetKind.K1)):
        o = 1 - p
        expected += [(0, 0, p, 0, k), (4, 1, p, 1, no), (5, -1, 0, 0, no)]
        expected += [(1, 1, p, 0, k), (3, 0, p, 1, no), (5, -1, 0, 1, no)]
        expected += [(1, 1, p, 1, k), (3, 0, o, 0, no), (5, -1, 1, 0, no)]
        expected += [(0, 0, p, 1, k), (4, 1, o, 0, no), (5, -1, 1, 1, no)]
    body = SCHEDULE.build_body()
    assert [(o.tag, o.channel, o.stage, o.subtile, o.k_offset) for o in body] == expected
    assert {op.latency for op in body} == {200, 20, 16}


def test_bootstrap_fragments_set_nothing_else() -> None:
    role = OpRole.FRAGMENT_LOAD
    assert SCHEDULE.bootstrap_frags() == [
        OpDesc(3, channel=0, role=role),
        OpDesc(4, channel=1, role=role),
    ]


def test_edges_are_the_default_ones_less_spurious_plus_rotation() -> None:
    body = SCHEDULE.build_body()
    default = derive_edges_from_ops(body, SCHEDULE.config())
    edges = SCHEDULE.derive_edges(body)
    # the generic first rule already asks for a fragment of the half's own stage: nothing spurious
    # is left to drop; 4 rotating fragments x (2 MMAs here ANTI + 2 there FLOW) are added
    added = [e for e in edges if e not in default]
    assert [e for e in default if e not in edges] == []
    assert len(added) == 16
    assert sum(e.kind is DepKind.ANTI for e in added) == 8
    assert {e.loop_distance for e in added if e.kind is DepKind.FLOW} == {0, 1}


def test_every_block_is_emitted_with_minimal_barriers() -> None:
    assert COMPILED.program is not None
    ops = [op for b in COMPILED.program.blocks for op in emit_minimal_barrier_block(b)]
    assert [e.op for e in COMPILED.kernel] == ops
    assert not any(e.is_prefetch for e in COMPILED.kernel)


def test_kernel_has_a_barrier_only_where_an_entry_wait_needs_one() -> None:
    counts = COMPILED.counts(Phase.KERNEL)
    assert counts.barriers == 4  # the top and the first rotating fragment of each half
    tags = [e.op.tag for e in COMPILED.kernel]
    assert OpTag.SET_PRIO not in tags
    # 8 loads of vm 4: V = 32, main wait 16, four times, and the last wait of each half
    waits = [e.op.wait_value for e in COMPILED.kernel if e.op.tag == OpTag.WAIT_VM]
    assert waits == [16, 16, 16] * 2


def test_prologue_leaves_loads_in_flight() -> None:
    tags = [(e.op.tag, e.op.wait_value) for e in COMPILED.prologue]
    assert [tag for tag, _ in tags[:8]] == [0, 1, 1, 0, 0, 1, 1, 0]
    # bootstrap A waits for the first load, bootstrap B for the second
    assert tags[8:] == [(129, 28), (128, 0), (3, 0), (129, 24), (128, 0), (4, 0)]
    assert COMPILED.warp_stagger_index == len(COMPILED.prologue) + 1


@pytest.mark.parametrize("wrap", [False, True])
def test_wrapping_follows_the_given_knob(wrap: bool) -> None:
    knobs = ScheduleConfig(wrap_waits_with_sched_barrier=wrap)
    kernel = compile_schedule(Pipeline4Wave(SHAPE, knobs)).kernel
    assert (kernel[0].op.tag == OpTag.SCHEDULE_BARRIER) is wrap
