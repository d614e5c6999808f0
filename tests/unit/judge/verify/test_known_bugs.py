"""Bugs the field knows, each with the finding that names it (specification, KERNELS.md 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest

from pipeloom import CompiledSchedule, OpRole, Phase, ScheduleEntry, build_schedule
from pipeloom.drive.programs import verify
from pipeloom.judge.verify import Finding, FindingKind, Status, Verdict
from pipeloom.reference.ops import OpTag
from pipeloom.reference.resync import synchronize

NAMES = {Phase.PROLOGUE: "prologue", Phase.KERNEL: "loop", Phase.EPILOGUE: "epilogue"}
Edit = Callable[[list[ScheduleEntry]], None]


@lru_cache(maxsize=4)
def sound(name: str) -> CompiledSchedule:
    """A shipped schedule, proved."""
    return synchronize(build_schedule(name), reorder=True)


def edited(compiled: CompiledSchedule, phase: Phase, edit: Edit) -> CompiledSchedule:
    entries = list(compiled.phase(phase))
    edit(entries)
    numbered = tuple(replace(e, time_slot=slot) for slot, e in enumerate(entries))
    return replace(compiled, **{phase.name.lower(): numbered})  # type: ignore[arg-type]


def between(verdict: Verdict, kind: FindingKind, first: Phase, second: Phase) -> list[Finding]:
    return [
        f
        for f in verdict.of_kind(kind)
        if f.first is not None
        and (f.first.section, f.second.section) == (NAMES[first], NAMES[second])
    ]


def find(entries: list[ScheduleEntry], tag: OpTag, after: int = 0) -> int:
    return next(i for i, e in enumerate(entries) if i >= after and e.op.tag == tag)


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_the_starting_point_is_proved(name: str) -> None:
    assert verify(sound(name)).proved


def test_loads_in_flight_from_the_loop_into_the_epilogue() -> None:
    """The four-wave epilogue waits with vmcnt, but no barrier tells the other waves."""
    verdict = verify(build_schedule("four_wave"))
    found = between(verdict, FindingKind.RAW, Phase.KERNEL, Phase.EPILOGUE)
    assert found
    assert verdict.status is not Status.PROVED
    assert all(f.trips >= 1 for f in found)
    assert any(f.first and f.first.wave != f.second.wave for f in found)


def test_a_trip_count_of_zero() -> None:
    """With no iteration, the prologue's loads meet the epilogue's fragments directly."""
    verdict = verify(build_schedule("four_wave"))
    found = between(verdict, FindingKind.RAW, Phase.PROLOGUE, Phase.EPILOGUE)
    assert found
    assert {f.trips for f in found} == {0}


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_a_vm_wait_without_the_barrier_that_publishes_it(name: str) -> None:
    def drop(entries: list[ScheduleEntry]) -> None:
        wait = find(entries, OpTag.WAIT_VM)
        while entries[wait + 1].op.tag == OpTag.WAIT_LGKM:
            wait += 1
        assert entries[wait + 1].op.tag == OpTag.BARRIER
        del entries[wait + 1]

    verdict = verify(edited(sound(name), Phase.KERNEL, drop))
    found = [*verdict.of_kind(FindingKind.RAW), *verdict.of_kind(FindingKind.WAR)]
    assert found
    assert any(f.first and f.first.wave != f.second.wave for f in found)


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_an_epilogue_mma_before_its_lgkm_drain(name: str) -> None:
    def swap(entries: list[ScheduleEntry]) -> None:
        first = next(i for i, e in enumerate(entries) if e.op.role is OpRole.COMPUTE)
        wait = find(entries, OpTag.WAIT_LGKM, first if name == "four_wave" else 0)
        mma = next(i for i, e in enumerate(entries) if i > wait and e.op.role is OpRole.COMPUTE)
        entries.insert(mma, entries.pop(wait))

    verdict = verify(edited(sound(name), Phase.EPILOGUE, swap))
    found = between(verdict, FindingKind.REGISTER, Phase.EPILOGUE, Phase.EPILOGUE)
    assert found
    assert "wait lgkmcnt" in found[0].why
    assert found[0].second.op.startswith("mma")


def test_a_wait_left_stale_after_ops_were_reordered() -> None:
    """The wait allows what was issued after the load that it is for; now that is one load less."""

    def postpone(entries: list[ScheduleEntry]) -> None:
        load = next(i for i, e in enumerate(entries) if e.op.role is OpRole.GLOBAL_LOAD)
        wait = find(entries, OpTag.WAIT_VM, load)
        loads = [i for i in range(wait) if entries[i].op.role is OpRole.GLOBAL_LOAD]
        # an earlier load now goes after the wait that used to count it
        entries.insert(wait, entries.pop(loads[-1]))

    verdict = verify(edited(sound("four_wave"), Phase.KERNEL, postpone))
    assert verdict.status is not Status.PROVED
    assert verdict.of_kind(FindingKind.RAW)


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_a_barrier_before_the_wait_that_should_precede_it(name: str) -> None:
    def swap(entries: list[ScheduleEntry]) -> None:
        wait = find(entries, OpTag.WAIT_VM)
        barrier = find(entries, OpTag.BARRIER, wait)
        entries.insert(wait, entries.pop(barrier))

    verdict = verify(edited(sound(name), Phase.KERNEL, swap))
    found = [*verdict.of_kind(FindingKind.RAW), *verdict.of_kind(FindingKind.WAR)]
    assert any(f.first and f.first.wave != f.second.wave for f in found)


def test_the_stagger_is_part_of_the_proof() -> None:
    """Without the stagger the two groups run in step; the schedule stays right, but not for free:
    with it, group 0 needs one barrier more to be sure of group 1."""
    staggered = sound("ping_pong")
    dropped = replace(staggered, warp_stagger_index=len(staggered.prologue) + 1)
    assert verify(dropped).proved
    in_step = synchronize(dropped, reorder=True)
    restored = replace(in_step, warp_stagger_index=4)
    assert in_step.counts(Phase.KERNEL).barriers < staggered.counts(Phase.KERNEL).barriers
    assert not verify(restored).proved


def test_dead_rotation_fragments_of_the_four_wave_epilogue() -> None:
    """The last two fragments read a tile that was never loaded: dead work, not a hazard."""
    verdict = verify(sound("four_wave"))
    assert [str(d) for d in verdict.dead_work] != []
    assert all(d.always and "frag" in d.op for d in verdict.dead_work)
    assert {d.section for d in verdict.dead_work} == {"epilogue"}
    assert len(verdict.dead_work) == 2


def test_a_missing_wait_for_the_first_fragments_is_a_race() -> None:
    """Bootstrap fragments state no latency; they take as long as those of the loop."""
    compiled = synchronize(build_schedule("four_wave"), reorder=True)
    wait = find(list(compiled.kernel), OpTag.WAIT_LGKM)
    assert compiled.kernel[wait].op.wait_value == 0
    fragments = [e.op for e in compiled.prologue if e.op.role is OpRole.FRAGMENT_LOAD]
    assert {op.latency for op in fragments} == {0}

    def drop(entries: list[ScheduleEntry]) -> None:
        del entries[wait]

    verdict = verify(edited(compiled, Phase.KERNEL, drop))
    found = between(verdict, FindingKind.REGISTER, Phase.PROLOGUE, Phase.KERNEL)
    assert found
    assert any(f.status is Status.RACE for f in found)
    assert verdict.status is Status.RACE
