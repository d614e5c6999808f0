"""auto_waits and auto_drain of section 6, on blocks worked by hand."""

from __future__ import annotations

from dataclasses import replace

from pipeloom import (
    KOffsetKind,
    MMABlockSpec,
    OpDesc,
    OpRole,
    PipelineConfig,
    ScheduleConfig,
    derive_drain_mask,
    derive_waits_from_blocks,
    mi355x_double_buffer,
)

K0 = KOffsetKind.K0
MMA = OpDesc(5, role=OpRole.COMPUTE)
A0, B0 = (OpDesc(3 + c, role=OpRole.FRAGMENT_LOAD, channel=c) for c in (0, 1))


def load(channel: int, stage: int) -> OpDesc:
    return OpDesc(channel, stage, 0, K0, role=OpRole.GLOBAL_LOAD, channel=channel)


def block(*loads: OpDesc, fragments: tuple[OpDesc, ...] = ()) -> MMABlockSpec:
    return MMABlockSpec(mma=MMA, fragments=fragments, loads=loads)


def pipeline(lgkm_a: int = 0, lgkm_b: int = 0) -> PipelineConfig:
    """Halves of 1x3 blocks, vm 2 per A load and 5 per B load."""
    return replace(
        mi355x_double_buffer(2, 5),
        m_mmas=1,
        n_mmas=3,
        lgkm_per_load_a=lgkm_a,
        lgkm_per_load_b=lgkm_b,
    )


BLOCKS = [
    # half 0: block 0 has one A load of the other stage; own-stage loads cost 2 + 5
    block(load(0, 1)),
    block(load(0, 0)),
    block(load(1, 0)),
    # half 1: block 0 has an A and a B load, both of its own stage; own-stage cost 2 + 5 + 5
    block(load(0, 1), load(1, 1)),
    block(load(1, 1)),
    block(load(0, 0)),
]


def waits(
    blocks: list[MMABlockSpec], config: PipelineConfig, knobs: ScheduleConfig
) -> list[OpDesc | None]:
    return [b.pre_sync for b in derive_waits_from_blocks(blocks, config, knobs)]


def test_first_wait_is_the_largest_and_last_wait_the_smallest_over_halves() -> None:
    knobs = ScheduleConfig(lgkm_per_load_a=3, lgkm_per_load_b=4)
    first, last = OpDesc.wait_lgkm(3 + 4), OpDesc.wait_vm(2 + 5)
    assert waits(BLOCKS, pipeline(), knobs) == [first, None, last] * 2


def test_the_pipelines_lgkm_costs_come_before_the_schedules_channel_by_channel() -> None:
    knobs = ScheduleConfig(lgkm_per_load_a=3, lgkm_per_load_b=4)
    assert waits(BLOCKS, pipeline(lgkm_a=10), knobs)[0] == OpDesc.wait_lgkm(10 + 4)
    assert waits(BLOCKS, pipeline(lgkm_b=10), knobs)[0] == OpDesc.wait_lgkm(3 + 10)
    assert waits(BLOCKS, pipeline(), ScheduleConfig())[0] == OpDesc.wait_lgkm(0)


def test_barrier_before_pre_ops_waits_for_everything() -> None:
    knobs = ScheduleConfig(lgkm_per_load_a=3, barrier_before_pre_ops=True)
    assert waits(BLOCKS, pipeline(), knobs) == [OpDesc.wait_lgkm(0), None, OpDesc.wait_vm(7)] * 2


def test_minimal_barriers_move_the_first_wait_to_the_entry_where_there_is_one() -> None:
    knobs = ScheduleConfig(lgkm_per_load_a=3, minimal_barriers=True)
    guarded = [replace(BLOCKS[0], entry_wait=OpDesc.wait_vm(9), pre_sync=OpDesc.wait_vm(1))]
    result = derive_waits_from_blocks([*guarded, *BLOCKS[1:]], pipeline(), knobs)
    assert result[0].entry_wait_lgkm == OpDesc.wait_lgkm(3)
    assert result[0].pre_sync is None
    # half 1 has no entry wait
    assert result[3].entry_wait_lgkm is None
    assert result[3].pre_sync == OpDesc.wait_lgkm(3)
    # without minimal_barriers an entry wait changes nothing
    full = derive_waits_from_blocks(guarded + BLOCKS[1:], pipeline(), ScheduleConfig())
    assert full[0].pre_sync == OpDesc.wait_lgkm(0)
    assert full[0].entry_wait_lgkm is None


def test_a_half_without_own_stage_loads_waits_for_all() -> None:
    blocks = [block(load(0, 1)), block(), block(), *BLOCKS[3:]]
    assert waits(blocks, pipeline(), ScheduleConfig())[2] == OpDesc.wait_vm(0)


def test_in_a_half_of_one_block_the_last_wait_wins() -> None:
    config = replace(pipeline(), n_mmas=1)
    assert (
        waits([block(load(0, 0)), block(load(0, 1))], config, ScheduleConfig())
        == [OpDesc.wait_vm(2)] * 2
    )


def test_other_flags_stay() -> None:
    start = [replace(b, drain_before_loads=True, wrap_waits=True) for b in BLOCKS]
    for before, after in zip(
        start, derive_waits_from_blocks(start, pipeline(), ScheduleConfig()), strict=True
    ):
        assert replace(after, pre_sync=None) == replace(before, pre_sync=None)


def test_auto_drain_looks_at_the_first_load_only_and_at_every_fragment() -> None:
    blocks = [
        block(load(0, 0), fragments=(A0,)),
        block(load(0, 0), fragments=(B0,)),
        block(load(0, 0), fragments=(A0, B0)),
        block(load(0, 0), load(1, 0), fragments=(A0,)),
        block(fragments=(A0, B0)),
        block(load(0, 0)),
    ]
    drained = [b.drain_before_loads for b in derive_drain_mask(blocks)]
    assert drained == [False, True, True, False, False, False]


def test_auto_drain_replaces_every_bit() -> None:
    set_everywhere = [replace(b, drain_before_loads=True) for b in BLOCKS]
    assert not any(b.drain_before_loads for b in derive_drain_mask(set_everywhere))
