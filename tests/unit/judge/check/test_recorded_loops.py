"""Loops of emulated kernels on the simulator: closed forms, own kernels, waves on other paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.cli.check import SIMULATED
from pipeloom.drive.checking import check
from pipeloom.drive.correcting import correct
from pipeloom.drive.kernel_files import KernelFile, Start
from pipeloom.drive.limiting import limited
from pipeloom.drive.timing_files import savings, time_checked, time_loosened, time_start
from pipeloom.errors import ConfigError
from pipeloom.judge.check.verdict import CheckStatus
from pipeloom.judge.emulate import load_code_object
from pipeloom.judge.simulate import Kind
from pipeloom.machine.chips import target_for
from pipeloom.machine_code.loop_times import KernelTiming

GFX950 = target_for("gfx950")
LOOP = """
  s_mov_b32 s8, {trips}
.Lloop:
{body}
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  s_endpgm"""
OVERHEAD = 2 * GFX950.issue_cycles.value + GFX950.branch_cycles.value
"""Counter, compare, branch."""


def timed(bench: Any, text: str, block: int = 64, lds: int = 0) -> KernelTiming:
    data = bench.assemble(bench.text(text, lds=lds), "gfx950")
    file = KernelFile(load_code_object(data).kernel(), data)
    args = [np.zeros(256, np.uint32), np.zeros(256, np.uint32)]
    return time_start(file, Start((1,), (block,), args, 0))


def test_a_chain_of_valu_takes_its_latency(bench: Any) -> None:
    """Eight dependent adds: 8 cycles each; eight that do not depend: 4 each."""
    dependent = LOOP.format(trips=6, body="  v_add_u32 v1, v1, v1\n" * 8)
    free = "".join(f"  v_add_u32 v{n}, v20, v20\n" for n in range(1, 9))
    chain = timed(bench, dependent).main
    apart = timed(bench, LOOP.format(trips=6, body=free)).main
    # The last result is ready long before the branch back has been taken.
    late = GFX950.valu_dependent_cycles.value
    assert chain.cycles == 7 * late + GFX950.valu_cycles.value + OVERHEAD
    assert apart.cycles == 8 * GFX950.valu_cycles.value + OVERHEAD


def test_a_chain_of_mfma_takes_its_latency(bench: Any) -> None:
    one = "  v_mfma_f32_16x16x32_bf16 a[{0}:{1}], v[8:11], v[12:15], a[{0}:{1}]\n"
    cycles = GFX950.matrix_op("16x16x32_f16").cycles.value
    extra = GFX950.mfma_dependent_extra.value
    chain = timed(bench, LOOP.format(trips=6, body=one.format(0, 3) * 8)).main
    apart = "".join(one.format(4 * n, 4 * n + 3) for n in range(8))
    free = timed(bench, LOOP.format(trips=6, body=apart)).main
    rest = OVERHEAD + GFX950.mfma_operand_cycles.value
    assert chain.cycles == 7 * (cycles + extra) + max(rest, cycles + extra)
    assert free.cycles == 7 * cycles + max(rest, cycles)
    assert free.efficiency == pytest.approx(8 * cycles / free.cycles)


def test_an_mfma_waits_for_the_vector_result_that_it_reads(bench: Any) -> None:
    body = "  v_exp_f32 v8, v9\n  v_mfma_f32_16x16x32_bf16 a[0:3], v[8:11], v[12:15], 0\n"
    main = timed(bench, LOOP.format(trips=6, body=body)).main
    late = GFX950.valu_dependent_cycles.value - GFX950.valu_cycles.value
    trans, held = GFX950.trans_cycles.value, GFX950.mfma_operand_cycles.value
    assert main.cycles == trans + late + held + OVERHEAD


def test_bank_conflicts_come_from_the_lanes_addresses(bench: Any) -> None:
    setup = "  v_lshlrev_b32 v1, {shift}, v0\n"
    body = "  ds_read_b32 v2, v1\n  s_waitcnt lgkmcnt(0)\n"
    found = {
        shift: timed(bench, setup.format(shift=shift) + LOOP.format(trips=4, body=body), lds=65536)
        for shift in (2, 8)
    }
    conflicts = {
        shift: {i.conflict for i in one.main.loop.programs[0].loop if i.kind is Kind.LDS_READ}
        for shift, one in found.items()
    }
    assert conflicts == {2: {1.0}, 8: {64.0}}, "256 bytes apart: all lanes on one bank"


def test_rotating_buffers_are_one_iteration(bench: Any) -> None:
    """Every other trip takes another branch: two trips are an iteration, and a trip half of it."""
    body = """  s_and_b32 s9, s8, 1
  s_cmp_eq_u32 s9, 0
  s_cbranch_scc1 .Leven
  v_add_u32 v1, v1, v1
  v_add_u32 v1, v1, v1
