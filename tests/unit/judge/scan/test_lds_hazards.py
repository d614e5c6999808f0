"""LDS too early, in one wave and between waves: found, and silent where it is ordered."""

from __future__ import annotations

from typing import Any

import pytest

from pipeloom.judge.scan import KernelScan, ScanKind

Scan = Any

OWN = "v_lshlrev_b32 v1, 2, v0\n v_xor_b32 v2, 0x100, v1\n v_mov_b32 v5, 0\n"
"""v1: the lane's own dword; v2: that of the same lane of the other wave."""


def _found(scan: KernelScan, *kinds: ScanKind) -> list[tuple[str, bool]]:
    assert not scan.reason
    wanted = kinds or (ScanKind.LDS, ScanKind.LDS_WAVES)
    return [(f.kind.value, f.definite) for f in scan.findings if f.kind in wanted]


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("s_waitcnt lgkmcnt(0)\n s_barrier", []),
        ("s_barrier", [("lds-waves", True)]),
        ("s_waitcnt lgkmcnt(0)", [("lds-waves", True)]),
        # A barrier before the wait says nothing about what is still in flight.
        ("s_barrier\n s_waitcnt lgkmcnt(0)", [("lds-waves", True)]),
    ],
)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ds_write_b32 v1, v5", "ds_read_b32 v4, v2"),
        ("ds_read_b32 v4, v2", "ds_write_b32 v1, v5"),
    ],
)
def test_between_waves(
    scanned: Scan, first: str, second: str, between: str, found: list[tuple[str, bool]]
) -> None:
    end = "s_waitcnt lgkmcnt(0)\n s_endpgm"
    assert _found(scanned(f"{OWN} {first}\n {between}\n {second}\n {end}")) == found


def test_what_a_wave_keeps_to_itself_needs_no_barrier(scanned: Scan) -> None:
    body = f"{OWN} ds_write_b32 v1, v5\n ds_read_b32 v4, v1\n s_waitcnt lgkmcnt(0)\n s_endpgm"
    assert _found(scanned(body)) == []


def test_one_wave_needs_no_barrier(scanned: Scan) -> None:
    body = f"{OWN} ds_write_b32 v1, v5\n ds_read_b32 v4, v2\n s_waitcnt lgkmcnt(0)\n s_endpgm"
    assert _found(scanned(body, block=64)) == []


def test_neighbouring_bytes_do_not_meet(scanned: Scan) -> None:
    body = (
        "v_lshrrev_b32 v3, 6, v0\n ds_write_b8 v3, v0\n ds_read_u8 v4, v3 offset:{}\n"
        " s_waitcnt lgkmcnt(0)\n s_endpgm"
    )
    assert _found(scanned(body.format(2))) == []
    assert _found(scanned(body.format(1))) == [("lds-waves", True)]


DMA = """
  v_lshlrev_b32 v1, 2, v0
  v_lshrrev_b32 v3, 6, v0
  s_nop 4
  v_readfirstlane_b32 s12, v3
  s_lshl_b32 s12, s12, 8
  s_mov_b32 m0, s12
  s_nop 0
  buffer_load_dword v1, s[8:11], 0 offen lds
  {between}
  ds_read_b32 v4, v1 offset:{offset}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_endpgm
"""


@pytest.mark.parametrize(
    ("between", "offset", "found"),
    [
        ("s_nop 0", 0, [("lds", True)]),
        ("s_waitcnt vmcnt(0)", 0, []),
        ("s_nop 0", 512, []),
        # The other wave's half: a wait of one's own is not enough.
        ("s_waitcnt vmcnt(0)", 256, [("lds-waves", True)]),
        ("s_waitcnt vmcnt(0)\n s_barrier", 256, []),
    ],
)
def test_loads_into_lds(
    scanned: Scan, between: str, offset: int, found: list[tuple[str, bool]]
) -> None:
    assert _found(scanned(DMA.format(between=between, offset=offset))) == found


