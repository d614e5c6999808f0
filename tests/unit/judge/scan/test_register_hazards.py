"""Registers in flight: each class found, and silent where the wait is there."""

from __future__ import annotations

from typing import Any

import pytest

from pipeloom.judge.scan import KernelScan, ScanKind

Scan = Any


def _found(scan: KernelScan, kind: ScanKind = ScanKind.REGISTER) -> list[tuple[bool, str, str]]:
    assert not scan.reason
    return [(f.definite, f.where, f.counter) for f in scan.findings if f.kind is kind]


LOADS = """
  global_load_dword v4, v1, s[4:5]
  global_load_dword v5, v1, s[4:5] offset:4
  global_load_dword v6, v1, s[4:5] offset:8
"""


@pytest.mark.parametrize(("wait", "first"), [(0, True), (2, True), (3, False), (63, False)])
def test_a_count_retires_all_but_the_youngest(scanned: Scan, wait: int, first: bool) -> None:
    scan = scanned(f"{LOADS}\n s_waitcnt vmcnt({wait})\n v_add_u32 v7, v4, v4\n s_endpgm")
    assert _found(scan) == ([] if first else [(True, "v4", "vmcnt(2)")])


def test_one_load_is_one_finding_with_all_that_meet_it(scanned: Scan) -> None:
    scan = scanned(
        "global_load_dwordx2 v[4:5], v1, s[4:5]\n v_mov_b32 v7, v5\n v_mov_b32 v8, v4\n s_endpgm"
    )
    (finding,) = (f for f in scan.findings if f.kind is ScanKind.REGISTER)
    assert finding.first is not None
    assert finding.first.text.startswith("global_load_dwordx2")
    assert finding.second.text == "v_mov_b32 v7, v5"
    assert [place.text for place in finding.others] == ["v_mov_b32 v8, v4"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        # Overwritten in flight: the load lands later and wins.
        ("global_load_dword v4, v1, s[4:5]\n v_mov_b32 v4, 0", [(True, "v4", "vmcnt(0)")]),
        # Two loads of one counter return in order, two scalar ones do not.
        ("ds_read_b32 v4, v1\n ds_read_b32 v4, v2", []),
        ("global_load_dword v4, v1, s[4:5]\n ds_read_b32 v4, v2", [(True, "v4", "vmcnt(0)")]),
        (
            "s_load_dword s8, s[0:1], 0x0\n s_load_dword s8, s[0:1], 0x4",
            [(True, "s8", "lgkmcnt(0)")],
        ),
        # Scalar loads come back in any order: only lgkmcnt(0) tells.
        (
            "s_load_dword s8, s[0:1], 0x0\n ds_read_b32 v4, v1\n s_waitcnt lgkmcnt(1)\n"
            " s_mov_b32 s9, s8",
            [(True, "s8", "lgkmcnt(0)")],
        ),
        # LDS operations are in order among themselves, whatever scalar loads do.
        (
            "ds_read_b32 v4, v1\n ds_read_b32 v5, v1\n s_waitcnt lgkmcnt(1)\n v_mov_b32 v6, v4",
            [],
        ),
        # A flat load needs both counters.
        ("flat_load_dword v4, v[2:3]\n s_waitcnt vmcnt(0)\n v_mov_b32 v6, v4", None),
        (
            "flat_load_dword v4, v[2:3]\n s_waitcnt vmcnt(0) lgkmcnt(0)\n v_mov_b32 v6, v4",
            [],
        ),
        # The address of a load is read when it issues; so is the data of a store.
        ("global_load_dword v4, v1, s[4:5]\n v_mov_b32 v1, 0", []),
        ("global_store_dword v1, v4, s[4:5]\n v_mov_b32 v4, 0", []),
        ("global_load_dword v4, v1, s[4:5]\n global_store_dword v1, v4, s[4:5]", None),
        # An atomic brings back what was there only if it says so.
        ("global_atomic_add v1, v4, s[4:5]\n v_mov_b32 v4, 0", []),
        (
            "global_atomic_add v5, v1, v4, s[4:5] sc0\n v_mov_b32 v6, v5",
            [(True, "v5", "vmcnt(0)")],
        ),
    ],
)
def test_queues(scanned: Scan, body: str, found: list[tuple[bool, str, str]] | None) -> None:
    got = _found(scanned(f"  {body}\n  s_endpgm"))
    assert got == found if found is not None else (got and got[0][0])


