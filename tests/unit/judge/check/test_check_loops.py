"""For which trip counts a verdict holds, against runs with those trip counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.drive.checking import check
from pipeloom.judge.check.retirement import NEVER
from pipeloom.judge.check.trip_counts import LoopRun, _steady
from pipeloom.judge.check.verdict import CheckStatus, CheckVerdict

LOOP = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v3, 0x100, v1
  v_mov_b32 v5, 0
  s_mov_b32 s8, {trips}
  s_mov_b32 s9, 0
.Lloop:
  global_load_dword v2, v1, s[4:5]
  v_add_u32 v6, s9, v1
  v_add_u32 v7, s9, v3
  s_waitcnt vmcnt(0)
  ds_write_b32 v6, v2
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v7
  s_waitcnt lgkmcnt(0)
  v_add_u32 v5, v4, v5
  {more}
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  global_store_dword v1, v5, s[6:7]
  s_endpgm"""
"""Two waves exchange through LDS; with two halves in turn one barrier a trip is enough."""
IN_TURN = "s_xor_b32 s9, s9, 0x200"
LEAVING = LOOP.replace(
    "  {more}", "  s_sub_u32 s8, s8, 1\n  s_cmp_eq_u32 s8, 0\n  s_cbranch_scc1 .Lout\n  {more}"
).replace("  global_store", ".Lout:\n  global_store")
"""Counts twice a trip: from an odd number it leaves in its midst."""


def judge(bench: Any, trips: int, more: str, text: str = LOOP) -> CheckVerdict:
    given = np.arange(128, dtype=np.uint32)
    code = bench.code(text.format(trips=trips, more=more), lds=1024)
    return check(code, (1,), (128,), [given, np.zeros_like(given)], seeds=1).verdict


def test_one_buffer_needs_a_second_barrier(bench: Any) -> None:
    assert judge(bench, 5, "").status is not CheckStatus.PROVED
    verdict = judge(bench, 5, "s_barrier")
    assert verdict.status is CheckStatus.PROVED
    (loop,) = verdict.loops
    assert (loop.trips, loop.period, loop.reason) == ((5,), 1, "")


@pytest.mark.parametrize("more", ["s_barrier", IN_TURN, ""])
def test_what_is_claimed_of_other_trip_counts_is_so(bench: Any, more: str) -> None:
    verdict = judge(bench, 7, more)
    (loop,) = verdict.loops
    assert loop.period == (2 if more == IN_TURN else 1)
    assert loop.least <= 7
    for trips in range(loop.least + (7 - loop.least) % loop.period, 12, loop.period):
        other = judge(bench, trips, more)
        assert other.status is verdict.status
        assert {f.second.pc for f in other.findings} == {f.second.pc for f in verdict.findings}


@pytest.mark.parametrize("more", ["s_barrier", IN_TURN, ""])
def test_a_last_trip_that_leaves_early_is_behind_the_loop(bench: Any, more: str) -> None:
    verdict = judge(bench, 13, more, LEAVING)
    (loop,) = verdict.loops
    assert (loop.trips, loop.reason) == ((7,), "")
    for trips in range(loop.least + (7 - loop.least) % loop.period, 10, loop.period):
        other = judge(bench, 2 * trips - 1, more, LEAVING)
        assert other.status is verdict.status
        assert {f.second.pc for f in other.findings} == {f.second.pc for f in verdict.findings}


def test_too_few_trips_claim_nothing_beyond_the_launch(bench: Any) -> None:
    (loop,) = judge(bench, 2, IN_TURN).loops
    assert "repeat" in loop.reason


def test_a_branch_on_data_keeps_the_verdict_to_the_launch(bench: Any) -> None:
    more = "v_readfirstlane_b32 s10, v4\n  s_cmp_eq_u32 s10, 0x12345\n  s_cbranch_scc1 .Lloop"
    (loop,) = judge(bench, 6, more + "\n  s_barrier").loops
    assert "depends on loaded data" in loop.reason


SIZED = LOOP.replace(
    "s_mov_b32 s8, {trips}", "{load}\n  s_waitcnt lgkmcnt(0)\n  s_sub_u32 s8, s8, {less}"
)
"""Reads from memory how often it goes round, as attention reads how many keys there are."""


def sized(bench: Any, trips: int, more: str, load: str = "s_load_dword s8, s[4:5], 0x0") -> Any:
    given = np.arange(128, dtype=np.uint32)
    given[0] = trips + 7
    code = bench.code(SIZED.format(load=load, less=7, more=more), lds=1024)
    return check(code, (1,), (128,), [given, np.zeros_like(given)], seeds=1).verdict


