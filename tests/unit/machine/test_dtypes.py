"""Element types: rounding, encoding and limits, against NumPy and the emulator's own tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeloom.errors import ConfigError
from pipeloom.judge.emulate.formats import bf16_to_f32, encode_float, f32_to_bf16, float_table
from pipeloom.machine.dtypes import (
    BF6,
    BF8,
    BF8_FNUZ,
    BF16,
    BOOL,
    DTYPES,
    E8M0,
    F32,
    FP4,
    FP6,
    FP8,
    FP8_FNUZ,
    FP16,
    I8,
    MXFP4,
    BlockScale,
    DType,
    Specials,
    dtype_for,
    stored_as,
)
from pipeloom.machine.matrix_ops import F8F6F4

TABLES = {
    "e4m3": FP8,
    "e5m2": BF8,
    "e4m3fnuz": FP8_FNUZ,
    "e5m2fnuz": BF8_FNUZ,
    "e2m1": FP4,
    "e2m3": FP6,
    "e3m2": BF6,
}


def _values(seed: int, low: int = -30, high: int = 30) -> np.ndarray:
    random = np.random.default_rng(seed)
    exponents = np.exp2(random.integers(low, high, 5000))
    return (random.normal(size=5000) * exponents).astype(np.float32)


def test_fp16_rounds_as_numpy_does() -> None:
    x = _values(0)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    assert np.array_equal(FP16.round(x), expected)


def test_bf16_rounds_as_the_emulator_does() -> None:
    x = _values(1, -120, 120)
    assert np.array_equal(BF16.round(x), bf16_to_f32(f32_to_bf16(x)))


@pytest.mark.parametrize("name", TABLES)
def test_every_code_of_a_small_type_means_what_the_emulator_says(name: str) -> None:
    dtype = TABLES[name]
    codes = np.arange(1 << dtype.bits, dtype=np.uint16)
    assert np.array_equal(dtype.decode(codes), float_table(name)[codes], equal_nan=True)


@pytest.mark.parametrize("name", TABLES)
def test_small_types_round_to_the_nearest_value_ties_to_even(name: str) -> None:
    dtype = TABLES[name]
    values = _values(2, -12, 6)
    values = np.clip(values, -dtype.largest, dtype.largest)
    if dtype.bits == 8:
        expected = float_table(name)[encode_float(values, name)]
        assert np.array_equal(dtype.round(values), expected)
    grid = np.sort(float_table(name)[np.isfinite(float_table(name))])
    nearest = np.abs(values[:, None] - grid[None, :]).min(axis=1)
    assert np.array_equal(np.abs(dtype.round(values) - values), nearest.astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_a_type_holds_it_keeps(dtype: DType) -> None:
    once = dtype.round(_values(3, -4, 4)[:4096])
    assert np.array_equal(dtype.round(once), once)
    assert float(np.abs(once[np.isfinite(once)]).max()) <= dtype.largest * 2.0**127


def test_overflow_goes_where_the_type_says() -> None:
    assert FP8.round([1e9, -1e9]).tolist() == [448.0, -448.0]
    assert FP16.round([1e9]).tolist() == [np.inf]
    assert I8.round([300.0, -300.0, 2.5]).tolist() == [127.0, -128.0, 2.0]
    assert BOOL.round([0.0, 0.5, -3.0]).tolist() == [0.0, 1.0, 1.0]


def test_a_nan_is_one_whatever_its_sign() -> None:
    nans = np.array([np.nan, -np.nan], np.float32)
    assert np.signbit(nans).tolist() == [False, True]
    for dtype in (BF16, FP16, FP8, BF8, FP8_FNUZ, BF8_FNUZ):
        assert np.isnan(dtype.round(nans)).all(), dtype


def test_a_type_of_ones_own_is_a_value() -> None:
    e3m0 = DType("fp4_e3m0", exponent=3, mantissa=0, bias=3)
    assert (e3m0.bits, e3m0.largest) == (4, 16.0)
    assert e3m0.round([0.3, 5.0, 100.0]).tolist() == [0.25, 4.0, 16.0]
    assert e3m0.bytes(8) == 4
    with pytest.raises(ConfigError, match="not whole bytes"):
        e3m0.bytes(3)


def test_block_scales_are_powers_of_two_shared_by_a_block() -> None:
    x = _values(4, -8, 8)[:64].reshape(2, 32)
    scales = MXFP4.scales(x)
    assert np.array_equal(np.exp2(np.round(np.log2(scales))), scales)
    assert all(len(set(row)) == 1 for row in scales.tolist())
    assert np.abs(MXFP4.round(x) - x).max() <= (scales.max(axis=1, keepdims=True) * 1.0).max()
    with pytest.raises(ConfigError, match="blocks of 32"):
        MXFP4.round(np.zeros(33, np.float32))


def test_e8m0_is_every_power_of_two_and_covers_a_block() -> None:
    codes = np.arange(256, dtype=np.uint16)
    values = E8M0.decode(codes)
    np.testing.assert_array_equal(values[:255], np.exp2(np.arange(255) - 127.0))
    assert np.isnan(values[255])
    np.testing.assert_array_equal(E8M0.encode(values), codes)
    assert (E8M0.bits, E8M0.bytes(64), E8M0.smallest, E8M0.largest) == (8, 2, 2.0**-127, 2.0**127)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DType("x", 4, 3, covers=0),
        lambda: DType("", 1, 1),
        lambda: DType("x", -1, 1),
        lambda: DType("x", 5, 99),
        lambda: dtype_for("bf17"),
        lambda: F32.encode([1.0]),
    ],
)
def test_bad_types_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigError):
        make()


def test_types_are_found_by_name() -> None:
    assert dtype_for("mxfp4") is MXFP4
    assert dtype_for(BF16) is BF16
    assert MXFP4.scale == BlockScale(32, 8)


def test_the_values_of_a_type_are_doubles() -> None:
    """A bias far off was an OverflowError when the type's largest value was asked for."""
    for dtype in DTYPES:
        for bias in (-(10**9), 10**9, 1024, (1 << dtype.exponent) - 1026):
            with pytest.raises(ConfigError, match="bias"):
                replace(dtype, bias=bias)
    for specials, least in ((Specials.IEEE, -993), (Specials.NONE, -992)):
        edge = DType("x", 5, 2, least, specials)
        assert edge.largest == 1.75 * 2.0**1023
        with pytest.raises(ConfigError, match="bias"):
            replace(edge, bias=least - 1)


def test_formats_of_matrix_instructions_are_the_types_of_their_names() -> None:
    """What a launch stores as fp6, the matrix unit reads as fp6."""
    for narrow in F8F6F4:
        dtype = dtype_for(narrow.dtype)
        assert (dtype.bits, f"e{dtype.exponent}m{dtype.mantissa}") == (narrow.bits, narrow.layout)


def test_what_sums_of_products_are_stored_as() -> None:
    for dtype in (F32, BF16, FP16):
        assert stored_as(dtype) == stored_as(dtype, BF16) == dtype
    for dtype in (FP8, BF8, FP4, MXFP4):
        assert (stored_as(dtype), stored_as(dtype, BF16)) == (F32, BF16)
