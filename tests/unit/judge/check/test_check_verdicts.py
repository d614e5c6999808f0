"""One small kernel per verdict: what is missing in it is what the judge says, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.drive.checking import Checked, check
from pipeloom.judge.check.record import TOLD_EVERY
from pipeloom.judge.check.verdict import CheckKind, CheckStatus

HEAD = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
"""
EXCHANGE = f"""{HEAD}
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  ds_write_b32 v1, v2
  s_waitcnt lgkmcnt(0)
  s_barrier
  v_xor_b32 v3, 0x100, v1
  ds_read_b32 v4, v3
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v4, s[6:7]
  s_endpgm"""
"""Two waves exchange a row through LDS."""


def judge(bench: Any, body: str, *, waves: int = 2, lds: int = 512, **options: Any) -> Checked:
    given = np.arange(64 * waves, dtype=np.uint32)
    code = bench.code(body, lds=lds)
    options.setdefault("grid", (1,))
    options.setdefault("seeds", 2)
    args = options.pop("args", [given, np.zeros_like(given)])
    return check(code, block=(64 * waves,), args=args, **options)


def without(body: str, line: str, *, which: int = 0) -> str:
    """The body with one of its lines left out."""
    lines = body.splitlines()
    places = [at for at, text in enumerate(lines) if text.strip() == line]
    del lines[places[which]]
    return "\n".join(lines)


def test_what_is_ordered_is_proved(bench: Any) -> None:
    verdict = judge(bench, EXCHANGE).verdict
    assert verdict.status is CheckStatus.PROVED
    assert not verdict.findings
    assert not verdict.needless
    assert verdict.status.exit_code == 0


@pytest.mark.parametrize(
    ("line", "which", "kind", "instructions"),
    [
        ("s_barrier", 0, CheckKind.RAW, ("ds_write_b32", "ds_read_b32")),
        ("s_waitcnt vmcnt(0)", 0, CheckKind.REGISTER, ("global_load_dword", "ds_write_b32")),
        ("s_waitcnt lgkmcnt(0)", 1, CheckKind.RAW, ("ds_write_b32", "ds_read_b32")),
        ("s_waitcnt lgkmcnt(0)", 2, CheckKind.REGISTER, ("ds_read_b32", "global_store_dword")),
    ],
)
def test_a_missing_wait_is_found_and_shown(
    bench: Any, line: str, which: int, kind: CheckKind, instructions: tuple[str, str]
) -> None:
    """The finding names both instructions, and a run of the emulator gives other numbers."""
    verdict = judge(bench, without(EXCHANGE, line, which=which)).verdict
    assert verdict.status in (CheckStatus.RACE, CheckStatus.TIMING)
    (finding,) = verdict.findings
    assert finding.kind is kind
    assert finding.first is not None
    names = finding.first.text.split()[0], finding.second.text.split()[0]
    assert names == instructions
    assert finding.witness is not None
    assert finding.witness.wrong
    assert {line.wave for line in finding.story} == {finding.first.wave, finding.second.wave}


def test_what_one_missing_barrier_does_is_one_finding(bench: Any) -> None:
    """Five reads that no barrier orders with the write: one defect, the tightest pair first."""
    reads = "\n".join(f"  ds_read_b32 v{n}, v3 offset:{4 * n}" for n in range(4, 9))
    body = without(EXCHANGE, "s_barrier").replace("  ds_read_b32 v4, v3", reads)
    body = body.replace(
        "  global_store", "  v_add3_u32 v4, v4, v5, v6\n  v_add3_u32 v4, v4, v7, v8\n  global_store"
    )
    verdict = judge(bench, body, lds=1024).verdict
    (finding,) = verdict.findings
    assert finding.first is not None
    assert (finding.pairs, len(finding.others)) == (5, 4)
    assert {one.first.pc for one in finding.others} == {finding.first.pc}
    assert len({finding.second.pc, *(one.second.pc for one in finding.others)}) == 5
    margins = [finding.margin, *(one.margin for one in finding.others)]
    assert margins == sorted(margins, key=lambda one: one or 0)
    assert "1 finding, 5 pairs" in verdict.summary()
    assert finding.witness is not None
    assert finding.witness.wrong


