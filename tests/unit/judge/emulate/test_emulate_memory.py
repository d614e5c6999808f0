"""Global, buffer and scratch memory: widths, descriptors, bounds, loads into LDS, atomics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate import DefectKind
from pipeloom.judge.emulate.global_memory import GlobalMemory

Words = npt.NDArray[np.uint32]

POINTERS = """
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      s_waitcnt lgkmcnt(0)
      v_lshlrev_b32 v1, 2, v0
      v_lshlrev_b32 v2, 4, v0
"""


def descriptor(at: int, pointer: int, size: int, stride: int = 0) -> str:
    return f"""
      s_mov_b32 s{at}, s{pointer}
      s_and_b32 s{at + 1}, s{pointer + 1}, 0xffff
      s_or_b32 s{at + 1}, s{at + 1}, {stride << 16}
      s_mov_b32 s{at + 2}, {size}
      s_mov_b32 s{at + 3}, 0x20000
"""


@pytest.mark.parametrize(
    ("load", "dtype"),
    [("ubyte", np.uint8), ("sbyte", np.int8), ("ushort", np.uint16), ("sshort", np.int16)],
)
def test_narrow_global_loads_extend(bench: Any, load: str, dtype: Any) -> None:
    data = (np.arange(64) * 37 - 900).astype(dtype)
    out = np.zeros(64, np.uint32)
    shift = np.dtype(dtype).itemsize - 1
    body = f"""{POINTERS}
      v_lshlrev_b32 v3, {shift}, v0
      global_load_{load} v4, v3, s[4:5]
      s_waitcnt vmcnt(0)
      global_store_dword v1, v4, s[6:7]
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    np.testing.assert_array_equal(out.view(np.int32), data.astype(np.int32))


def test_wide_global_access_with_64_bit_addresses(bench: Any) -> None:
    data, out = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    body = f"""{POINTERS}
      v_mov_b32 v3, 0
      v_lshl_add_u64 v[4:5], v[2:3], 0, s[4:5]
      v_lshl_add_u64 v[6:7], v[2:3], 0, s[6:7]
      global_load_dwordx4 v[8:11], v[4:5], off
      s_waitcnt vmcnt(0)
      global_store_dwordx3 v[6:7], v[8:10], off
      global_store_dword v[6:7], v11, off offset:12
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    np.testing.assert_array_equal(out, data)


def test_halves_of_registers(bench: Any) -> None:
    data, out = np.arange(128, dtype=np.uint16), np.zeros(64, np.uint32)
    body = f"""{POINTERS}
      global_load_short_d16 v4, v1, s[4:5] offset:2
      global_load_short_d16_hi v4, v1, s[4:5]
      s_waitcnt vmcnt(0)
      global_store_short v1, v4, s[6:7]
      global_store_short_d16_hi v1, v4, s[6:7] offset:2
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    swapped = data.reshape(64, 2)[:, ::-1]
    np.testing.assert_array_equal(out.view(np.uint16).reshape(64, 2), swapped)


def test_raw_descriptor_clips_reads_to_zero_and_drops_writes(bench: Any) -> None:
    """num_records 200 of 256 bytes: dwords past it read 0, and stores there do nothing."""
    data = np.arange(1, 65, dtype=np.uint32)
    out = np.full(64, 9, np.uint32)
    body = f"""{POINTERS}{descriptor(12, 4, 200)}{descriptor(16, 6, 240)}
      buffer_load_dword v4, v1, s[12:15], 0 offen
      s_waitcnt vmcnt(0)
      buffer_store_dword v4, v1, s[16:19], 0 offen
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    wanted = np.where(np.arange(64) < 50, data, 0)
    wanted[60:] = 9
    np.testing.assert_array_equal(out, wanted)


def test_descriptor_clips_inside_a_wide_access(bench: Any) -> None:
    """The range check works per dword; soffset counts against num_records."""
    data, out = np.arange(1, 257, dtype=np.uint32), np.full(256, 7, np.uint32)
    body = f"""{POINTERS}{descriptor(12, 4, 1000)}{descriptor(16, 6, 1012)}
      s_mov_b32 s20, 4
      buffer_load_dwordx3 v[4:6], v2, s[12:15], s20 offen
      s_waitcnt vmcnt(0)
      buffer_store_dwordx3 v[4:6], v2, s[16:19], 0 offen
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    got = out.reshape(64, 4)
    np.testing.assert_array_equal(got[:62, :3], data.reshape(64, 4)[:62, 1:])
    assert got[62].tolist() == [250, 0, 0, 7]
    assert got[63].tolist() == [0, 7, 7, 7]


