"""Sections 8 and 9 of the specification: the loop peeled at both ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import pytest

from pipeloom import (
    DepEdge,
    KOffsetKind,
    LoopCarriedSpec,
    MMABlockSpec,
    OpDesc,
    OpRole,
    OpTag,
    Phase,
    PipelineConfig,
    PipelineProgram,
    ResourceKind,
    ScheduleConfig,
    ScheduleEntry,
    SingleBufferSchedule,
    WarpStaggerRule,
    compile_schedule,
    derive_epilogue_from_program,
    derive_prologue_from_program,
    mi355x_double_buffer,
    mi355x_single_buffer,
)
from pipeloom.reference.phases import (
    derive_kernel_deps,
    derive_single_buffer_phases,
    derive_warp_stagger_index,
    number_entries,
)

K0, K1, K_PREV, K_NONE = (
    KOffsetKind.K0,
    KOffsetKind.K1,
    KOffsetKind.K_PREV,
    KOffsetKind.NONE,
)
CONFIG = mi355x_double_buffer(2, 5)
KNOBS = ScheduleConfig()
PARTIAL = ScheduleConfig(partial_prologue_drain=True)


def load(channel: int, stage: int, k: KOffsetKind, sub: int = 0) -> OpDesc:
    return OpDesc(
        channel,
        stage,
        sub,
        k,
        vm_cost=77,
        lgkm_cost=78,
        wait_value=79,
        resource=ResourceKind.GLOBAL_MEM,
        latency=200,
        role=OpRole.GLOBAL_LOAD,
        channel=channel,
        vgpr_def=80,
        vgpr_kill=81,
    )


def frag(channel: int, stage: int, sub: int = 0) -> OpDesc:
    return OpDesc(3 + channel, stage, sub, role=OpRole.FRAGMENT_LOAD, channel=channel)


def mma(row: int, column: int) -> OpDesc:
    return OpDesc(5, row, column, role=OpRole.COMPUTE)


def block(row: int, column: int, *ops: OpDesc, **flags: object) -> MMABlockSpec:
    return MMABlockSpec(
        mma=mma(row, column),
        fragments=tuple(op for op in ops if op.role is OpRole.FRAGMENT_LOAD),
        loads=tuple(op for op in ops if op.role is OpRole.GLOBAL_LOAD),
        **flags,  # type: ignore[arg-type]
    )


def words(ops: Iterable[OpDesc]) -> str:
    text = []
    names = {128: "bar", 129: "vm", 130: "lgkm", 131: "prio", 132: "sb", 133: "sgb"}
    for op in ops:
        if op.role is OpRole.COMPUTE:
            text.append(f"m{op.stage}{op.subtile}")
        elif op.is_framework:
            counted = op.tag in (OpTag.WAIT_VM, OpTag.WAIT_LGKM, OpTag.SET_PRIO)
            text.append(f"{names[op.tag]}{op.wait_value}" if counted else names[op.tag])
        else:
            letter = {OpRole.GLOBAL_LOAD: "l", OpRole.FRAGMENT_LOAD: "f", OpRole.SHARED_STORE: "s"}
            text.append(f"{letter[op.role]}{op.stage}{op.subtile}")
    return " ".join(text)


def fresh(op: OpDesc, k: KOffsetKind, vm_cost: int) -> OpDesc:
    """A prologue load as the specification describes it."""
    return OpDesc(
        op.tag,
        op.stage,
        op.subtile,
        k,
        vm_cost=vm_cost,
        resource=op.resource,
        latency=op.latency,
        role=op.role,
    )


LOADS = [load(1, 1, K0), load(0, 0, K1), load(0, 0, K_PREV, 1), load(1, 0, K0, 1), load(0, 1, K1)]
LOADED = PipelineProgram(tuple(block(0, i, op) for i, op in enumerate(LOADS)), 5)


class TestPrologue:
    def test_stage_0_then_stage_1_each_drained(self) -> None:
        ops = [op for op, _ in derive_prologue_from_program(LOADED, CONFIG, KNOBS)]
        assert ops == [
            fresh(LOADS[1], K0, 2),
            fresh(LOADS[3], K0, 5),
            OpDesc.wait_vm(0),
            OpDesc.barrier(),
            fresh(LOADS[0], K1, 5),
            fresh(LOADS[4], K1, 2),
            OpDesc.wait_vm(0),
        ]

    def test_nothing_in_the_prologue_is_marked_prefetch(self) -> None:
        assert not any(flag for _, flag in derive_prologue_from_program(LOADED, CONFIG, KNOBS))

    def test_loads_without_an_offset_are_no_prefetch(self) -> None:
        program = PipelineProgram((block(0, 0, load(0, 0, K_NONE)),), 1)
        ops = [op for op, _ in derive_prologue_from_program(program, CONFIG, KNOBS)]
        assert words(ops) == "vm0 bar vm0"

    def test_partial_drain_waits_for_each_bootstrap_fragment(self) -> None:
        bootstrap = [frag(0, 0), frag(1, 0, 1)]
        ops = [op for op, _ in derive_prologue_from_program(LOADED, CONFIG, PARTIAL, bootstrap)]
        # costs in prologue order: 2, 5, 5, 2; total 14
        assert words(ops) == "l00 l01 l10 l10 vm12 bar f00 vm7 bar f01"
        assert [op for op in ops if op.role is OpRole.FRAGMENT_LOAD] == bootstrap

    def test_partial_drain_without_bootstrap_leaves_all_in_flight(self) -> None:
        ops = [op for op, _ in derive_prologue_from_program(LOADED, CONFIG, PARTIAL)]
        assert words(ops) == "l00 l01 l10 l10"

    def test_more_bootstrap_fragments_than_loads_wait_for_all(self) -> None:
        program = PipelineProgram((block(0, 0, load(0, 0, K0)),), 1)
        bootstrap = [frag(0, 0), frag(0, 0, 1)]
        ops = [op for op, _ in derive_prologue_from_program(program, CONFIG, PARTIAL, bootstrap)]
        assert words(ops) == "l00 vm0 bar f00 vm0 bar f01"


def epilogue(*blocks: MMABlockSpec, per_half: int) -> str:
    program = PipelineProgram(blocks, per_half)
    return words(op for op, _ in derive_epilogue_from_program(program))


class TestEpilogue:
    OFF: ClassVar[dict[str, object]] = {
        "pre_mma_barrier": False,
        "pre_mma_set_prio": False,
        "post_mma_barrier": False,
        "post_mma_set_prio": False,
        "post_barrier_lgkm": False,
    }

    def test_prefetches_go_and_completions_stay(self) -> None:
        first = block(0, 0, frag(0, 0), load(0, 1, K_PREV, 1), load(0, 0, K1), **self.OFF)
        # the last block loses its vm wait
        assert epilogue(first, per_half=1) == "lgkm0 f00 l11 m00 bar"

    def test_drain_starts_at_the_first_block_with_a_prefetch(self) -> None:
        blocks = [
            block(0, 0, frag(0, 0), **self.OFF),
            block(0, 1, frag(0, 0, 1), load(0, 0, K1), **self.OFF),
            block(1, 0, frag(0, 0, 2), **self.OFF),
            block(1, 1, frag(0, 0, 3), **self.OFF),
        ]
        assert epilogue(*blocks, per_half=4) == (
            "lgkm0 f00 m00 lgkm0 f01 vm0 m01 lgkm0 f02 vm0 m10 lgkm0 f03 m11 bar"
        )

    def test_each_half_starts_its_own_drain(self) -> None:
        blocks = [
            block(0, 0, frag(0, 0), load(0, 0, K1), **self.OFF),
            block(0, 1, frag(0, 1), **self.OFF),
            block(1, 1, frag(0, 1, 1), **self.OFF),
        ]
        assert epilogue(*blocks, per_half=1) == "lgkm0 f00 vm0 m00 lgkm0 f10 m01 lgkm0 f11 m11 bar"

    def test_a_bare_mma_is_fused_into_the_one_before_once(self) -> None:
        blocks = [
            block(0, 0, frag(0, 0), **self.OFF),
            block(0, 1, load(0, 0, K1), **self.OFF),  # its prefetch goes: nothing left
            block(1, 0, **self.OFF),
            block(1, 1, **self.OFF),
        ]
        # pairs only: 01 into 00, then 11 into 10
        assert epilogue(*blocks, per_half=4) == "lgkm0 f00 m00 m01 lgkm0 m10 m11 bar"

    def test_no_fusion_across_halves(self) -> None:
        blocks = [block(0, 0, frag(0, 0), **self.OFF), block(1, 0, **self.OFF)]
        assert epilogue(*blocks, per_half=1) == "lgkm0 f00 m00 lgkm0 m10 bar"

    def test_a_completion_load_prevents_fusion(self) -> None:
        blocks = [block(0, 0, **self.OFF), block(0, 1, load(0, 1, K_PREV), **self.OFF)]
        assert epilogue(*blocks, per_half=2) == "lgkm0 m00 lgkm0 l10 m01 bar"

    def test_four_flags_and_the_drain_are_copied_and_the_others_dropped(self) -> None:
        loud = block(
            0,
            0,
            frag(0, 0),
            load(0, 0, K_PREV),
            entry_wait=OpDesc.wait_vm(3),
            pre_sync=OpDesc.wait_lgkm(4),
            drain_before_loads=True,
            trailing_sched_barrier=True,
            wrap_waits=True,
            global_before_frag=True,
            barrier_before_pre_ops=True,
        )
        assert epilogue(loud, per_half=1) == ("lgkm0 f00 l00 bar lgkm0 prio1 m00 prio0 bar bar")
        quiet = replace(loud, post_barrier_lgkm=False, post_mma_barrier=False)
        assert epilogue(quiet, per_half=1) == "lgkm0 f00 l00 bar prio1 m00 prio0 bar"

    def test_fused_block_keeps_the_flags_of_the_first(self) -> None:
        blocks = [
            block(0, 0, frag(0, 0), **{**self.OFF, "post_mma_set_prio": True}),
            block(0, 1, **self.OFF),
        ]
        assert epilogue(*blocks, per_half=2) == "lgkm0 f00 m00 m01 prio0 bar"


def entries(*ops: OpDesc) -> tuple[ScheduleEntry, ...]:
    return number_entries(((op, False) for op in ops), Phase.KERNEL)


BAR, VM, LGKM, M = OpDesc.barrier(), OpDesc.wait_vm(0), OpDesc.wait_lgkm(0), mma(0, 0)
F = OpDesc.schedule_barrier()


class TestKernelDeps:
    def edges(self, partitions: int, *ops: OpDesc) -> list[tuple[int, int]]:
        found = derive_kernel_deps(entries(*ops), partitions)
        assert all(e == DepEdge(e.producer, e.consumer) for e in found)
        return [(e.producer, e.consumer) for e in found]

    def test_first_sync_and_first_lgkm_to_the_first_mma(self) -> None:
        assert self.edges(1, F, VM, BAR, LGKM, M) == [(1, 4), (3, 4)]
        assert self.edges(1, LGKM, M) == [(0, 1), (0, 1)]

    def test_a_sync_after_the_mma_does_not_count_but_an_lgkm_wait_does(self) -> None:
        assert self.edges(1, M, BAR, LGKM) == [(2, 0)]

    def test_three_mmas_chain_and_two_do_not(self) -> None:
        assert self.edges(1, M, M) == []
        assert self.edges(1, M, M, M) == [(0, 1), (1, 2)]
        assert self.edges(1, M, M, M, M) == [(0, 1), (1, 2)]

    def test_parts_are_equal_lengths_wherever_the_half_ends(self) -> None:
        # 7 entries in 2 parts: [0,3) and [3,6); entry 6 belongs to none
        assert self.edges(2, BAR, M, LGKM, LGKM, F, M, M) == [(0, 1), (2, 1), (3, 5), (3, 5)]

    def test_a_part_without_mmas_has_no_deps(self) -> None:
        assert self.edges(2, BAR, LGKM, BAR, M) == [(2, 3)]
        assert self.edges(3, M, M) == []


class TestStaggerIndex:
    BODY: ClassVar[list[OpDesc]] = [
        load(0, 0, K0),
        load(0, 0, K_PREV),
        load(1, 0, K1),
        load(1, 1, K1),
        load(1, 0, K_NONE),
        frag(0, 0),
    ]

    def config(self, rule: WarpStaggerRule) -> PipelineConfig:
        return replace(CONFIG, warp_stagger=rule)

    def test_off(self) -> None:
        assert derive_warp_stagger_index(self.config(WarpStaggerRule.none()), self.BODY, 10) == 11

    def test_from_the_body(self) -> None:
        assert derive_warp_stagger_index(self.config(WarpStaggerRule.auto()), self.BODY, 10) == 2

    def test_fixed(self) -> None:
        assert derive_warp_stagger_index(self.config(WarpStaggerRule.fixed(3)), self.BODY, 10) == 3


class TestSingleBuffer:
    @pytest.mark.parametrize("tiles", [1, 2, 3])
    def test_phases(self, tiles: int) -> None:
        compiled = compile_schedule(SingleBufferSchedule(tiles))
        body = [e.op for e in compiled.kernel if e.op.tag != OpTag.SCHED_GROUP_BARRIER]
        assert tuple(body) == compiled.body
        assert words(e.op for e in compiled.prologue) == "l00 s00 bar l00 f00 sb"
        order = {op.subtile: None for op in body if op.role is OpRole.COMPUTE}
        computes = " ".join(f"m0{sub}" for sub in order)
        local = "".join(f"f0{sub} " for sub in range(1, tiles))
        fragments = " ".join(f"f0{op.subtile}" for op in body if op.role is OpRole.FRAGMENT_LOAD)
        assert words(e.op for e in compiled.epilogue) == (
            f"sb {local}bar s00 {computes} sb bar {fragments} {computes} sb"
        )
        assert compiled.kernel_deps == compiled.edges
        assert compiled.program is None
        assert compiled.warp_stagger_index == 7

    def test_the_selector_picks_the_carried_fragment(self) -> None:
        config = replace(
            mi355x_single_buffer(), loop_carried=LoopCarriedSpec(OpRole.FRAGMENT_LOAD, 1)
        )
        body = [
            OpDesc(0, role=OpRole.GLOBAL_LOAD),
            OpDesc(1, role=OpRole.SHARED_STORE),
            *(OpDesc(2, subtile=i, role=OpRole.FRAGMENT_LOAD) for i in (0, 1)),
        ]
        phases = derive_single_buffer_phases(body, config)
        assert words(e.op for e in phases.prologue) == "l00 s00 bar l00 f01 sb"
        assert words(e.op for e in phases.epilogue).startswith("sb f00 bar s00")


def test_entries_are_numbered_from_0_in_their_phase() -> None:
    numbered = number_entries([(BAR, True), (M, False)], Phase.EPILOGUE)
    assert numbered == (
        ScheduleEntry(BAR, 0, Phase.EPILOGUE, True),
        ScheduleEntry(M, 1, Phase.EPILOGUE, False),
    )
