"""Structural verification of section 6: each rule passes where it should, and fails once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import (
    BlockSizing,
    KOffsetKind,
    MMABlockSpec,
    OpDesc,
    OpRole,
    PipelineConfig,
    PipelineProgram,
    ScheduleConfig,
    StructureError,
    WarpStaggerRule,
    mi355x_double_buffer,
    verify_schedule,
)

K0, K_PREV = KOffsetKind.K0, KOffsetKind.K_PREV
MMA = OpDesc(5, role=OpRole.COMPUTE)
KNOBS = ScheduleConfig()


def load(channel: int, stage: int, k: KOffsetKind = K0) -> OpDesc:
    return OpDesc(channel, stage, 0, k, role=OpRole.GLOBAL_LOAD, channel=channel)


def frag(stage: int) -> OpDesc:
    return OpDesc(3, stage, role=OpRole.FRAGMENT_LOAD, channel=0)


def pipeline(
    max_globals: int = 0, *, stagger: bool = False, rotation: bool = False
) -> PipelineConfig:
    return replace(
        mi355x_double_buffer(),
        block_sizing=BlockSizing(4, 2, max_globals),
        warp_stagger=WarpStaggerRule.auto() if stagger else WarpStaggerRule.none(),
        cross_stage_rotation=rotation,
    )


def program() -> PipelineProgram:
    """Per half: a completion load and an own-stage fragment, then three own-stage loads."""
    blocks = []
    for h in (0, 1):
        blocks.append(MMABlockSpec(mma=MMA, fragments=(frag(h),), loads=(load(0, 1 - h),)))
        blocks += [MMABlockSpec(mma=MMA, loads=(load(0, h),)) for _ in range(3)]
    return PipelineProgram(tuple(blocks), 4)


def with_block(base: PipelineProgram, index: int, **changes: object) -> PipelineProgram:
    blocks = list(base.blocks)
    blocks[index] = replace(blocks[index], **changes)  # type: ignore[arg-type]
    return replace(base, blocks=tuple(blocks))


def test_a_sound_program_passes() -> None:
    verify_schedule(program(), pipeline(), KNOBS)
    verify_schedule(program(), pipeline(1, stagger=True), KNOBS)


def test_block_count() -> None:
    short = replace(program(), blocks=program().blocks[:-1])
    with pytest.raises(StructureError, match=r"7 blocks, but the configuration asks for 8"):
        verify_schedule(short, pipeline(), KNOBS)


def test_every_block_is_built_around_a_compute() -> None:
    with pytest.raises(StructureError, match=r"block 2 is built around FRAGMENT_LOAD"):
        verify_schedule(with_block(program(), 2, mma=frag(0)), pipeline(), KNOBS)


class TestFirstWait:
    KNOBS = ScheduleConfig(lgkm_per_load_a=4, lgkm_per_load_b=6)

    def test_reachable(self) -> None:
        ok = with_block(program(), 0, pre_sync=OpDesc.wait_lgkm(4))
        verify_schedule(ok, pipeline(), self.KNOBS)

    @pytest.mark.parametrize("half", [0, 1])
    @pytest.mark.parametrize("slot", ["pre_sync", "entry_wait_lgkm"])
    def test_out_of_reach(self, half: int, slot: str) -> None:
        bad = with_block(program(), 4 * half, **{slot: OpDesc.wait_lgkm(5)})
        message = rf"half {half} waits for lgkmcnt 5 .* issues only 4"
        with pytest.raises(StructureError, match=message):
            verify_schedule(bad, pipeline(), self.KNOBS)

    def test_hand_set_waits_are_not_checked(self) -> None:
        bad = with_block(program(), 0, pre_sync=OpDesc.wait_lgkm(99))
        verify_schedule(bad, pipeline(), replace(self.KNOBS, auto_waits=False))

    def test_without_costs_there_is_nothing_to_compare(self) -> None:
        bad = with_block(program(), 0, pre_sync=OpDesc.wait_lgkm(99))
        verify_schedule(bad, pipeline(), KNOBS)

    def test_a_vm_wait_is_not_an_lgkm_wait(self) -> None:
        """In a half of one block the last wait stands in the first block."""
        bad = with_block(program(), 0, pre_sync=OpDesc.wait_vm(99))
        verify_schedule(bad, pipeline(), self.KNOBS)


class TestSpread:
    def test_exactly_max_globals_where_there_are_enough(self) -> None:
        moved = with_block(program(), 1, loads=(load(0, 0), load(0, 0)))
        moved = with_block(moved, 2, loads=())
        with pytest.raises(StructureError, match=r"block 1 has 2 global loads.*asks for 1"):
            verify_schedule(moved, pipeline(1), KNOBS)
        verify_schedule(moved, pipeline(0), KNOBS)

    def test_too_few_loads_need_not_fill_every_block(self) -> None:
        verify_schedule(with_block(program(), 1, loads=()), pipeline(1), KNOBS)


class TestStages:
    def test_fragments_read_the_stage_of_their_half(self) -> None:
        bad = with_block(program(), 5, fragments=(frag(0),))
        with pytest.raises(StructureError, match=r"FRAGMENT_LOAD A.* in half 1 reads stage 0"):
            verify_schedule(bad, pipeline(), KNOBS)
        verify_schedule(bad, pipeline(rotation=True), KNOBS)

    def test_each_half_has_a_completion_load(self) -> None:
        bad = with_block(program(), 4, loads=(load(0, 1),))
        with pytest.raises(StructureError, match="half 1 has no completion load"):
            verify_schedule(bad, pipeline(), KNOBS)
        verify_schedule(bad, pipeline(rotation=True), KNOBS)


def test_at_least_one_prefetch() -> None:
    blocks = tuple(
        replace(b, loads=tuple(replace(op, k_offset=K_PREV) for op in b.loads))
        for b in program().blocks
    )
    with pytest.raises(StructureError, match="no global load prefetches"):
        verify_schedule(PipelineProgram(blocks, 4), pipeline(), KNOBS)


class TestStagger:
    def racing(self, index: int) -> PipelineProgram:
        """A fragment of the half's own stage right after block ``index``, which loads it."""
        return with_block(program(), index + 1, fragments=(frag(index // 4),))

    @pytest.mark.parametrize("index", [1, 2, 5, 6])
    def test_interior_blocks(self, index: int) -> None:
        with pytest.raises(StructureError, match=rf"cross-block LDS race: block {index} issues"):
            verify_schedule(self.racing(index), pipeline(stagger=True), KNOBS)

    @pytest.mark.parametrize("index", [1, 5])
    def test_only_with_stagger_and_without_max_globals(self, index: int) -> None:
        verify_schedule(self.racing(index), pipeline(stagger=False), KNOBS)
        verify_schedule(self.racing(index), pipeline(1, stagger=True), KNOBS)

    def test_the_first_block_and_other_stages_are_free(self) -> None:
        first = with_block(self.racing(0), 0, loads=(load(0, 0), load(0, 1)))
        verify_schedule(first, pipeline(stagger=True), KNOBS)
        other = with_block(self.racing(1), 1, loads=(load(0, 1),))
        verify_schedule(other, pipeline(stagger=True), KNOBS)
