"""What the numbers in the buffers decide is no proof: kernels that go wrong with other data only.

Each is judged with data that hide the fault and with data that show it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.drive.checking import check
from pipeloom.judge.check.static import statics
from pipeloom.judge.check.verdict import CheckKind, CheckStatus, CheckVerdict
from pipeloom.judge.emulate.executable import build_program
from pipeloom.judge.emulate.register_numbers import VGPR, each_register

HEAD = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v2, 0x100, v1
  v_mov_b32 v4, 0
  v_mov_b32 v10, v1
"""
LOOP = """
  s_mov_b32 s8, {trips}
.Lloop:
  {body}
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
"""
TAIL = """
  global_store_dword v1, v4, s[6:7]
  s_endpgm"""


def judge(
    bench: Any, body: str, given: Any, *, block: int = 128, grid: int = 1, lds: int = 1024
) -> CheckVerdict:
    given = np.asarray(given, np.uint32)
    code = bench.code(body, lds=lds)
    outcome = np.zeros(128, np.uint32)
    return check(code, (grid,), (block,), [given, outcome], seeds=1).verdict


ZEROS = np.zeros((24, 128))
NUMBERS = np.arange(1, 24 * 128 + 1).reshape(24, 128)

MASKED = (
    HEAD
    + """
  ds_write_b32 v1, v4
  s_waitcnt lgkmcnt(0)
  s_barrier
"""
    + LOOP.format(
        trips=6,
        body="""
  global_load_dword v3, v10, s[4:5]
  s_waitcnt vmcnt(0)
  v_cmp_ne_u32 vcc, 0, v3
  s_nop 4
  {mask}
  ds_write_b32 v1, v3
  {back}
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v5, v2
  s_waitcnt lgkmcnt(0)
  v_add_u32 v4, v4, v5
  v_add_u32 v10, 0x200, v10""",
    )
    + TAIL
)
SAVED = {"mask": "s_and_saveexec_b64 s[10:11], vcc", "back": "s_or_b64 exec, exec, s[10:11]"}
MOVED = {"mask": "s_mov_b64 exec, vcc", "back": "s_mov_b64 exec, -1"}


@pytest.mark.parametrize("how", [SAVED, MOVED])
def test_lanes_that_data_switch_on(bench: Any, how: dict[str, str]) -> None:
    """With zeros no lane writes LDS in the loop; with numbers all do, and no barrier orders it."""
    body = MASKED.format(**how)
    hidden = judge(bench, body, ZEROS)
    assert hidden.status is CheckStatus.PROVED
    assert not hidden.every_trip_count
    assert "with these data" in hidden.summary()
    assert "with these data" in hidden.needless_for
    assert judge(bench, body, NUMBERS).status is not CheckStatus.PROVED


def test_lanes_that_an_argument_switches_off_are_no_data(bench: Any) -> None:
    """The same with a mask of the lanes' numbers, which are back on before LDS is read."""
    body = MASKED.format(**SAVED).replace("0, v3\n  s_nop", "99, v0\n  s_nop")
    ordered = body.replace("s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)\n  s_barrier")
    verdict = judge(bench, ordered, ZEROS)
    assert verdict.status is CheckStatus.PROVED
    assert verdict.every_trip_count
    assert not verdict.data


def test_lanes_that_all_happen_to_be_on(bench: Any) -> None:
    """All lanes are equal, so a mask by data leaves all of them on: that is no mask restored."""
    body = MASKED.replace("v_cmp_ne", "v_cmp_eq").format(mask="s_mov_b64 exec, vcc", back="s_nop 0")
    assert judge(bench, body, ZEROS).data


FAR = (
    HEAD
    + """
  v_cmp_lt_u32 vcc, 63, v0
  v_add_u32 v11, 0x1300, v1
  s_nop 4
  s_and_saveexec_b64 s[10:11], vcc
  global_store_dword v11, v1, s[4:5]
  s_or_b64 exec, exec, s[10:11]
"""
)
READS = """
  global_load_dword v3, v10, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_u32 v4, v4, v3
  v_add_u32 v10, 0x200, v10"""


def test_a_loop_that_comes_to_what_was_written_before_it(bench: Any) -> None:
    few, many = (FAR + LOOP.format(trips=n, body=READS) + TAIL for n in (4, 12))
    verdict = judge(bench, few, NUMBERS)
    assert verdict.status is CheckStatus.PROVED
    assert not verdict.every_trip_count
    assert judge(bench, many, NUMBERS).status is not CheckStatus.PROVED


def test_an_address_behind_the_loop_that_the_loop_moved(bench: Any) -> None:
    """Behind the loop each wave's first lane writes its slot and reads one the further on, the more
    trips there were: after 64, that of the other wave."""
    before = """
  v_mov_b32 v5, v1
  ds_write_b32 v1, v0
  s_waitcnt lgkmcnt(0)"""
    moved = """
  s_barrier
  v_add_u32 v5, 4, v5"""
    behind = """
  s_mov_b64 exec, 1
  ds_write_b32 v1, v0
  ds_read_b32 v4, v5
  s_waitcnt lgkmcnt(0)"""
    few, many = (HEAD + before + LOOP.format(trips=n, body=moved) + behind + TAIL for n in (4, 64))
    verdict = judge(bench, few, NUMBERS)
    assert verdict.status is CheckStatus.PROVED
    assert not verdict.every_trip_count
    assert judge(bench, many, NUMBERS).status is not CheckStatus.PROVED


ONE_SLOT = """
  {head}
  v_and_b32 v12, 0xff, v1
  global_load_dword v3, {place}, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_u32 v3, v3, v3
  ds_write_b32 v12, v3
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v12
  s_waitcnt lgkmcnt(0)
"""