@pytest.mark.parametrize("more", ["s_barrier", ""])
def test_a_size_that_is_loaded_before_the_loop_is_an_argument(bench: Any, more: str) -> None:
    verdict = sized(bench, 6, more)
    (loop,) = verdict.loops
    assert (loop.trips, loop.period, loop.reason) == ((6,), 1, "")
    # It is still what this launch's buffers say.
    assert "loaded data" in verdict.data
    for trips in range(loop.least, 10):
        other = sized(bench, trips, more)
        assert other.status is verdict.status
        assert {f.second.pc for f in other.findings} == {f.second.pc for f in verdict.findings}


@pytest.mark.parametrize(
    ("load", "more"),
    [
        # By a vector load, of the buffer that is written, and anew in every trip.
        ("global_load_dword v8, v5, s[4:5]\n s_waitcnt vmcnt(0)\n v_readfirstlane_b32 s8, v8", ""),
        ("s_load_dword s8, s[6:7], 0x0\n s_waitcnt lgkmcnt(0)\n s_add_u32 s8, s8, 13", ""),
        (
            "s_load_dword s8, s[4:5], 0x0",
            "s_load_dword s10, s[4:5], 0x8\n s_waitcnt lgkmcnt(0)\n s_cmp_eq_u32 s10, 0x12345\n"
            " s_cbranch_scc1 .Lloop",
        ),
    ],
)
def test_other_loaded_numbers_are_none(bench: Any, load: str, more: str) -> None:
    (loop,) = sized(bench, 6, f"{more}\n  s_barrier", load).loops
    assert "depends on loaded data" in loop.reason


def test_a_store_in_the_loop_keeps_the_verdict_to_the_launch(bench: Any) -> None:
    (loop,) = judge(bench, 6, "global_store_dword v1, v5, s[6:7]\n  s_barrier").loops
    assert "writes global memory" in loop.reason


COUNTING = LOOP.replace("  s_mov_b32 s9, 0\n", "  s_mov_b32 s9, 0\n  s_mov_b32 s11, 0\n").replace(
    "  {more}", "  s_add_u32 s11, s11, 1\n  {more}"
)
"""Knows how often it ran."""


def test_a_branch_on_the_number_of_trips_keeps_the_verdict_to_the_launch(bench: Any) -> None:
    """The barrier is left out in trip 8, where the race is."""
    more = "s_cmp_eq_u32 s11, 8\n  s_cbranch_scc1 .Lover\n  s_barrier\n.Lover:"
    verdict = judge(bench, 6, more, COUNTING)
    assert verdict.status is CheckStatus.PROVED
    assert "a branch in it" in verdict.loops[0].reason
    assert "for this launch" in verdict.summary()
    assert judge(bench, 12, more, COUNTING).status is not CheckStatus.PROVED


@pytest.mark.parametrize("late", [False, True])
def test_an_address_by_the_number_of_trips_does_too(bench: Any, late: bool) -> None:
    """The buffer changes in trip 8; ``late``, by a register that holds the same until then."""
    later = "s_lshr_b32 s12, s11, 3\n  s_lshl_b32 s12, s12, 9"
    moved = "v_add_u32 v6, s12, v6\n  v_add_u32 v7, s12, v7\n  s_waitcnt vmcnt(0)\n  ds_write"
    text = COUNTING.replace(
        "s_waitcnt vmcnt(0)\n  ds_write", moved if late else f"{later}\n  {moved}"
    )
    text = text.replace("s_mov_b32 s9, 0", "s_mov_b32 s9, 0\n  s_mov_b32 s12, 0")
    verdict = judge(bench, 6, f"s_barrier\n  {later}" if late else "s_barrier", text)
    assert verdict.status is CheckStatus.PROVED
    assert "an LDS address" in verdict.loops[0].reason


def test_an_exit_may_count(bench: Any) -> None:
    """How often a loop runs is what its counter is for."""
    more = "s_cmp_ge_u32 s11, 100\n  s_cbranch_scc1 .Lout\n  s_barrier"
    text = COUNTING.replace("  global_store", ".Lout:\n  global_store")
    (loop,) = judge(bench, 6, more, text).loops
    assert (loop.reason, loop.period) == ("", 1)


AT_FIRST = """
  s_barrier
  s_cmp_lg_u32 s12, 0
  s_cbranch_scc1 .Lskip
  s_lshl_b32 s11, s10, 2
  v_add_u32 v8, s11, v1
  v_and_b32 v8, 0x1fc, v8
  ds_read_b32 v9, v8
  s_waitcnt lgkmcnt(0)
.Lskip:
  s_mov_b32 s12, {then}
  s_add_u32 s10, s10, 1
  s_barrier"""