.Leven:
  v_add_u32 v2, v2, v2"""
    main = timed(bench, LOOP.format(trips=8, body=body)).main
    assert (main.loop.trips, main.loop.trips_per_iteration) == (8, 2)
    assert len([i for i in main.loop.programs[0].loop if i.kind is Kind.VALU]) == 4
    assert main.cycles == main.trace.steady_cycles_per_iteration / 2


def test_waves_in_different_loops_run_them_together(bench: Any) -> None:
    """Wave 0 meets one barrier per trip, wave 1 two: one trip of it for two of the other."""
    text = """
  v_readfirstlane_b32 s9, v0
  s_mov_b32 s8, 8
  s_cmp_lg_u32 s9, 0
  s_cbranch_scc1 .Lother
.Lfirst:
  v_add_u32 v1, v1, v1
  s_barrier
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lfirst
  s_endpgm
.Lother:
  s_barrier
  v_add_u32 v2, v2, v2
  s_barrier
  s_sub_u32 s8, s8, 2
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lother
  s_endpgm"""
    timing = timed(bench, text, block=128)
    assert len(timing.loops) == 2
    by_head = {loop.head_pc: loop for loop in timing.loops}
    first, other = (by_head[pc] for pc in sorted(by_head))
    assert first.loop.waves == other.loop.waves == (0, 1)
    assert (first.loop.trips_per_iteration, other.loop.trips_per_iteration) == (2, 1)
    barriers = [sum(i.kind is Kind.BARRIER for i in p.loop) for p in first.loop.programs]
    assert barriers == [2, 2]
    assert other.cycles == pytest.approx(2 * first.cycles)


def test_the_loop_with_the_matrix_work_comes_first(bench: Any) -> None:
    text = """
  s_mov_b32 s8, 2
.Louter:
  s_mov_b32 s9, 3
.Linner:
  v_mfma_f32_16x16x32_bf16 a[0:3], v[8:11], v[12:15], a[0:3]
  s_sub_u32 s9, s9, 1
  s_cmp_lg_u32 s9, 0
  s_cbranch_scc1 .Linner
  v_add_u32 v1, v1, v1
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Louter
  s_endpgm"""
    loops = timed(bench, text).loops
    assert [loop.loop.trips for loop in loops] == [3, 2]
    mfmas = [sum(i.kind is Kind.MFMA for i in loop.loop.programs[0].loop) for loop in loops]
    assert mfmas == [1, 3]


def test_a_loop_that_ran_once_is_repeated_as_it_ran(bench: Any) -> None:
    text = LOOP.format(trips=1, body="  v_add_u32 v1, v1, v1\n" * 8)
    main = timed(bench, text).main
    late, add = GFX950.valu_dependent_cycles.value, GFX950.valu_cycles.value
    assert main.loop.trips == 1
    assert main.cycles == 7 * late + add + 3 * GFX950.issue_cycles.value, "no branch was taken"


def test_a_kernel_without_a_loop_is_one_run(bench: Any) -> None:
    main = timed(bench, "  v_add_u32 v1, v1, v1\n  v_add_u32 v1, v1, v1\n  s_endpgm").main
    assert main.loop.trips == 0
    assert main.cycles == GFX950.valu_dependent_cycles.value + GFX950.valu_cycles.value


def test_live_registers_are_counted_from_write_to_last_read(bench: Any) -> None:
    body = """  v_mov_b32 v1, 1
  v_mov_b32 v2, 2
  v_add_u32 v3, v1, v2
  v_add_u32 v4, v4, v3"""
    loop = timed(bench, LOOP.format(trips=4, body=body)).main.loop.programs[0].loop
    live = [one.live for one in loop if one.kind is Kind.VALU]
    assert live == [2, 3, 4, 2], "v4 is carried from trip to trip"


def test_what_is_not_needed_costs_what_the_fixed_kernel_saves(bench: Any) -> None:
    """The loop without its needless wait and barrier, by the model and as ``--fix`` writes it."""
    body = """  global_load_dword v3, v1, s[4:5]
  s_waitcnt vmcnt(0)
  s_barrier
  v_add_u32 v2, v2, v2
  s_waitcnt vmcnt(0)
  v_add_u32 v2, v2, v3"""
    start = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v2, 1
"""
    text = start + LOOP.format(trips=6, body=body).replace(
        "  s_endpgm", "  global_store_dword v1, v2, s[6:7]\n  s_endpgm"
    )
    data = bench.assemble(bench.text(text, lds=0), "gfx950")
    given = [np.zeros(256, np.uint32), np.zeros(256, np.uint32)]
    checked = check(data, (1,), (128,), given)
    assert len(checked.verdict.needless) == 2
    before, after = time_checked(checked), time_loosened(checked)
    assert before is not None
    assert after is not None
    fixed = time_checked(correct(checked).checked)
    assert fixed is not None
    assert after.main.cycles == fixed.main.cycles < before.main.cycles
    (saving,) = savings(before, after)
    assert (saving.before, saving.after) == (before.main.cycles, after.main.cycles)
    assert time_loosened(correct(checked).checked) is None


