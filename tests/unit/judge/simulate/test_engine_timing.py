"""Exact cycles of small programs, each worked out by hand from the machine's constants."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate import (
    Cause,
    Kind,
    Trace,
    WaveOp,
    WaveProgram,
    simulate_programs,
    simulate_stream,
)
from pipeloom.judge.simulate.engine import total_cycles_of
from pipeloom.judge.simulate.run_stream import MfmaName
from pipeloom.judge.simulate.steady import busy_cycles
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Traffic

MFMA16 = WaveOp.mfma(GFX950.matrix_op("16x16x32_f16"))
MFMA32 = WaveOp.mfma(GFX950.matrix_op("32x32x16_f16"))
VALU = WaveOp.valu()
EXP = WaveOp.valu(Kind.TRANS)
PACKED = WaveOp.valu(Kind.PACKED)
SALU = WaveOp.salu()
READ = WaveOp.lds_read(16)
LOAD = WaveOp.global_load(16, to_lds=True)


def once(*instructions: WaveOp, simd: int = 0) -> WaveProgram:
    return WaveProgram(simd=simd, loop=(), prologue=instructions)


def run(*programs: WaveProgram) -> Trace:
    return simulate_programs(programs, GFX950, 0)


def starts(trace: Trace, wave: int = 0) -> list[int]:
    return [event.start for event in trace.events if event.wave == wave]


def test_six_valu_hide_under_an_mfma_of_32_cycles_and_the_seventh_does_not() -> None:
    assert run(once(MFMA32, *[VALU] * 6, MFMA32)).total_cycles == 64
    assert run(once(MFMA32, *[VALU] * 7, MFMA32)).total_cycles == 68


def test_three_exps_hide_under_an_mfma_of_32_cycles() -> None:
    assert run(once(MFMA32, *[EXP] * 3, MFMA32)).total_cycles == 64
    assert run(once(MFMA32, *[EXP] * 3, VALU, MFMA32)).total_cycles == 68


def test_two_valu_hide_under_an_mfma_of_16_cycles() -> None:
    assert run(once(MFMA16, *[VALU] * 2, MFMA16)).total_cycles == 32
    assert run(once(MFMA16, *[VALU] * 3, MFMA16)).total_cycles == 36


def test_a_scaled_mfma_leaves_one_slot_less() -> None:
    scaled = WaveOp.mfma(GFX950.matrix_op("16x16x128_fp4_scaled"))
    assert run(once(scaled, VALU, scaled)).total_cycles == 32
    assert run(once(scaled, VALU, VALU, scaled)).total_cycles == 36
    big = WaveOp.mfma(GFX950.matrix_op("32x32x64_fp4_scaled"))
    assert run(once(big, *[VALU] * 5, big)).total_cycles == 64
    assert run(once(big, *[VALU] * 6, big)).total_cycles == 68


def test_packed_valu_never_hides() -> None:
    plain = run(once(MFMA32, MFMA32)).total_cycles
    trace = run(once(MFMA32, PACKED, MFMA32))
    assert trace.total_cycles == plain + 4
    assert starts(trace)[1] == GFX950.packed_after_mfma_cycles.value


def test_valu_of_another_wave_issues_under_the_operand_reads() -> None:
    trace = run(once(MFMA32), once(*[VALU] * 2))
    assert starts(trace, 1) == [4, 8]
    assert trace.events[1].cause is Cause.VALU_PORT


def test_mfmas_of_two_waves_share_one_matrix_unit() -> None:
    same = run(once(MFMA32, MFMA32), once(MFMA32, MFMA32))
    assert same.total_cycles == 128
    assert run(once(MFMA32, MFMA32), once(MFMA32, MFMA32, simd=1)).total_cycles == 64


def test_the_oldest_wave_goes_first_unless_priority_says_otherwise() -> None:
    oldest = run(once(SALU, MFMA32, MFMA32), once(SALU, MFMA32, MFMA32))
    assert starts(oldest, 0)[1:] == [4, 36]
    assert starts(oldest, 1)[1:] == [68, 100]
    raised = run(once(SALU, MFMA32, MFMA32), once(WaveOp.set_prio(1), MFMA32, MFMA32))
    assert starts(raised, 1)[1:] == [4, 36]


def test_dependent_instructions_wait_for_their_chain() -> None:
    op = GFX950.matrix_op("16x16x32_f16")
    dependent = run(once(*[WaveOp.mfma(op, chain="acc")] * 3))
    assert starts(dependent) == [0, 18, 36]
    assert dependent.events[1].cause is Cause.DEPENDENCE
    assert dependent.events[1].source == 0
    assert starts(run(once(*[WaveOp.valu(chain="v")] * 3))) == [0, 8, 16]
    independent = (WaveOp.valu(chain="a"), WaveOp.valu(chain="b"))
    assert starts(run(once(*independent))) == [0, 4]


def test_an_lds_read_takes_its_latency_and_the_wait_one_slot() -> None:
    trace = run(once(READ, WaveOp.wait(lgkm=0), SALU))
    latency = GFX950.lds_latency.value
    assert starts(trace) == [0, latency, latency + 4]
    assert trace.events[1].cause is Cause.LDS_DATA
    assert trace.events[1].source == 0


def test_a_satisfied_wait_costs_one_slot() -> None:
    trace = run(once(WaveOp.wait(vm=0, lgkm=0), SALU))
    assert starts(trace) == [0, 4]
    assert trace.events[0].stall == 0


def test_a_wait_counts_from_the_youngest() -> None:
    trace = run(once(READ, READ, READ, WaveOp.wait(lgkm=2), WaveOp.wait(lgkm=0)))
    first, last = trace.events[0], trace.events[2]
    assert trace.events[3].start == first.done
    assert trace.events[4].start == last.done


def test_a_wait_at_the_counters_limit_does_not_wait() -> None:
    trace = run(once(*[READ] * 3, WaveOp.wait(lgkm=15), WaveOp.wait(vm=63)))
    assert trace.events[3].stall == 0
    assert trace.events[4].stall == 0


@pytest.mark.parametrize(
    ("waves", "conflict", "cycles"),
    [(1, 1.0, 8), (1, 2.0, 8), (1, 4.0, 16), (4, 1.0, 16), (4, 2.0, 32), (4, 16.0, 256)],
)
def test_lds_reads_reach_the_measured_rate(waves: int, conflict: float, cycles: int) -> None:
    trace = simulate_stream("R32", arch="gfx950", simds=waves, lds_conflict=conflict)
    assert trace.steady_cycles_per_iteration / 32 == pytest.approx(cycles)


def test_narrow_reads_take_half_the_time() -> None:
    trace = simulate_stream("T32", arch="gfx950")
    assert trace.steady_cycles_per_iteration / 32 == pytest.approx(8)


def test_gfx942_reads_take_32_cycles_on_four_simds() -> None:
    trace = simulate_stream("R32", arch="gfx942")
    assert trace.steady_cycles_per_iteration / 32 == pytest.approx(32)


def test_the_ninth_lds_operation_of_a_simd_pair_waits_for_a_place() -> None:
    trace = run(once(*[READ] * 4), once(*[READ] * 5, simd=1))
    ninth = next(e for e in trace.events if e.cause is Cause.LDS_QUEUE)
    assert ninth.wave == 1
    assert ninth.position == 4
    separate = run(once(*[READ] * 4), once(*[READ] * 5, simd=2))
    assert all(event.cause is not Cause.LDS_QUEUE for event in separate.events)


def test_the_sixteenth_outstanding_read_waits_for_the_counter() -> None:
    machine = GFX950.with_value("lds_queue_depth", 64, "test")
    trace = simulate_programs((once(*[READ] * 16),), machine, 0)
    assert trace.events[15].cause is Cause.LDS_COUNTER
    assert trace.events[15].start == trace.events[0].done


def test_loads_issue_freely_then_at_the_pace_of_the_texture_path() -> None:
    programs = tuple(once(*[LOAD] * 8, simd=simd) for simd in range(4))
    trace = simulate_programs(programs, GFX950, 0)
    mine = starts(trace, 0)
    assert mine[:4] == [0, 4, 8, 12]
    assert [b - a for a, b in pairwise(mine[4:])] == [64, 64, 64]
    # A wave has four in its queue: the fifth of the last one waits until its first is through.
    assert starts(trace, 3)[:5] == [0, 4, 8, 12, 64]


def test_bytes_in_flight_are_capped() -> None:
    machine = GFX950.with_value("global_bytes_in_flight", 4096, "test")
    trace = simulate_programs((once(*[LOAD] * 9),), machine, 0)
    # The fifth waits ahead of the texture path for the first to return. The queue takes the
    # sixth to eighth behind it; the ninth has to wait until the fifth gets through.
    assert [event.stall for event in trace.events[4:8]] == [0, 12, 12, 12]
    texture = 16
    through = trace.events[0].done + texture
    assert trace.events[4].done == through + GFX950.global_latency.value
    ninth = trace.events[8]
    assert (ninth.cause, ninth.source, ninth.start) == (Cause.BYTES_IN_FLIGHT, 0, through)


def test_a_stream_of_loads_gets_its_share_of_the_bandwidth() -> None:
    trace = simulate_stream("G8", arch="gfx950", iterations=60)
    expected = 8 * 4 * 1024 / GFX950.global_bytes_per_clk.value
    assert trace.steady_cycles_per_iteration == pytest.approx(expected, rel=0.01)
    assert trace.limiting_unit() == "memory bandwidth"


def test_vmcnt_limits_what_is_outstanding() -> None:
    machine = GFX950.with_value("global_bytes_in_flight", 10**9, "test").with_value(
        "vmem_bytes_per_clk", 10**6, "test"
    )
    machine = machine.with_value("vmem_min_cycles", 1, "test")
    trace = simulate_programs((once(*[LOAD] * 64),), machine, 0)
    assert trace.events[63].cause is Cause.VMEM_COUNTER
    assert trace.events[63].start == trace.events[0].done


def test_a_ds_write_does_not_hide_under_its_own_mfma() -> None:
    mfma = WaveOp.mfma(GFX942.matrix_op("16x16x16_f16"))
    write = WaveOp.lds_write(16)
    trace = simulate_programs((once(mfma, write, mfma),), GFX942, 0)
    assert starts(trace) == [0, 16, 36]
    other = simulate_programs((once(mfma), once(write)), GFX942, 0)
    assert starts(other, 1) == [0]


@pytest.mark.parametrize(("width", "cycles"), [(4, 8), (8, 12), (12, 16), (16, 20)])
def test_a_ds_write_keeps_its_wave_by_its_width(width: int, cycles: int) -> None:
    trace = run(once(WaveOp.lds_write(width), SALU))
    assert starts(trace) == [0, cycles]


def test_s_nop_stalls_four_times_its_immediate() -> None:
    assert starts(run(once(WaveOp.nop(0), SALU))) == [0, 4]
    assert starts(run(once(WaveOp.nop(4), SALU))) == [0, 20]


def test_a_barrier_releases_when_the_last_wave_arrives() -> None:
    barrier = WaveOp.barrier()
    trace = run(once(barrier, SALU), once(MFMA32, SALU, SALU, barrier, SALU))
    early, late = (next(e for e in trace.events if e.wave == w and e.done == 17) for w in (0, 1))
    assert (early.start, early.cause, trace.events[early.source].wave) == (
        16,
        Cause.OTHER_WAVE,
        1,
    )
    assert (late.stall, late.cause) == (0, Cause.NONE)
    assert [event.ready for event in trace.events][-2:] == [17, 17]


def test_a_barrier_costs_more_where_no_other_wave_fills_in() -> None:
    barrier = WaveOp.barrier()
    alone = run(once(barrier, SALU), once(barrier, SALU, simd=1))
    assert starts(alone)[1] == GFX950.barrier_alone_cycles.value
    shared = run(once(barrier, SALU), once(barrier, SALU))
    assert starts(shared)[1] == GFX950.barrier_shared_cycles.value


def test_an_ended_wave_does_not_hold_up_a_barrier() -> None:
    trace = run(once(SALU), once(WaveOp.barrier(), SALU))
    assert [event.wave for event in trace.events] == [0, 1, 1]


def test_the_stagger_puts_group_b_one_barrier_behind() -> None:
    trace = simulate_stream("M8 B R4 wl0 B", waves_per_simd=2, stagger=True, iterations=6)
    barriers: dict[int, list[int]] = {}
    for event in trace.events:
        if trace.instruction(event).kind is Kind.BARRIER:
            barriers.setdefault(event.wave, []).append(event.start)
    assert barriers[0] == barriers[4]
    first_mfma_b = next(e for e in trace.events if e.wave == 4 and e.iteration == 0)
    assert first_mfma_b.ready > barriers[0][0]
    assert len(barriers[0]) == 6 * 2 + 1
    assert [program.group for program in trace.programs] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_landing_data_takes_time_of_the_lds_array() -> None:
    quiet = run(once(*[SALU] * 160, READ, WaveOp.wait(lgkm=0)))
    machine = GFX950.with_value("global_latency", 0, "test").with_value(
        "lds_bytes_per_clk", 1, "test"
    )
    busy = simulate_programs((once(LOAD, *[SALU] * 160, READ),), machine, 0)
    unloaded = simulate_programs((once(*[SALU] * 160, READ),), machine, 0)
    assert quiet.total_cycles > 0
    delay = busy.events[-1].done - busy.events[-1].start
    assert delay > unloaded.events[-1].done - unloaded.events[-1].start


@pytest.mark.parametrize(
    ("mfma", "cycles"),
    [
        ("32x32x16_f16", 32),
        (24, 24),
        ({"shape": "16x16x128_f8f6f4", "count": 8, "cycles": 16}, 16),
        ({"shape": "of the future", "cycles": 12}, 12),
        ({"shape": "32x32x16"}, 32),
        (GFX950.matrix_op("32x32x64_fp8"), 64),
        (None, 16),
    ],
)
def test_what_m_is_can_be_said_in_several_ways(mfma: MfmaName, cycles: int) -> None:
    trace = simulate_stream("M8", mfma=mfma, iterations=12)
    assert trace.steady_cycles_per_iteration == 8 * cycles


def test_stores_leave_at_the_rate_of_the_machine() -> None:
    """256x256 of 16 bits from four waves: the measured drain and store takes 16660 cycles."""
    store = WaveOp.global_store(16)
    programs = [WaveProgram(simd, loop=(), prologue=(store,) * 32) for simd in range(4)]
    trace = simulate_programs(programs, GFX950, 0)
    bytes_stored = 4 * 32 * 64 * 16
    assert bytes_stored == 256 * 256 * 2
    least = bytes_stored / GFX950.store_bytes_per_clk.value
    assert least <= trace.total_cycles <= least + GFX950.global_latency.value + 64


def test_a_loop_of_stores_is_limited_by_memory() -> None:
    loop = (WaveOp.global_store(16),) * 8
    trace = simulate_programs([WaveProgram(0, loop)], GFX950, 24)
    assert trace.steady_cycles_per_iteration == 8 * 64 * 16 / GFX950.store_bytes_per_clk.value
    assert trace.limiting_unit() == "memory bandwidth"


@pytest.mark.parametrize("waves", [1, 2, 8])
def test_a_simd_issues_one_scalar_instruction_per_turn(waves: int) -> None:
    trace = simulate_stream("S16", waves_per_simd=waves)
    assert trace.total_cycles == 24 * 16 * 4 * waves


def test_an_lds_access_has_no_conflict_unless_it_says_so() -> None:
    bare = WaveOp(Kind.LDS_READ, bytes_per_lane=16)
    assert bare.conflict == WaveOp.lds_read(16).conflict == 1.0


def test_a_count_that_the_counter_cannot_exceed_waits_for_nothing() -> None:
    """Of 40 scalar loads more are outstanding than the counter counts."""
    limit = GFX950.counting(Traffic.LDS).limit.value

    def cycles(*waits: WaveOp) -> int:
        program = WaveProgram(0, (*(WaveOp.scalar_load(),) * 40, *waits, VALU))
        found = simulate_programs([program], GFX950, 1).events
        return max(event.start for event in found)

    issued = [cycles(WaveOp.wait(lgkm=n)) for n in (limit + 1, limit, limit - 1)]
    assert issued[0] == issued[1] < issued[2]


def test_lds_has_no_conflicts_unless_they_are_told() -> None:
    assert {WaveOp.lds_read(16).conflict, WaveOp.lds_write(16).conflict} == {1.0}


def test_the_busiest_simd_binds() -> None:
    """Two waves on one SIMD, one on another."""
    matrix = WaveOp.mfma(GFX950.matrix_ops[0])
    programs = [WaveProgram(simd, (matrix, VALU)) for simd in (0, 0, 1)]
    alone = busy_cycles(programs[:1], GFX950)
    both = busy_cycles(programs, GFX950)
    assert [both[unit] for unit in ("matrix", "valu issue")] == [
        2 * alone[unit] for unit in ("matrix", "valu issue")
    ]


def test_cycles_without_a_trace_are_refused_as_a_trace_is() -> None:
    for programs, iterations in (((), 1), ((once(SALU),), -1), ((once(SALU, simd=9),), 1)):
        with pytest.raises(ConfigError):
            total_cycles_of(programs, GFX950, iterations)


def test_a_scalar_result_is_complete_when_its_wave_goes_on() -> None:
    (event,) = run(once(SALU)).events
    assert event.done == event.free > event.start


def test_the_latency_of_a_read_has_the_delay_of_its_queue_in_it() -> None:
    def cycles(delay: int) -> int:
        machine = replace(GFX950, lds_queue_delay=replace(GFX950.lds_queue_delay, value=delay))
        return total_cycles_of((once(READ),), machine, 0)

    assert cycles(0) == cycles(1) == cycles(9) == total_cycles_of((once(READ),), GFX950, 0)
