"""Findings name the line of assembly and the schedule entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import EmulateError, map_lines, run_kernel
from pipeloom.machine.source_lines import SourceLine

BODY = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0   ; kernarg
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32_e32 v1, 2, v0 // address
  .p2align 6
loop: global_load_dword v4, v1, s[4:5]
  v_add_u32 v5, v4, v4
  s_endpgm"""


def test_finding_carries_line_and_entry(bench: Any) -> None:
    text = bench.text(BODY, pointers=1)
    kernel = bench.code(BODY, pointers=1).kernel()
    lines = text.splitlines()
    add = 1 + next(i for i, t in enumerate(lines) if "v_add_u32" in t)
    load = 1 + next(i for i, t in enumerate(lines) if "global_load" in t)
    mapping = map_lines(kernel, text, {add: "mma 0,0", load: "load A 0"})
    run = run_kernel(
        kernel, grid=(1,), block=(64,), args=[np.zeros(64, np.uint32)], line_map=mapping
    )
    (finding,) = run.findings
    assert finding.source == SourceLine(add, "v_add_u32 v5, v4, v4", "mma 0,0")
    assert finding.cause == SourceLine(load, "global_load_dword v4, v1, s[4:5]", "load A 0")
    assert f"line {load} [load A 0] is still outstanding" in finding.message
    assert f"line {add} [mma 0,0], v_add_u32: reads v4" in str(finding)


def test_text_of_another_kernel_is_refused(bench: Any) -> None:
    kernel = bench.code(BODY, pointers=1).kernel()
    other = bench.text(BODY.replace("v_add_u32", "v_sub_u32"), pointers=1)
    with pytest.raises(EmulateError, match=r"the code has v_add_u32, the text line .*v_sub_u32"):
        map_lines(kernel, other)
    with pytest.raises(EmulateError, match="the assembly has no label 'kernel'"):
        map_lines(kernel, "s_endpgm")
    longer = bench.text(BODY + "\n  s_endpgm", pointers=1)
    with pytest.raises(EmulateError, match="the code object ends before line"):
        map_lines(kernel, longer)