UNEVEN = """
  v_readfirstlane_b32 s9, v0
  s_cmp_ge_u32 s9, 64
  s_cbranch_scc1 .Lother
  s_mov_b32 s8, 7
.Lone:
  s_barrier
  s_barrier
  s_barrier
  s_barrier
  s_barrier
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lone
  s_endpgm
.Lother:
  s_mov_b32 s8, 5
.Ltwo:
  s_barrier
  s_barrier
  s_barrier
  s_barrier
  s_barrier
  s_barrier
  s_barrier
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Ltwo
  s_endpgm"""


def test_a_loop_beyond_the_budget_is_named_and_not_simulated(bench: Any) -> None:
    """Trips of 5 and of 7 barriers agree after 35: seven trips of one wave, five of the other."""
    data = bench.assemble(bench.text(UNEVEN, lds=0), "gfx950")
    checked = check(data, (1,), (128,), [np.zeros(256, np.uint32)] * 2)
    whole = 7 * (5 + 3) + 5 * (7 + 3)
    enough = time_checked(checked)
    assert enough is not None
    assert {loop.loop.instructions for loop in enough.loops} == {whole}
    assert len({id(loop.trace) for loop in enough.loops}) == 1  # one simulation for both loops
    assert enough.spent >= whole
    less = time_checked(checked, budget=8 * whole - 1)
    assert less is not None
    assert (less.loops, less.spent, len(less.skipped)) == ((), 0, 2)
    assert f"{whole} instructions" in less.skipped[0]
    assert [loop.programs for loop in less.recorded.loops(whole - 1)] == [(), ()]
    with pytest.raises(ConfigError, match="not simulated") as error:
        _ = less.main
    assert error.value.field == "launch"


def _role(name: str, trips: int, barriers: int) -> str:
    work = ".rept 12\n  v_add_f32 v2, v2, v3\n.endr"
    body = f".rept {barriers}\n  s_barrier\n  {work}\n.endr"
    count = f"s_sub_u32 s8, s8, 1\n  s_cmp_lg_u32 s8, 0\n  s_cbranch_scc1 .L{name}"
    return f"  s_mov_b32 s8, {trips}\n.L{name}:\n  {body}\n  {count}\n  s_endpgm"


def test_loops_that_repeat_late_stay_within_the_limits(bench: Any) -> None:
    """A stand-in for attention whose groups of waves leave step: trips of 31 and of 37 barriers.

    They are level again after 1147 barriers, eight times that is what a simulation takes: it used
    to be made, and took 594 s and 11.5 GB for a kernel of AITER. The command's bound is 30 s, 1 GB.
    """
    head = "  v_readfirstlane_b32 s9, v0\n  s_cmp_ge_u32 s9, 64\n  s_cbranch_scc1 .Lother"
    start = "  v_mov_b32 v2, 0\n  v_mov_b32 v3, 0\n"
    text = f"{start}{head}\n{_role('one', 37, 31)}\n.Lother:\n{_role('two', 31, 37)}"
    data = bench.assemble(bench.text(text, lds=0), "gfx950")
    with limited(30, 1000):
        checked = check(data, (1,), (128,), [np.zeros(256, np.uint32)] * 2)
        timing = time_checked(checked, budget=SIMULATED)
    assert checked.verdict.status is CheckStatus.PROVED
    assert not checked.verdict.notes
    assert timing is not None
    assert (timing.loops, timing.spent, len(timing.skipped)) == ((), 0, 2)
    # Nothing of that size is even made.
    assert [loop.programs for loop in timing.recorded.loops(SIMULATED // 8)] == [(), ()]
