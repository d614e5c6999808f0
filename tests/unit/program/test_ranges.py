"""What an op gives lies in the range that is said of it: checked with NumPy on awkward numbers."""

from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
import pytest

from pipeloom.machine.dtypes import (
    BF8_FNUZ,
    BF16,
    BOOL,
    DTYPES,
    F32,
    F64,
    FP8,
    FP16,
    I8,
    MXFP8,
    DType,
)
from pipeloom.program.ranges import ANYTHING, Range, exactly, held, result, stored
from pipeloom.program.vocabulary import VOCABULARY, OpDef

LARGEST = F32.largest
AWKWARD = (0.0, 1.0, 2.0**-126, 2.0**-140, 1e-30, 0.1, 3.0, 127.9, 128.5, 1e30, LARGEST, inf)
NUMBERS = sorted({float(np.float32(x)) for y in AWKWARD for x in (y, -y)})


def inside(value: float, range_: Range) -> bool:
    return range_.nan if isnan(value) else range_.low <= value <= range_.high


@pytest.mark.parametrize("op", list(VOCABULARY), ids=lambda op: op.name)
def test_results_lie_in_their_range(op: OpDef) -> None:
    rng = np.random.default_rng(len(op.name))
    for _ in range(400):
        operands, samples = [], []
        for _ in range(op.arity):
            low, high = sorted(rng.choice(NUMBERS, 2))
            range_ = Range(float(low), float(high), bool(rng.random() < 0.2))
            drawn = [x for x in NUMBERS if low <= x <= high] + ([nan] if range_.nan else [])
            operands.append(range_)
            samples.append(rng.choice(drawn, 12).astype(np.float32))
        with np.errstate(all="ignore"):
            found = op.function(*samples)
        said = result(op.name, operands, 1)
        for value in np.asarray(found, np.float32):
            assert inside(float(value), said), (op.name, operands, samples, value, said)


@pytest.mark.parametrize("op", ["sum", "sum_squares", "amax", "amin"])
def test_reductions_lie_in_their_range(op: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        low, high = sorted(rng.choice(NUMBERS, 2))
        drawn = rng.choice([x for x in NUMBERS if low <= x <= high], 7).astype(np.float32)
        with np.errstate(all="ignore"):
            found = VOCABULARY[op].apply(drawn, over=(0,))
        said = result(op, [Range(float(low), float(high))], 7)
        assert inside(float(found), said), (low, high, drawn, found, said)


@pytest.mark.parametrize(("low", "high"), [(-3.0, 1000.0), (0.25, 7.0), (-1e30, -1e-30)])
@pytest.mark.parametrize("count", [2, 7, 4096])
def test_a_sum_is_no_wider_than_its_rounding(low: float, high: float, count: int) -> None:
    said = result("sum", [Range(low, high)], count)
    slack = 1 + count * 2.0**-22
    assert abs(said.low) <= abs(count * low) * slack
    assert abs(said.high) <= abs(count * high) * slack


@pytest.mark.parametrize(
    ("op", "operands", "said"),
    [
        ("mul", (exactly(0), Range(0, inf)), Range(0, 0, nan=True)),
        ("mul", (exactly(0), Range(0, 1e30)), exactly(0)),
        ("exp2", (exactly(-inf),), exactly(0)),
        ("exp2", (Range(-3, 200),), Range(0.125 * (1 - 2**-20), inf)),
        ("rcp", (exactly(0),), exactly(inf)),
        ("div", (exactly(0), Range(1, 2)), exactly(0)),
        ("div", (exactly(0), Range(0, 2)), Range(0, inf, nan=True)),
        ("sub", (exactly(-inf), Range(-1, 1)), exactly(-inf)),
        ("sub", (exactly(-inf), Range(-inf, 1)), Range(-inf, inf, nan=True)),
        ("fma", (exactly(-inf), Range(1, 2), Range(-inf, 1e38)), exactly(-inf)),
        ("max", (exactly(-1e30), ANYTHING), Range(float(np.float32(-1e30)), inf)),
        ("gt", (exactly(-inf), ANYTHING), exactly(0)),
        ("ge", (Range(-4, 0), exactly(1)), exactly(0)),
        ("ge", (Range(1, 9), exactly(1)), exactly(1)),
        ("gt", (Range(1, 9), exactly(1)), Range(0, 1)),
        ("gt", (Range(2, 9, nan=True), exactly(1)), Range(0, 1)),
        ("eq", (exactly(2), exactly(2)), exactly(1)),
        ("eq", (exactly(2), Range(3, 4)), exactly(0)),
    ],
)
def test_what_is_known_exactly(op: str, operands: tuple[Range, ...], said: Range) -> None:
    found = result(op, operands, 1)
    assert (np.float32(found.low), np.float32(found.high)) == (
        np.float32(said.low),
        np.float32(said.high),
    )
    assert found.nan == said.nan


def test_sums_of_whole_numbers_are_exact_and_others_depend_on_their_order() -> None:
    assert result("sum", [exactly(3)], 100) == exactly(300)
    tenths = result("sum", [exactly(0.1)], 100)
    assert tenths.low < 10 < tenths.high
    assert result("sum", [exactly(2.0**20 + 1)], 100).number is None
    assert result("sum", [Range(-1e38, 1e38)], 100) == ANYTHING  # infinity less infinity
    assert result("sum", [Range(0, 1e38)], 100) == Range(0, inf)


def test_an_op_that_is_not_of_ours_gives_anything() -> None:
    assert result("acme.relu", [exactly(1)], 1) == ANYTHING


@pytest.mark.parametrize(
    ("dtype", "value", "said"),
    [
        (FP16, Range(0, 7e4), Range(0, inf)),
        (FP8, Range(-7e4, 7e4), Range(-448, 448)),
        (BF8_FNUZ, Range(0, inf), Range(0, BF8_FNUZ.largest)),
        (BF16, Range(0, LARGEST), Range(0, inf)),
        (I8, Range(-300, 300), Range(-128, 127)),
        (BOOL, Range(-3, 0.5), Range(0, 1)),
        (BOOL, Range(3, 4, nan=True), exactly(1)),
        (BOOL, exactly(0), exactly(0)),
        (MXFP8, Range(0, 1), ANYTHING),
        (F64, Range(0, 1), ANYTHING),
        (I8, ANYTHING, ANYTHING),
    ],
)
def test_what_a_type_makes_of_it(dtype: DType, value: Range, said: Range) -> None:
    assert stored(dtype, value) == said


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_what_arrays_hold(dtype: DType) -> None:
    whole = held(dtype, finite=True)
    if dtype.bits <= 32:
        assert not whole.nan
        assert not whole.infinite
    if dtype.exponent and dtype.bits <= 16 and dtype.scale is None:
        codes = dtype.decode(np.arange(1 << dtype.bits).astype(np.uint16))
        finite = codes[np.isfinite(codes)]
        assert (finite.min() if not dtype.unsigned else 0, finite.max()) == (whole.low, whole.high)
        assert held(dtype, finite=False).nan == bool(np.isnan(codes).any())


def test_what_goes_on_without_end_goes_only_where_it_went() -> None:
    before = Range(0.0, 5.0)
    assert before.beyond(before) == before
    assert Range(0.0, 6.0).beyond(before) == Range(0.0, float("inf"))
    assert Range(-1.0, 5.0, nan=True).beyond(before) == Range(float("-inf"), 5.0, nan=True)