BRANCHED = """
  s_cmp_eq_u32 s4, 0
  s_cbranch_scc1 .Lother
  global_load_dword v4, v1, s[4:5]
  {then}
  s_branch .Ljoin
.Lother:
  {other}
.Ljoin:
  v_mov_b32 v5, v4
  s_endpgm
"""


@pytest.mark.parametrize(
    ("then", "other", "found"),
    [
        ("s_nop 0", "s_nop 0", [False]),
        ("s_waitcnt vmcnt(0)", "s_nop 0", []),
        ("global_load_dword v9, v1, s[4:5]\n s_waitcnt vmcnt(1)", "s_nop 0", []),
        ("global_load_dword v9, v1, s[4:5]\n s_waitcnt vmcnt(2)", "s_nop 0", [False]),
    ],
)
def test_paths_join(scanned: Scan, then: str, other: str, found: list[bool]) -> None:
    got = _found(scanned(BRANCHED.format(then=then, other=other)))
    assert [definite for definite, _, _ in got] == found


LOOP = """
  global_load_dword v4, v1, s[4:5]
  {entry}
.Lloop:
  {head}
  v_add_u32 v6, v4, v6
  global_load_dword v4, v1, s[4:5]
  {tail}
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  s_waitcnt vmcnt(0)
  s_endpgm
"""


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"head": "s_waitcnt vmcnt(0)"}, []),
        ({"entry": "s_waitcnt vmcnt(0)", "tail": "s_waitcnt vmcnt(0)"}, []),
        # The way round is certain although the way in is in order.
        ({"entry": "s_waitcnt vmcnt(0)"}, [True]),
        ({"tail": "s_waitcnt vmcnt(0)"}, [True]),
        ({}, [True, True]),
    ],
)
def test_the_way_round_a_loop(scanned: Scan, parts: dict[str, str], found: list[bool]) -> None:
    text = LOOP.format(**({"entry": "", "head": "", "tail": ""} | parts))
    assert [definite for definite, _, _ in _found(scanned(text))] == found


def test_other_lanes_make_it_possible_only(scanned: Scan) -> None:
    body = (
        "global_load_dword v4, v1, s[4:5]\n {} \n v_mov_b32 v5, v4\n s_waitcnt vmcnt(0)\n s_endpgm"
    )
    assert _found(scanned(body.format("s_not_b64 exec, exec")))[0][0] is False
    assert _found(scanned(body.format("s_mov_b64 exec, -1")))[0][0] is True


def test_indexed_registers_are_counted_and_not_reported(scanned: Scan) -> None:
    scan = scanned(
        "global_load_dword v4, v1, s[4:5]\n s_set_gpr_idx_on s8, 0x1\n v_mov_b32 v5, v4\n"
        " s_set_gpr_idx_off\n s_waitcnt vmcnt(0)\n s_endpgm"
    )
    assert not _found(scan)
    assert dict(scan.not_known)["vector instructions whose registers M0 chooses"] == 1


def test_skipped_vector_instructions_are_a_path(scanned: Scan) -> None:
    body = " s_setvskip s8, 0\n global_load_dword v4, v1, s[4:5]\n s_setvskip 0, 0\n"
    assert _found(scanned(f"{body} v_mov_b32 v5, v4\n s_endpgm")) == [(False, "v4", "vmcnt(0)")]


