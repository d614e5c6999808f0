"""``correct``: the fixed file is assembled, judged, and computes what the whole kernel does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.drive.checking import check
from pipeloom.drive.correcting import correct
from pipeloom.drive.kernel_files import KernelFile
from pipeloom.errors import OrderError
from pipeloom.judge.check.verdict import CheckStatus
from pipeloom.judge.emulate import load_code_object, run_kernel
from pipeloom.write import assemble_text

BODY = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v3, 0x100, v1
  v_mov_b32 v5, 0
  s_mov_b32 s8, 4
.Lloop:
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  ds_write_b32 v1, v2
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v3
  s_waitcnt lgkmcnt(0)
  v_add_u32 v5, v4, v5
  s_barrier
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  v_cvt_f32_u32 v6, v5
  v_exp_f32 v7, 0
  s_nop 0
  v_add_f32 v6, v6, v7
  global_store_dword v1, v6, s[6:7]
  s_waitcnt vmcnt(0)
  s_endpgm"""


def opened(bench: Any, body: str, as_text: bool) -> KernelFile:
    text = bench.text(body, lds=512)
    data = bench.assemble(text, "gfx950")
    return KernelFile(load_code_object(data).kernel(), data, "k.s", text if as_text else "")


def result(text: str) -> Any:
    given = np.arange(128, dtype=np.uint32)
    out = np.zeros(128, np.float32)
    code = load_code_object(assemble_text(text, "gfx950"))
    run = run_kernel(code, grid=(1,), block=(128,), args=[given, out], timing="late", seed=3)
    assert run.ok, [str(f) for f in run.findings]
    return out


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize(
    "lines",
    [
        ("  s_waitcnt vmcnt(0)\n  ds_write", "  ds_write"),
        ("  s_barrier\n  ds_read", "  ds_read"),
        ("  s_waitcnt lgkmcnt(0)\n  s_barrier", "  s_barrier"),
        ("  s_barrier\n  s_sub", "  s_sub"),
        ("  s_nop 0\n", ""),
    ],
)
def test_what_is_missing_is_put_in(bench: Any, lines: tuple[str, str], as_text: bool) -> None:
    file = opened(bench, BODY.replace(*lines), as_text)
    given = np.arange(128, dtype=np.uint32)
    checked = check(file, (1,), (128,), [given, np.zeros(128, np.float32)], seeds=0)
    assert checked.verdict.status is not CheckStatus.PROVED
    fixed = correct(checked)
    assert fixed.checked.verdict.status is CheckStatus.PROVED
    assert fixed.changes
    np.testing.assert_array_equal(result(fixed.text), result(bench.text(BODY, lds=512)))


@pytest.mark.parametrize("as_text", [True, False])
def test_what_is_needless_is_taken_out(bench: Any, as_text: bool) -> None:
    file = opened(bench, BODY, as_text)
    given = np.arange(128, dtype=np.uint32)
    fixed = correct(check(file, (1,), (128,), [given, np.zeros(128, np.float32)]))
    assert [change.split(": ", 1)[1] for change in fixed.changes] == [
        "s_waitcnt vmcnt(0) -> nothing"
    ]
    assert fixed.checked.verdict.status is CheckStatus.PROVED
    assert not fixed.checked.verdict.needless
    for one in (fixed, fixed.checked, fixed.checked.verdict, file, fixed.checked.start):
        assert len(repr(one)) < 200
    assert "s_waitcnt vmcnt(0)" in fixed._repr_html_()
    np.testing.assert_array_equal(result(fixed.text), result(bench.text(BODY, lds=512)))


def test_what_no_wait_mends(bench: Any) -> None:
    file = opened(bench, BODY.replace("v_mov_b32 v5, 0", "s_nop 0"), False)
    given = np.arange(128, dtype=np.uint32)
    with pytest.raises(OrderError, match="uninitialised"):
        correct(check(file, (1,), (128,), [given, np.zeros(128, np.float32)], seeds=0))


STAGES = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v3, 0x100, v1
  ds_write_b32 v1, v0
  ds_write_b32 v1, v0 offset:512
{one}
  ds_read_b32 v4, v3 offset:512
{two}
  ds_read_b32 v5, v3
  s_waitcnt lgkmcnt(0)
  v_add_u32 v6, v4, v5
{three}
  ds_write_b32 v1, v6
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v7, v3
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v7, s[6:7]
  s_waitcnt vmcnt(0)
  s_endpgm"""
WAIT, BARRIER = "  s_waitcnt lgkmcnt(0)", "  s_barrier"


@pytest.mark.parametrize("three", ["", BARRIER])
@pytest.mark.parametrize("two", ["", BARRIER, f"{WAIT}\n{BARRIER}"])
@pytest.mark.parametrize("one", ["", BARRIER, WAIT])
def test_nothing_is_added_that_is_not_needed(bench: Any, one: str, two: str, three: str) -> None:
    body = STAGES.format(one=one, two=two, three=three)
    text = bench.text(body, lds=1024)
    data = bench.assemble(text, "gfx950")
    file = KernelFile(load_code_object(data).kernel(), data, "k.s", text)
    args = [np.zeros(128, np.uint32), np.zeros(128, np.uint32)]
    checked = check(file, (1,), (128,), args, seeds=0, shown=0)
    fixed = correct(checked)
    verdict = fixed.checked.verdict
    assert verdict.status is CheckStatus.PROVED
    lines = fixed.text.splitlines()
    said = [lines[int(line.rsplit(":")[-1]) - 1] for line in (n.line for n in verdict.needless)]
    assert not [text for text in said if "added" in text]
    if checked.verdict.findings:
        before = {n.before for n in checked.verdict.needless}
        assert {n.before for n in verdict.needless if n.before == "s_barrier"} <= before
