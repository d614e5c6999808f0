"""VGPR indexing: M0 moves the register numbers of vector instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import EmulateError, UnsupportedInstructionError

ROWS = [np.full(64, 10 * i, np.uint32) for i in range(1, 7)]


CASES = [
    # (mode, instruction, the register that is written, its value)
    (1, "v_mov_b32 v20, v8", 20, 30),
    (1, "v_mov_b32 v20, 5", 20, 5),  # a constant is no register
    (8, "v_mov_b32 v20, v8", 22, 10),
    (9, "v_mov_b32 v20, v8", 22, 30),
    (2, "v_sub_u32 v20, v8, v9", 20, 10 - 40),
    (1, "v_sub_u32 v20, v8, v9", 20, 30 - 20),
    (3, "v_sub_u32_e64 v20, v8, v9", 20, 30 - 40),
    (4, "v_mad_u32_u24 v20, v8, v9, v10", 20, 10 * 20 + 50),
    (0, "v_mov_b32 v20, v8", 20, 10),
]


def test_operands_move(bench: Any) -> None:
    lines = ["s_mov_b32 s20, 0x102"]
    for number, (mode, line, row, _) in enumerate(CASES):
        lines += ["v_mov_b32 v20, 1", "v_mov_b32 v22, 1", f"s_set_gpr_idx_on s20, {mode}", line]
        lines += ["s_set_gpr_idx_off", f"v_mov_b32 v{30 + number}, v{row}"]
    rows = bench.run("\n".join(lines), ROWS, [f"v{30 + number}" for number in range(len(CASES))])
    assert rows[:, 0].tolist() == [want & 0xFFFFFFFF for *_, want in CASES]
    assert (rows == rows[:, :1]).all()


def test_accumulators_and_changes_on_the_way(bench: Any) -> None:
    writes = "\n".join(f"v_accvgpr_write_b32 a{i}, v{8 + i}" for i in range(6))
    body = f"""{writes}
      s_mov_b32 s20, 3
      s_mov_b32 s21, 1
      s_mov_b32 m0, 0
      s_set_gpr_idx_on s20, 1
      v_accvgpr_read_b32 v20, a1
      s_set_gpr_idx_idx s21
      v_accvgpr_read_b32 v21, a1
      s_set_gpr_idx_mode 8
      v_mov_b32 v22, v8
      s_set_gpr_idx_off"""
    rows = bench.run(body, ROWS, ["v20", "v21", "v23"])
    assert rows[:, 0].tolist() == [50, 30, 10]


def test_poison_is_that_of_the_moved_register(bench: Any) -> None:
    body = """
      s_mov_b32 s20, 60
      s_set_gpr_idx_on s20, 1
      v_add_u32 v20, v8, v0
      s_set_gpr_idx_off"""
    _, run = bench.registers(body, ROWS, ["v20"])
    assert ["v68" in finding.message for finding in run.findings] == [True]


def test_refusals(bench: Any) -> None:
    branch = """
      s_set_gpr_idx_on s20, 1
      s_branch .Lx
      .Lx: v_mov_b32 v20, v8
      s_set_gpr_idx_off"""
    with pytest.raises(UnsupportedInstructionError, match="while VGPR indexing is on"):
        bench.run(branch, ROWS)
    beyond = """
      s_mov_b32 s20, 255
      s_set_gpr_idx_on s20, 1
      v_mov_b32 v20, v8
      s_set_gpr_idx_off"""
    with pytest.raises(EmulateError, match="src0 is indexed to register 263"):
        bench.run(beyond, ROWS)
