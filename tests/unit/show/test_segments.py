"""Traces by schedule entry: grouping, what waits retire, where time is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pipeloom import CompiledSchedule, build_schedule
from pipeloom.drive.programs import simulate
from pipeloom.judge.simulate import Trace, simulate_programs
from pipeloom.judge.simulate.instruction import Instruction, Kind, WaveProgram
from pipeloom.judge.simulate.trace import Cause
from pipeloom.judge.simulate.trace import Phase as TracePhase
from pipeloom.machine.chips import target_for
from pipeloom.reference.kernels import kernel_for
from pipeloom.reference.ops import OpRole, Phase
from pipeloom.show.data_flow import regions_of, touches
from pipeloom.show.segments import (
    LOOP_OVERHEAD,
    retired_by,
    segment_of_event,
    segments,
    stalls_by_entry,
)

TILE = ["geometry.BK=64", "geometry.MMA_K=32", "geometry.elem_bytes=2"]


@pytest.fixture(scope="module")
def compiled() -> CompiledSchedule:
    return build_schedule("ping_pong", TILE)


@pytest.fixture(scope="module")
def trace(compiled: CompiledSchedule) -> Trace:
    return simulate(compiled, k_tiles=8)


def test_segments_partition_the_events(trace: Trace) -> None:
    found = segments(trace)
    owned = [event for segment in found for event in segment.events]
    assert sorted(owned) == list(range(len(trace.events)))
    owner = segment_of_event(found)
    for number, segment in enumerate(found):
        assert all(owner[e] == number for e in segment.events)
        assert {trace.events[e].wave for e in segment.events} == {segment.wave}
        assert {trace.instruction(trace.events[e]).entry for e in segment.events} == {segment.entry}


def test_segments_of_a_wave_follow_each_other(trace: Trace) -> None:
    for wave in range(len(trace.programs)):
        mine = [s for s in segments(trace) if s.wave == wave]
        for before, after in pairwise(mine):
            assert before.free <= after.ready <= after.start <= after.free
        labels = {s.label for s in mine if s.entry is None}
        stagger = {"stagger"} if wave >= 4 else {"closing"}
        assert labels == {LOOP_OVERHEAD, "after the prologue", *stagger}


def test_every_data_entry_has_one_segment_per_wave_and_trip(
    compiled: CompiledSchedule, trace: Trace
) -> None:
    found = segments(trace)
    wanted = [n for n, e in enumerate(compiled.kernel) if e.op.role is OpRole.COMPUTE]
    for slot in wanted:
        mine = [s for s in found if s.phase is TracePhase.LOOP and s.entry == slot]
        assert len(mine) == 8 * trace.iterations
        assert all(len(s.events) == 16 for s in mine)


def _wave(*loop: Instruction) -> Trace:
    return simulate_programs((WaveProgram(simd=0, loop=loop),), target_for("gfx950"), 1)


def test_a_wait_retires_all_but_the_newest() -> None:
    load = Instruction.global_load(16, to_lds=True)
    read = Instruction.lds_read(16)
    trace = _wave(
        load,
        load,
        read,
        load,
        Instruction.wait(vm=1),
        Instruction.wait(lgkm=0),
        Instruction.wait(vm=1),
        Instruction.wait(vm=0),
    )
    waits = [n for n, e in enumerate(trace.events) if trace.instruction(e).kind is Kind.WAIT]
    found = retired_by(trace)
    assert [found[n] for n in waits] == [(0, 1), (2,), (), (3,)]


def test_waits_are_satisfied_when_what_they_retire_is_done(trace: Trace) -> None:
    for wait, retired in retired_by(trace).items():
        assert all(trace.events[r].done <= trace.events[wait].start for r in retired)
        assert all(trace.events[r].wave == trace.events[wait].wave for r in retired)


def test_stalls_add_up(trace: Trace) -> None:
    rows = stalls_by_entry(trace)
    first, last = trace.steady_window
    expected = sum(
        e.stall / (last - first)
        for e in trace.events
        if first <= e.iteration < last and e.cause is not Cause.MATRIX_UNIT
    )
    found = sum(row.mean for row in rows if row.phase is TracePhase.LOOP) * len(trace.programs)
    assert found == pytest.approx(expected)
    assert all(row.worst >= row.mean > 0 for row in rows)
    assert [r.mean for r in rows] == sorted((r.mean for r in rows), reverse=True)


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_every_accumulator_sums_every_tile_once(name: str) -> None:
    """The tiles found by program order agree with what the kernel must compute."""
    compiled = build_schedule(name)
    kernel = kernel_for(compiled)
    for wave in range(kernel.waves):
        found = touches(compiled, kernel, wave, 3)
        steps = {(s.phase, s.slot, s.iteration): s for s in kernel.walk(compiled, wave, 3)}
        sums: dict[object, list[int | None]] = {}
        for key, touch in found.items():
            accumulator = kernel.effect(steps[key], wave).accumulator
            if accumulator is not None:
                sums.setdefault(accumulator, []).append(touch.tile)
        assert set(sums) == set(kernel.accumulators())
        assert all(tiles == list(range(kernel.tiles(3))) for tiles in sums.values())


def test_regions_are_all_stage_halves(compiled: CompiledSchedule) -> None:
    found = touches(compiled, kernel_for(compiled), 0, 2)
    regions = regions_of(found)
    assert [tuple(r) for r in regions] == [
        (operand, stage, half) for operand in "AB" for stage in (0, 1) for half in (0, 1)
    ]
    load = found[Phase.KERNEL, 2, 0]
    assert (load.tile, load.reads) == (1, ())
    assert [str(r) for r in load.writes] == ["LDS A, stage 1, half 1"]