"""Reads LDS where the number of the trip says, until ``then`` is 1."""


@pytest.mark.parametrize("trips", [3, 4])
def test_what_only_the_first_trip_does_is_no_matter_of_how_often_it_ran(
    bench: Any, trips: int
) -> None:
    text = LOOP.replace("  s_mov_b32 s9, 0", "  s_mov_b64 s[10:11], 0\n  s_mov_b64 s[12:13], 0")
    text = text.replace("s9, v", "0, v")
    once = judge(bench, trips, AT_FIRST.format(then=1), text)
    assert once.status is CheckStatus.PROVED
    assert [(loop.least, loop.reason) for loop in once.loops] == [(3, "")]
    always = judge(bench, trips, AT_FIRST.format(then=0), text)
    assert [loop.reason != "" for loop in always.loops] == [True]


@pytest.mark.parametrize("period", [1, 2, 5, 8, 9])
def test_trips_that_repeat_after_more_than_eight_do_not_stand(period: int) -> None:
    """Forty trips of four steps, whose path says which of ``period`` it is."""
    starts = tuple(range(0, 160, 4))
    path = np.repeat(np.arange(40) % period, 4)
    run = LoopRun(0, starts, 160)
    found = _steady(run, path, np.empty(0, np.int64), {}, np.full(160, NEVER))
    assert found == ((period + 1, period) if period <= 8 else None)


MASK = """
  s_cmp_lt_u32 s11, {trip}
  s_cbranch_scc1 .Lfull
  {masked}
.Lfull:
  s_barrier"""
"""Something is done from a trip on, as attention masks its last tile."""


@pytest.mark.parametrize("trip", [6, 100])
def test_arithmetic_may_be_jumped_over_by_the_number_of_trips(bench: Any, trip: int) -> None:
    """Whether this run ever does it or not."""
    more = MASK.format(trip=trip, masked="v_cmp_lt_u32 vcc, v5, v3\n  v_cndmask_b32 v5, 0, v5, vcc")
    (loop,) = judge(bench, 6, more, COUNTING).loops
    assert (loop.reason, loop.period, loop.unlike) == ("", 1, False)
    for trips in (loop.least, 9):
        assert judge(bench, trips, more, COUNTING).status is CheckStatus.PROVED


@pytest.mark.parametrize(
    "masked",
    [
        "s_waitcnt lgkmcnt(0)",
        "ds_read_b32 v8, v7",
        "s_mov_b64 exec, -1",
        "s_cmp_eq_u32 s11, 200\n  s_cbranch_scc1 .Lloop",
    ],
)
def test_nothing_else_may(bench: Any, masked: str) -> None:
    more = MASK.format(trip=100, masked=masked)
    (loop,) = judge(bench, 6, more, COUNTING).loops
    assert "a branch in it" in loop.reason


def test_what_is_jumped_over_must_not_use_what_is_in_flight(bench: Any) -> None:
    """v9 is loaded before the branch and waited for behind it: trip 100 would use it too early."""
    loads = "global_load_dword v9, v1, s[4:5]"
    ready = MASK.format(trip=100, masked="v_add_u32 v5, v5, v9").replace(
        "  s_barrier", "  s_waitcnt vmcnt(0)\n  v_add_u32 v5, v5, v9\n  s_barrier"
    )
    for wait, claimed in (("", False), ("\n  s_waitcnt vmcnt(0)", True)):
        (loop,) = judge(bench, 6, loads + wait + ready, COUNTING).loops
        assert (loop.reason == "") is claimed
    # Nothing but what is jumped over uses it, so this run's judgement has left the load out.
    unused = loads + MASK.format(trip=100, masked="v_add_u32 v5, v5, v9")
    (loop,) = judge(bench, 6, unused, COUNTING).loops
    assert "a branch in it" in loop.reason


def test_what_is_jumped_over_counts_as_how_often_it_ran(bench: Any) -> None:
    """An LDS address that a trip which did not run would change."""
    text = COUNTING.replace("v_add_u32 v7, s9, v3", "v_add_u32 v7, s12, v3")
    text = text.replace("s_mov_b32 s9, 0", "s_mov_b32 s9, 0\n  s_mov_b32 s12, 0")
    (loop,) = judge(bench, 6, MASK.format(trip=100, masked="s_mov_b32 s12, 0x200"), text).loops
    assert "an LDS address" in loop.reason
