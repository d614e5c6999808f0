"""What must hold of every trace, whatever the loop."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom.judge.simulate import (
    Cause,
    Event,
    Kind,
    Trace,
    simulate_programs,
    simulate_stream,
)
from pipeloom.judge.simulate.instruction import (
    GLOBAL_KINDS,
    LDS_KINDS,
    VALU_KINDS,
    WaveProgram,
)
from pipeloom.judge.simulate.settled import steady_cycles_of
from pipeloom.machine.chips import target_for

WORDS = "M2 M5 R R3 T2 W G G2 V V3 X P S N N(2) wl0 wl3 wv0 wv2 wv4+wl1 B branch prio(1) prio(0)"


@st.composite
def loops(draw: st.DrawFn) -> dict[str, object]:
    words = draw(st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=25))
    waves = draw(st.integers(1, 3))
    return {
        "stream": " ".join(words),
        "arch": draw(st.sampled_from(["gfx950", "gfx942"])),
        "waves_per_simd": waves,
        "stagger": waves == 2 and "B" in words and draw(st.booleans()),
        "iterations": draw(st.integers(0, 7)),
        "lds_conflict": draw(st.sampled_from([1.0, 2.0])),
        "jitter": draw(st.sampled_from([0.0, 0.0, 0.7])),
        "seed": draw(st.integers(0, 3)),
    }


def simulate(case: dict[str, object]) -> Trace:
    return simulate_stream(**case)  # type: ignore[arg-type]


@settings(max_examples=80, deadline=None)
@given(loops(), st.integers(4, 12))
def test_a_run_that_stops_where_it_repeats_says_what_the_whole_one_does(
    case: dict[str, object], iterations: int
) -> None:
    trace = simulate({**case, "iterations": iterations, "jitter": 0.0})
    short = steady_cycles_of(trace.programs, trace.machine, iterations)
    assert short == trace.steady_cycles_per_iteration


@settings(max_examples=60, deadline=None)
@given(loops())
def test_times_are_in_order_and_units_are_not_shared(case: dict[str, object]) -> None:
    trace = simulate(case)
    machine = trace.machine
    by_wave: dict[int, list[Event]] = defaultdict(list)
    matrix: dict[int, list[tuple[int, int]]] = defaultdict(list)
    vector: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in trace.events:
        by_wave[event.wave].append(event)
        instruction = trace.instruction(event)
        simd = trace.programs[event.wave].simd
        if instruction.kind is Kind.MFMA:
            matrix[simd].append((event.start, event.done))
        if instruction.kind in (Kind.MFMA, *VALU_KINDS):
            width = instruction.cost(machine).vector
            vector[simd].append((event.start, event.start + width))
        assert event.ready <= event.start <= event.done <= trace.total_cycles
        assert event.start < event.free
        assert (event.cause is Cause.NONE) == (event.start == event.ready)
    for events in by_wave.values():
        for before, after in pairwise(events):
            assert before.free == after.ready
    for spans in (*matrix.values(), *vector.values()):
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert end <= start


@settings(max_examples=60, deadline=None)
@given(loops())
def test_counters_never_exceed_their_limits_and_waits_hold(case: dict[str, object]) -> None:
    trace = simulate(case)
    limits = {
        "vm": trace.machine.counter("vmcnt").limit.value,
        "lgkm": trace.machine.counter("lgkmcnt").limit.value,
    }
    outstanding: dict[tuple[int, str], list[int]] = defaultdict(list)
    for event in sorted(trace.events, key=lambda e: (e.start, e.wave)):
        instruction = trace.instruction(event)
        counter = "vm" if instruction.kind in GLOBAL_KINDS else "lgkm"
        if instruction.kind in (*GLOBAL_KINDS, *LDS_KINDS):
            times = outstanding[event.wave, counter]
            times.append(event.done)
            assert sum(time > event.start for time in times) <= limits[counter]
            assert times == sorted(times), "counters retire in order"
        if instruction.kind is Kind.WAIT:
            for name, count in (("vm", instruction.vm), ("lgkm", instruction.lgkm)):
                left = sum(time > event.start for time in outstanding[event.wave, name])
                assert count is None or left <= count


@settings(max_examples=60, deadline=None)
@given(loops())
def test_every_wave_leaves_a_barrier_together(case: dict[str, object]) -> None:
    trace = simulate(case)
    releases: dict[int, list[int]] = defaultdict(list)
    for event in sorted(trace.events, key=lambda e: (e.start, e.wave)):
        if trace.instruction(event).kind is Kind.BARRIER:
            releases[event.wave].append(event.start)
    assert len({tuple(times) for times in releases.values()}) <= 1


@settings(max_examples=60, deadline=None)
@given(loops())
def test_no_unit_is_busy_for_longer_than_there_is_time(case: dict[str, object]) -> None:
    trace = simulate(case)
    assert all(0.0 <= share <= 1.0 for share in trace.matrix_efficiency())
    assert all(0.0 <= share <= 1.0 for share in trace.steady_matrix_efficiency())
    assert all(0.0 <= share <= 1.0 for share in trace.utilisation().values())


@settings(max_examples=40, deadline=None)
@given(loops())
def test_the_same_arguments_give_the_same_trace(case: dict[str, object]) -> None:
    assert simulate(case) == simulate(case)
    if case["jitter"] == 0.0:
        assert simulate(case) == simulate({**case, "seed": 99})


@settings(max_examples=40, deadline=None)
@given(loops())
def test_a_loop_runs_like_its_unrolling(case: dict[str, object]) -> None:
    trace = simulate(case)
    machine = target_for(str(case["arch"]))
    unrolled = [
        WaveProgram(
            simd=program.simd,
            loop=(),
            prologue=program.prologue + program.loop * trace.iterations + program.epilogue,
        )
        for program in trace.programs
    ]
    if not all(program.prologue for program in unrolled):
        return
    jitter, seed = float(str(case["jitter"])), int(str(case["seed"]))
    flat = simulate_programs(unrolled, machine, 0, jitter=jitter, seed=seed)
    assert [(e.wave, e.start, e.free, e.done) for e in flat.events] == [
        (e.wave, e.start, e.free, e.done) for e in trace.events
    ]


@settings(max_examples=60, deadline=None)
@given(loops(), st.sampled_from(WORDS.split()), st.data())
def test_one_wave_is_never_faster_for_more_work(
    case: dict[str, object], extra: str, data: st.DataObject
) -> None:
    """Of one wave, up to the order in which landing data and reads meet at the LDS array.

    Several waves may be: one more instruction can skew two waves that were in each other's way.
    """
    words = str(case["stream"]).split()
    at = data.draw(st.integers(0, len(words)))
    alone = {**case, "waves_per_simd": 1, "stagger": False, "simds": 1, "jitter": 0.0}
    longer = simulate({**alone, "stream": " ".join([*words[:at], extra, *words[at:]])})
    assert longer.total_cycles >= simulate(alone).total_cycles - 8
