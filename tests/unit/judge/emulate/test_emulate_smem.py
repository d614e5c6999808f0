"""Scalar stores, atomics and buffer loads, against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import DefectKind

POINTERS = "s_load_dwordx4 s[4:7], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n"


@pytest.mark.parametrize("timing", ["early", "late"])
def test_stores(bench: Any, timing: str) -> None:
    """Immediate and register offsets; the data is taken at issue."""
    out = np.zeros(64, np.uint32)
    body = f"""{POINTERS}
      s_mov_b32 s8, 11
      s_mov_b32 s9, 12
      s_mov_b32 s10, 13
      s_mov_b32 s11, 14
      s_mov_b32 s12, 0x40
      s_store_dword s8, s[6:7], 0x4
      s_store_dwordx2 s[8:9], s[6:7], s12
      s_store_dwordx4 s[8:11], s[6:7], 0x80
      s_mov_b32 s8, 99
      s_dcache_wb
      s_endpgm"""
    assert bench.launch(body, [np.zeros(1, np.uint32), out], timing=timing).ok
    want = np.zeros(64, np.uint32)
    want[1], want[16:18], want[32:36] = 11, [11, 12], [11, 12, 13, 14]
    np.testing.assert_array_equal(out, want)


def atomic(kind: str, old: int, new: int, compare: int, bits: int) -> int:
    mask = (1 << bits) - 1
    signed = [x - (1 << bits) if x >> (bits - 1) else x for x in (old, new)]
    return {
        "swap": new,
        "cmpswap": new if old == compare else old,
        "add": (old + new) & mask,
        "sub": (old - new) & mask,
        "smin": min(signed) & mask,
        "umin": min(old, new),
        "smax": max(signed) & mask,
        "umax": max(old, new),
        "and": old & new,
        "or": old | new,
        "xor": old ^ new,
        "inc": 0 if old >= new else old + 1,
        "dec": new if old == 0 or old > new else old - 1,
    }[kind]


KINDS = ["swap", "cmpswap", "add", "sub", "smin", "umin", "smax", "umax"]
KINDS += ["and", "or", "xor", "inc", "dec"]


@pytest.mark.parametrize("bits", [32, 64])
def test_atomics(bench: Any, bits: int) -> None:
    """With glc the old value comes back, without it the register is kept.

    Each kind has four cells: updated without glc, with glc, one that is kept, and what came back.
    """
    rng = np.random.default_rng(bits)
    dtype = np.uint32 if bits == 32 else np.uint64
    cells = rng.integers(0, 1 << bits, (len(KINDS), 4), dtype=dtype)
    want = cells.copy()
    lines = [POINTERS]
    size = bits // 8
    for row, kind in enumerate(KINDS):
        new = int(rng.integers(0, 1 << bits, dtype=dtype))
        compare = int(cells[row, 1])  # the second one is swapped, the first is not
        words = [new, compare] if bits == 32 else [new, new >> 32, compare, compare >> 32]
        lines += [f"s_mov_b32 s{12 + i}, {w & 0xFFFFFFFF:#x}" for i, w in enumerate(words)]
        used = len(words) if kind == "cmpswap" else len(words) // 2
        data = "s12" if used == 1 else f"s[12:{11 + used}]"
        name = f"s_atomic_{kind}{'_x2' if bits == 64 else ''}"
        kept = "s_store_dword s12" if bits == 32 else "s_store_dwordx2 s[12:13]"
        at = 4 * size * row
        lines += [
            f"{name} {data}, s[6:7], {at}",
            "s_waitcnt lgkmcnt(0)",
            f"{name} {data}, s[6:7], {at + size} glc",
            "s_waitcnt lgkmcnt(0)",
            f"{kept}, s[6:7], {at + 3 * size}",
            "s_waitcnt lgkmcnt(0)",
        ]
        for column in (0, 1):
            want[row, column] = atomic(kind, int(cells[row, column]), new, compare, bits)
        want[row, 3] = cells[row, 1]
    out = cells.copy()
    assert bench.launch("\n".join([*lines, "s_endpgm"]), [np.zeros(1, np.uint32), out]).ok
    np.testing.assert_array_equal(out, want)


def test_waits_are_needed(bench: Any) -> None:
    """The old value of an atomic may be used after lgkmcnt(0) only."""
    body = f"""{POINTERS}
      s_mov_b32 s12, 1
      s_atomic_add s12, s[6:7], 0x0 glc
      s_add_u32 s13, s12, 1
      s_endpgm"""
    run = bench.launch(body, [np.zeros(1, np.uint32), np.zeros(4, np.uint32)])
    assert [finding.kind for finding in run.findings] == [DefectKind.IN_FLIGHT_READ]


def test_out_of_bounds(bench: Any) -> None:
    for line in ("s_store_dword s4, s[6:7], 0x10", "s_atomic_add s4, s[6:7], 0x10"):
        run = bench.launch(
            f"{POINTERS}{line}\ns_endpgm", [np.zeros(1, np.uint32), np.zeros(4, np.uint32)]
        )
        assert [finding.kind for finding in run.findings] == [DefectKind.OUT_OF_BOUNDS]


@pytest.mark.parametrize(("stride", "records"), [(0, 24), (8, 3)])
def test_buffer_loads_and_stores_end_at_the_descriptor(
    bench: Any, stride: int, records: int
) -> None:
    """Six dwords are inside: beyond them loads give zero and stores do nothing."""
    data, out = np.arange(1, 17, dtype=np.uint32), np.zeros(16, np.uint32)
    body = f"""{POINTERS}
      s_mov_b32 s8, s4
      s_and_b32 s9, s5, 0xffff
      s_or_b32 s9, s9, {stride << 16}
      s_mov_b32 s10, {records}
      s_mov_b32 s11, 0x20000
      s_buffer_load_dwordx4 s[16:19], s[8:11], 0x10
      s_buffer_load_dword s20, s[8:11], 0x20
      s_waitcnt lgkmcnt(0)
      s_store_dwordx4 s[16:19], s[6:7], 0x0
      s_store_dword s20, s[6:7], 0x10
      s_mov_b32 s21, 77
      s_buffer_store_dword s21, s[8:11], 0x14
      s_buffer_store_dword s21, s[8:11], 0x18
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    assert out[:5].tolist() == [5, 6, 0, 0, 0]
    assert data[4:8].tolist() == [5, 77, 7, 8]
