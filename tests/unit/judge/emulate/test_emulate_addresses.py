"""Where buffers lie: across multiples of 4 GiB, far apart; descriptors that describe nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import (
    DefectKind,
    LaunchError,
    Pitched,
    RunResult,
    UnsupportedInstructionError,
)
from pipeloom.judge.emulate.global_memory import GlobalMemory

GIB4 = 1 << 32


def test_buffers_straddle_and_stay_apart() -> None:
    sizes = [40_000, 600, 5 * GIB4 // 4096, 300, 40_000, 16, 0, 4096]
    across = 0
    for seed in range(20):
        memory = GlobalMemory(seed)
        for size in sizes:
            memory.allocate("x", np.zeros(size, np.uint8))
        bases = [buffer.base for buffer in memory.buffers]
        again = GlobalMemory(seed)
        assert bases == [again.allocate("x", np.zeros(s, np.uint8)).base for s in sizes]
        assert all(base % 256 == 0 for base in bases)
        ends = [buffer.base + buffer.size for buffer in memory.buffers]
        for end, base in zip(ends, bases[1:], strict=False):
            assert base - end >= GIB4, "an address short of a carry must fall into nothing"
        across += sum(b.base // GIB4 != (b.base + b.size - 1) // GIB4 for b in memory.buffers[:5])
    assert 50 <= across < 100


def test_rows_far_apart(bench: Any) -> None:
    """Row 1 lies 5 GiB behind row 0, and nothing is between them."""
    pitch = 5 << 30
    rows, out = np.arange(128, dtype=np.uint32).reshape(2, 64), np.zeros(64, np.uint32)
    body = """
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      s_waitcnt lgkmcnt(0)
      v_lshlrev_b32 v1, 2, v0
      s_add_u32 s4, s4, {low}
      s_addc_u32 s5, s5, {high}
      global_load_dword v2, v1, s[4:5]
      s_waitcnt vmcnt(0)
      global_store_dword v1, v2, s[6:7]
      global_store_dword v1, v0, s[4:5]
      s_endpgm"""
    far = body.format(low=pitch & 0xFFFFFFFF, high=pitch >> 32)
    assert bench.launch(far, [Pitched(rows, pitch), out]).ok
    np.testing.assert_array_equal(out, np.arange(64, 128))
    np.testing.assert_array_equal(rows, [np.arange(64), np.arange(64)])
    between = body.format(low=4096, high=0)
    run = bench.launch(between, [Pitched(rows, pitch), out])
    assert {finding.kind for finding in run.findings} == {DefectKind.OUT_OF_BOUNDS}
    with pytest.raises(LaunchError, match="has rows of 256 bytes, 255 bytes apart"):
        bench.launch(far, [Pitched(rows, 255), out])


def through_descriptor(bench: Any, word1: int, word3: int) -> tuple[RunResult, Any]:
    data, out = np.arange(1, 65, dtype=np.uint32), np.full(64, 9, np.uint32)
    body = f"""
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      s_waitcnt lgkmcnt(0)
      v_lshlrev_b32 v1, 2, v0
      s_and_b32 s5, s5, 0xffff
      s_or_b32 s13, s5, {word1:#x}
      s_mov_b32 s12, s4
      s_mov_b32 s14, 256
      s_mov_b32 s15, {word3:#x}
      buffer_load_dword v4, v1, s[12:15], 0 offen
      s_waitcnt vmcnt(0)
      global_store_dword v1, v4, s[6:7]
      s_endpgm"""
    return bench.launch(body, [data, out]), out


def test_a_descriptor_without_a_format(bench: Any) -> None:
    run, out = through_descriptor(bench, 0, 0)
    (finding,) = run.findings
    assert finding.kind is DefectKind.INVALID_DESCRIPTOR
    assert "s[12:15] has data format 0" in finding.message
    assert (out == 0).all(), "as the hardware: loads through it give 0"
    for word3 in (0x27000, 0x20000):
        run, out = through_descriptor(bench, 0, word3)
        assert run.ok
        np.testing.assert_array_equal(out, np.arange(1, 65))


@pytest.mark.parametrize(
    ("word1", "word3", "what"),
    [
        (1 << 31, 0x27000, "swizzled buffer descriptor"),
        (0, 0x27000 | 1 << 23, "buffer descriptor with add-tid, word 3 is 0x827000"),
        (0, 0x27000 | 1 << 21, "with index stride"),
        (0, 0x27000 | 1 << 19, "with user VM mode"),
        (0, 0x27000 | 1 << 30, "with a type that is no buffer"),
    ],
)
def test_descriptor_fields_that_are_not_modelled(
    bench: Any, word1: int, word3: int, what: str
) -> None:
    with pytest.raises(UnsupportedInstructionError, match=what):
        through_descriptor(bench, word1, word3)
