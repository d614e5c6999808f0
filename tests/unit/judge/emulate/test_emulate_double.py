"""Double precision, fused multiply-adds and division helpers, against exact fractions and NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom.judge.emulate.division import fused_f16, fused_f32, fused_f64

Words = npt.NDArray[np.uint32]
RNG = np.random.default_rng(11)
D = np.concatenate([RNG.standard_normal(48) * np.exp2(RNG.integers(-40, 40, 48)),
                    [0.0, -0.0, 1.5, -2.5, 3.0, 1e300, -1e-300, 5e-324, 0.5, -0.5,
                     2.5, 1e10, -7.75, 4.0, 9.0, 0.999999]])  # fmt: skip
E = np.roll(D, 7)


def halves(values: npt.NDArray[np.float64]) -> list[Words]:
    """The two registers of a double per lane."""
    pair = np.ascontiguousarray(values).view(np.uint32).reshape(-1, 2)
    return [pair[:, 0].copy(), pair[:, 1].copy()]


def join(low: Words, high: Words) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(np.stack([low, high], 1)).view(np.float64)[:, 0]


UNARY: dict[str, Callable[..., Any]] = {
    "v_floor_f64": np.floor,
    "v_ceil_f64": np.ceil,
    "v_trunc_f64": np.trunc,
    "v_rndne_f64": np.rint,
    "v_frexp_mant_f64": lambda x: np.frexp(x)[0],
    "v_sqrt_f64": lambda x: np.sqrt(np.abs(x)),
    "v_rcp_f64": lambda x: 1 / x,
}
BINARY: dict[str, Callable[..., Any]] = {
    "v_add_f64": np.add,
    "v_mul_f64": np.multiply,
    "v_min_f64": np.minimum,
    "v_max_f64": np.maximum,
}


def test_double_operations_match_numpy(bench: Any) -> None:
    body, outputs, wanted = [], [], []
    with np.errstate(all="ignore"):
        for i, (name, function) in enumerate(UNARY.items()):
            at = 20 + 2 * i
            operand = "|v[8:9]|" if "sqrt" in name else "v[8:9]"
            encoding = "_e64" if "sqrt" in name else ""
            body.append(f"{name}{encoding} v[{at}:{at + 1}], {operand}")
            outputs += [f"v{at}", f"v{at + 1}"]
            wanted.append((name, function(D)))
        for i, (name, function) in enumerate(BINARY.items()):
            at = 40 + 2 * i
            body.append(f"{name} v[{at}:{at + 1}], v[8:9], v[10:11]")
            outputs += [f"v{at}", f"v{at + 1}"]
            wanted.append((name, function(D, E)))
    rows = bench.run("\n".join(body), [*halves(D), *halves(E)], outputs)
    for i, (name, values) in enumerate(wanted):
        np.testing.assert_array_equal(join(rows[2 * i], rows[2 * i + 1]), values, err_msg=name)


def test_conversions_and_exponents_of_doubles(bench: Any) -> None:
    body = """
      v_cvt_i32_f64 v20, v[8:9]
      v_cvt_u32_f64 v21, v[8:9]
      v_frexp_exp_i32_f64 v22, v[8:9]
      v_ldexp_f64 v[24:25], v[8:9], 5
      v_cmp_class_f64 vcc, v[8:9], 0x90
      v_cndmask_b32 v23, 0, 1, vcc"""
    body = body.replace("v_cmp_class_f64 vcc, v[8:9], 0x90",
                        "v_mov_b32 v30, 0x90\n v_cmp_class_f64 vcc, v[8:9], v30")  # fmt: skip
    body = body.replace("v_cndmask_b32 v23, 0, 1, vcc", "v_cndmask_b32_e64 v23, 0, 1, vcc")
    rows = bench.run(body, halves(D), ["v20", "v21", "v22", "v24", "v25", "v23"])
    clipped = [min(max(math.trunc(x), -(2**31)), 2**31 - 1) for x in D]
    np.testing.assert_array_equal(rows[0].view(np.int32), clipped)
    np.testing.assert_array_equal(rows[1], [min(max(math.trunc(x), 0), 2**32 - 1) for x in D])
    np.testing.assert_array_equal(rows[2].view(np.int32), [math.frexp(x)[1] for x in D])
    np.testing.assert_array_equal(join(rows[3], rows[4]), np.ldexp(D, 5))
    denormal = (D != 0) & (np.abs(D) < 2.0**-1022)
    np.testing.assert_array_equal(rows[5], denormal & True)


def exactly(a: float, b: float, c: float) -> Fraction:
    return Fraction(a) * Fraction(b) + Fraction(c)


@settings(max_examples=200, deadline=None)
@given(
    st.tuples(*[st.floats(-(2.0**60), 2.0**60, allow_subnormal=False)] * 3),
    st.integers(20, 60),
)
def test_fused_multiply_add_rounds_once(values: tuple[float, float, float], near: int) -> None:
    """Also where the sum nearly cancels, which is where a second rounding would show."""
    a, b, c = values
    for addend in (c, -a * b * (1 + 2.0**-near)):
        got = fused_f64(np.array([a]), np.array([b]), np.array([addend]))[0]
        assert got == float(exactly(a, b, addend))


@settings(max_examples=200, deadline=None)
@given(st.tuples(*[st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60)] * 3))
def test_fused_multiply_add_of_floats_rounds_once(values: tuple[float, float, float]) -> None:
    a, b, c = (np.array([v], np.float32) for v in values)
    got = fused_f32(a, b, c)[0]
    exact = exactly(*values)
    below, above = np.nextafter(got, np.float32(-np.inf)), np.nextafter(got, np.float32(np.inf))
    error = abs(Fraction(float(got)) - exact)
    for other in (below, above):
        if np.isfinite(other):
            assert error <= abs(Fraction(float(other)) - exact)


def test_fused_multiply_add_of_halves_keeps_the_product_exact() -> None:
    a, c = np.array([1 + 2**-10], np.float16), np.array([-1 - 2**-9], np.float16)
    assert float(fused_f16(a, a, c)[0]) == 2.0**-20
    assert float((a * a + c)[0]) == 0


def _divide(kind: str) -> str:
    """The division that LLVM emits: scale, Newton steps, fused step, fix-up.

    In f32 the reciprocal is refined once and the quotient twice, in f64 the other way round.
    """
    if kind == "f32":
        names = {"n": "v8", "d": "v9", "s": "v20", "t": "v21", "r": "v22", "e": "v23", "q": "v24"}
    else:
        names = {"n": "v[8:9]", "d": "v[10:11]", "s": "v[20:21]", "t": "v[22:23]", "r": "v[24:25]",
                 "e": "v[26:27]", "q": "v[28:29]"}  # fmt: skip
    steps = """
      v_div_scale_KIND s, s[20:21], d, d, n
      v_div_scale_KIND t, vcc, n, d, n
      v_rcp_KIND r, s
      v_fma_KIND e, -s, r, 1.0
      v_fma_KIND r, e, r, r
      AGAIN_OF_f64 e, -s, r, 1.0
      AGAIN_OF_f64 r, e, r, r
      v_mul_KIND q, t, r
      v_fma_KIND e, -s, q, t
      AGAIN_OF_f32 q, e, r, q
      AGAIN_OF_f32 e, -s, q, t
      v_div_fmas_KIND q, e, r, q
      v_div_fixup_KIND q, q, d, n"""
    lines = []
    for line in steps.strip().split("\n"):
        name, operands = line.strip().replace(f"AGAIN_OF_{kind}", "v_fma_KIND").split(" ", 1)
        if name.startswith("AGAIN"):
            continue
        parts = [part.strip() for part in operands.split(",")]
        done = [
            ("-" if p[0] == "-" else "") + names.get(p.lstrip("-"), p.lstrip("-")) for p in parts
        ]
        lines.append(f"{name.replace('KIND', kind)} {', '.join(done)}")
    return "\n".join(lines)


def _hard(dtype: Any) -> Any:
    """Numbers at every end of a format, and near the limits where v_div_scale starts to scale."""
    limits = np.finfo(dtype)
    top = int(limits.maxexp) - 1
    powers = [0, 1, 23, top // 2, top * 3 // 4, top - 1, top]
    exact = [2.0**e * m for e in powers for m in (1, 1.5)]
    exact += [2.0**-e * 1.25 for e in powers] + [limits.tiny * 1.5, limits.tiny / 3, -7.0]
    ends = [limits.max, limits.tiny, limits.smallest_subnormal, limits.smallest_subnormal * 96]
    return np.array([0.0, -0.0, np.inf, -np.inf, np.nan, *ends, *exact], dtype)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_division_sequence_is_correctly_rounded(bench: Any, kind: str) -> None:
    """Every hard number by every other, and random ones: the quotient of IEEE 754, to the bit."""
    rng = np.random.default_rng(4)
    dtype: Any = np.float32 if kind == "f32" else np.float64
    spread = 120 if kind == "f32" else 1000
    hard = _hard(dtype)
    n, d = (side.reshape(-1) for side in np.meshgrid(hard, hard))
    some = (rng.standard_normal((2, 64)) * np.exp2(rng.integers(-spread, spread, (2, 64)))).astype(
        dtype
    )
    n, d = np.concatenate([some[0], n]), np.concatenate([some[1], d])
    whole = len(n) - len(n) % 64
    for at in range(0, whole, 64):
        top, bottom = n[at : at + 64], d[at : at + 64]
        if kind == "f32":
            got = bench.run(_divide(kind), [top, bottom], ["v24"])[0].view(np.float32)
        else:
            rows = bench.run(_divide(kind), [*halves(top), *halves(bottom)], ["v28", "v29"])
            got = join(rows[0], rows[1])
        with np.errstate(all="ignore"):
            quotient = top / bottom
        np.testing.assert_array_equal(got, quotient)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(quotient) & ~np.isnan(got))


def test_wide_multiply_add(bench: Any) -> None:
    """v_mad_u64_u32 and v_mad_i64_i32: 64-bit results, and the carry."""
    rng = np.random.default_rng(5)
    a, b, low, high = rng.integers(0, 1 << 32, (4, 64), dtype=np.uint64).astype(np.uint32)
    body = """
      v_mad_u64_u32 v[20:21], s[20:21], v8, v9, v[10:11]
      v_mad_i64_i32 v[22:23], s[22:23], v8, v9, v[10:11]
      v_cndmask_b32_e64 v24, 0, 1, s[20:21]"""
    rows = bench.run(body, [a, b, low, high], ["v20", "v21", "v22", "v23", "v24"])

    def signed(x: int, bits: int) -> int:
        return x - (1 << bits) if x >> (bits - 1) else x

    for lane in range(64):
        x, y = int(a[lane]), int(b[lane])
        c = int(low[lane]) | int(high[lane]) << 32
        total = x * y + c
        assert int(rows[0, lane]) | int(rows[1, lane]) << 32 == total & (1 << 64) - 1
        assert rows[4, lane] == total >> 64
        other = signed(x, 32) * signed(y, 32) + c & (1 << 64) - 1
        assert int(rows[2, lane]) | int(rows[3, lane]) << 32 == other