def test_jumps_that_cannot_be_followed_are_not_judged(scanned: Scan) -> None:
    scan = scanned("s_setpc_b64 s[4:5]\n s_endpgm")
    assert "s_setpc_b64" in scan.reason
    assert not scan.findings


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("s_waitcnt vmcnt(0)", 1),
        ("global_load_dword v4, v1, s[4:5]\n s_waitcnt vmcnt(0)", 0),
        ("global_load_dword v4, v1, s[4:5]\n s_waitcnt vmcnt(1)", 1),
        ("global_load_dword v4, v1, s[4:5]\n s_waitcnt vmcnt(0) lgkmcnt(0)", 0),
        ("global_load_dword v4, v1, s[4:5]\n s_waitcnt vmcnt(0)\n s_waitcnt vmcnt(0)", 1),
        ("s_load_dword s8, s[0:1], 0x0\n s_waitcnt lgkmcnt(0)", 0),
    ],
)
def test_waits_for_nothing(scanned: Scan, body: str, count: int) -> None:
    scan = scanned(f"{body}\n s_endpgm")
    assert len(_found(scan, ScanKind.NEEDLESS)) == count


def test_a_load_into_lds_at_the_end(scanned: Scan) -> None:
    body = "s_mov_b32 m0, 0\n s_nop 0\n buffer_load_dword v1, s[8:11], 0 offen lds\n {} s_endpgm"
    (finding,) = (f for f in scanned(body.format("")).findings if f.kind is ScanKind.END)
    assert finding.definite
    waited = scanned(body.format("s_waitcnt vmcnt(0)\n"))
    assert all(f.kind is not ScanKind.END for f in waited.findings)


def test_wait_states_required_apart_from_customary(scanned: Scan) -> None:
    exp = "v_exp_f32 v4, v1\n {} v_add_f32 v5, v4, v4\n s_endpgm"
    (finding,) = (f for f in scanned(exp.format("")).findings if f.kind is ScanKind.WAIT_STATES)
    assert finding.definite
    assert finding.where == "v4"
    assert finding.first is not None
    assert finding.first.text.startswith("v_exp_f32")
    assert not _found(scanned(exp.format("s_nop 0\n")), ScanKind.WAIT_STATES)
    customary = scanned("v_cmp_eq_u32 vcc, v1, v2\n v_cndmask_b32 v3, v1, v2, vcc\n s_endpgm")
    assert not _found(customary, ScanKind.WAIT_STATES)
    assert _found(customary, ScanKind.CUSTOMARY)


def test_wait_states_over_a_branch_are_possible(scanned: Scan) -> None:
    scan = scanned("s_cbranch_scc1 .Lx\n v_exp_f32 v4, v1\n.Lx:\n v_add_f32 v5, v4, v4\n s_endpgm")
    (finding,) = (f for f in scan.findings if f.kind is ScanKind.WAIT_STATES)
    assert not finding.definite


@pytest.mark.parametrize(("count", "wait"), [(15, 14), (16, 14), (30, 14), (30, 3), (2, 1)])
def test_more_in_flight_than_a_count_can_say(scanned: Scan, count: int, wait: int) -> None:
    reads = "\n".join(f" ds_read_b32 v{10 + n}, v1" for n in range(count))
    old, young = 10 + count - 1 - wait, 10 + count - wait
    body = f"{reads}\n s_waitcnt lgkmcnt({wait})\n v_mov_b32 v50, v{{}}\n s_endpgm"
    assert _found(scanned(body.format(old))) == []
    assert _found(scanned(body.format(10))) == []
    assert [definite for definite, _, _ in _found(scanned(body.format(young)))] == [True]


def test_a_full_counter_is_not_relied_on_and_not_called_certain(scanned: Scan) -> None:
    reads = "\n".join(f" ds_read_b32 v{10 + n}, v1" for n in range(16))
    old = _found(scanned(f"{reads}\n v_mov_b32 v50, v10\n s_endpgm"))
    young = _found(scanned(f"{reads}\n v_mov_b32 v50, v11\n s_endpgm"))
    assert [definite for definite, _, _ in old] == [False]
    assert [definite for definite, _, _ in young] == [True]
