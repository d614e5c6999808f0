"""Section 6 of the specification: block flags case by case, and redistribution."""

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
    ScheduleConfig,
    StructureError,
    WarpStaggerRule,
    build_kernel_program,
    mi355x_double_buffer,
)

K0, K1, K_PREV = KOffsetKind.K0, KOffsetKind.K1, KOffsetKind.K_PREV
MANUAL = ScheduleConfig(auto_waits=False)
"""Hand-set waits, so that the flags of this section show."""


def load(channel: int, stage: int, k: KOffsetKind, sub: int = 0) -> OpDesc:
    return OpDesc(channel, stage, sub, k, role=OpRole.GLOBAL_LOAD, channel=channel)


def frag(channel: int, stage: int, sub: int = 0) -> OpDesc:
    return OpDesc(3 + channel, stage, sub, role=OpRole.FRAGMENT_LOAD, channel=channel)


def mma(row: int, column: int) -> OpDesc:
    return OpDesc(5, row, column, role=OpRole.COMPUTE)


def pipeline(max_globals: int = 0, *, rotation: bool = False, **changes: object) -> PipelineConfig:
    return replace(
        mi355x_double_buffer(2, 3),
        block_sizing=BlockSizing(4, 2, max_globals),
        warp_stagger=WarpStaggerRule.none(),
        cross_stage_rotation=rotation,
        **changes,  # type: ignore[arg-type]
    )


GRID = [mma(r, c) for r in (0, 1) for c in (0, 1)]


def straight() -> list[OpDesc]:
    """Two halves of four blocks; completion load first, fragments of the half's own stage."""
    body: list[OpDesc] = []
    for h in (0, 1):
        completion = load(0, 1 - h, K0 if h else K_PREV, 1)
        body += [frag(1, h), frag(0, h), completion, GRID[0]]
        body += [frag(1, h, 1), load(0, h, K1), GRID[1]]
        body += [frag(0, h, 1), load(1, h, K1), GRID[2]]
        body += [load(1, h, K1, 1), GRID[3]]
    return body


def rotated() -> list[OpDesc]:
    """Register rotation: the fragments of blocks 2 and 3 read the other stage."""
    body: list[OpDesc] = []
    for h in (0, 1):
        body += [load(0, h, K0), frag(1, h, 1), GRID[0]]
        body += [load(1, h, K0), frag(0, h, 1), GRID[1]]
        body += [load(1, h, K0, 1), frag(0, 1 - h), GRID[2]]
        body += [load(0, h, K0, 1), frag(1, 1 - h), GRID[3]]
    return body