def test_reads_before_a_load_into_lds(scanned: Scan) -> None:
    body = (
        "v_lshlrev_b32 v1, 2, v0\n s_mov_b32 m0, 0\n ds_read_b32 v4, v1\n {}"
        " buffer_load_dword v1, s[8:11], 0 offen lds\n s_waitcnt vmcnt(0) lgkmcnt(0)\n s_endpgm"
    )
    assert _found(scanned(body.format("s_nop 0\n"), block=64)) == [("lds", True)]
    assert _found(scanned(body.format("s_waitcnt lgkmcnt(0)\n"), block=64)) == []


STAGES = """
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v3, 0x100, v1
  v_mov_b32 v5, 0
  s_mov_b32 s9, 0
.Lloop:
  v_add_u32 v6, s9, v1
  v_add_u32 v7, s9, v3
  ds_write_b32 v6, v5
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v7
  s_waitcnt lgkmcnt(0)
  v_add_u32 v5, v4, v5
  {end}
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  s_endpgm
"""


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("s_xor_b32 s9, s9, 0x200", []),
        ("s_barrier", []),
        ("s_nop 0", [("lds-waves", True)]),
        # Bytes that go on growing are not known: counted, not reported.
        ("s_add_u32 s9, s9, s10", []),
    ],
)
def test_stages_of_a_loop(scanned: Scan, end: str, found: list[tuple[str, bool]]) -> None:
    scan = scanned(STAGES.format(end=end))
    assert _found(scan) == found
    unknown = dict(scan.not_known).get("LDS accesses whose address is not known", 0)
    assert bool(unknown) == ("s10" in end)


def test_lanes_that_are_switched_off_touch_nothing(scanned: Scan) -> None:
    body = (
        f"{OWN} v_cmp_gt_u32 vcc, 64, v0\n s_and_saveexec_b64 s[14:15], vcc\n {{}}"
        " ds_write_b32 {}, v5\n s_mov_b64 exec, s[14:15]\n ds_read_b32 v4, v1\n"
        " s_waitcnt lgkmcnt(0)\n s_endpgm"
    )
    assert _found(scanned(body.format("", "v1"))) == []
    assert _found(scanned(body.format("", "v2"))) == [("lds-waves", True)]


PARTED = """
  v_lshlrev_b32 v1, 2, v0
  v_lshrrev_b32 v3, 6, v0
  s_nop 4
  v_readfirstlane_b32 s12, v3
  s_cmp_eq_u32 s12, 0
  s_cbranch_scc1 .Lother
  {then}
.Lother:
  s_endpgm
"""


def test_a_branch_on_the_wave_parts_the_waves(scanned: Scan) -> None:
    swap = "v_xor_b32 v2, 0x100, v1\n ds_write_b32 v1, v1\n ds_read_b32 v4, v2\n"
    body = PARTED.format(then=f"{swap} s_waitcnt lgkmcnt(0)")
    # Only one wave comes there; with four waves three do.
    assert _found(scanned(body)) == []
    assert _found(scanned(body, block=256)) == [("lds-waves", True)]


def test_a_barrier_that_only_some_waves_come_to(scanned: Scan) -> None:
    scan = scanned(PARTED.format(then="s_barrier"))
    assert _found(scan, ScanKind.BARRIER) == [("barrier", False)]
    # What leaves SCC alone does not make the branch another.
    between = PARTED.replace("s_cmp_eq_u32 s12, 0", "s_cmp_eq_u32 s12, 0\n  s_mov_b32 s13, 0")
    scan = scanned(between.format(then="s_barrier"))
    assert _found(scan, ScanKind.BARRIER) == [("barrier", False)]
    uniform = PARTED.replace("s_cmp_eq_u32 s12, 0", "s_cmp_eq_u32 s4, 0").format(then="s_barrier")
    assert _found(scanned(uniform), ScanKind.BARRIER) == []


@pytest.mark.parametrize(
    ("between", "parted"),
    [
        ("s_cmov_b32 s12, s4", True),
        ("s_cmovk_i32 s12, 0x5", True),
        ("s_bitset0_b32 s12, 7", True),
        ("s_mov_b32 s12, s4", False),
    ],
)
def test_what_is_left_of_a_register_still_parts_the_waves(
    scanned: Scan, between: str, parted: bool
) -> None:
    compare = "s_cmp_eq_u32 s12, 0"
    body = PARTED.replace(compare, f"s_cmp_eq_u32 s4, 0\n  {between}\n  {compare}")
    scan = scanned(body.format(then="s_barrier"))
    assert _found(scan, ScanKind.BARRIER) == [("barrier", False)] * parted


