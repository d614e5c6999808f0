"""Mutants: every kind is there, each differs by one slip, sampling is fair and repeatable."""

from __future__ import annotations

from collections import Counter

from pipeloom import CompiledSchedule, Phase, build_schedule
from pipeloom.judge.execute import (
    MutationKind,
    classify,
    fully_synchronized,
    mutants,
    sample_mutants,
    thinned,
)
from pipeloom.judge.execute.strict import SYNC_TAGS
from pipeloom.reference.ops import OpTag

PING_PONG = build_schedule("ping_pong")


def test_every_kind_of_slip_is_made() -> None:
    kinds = Counter(mutant.kind for mutant in mutants(PING_PONG))
    assert set(kinds) == set(MutationKind)
    assert kinds[MutationKind.DROP_STAGGER] == 1
    tags = [entry.op.tag for phase in Phase for entry in PING_PONG.phase(phase)]
    assert kinds[MutationKind.DROP_BARRIER] == tags.count(OpTag.BARRIER)
    assert kinds[MutationKind.DROP_WAIT] == tags.count(OpTag.WAIT_VM) + tags.count(OpTag.WAIT_LGKM)
    flat = build_schedule("four_wave")
    assert MutationKind.DROP_STAGGER not in {mutant.kind for mutant in mutants(flat)}


def test_each_mutant_differs_from_its_base_in_one_phase_and_by_one_slip() -> None:
    for mutant in mutants(PING_PONG):
        changed = [p for p in Phase if mutant.compiled.phase(p) != PING_PONG.phase(p)]
        if mutant.kind is MutationKind.DROP_STAGGER:
            assert changed == []
            assert mutant.compiled.warp_stagger_index > len(PING_PONG.prologue)
            continue
        assert len(changed) == 1, mutant.name
        old, new = PING_PONG.phase(changed[0]), mutant.compiled.phase(changed[0])
        assert [entry.time_slot for entry in new] == list(range(len(new)))
        before = Counter(entry.op for entry in old)
        after = Counter(entry.op for entry in new)
        lost, made = before - after, after - before
        if mutant.kind in (MutationKind.DROP_WAIT, MutationKind.DROP_BARRIER):
            assert (sum(lost.values()), sum(made.values())) == (1, 0)
        elif mutant.kind in (MutationKind.LOOSEN_WAIT, MutationKind.TIGHTEN_WAIT):
            (was,), (now,) = lost, made
            assert was.tag == now.tag
            assert (now.wait_value > was.wait_value) is (mutant.kind is MutationKind.LOOSEN_WAIT)
        else:
            assert not lost
            assert not made


def test_waits_are_loosened_by_the_entries_of_one_op() -> None:
    loosened = [m.name for m in mutants(PING_PONG) if m.kind is MutationKind.LOOSEN_WAIT]
    assert "loosen wait, prologue[4]: wait_vm(0) -> wait_vm(4)" in loosened
    assert any("wait_lgkm(0) -> wait_lgkm(1)" in name for name in loosened)


def test_sampling_is_repeatable_and_spread_over_the_kinds() -> None:
    drawn = sample_mutants(PING_PONG, 14, seed=3)
    assert [m.name for m in drawn] == [m.name for m in sample_mutants(PING_PONG, 14, seed=3)]
    assert [m.name for m in drawn] != [m.name for m in sample_mutants(PING_PONG, 14, seed=4)]
    assert {m.kind for m in drawn} == set(MutationKind)
    everything = sample_mutants(PING_PONG, 10**6)
    assert sorted(m.name for m in everything) == sorted(m.name for m in mutants(PING_PONG))


def test_a_tighter_wait_never_harms_a_right_schedule() -> None:
    strict = fully_synchronized(build_schedule("single_buffer"))
    for mutant in mutants(strict):
        if mutant.kind is MutationKind.TIGHTEN_WAIT:
            assert classify(mutant.compiled, trips=(0, 1)).correct


def test_thinning_leaves_only_what_the_check_needs() -> None:
    strict = fully_synchronized(build_schedule("single_buffer"))

    def is_right(candidate: CompiledSchedule) -> bool:
        return classify(candidate, trips=(0, 1), random_runs=0).correct

    thin = thinned(strict, is_right)
    assert is_right(thin)
    syncs = [
        (phase, slot)
        for phase in Phase
        for slot, entry in enumerate(thin.phase(phase))
        if entry.op.tag in SYNC_TAGS
    ]
    assert (
        0
        < len(syncs)
        < sum(entry.op.tag in SYNC_TAGS for phase in Phase for entry in strict.phase(phase))
    )
    for mutant in mutants(thin):
        if mutant.kind in (MutationKind.DROP_WAIT, MutationKind.DROP_BARRIER):
            assert not is_right(mutant.compiled), mutant.name
    for phase in Phase:
        data = [e.op for e in strict.phase(phase) if e.op.tag not in SYNC_TAGS]
        assert [e.op for e in thin.phase(phase) if e.op.tag not in SYNC_TAGS] == data


def test_classify_says_how_to_see_the_failure_again() -> None:
    found = classify(PING_PONG)
    assert not found.correct
    assert found.failure is not None
    assert found.runs == 9
    assert found.failure.how.trips == 1
    assert found.failure.how.timing == "worst"
    assert not found.failure.execution.correct
