"""The judge of wait states on machine code: same findings as on text, and part of every run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import (
    DefectKind,
    check_hazards,
    decode_kernel,
    load_code_object,
    map_lines,
    run_kernel,
)
from pipeloom.judge.emulate.wait_states import read_instructions
from pipeloom.judge.wait_states import judge, read_assembly
from pipeloom.machine.chips import target_for

CDNA4_ONLY = ("permlane", "f8f6f4", "lds_dwordx4", "dwordx4 v1, s[4:7], 0 offen")
APART = "\n".join(["s_nop 7"] * 3)


def table_cases() -> ModuleType:
    path = Path(__file__).parents[1] / "wait_states" / "test_wait_state_rules.py"
    spec = importlib.util.spec_from_file_location("wait_state_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def runs_on(case: tuple[Any, str, str, int, int], arch: str) -> bool:
    if case[2].endswith("lds sc0") or "readfirstlane_b32 m0" in case[1]:
        return False  # text that LLVM's assembler does not take
    return arch == "gfx950" or not any(w in line for line in case[1:3] for w in CDNA4_ONLY)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_bytes_and_text_are_judged_alike(bench: Any, arch: str) -> None:
    """All pairs of the table in one kernel: the same shortfall from either front end."""
    cases = [case for case in table_cases().CASES if runs_on(case, arch)]
    assert len(cases) > 60
    body = "\n".join(f"{first}\n{second}\n{APART}" for _, first, second, _, _ in cases)
    text = bench.text(f"{body}\ns_endpgm", arch)
    kernel = load_code_object(bench.assemble(text, arch)).kernel()
    lines = map_lines(kernel, text)
    found = [(lines[h.pc].line, h.missing, h.source) for h in check_hazards(kernel)]
    program, entries = read_assembly(text)
    shortfalls = judge(program, target_for(arch), entries)
    assert found == [(program[s.at].place, s.missing, s.source) for s in shortfalls]
    assert [missing for _, missing, _ in found] == [
        case[4] if arch == "gfx950" else case[3] for case in cases
    ]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_bytes_and_text_give_the_same_registers(bench: Any, arch: str) -> None:
    """Operand by operand, so that also those count that no rule of the table asks for."""
    more = """
        v_mfma_f32_16x16x16_f16 a[0:3], a[8:9], v[10:11], a[0:3]
        v_accvgpr_write_b32 a7, v3
        v_accvgpr_read_b32 v3, a7
        v_accvgpr_mov_b32 a3, a4
        ds_read_b64 a[2:3], v1 offset:16
        ds_write2_b32 v1, v2, v3 offset0:1 offset1:2
        ds_add_rtn_u32 v1, v2, v3
        buffer_load_dwordx4 a[4:7], v1, s[4:7], s9 offen
        buffer_load_dword v4, off, s[4:7], 0 offset:16
        buffer_load_dword v4, v[2:3], s[4:7], m0 idxen offen
        global_load_dwordx2 v[4:5], v1, s[2:3] offset:8
        global_atomic_add v4, v[2:3], v6, off sc0
        global_atomic_add v[2:3], v6, off
        scratch_load_dword v4, v2, off
        scratch_store_dword off, v4, s3
        flat_load_dwordx4 v[4:7], v[2:3]
        v_cndmask_b32_e32 v1, v2, v3, vcc
        v_cndmask_b32_e64 v1, v2, v3, s[4:5]
        v_add_co_u32_e64 v1, s[4:5], v2, v3
        v_addc_co_u32_e64 v1, s[4:5], v2, v3, s[6:7]
        v_cmp_lt_f32_e32 vcc, s3, v2
        v_cmp_lt_f32_e64 s[8:9], v1, v2
        v_mad_u64_u32 v[2:3], s[4:5], v4, v5, v[6:7]
        v_lshl_add_u64 v[2:3], v[4:5], 3, s[6:7]
        v_fmac_f32_e32 v1, v2, v3
        v_pk_fma_f32 v[0:1], v[2:3], v[4:5], s[6:7]
        v_mov_b32_dpp v3, v1 row_shr:1 row_mask:0xf bank_mask:0xf
        v_add_u32_sdwa v1, v2, v3 dst_sel:DWORD src0_sel:BYTE_0 src1_sel:DWORD
        v_writelane_b32 v1, s2, m0
        v_mov_b64_e32 v[0:1], exec
        v_swap_b32 v1, v2
        s_and_saveexec_b64 s[2:3], vcc
        s_mov_b64 exec, s[4:5]
        s_load_dwordx4 s[4:7], s[0:1], 0x10
        v_cvt_f32_i32_e32 v0, 0x1234567
        s_endpgm
    """
    text = bench.text(more, arch)
    kernel = load_code_object(bench.assemble(text, arch)).kernel()
    decoded = read_instructions(decode_kernel(kernel.code))
    written = read_assembly(text)[0]
    assert len(decoded) == len(written)
    for one, other in zip(decoded, written, strict=True):
        assert not one.problem
        assert one.name == other.name
        shown = [o for o in one.operands if o]
        assert shown == [o for o in other.operands if o], other.text
        assert ("dpp" in one.modifiers, "lds" in one.modifiers, "sc0" in one.modifiers) == (
            "dpp" in other.modifiers,
            "lds" in other.modifiers,
            "sc0" in other.modifiers,
        )


LATE = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v1, 2, v0
    v_cvt_f32_u32_e32 v2, v0
    v_exp_f32_e32 v2, v2
    {wait}
    v_add_f32_e32 v2, 1.0, v2
    global_store_dword v1, v2, s[6:7]
    s_endpgm
"""


def test_a_run_reports_missing_wait_states(bench: Any) -> None:
    """The data are right in the emulator; the finding says that they need not be on hardware."""
    given, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    options: dict[str, Any] = {"grid": (1,), "block": (64,), "args": [given, out]}
    bad = bench.code(LATE.format(wait=""))
    run = run_kernel(bad, **options)
    (finding,) = run.findings
    assert finding.kind is DefectKind.WAIT_STATES
    assert str(finding) == (
        "wait-states: every wave, pc 0x18, v_add_f32: lacks 1 wait state(s): the result of a "
        "transcendental instruction is not forwarded to other VALU (v2)"
    )
    assert not run.ok
    assert run.complete
    np.testing.assert_allclose(out, 1 + np.exp2(np.arange(64.0)), rtol=1e-6)
    assert run_kernel(bad, **options, check_wait_states=False).ok
    assert run_kernel(bench.code(LATE.format(wait="s_nop 0")), **options).ok


def test_a_finding_names_the_line(bench: Any) -> None:
    text = bench.text(LATE.format(wait=""))
    code = load_code_object(bench.assemble(text, "gfx950"))
    lines = map_lines(code.kernel(), text)
    given, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    run = run_kernel(code, grid=(1,), block=(64,), args=[given, out], line_map=lines)
    source = run.findings[0].source
    assert source is not None
    assert source.text == "v_add_f32_e32 v2, 1.0, v2"
    (hazard,) = check_hazards(code)
    assert hazard.kernel == "kernel"
    assert "pc 0x18: v_add_f32 lacks 1" in str(hazard)


def test_branches_out_of_the_kernel_are_findings(bench: Any) -> None:
    (hazard,) = check_hazards(bench.code("s_branch 100\ns_endpgm"))
    assert str(hazard) == "pc 0x0: s_branch the target of s_branch is not in the kernel"
