"""Packed values: dot products, saturation, 16-bit forms, and the scaled conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate.formats import bf16_to_f32, f32_to_bf16, float_table
from pipeloom.judge.emulate.traps import UnsupportedInstructionError

Words = npt.NDArray[np.uint32]
RNG = np.random.default_rng(9)
A, B, C = RNG.integers(0, 1 << 32, (3, 64), dtype=np.uint64).astype(np.uint32)


def fields(value: int, bits: int, signed: bool) -> list[int]:
    parts = [value >> (bits * i) & ((1 << bits) - 1) for i in range(32 // bits)]
    return [p - (1 << bits) if signed and p >> (bits - 1) else p for p in parts]


def dot(bits: int, signed: bool) -> Callable[[int, int, int], int]:
    def run(a: int, b: int, c: int) -> int:
        pairs = zip(fields(a, bits, signed), fields(b, bits, signed), strict=True)
        return sum(x * y for x, y in pairs) + c

    return run


def halves(function: Callable[..., int], signed: bool = False) -> Callable[[int, int, int], int]:
    def run(a: int, b: int, c: int) -> int:
        parts = zip(*[fields(x, 16, signed) for x in (a, b, c)], strict=True)
        return sum((function(*part) & 0xFFFF) << (16 * i) for i, part in enumerate(parts))

    return run


def low(function: Callable[..., int], signed: bool = False) -> Callable[[int, int, int], int]:
    return lambda a, b, c: function(*[fields(x, 16, signed)[0] for x in (a, b, c)]) & 0xFFFF


INTEGER: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("v_dot4_i32_i8 v20, v8, v9, v10", dot(8, True)),
    ("v_dot4_u32_u8 v20, v8, v9, v10", dot(8, False)),
    ("v_dot8_i32_i4 v20, v8, v9, v10", dot(4, True)),
    ("v_dot8_u32_u4 v20, v8, v9, v10", dot(4, False)),
    ("v_dot2_i32_i16 v20, v8, v9, v10", dot(16, True)),
    ("v_dot2_u32_u16 v20, v8, v9, v10", dot(16, False)),
    ("v_pk_mad_i16 v20, v8, v9, v10", halves(lambda a, b, c: a * b + c)),
    ("v_pk_add_u16 v20, v8, v9 clamp", halves(lambda a, b, c: min(a + b, 0xFFFF))),
    ("v_pk_sub_u16 v20, v8, v9 clamp", halves(lambda a, b, c: max(a - b, 0))),
    ("v_pk_add_i16 v20, v8, v9 clamp",
     halves(lambda a, b, c: min(max(a + b, -32768), 32767), signed=True)),
    ("v_min3_i16 v20, v8, v9, v10", low(lambda a, b, c: min(a, b, c), True)),
    ("v_max3_u16 v20, v8, v9, v10", low(lambda a, b, c: max(a, b, c))),
    ("v_med3_i16 v20, v8, v9, v10", low(lambda a, b, c: sorted((a, b, c))[1], True)),
    ("v_sub_u16_e64 v20, v8, v9 clamp", low(lambda a, b, c: max(a - b, 0))),
    ("v_bitop3_b16 v20, v8, v9, v10 bitop3:0x6a", low(lambda a, b, c: c ^ (a & b))),
    ("v_mad_i32_i16 v20, v8, v9, v10",
     lambda a, b, c: fields(a, 16, True)[0] * fields(b, 16, True)[0] + c),
    ("v_sad_u8 v20, v8, v9, v10",
     lambda a, b, c: sum(abs(x - y) for x, y in zip(fields(a, 8, False), fields(b, 8, False),
                                                    strict=True)) + c),
]  # fmt: skip


def test_packed_integers_match_plain_python(bench: Any) -> None:
    body, outputs = [], []
    for i, (text, _) in enumerate(INTEGER):
        body += ["v_mov_b32 v20, 0", text, f"v_mov_b32 v{100 + i}, v20"]
        outputs.append(f"v{100 + i}")
    rows = bench.run("\n".join(body), [A, B, C], outputs)
    for row, (text, oracle) in zip(rows, INTEGER, strict=True):
        lanes = zip(A.tolist(), B.tolist(), C.tolist(), strict=True)
        wanted = [oracle(*lane) & 0xFFFFFFFF for lane in lanes]
        np.testing.assert_array_equal(row, np.array(wanted, np.uint32), text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        # LLVM's GCNSubtarget::zeroesHigh16BitsOfDest and its test preserve-hi16.ll, of gfx9.
        ("v_add_f16 v20, v9, v10", False),
        ("v_lshlrev_b16 v20, v9, v10", False),
        ("v_cvt_f16_f32 v20, v9", False),
        ("v_fma_f16 v20, v9, v10, v9", True),
        ("v_div_fixup_f16 v20, v9, v10, v9", True),
        ("v_mad_u16 v20, v9, v10, v9", True),
        ("v_mac_f16 v20, v9, v10", True),
        ("v_mac_f16_dpp v20, v9, v10 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", True),
        ("v_madak_f16 v20, v9, v10, 0x3c00", True),
        ("v_madmk_f16 v20, v9, 0x3c00, v10", True),
    ],
)
def test_some_half_results_keep_the_upper_half(text: str, kept: bool, bench: Any) -> None:
    (row,) = bench.run(f"v_mov_b32 v20, v8\n  {text}", [A, B, C], ["v20"])
    np.testing.assert_array_equal(row >> 16, A >> 16 if kept else 0)


@pytest.mark.parametrize(("kind", "table", "bits"), [
    ("fp8", "e4m3", 8), ("bf8", "e5m2", 8), ("fp4", "e2m1", 4),
])  # fmt: skip
@pytest.mark.parametrize("wide", ["f32", "f16", "bf16"])
def test_scaled_conversions_round_trip_every_code(
    bench: Any, kind: str, table: str, bits: int, wide: str
) -> None:
    """Every finite code, times and then divided by the scale 2**3, comes back."""
    values = float_table(table)
    codes = np.flatnonzero(np.isfinite(values))
    count = len(codes)
    low = codes[np.arange(64) * 5 % count]
    high = codes[(np.arange(64) * 7 + 3) % count]
    packed = (low | high << bits).astype(np.uint32) << 8 if bits == 4 else low | high << 8
    packed = packed.astype(np.uint32)
    select = " op_sel:[1,0,0]" if bits == 4 else ""
    pair = "v[20:21]" if wide == "f32" else "v20"
    back = "v20, v21" if wide == "f32" else "v20"
    body = f"""
      v_mov_b32 v12, 0x41000000
      v_mov_b32 v22, 0
      v_cvt_scalef32_pk_{wide}_{kind} {pair}, v8, v12{select}
      v_cvt_scalef32_pk_{kind}_{wide} v22, {back}, v12
      v_mov_b32 v23, v20"""
    outputs = ["v22", "v20", "v21"] if wide == "f32" else ["v22", "v20"]
    rows = bench.run(body, [packed], outputs)
    first = values[low] * 8
    if wide == "f32":
        np.testing.assert_array_equal(rows[1].view(np.float32), first)
        np.testing.assert_array_equal(rows[2].view(np.float32), values[high] * 8)
    elif wide == "f16":
        with np.errstate(over="ignore"):
            half = first.astype(np.float16)
        np.testing.assert_array_equal(rows[1].view(np.float16)[::2], half)
    else:
        np.testing.assert_array_equal(bf16_to_f32(rows[1].view(np.uint16)[::2]),
                                      bf16_to_f32(f32_to_bf16(first)))  # fmt: skip
    fits = np.abs(values[np.stack([low, high])] * 8).max(0) <= (65504 if wide == "f16" else np.inf)
    np.testing.assert_array_equal(rows[0][fits], (low | high << bits).astype(np.uint32)[fits])


@pytest.mark.parametrize("name", ["add", "mul"])
def test_clamp_of_pairs_is_that_of_single_numbers(name: str, bench: Any) -> None:
    values = np.linspace(-9.5, 11.25, 64, dtype=np.float32)
    values[5] = np.nan
    numbers = values.view(np.uint32)
    body = f"""
      v_pk_{name}_f32 v[24:25], v[8:9], v[10:11] clamp
      v_{name}_f32_e64 v26, v8, v10 clamp
      v_{name}_f32_e64 v27, v9, v11 clamp"""
    low, high, one, other = bench.run(body, [numbers] * 4, ["v24", "v25", "v26", "v27"])
    np.testing.assert_array_equal((low, high), (one, other))
    assert low.view(np.float32).max() == 1.0
    assert low[5] == 0  # DX10_CLAMP is on


def test_a_move_of_pairs_is_not_clamped(bench: Any) -> None:
    with pytest.raises(UnsupportedInstructionError, match="clamp"):
        bench.run("v_pk_mov_b32 v[24:25], v[8:9], v[10:11] clamp", [A, B, A, B], ["v24"])