def test_loads_that_one_wait_comes_too_late_for_are_one_finding(bench: Any) -> None:
    body = f"""{HEAD}
  ds_write_b32 v1, v0
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v4, v1
  ds_read_b32 v5, v1
  v_add_u32 v6, 1, v4
  v_add_u32 v7, 1, v5
  s_waitcnt lgkmcnt(0)
  v_add_u32 v6, v6, v7
  global_store_dword v1, v6, s[6:7]
  s_endpgm"""
    (finding,) = judge(bench, body).verdict.findings
    assert (finding.kind, finding.pairs) == (CheckKind.REGISTER, 2)


def test_races_beyond_the_first_few_are_said_to_be_untried(bench: Any) -> None:
    """Two defects, of which one is shown: a barrier and the wait for the data that is stored."""
    body = without(without(EXCHANGE, "s_barrier"), "s_waitcnt lgkmcnt(0)", which=2)
    witnesses = [f.witness for f in judge(bench, body, shown=1).verdict.findings]
    assert all(witnesses)
    assert [bool(one and one.untried) for one in witnesses] == [False, True]


def test_a_second_round_needs_a_barrier_behind_the_reads(bench: Any) -> None:
    """WAR: the next write may overtake another wave's read, which only its own wave awaits."""
    again = """
  v_add_u32 v5, 1, v4
  ds_write_b32 v1, v5
  s_waitcnt lgkmcnt(0)
  s_endpgm"""
    body = EXCHANGE.replace("\n  s_endpgm", again)
    verdict = judge(bench, body).verdict
    (finding,) = verdict.findings
    assert finding.kind is CheckKind.WAR
    barred = body.replace("  v_add_u32 v5, 1, v4", "  s_barrier\n  v_add_u32 v5, 1, v4")
    assert judge(bench, barred).verdict.status is CheckStatus.PROVED


def test_what_nothing_needs_is_named_and_all_of_it_can_go(bench: Any) -> None:
    body = EXCHANGE.replace(
        "  v_xor_b32 v3", "  s_barrier\n  s_waitcnt vmcnt(0) lgkmcnt(0)\n  v_xor_b32 v3"
    ).replace("  s_endpgm", "  s_waitcnt vmcnt(0)\n  s_endpgm")
    found = judge(bench, body).verdict.needless
    # Of two barriers in a row one is enough, whichever.
    assert sorted((one.before, one.after) for one in found) == [
        ("s_barrier", ""),
        ("s_waitcnt vmcnt(0)", ""),
        ("s_waitcnt vmcnt(0) lgkmcnt(0)", ""),
    ]


def test_a_wait_is_loosened_as_far_as_it_may(bench: Any) -> None:
    body = f"""{HEAD}
  global_load_dword v2, v1, s[4:5]
  global_load_dword v3, v1, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_u32 v2, 1, v2
  s_waitcnt vmcnt(0)
  v_add_u32 v2, v3, v2
  global_store_dword v1, v2, s[6:7]
  s_endpgm"""
    (one,) = judge(bench, body).verdict.needless
    assert (one.before, one.after) == ("s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(1)")


def test_a_load_that_reaches_nothing_races_with_nobody(bench: Any) -> None:
    """A prefetch behind the last round reads LDS in a race, but its result is never used."""
    body = without(EXCHANGE, "s_barrier").replace("v4, s[6:7]", "v2, s[6:7]")
    assert judge(bench, body).verdict.status is CheckStatus.PROVED


def test_waves_that_do_not_meet(bench: Any) -> None:
    body = f"""{HEAD}
  v_readfirstlane_b32 s8, v0
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lover
  s_barrier
.Lover:
  s_endpgm"""
    verdict = judge(bench, body).verdict
    assert verdict.status is CheckStatus.RACE
    assert CheckKind.BARRIER in {finding.kind for finding in verdict.findings}


