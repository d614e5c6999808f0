"""LDS instructions: widths, pairs, transposes, permutations, and what is poison."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate import DefectKind

Words = npt.NDArray[np.uint32]
DATA = [np.arange(64, dtype=np.uint32) * 7 + 1000 * i for i in range(4)]


@pytest.mark.parametrize(("suffix", "words"), [("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)])
def test_write_then_read_other_lane(bench: Any, lanes: Words, suffix: str, words: int) -> None:
    """Lane l reads what lane 63 - l wrote; the same wave's LDS operations are in order."""

    def span(first: int) -> str:
        return f"v{first}" if words == 1 else f"v[{first}:{first + words - 1}]"

    body = f"""
      v_mul_u32_u24 v20, 16, v0
      v_sub_u32 v21, 63, v0
      v_mul_u32_u24 v21, 16, v21
      ds_write_{suffix} v20, {span(8)} offset:256
      ds_read_{suffix} {span(24)}, v21 offset:256
      s_waitcnt lgkmcnt(0)"""
    rows = bench.run(body, DATA[:words], [f"v{24 + i}" for i in range(words)], lds=4096)
    for row, data in zip(rows, DATA, strict=False):
        np.testing.assert_array_equal(row, data[::-1])


def test_pairs_and_strides(bench: Any) -> None:
    body = """
      v_lshlrev_b32 v20, 3, v0
      ds_write2st64_b64 v20, v[8:9], v[10:11] offset0:0 offset1:1
      v_lshlrev_b32 v21, 2, v0
      ds_read2_b32 v[24:25], v21 offset0:0 offset1:64
      ds_read2st64_b32 v[26:27], v21 offset0:2 offset1:3
      ds_read2_b64 v[28:31], v20 offset0:0 offset1:64
      s_waitcnt lgkmcnt(0)"""
    rows = bench.run(body, DATA, [f"v{i}" for i in range(24, 32)], lds=2048)
    memory = np.zeros(512, np.uint32)
    memory[0:128:2], memory[1:128:2] = DATA[0], DATA[1]
    memory[128:256:2], memory[129:256:2] = DATA[2], DATA[3]
    np.testing.assert_array_equal(rows[:4], memory[:256].reshape(4, 64))
    np.testing.assert_array_equal(rows[4:], DATA)


def test_bytes_and_shorts(bench: Any) -> None:
    values = np.arange(64, dtype=np.uint32) * 1021 + 0x8080
    body = """
      ds_write_b8 v0, v8
      v_lshlrev_b32 v20, 1, v0
      ds_write_b16 v20, v8 offset:64
      ds_write_b16_d16_hi v20, v8 offset:192
      ds_read_u8 v24, v0
      ds_read_i8 v25, v0
      ds_read_u16 v26, v20 offset:64
      ds_read_i16 v27, v20 offset:64
      ds_read_u16 v28, v20 offset:192
      s_waitcnt lgkmcnt(0)"""
    rows = bench.run(body, [values | values << 16], [f"v{i}" for i in range(24, 29)], lds=512)
    low = (values & 0xFFFF).astype(np.uint16)
    np.testing.assert_array_equal(rows[0], values & 0xFF)
    np.testing.assert_array_equal(rows[1].view(np.int32), low.astype(np.uint8).view(np.int8))
    np.testing.assert_array_equal(rows[2], low)
    np.testing.assert_array_equal(rows[3].view(np.int32), low.view(np.int16))
    np.testing.assert_array_equal(rows[4], (values | values << 16) >> 16)


def test_halves_of_registers(bench: Any, lanes: Words) -> None:
    body = """
      v_lshlrev_b32 v20, 2, v0
      ds_write_b32 v20, v8
      v_mov_b32 v24, 0
      v_mov_b32 v25, -1
      ds_read_u16_d16 v24, v20
      ds_read_u16_d16_hi v24, v20 offset:2
      ds_read_i8_d16_hi v25, v20 offset:3
      s_waitcnt lgkmcnt(0)"""
    values = lanes * 0x01030507 + 0x80
    rows = bench.run(body, [values], ["v24", "v25"], lds=256)
    np.testing.assert_array_equal(rows[0], values)
    top = (values >> 24).astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)
    np.testing.assert_array_equal(rows[1], top << 16 | 0xFFFF)


