"""Scalar instructions and branches against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import UnsupportedInstructionError, run_kernel

WORD = 0xFFFFFFFF
LONG = 0xFFFFFFFFFFFFFFFF
P, Q = 0xF00DCAFE, 0x00000123


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


CASES: list[tuple[str, int, int]] = [
    # text (reads s40 = P, s41 = Q, pair s[40:41]; writes s50 or s[50:51]), value, words
    ("s_add_u32 s50, s40, s41", P + Q & WORD, 1),
    ("s_sub_u32 s50, s41, s40", Q - P & WORD, 1),
    ("s_mul_i32 s50, s40, s41", P * Q & WORD, 1),
    ("s_mul_hi_u32 s50, s40, s41", P * Q >> 32, 1),
    ("s_mul_hi_i32 s50, s40, s41", signed(P) * Q >> 32 & WORD, 1),
    ("s_lshl_b32 s50, s40, 7", P << 7 & WORD, 1),
    ("s_ashr_i32 s50, s40, 9", signed(P) >> 9 & WORD, 1),
    ("s_lshr_b64 s[50:51], s[40:41], 12", (P | Q << 32) >> 12, 2),
    ("s_lshl_b64 s[50:51], s[40:41], 12", (P | Q << 32) << 12 & LONG, 2),
    ("s_bfe_u32 s50, s40, 0x80004", P >> 4 & 0xFF, 1),
    ("s_bfe_i32 s50, s40, 0x80004", signed(P >> 4 & 0xFF, 8) & WORD, 1),
    ("s_bfm_b32 s50, 5, 3", 0b11111000, 1),
    ("s_and_b64 s[50:51], s[40:41], -2", (P | Q << 32) & ~1, 2),
    ("s_andn2_b32 s50, s40, s41", P & ~Q, 1),
    ("s_xnor_b32 s50, s40, s41", ~(P ^ Q) & WORD, 1),
    ("s_lshl3_add_u32 s50, s40, s41", (P << 3) + Q & WORD, 1),
    ("s_min_i32 s50, s40, s41", P, 1),
    ("s_max_u32 s50, s40, s41", P, 1),
    ("s_absdiff_i32 s50, s40, s41", abs(signed(P) - Q), 1),
    ("s_pack_ll_b32_b16 s50, s40, s41", P & 0xFFFF | Q << 16, 1),
    ("s_not_b32 s50, s40", ~P & WORD, 1),
    ("s_brev_b32 s50, s40", int(f"{P:032b}"[::-1], 2), 1),
    ("s_bcnt1_i32_b64 s50, s[40:41]", P.bit_count() + Q.bit_count(), 1),
    ("s_ff1_i32_b32 s50, s40", 1, 1),
    ("s_flbit_i32_b32 s50, s41", 32 - Q.bit_length(), 1),
    ("s_sext_i32_i16 s50, s40", signed(P & 0xFFFF, 16) & WORD, 1),
    ("s_abs_i32 s50, s40", -signed(P), 1),
    ("s_movk_i32 s50, -7", -7 & WORD, 1),
    ("s_mov_b32 s50, s40\ns_addk_i32 s50, -7", P - 7 & WORD, 1),
    ("s_mov_b32 s50, s41\ns_mulk_i32 s50, 100", Q * 100, 1),
    ("s_mov_b32 s50, s41\ns_bitset1_b32 s50, 30", Q | 1 << 30, 1),
    ("s_cmp_gt_i32 s40, s41\ns_cselect_b32 s50, 11, 22", 22, 1),
    ("s_cmp_gt_u32 s40, s41\ns_cselect_b32 s50, 11, 22", 11, 1),
    ("s_cmpk_eq_u32 s41, 0x123\ns_cselect_b64 s[50:51], s[40:41], 0", P | Q << 32, 2),
    ("s_bitcmp1_b32 s40, 31\ns_cselect_b32 s50, 1, 0", 1, 1),
    ("s_add_u32 s50, s40, s40\ns_addc_u32 s51, s41, s41", (P | Q << 32) * 2, 2),
    ("s_sub_u32 s50, s41, s40\ns_subb_u32 s51, s40, s41", (Q | P << 32) - (P | Q << 32), 2),
    ("s_cmp_eq_u32 s40, s40\ns_mov_b32 s50, 3\ns_cmov_b32 s50, 9", 9, 1),
    # A literal of 32 bits as a 64-bit operand: only signed operations keep its sign.
    ("s_mov_b64 s[50:51], 0xffffffff", 0xFFFFFFFF, 2),
    ("s_ashr_i64 s[50:51], 0x80000000, 4", 0xFFFFFFFFF8000000, 2),
]


def test_scalar_operations(bench: Any) -> None:
    body = [f"s_mov_b32 s40, {P}", f"s_mov_b32 s41, {Q}"]
    outputs: list[str] = []
    for i, (text, _, words) in enumerate(CASES):
        body += [text, f"v_mov_b32 v{20 + 2 * i}, s50"]
        body.append(f"v_mov_b32 v{21 + 2 * i}, {'s51' if words == 2 else 0}")
        outputs += [f"v{20 + 2 * i}", f"v{21 + 2 * i}"]
    rows = bench.run("\n".join(body), [], outputs)
    for i, (text, wanted, _) in enumerate(CASES):
        got = int(rows[2 * i][0]) | int(rows[2 * i + 1][0]) << 32
        assert got == wanted & LONG, text


def test_saveexec_narrows_and_restores(bench: Any) -> None:
    body = """
      s_mov_b64 s[40:41], 0xff
      v_mov_b32 v20, 1
      s_and_saveexec_b64 s[42:43], s[40:41]
      v_mov_b32 v20, 2
      s_or_b64 exec, exec, s[42:43]
      s_andn2_saveexec_b64 s[44:45], s[42:43]
      s_cbranch_execz skip
      v_mov_b32 v20, 3
    skip:
      s_mov_b64 exec, s[44:45]"""
    row = bench.run(body, [], ["v20"])[0]
    assert row.tolist() == [2] * 8 + [1] * 56


@pytest.mark.parametrize("count", [1, 7])
def test_loops_and_conditional_branches(bench: Any, count: int) -> None:
    body = f"""
      s_mov_b32 s40, {count}
      s_mov_b32 s41, 0
    again:
      s_add_u32 s41, s41, s40
      s_sub_u32 s40, s40, 1
      s_cmp_lg_u32 s40, 0
      s_cbranch_scc1 again
      s_branch done
      s_mov_b32 s41, 0
    done:
      v_mov_b32 v20, s41"""
    assert bench.run(body, [], ["v20"])[0][0] == count * (count + 1) // 2


def test_workgroup_and_workitem_ids(bench: Any) -> None:
    """Ids arrive in s2, s3 after the kernarg pointer, and in v0, ten bits each."""
    body = """
      s_load_dwordx2 s[4:5], s[0:1], 0x0
      s_waitcnt lgkmcnt(0)
      s_lshl_b32 s6, s3, 1
      s_add_u32 s6, s6, s2
      s_lshl_b32 s6, s6, 7
      v_and_b32 v1, 0x3ff, v0
      v_bfe_u32 v2, v0, 10, 10
      v_lshl_add_u32 v3, v2, 5, v1
      v_add_u32 v4, s6, v3
      v_lshlrev_b32 v4, 2, v4
      global_store_dword v4, v0, s[4:5]
      s_endpgm"""
    out = np.zeros(2 * 3 * 128, np.uint32)
    result = run_kernel(bench.code(body, pointers=1), grid=(2, 3), block=(32, 4), args=[out])
    assert result.ok
    x, y = np.arange(128) % 32, np.arange(128) // 32
    assert (out.reshape(6, 128) == (x | y << 10)).all()


def test_vector_skip(bench: Any) -> None:
    """A set bit skips the vector instructions up to the next s_setvskip."""
    lines = ["s_mov_b32 s20, 0x5"]
    for bit in range(4):
        lines += [f"v_mov_b32 v{20 + bit}, 0", f"s_setvskip s20, {bit}"]
        lines += ["s_nop 1", "s_waitcnt lgkmcnt(0)", f"v_mov_b32 v{20 + bit}, 7", "s_setvskip 0, 0"]
    rows = bench.run("\n".join(lines), (), [f"v{20 + bit}" for bit in range(4)])
    assert rows[:, 0].tolist() == [0, 7, 0, 7]


def test_vector_skip_over_scalars_is_refused(bench: Any) -> None:
    body = "s_setvskip s20, 0\nv_mov_b32 v20, 7\ns_mov_b32 s21, 0\ns_setvskip 0, 0"
    with pytest.raises(UnsupportedInstructionError, match="more than vector instructions"):
        bench.run(body)