def test_a_wave_that_ends_before_the_barrier(bench: Any) -> None:
    """The barrier does not wait for it, and nobody for its write."""
    body = EXCHANGE.replace(
        "  s_waitcnt lgkmcnt(0)\n  s_barrier",
        "  v_readfirstlane_b32 s8, v0\n  s_cmp_lg_u32 s8, 0\n  s_cbranch_scc1 .Lover\n"
        "  s_waitcnt lgkmcnt(0)\n  s_barrier",
    ).replace("\n  s_endpgm", "\n.Lover:\n  s_endpgm")
    verdict = judge(bench, body).verdict
    (finding,) = [one for one in verdict.findings if one.kind is CheckKind.RAW]
    assert finding.first is not None
    assert finding.first.text.startswith("ds_write_b32")
    assert "ends" in finding.why
    assert any(line.text == "its end" for line in finding.story)


def test_uninitialised_registers_and_lds(bench: Any) -> None:
    body = f"""{HEAD}
  ds_read_b32 v4, v1
  s_waitcnt lgkmcnt(0)
  v_add_u32 v5, v4, v0
  v_add_u32 v5, v5, v9
  global_store_dword v1, v5, s[6:7]
  s_endpgm"""
    verdict = judge(bench, body, waves=1).verdict
    found = [f.why for f in verdict.findings if f.kind is CheckKind.UNINITIALISED]
    assert any("v9" in why for why in found)
    assert any("LDS" in why for why in found)
    for finding in verdict.findings:
        assert finding.witness is not None
        assert (finding.witness.wrong, finding.witness.leftover) == (64, 0)


def test_out_of_bounds_matters_where_the_data_do(bench: Any) -> None:
    body = f"""{HEAD}
  global_load_dword v2, v1, s[4:5] offset:1024
  s_waitcnt vmcnt(0)
  global_store_dword v1, v0, s[6:7]
  s_endpgm"""
    verdict = judge(bench, body).verdict
    assert verdict.status is CheckStatus.PROVED
    assert [f.kind for f in verdict.dead] == [CheckKind.OUT_OF_BOUNDS]
    used = judge(bench, body.replace("v1, v0, s[6:7]", "v1, v2, s[6:7]")).verdict
    assert used.status is CheckStatus.RACE
    (finding,) = used.findings
    assert finding.kind is CheckKind.OUT_OF_BOUNDS
    assert finding.witness is not None
    assert finding.witness.seen


def test_out_of_bounds_matters_where_lds_takes_the_data_to(bench: Any) -> None:
    """A load to LDS writes no register: what it brought matters if somebody reads it there."""
    body = f"""{HEAD}
  s_mov_b32 m0, 0
  v_add_u32 v3, 0x400, v1
  global_load_lds_dword v3, s[4:5]
  s_waitcnt vmcnt(0)
  ds_read_b32 v2, v1
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v2, s[6:7]
  s_endpgm"""
    used = judge(bench, body, waves=1).verdict
    assert used.status is CheckStatus.RACE
    assert CheckKind.OUT_OF_BOUNDS in {f.kind for f in used.findings}
    unread = judge(bench, body.replace("v1, v2, s[6:7]", "v1, v0, s[6:7]"), waves=1).verdict
    assert [f.kind for f in unread.dead] == [CheckKind.OUT_OF_BOUNDS]
    assert unread.status is CheckStatus.PROVED


def test_workgroups_that_store_to_the_same_place(bench: Any) -> None:
    body = f"""{HEAD}
  v_mov_b32 v2, s2
  global_store_dword v1, v2, s[6:7]
  s_endpgm"""
    verdict = judge(bench, body, grid=(2,)).verdict
    (finding,) = verdict.findings
    assert finding.kind is CheckKind.WORKGROUPS
    assert finding.workgroup == (1, 0, 0)
    assert finding.witness is not None
    assert (finding.witness.wrong, finding.witness.last_first) == (128, True)
    equal = judge(bench, body.replace("v2, s2", "v2, 7"), grid=(2,)).verdict
    assert equal.status is CheckStatus.PROVED


def test_workgroups_that_do_the_same_are_studied_once(bench: Any) -> None:
    """Which wave issued first differs between them, and means nothing."""
    checked = judge(bench, EXCHANGE, grid=(4,), waves=4)
    assert checked.study is not None
    assert (len(checked.study.every), len(checked.study.groups)) == (4, 1)


