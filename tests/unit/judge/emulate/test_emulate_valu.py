"""Vector ALU instructions, assembled and executed, against NumPy or plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate.traps import UnsupportedInstructionError
from pipeloom.program import VOCABULARY

Words = npt.NDArray[np.uint32]
A = np.array([0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678, 0xDEADBEEF], np.uint32)
X = np.resize(A, 64)
Y = np.resize(np.roll(A, 3) ^ 0x5A5A, 64).astype(np.uint32)
Z = np.resize(np.roll(A, 5) + 77, 64).astype(np.uint32)
F = np.linspace(-9.5, 11.25, 64, dtype=np.float32)
G = np.geomspace(1e-3, 1e4, 64).astype(np.float32)


def py(function: Callable[..., int]) -> Callable[..., Words]:
    """A plain-Python oracle, one lane at a time."""

    def run(*rows: Words) -> Words:
        columns = [row.tolist() for row in rows]
        values = [function(*lane) & 0xFFFFFFFF for lane in zip(*columns, strict=True)]
        return np.array(values, np.uint32)

    return run


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


INTEGER: list[tuple[str, Callable[..., int]]] = [
    ("v_and_b32 v8, v8, v9", lambda a, b, c: a & b),
    ("v_xor_b32 v8, v8, v9", lambda a, b, c: a ^ b),
    ("v_not_b32 v8, v8", lambda a, b, c: ~a),
    ("v_add_u32 v8, v8, v9", lambda a, b, c: a + b),
    ("v_add_u32_e64 v8, v8, v9 clamp", lambda a, b, c: min(a + b, 0xFFFFFFFF)),
    ("v_sub_u32_e64 v8, v8, v9 clamp", lambda a, b, c: max(a - b, 0)),
    ("v_subrev_u32 v8, v8, v9", lambda a, b, c: b - a),
    ("v_lshlrev_b32 v8, 5, v8", lambda a, b, c: a << 5),
    ("v_lshrrev_b32 v8, v9, v8", lambda a, b, c: a >> (b & 31)),
    ("v_ashrrev_i32 v8, 4, v8", lambda a, b, c: signed(a) >> 4),
    ("v_min_i32 v8, v8, v9", lambda a, b, c: min(signed(a), signed(b))),
    ("v_max_u32 v8, v8, v9", lambda a, b, c: max(a, b)),
    ("v_mul_lo_u32 v8, v8, v9", lambda a, b, c: a * b),
    ("v_mul_hi_u32 v8, v8, v9", lambda a, b, c: a * b >> 32),
    ("v_mul_hi_i32 v8, v8, v9", lambda a, b, c: signed(a) * signed(b) >> 32),
    ("v_mul_u32_u24 v8, v8, v9", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    ("v_bfe_u32 v8, v8, 3, 11", lambda a, b, c: a >> 3 & 0x7FF),
    ("v_bfe_i32 v8, v8, 4, 8", lambda a, b, c: ((a >> 4 & 0xFF) ^ 0x80) - 0x80),
    ("v_bfi_b32 v8, v8, v9, v10", lambda a, b, c: a & b | ~a & c),
    ("v_alignbit_b32 v8, v8, v9, 7", lambda a, b, c: (a << 32 | b) >> 7),
    ("v_lshl_add_u32 v8, v8, 3, v9", lambda a, b, c: (a << 3) + b),
    ("v_add_lshl_u32 v8, v8, v9, 2", lambda a, b, c: (a + b) << 2),
    ("v_add3_u32 v8, v8, v9, v10", lambda a, b, c: a + b + c),
    ("v_lshl_or_b32 v8, v8, 4, v9", lambda a, b, c: a << 4 | b),
    ("v_and_or_b32 v8, v8, v9, v10", lambda a, b, c: a & b | c),
    ("v_xad_u32 v8, v8, v9, v10", lambda a, b, c: (a ^ b) + c),
    ("v_or3_b32 v8, v8, v9, v10", lambda a, b, c: a | b | c),
    ("v_med3_i32 v8, v8, v9, v10", lambda a, b, c: sorted(map(signed, (a, b, c)))[1]),
    ("v_bfrev_b32 v8, v8", lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    ("v_ffbh_u32 v8, v8", lambda a, b, c: 32 - a.bit_length() if a else -1),
    ("v_ffbl_b32 v8, v8", lambda a, b, c: (a & -a).bit_length() - 1 if a else -1),
    ("v_bcnt_u32_b32 v8, v8, v9", lambda a, b, c: a.bit_count() + b),
    ("v_xnor_b32 v8, v8, v9", lambda a, b, c: ~(a ^ b)),
    ("v_bitop3_b32 v8, v8, v9, v10 bitop3:0x6a", lambda a, b, c: c ^ (a & b)),
    ("v_mad_u32_u24 v8, v8, v9, v10", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    ("v_cndmask_b32 v8, 17, v8, vcc", lambda a, b, c: 17),
    ("v_add_u16 v8, v8, v9", lambda a, b, c: (a + b) & 0xFFFF),
    ("v_lshlrev_b16 v8, 3, v8", lambda a, b, c: (a << 3) & 0xFFFF),
    ("v_pk_add_u16 v8, v8, v9", lambda a, b, c: (a + b & 0xFFFF) | ((a >> 16) + (b >> 16)) << 16),
    ("v_or_b32_sdwa v8, v8, v9 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 "
     "src1_sel:WORD_1", lambda a, b, c: (a >> 8 & 0xFF) | b >> 16),
    ("v_and_b32_sdwa v8, v8, v9 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:DWORD "
     "src1_sel:DWORD", lambda a, b, c: a & 0xFF00FFFF | (a & b & 0xFF) << 16),
]  # fmt: skip


def test_integer_operations_match_plain_python(bench: Any) -> None:
    """All rows in one kernel: each result goes to its own register."""
    body = ["s_mov_b64 vcc, 0"]
    outputs = []
    for i, (text, _) in enumerate(INTEGER):
        target = f"v{100 + i}"
        body += ["v_mov_b32 v20, v8", text.replace(" v8,", " v20,", 1)]
        body.append(f"v_mov_b32 {target}, v20")
        outputs.append(target)
    got = bench.run("\n".join(body), [X, Y, Z], outputs)
    for (text, oracle), row in zip(INTEGER, got, strict=True):
        np.testing.assert_array_equal(row, py(oracle)(X, Y, Z), err_msg=text)


FLOAT: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("v_add_f32 v8, v8, v9", lambda f, g: f + g),
    ("v_sub_f32 v8, v8, v9", lambda f, g: f - g),
    ("v_mul_f32 v8, v8, v9", lambda f, g: f * g),
    ("v_max_f32 v8, v8, v9", np.maximum),
    ("v_fma_f32 v8, v8, v9, v8", lambda f, g: f.astype(float) * g + f),
    ("v_fma_f32 v8, -v8, |v9|, 1.0", lambda f, g: -f.astype(float) * abs(g) + 1),
    ("v_mul_f32_e64 v8, v8, v9 mul:2", lambda f, g: f * g * 2),
    ("v_add_f32_e64 v8, v8, v9 clamp", lambda f, g: np.clip(f + g, 0, 1)),
    ("v_exp_f32 v8, v8", lambda f, g: np.exp2(f.astype(float))),
    ("v_log_f32 v8, v9", lambda f, g: np.log2(g.astype(float))),
    ("v_rcp_f32 v8, v9", lambda f, g: 1 / g.astype(float)),
    ("v_rsq_f32 v8, v9", lambda f, g: 1 / np.sqrt(g.astype(float))),
    ("v_sqrt_f32 v8, v9", lambda f, g: np.sqrt(g)),
    ("v_floor_f32 v8, v8", lambda f, g: np.floor(f)),
    ("v_rndne_f32 v8, v8", lambda f, g: np.rint(f)),
    ("v_trunc_f32 v8, v8", lambda f, g: np.trunc(f)),
    ("v_ldexp_f32 v8, v8, -3", lambda f, g: f / 8),
    ("v_max3_f32 v8, v8, v9, 2.0", lambda f, g: np.maximum(np.maximum(f, g), 2)),
    ("v_med3_f32 v8, v8, v9, 2.0", lambda f, g: np.median([f, g, np.full(64, 2.0)], axis=0)),
    ("v_fmaak_f32 v8, v8, v9, 0x40a00000", lambda f, g: f.astype(float) * g + 5),
    ("v_fmamk_f32 v8, v8, 0x40a00000, v9", lambda f, g: f.astype(float) * 5 + g),
    ("v_cvt_f32_ubyte2 v8, v9", lambda f, g: g.view(np.uint32) >> 16 & 0xFF),
]


def test_float_operations_match_numpy(bench: Any) -> None:
    body, outputs = [], []
    for i, (text, _) in enumerate(FLOAT):
        body.append(text.replace("v8,", f"v{100 + i},", 1))
        outputs.append(f"v{100 + i}")
    got = bench.run("\n".join(body), [F, G], outputs)
    for (text, oracle), row in zip(FLOAT, got, strict=True):
        wanted = np.asarray(oracle(F, G)).astype(np.float32)
        np.testing.assert_array_equal(row.view(np.float32), wanted, err_msg=text)


def test_conversions(bench: Any) -> None:
    body = """
      v_cvt_f16_f32 v20, v8
      v_cvt_pk_f16_f32 v21, v8, v9
      v_cvt_pk_bf16_f32 v22, v8, v9
      v_cvt_pkrtz_f16_f32 v23, v8, v9
      v_cvt_i32_f32 v24, v8
      v_cvt_u32_f32 v25, v8
      v_cvt_f32_i32 v26, v10
      v_cvt_f32_u32 v27, v10"""
    rows = bench.run(body, [F, G, X], [f"v{i}" for i in range(20, 28)])
    half = F.astype(np.float16).view(np.uint16).astype(np.uint32)
    np.testing.assert_array_equal(rows[0], half)
    high = G.astype(np.float16).view(np.uint16).astype(np.uint32)
    np.testing.assert_array_equal(rows[1], half | high << 16)
    for row, source in ((rows[2] & 0xFFFF, F), (rows[2] >> 16, G)):
        value = (row << 16).view(np.float32)
        spacing = np.abs(source) * 2.0**-8
        assert (np.abs(value - source) <= spacing).all()
    truncated = (rows[3] & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float32)
    assert (np.abs(truncated) <= np.abs(F)).all()
    np.testing.assert_array_equal(rows[4].view(np.int32), np.trunc(F).astype(np.int32))
    np.testing.assert_array_equal(rows[5], np.trunc(np.maximum(F, 0)).astype(np.uint32))
    np.testing.assert_array_equal(rows[6].view(np.float32), X.view(np.int32).astype(np.float32))
    np.testing.assert_array_equal(rows[7].view(np.float32), X.astype(np.float32))


def test_wide_integers_and_carries(bench: Any) -> None:
    body = """
      v_add_co_u32 v20, vcc, v8, v9
      v_addc_co_u32 v21, vcc, v9, v10, vcc
      v_mad_u64_u32 v[22:23], s[40:41], v8, v9, v[10:11]
      v_lshl_add_u64 v[24:25], v[8:9], 3, v[10:11]
      v_lshlrev_b64 v[26:27], 9, v[8:9]"""
    low, high, m0, m1, s0, s1, w0, w1 = bench.run(
        body, [X, Y, Z, X], [f"v{i}" for i in range(20, 28)]
    )
    for i in range(64):
        x, y, z = int(X[i]), int(Y[i]), int(Z[i])
        first = x + y
        assert int(low[i]) == first & 0xFFFFFFFF
        assert int(high[i]) == (y + z + (first >> 32)) & 0xFFFFFFFF
        pair = z | x << 32
        assert int(m0[i]) | int(m1[i]) << 32 == (x * y + pair) % 2**64
        shifted = ((x | y << 32) << 3) + pair
        assert int(s0[i]) | int(s1[i]) << 32 == shifted % 2**64
        assert int(w0[i]) | int(w1[i]) << 32 == ((x | y << 32) << 9) % 2**64


def test_comparisons_write_masks_of_active_lanes_only(bench: Any, lanes: Words) -> None:
    body = """
      s_mov_b64 exec, 0xffff
      v_cmp_gt_u32 vcc, 10, v8
      v_cmp_lt_i32_e64 s[40:41], v8, 5
      s_mov_b64 exec, -1
      v_cmp_class_f32 s[42:43], v9, 3
      v_cmp_o_f32_e64 s[44:45], v9, v9
      v_cmp_nlt_f32_e64 s[46:47], v9, 1.0"""
    floats = np.where(lanes % 4 == 0, np.nan, lanes).astype(np.float32)
    names = ["vcc_lo", "vcc_hi"] + [f"s{i}" for i in range(40, 48)]
    body += "\nv_mov_b32 v30, vcc_lo\nv_mov_b32 v31, vcc_hi"
    rows = bench.run(body, [lanes, floats], ["v30", "v31", *names[2:]])
    pairs = [int(rows[i][0]) | int(rows[i + 1][0]) << 32 for i in range(0, 10, 2)]
    assert pairs[0] == 0x3FF
    assert pairs[1] == 0x1F
    nan = sum(1 << i for i in range(64) if i % 4 == 0)
    assert pairs[2] == nan
    assert pairs[3] == nan ^ (2**64 - 1)
    assert pairs[4] == 2**64 - 1


@pytest.mark.parametrize(
    ("control", "source"),
    [
        ("quad_perm:[1,0,3,2]", lambda i: i ^ 1),
        ("row_shr:3", lambda i: i - 3 if i % 16 >= 3 else None),
        ("row_shl:2", lambda i: i + 2 if i % 16 < 14 else None),
        ("row_ror:5", lambda i: i // 16 * 16 + (i - 5) % 16),
        ("row_mirror", lambda i: i // 16 * 16 + 15 - i % 16),
        ("row_half_mirror", lambda i: i // 8 * 8 + 7 - i % 8),
        ("row_bcast:15", lambda i: i // 16 * 16 - 1 if i >= 16 else None),
        ("row_bcast:31", lambda i: 31 if i >= 32 else None),
        ("wave_shr:1", lambda i: i - 1 if i else None),
    ],
)
def test_dpp_moves_lanes(
    bench: Any, lanes: Words, control: str, source: Callable[[int], int | None]
) -> None:
    """Without bound_ctrl a lane with no source keeps its old value; with it, zero enters."""
    body = f"""
      v_mov_b32 v20, 99
      v_mov_b32 v21, 99
      s_nop 1
      v_mov_b32_dpp v20, v8 {control} row_mask:0xf bank_mask:0xf
      v_mov_b32_dpp v21, v8 {control} row_mask:0xf bank_mask:0xf bound_ctrl:0"""
    kept, zeroed = bench.run(body, [lanes + 1], ["v20", "v21"])
    for i in range(64):
        where = source(i)
        assert kept[i] == (99 if where is None else where + 1), (control, i)
        assert zeroed[i] == (0 if where is None else where + 1), (control, i)


def test_lane_access_and_swaps(bench: Any, lanes: Words) -> None:
    body = """
      v_readfirstlane_b32 s40, v8
      v_readlane_b32 s41, v8, 37
      v_mov_b32 v20, v8
      v_writelane_b32 v20, s41, 3
      v_mov_b32 v21, v8
      v_mov_b32 v22, v9
      s_nop 1
      v_permlane32_swap_b32 v21, v22
      v_mov_b32 v23, v8
      v_mov_b32 v24, v9
      s_nop 1
      v_permlane16_swap_b32 v23, v24
      v_mov_b32 v25, v8
      v_mov_b32 v26, v9
      v_swap_b32 v25, v26
      v_mov_b32 v27, -1
      v_mbcnt_lo_u32_b32 v27, -1, 0
      v_mbcnt_hi_u32_b32 v27, -1, v27"""
    first, other = lanes + 100, lanes + 200
    names = ["s40", "s41", *[f"v{i}" for i in range(20, 28)]]
    rows = bench.run(body, [first, other], names)
    assert rows[0][0] == 100
    assert rows[1][0] == 137
    assert rows[2][3] == 137
    assert (np.delete(rows[2], 3) == np.delete(first, 3)).all()
    np.testing.assert_array_equal(rows[3], np.concatenate([first[:32], other[:32]]))
    np.testing.assert_array_equal(rows[4], np.concatenate([first[32:], other[32:]]))
    a, b = first.reshape(4, 16), other.reshape(4, 16)
    np.testing.assert_array_equal(rows[5].reshape(4, 16), [a[0], b[0], a[2], b[2]])
    np.testing.assert_array_equal(rows[6].reshape(4, 16), [a[1], b[1], a[3], b[3]])
    np.testing.assert_array_equal(rows[7], other)
    np.testing.assert_array_equal(rows[8], first)
    np.testing.assert_array_equal(rows[9], lanes)


def test_packed_math_with_op_sel(bench: Any) -> None:
    halves = np.linspace(-4, 4, 128).astype(np.float16)
    others = np.linspace(1, 2, 128).astype(np.float16)
    body = """
      v_pk_add_f16 v20, v8, v9
      v_pk_mul_f16 v21, v8, v9 op_sel:[0,1] op_sel_hi:[1,0]
      v_pk_fma_f16 v22, v8, v9, v8 neg_lo:[0,0,1] neg_hi:[0,0,1]
      v_pk_add_f32 v[24:25], v[10:11], v[12:13]
      v_pk_mul_f32 v[26:27], v[10:11], v[12:13] op_sel:[1,0] op_sel_hi:[0,1]
      v_pk_mov_b32 v[28:29], v[10:11], v[12:13] op_sel:[1,0]"""
    rows = bench.run(
        body,
        [halves.view(np.uint32), others.view(np.uint32), F, G, F * 2, G * 3],
        [f"v{i}" for i in (20, 21, 22, 24, 25, 26, 27, 28, 29)],
    )
    np.testing.assert_array_equal(rows[0].view(np.float16), halves + others)
    swapped = others.reshape(64, 2)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(rows[1].view(np.float16), halves * swapped)
    fused = (halves.astype(float) * others - halves).astype(np.float16)
    np.testing.assert_array_equal(rows[2].view(np.float16), fused)
    np.testing.assert_array_equal(rows[3].view(np.float32), F + F * 2)
    np.testing.assert_array_equal(rows[4].view(np.float32), G + G * 3)
    np.testing.assert_array_equal(rows[5].view(np.float32), G * (F * 2))
    np.testing.assert_array_equal(rows[6].view(np.float32), F * (G * 3))
    np.testing.assert_array_equal(rows[7].view(np.float32), G)
    np.testing.assert_array_equal(rows[8].view(np.float32), F * 2)


EXTREMES = np.array(
    [0, 1e-45, -1e-39, 1.2e-38, 3e-38, 0.3, 1, -7, 100, -127.5, 9e37, 2e38, -3.4e38, np.inf],
    np.float32,
)


@pytest.mark.parametrize("name", ["rcp", "rsqrt", "exp2", "log2"])
def test_transcendental_ops_take_and_make_no_denormals(name: str, bench: Any) -> None:
    """The meaning of the op and the instruction agree, near the ends of f32 too."""
    op, x = VOCABULARY[name], np.resize(EXTREMES, 64)
    lowering = op.lowered()
    assert lowering is not None
    (line,) = lowering.instructions
    got = bench.run(line.format("v8", d="v20"), [x], ["v20"])[0].view(np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, op.apply(x), rtol=1.3e-7)
    assert not ((got != 0) & (np.abs(got) < np.finfo(np.float32).smallest_normal)).any()


def test_division_by_any_number(bench: Any) -> None:
    """Where the reciprocal alone would be denormal, 2e38 / 2e38 were 0."""
    op = VOCABULARY["div"]
    lowering = op.lowered()
    assert lowering is not None
    top, bottom = (a.ravel() for a in np.meshgrid(EXTREMES, EXTREMES))
    top = np.where(np.abs(top) < 1e-37, 0, top).astype(np.float32)
    for at in range(0, len(top), 64):
        pair = [np.resize(a[at : at + 64], 64) for a in (top, bottom)]
        body = "\n".join(
            line.format("v8", "v9", d="v20", t="v21") for line in lowering.instructions
        )
        got = bench.run(body, pair, ["v20"])[0].view(np.float32)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(got, op.apply(*pair), rtol=2.5e-7, atol=2e-45)


def test_exec_masks_writes(bench: Any, lanes: Words) -> None:
    body = """
      s_mov_b32 exec_lo, 0xff00ff00
      s_mov_b32 exec_hi, 0xff00ff00
      v_add_u32 v8, 5, v8
      s_mov_b64 exec, -1"""
    got = bench.run(body, [lanes])[0]
    changed = lanes // 8 % 2 == 1
    np.testing.assert_array_equal(got, np.where(changed, lanes + 5, lanes))


def test_float_to_a_byte(bench: Any) -> None:
    """To nearest even, saturated, into the byte that source 1 names."""
    values = np.array([0.5, 1.5, 2.49, 254.5, 255.7, 1e9, -3, np.nan, np.inf, 7], np.float32)
    values = np.resize(values, 64)
    place = np.arange(64, dtype=np.uint32) + 4
    old = np.full(64, 0xA1B2C3D4, np.uint32)
    got = bench.run("v_cvt_pk_u8_f32 v20, v8, v9, v10", [values, place, old], ["v20"])[0]
    for lane in range(64):
        value = float(values[lane])
        byte = 0 if np.isnan(value) else min(max(round(min(value, 1e6)), 0), 255)
        want = bytearray(int(old[lane]).to_bytes(4, "little"))
        want[lane % 4] = byte
        assert got[lane] == int.from_bytes(want, "little")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("v_add_co_u32_e64 v24, s[20:21], v8, v9 clamp", "clamp"),
        ("v_sub_co_u32_sdwa v24, vcc, v8, v9 dst_sel:DWORD src0_sel:BYTE_0", "SDWA"),
    ],
)
def test_a_sum_with_carry_has_no_clamp_and_no_selects(step: str, why: str, bench: Any) -> None:
    with pytest.raises(UnsupportedInstructionError, match=why):
        bench.run(step, [np.zeros(64, np.uint32)] * 2, ["v24"])
