"""The questions a trace answers: phases, efficiency, stalls, the limiting unit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate import (
    Cause,
    LoopPhase,
    Trace,
    WaveOp,
    WaveProgram,
    simulate_programs,
    simulate_stream,
)
from pipeloom.machine.gfx950 import GFX950

MFMA = WaveOp.mfma(GFX950.matrix_op("16x16x32_f16"))
MFMA_CYCLES = GFX950.matrix_op("16x16x32_f16").cycles.value
LOAD = replace(WaveOp.global_load(16, to_lds=True, label="load A"), entry=7)


def three_phases(iterations: int) -> Trace:
    program = WaveProgram(
        simd=0,
        prologue=(LOAD, WaveOp.wait(vm=0)),
        loop=(MFMA, MFMA, WaveOp.branch()),
        epilogue=(WaveOp.salu(),),
    )
    return simulate_programs((program,), GFX950, iterations)


def test_phases_add_up_to_the_total() -> None:
    trace = three_phases(5)
    texture, latency = 16, GFX950.global_latency.value
    assert trace.prologue_cycles == texture + latency + GFX950.wait_cycles.value
    # Two MFMAs: the second issues at 16, the branch 8 later and takes 20.
    assert trace.steady_cycles_per_iteration == 44
    assert trace.epilogue_cycles == 4
    assert trace.prologue_cycles + 5 * 44 + trace.epilogue_cycles == trace.total_cycles


def test_events_know_their_phase_iteration_and_instruction() -> None:
    trace = three_phases(2)
    phases = [trace.phase(event) for event in trace.events]
    assert phases == [LoopPhase.PROLOGUE] * 2 + [LoopPhase.LOOP] * 6 + [LoopPhase.EPILOGUE]
    assert [event.iteration for event in trace.events] == [-1, -1, 0, 0, 0, 1, 1, 1, 2]
    assert trace.instruction(trace.events[0]).entry == 7


def test_a_trip_count_of_zero_skips_the_loop() -> None:
    trace = three_phases(0)
    assert trace.steady_cycles_per_iteration == 0.0
    assert trace.utilisation() == {}
    assert trace.limiting_unit() == "none"
    assert trace.total_cycles == trace.prologue_cycles + 4


def test_efficiency_is_busy_over_total_for_each_simd() -> None:
    trace = three_phases(5)
    assert trace.steady_matrix_efficiency() == (32 / 44, 0.0, 0.0, 0.0)
    assert trace.matrix_efficiency()[0] == pytest.approx(5 * 32 / trace.total_cycles)


def rate(flops: int, cycles: float) -> float:
    """TFLOPS of all compute units at the sustained clock."""
    ghz, units = GFX950.clock_sustained_ghz.value, GFX950.cus.value
    return flops / cycles * units * ghz * 1e9 / 1e12


def test_the_rate_counts_the_matrix_products_of_the_steady_loop() -> None:
    """Two of 16 x 16 x 32 in 44 cycles; what comes before and behind does not count."""
    flops = 2 * (2 * 16 * 16 * 32)
    assert three_phases(5).tflops == pytest.approx(rate(flops, 44))
    program = three_phases(5).programs[0]
    twice = simulate_programs((program, replace(program, simd=1)), GFX950, 5)
    steady = twice.steady_cycles_per_iteration
    assert twice.tflops == pytest.approx(rate(2 * flops, steady))


def test_without_a_loop_the_rate_is_that_of_the_whole_run() -> None:
    ends = WaveProgram(simd=0, prologue=(MFMA,), loop=(MFMA,) * 9, epilogue=(MFMA, MFMA))
    trace = simulate_programs((ends,), GFX950, 0)
    assert trace.tflops == pytest.approx(rate(3 * (2 * 16 * 16 * 32), trace.total_cycles))
    assert three_phases(0).tflops == 0.0
    nothing = simulate_programs((WaveProgram(simd=0, loop=(MFMA,)),), GFX950, 0)
    assert nothing.total_cycles == 0
    assert nothing.tflops == 0.0
    assert nothing.matrix_efficiency() == (0.0,) * 4


@pytest.mark.parametrize(
    ("iterations", "window"), [(0, (0, 0)), (3, (0, 3)), (4, (1, 3)), (5, (1, 4)), (12, (4, 11))]
)
def test_the_steady_window_leaves_out_the_first_third_and_the_last(
    iterations: int, window: tuple[int, int]
) -> None:
    assert three_phases(iterations).steady_window == window


def test_every_unit_is_busy_for_what_its_instructions_cost() -> None:
    """Per iteration of one wave on each of two SIMDs: LDS and memory are shared, issue is not."""
    loop = (MFMA, MFMA, WaveOp.valu(), WaveOp.lds_read(16), LOAD)
    waves = tuple(WaveProgram(simd=simd, loop=loop) for simd in (0, 2))
    trace = simulate_programs(waves, GFX950, 12)
    period = trace.steady_cycles_per_iteration
    busy = {unit: share * period for unit, share in trace.utilisation().items()}
    costs = [one.cost(GFX950) for one in loop]
    assert busy == pytest.approx(
        {
            "matrix": 2 * MFMA_CYCLES,
            "valu issue": sum(c.vector for c in costs),
            "lds": 2 * sum(c.array for c in costs),
            "texture path": 2 * sum(c.texture for c in costs),
            "memory bandwidth": 2 * sum(c.memory for c in costs),
        }
    )
    assert trace.steady_matrix_efficiency()[1::2] == (0.0, 0.0)
    assert trace.steady_matrix_efficiency()[0] == pytest.approx(2 * MFMA_CYCLES / period)


def test_the_stall_table_says_where_how_long_and_on_what() -> None:
    trace = three_phases(5)
    worst = trace.stall_table()[0]
    assert (worst.phase, worst.position, worst.label) == (LoopPhase.PROLOGUE, 1, "vmcnt(0)")
    assert worst.cycles == (16 + GFX950.global_latency.value - 4.0,)
    assert (worst.cause, worst.waited_for) == (Cause.LOADS, "load A")
    assert worst.mean == worst.cycles[0]


def test_the_stall_table_lists_waits_that_cost_nothing() -> None:
    trace = simulate_stream("M8 wl0 branch")
    (wait,) = [row for row in trace.stall_table() if row.label == "lgkmcnt(0)"]
    assert wait.cycles == (0.0,) * 4
    assert (wait.cause, wait.waited_for) == (Cause.NONE, "")


def test_a_barrier_names_the_wave_it_waited_for() -> None:
    slow = WaveProgram(simd=0, loop=(*[MFMA] * 8, WaveOp.barrier()))
    fast = WaveProgram(simd=1, loop=(WaveOp.barrier(),))
    trace = simulate_programs((slow, fast), GFX950, 6)
    barriers = [row for row in trace.stall_table() if row.label == "s_barrier"]
    assert {row.waited_for for row in barriers if row.cycles[1] > 0} == {"wave 0"}


def test_loop_stalls_are_per_iteration() -> None:
    short = simulate_stream("R4 wl0 M2 branch", iterations=12)
    long = simulate_stream("R4 wl0 M2 branch", iterations=48)
    mine = {row.position: row.cycles for row in short.stall_table()}
    assert {row.position: row.cycles for row in long.stall_table()} == mine


@pytest.mark.parametrize(
    ("stream", "unit"),
    [
        ("M16 branch", "matrix"),
        ("V64 branch", "valu issue"),
        ("R32 branch", "lds"),
        ("R wl0 M", "waiting: LDS data"),
        ("G wv0 M4", "waiting: global loads"),
        ("S16", "issue"),
        ("N3", "issue"),
        ("R G wl0 wv0", "waiting: global loads"),
        ("V9 S1", "valu issue"),
        ("wv0 wl0", "issue"),
        ("B", "barriers"),
        ("B8", "barriers"),
        ("M16 B2", "matrix"),
    ],
)
def test_the_limiting_unit(stream: str, unit: str) -> None:
    assert simulate_stream(stream, mfma="32x32x16").limiting_unit() == unit


@pytest.mark.parametrize(
    ("stream", "iterations", "unit"),
    [
        ("M4", 1, "matrix"),
        ("M32", 2, "matrix"),
        ("R100 wl15 wl0", 10, "lds"),
        ("G100 wv63 wv0", 10, "memory bandwidth"),
    ],
)
def test_no_unit_is_busy_for_more_than_all_of_a_short_run(
    stream: str, iterations: int, unit: str
) -> None:
    trace = simulate_stream(stream, iterations=iterations)
    assert trace.utilisation()[unit] == 1.0


def test_one_iteration_takes_at_least_its_matrix_cycles() -> None:
    trace = simulate_stream("M4", iterations=1)
    assert trace.steady_cycles_per_iteration == trace.total_cycles == 64


def test_free_running_waves_never_show_more_than_full_efficiency() -> None:
    trace = simulate_stream("R16 wl0 M64 branch", waves_per_simd=2, iterations=24)
    assert max(trace.steady_matrix_efficiency()) <= 1.0


def test_the_summary_is_plain_data() -> None:
    summary = three_phases(5).summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["steady_cycles_per_iteration"] == 44
    assert summary["arch"] == "gfx950"


def test_jitter_changes_latencies_but_not_the_work() -> None:
    plain = simulate_stream("G4 wv0 M8 branch", iterations=12)
    shaken = simulate_stream("G4 wv0 M8 branch", iterations=12, jitter=0.5, seed=1)
    assert shaken.total_cycles > plain.total_cycles
    assert len(shaken.events) == len(plain.events)
    other = simulate_stream("G4 wv0 M8 branch", iterations=12, jitter=0.5, seed=2)
    assert other.total_cycles != shaken.total_cycles


@pytest.mark.parametrize("mfma", [{}, {"shape": 16}])
def test_a_matrix_instruction_has_cycles_or_a_shape(mfma: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="names neither the cycles nor the shape"):
        simulate_stream("M8", mfma=mfma)