def test_atomics_need_no_order_among_themselves(scanned: Scan) -> None:
    body = "v_mov_b32 v1, 0\n ds_add_u32 v1, v0\n {} v1\n s_waitcnt lgkmcnt(0)\n s_endpgm"
    assert _found(scanned(body.format("ds_add_u32 v1,"))) == []
    assert _found(scanned(body.format("ds_read_b32 v4,"))) == [("lds-waves", True)]


APART = f"""
  {OWN}
  v_or_b32 v3, 0x100, v1
  v_lshrrev_b32 v6, 6, v0
  s_nop 4
  v_readfirstlane_b32 s12, v6
  s_cmp_eq_u32 s12, {{ahead}}
  s_cbranch_scc1 .Lfirst
  s_barrier
.Lfirst:
  ds_read_b32 v4, {{address}}
  {{early}}
  s_barrier
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_write_b32 v1, v5
  s_waitcnt lgkmcnt(0)
  s_cmp_lg_u32 s12, {{ahead}}
  s_cbranch_scc1 .Llast
  s_barrier
.Llast:
  s_endpgm
"""


@pytest.mark.parametrize(
    ("values", "found"),
    [
        # The wave behind waits one barrier too late: the other is past both.
        ({}, [("lds-waves", True)]),
        ({"early": "s_waitcnt lgkmcnt(0)"}, []),
        # No two waves differ in how many barriers they execute.
        ({"ahead": 7}, []),
        # Only the dword of the second wave is read: by the wave ahead it is over in time.
        ({"address": "v3"}, []),
        ({"address": "v3", "ahead": 1}, [("lds-waves", True)]),
    ],
)
def test_groups_of_waves_that_are_a_barrier_apart(
    scanned: Scan, values: dict[str, object], found: list[tuple[str, bool]]
) -> None:
    given = {"early": "s_nop 0", "ahead": 0, "address": "v2"} | values
    scan = scanned(APART.format(**given))
    assert _found(scan) == found
    # In the end all waves have come to as many barriers.
    assert _found(scan, ScanKind.BARRIER) == []


@pytest.mark.parametrize(
    ("early", "found"),
    [("s_nop 0", [("lds-waves", True)]), ("s_waitcnt vmcnt(0)", [])],
)
def test_a_load_that_the_wave_behind_waits_for_too_late(
    scanned: Scan, early: str, found: list[tuple[str, bool]]
) -> None:
    """FlyDSL #1137: the group ahead reads keys before the group behind has waited for them."""
    load = """s_lshl_b32 s13, s12, 8
  s_mov_b32 m0, s13
  s_nop 0
  buffer_load_dword v1, s[8:11], 0 offen lds"""
    body = APART.format(early=early, ahead=0, address="v2")
    body = body.replace("ds_read_b32 v4, v2", load).replace(
        "lgkmcnt(0)\n  s_barrier", "vmcnt(0)\n  s_barrier"
    )
    body = body.replace("ds_write_b32 v1, v5", "ds_read_b32 v4, v2")
    assert _found(scanned(body)) == found


COPIES = """
  v_lshrrev_b32 v3, 6, v0
  s_nop 4
  v_readfirstlane_b32 s12, v3
  s_cmp_eq_u32 s12, 0
  s_cbranch_scc1 .Lother
  s_barrier
  {first}
  s_endpgm
.Lother:
  {second}
  s_barrier
  s_endpgm
"""


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("s_nop 0", "s_nop 0", []),
        ("s_barrier", "s_barrier", []),
        ("s_barrier", "s_nop 0", [("barrier", False)]),
    ],
)
def test_each_group_of_waves_has_code_of_its_own(
    scanned: Scan, first: str, second: str, found: list[tuple[str, bool]]
) -> None:
    scan = scanned(COPIES.format(first=first, second=second))
    assert _found(scan, ScanKind.BARRIER) == found
