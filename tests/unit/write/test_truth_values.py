"""Truth values in numbers, numbers as truth values, and integers, which vector ops do not know."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pipeloom import pipeline
from pipeloom.declare import Loop, Tensor, where
from pipeloom.drive.trial import Data, run_program
from pipeloom.errors import ConfigError, GraphError
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import BF16, BOOL, F32, I32, DType
from pipeloom.order.strategy import Exact
from pipeloom.program import Program
from pipeloom.write import assemble, emit_program

pytestmark = pytest.mark.usefixtures("short_search")

SIZES = {"b": 2, "k": 3, "n": 256}


def rows(value: Callable[[Tensor], Tensor], dtype: DType = F32) -> Loop:
    loop = Loop("rows", over="k")
    loop.store("out", value(loop.stream("X", dtype, b=1, k=1, n=256)))
    return loop


def program_of(loop: Loop) -> Program:
    return pipeline(loop, target_for("gfx950"), 1, stages=2, strategy=Exact(1.0))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda x: (x > 0) * x + (x > 1), id="arithmetic"),
        pytest.param(lambda x: (x > 0).sum("n") + ((x > 0) > (x > 1)) - x, id="counted, compared"),
        pytest.param(lambda x: where((x > 0).any("n"), (x >= 1).to(BF16).to(F32), x), id="chosen"),
    ],
)
def test_a_truth_value_is_1_or_0(value: Callable[[Tensor], Tensor]) -> None:
    kernel = emit_program(program_of(rows(value)))
    assert run_program(kernel, assemble(kernel), sizes=SIZES).summary().endswith("instructions)")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (lambda x: where(x, 1.0, x), "takes 'X' for a truth value"),
        (lambda x: where(x.any("n"), 1.0, x), "takes 'X' for a truth value"),
        (lambda x: x.to(BOOL).to(F32), "'convert' gives numbers"),
    ],
)
def test_a_number_is_none(value: Callable[[Tensor], Tensor], match: str) -> None:
    """-0.0 is no truth, and has a bit set."""
    with pytest.raises(GraphError, match=match):
        _ = rows(value).meaning


def test_a_condition_is_a_truth_value() -> None:
    loop = Loop("rows", over="k")
    x = loop.stream("X", F32, b=1, k=1, n=256)
    with pytest.raises(GraphError, match="takes 'X' for a truth value"), loop.when(x):
        pass


def test_sums_in_integers_are_refused() -> None:
    """Elements are converted one by one; what is added up on the way is f32."""
    loop = Loop("rows", over="k")
    x = loop.stream("X", F32, b=1, k=1, n=256)
    loop.store("out", loop.apply("sum", x, over=("n",), dtype=I32))
    with pytest.raises(ConfigError, match="computes in f32"):
        program_of(loop)


def test_a_nan_does_not_hide_how_near_the_others_are() -> None:
    """Results of the slow unit are near; one NaN among them must not make all of them wrong."""
    loop = rows(lambda x: 1.0 / x)
    kernel = emit_program(program_of(loop))
    x = np.random.default_rng(0).standard_normal((2, 3, 256)).astype(np.float32)
    x[0, 0, :2] = np.nan, 0.1
    arrays = {"X": x}
    assert run_program(kernel, assemble(kernel), sizes=SIZES, arrays=arrays, data=Data.NORMAL).ok