def test_unaligned_access(bench: Any, lanes: Words) -> None:
    body = """
      v_lshlrev_b32 v20, 3, v0
      ds_write_b64 v20, v[8:9]
      v_min_u32 v21, 60, v0
      v_lshlrev_b32 v21, 3, v21
      ds_read_b64 v[24:25], v21 offset:3
      s_waitcnt lgkmcnt(0)"""
    rows = bench.run(body, DATA[:2], ["v24", "v25"], lds=512)
    raw = np.stack(DATA[:2], axis=1).astype(np.uint32).tobytes()
    for lane in range(60):
        wanted = np.frombuffer(raw[8 * lane + 3 : 8 * lane + 11], np.uint32)
        assert [rows[0][lane], rows[1][lane]] == wanted.tolist()


def test_transposed_read_of_nibbles(bench: Any) -> None:
    """16 lanes' 8-byte pieces are 16 rows of 16 nibbles; lane i receives column i."""
    nibbles = np.random.default_rng(4).integers(0, 16, (4, 16, 16))
    packed = (nibbles[..., 0::2] | nibbles[..., 1::2] << 4).astype(np.uint8)
    pieces = packed.reshape(64, 8).view(np.uint32)
    body = """
      v_lshlrev_b32 v20, 3, v0
      ds_write_b64 v20, v[8:9]
      ds_read_b64_tr_b4 v[24:25], v20
      s_waitcnt lgkmcnt(0)"""
    rows = bench.run(body, [pieces[:, 0], pieces[:, 1]], ["v24", "v25"], lds=512)
    for lane in range(64):
        word = int(rows[0][lane]) | int(rows[1][lane]) << 32
        got = [word >> 4 * i & 15 for i in range(16)]
        assert got == nibbles[lane // 16, :, lane % 16].tolist()


@pytest.mark.parametrize("bits", [16, 8])
def test_transposed_read(bench: Any, bits: int) -> None:
    """16 lanes' 8-byte pieces are rows of 16 elements; lane i receives column i."""
    dtype: Any = np.uint16 if bits == 16 else np.uint8
    elements = np.arange(512 // (bits // 8), dtype=dtype)
    pieces = elements.view(np.uint32).reshape(64, 2)
    body = f"""
      v_lshlrev_b32 v20, 3, v0
      ds_write_b64 v20, v[8:9]
      ds_read_b64_tr_b{bits} v[24:25], v20
      s_waitcnt lgkmcnt(0)"""
    rows = bench.run(body, [pieces[:, 0], pieces[:, 1]], ["v24", "v25"], lds=512)
    got = np.ascontiguousarray(rows.T).view(dtype)
    per_lane = 64 // bits
    for lane in range(64):
        group = elements.reshape(4, per_lane, 16)[lane // 16]
        np.testing.assert_array_equal(got[lane], group[:, lane % 16])


def test_permutations(bench: Any, lanes: Words) -> None:
    body = """
      v_sub_u32 v20, 63, v0
      v_lshlrev_b32 v20, 2, v20
      ds_bpermute_b32 v24, v20, v8
      v_add_u32 v21, 1, v0
      v_lshlrev_b32 v21, 2, v21
      ds_permute_b32 v25, v21, v8
      ds_swizzle_b32 v26, v8 offset:swizzle(QUAD_PERM, 3, 2, 1, 0)
      ds_swizzle_b32 v27, v8 offset:swizzle(SWAP, 16)
      s_waitcnt lgkmcnt(0)"""
    rows = bench.run(body, [lanes + 5], [f"v{i}" for i in range(24, 28)])
    np.testing.assert_array_equal(rows[0], lanes[::-1] + 5)
    np.testing.assert_array_equal(rows[1], np.roll(lanes, 1) + 5)
    np.testing.assert_array_equal(rows[2], (lanes ^ 3) + 5)
    np.testing.assert_array_equal(rows[3], (lanes ^ 16) + 5)


def test_reading_unwritten_lds_is_poison_when_used(bench: Any) -> None:
    body = """
      v_lshlrev_b32 v20, 2, v0
      ds_read_b32 v24, v20 offset:512
      s_waitcnt lgkmcnt(0)"""
    _, unused = bench.registers(body, [], [], lds=1024)
    assert unused.ok, "a value nobody uses is dead work, not a defect"
    _, used = bench.registers(body, [], ["v24"], lds=1024)
    assert [f.kind for f in used.findings] == [DefectKind.POISON_READ]
    assert "LDS bytes never written" in used.findings[0].message


def test_poison_travels_through_lds(bench: Any) -> None:
    """Storing an undefined register to LDS is a copy; using it after the reload is the defect."""
    body = """
      v_lshlrev_b32 v20, 2, v0
      ds_write_b32 v20, v99
      ds_read_b32 v24, v20
      s_waitcnt lgkmcnt(0)
      v_add_u32 v25, 1, v24"""
    _, run = bench.registers(body, [], [], lds=256)
    assert [(f.kind, f.instruction) for f in run.findings] == [
        (DefectKind.POISON_READ, "v_add_u32")
    ]


@pytest.mark.parametrize(("offset", "poison"), [(4, False), (8, False), (12, True), (16, True)])
def test_poison_travels_where_a_write_is_not_aligned(bench: Any, offset: int, poison: bool) -> None:
    """Of the four words stored from byte 2 on, the last is undefined: bytes 14 to 17."""
    body = f"""
      v_lshlrev_b32 v20, 5, v0
      ds_write_b128 v20, v[8:11] offset:2
      ds_read_b32 v24, v20 offset:{offset}
      s_waitcnt lgkmcnt(0)
      v_add_u32 v25, 1, v24"""
    _, run = bench.registers(body, DATA[:3], [], lds=2048)
    found = [(f.kind, f.instruction) for f in run.findings]
    assert ((DefectKind.POISON_READ, "v_add_u32") in found) is poison


def test_behind_an_aligned_write_beside_others_nothing_changes(bench: Any) -> None:
    """Lane 0 stores from byte 0 on, the others are not aligned: byte 16 is still unwritten."""
    body = """
      v_lshlrev_b32 v20, 5, v0
      v_min_u32 v21, 2, v0
      v_add_u32 v20, v20, v21
      ds_write_b128 v20, v[8:11]
      v_mov_b32 v22, 0
      ds_read_b32 v24, v22 offset:16
      s_waitcnt lgkmcnt(0)
      v_add_u32 v25, 1, v24"""
    _, run = bench.registers(body, DATA[:3], [], lds=2048)
    assert (DefectKind.POISON_READ, "v_add_u32") in [(f.kind, f.instruction) for f in run.findings]


def test_out_of_bounds_lds(bench: Any) -> None:
    body = """
      v_lshlrev_b32 v20, 2, v0
      ds_write_b32 v20, v0 offset:64"""
    _, run = bench.registers(body, [], [], lds=256)
    (finding,) = run.findings
    assert finding.kind is DefectKind.OUT_OF_BOUNDS
    assert "at LDS address 256 in 16 lanes; the workgroup has 256 bytes" in finding.message


@pytest.mark.parametrize(("step", "races"), [(0, 0), (256, 1)])
def test_waves_that_copy_the_same_rows_do_not_race(bench: Any, step: int, races: int) -> None:
    """Two waves load LDS from memory at the same places: a race, unless the source is one."""
    body = f"""
      s_load_dwordx2 s[4:5], s[0:1], 0x0
      v_and_b32 v1, 63, v0
      v_lshlrev_b32 v1, 2, v1
      v_lshrrev_b32 v2, 6, v0
      v_mul_u32_u24 v2, {step}, v2
      v_add_u32 v1, v1, v2
      s_mov_b32 m0, 0
      s_waitcnt lgkmcnt(0)
      global_load_lds_dword v1, s[4:5]
      s_endpgm"""
    run = bench.launch(body, [np.zeros(128, np.uint32)], waves=2, lds=512)
    assert len(run.findings) == races