def test_structured_descriptor(bench: Any) -> None:
    data, out = np.arange(64 * 3, dtype=np.uint32), np.zeros(64, np.uint32)
    body = f"""{POINTERS}{descriptor(12, 4, 60, stride=12)}
      buffer_load_dword v4, v0, s[12:15], 0 idxen offset:8
      s_waitcnt vmcnt(0)
      global_store_dword v1, v4, s[6:7]
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    np.testing.assert_array_equal(out, np.where(np.arange(64) < 60, np.arange(64) * 3 + 2, 0))


def test_a_stride_does_not_bound_an_access(bench: Any) -> None:
    """16 bytes at a stride of 4, as hand-written kernels store: only the index is compared."""
    data, out = np.arange(256, dtype=np.uint32), np.full(256, 7, np.uint32)
    body = f"""{POINTERS}{descriptor(12, 4, 200, stride=4)}{descriptor(16, 6, 240, stride=4)}
      buffer_load_dwordx4 v[4:7], v1, s[12:15], 0 idxen
      s_waitcnt vmcnt(0)
      buffer_store_dwordx4 v[4:7], v1, s[16:19], 0 idxen
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    np.testing.assert_array_equal(out[:200], data[:200])
    assert (out[200:240] == 0).all()
    assert (out[240:] == 7).all()


