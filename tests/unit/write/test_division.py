"""Division as it is emitted, against NumPy's in double precision: any numbers, denormals too."""

from __future__ import annotations

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import run_program
from pipeloom.judge.verify import verify
from pipeloom.machine.dtypes import F32
from pipeloom.write import emit_program
from tests.unit.write.kernels import ready

pytestmark = pytest.mark.usefixtures("short_search")

COLUMNS = 256
AWKWARD = np.array(
    [
        0.0,
        -0.0,
        2.0**-149,
        -(2.0**-149),
        3 * 2.0**-149,
        1.5 * 2.0**-127,
        2.0**-126 - 2.0**-149,
        2.0**-126,
        0.1,
        1.0,
        -1.0,
        3.0,
        1.5 * 2.0**127,
        F32.largest,
        np.inf,
        np.nan,
    ],
    np.float32,
)


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Every pair of awkward numbers; any bits; denormals over what makes them normal."""
    rng = np.random.default_rng(3)
    pairs = [np.array(np.meshgrid(AWKWARD, AWKWARD), np.float32).reshape(2, -1)]
    pairs += list(rng.integers(0, 1 << 32, (4, 2, COLUMNS), np.uint64).astype(np.uint32).view("f4"))
    small = rng.integers(0, 1 << 23, (4, COLUMNS), np.uint64).astype(np.uint32).view("f4")
    powers = np.ldexp(rng.uniform(0.5, 2, (4, COLUMNS)), rng.integers(-145, -90, (4, COLUMNS)))
    pairs += [np.stack(pair) for pair in zip(small, powers.astype(np.float32), strict=True)]
    rows = np.stack(pairs, axis=1)
    return rows[0], rows[1]


@pytest.mark.parametrize("chip", ["gfx950", "gfx942"])
def test_right_to_two_units_in_the_last_place(chip: str) -> None:
    loop = Loop("divide", over="r")
    a, b = (loop.stream(name, F32, b=1, r=1, n=COLUMNS) for name in "AB")
    loop.store("out", a / b)
    kernel = ready(emit_program(pipeline(loop, chip, 1, stages=1), judge=verify))
    top, bottom = operands()
    sizes = {"b": 1, "r": len(top), "n": COLUMNS}
    given = {"A": top[None], "B": bottom[None]}
    got = run_program(kernel.emitted, kernel, sizes=sizes, arrays=given).outputs["out"][0]
    with np.errstate(all="ignore"):
        expected = (top.astype(np.float64) / bottom).astype(np.float32)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    units = np.abs(got.view(np.int32).astype(np.int64) - expected.view(np.int32))
    close = same | (np.isfinite(got) & np.isfinite(expected) & (units <= 2))
    assert close.all(), (top[~close], bottom[~close], got[~close], expected[~close])
