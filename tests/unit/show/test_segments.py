"""Traces by step: grouping, what waits retire, where time is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pipeloom import build_schedule
from pipeloom.drive.programs import as_program
from pipeloom.judge.simulate import Trace, simulate, simulate_programs
from pipeloom.judge.simulate.instruction import Kind, WaveOp, WaveProgram
from pipeloom.judge.simulate.trace import Cause, LoopPhase
from pipeloom.machine.chips import target_for
from pipeloom.program import Program, Work
from pipeloom.show.page_timeline import lds_lanes, touches
from pipeloom.show.segments import (
    LOOP_OVERHEAD,
    retired_by,
    segment_of_event,
    segments,
    shares,
    stalls_by_step,
)
from pipeloom.show.step_rows import listing
from tests.unit.show.programs import producer_consumer

TILE = ["geometry.BK=64", "geometry.MMA_K=32", "geometry.elem_bytes=2"]


@pytest.fixture(scope="module")
def program() -> Program:
    return as_program(build_schedule("ping_pong", TILE))


@pytest.fixture(scope="module")
def trace(program: Program) -> Trace:
    return simulate(program, iterations=8)


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
        assert {s.label for s in mine if s.entry is None} == {LOOP_OVERHEAD}
        assert ("stagger" in {s.label for s in mine}) == (wave >= 4)


def test_every_step_has_one_segment_per_wave_and_trip(program: Program, trace: Trace) -> None:
    found = segments(trace)
    steps = program.groups[0].sections[1].steps
    products = [n for n, s in enumerate(steps) if isinstance(s, Work) and s.accumulates]
    for slot in products:
        mine = [s for s in found if s.section == "loop" and s.entry == slot]
        assert len(mine) == 8 * trace.iterations
        assert all(len(s.events) == 16 for s in mine)


def _wave(*loop: WaveOp) -> Trace:
    return simulate_programs((WaveProgram(simd=0, loop=loop),), target_for("gfx950"), 1)


def test_a_wait_retires_all_but_the_newest() -> None:
    load = WaveOp.global_load(16, to_lds=True)
    read = WaveOp.lds_read(16)
    trace = _wave(
        load,
        load,
        read,
        load,
        WaveOp.wait(vm=1),
        WaveOp.wait(lgkm=0),
        WaveOp.wait(vm=1),
        WaveOp.wait(vm=0),
    )
    waits = [n for n, e in enumerate(trace.events) if trace.instruction(e).kind is Kind.WAIT]
    found = retired_by(trace)
    assert [found[n] for n in waits] == [(0, 1), (2,), (), (3,)]


def test_waits_are_satisfied_when_what_they_retire_is_done(trace: Trace) -> None:
    for wait, retired in retired_by(trace).items():
        assert all(trace.events[r].done <= trace.events[wait].start for r in retired)
        assert all(trace.events[r].wave == trace.events[wait].wave for r in retired)


def test_stalls_add_up(program: Program, trace: Trace) -> None:
    rows = stalls_by_step(trace, listing(program))
    first, last = trace.steady_window
    expected = sum(
        e.stall / (last - first)
        for e in trace.events
        if first <= e.iteration < last and e.cause is not Cause.MATRIX_UNIT
    )
    found = sum(row.mean for row in rows if row.phase is LoopPhase.LOOP) * len(trace.programs)
    assert found == pytest.approx(expected)
    assert all(row.worst >= row.mean > 0 for row in rows)
    assert [r.mean for r in rows] == sorted((r.mean for r in rows), reverse=True)


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_every_accumulator_sums_every_iteration_once(name: str) -> None:
    program = as_program(build_schedule(name))
    expected = list(range(program.iterations.at({"T": 3})))
    for group in program.groups:
        steps = {(section.name, slot): step for section, slot, step in group.steps()}
        found = touches(program, lds_lanes(program), group.waves[0], 3)
        sums: dict[object, list[int | None]] = {}
        for (section, slot, _), touch in found.items():
            step = steps[section, slot]
            if isinstance(step, Work) and step.accumulates:
                sums.setdefault((step.accumulates[0].boxes, step.label), []).append(touch.iteration)
        assert sums
        assert all(sorted(filter(None, t)) == expected[1:] for t in sums.values())


def test_lanes_are_the_boxes_that_loads_fill(program: Program) -> None:
    lanes = lds_lanes(program)
    assert [lane.name for lane in lanes] == [
        f"{operand} copy {copy} {dim} {part}"
        for operand, dim in (("A", "m"), ("B", "n"))
        for copy in (0, 1)
        for part in ("0:64", "64:128", "128:192", "192:256")
    ]
    load = touches(program, lanes, 0, 2)["loop", 2, 0]
    assert (load.iteration, load.reads) == (1, ())
    assert [lanes[n].name for n in load.writes] == ["A copy 1 m 128:192"]


def test_stalls_name_the_waves_where_others_do_other_work() -> None:
    program = producer_consumer()
    rows = stalls_by_step(simulate(program, iterations=17), listing(program))
    assert (rows[1].where, rows[1].label) == ("steady[6] of waves 1-4", "barrier")
    assert rows[1].waited_for == "wave 0"
    assert (rows[4].where, rows[4].waited_for) == ("steady[2] of wave 0", "fetch B")


@pytest.mark.parametrize("span", [(3, 3), (0, 7), (7, 19), (11, 12), (-4, 40), (-9, 2), (35, 50)])
def test_a_span_is_shared_out_to_the_buckets_that_it_meets(span: tuple[int, int]) -> None:
    begin, step, count = 2, 2.5, 12
    found = dict(shares(*span, begin, step, count))
    for bucket in range(count):
        left = begin + bucket * step
        covered = max(min(span[1], left + step) - max(span[0], left), 0)
        assert found.pop(bucket, 0) == covered
    assert not found