def columned(body: list[OpDesc], rows: int) -> list[OpDesc]:
    """The body with its MMAs in one column of ``rows``, restarting, each after its A fragment."""
    result = [frag(1, 0)]
    count = 0
    for op in body:
        if op.role is OpRole.COMPUTE:
            result += [frag(0, count // 4, count % rows), mma(count % rows, 0)]
            count += 1
        elif op.role is OpRole.GLOBAL_LOAD:
            result.append(op)
    return result


def blocks_of(
    body: list[OpDesc], config: PipelineConfig, knobs: ScheduleConfig = MANUAL
) -> tuple[MMABlockSpec, ...]:
    return build_kernel_program(body, config, knobs).blocks


def test_each_compute_closes_a_block() -> None:
    blocks = blocks_of(straight(), pipeline())
    assert [b.mma for b in blocks] == GRID * 2
    assert blocks[0].fragments == (frag(1, 0), frag(0, 0))
    assert blocks[0].loads == (load(0, 1, K_PREV, 1),)
    assert blocks[3].fragments == ()
    assert blocks[7].loads == (load(1, 1, K1, 1),)


class TestWithoutCrossFragments:
    def test_no_entry_waits(self) -> None:
        for block in blocks_of(straight(), pipeline()):
            assert block.entry_wait is None
            assert block.entry_wait_lgkm is None

    def test_first_and_last_block_of_each_half(self) -> None:
        knobs = replace(MANUAL, wait_lgkm_first=3, wait_vm_last=9)
        blocks = blocks_of(straight(), pipeline(), knobs)
        waits = [OpDesc.wait_lgkm(3), None, None, OpDesc.wait_vm(9)]
        assert [b.pre_sync for b in blocks] == waits * 2

    def test_no_lgkm_wait_first_when_255(self) -> None:
        blocks = blocks_of(straight(), pipeline(), replace(MANUAL, wait_lgkm_first=255))
        assert blocks[0].pre_sync is None
        assert blocks[0].entry_wait_lgkm is None

    def test_254_is_still_a_wait(self) -> None:
        blocks = blocks_of(straight(), pipeline(), replace(MANUAL, wait_lgkm_first=254))
        assert blocks[0].pre_sync == OpDesc.wait_lgkm(254)

    def test_the_last_block_drops_its_drain_unless_asked(self) -> None:
        flags = [b.post_barrier_lgkm for b in blocks_of(straight(), pipeline())]
        assert flags == [True, True, True, False] * 2
        asked = blocks_of(straight(), pipeline(), replace(MANUAL, lgkm_after_last=True))
        assert all(b.post_barrier_lgkm for b in asked)

    def test_inter_block_drain_is_for_interior_blocks(self) -> None:
        knobs = replace(MANUAL, inter_block_lgkm_drain=True)
        drains = [b.entry_wait_lgkm for b in blocks_of(straight(), pipeline(), knobs)]
        inner = OpDesc.wait_lgkm(0)
        assert drains == [None, inner, inner, None] * 2

    def test_with_255_the_first_block_counts_as_interior(self) -> None:
        knobs = replace(MANUAL, inter_block_lgkm_drain=True, wait_lgkm_first=255)
        assert blocks_of(straight(), pipeline(), knobs)[0].entry_wait_lgkm == OpDesc.wait_lgkm(0)


class TestCrossFragments:
    # V = 8 loads: 4 of A at 2, 4 of B at 3 = 20; main_wait_vm = 20 - 20 // 2
    MAIN = OpDesc.wait_vm(10)

    def test_entry_waits_at_the_top_and_at_the_first_cross_fragment(self) -> None:
        blocks = blocks_of(rotated(), pipeline(rotation=True))
        assert [b.entry_wait for b in blocks] == [self.MAIN, None, self.MAIN, None] * 2

    def test_main_wait_divides_by_the_partitions(self) -> None:
        config = pipeline(rotation=True, num_partitions=1, m_mmas=8, n_mmas=1)
        # one partition: V - V // 1 = 0
        assert blocks_of(columned(rotated(), 8), config)[0].entry_wait == OpDesc.wait_vm(0)

    def test_only_prefetch_loads_count_for_the_main_wait(self) -> None:
        body = [replace(op, k_offset=K_PREV) if op.tag == 1 else op for op in rotated()]
        # V = 4 loads of A at 2
        assert blocks_of(body, pipeline(rotation=True))[0].entry_wait == OpDesc.wait_vm(4)

    def test_full_barriers_wait_before_the_mma(self) -> None:
        blocks = blocks_of(rotated(), pipeline(rotation=True))
        expected = [OpDesc.wait_lgkm(8), None, OpDesc.wait_lgkm(0), OpDesc.wait_vm(6)]
        assert [b.pre_sync for b in blocks] == expected * 2
        assert all(b.entry_wait_lgkm is None for b in blocks)

    def test_minimal_barriers_drain_on_entry(self) -> None:
        knobs = replace(MANUAL, minimal_barriers=True)
        blocks = blocks_of(rotated(), pipeline(rotation=True), knobs)
        drain = OpDesc.wait_lgkm(0)
        assert [b.entry_wait_lgkm for b in blocks] == [drain, None, drain, None] * 2
        assert [b.pre_sync for b in blocks] == [None, None, None, OpDesc.wait_vm(6)] * 2

    def test_a_first_cross_block_that_is_last_keeps_the_cross_wait(self) -> None:
        body = [replace(op, stage=0) if op == frag(0, 1) else op for op in rotated()[:12]]
        body += rotated()[12:]
        blocks = blocks_of(body, pipeline(rotation=True))
        assert blocks[3].entry_wait == self.MAIN
        assert blocks[3].pre_sync == OpDesc.wait_lgkm(0)
        assert blocks[3].post_barrier_lgkm

    def test_with_255_a_guarded_first_block_that_is_not_cross_has_no_lgkm_wait(self) -> None:
        blocks = blocks_of(rotated(), pipeline(rotation=True), replace(MANUAL, wait_lgkm_first=255))
        assert blocks[0].entry_wait == self.MAIN
        assert blocks[0].pre_sync is None


class TestBarriersAndPriorities:
    def test_full(self) -> None:
        for block in blocks_of(straight(), pipeline()):
            assert block.pre_mma_barrier
            assert block.pre_mma_set_prio
            assert block.post_mma_barrier
            assert block.post_mma_set_prio

    def test_minimal(self) -> None:
        knobs = replace(MANUAL, minimal_barriers=True, lgkm_after_last=True)
        for block in blocks_of(straight(), pipeline(), knobs):
            assert not block.pre_mma_barrier
            assert not block.post_mma_barrier
            assert not block.post_mma_set_prio
            assert not block.post_barrier_lgkm

    def test_minimal_raises_priority_at_the_top_and_at_the_first_cross(self) -> None:
        knobs = replace(MANUAL, minimal_barriers=True)
        straight_flags = [b.pre_mma_set_prio for b in blocks_of(straight(), pipeline(), knobs)]
        assert straight_flags == [True, False, False, False] * 2
        crossed = blocks_of(rotated(), pipeline(rotation=True), knobs)
        assert [b.pre_mma_set_prio for b in crossed] == [True, False, True, False] * 2

    def test_omit_set_prio_acts_only_with_minimal_barriers(self) -> None:
        minimal = replace(MANUAL, minimal_barriers=True, omit_mma_set_prio=True)
        assert not any(b.pre_mma_set_prio for b in blocks_of(straight(), pipeline(), minimal))
        full = replace(MANUAL, omit_mma_set_prio=True)
        assert all(b.pre_mma_set_prio for b in blocks_of(straight(), pipeline(), full))


class TestMasks:
    def test_sched_barrier_mask_by_index_in_the_whole_program(self) -> None:
        knobs = replace(MANUAL, sched_barrier_mask=0b10000110)
        flags = [b.trailing_sched_barrier for b in blocks_of(straight(), pipeline(), knobs)]
        assert flags == [False, True, True, False, False, False, False, True]

    def test_drain_mask_needs_a_fragment_and_a_load(self) -> None:
        knobs = replace(MANUAL, drain_lgkm_mask=0b11111110)
        flags = [b.drain_before_loads for b in blocks_of(straight(), pipeline(), knobs)]
        # block 0 has no bit, blocks 3 and 7 no fragment
        assert flags == [False, True, True, False, True, True, True, False]

    def test_configuration_flags_reach_every_block(self) -> None:
        knobs = replace(
            MANUAL,
            wrap_waits_with_sched_barrier=True,
            global_before_frag=True,
            barrier_before_pre_ops=True,
        )
        for block in blocks_of(straight(), pipeline(), knobs):
            assert block.wrap_waits
            assert block.global_before_frag
            assert block.barrier_before_pre_ops


def crowded() -> list[OpDesc]:
    """Blocks 0 and 4 hold two loads, blocks 3 and 7 none."""
    body: list[OpDesc] = []
    for h in (0, 1):
        completion = load(0, 1 - h, K0 if h else K_PREV, 1)
        body += [frag(1, h), frag(0, h), completion, load(0, h, K1), GRID[0]]
        body += [frag(1, h, 1), load(1, h, K1), GRID[1]]
        body += [frag(0, h, 1), load(1, h, K1, 1), GRID[2]]
        body += [GRID[3]]
    return body


class TestRedistribution:
    def test_no_limit_leaves_loads_alone(self) -> None:
        sizes = [len(b.loads) for b in blocks_of(crowded(), pipeline(0))]
        assert sizes == [2, 1, 1, 0] * 2

    def test_second_slot_moves_to_the_first_block_with_room(self) -> None:
        blocks = blocks_of(crowded(), pipeline(1))
        assert [len(b.loads) for b in blocks] == [1] * 8
        assert blocks[0].loads == (load(0, 1, K_PREV, 1),)
        assert blocks[3].loads == (load(0, 0, K1),)
        assert blocks[7].loads == (load(0, 1, K1),)

    def test_pool_is_first_in_first_out_over_the_whole_program(self) -> None:
        body = crowded()
        # block 3 gets a load of its own, block 6 loses its: the free blocks are 6 and 7
        body.insert(body.index(GRID[3]), load(1, 0, K1, 2))
        body.remove(load(1, 1, K1, 1))
        blocks = blocks_of(body, pipeline(1))
        assert blocks[6].loads == (load(0, 0, K1),)  # the first one taken
        assert blocks[7].loads == (load(0, 1, K1),)

    def test_limit_2_moves_nothing(self) -> None:
        config = pipeline(2)
        sizes = [len(b.loads) for b in blocks_of(crowded(), config)]
        assert sizes == [2, 1, 1, 0] * 2

    def test_only_blocks_visited_while_the_pool_is_full_recompute_their_drain(self) -> None:
        body = crowded()
        # give block 3 a fragment, so that it can drain once it has a load
        body.insert(body.index(GRID[3]), frag(0, 0, 1))
        knobs = replace(MANUAL, drain_lgkm_mask=0b1000)
        before = blocks_of(body, pipeline(0), knobs)
        after = blocks_of(body, pipeline(1), knobs)
        assert not before[3].drain_before_loads
        assert after[3].drain_before_loads

    def test_main_wait_is_not_changed_by_moving_loads(self) -> None:
        body = rotated()
        assert [b.entry_wait for b in blocks_of(body, pipeline(1, rotation=True))] == [
            b.entry_wait for b in blocks_of(body, pipeline(0, rotation=True))
        ]


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_positions_restart_in_every_partition(partitions: int) -> None:
    config = pipeline(rotation=True, num_partitions=partitions, m_mmas=8 // partitions, n_mmas=1)
    per = 8 // partitions
    blocks = blocks_of(columned(straight(), per), config)
    firsts = [i for i, b in enumerate(blocks) if b.pre_sync == OpDesc.wait_lgkm(8)]
    assert firsts == list(range(0, 8, per))


class TestComplete:
    """A body that cannot compute its grid is an error, not a schedule to prove."""

    @pytest.mark.parametrize("half", [0, 1])
    @pytest.mark.parametrize(("channel", "operand"), [(0, "A"), (1, "B")])
    def test_an_mma_without_its_fragment(self, half: int, channel: int, operand: str) -> None:
        body = [op for op in straight() if op != frag(channel, half, 1)]
        message = rf"COMPUTE.* in half {half} has no fragment {operand} of sub 1 to multiply"
        with pytest.raises(StructureError, match=message):
            blocks_of(body, pipeline())

    def test_with_rotation_the_other_half_may_load_it(self) -> None:
        blocks_of([op for op in rotated() if op != frag(0, 1, 1)], pipeline(rotation=True))
        body = [op for op in rotated() if op not in (frag(0, 0, 1), frag(0, 1, 1))]
        with pytest.raises(StructureError, match="has no fragment A of sub 1"):
            blocks_of(body, pipeline(rotation=True))

    def test_the_grid_is_compared_by_rows_and_columns(self) -> None:
        tall = columned(straight(), 4)
        blocks_of(tall, pipeline(rotation=True, m_mmas=4, n_mmas=1))
        message = r"half 0 has MMAs in rows 0, 1, 2, 3 and columns 0, but .* a grid of 1x4"
        with pytest.raises(StructureError, match=message):
            blocks_of(tall, pipeline(rotation=True, m_mmas=1, n_mmas=4))
