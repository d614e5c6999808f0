"""Kernels with races that were called PROVED."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.drive.checking import check
from pipeloom.judge.check.verdict import CheckKind, CheckStatus, CheckVerdict
from tests.unit.judge.check.test_check_loops import COUNTING, LOOP, judge


def run(
    bench: Any, body: str, *args: Any, grid: int = 1, waves: int = 2, lds: int = 512
) -> CheckVerdict:
    return check(bench.code(body, lds=lds), (grid,), (64 * waves,), list(args), seeds=1).verdict


def test_the_same_value_written_again_over_an_atomic(bench: Any) -> None:
    """Wave 0 clears a counter a second time, and other waves may not have counted yet."""
    text = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v2, 0
  v_mov_b32 v3, 1
  v_readfirstlane_b32 s10, v0
  s_mov_b32 s8, 2
.Lloop:
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Lover
  ds_write_b32 v2, v2
  s_waitcnt lgkmcnt(0)
.Lover:
  s_barrier
  ds_add_u32 v2, v3
  s_waitcnt lgkmcnt(0)
  {barrier}
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  s_barrier
  ds_read_b32 v4, v2
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v4, s[6:7]
  s_endpgm"""
    out = np.zeros(128, np.uint32)
    proved = run(bench, text.format(barrier="s_barrier"), out, out.copy())
    assert proved.status is CheckStatus.PROVED
    verdict = run(bench, text.format(barrier=""), out, out.copy())
    assert {finding.kind for finding in verdict.findings} == {CheckKind.WAW}


def test_a_branch_out_of_the_loop_and_back(bench: Any) -> None:
    """The barrier is left out in trip 8, by way of code behind the kernel's end."""
    more = "s_cmp_eq_u32 s11, 8\n  s_cbranch_scc1 .Lcold\n  s_barrier\n.Lback:"
    text = COUNTING.replace("  s_endpgm", "  s_endpgm\n.Lcold:\n  s_nop 0\n  s_branch .Lback")
    verdict = judge(bench, 6, more, text)
    assert judge(bench, 12, more, text).status is not CheckStatus.PROVED
    assert "a branch in it" in verdict.loops[0].reason


def test_a_workgroup_in_which_waves_do_not_write_the_same(bench: Any) -> None:
    """Both waves write the workgroup's number times their own: the same in the first only."""
    text = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v9, 0
  s_lshl_b32 s8, s2, 9
  s_add_u32 s6, s6, s8
  s_addc_u32 s7, s7, 0
  v_lshrrev_b32 v2, 6, v0
  v_mul_lo_u32 v2, v2, s2
  ds_write_b32 v9, v2
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v9
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v4, s[6:7]
  s_endpgm"""
    given, out = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    assert run(bench, text, given, out, grid=1).status is CheckStatus.PROVED
    verdict = run(bench, text, given, out, grid=2)
    assert {finding.kind for finding in verdict.findings} == {CheckKind.WAW}


def test_a_loop_that_would_get_to_what_was_stored_before(bench: Any) -> None:
    """Wave 1 stores what trip 8 reads, and no barrier follows."""
    text = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_readfirstlane_b32 s10, v0
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v5, 0
  v_mov_b32 v6, 0
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lstart
  global_store_dword v6, v1, s[4:5] offset:32
.Lstart:
  s_mov_b32 s8, {trips}
.Lloop:
  global_load_dword v2, v6, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_u32 v5, v2, v5
  v_add_u32 v6, 4, v6
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  global_store_dword v1, v5, s[6:7]
  s_endpgm"""
    given, out = np.zeros(128, np.uint32), np.zeros(128, np.uint32)
    assert run(bench, text.format(trips=12), given, out).status is not CheckStatus.PROVED
    (loop,) = run(bench, text.format(trips=6), given, out).loops
    assert loop.reason


BEHIND = COUNTING.replace("  global_store", "  {behind}\n  global_store")


@pytest.mark.parametrize(
    ("behind", "what"),
    [
        ("s_cmp_eq_u32 s11, 8\n  s_cbranch_scc1 .Lskip\n  s_barrier\n.Lskip:\n"
         "  ds_write_b32 v1, v5\n  s_waitcnt lgkmcnt(0)", "a branch behind it"),
        ("s_mul_i32 s12, s11, 0x200\n  v_add_u32 v8, s12, v1\n  ds_write_b32 v8, v5\n"
         "  s_waitcnt lgkmcnt(0)", "an LDS address"),
        ("s_lshl_b32 s12, s11, 5\n  v_add_u32 v8, s12, v9\n  global_store_dword v8, v5, s[6:7]",
         "an address"),
    ],
)  # fmt: skip
def test_what_comes_behind_the_loop_and_knows_how_often_it_ran(
    bench: Any, behind: str, what: str
) -> None:
    text = BEHIND.replace("{behind}", behind).replace(
        "s_mov_b32 s9, 0", "s_mov_b32 s9, 0\n  v_mov_b32 v9, 0"
    )
    (loop,) = judge(bench, 6, "s_barrier", text).loops
    assert what in loop.reason


EXCHANGE = LOOP.replace("v_add_u32 v5, v4, v5", "{part}\n  v_add_u32 v5, v4, v5")


@pytest.mark.parametrize(
    "part",
    [
        "v_cvt_pk_fp8_f32 v4, v1, v1",
        "v_cvt_scalef32_pk_fp8_f32 v4, v1, v1, v1",
        "v_ashr_pk_i8_i32 v4, v1, v1, v1",
        "v_mad_u16 v4, v1, v1, v1",
    ],
)
def test_a_race_of_which_half_a_register_is_overwritten(bench: Any, part: str) -> None:
    """The other half of what it read comes into the sum."""
    assert judge(bench, 5, "", EXCHANGE.replace("{part}", part)).status is not CheckStatus.PROVED
    whole = EXCHANGE.replace("{part}", "v_mov_b32 v4, v1")
    assert judge(bench, 5, "", whole).status is CheckStatus.PROVED


@pytest.mark.parametrize("move", ["s_cmov_b32 s11, s7", "s_cmovk_i32 s11, 0x7", "s_nop 0"])
def test_a_number_of_the_trip_behind_a_move_that_is_not_made(bench: Any, move: str) -> None:
    """The barrier is left out in one trip of many."""
    skip = "s_cmp_eq_u32 s11, 100\n  s_cbranch_scc1 .Lskip\n  s_barrier\n.Lskip:"
    more = f"s_mov_b32 s11, s8\n  s_cmp_lg_u32 s6, s6\n  {move}\n  {skip}"
    (loop,) = judge(bench, 6, more).loops
    assert "a branch in it" in loop.reason
