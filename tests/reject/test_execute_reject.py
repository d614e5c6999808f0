"""What the executor refuses, and in which words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipeloom import CompiledSchedule, ConfigError, build_schedule
from pipeloom.judge.execute import (
    Hold,
    Land,
    Moment,
    RunTo,
    dry_run,
    execute,
    operands,
    provoke,
    replay,
    sample_mutants,
)
from pipeloom.reference.kernels import FourWaveKernel, LdsRead, Part, Region, Step
from pipeloom.reference.kernels.interface import Effect


@pytest.fixture(scope="module")
def compiled() -> CompiledSchedule:
    return build_schedule("four_wave")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trips": -1}, r"execute\.trips is -1, but must be at least 0"),
        ({"trips": 1.0}, r"execute\.trips is 1\.0, but must be an integer"),
        ({"trips": True}, r"execute\.trips is True, but must be an integer"),
        ({"timing": "lat"}, r"unknown timing 'lat'(?s:.)*did you mean 'late'\?"),
        ({"timing": None}, "unknown timing None"),
        ({"order": "backward"}, r"unknown order 'backward'(?s:.)*valid|did you mean"),
        ({"order": (0, 1, 2)}, r"order \(0, 1, 2\) is not a permutation of the waves 0 to 3"),
        ({"order": (0, 1, 2, 2)}, r"order \(0, 1, 2, 2\) is not a permutation"),
        ({"seed": -3}, r"execute\.seed is -3, but must be at least 0"),
        ({"undefined": "zero"}, r"undefined is 'zero', but must be 'poison' or 'memory'"),
        ({"undefined": "memory"}, r"timing 'worst' looks at every moment at once"),
    ],
)
def test_arguments_of_a_run(
    compiled: CompiledSchedule, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        dry_run(compiled, **{"trips": 1, **arguments})


def test_something_that_is_not_a_schedule() -> None:
    wrong: Any = "four_wave"
    with pytest.raises(ConfigError, match=r"execute\.compiled is 'four_wave'"):
        dry_run(wrong, trips=0)


def test_something_that_is_not_a_kernel(compiled: CompiledSchedule) -> None:
    wrong: Any = "ping_pong"
    with pytest.raises(ConfigError, match=r"is 'ping_pong', but must be of type Kernel"):
        dry_run(compiled, trips=0, kernel=wrong)


def test_a_schedule_without_a_kernel(compiled: CompiledSchedule) -> None:
    with pytest.raises(ConfigError, match="no kernel model is known for schedule 'mine'"):
        dry_run(replace(compiled, schedule="mine"), trips=0)


def _zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype=np.int64)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([[1]], _zeros(4, 8), r"execute\.a is list, but must be an integer NumPy array"),
        (_zeros(4, 8) * 0.5, _zeros(4, 8), r"execute\.a is float64, but must be an integer"),
        (_zeros(4, 8), _zeros(8), r"execute\.b has shape \(8,\), but must have two dimensions"),
        (_zeros(4, 8), _zeros(4, 16), "a has K = 8, but b has K = 16"),
        (_zeros(4, 12), _zeros(4, 12), r"K = 12 is not 2 tiles \(trips = 0\) of a multiple of 4"),
        (_zeros(4, 0), _zeros(4, 0), "K = 0 is not 2 tiles"),
        (_zeros(6, 8), _zeros(4, 8), "a has 6 rows, but the four_wave kernel cuts them into 4"),
        (_zeros(4, 8), _zeros(0, 8), "b has 0 rows, but the four_wave kernel cuts them into 4"),
        (_zeros(4, 8) + 2**30, _zeros(4, 8) - 2**30, "past what is exact"),
    ],
)
def test_operands_that_do_not_fit(compiled: CompiledSchedule, a: Any, b: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        execute(compiled, a, b, trips=0)


class _Elsewhere(FourWaveKernel):
    """A kernel whose LDS holds operands of another name."""

    def effect(self, step: Step, wave: int) -> Effect:
        effect = super().effect(step, wave)
        return replace(
            effect,
            lds_writes=tuple(Region("X", r.stage, r.half) for r in effect.lds_writes),
            lds_reads=tuple(LdsRead(Region("X", 0, 0), Part(0, 1)) for _ in effect.lds_reads),
        )


def test_arrays_for_a_kernel_with_other_operands(compiled: CompiledSchedule) -> None:
    kernel = _Elsewhere.for_schedule(compiled)
    with pytest.raises(ConfigError, match=r"on arrays: its regions name operands X(?s:.)*dry_run"):
        operands(compiled, trips=0, kernel=kernel)
    assert not dry_run(compiled, trips=0, kernel=kernel).correct


@pytest.mark.parametrize(
    ("script", "timing", "message"),
    [
        (["run"], "late", "'run' is not a directive(?s:.)*RunTo, RunThrough, Hold or Land"),
        ([RunTo(4, 0)], "late", r"replay\.wave is 4, but must be between 0 and 3"),
        ([Hold(0, 999)], "late", r"replay\.step is 999, but must be between 0 and"),
        ([Land(0, 0, Moment.LATE)], "worst", "timing 'worst' looks at every moment"),
        ([Land(0, 8, Moment.LATE)], "late", "wave 0 step 8 is never in flight"),
    ],
)
def test_scripts_that_make_no_sense(
    compiled: CompiledSchedule, script: Any, timing: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        replay(compiled, script, trips=0, timing=timing)


def test_provoke_wants_two_data_ops(compiled: CompiledSchedule) -> None:
    with pytest.raises(ConfigError, match="wave 1 step 8 is a wait, a barrier or a fence") as info:
        provoke(compiled, trips=0, first=(0, 0), second=(1, 8))
    assert info.value.field == "provoke.second"
    with pytest.raises(ConfigError, match="wave 0 step 9 is a wait"):
        provoke(compiled, trips=0, first=(0, 9), second=(1, 0))


def test_provoke_wants_pairs(compiled: CompiledSchedule) -> None:
    wrong: Any = 5
    with pytest.raises(ConfigError, match=r"provoke\.first is 5, but must be a pair"):
        provoke(compiled, trips=0, first=wrong, second=(0, 1))


def test_a_negative_number_of_mutants(compiled: CompiledSchedule) -> None:
    with pytest.raises(ConfigError, match=r"sample_mutants\.count is -1"):
        sample_mutants(compiled, -1)