def test_a_stride_without_an_index_is_raw(bench: Any) -> None:
    """Hand-written kernels set a stride and never index: the range is in bytes then."""
    data, out = np.arange(1, 65, dtype=np.uint32), np.zeros(64, np.uint32)
    body = f"""{POINTERS}{descriptor(12, 4, 240, stride=4)}{descriptor(16, 6, 256, stride=64)}
      buffer_load_dword v4, v1, s[12:15], 0 offen
      s_waitcnt vmcnt(0)
      buffer_store_dword v4, v1, s[16:19], 0 offen
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    np.testing.assert_array_equal(out, np.where(np.arange(64) < 60, data, 0))


def test_an_index_without_a_stride_moves_nothing(bench: Any) -> None:
    data, out = np.arange(5, 69, dtype=np.uint32), np.zeros(64, np.uint32)
    body = f"""{POINTERS}{descriptor(12, 4, 256)}
      buffer_load_dword v4, v0, s[12:15], 0 idxen offset:8
      s_waitcnt vmcnt(0)
      global_store_dword v1, v4, s[6:7]
      s_endpgm"""
    assert bench.launch(body, [data, out]).ok
    assert (out == 7).all()


WIDTHS = [(1, "gfx942"), (1, "gfx950"), (3, "gfx950"), (4, "gfx950")]


@pytest.mark.parametrize(("width", "arch"), WIDTHS)
def test_load_to_lds(bench: Any, width: int, arch: str) -> None:
    """LDS address = M0 + offset + lane * size; the instruction's offset counts on both sides.

    The descriptor ends one lane early: that lane is outside, so zero goes to LDS.
    """
    data, out = np.arange(64 * width + 8, dtype=np.uint32) + 5, np.ones(64 * width, np.uint32)
    suffix = "" if width == 1 else f"x{width}"
    reads = [f"ds_read_b32 v{10 + i}, v4 offset:{160 + 4 * i}" for i in range(width)]
    stores = [f"global_store_dword v4, v{10 + i}, s[6:7] offset:{4 * i}" for i in range(width)]
    newline = "\n"
    body = f"""{POINTERS}{descriptor(12, 4, 252 * width + 32)}
      v_mul_u32_u24 v4, {4 * width}, v0
      s_mov_b32 m0, 128
      s_nop 0
      buffer_load_dword{suffix} v4, s[12:15], 0 offen offset:32 lds
      s_waitcnt vmcnt(0)
      {newline.join(reads)}
      s_waitcnt lgkmcnt(0)
      {newline.join(stores)}
      s_endpgm"""
    run = bench.launch(body, [data, out], arch, lds=4096)
    assert run.ok, [str(f) for f in run.findings]
    wanted = data[8:].copy()
    wanted[-width:] = 0
    np.testing.assert_array_equal(out, wanted)


def test_global_load_lds(bench: Any) -> None:
    data, out = np.arange(256, dtype=np.uint32), np.zeros(64, np.uint32)
    body = f"""{POINTERS}
      s_mov_b32 m0, 64
      s_nop 0
      global_load_lds_dwordx4 v2, s[4:5]
      s_waitcnt vmcnt(0)
      ds_read_b32 v4, v2 offset:72
      s_waitcnt lgkmcnt(0)
      global_store_dword v1, v4, s[6:7]
      s_endpgm"""
    assert bench.launch(body, [data, out], lds=2048).ok
    np.testing.assert_array_equal(out, np.arange(64) * 4 + 2)


def test_scratch_spill_and_reload_without_wait(bench: Any) -> None:
    body = """
      scratch_store_dwordx2 off, v[8:9], off offset:8
      scratch_load_dwordx2 v[20:21], off, off offset:8
      s_waitcnt vmcnt(0)"""
    values = np.arange(64, dtype=np.uint32)
    rows = bench.run(body, [values, values + 9], ["v20", "v21"], scratch=32, timing="late")
    np.testing.assert_array_equal(rows, [values, values + 9])


def test_scratch_out_of_bounds(bench: Any) -> None:
    _, run = bench.registers("scratch_store_dword off, v0, off offset:32", scratch=32, outputs=[])
    (finding,) = run.findings
    assert finding.kind is DefectKind.OUT_OF_BOUNDS
    assert "scratch address 32; the wave has 32 bytes per lane" in finding.message


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("add", sum(range(64)) + 3), ("umax", 63), ("smin", 0), ("or", 63), ("swap", 63)],
)
def test_integer_atomics(bench: Any, name: str, wanted: int) -> None:
    total, out = np.array([3], np.uint32), np.zeros(64, np.uint32)
    body = f"""{POINTERS}
      v_mov_b32 v3, 0
      global_atomic_{name} v5, v3, v0, s[4:5] sc0
      s_waitcnt vmcnt(0)
      global_store_dword v1, v5, s[6:7]
      s_endpgm"""
    assert bench.launch(body, [total, out]).ok
    assert total[0] == wanted
    assert out[0] == 3


def test_float_atomic_add(bench: Any) -> None:
    total, out = np.zeros(1, np.float32), np.zeros(64, np.uint32)
    body = f"""{POINTERS}
      v_mov_b32 v3, 0
      v_cvt_f32_u32 v4, v0
      global_atomic_add_f32 v3, v4, s[4:5]
      s_endpgm"""
    assert bench.launch(body, [total, out]).ok
    assert total[0] == sum(range(64))


def test_global_out_of_bounds_names_the_buffer(bench: Any) -> None:
    data, out = np.zeros(60, np.uint32), np.zeros(64, np.uint32)
    body = f"""{POINTERS}
      global_load_dword v4, v1, s[4:5]
      s_waitcnt vmcnt(0)
      global_store_dword v1, v4, s[6:7] offset:4
      s_endpgm"""
    run = bench.launch(body, [data, out])
    read, write = run.findings
    assert read.kind is write.kind is DefectKind.OUT_OF_BOUNDS
    assert "reads 4 bytes at" in read.message
    assert "(0 bytes past the end of arg 0) in 4 lanes" in read.message
    assert "past the end of arg 1" in write.message


def test_split_finds_every_buffer_and_every_stray_address() -> None:
    memory = GlobalMemory()
    first = memory.allocate("a", np.zeros(100, np.uint8))
    second = memory.allocate("b", np.zeros(64, np.uint8))
    addresses = np.array(
        [first.base, second.base + 60, first.base + 97, 5, first.base + 96, second.base - 1]
    )
    extents, outside = memory.split(addresses, 4)
    where = {e.buffer.name: e.where.tolist() for e in extents}
    assert {k: sorted(v) for k, v in where.items()} == {"a": [0, 4], "b": [1]}
    assert sorted(outside.tolist()) == sorted([5, first.base + 97, second.base - 1])
