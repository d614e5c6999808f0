"""The bugs the field knows, each in a schedule that is otherwise right, and what the run shows.

The base is the four-wave schedule with its own prologue and a fully synchronised rest: right for
every trip count, so that whatever goes wrong is the bug's doing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import CompiledSchedule, OpDesc, OpRole, Phase, ScheduleEntry, build_schedule
from pipeloom.judge.execute import Execution, classify, dry_run, fully_synchronized
from pipeloom.reference.ops import OpTag

TRIPS = (0, 1, 2)


def _is_right(compiled: CompiledSchedule, *trips: int) -> bool:
    return classify(compiled, trips=trips or TRIPS, random_runs=1).correct


def _failure(compiled: CompiledSchedule, *trips: int) -> Execution:
    found = classify(compiled, trips=trips or TRIPS)
    assert found.failure is not None
    return found.failure.execution


@pytest.fixture(scope="module")
def published() -> CompiledSchedule:
    return build_schedule("four_wave")


@pytest.fixture(scope="module")
def base(published: CompiledSchedule) -> CompiledSchedule:
    strict = fully_synchronized(published)
    mixed = replace(strict, prologue=published.prologue, warp_stagger_index=99)
    assert _is_right(mixed)
    return mixed


def _swap(compiled: CompiledSchedule, phase: Phase, slot: int) -> CompiledSchedule:
    entries = [*compiled.phase(phase)]
    entries[slot], entries[slot + 1] = entries[slot + 1], entries[slot]
    return compiled.with_entries(phase, entries)


def _without(compiled: CompiledSchedule, phase: Phase, tag: OpTag) -> CompiledSchedule:
    kept = [entry for entry in compiled.phase(phase) if entry.op.tag != tag]
    return compiled.with_entries(phase, kept)


def test_loads_in_flight_from_the_loop_into_the_epilogue(
    base: CompiledSchedule, published: CompiledSchedule
) -> None:
    """The published epilogue waits for its own loads but has no barrier to publish them."""
    last = base.kernel[-1]
    assert last.op.role is OpRole.COMPUTE
    busy = base.with_entries(Phase.KERNEL, [*base.kernel[:-5], last])
    assert busy.kernel[-2].op.role is OpRole.GLOBAL_LOAD
    assert _is_right(busy)
    execution = _failure(replace(busy, epilogue=published.epilogue), 1)
    start = len(busy.prologue) + len(busy.kernel)
    assert execution.symptoms
    assert all(symptom.at.step >= start for symptom in execution.symptoms)
    assert all(source.step >= start for s in execution.symptoms for source in s.sources[:1])


def test_only_a_trip_count_of_zero(base: CompiledSchedule) -> None:
    """The loop drains its fragments; nobody drains those of the prologue if it never runs."""
    drain = ScheduleEntry(OpDesc.wait_lgkm(0), 0, Phase.KERNEL)
    drained = base.with_entries(Phase.KERNEL, [*base.kernel, drain])
    first_mma = next(n for n, e in enumerate(base.epilogue) if e.op.role is OpRole.COMPUTE)
    kept = [
        entry
        for n, entry in enumerate(base.epilogue)
        if n > first_mma or entry.op.tag != OpTag.WAIT_LGKM
    ]
    broken = drained.with_entries(Phase.EPILOGUE, kept)
    assert not _is_right(broken, 0)
    assert _is_right(broken, 1, 2, 3)
    assert _failure(broken, 0).symptoms[0].at.step == len(base.prologue) + kept.index(
        base.epilogue[first_mma]
    )


def test_a_vm_wait_without_the_barrier_that_publishes_it(base: CompiledSchedule) -> None:
    broken = _without(base, Phase.PROLOGUE, OpTag.BARRIER)
    execution = _failure(broken, 0)
    read = next(read for read in execution.poisoned_reads if read.consumed)
    assert broken.prologue[read.at.step].op.role is OpRole.FRAGMENT_LOAD
    assert read.at.wave not in {cause.wave for cause in read.causes}


def test_an_epilogue_mma_before_its_lgkm_drain(base: CompiledSchedule) -> None:
    broken = _without(base, Phase.EPILOGUE, OpTag.WAIT_LGKM)
    execution = _failure(broken, 0)
    assert execution.has_poison
    assert not any(read.consumed for read in execution.poisoned_reads if read.causes)


def test_a_wait_left_stale_after_ops_were_reordered(base: CompiledSchedule) -> None:
    """vmcnt(28) is for the first load; after a swap that is not the one the fragment reads."""
    broken = _swap(base, Phase.PROLOGUE, 0)
    assert broken.prologue[0].op.tag != base.prologue[0].op.tag
    read = next(read for read in _failure(broken, 0).poisoned_reads if read.consumed)
    assert read.at.step == 10
    assert {cause.step for cause in read.causes} == {1}


def test_a_barrier_before_the_wait_that_should_precede_it(base: CompiledSchedule) -> None:
    at = next(n for n, e in enumerate(base.prologue) if e.op.tag == OpTag.WAIT_VM)
    broken = _swap(base, Phase.PROLOGUE, at)
    assert broken.prologue[at].op.tag == OpTag.BARRIER
    read = next(read for read in _failure(broken, 0).poisoned_reads if read.consumed)
    assert read.at.step == at + 2


def test_every_published_schedule_relies_on_more_than_waits_and_barriers(
    published: CompiledSchedule,
) -> None:
    """KERNELS.md section 4: the original leaves register waits to the compiler."""
    assert not _is_right(published)
    assert not _is_right(build_schedule("ping_pong"))


def test_an_order_that_no_synchronisation_saves() -> None:
    """IDENTITY spreads loads: A(0, 0) of the next tile before the last read of the old one."""
    order = build_schedule("ping_pong", ['schedule_config.scheduling="identity"'])
    strict = fully_synchronized(order)
    assert _is_right(strict, 0)
    execution = dry_run(strict, trips=1)
    assert not execution.correct
    assert not execution.has_poison
    assert execution.symptoms[0].tiles == (2, 0)


def test_dropping_the_stagger_from_a_strict_schedule_harms_nothing() -> None:
    strict = fully_synchronized(build_schedule("ping_pong"))
    flat = replace(strict, warp_stagger_index=len(strict.prologue) + 1)
    assert _is_right(flat, 1)


def test_without_entry_keeps_the_stagger_in_its_place() -> None:
    compiled = build_schedule("ping_pong")
    at = compiled.warp_stagger_index
    assert compiled.without_entry(Phase.PROLOGUE, 0).warp_stagger_index == at - 1
    assert compiled.without_entry(Phase.PROLOGUE, at).warp_stagger_index == at
    assert compiled.without_entry(Phase.KERNEL, 0).warp_stagger_index == at
