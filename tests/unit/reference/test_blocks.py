"""Section 7 of the specification: how a block expands, flag by flag."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pipeloom import (
    KOffsetKind,
    MMABlockSpec,
    OpDesc,
    OpRole,
    OpTag,
    PipelineProgram,
    emit_minimal_barrier_block,
)
from pipeloom.reference.blocks import is_prefetch_load

MMA = OpDesc(5, role=OpRole.COMPUTE)
FUSED = OpDesc(5, 1, 1, role=OpRole.COMPUTE)
FRAGS = tuple(OpDesc(3, subtile=i, role=OpRole.FRAGMENT_LOAD, channel=0) for i in (0, 1))
LOADS = tuple(
    OpDesc(0, subtile=i, k_offset=k, role=OpRole.GLOBAL_LOAD, channel=0)
    for i, k in enumerate((KOffsetKind.K_PREV, KOffsetKind.K1))
)
VM, LGKM = OpDesc.wait_vm(7), OpDesc.wait_lgkm(5)

BARE = MMABlockSpec(
    mma=MMA,
    post_barrier_lgkm=False,
    pre_mma_barrier=False,
    pre_mma_set_prio=False,
    post_mma_barrier=False,
    post_mma_set_prio=False,
)
"""Every flag off."""

WORDS = {
    OpTag.BARRIER: "bar",
    OpTag.SCHEDULE_BARRIER: "sb",
    OpTag.WAIT_VM: "vm",
    OpTag.WAIT_LGKM: "lgkm",
    OpTag.SET_PRIO: "prio",
}


def words(ops: Iterable[OpDesc]) -> str:
    text = []
    for op in ops:
        if op.role is OpRole.COMPUTE:
            text.append(f"mma{op.stage}{op.subtile}")
        elif op.role is OpRole.FRAGMENT_LOAD:
            text.append(f"f{op.subtile}")
        elif op.role is OpRole.GLOBAL_LOAD:
            text.append(f"l{op.subtile}")
        else:
            word = WORDS[OpTag(op.tag)]
            counted = op.tag in (OpTag.WAIT_VM, OpTag.WAIT_LGKM, OpTag.SET_PRIO)
            text.append(f"{word}{op.wait_value}" if counted else word)
    return " ".join(text)


def test_defaults_are_a_fully_guarded_block() -> None:
    assert words(MMABlockSpec(mma=MMA).expand()) == "bar lgkm0 prio1 mma00 prio0 bar"


def test_all_flags_off_is_the_mma_alone() -> None:
    assert words(BARE.expand()) == "mma00"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (replace(BARE, fragments=FRAGS, loads=LOADS), "f0 f1 l0 l1 mma00"),
        (
            replace(BARE, fragments=FRAGS, loads=LOADS, drain_before_loads=True),
            "f0 f1 lgkm0 l0 l1 mma00",
        ),
        (
            replace(
                BARE,
                fragments=FRAGS,
                loads=LOADS,
                drain_before_loads=True,
                global_before_frag=True,
            ),
            "l0 l1 lgkm0 f0 f1 mma00",
        ),
        # entry group: a barrier only after the vm wait
        (replace(BARE, entry_wait=VM), "vm7 bar mma00"),
        (replace(BARE, entry_wait_lgkm=LGKM), "lgkm5 mma00"),
        (replace(BARE, entry_wait=VM, entry_wait_lgkm=LGKM), "vm7 lgkm5 bar mma00"),
        # ... wrapped only where a wait is present
        (replace(BARE, wrap_waits=True), "mma00"),
        (replace(BARE, entry_wait_lgkm=LGKM, wrap_waits=True), "sb lgkm5 sb mma00"),
        (
            replace(BARE, entry_wait=VM, entry_wait_lgkm=LGKM, wrap_waits=True),
            "sb vm7 lgkm5 bar sb mma00",
        ),
        # sync section
        (replace(BARE, pre_sync=LGKM), "lgkm5 mma00"),
        (replace(BARE, pre_mma_barrier=True), "bar mma00"),
        (replace(BARE, pre_mma_barrier=True, post_barrier_lgkm=True), "bar lgkm0 mma00"),
        # the drain after the barrier needs the barrier
        (replace(BARE, post_barrier_lgkm=True), "mma00"),
        (
            replace(BARE, pre_sync=VM, pre_mma_barrier=True, post_barrier_lgkm=True),
            "vm7 bar lgkm0 mma00",
        ),
        (replace(BARE, pre_sync=VM, wrap_waits=True), "sb vm7 sb mma00"),
        (replace(BARE, pre_mma_barrier=True, wrap_waits=True), "sb bar sb mma00"),
        # sync before loads
        (
            replace(
                BARE,
                entry_wait=VM,
                pre_sync=LGKM,
                fragments=FRAGS[:1],
                loads=LOADS[:1],
                barrier_before_pre_ops=True,
            ),
            "vm7 bar lgkm5 f0 l0 mma00",
        ),
        # after the MMA
        (replace(BARE, pre_mma_set_prio=True), "prio1 mma00"),
        (replace(BARE, post_mma_set_prio=True), "mma00 prio0"),
        (replace(BARE, post_mma_set_prio=True, fused_mma=FUSED), "mma00 mma11 prio0"),
        (replace(BARE, post_mma_barrier=True), "mma00 bar"),
        (replace(BARE, post_mma_barrier=True, trailing_sched_barrier=True), "mma00 bar sb"),
        # the trailing fence only after the trailing barrier
        (replace(BARE, trailing_sched_barrier=True), "mma00"),
    ],
)
def test_template(block: MMABlockSpec, expected: str) -> None:
    assert words(block.expand()) == expected


def test_template_with_everything() -> None:
    block = MMABlockSpec(
        mma=MMA,
        fragments=FRAGS,
        loads=LOADS,
        entry_wait=VM,
        entry_wait_lgkm=LGKM,
        pre_sync=VM,
        drain_before_loads=True,
        trailing_sched_barrier=True,
        wrap_waits=True,
        fused_mma=FUSED,
    )
    entry, sync, tail = "sb vm7 lgkm5 bar sb", "sb vm7 bar lgkm0 sb", "prio1 mma00 mma11 prio0"
    assert words(block.expand()) == f"{entry} f0 f1 lgkm0 l0 l1 {sync} {tail} bar sb"
    early = replace(block, barrier_before_pre_ops=True, global_before_frag=True)
    assert words(early.expand()) == f"{entry} {sync} l0 l1 lgkm0 f0 f1 {tail} bar sb"


def test_minimal_barrier_emitter_ignores_what_the_specification_says() -> None:
    block = MMABlockSpec(
        mma=MMA,
        fragments=FRAGS[:1],
        loads=LOADS[:1],
        entry_wait=VM,
        entry_wait_lgkm=LGKM,
        pre_sync=VM,
        drain_before_loads=True,
        trailing_sched_barrier=True,
        global_before_frag=True,
        barrier_before_pre_ops=True,
    )
    assert words(emit_minimal_barrier_block(block)) == "vm7 lgkm5 bar f0 sb l0 vm7 bar lgkm0 mma00"
    wrapped = replace(block, wrap_waits=True, pre_mma_barrier=False)
    assert words(emit_minimal_barrier_block(wrapped)) == (
        "sb vm7 lgkm5 bar sb f0 sb l0 sb vm7 sb mma00"
    )


@pytest.mark.parametrize(
    ("fragments", "loads", "expected"),
    [(FRAGS, (), "f0 f1 mma00"), ((), LOADS, "l0 l1 mma00"), ((), (), "mma00")],
)
def test_minimal_barrier_emitter_separates_only_where_both_are_present(
    fragments: tuple[OpDesc, ...], loads: tuple[OpDesc, ...], expected: str
) -> None:
    block = replace(BARE, fragments=fragments, loads=loads)
    assert words(emit_minimal_barrier_block(block)) == expected


def test_slots_by_their_names() -> None:
    block = replace(BARE, fragments=FRAGS, loads=LOADS)
    assert (block.pre_op_0, block.pre_op_1) == FRAGS
    assert (block.global_load, block.global_load_1) == LOADS
    one = replace(BARE, fragments=FRAGS[:1], loads=LOADS[:1])
    assert (one.pre_op_1, one.global_load_1) == (None, None)
    assert (BARE.pre_op_0, BARE.global_load) == (None, None)


def test_prefetch_is_a_load_with_an_offset_ahead() -> None:
    assert [is_prefetch_load(op) for op in LOADS] == [False, True]
    assert not is_prefetch_load(replace(LOADS[1], k_offset=KOffsetKind.NONE))
    assert not is_prefetch_load(replace(FRAGS[0], k_offset=KOffsetKind.K1))


def test_program_expands_block_by_block_with_prefetch_flags() -> None:
    first = replace(BARE, loads=LOADS)
    program = PipelineProgram((first, replace(BARE, mma=FUSED)), 1)
    assert program.expand_to_list() == [
        (LOADS[0], False),
        (LOADS[1], True),
        (MMA, False),
        (FUSED, False),
    ]
    assert [number for number, _ in program.halves()] == [0, 1]


def test_an_explicit_block_replaces_one_template_and_carries_no_flags() -> None:
    blocks = (replace(BARE, loads=LOADS), replace(BARE, loads=LOADS))
    program = PipelineProgram(blocks, 2, ((MMA, LOADS[1]), ()))
    assert program.expand_block(0) == [(MMA, False), (LOADS[1], False)]
    assert program.expand_block(1) == [(LOADS[0], False), (LOADS[1], True), (MMA, False)]