def test_workgroups_that_atomics_may_order_are_not_judged(bench: Any) -> None:
    body = f"""{HEAD}
  v_mov_b32 v2, 1
  global_atomic_add v1, v2, s[4:5]
  v_mov_b32 v2, s2
  global_store_dword v1, v2, s[6:7]
  s_endpgm"""
    verdict = judge(bench, body, grid=(2,)).verdict
    assert verdict.status is CheckStatus.NOT_JUDGED
    assert "atomics" in verdict.reason
    assert verdict.status.exit_code == 6


def test_customary_wait_states_fail_nobody(bench: Any) -> None:
    """M0 to LDS-DMA is customary; a matrix result read by VALU too early is required."""
    dma = f"""{HEAD}
  s_mov_b32 m0, 0
  global_load_lds_dword v1, s[4:5]
  s_waitcnt vmcnt(0)
  ds_read_b32 v2, v1
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v2, s[6:7]
  s_endpgm"""
    verdict = judge(bench, dma, waves=1).verdict
    assert verdict.status is CheckStatus.PROVED
    (one,) = verdict.customary
    assert one.source
    exp = f"""{HEAD}
  v_exp_f32 v2, v0
  v_add_f32 v3, v2, v2
  global_store_dword v1, v3, s[6:7]
  s_endpgm"""
    verdict = judge(bench, exp, waves=1).verdict
    (finding,) = verdict.findings
    assert finding.kind is CheckKind.WAIT_STATES
    assert verdict.status is CheckStatus.RACE
    assert finding.witness is not None
    assert finding.witness.wrong > 0, "the sum of what v2 held before"
    assert finding.witness.early == (finding.second.pc - 4, finding.second.pc)


def test_wait_states_that_no_run_shows_say_so(bench: Any) -> None:
    """The two lie on both sides of a label: the kernel cannot be run with one before the other."""
    text = f"""{HEAD}
  v_exp_f32 v2, v0
.Lhere:
  v_add_f32 v3, v2, v2
  s_cmp_lg_u32 s0, s0
  s_cbranch_scc1 .Lhere
  global_store_dword v1, v3, s[6:7]
  s_endpgm"""
    (finding,) = judge(bench, text, waves=1).verdict.findings
    assert finding.witness is not None
    assert (finding.witness.tries, finding.witness.wrong) == (0, 0)
    assert finding.witness.untried


def test_a_load_lands_on_its_own_waves_later_write(bench: Any) -> None:
    """Only a timing in which that very wave runs ahead shows it: the window is one instruction."""
    text = f"""{HEAD}
  v_mov_b32 v4, 0
  ds_bpermute_b32 v4, v1, v0
  v_mov_b32 v4, 7
  global_store_dword v1, v4, s[6:7]
  s_endpgm"""
    finding = judge(bench, text, waves=2).verdict.findings[0]
    assert finding.kind is CheckKind.REGISTER
    assert finding.witness is not None
    assert finding.witness.wrong > 0


def test_an_endless_kernel_is_not_judged(bench: Any) -> None:
    told: list[str] = []
    body = f"{HEAD}\n.Lagain:\n  s_branch .Lagain\n  s_endpgm"
    verdict = judge(bench, body, max_instructions=TOLD_EVERY + 500, progress=told.append).verdict
    assert verdict.status is CheckStatus.NOT_JUDGED
    assert str(TOLD_EVERY + 500) in verdict.reason
    assert "--max-instructions" in verdict.reason
    assert len(told) == 1


def test_an_instruction_that_is_not_modelled(bench: Any) -> None:
    verdict = judge(bench, f"{HEAD}\n  s_rfe_b64 s[4:5]\n  s_endpgm").verdict
    assert verdict.status is CheckStatus.NOT_JUDGED
    assert "s_rfe_b64" in verdict.reason


def test_the_callers_arrays_stay_as_they_are(bench: Any) -> None:
    given = np.arange(128, dtype=np.uint32)
    out = np.zeros_like(given)
    judge(bench, EXCHANGE, args=[given, out])
    assert not out.any()
