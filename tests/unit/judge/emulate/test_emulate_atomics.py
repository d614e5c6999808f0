"""Atomics on memory and LDS: results on plain ints, ordering, and the race rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate import DefectKind

MASK = {32: (1 << 32) - 1, 64: (1 << 64) - 1}


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


# name: (old, operand, bits) -> new
OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "swap": lambda old, new, bits: new,
    "add": lambda old, new, bits: old + new & MASK[bits],
    "sub": lambda old, new, bits: old - new & MASK[bits],
    "smin": lambda old, new, bits: min(old, new, key=lambda x: signed(x, bits)),
    "umin": lambda old, new, bits: min(old, new),
    "smax": lambda old, new, bits: max(old, new, key=lambda x: signed(x, bits)),
    "umax": lambda old, new, bits: max(old, new),
    "and": lambda old, new, bits: old & new,
    "or": lambda old, new, bits: old | new,
    "xor": lambda old, new, bits: old ^ new,
    "inc": lambda old, new, bits: 0 if old >= new else old + 1,
    "dec": lambda old, new, bits: new if old == 0 or old > new else old - 1,
}
LDS_NAMES = {
    "swap": "wrxchg_rtn_b",
    "smin": "min_rtn_i",
    "smax": "max_rtn_i",
    "umin": "min_rtn_u",
    "umax": "max_rtn_u",
    "and": "and_rtn_b",
    "or": "or_rtn_b",
    "xor": "xor_rtn_b",
}


def _data(bits: int, seed: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    top = np.uint64(MASK[bits])
    cells, operands = rng.integers(0, top, (2, 64), dtype=np.uint64, endpoint=True)
    cells[:4], operands[4:8] = 0, cells[4:8]
    return cells, operands


@pytest.mark.parametrize("bits", [32, 64])
def test_global_atomics_return_the_old_value(bench: Any, bits: int) -> None:
    """Every operation on its own copy of 64 cells, in one kernel."""
    cells, operands = _data(bits, bits)
    dtype = np.uint32 if bits == 32 else np.uint64
    size = bits // 8
    memory = np.tile(cells.astype(dtype), len(OPERATIONS) + 1)
    given = operands.astype(dtype)
    old = np.zeros_like(memory)
    registers, wide, suffix = ("v4", "dword", "") if bits == 32 else ("v[4:5]", "dwordx2", "_x2")
    result = "v6" if bits == 32 else "v[6:7]"
    body = [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_load_dwordx2 s[8:9], s[0:1], 0x10",
        f"v_mul_u32_u24 v1, {size}, v0",
        "s_waitcnt lgkmcnt(0)",
        f"global_load_{wide} {registers}, v1, s[6:7]",
        "s_waitcnt vmcnt(0)",
    ]
    for name in OPERATIONS:
        body += [
            f"global_atomic_{name}{suffix} {result}, v1, {registers}, s[4:5] sc0",
            "s_waitcnt vmcnt(0)",
            f"global_store_{wide} v1, {result}, s[8:9]",
            "s_waitcnt vmcnt(0)",
            f"v_add_u32 v1, {64 * size}, v1",
        ]
    # Compare-and-swap: the new value first, then what to compare with.
    pair = "v[4:5]" if bits == 32 else "v[4:7]"
    compare = "v5" if bits == 32 else "v[6:7]"
    body += [
        f"v_and_b32 v9, {64 * size - 1}, v1",
        f"global_load_{wide} {compare}, v9, s[6:7]",
        "s_waitcnt vmcnt(0)",
        f"global_atomic_cmpswap{suffix} v1, {pair}, s[4:5]",
        "s_endpgm",
    ]
    run = bench.launch("\n".join(body), [memory, given, old])
    assert run.ok, [str(f) for f in run.findings]
    for i, (name, function) in enumerate(OPERATIONS.items()):
        here = slice(64 * i, 64 * i + 64)
        wanted = [function(int(c), int(o), bits) for c, o in zip(cells, operands, strict=True)]
        np.testing.assert_array_equal(memory[here], np.array(wanted, np.uint64).astype(dtype), name)
        np.testing.assert_array_equal(old[here], cells.astype(dtype), name)
    swapped = np.where(cells == operands, operands, cells).astype(dtype)
    np.testing.assert_array_equal(memory[-64:], swapped)


@pytest.mark.parametrize("bits", [32, 64])
def test_lds_atomics_return_the_old_value(bench: Any, bits: int) -> None:
    cells, operands = _data(bits, bits + 1)
    dtype = np.uint32 if bits == 32 else np.uint64
    size = bits // 8
    r = [f"v{i}" if bits == 32 else f"v[{i}:{i + 1}]" for i in (4, 6, 10, 12)]
    wide = "dword" if bits == 32 else "dwordx2"
    out = np.zeros(64 * 2 * len(OPERATIONS), dtype)
    body = [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_load_dwordx2 s[8:9], s[0:1], 0x10",
        f"v_mul_u32_u24 v1, {size}, v0",
        "v_mov_b32 v2, v1",
        "s_waitcnt lgkmcnt(0)",
        f"global_load_{wide} {r[0]}, v1, s[4:5]",
        f"global_load_{wide} {r[1]}, v1, s[6:7]",
        "s_waitcnt vmcnt(0)",
    ]
    for name in OPERATIONS:
        lds_name = LDS_NAMES.get(name, f"{name}_rtn_u")
        body += [
            f"ds_write_b{bits} v1, {r[0]}",
            f"ds_{lds_name}{bits} {r[2]}, v1, {r[1]}",
            f"ds_read_b{bits} {r[3]}, v1",
            "s_waitcnt lgkmcnt(0)",
            f"global_store_{wide} v2, {r[2]}, s[8:9]",
            f"v_add_u32 v2, {64 * size}, v2",
            f"global_store_{wide} v2, {r[3]}, s[8:9]",
            f"v_add_u32 v2, {64 * size}, v2",
        ]
    body.append("s_endpgm")
    args = [cells.astype(dtype), operands.astype(dtype), out]
    run = bench.launch("\n".join(body), args, lds=64 * size)
    assert run.ok, [str(f) for f in run.findings]
    rows = out.reshape(-1, 2, 64)
    for row, (name, function) in zip(rows, OPERATIONS.items(), strict=True):
        wanted = [function(int(c), int(o), bits) for c, o in zip(cells, operands, strict=True)]
        np.testing.assert_array_equal(row[0], cells.astype(dtype), name)
        np.testing.assert_array_equal(row[1], np.array(wanted, np.uint64).astype(dtype), name)


def test_float_atomics(bench: Any) -> None:
    """add, min and max of f64 in memory, of f32 in LDS; lanes that share a cell all count."""
    cells = np.array([1.5, -2.0, 7.0, 0.25])
    given = np.arange(64, dtype=np.float64) - 20
    out = np.zeros(4, np.float32)
    body = """
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      s_load_dwordx2 s[8:9], s[0:1], 0x10
      v_lshlrev_b32 v1, 3, v0
      v_and_b32 v2, 3, v0
      v_lshlrev_b32 v3, 3, v2
      v_lshlrev_b32 v2, 2, v2
      v_mov_b32 v9, 0
      s_waitcnt lgkmcnt(0)
      global_load_dwordx2 v[4:5], v1, s[6:7]
      ds_write_b32 v2, v9
      s_waitcnt vmcnt(0)
      v_cvt_f32_f64 v6, v[4:5]
      global_atomic_add_f64 v3, v[4:5], s[4:5]
      ds_max_f32 v2, v6
      ds_add_f32 v2, v6
      ds_read_b32 v7, v2
      s_waitcnt lgkmcnt(0)
      global_store_dword v2, v7, s[8:9]
      s_endpgm"""
    wanted = cells + given.reshape(16, 4).sum(0)
    run = bench.launch(body, [cells, given, out], lds=16)
    assert run.ok, [str(f) for f in run.findings]
    np.testing.assert_array_equal(cells, wanted)
    columns = given.reshape(16, 4)
    np.testing.assert_array_equal(out, np.maximum(columns.max(0), 0) + columns.sum(0))


def test_packed_half_atomics(bench: Any) -> None:
    pairs = np.array([1.0, 2.0, -3.0, 0.5], np.float16)
    body = """
      s_load_dwordx2 s[4:5], s[0:1], 0x0
      v_and_b32 v1, 1, v0
      v_lshlrev_b32 v1, 2, v1
      v_mov_b32 v2, 0x3c004000
      s_waitcnt lgkmcnt(0)
      global_atomic_pk_add_f16 v1, v2, s[4:5]
      s_endpgm"""
    run = bench.launch(body, [pairs])
    assert run.ok
    np.testing.assert_array_equal(pairs, [1 + 64, 2 + 32, -3 + 64, 0.5 + 32])


SHARED = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_and_b32 v1, 63, v0
  v_lshlrev_b32 v1, 2, v1
  v_mov_b32 v2, 1
  v_mov_b32 v3, 0
  {first}
  ds_add_u32 v1, v2
  {second}
  ds_read_b32 v4, v1
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v4, s[4:5]
  s_endpgm"""
