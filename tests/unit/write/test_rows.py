"""Softmax and RMS norm of rows: any number of rows, any number of columns up to the tile."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from pipeloom import pipeline
from pipeloom.declare import Loop
from pipeloom.declare.rows import rms_norm, softmax
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.errors import ConfigError
from pipeloom.judge.execute import Executor
from pipeloom.judge.verify import Status, verify
from pipeloom.machine.chips import target_for
from pipeloom.order.strategy import Exact
from pipeloom.program import Program, Wait
from pipeloom.write import EmitError, assemble, emit_program
from tests.unit.write.kernels import wave_through
from tests.unit.write.test_fused import without

pytestmark = pytest.mark.usefixtures("short_search")

Array = np.ndarray[Any, Any]
KERNELS = {"softmax": softmax, "rms_norm": rms_norm}
COLUMNS = 256


@cache
def program_of(what: str, arch: str, dtype: str = "bf16") -> Program:
    loop: Loop = KERNELS[what](COLUMNS, 4, dtype, dtype)
    return pipeline(loop, target_for(arch), 4, stages=2, strategy=Exact(1.0))


def ready(program: Program) -> Launchable:
    emitted = emit_program(program, judge=wave_through)
    return Launchable.load(emitted, assemble(emitted))


@cache
def built(what: str, arch: str, dtype: str = "bf16") -> Launchable:
    assert verify(program_of(what, arch, dtype)).status is Status.PROVED
    return ready(program_of(what, arch, dtype))


def run(kernel: Launchable, b: int, r: int, n: int, **options: Any) -> Any:
    """Rows of X are padded to whole words, where their elements have half of one."""
    sizes = {"b": b, "r": r, "n": n}
    return run_program(kernel.emitted, kernel, sizes=sizes, spare={"X": n % 2}, **options)


def softmaxed(x: Array) -> Array:
    weights: Array = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


@pytest.mark.parametrize(("b", "r", "n"), [(2, 9, 256), (3, 1, 250), (1, 14, 7), (2, 5, 1)])
def test_what_they_mean(b: int, r: int, n: int) -> None:
    random = np.random.default_rng(n)
    x = random.standard_normal((b, r, n)) * 30
    got = softmax(COLUMNS, 4, "f32", "f32").evaluate(X=x)["out"]
    np.testing.assert_allclose(got, softmaxed(x.astype(np.float32)), 1e-4, 1e-7)
    weight = random.standard_normal(n)
    got = rms_norm(COLUMNS, 4, "f32", "f32").evaluate(X=x, weight=weight)["out"]
    wanted = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-6)


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("what", KERNELS)
def test_they_run(what: str, arch: str) -> None:
    """Fewer rows than the pipeline is deep, rows past the end of a block, odd columns."""
    kernel = built(what, arch)
    for seed, (b, r, n) in enumerate(((2, 9, 256), (3, 1, 250), (1, 14, 7), (2, 5, 131))):
        trial = run(kernel, b, r, n, seed=seed, data=list(Data)[seed % 2])
        assert trial.ok, trial.summary()


def test_single_precision() -> None:
    trial = run(built("softmax", "gfx950", "f32"), 2, 9, 131, seed=1, data=Data.NORMAL)
    assert trial.ok, trial.summary()


@pytest.mark.parametrize("peak", [10.0, 100.0, 3e4, -3e4])
@pytest.mark.parametrize("at", [0, 130, 199])
def test_one_element_far_from_the_rest(peak: float, at: int) -> None:
    x = np.zeros((2, 5, 200))
    x[..., at] = peak
    x[1] = peak
    trial = run(built("softmax", "gfx950"), 2, 5, 200, seed=at, arrays={"X": x})
    assert trial.ok, trial.summary()
    wanted = softmaxed(x)
    got = softmax(COLUMNS).evaluate(X=x)["out"]
    np.testing.assert_allclose(got, wanted, 2**-8, 2**-9)


def test_rows_longer_than_the_tile_are_refused() -> None:
    """A workgroup would normalise a part of a row by that part's sum."""
    with pytest.raises(ConfigError, match="first 256"):
        softmax(COLUMNS).evaluate(X=np.zeros((1, 4, 257)))
    with pytest.raises(ConfigError, match="first 256"):
        run(built("softmax", "gfx950"), 1, 4, 257)


def test_rows_that_are_no_whole_words_are_refused() -> None:
    kernel = built("softmax", "gfx950")
    with pytest.raises(EmitError, match="4-byte aligned"):
        run_program(kernel.emitted, kernel, sizes={"b": 1, "r": 4, "n": 7}, spare={"X": 0})
    assert run_program(kernel.emitted, kernel, sizes={"b": 1, "r": 4, "n": 7}).ok


@pytest.mark.parametrize("what", KERNELS)
def test_every_wait_that_is_taken_away_is_noticed(what: str) -> None:
    program = program_of(what, "gfx950")
    places = [
        (g, at, slot)
        for g, group in enumerate(program.groups)
        for at, section in enumerate(group.sections)
        for slot, step in enumerate(section.steps)
        if isinstance(step, Wait)
    ]
    assert places
    for place in places:
        weakened = without(program, *place)
        assert verify(weakened).status is not Status.PROVED
        kernel = ready(weakened)
        trials = (run(kernel, 1, 20, 256, seed=seed) for seed in range(4))
        assert any(trial.findings for trial in trials), place


@pytest.mark.parametrize("what", KERNELS)
def test_the_executor_agrees(what: str) -> None:
    executor = Executor(program_of(what, "gfx950"))
    for seed in range(3):
        assert executor.run(trips=2, policy="random", order="random", seed=seed).correct
