"""Registers that M0 moves: the judge looks at those that the run used, and asks who decided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.drive.checking import check
from pipeloom.judge.check.verdict import CheckKind, CheckStatus, CheckVerdict

BODY = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v11, 5
  global_load_dword v12, v1, s[4:5]
{before}
  s_set_gpr_idx_on s20, 1
  v_mov_b32 v2, v8
  s_set_gpr_idx_off
  s_waitcnt vmcnt(0)
  v_add_u32 v2, v2, v12
  global_store_dword v1, v2, s[6:7]
  s_endpgm"""


def judged(bench: Any, before: str) -> CheckVerdict:
    data = bench.assemble(bench.text(BODY.format(before=before), lds=0), "gfx950")
    args = [np.arange(64, dtype=np.uint32) % 2, np.zeros(64, np.uint32)]
    return check(data, (1,), (64,), args, shown=0).verdict


@pytest.mark.parametrize(("index", "hit"), [(3, False), (4, True)])
def test_only_the_register_that_is_meant_can_be_in_flight(
    bench: Any, index: int, hit: bool
) -> None:
    """v12 is in flight; v8 moved by 3 is v11, moved by 4 it is v12."""
    verdict = judged(bench, f"  s_mov_b32 s20, {index}")
    assert [f.kind for f in verdict.findings] == [CheckKind.REGISTER] * hit
    assert (verdict.status is CheckStatus.PROVED) is not hit
    assert verdict.data == ""


def test_an_index_from_memory_makes_it_a_verdict_for_these_data(bench: Any) -> None:
    verdict = judged(bench, "  s_load_dword s20, s[4:5], 0x4\n  s_waitcnt vmcnt(0) lgkmcnt(0)")
    assert "which register is used" in verdict.data