FENCE = "s_waitcnt lgkmcnt(0)\n s_barrier"
CLEAR = "ds_write_b32 v1, v3"


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        (f"{CLEAR}\n{FENCE}", FENCE, set()),
        (CLEAR, FENCE, {DefectKind.LDS_RACE}),
        (f"{CLEAR}\n{FENCE}", "", {DefectKind.POISON_READ, DefectKind.LDS_RACE}),
        (FENCE, FENCE, {DefectKind.POISON_READ}),
    ],
    ids=["ordered", "clear races", "read races", "never cleared"],
)
def test_lds_atomics_race_with_plain_accesses_only(
    bench: Any, first: str, second: str, kinds: set[DefectKind]
) -> None:
    """Two waves add to the same cells: fine between barriers, a race with a store or a load."""
    for seed in range(3):
        out = np.zeros(64, np.uint32)
        body = SHARED.format(first=first, second=second)
        run = bench.launch(body, [out], waves=2, lds=256, seed=seed)
        assert {finding.kind for finding in run.findings} == kinds
        if not kinds:
            assert (out == 2).all()


def test_flat_accesses_need_both_counters(bench: Any) -> None:
    body = """
      s_load_dwordx2 s[4:5], s[0:1], 0x0
      s_waitcnt lgkmcnt(0)
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v3, s5
      v_add_co_u32 v2, vcc, s4, v1
      v_addc_co_u32 v3, vcc, 0, v3, vcc
      flat_load_dword v4, v[2:3]
      s_waitcnt {wait}
      v_add_u32 v4, 5, v4
      flat_store_dword v[2:3], v4 offset:0
      v_mov_b32 v5, 2
      s_waitcnt vmcnt(0) lgkmcnt(0)
      flat_atomic_add v[2:3], v5
      s_endpgm"""
    cells = np.arange(64, dtype=np.uint32)
    run = bench.launch(body.format(wait="vmcnt(0) lgkmcnt(0)"), [cells])
    assert run.ok, [str(f) for f in run.findings]
    np.testing.assert_array_equal(cells, np.arange(64) + 7)
    for wait in ("vmcnt(0)", "lgkmcnt(0)"):
        run = bench.launch(body.format(wait=wait), [np.zeros(64, np.uint32)])
        assert {f.kind for f in run.findings} >= {DefectKind.IN_FLIGHT_READ}