def test_an_address_is_not_what_is_stored(bench: Any) -> None:
    """It differs by wave (v0) where it is computed, and not in what it is."""
    body = ONE_SLOT.format(head=HEAD, place="v12").replace(
        "  ds_write_b32 v12", "  v_mov_b32 v0, v12\n  ds_write_b32 v0"
    )
    assert judge(bench, body + TAIL, NUMBERS).status is CheckStatus.PROVED


@pytest.mark.parametrize("given", [ZEROS, NUMBERS])
def test_equal_numbers_are_the_same_only_from_the_same_place(bench: Any, given: Any) -> None:
    """Two waves write one slot: what each loaded itself, or what both loaded from one place."""
    own = judge(bench, ONE_SLOT.format(head=HEAD, place="v1") + TAIL, given)
    assert [f.kind for f in own.findings] == [CheckKind.WAW]
    both = judge(bench, ONE_SLOT.format(head=HEAD, place="v12") + TAIL, given)
    assert both.status is CheckStatus.PROVED
    assert not both.data


@pytest.mark.parametrize(
    ("text", "first", "stored"),
    [
        ("ds_write_b32 v0, v7", "ds", {7}),
        ("ds_write_b128 v0, v[4:7]", "ds", {4, 5, 6, 7}),
        ("ds_write2_b64 v0, v[4:5], v[8:9] offset1:2", "ds", {4, 5, 8, 9}),
        ("ds_read_b64 v[2:3], v0", "ds", set()),
        ("global_store_dword v1, v0, s[4:5]", "global", {0}),
        ("global_store_dwordx4 v[2:3], v[2:5], off", "global", {2, 3, 4, 5}),
        ("buffer_store_dwordx2 v[2:3], v0, s[4:7], 0 offen", "global", {2, 3}),
        ("global_load_dword v3, v1, s[4:5]", "global", set()),
    ],
)
def test_registers_that_are_stored(bench: Any, text: str, first: str, stored: set[int]) -> None:
    kernel = bench.code(f"  {text}\n  s_endpgm", lds=1024).kernel()
    one = statics(build_program(kernel.code, kernel.arch))[0]
    assert {register - VGPR for register in each_register(one.stored)} == stored
    assert bool(one.local) == (first == "ds")
    assert bool(one.place) == (first == "global")


def test_the_same_bytes_in_other_lanes_are_not_the_same(bench: Any) -> None:
    """Wave 1 loads the numbers of wave 0 in the opposite order, and stores them as they come."""
    turned = """
  v_lshrrev_b32 v6, 6, v0
  v_sub_u32 v6, 0, v6
  v_and_b32 v6, 0xfc, v6
  v_xor_b32 v6, v12, v6"""
    body = ONE_SLOT.format(head=HEAD, place="v6").replace("0xff, v1", "0xff, v1" + turned) + TAIL
    assert [f.kind for f in judge(bench, body, ZEROS).findings] == [CheckKind.WAW]


def test_what_waves_read_from_one_place_in_lds_is_the_same(bench: Any) -> None:
    """A replicated result: both waves read the slots of wave 0 and write the same to others."""
    again = """
  v_add_u32 v3, 1, v4
  ds_write_b32 v12, v3 offset:512
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v12 offset:512
  s_waitcnt lgkmcnt(0)
"""
    body = ONE_SLOT.format(head=HEAD, place="v12") + again + TAIL
    assert judge(bench, body, NUMBERS).status is CheckStatus.PROVED
    own = body.replace("v_add_u32 v3, 1, v4", "v_add_u32 v3, v0, v4")
    assert [f.kind for f in judge(bench, own, NUMBERS).findings] == [CheckKind.WAW]


@pytest.mark.parametrize("given", [ZEROS, NUMBERS])
def test_workgroups_that_store_equal_data_to_one_place(bench: Any, given: Any) -> None:
    body = f"""{HEAD}
  s_lshl_b32 s9, s2, 8
  v_add_u32 v5, s9, v1
  global_load_dword v4, v5, s[4:5]
  s_waitcnt vmcnt(0){TAIL}"""
    verdict = judge(bench, body, given, block=64, grid=2)
    assert [f.kind for f in verdict.findings] == [CheckKind.WORKGROUPS]


ATOMIC = "global_atomic_add v3, v1, v1, s[4:5] sc0\n  s_waitcnt vmcnt(0)"
CLOCK = "s_memtime s[12:13]\n  s_waitcnt lgkmcnt(0)\n  v_mov_b32 v3, s12"


@pytest.mark.parametrize("got", [ATOMIC, CLOCK])
def test_what_an_atomic_returns_is_data_and_so_is_the_time(bench: Any, got: str) -> None:
    body = f"""{HEAD}
  {got}
  v_readfirstlane_b32 s9, v3
  s_cmp_eq_u32 s9, 5
  s_cbranch_scc1 .Lout
  s_barrier
.Lout:{TAIL}"""
    assert "a branch" in judge(bench, body, ZEROS).data


def test_a_spilled_number_is_still_data(bench: Any) -> None:
    """Through scratch memory to an address of LDS."""
    body = f"""{HEAD}
  global_load_dword v3, v1, s[4:5]
  s_waitcnt vmcnt(0)
  scratch_store_dword off, v3, off
  s_waitcnt vmcnt(0)
  scratch_load_dword v5, off, off
  s_waitcnt vmcnt(0)
  v_and_b32 v5, 0x1fc, v5
  ds_write_b32 v5, v1
  s_waitcnt lgkmcnt(0){TAIL}"""
    code = bench.code(body, lds=1024, scratch=16)
    given = np.zeros(64, np.uint32)
    verdict = check(code, (1,), (64,), [given, given.copy()], seeds=1).verdict
    assert "an LDS address" in verdict.data
