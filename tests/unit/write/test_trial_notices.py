"""The trial itself: a kernel that computes or stores wrong is called wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pipeloom.declare.products import product
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.sync import synchronize
from pipeloom.write import EmitError, assemble, emit_program
from tests.unit.write.kernels import run

SHAPE = (64, 64, 64, 16, 32)


def tampered(ready: Launchable, pattern: str, count: int) -> Launchable:
    """The kernel with the first ``count`` matching instructions replaced by s_nop."""
    text, done = re.subn(pattern, "s_nop 0", ready.emitted.text, count=count)
    assert done == (count or done) > 0
    emitted = replace(ready.emitted, text=text)
    return Launchable.load(emitted, assemble(emitted))


@pytest.mark.parametrize("data", list(Data))
def test_a_missing_multiplication(built: Callable[..., Launchable], data: Data) -> None:
    bad = tampered(built("single_buffer", "bf16", SHAPE), r"v_mfma\w+ .*", 1)
    trial = run(bad, 64, 64, 1, seed=1, data=data)
    assert not trial.ok
    assert trial.wrong["out"] > 100
    assert not trial.spoilt
    assert f"WRONG: {trial.wrong['out']} elements of out wrong" in trial.summary()


def test_where_every_sum_may_overflow_nothing_is_called_correct(
    built: Callable[..., Launchable],
) -> None:
    signs = np.where(np.arange(64) % 2, 1, -1).astype(np.float32)
    ready = built("single_buffer", "bf16", SHAPE)
    a, b = np.full((64, 128), 2.0**127, np.float32), np.tile(signs, (64, 2))
    trial = run(ready, 64, 64, 0, arrays={"A": a, "B": b})
    assert not trial.ok
    assert trial.untested == ("out",)
    assert "WRONG" not in trial.summary()
    assert "correct" not in trial.summary()
    a[0] = 1
    trial = run(ready, 64, 64, 0, arrays={"A": a, "B": b})
    assert trial.ok
    assert trial.unbounded == {"out": 63 * 64}
    assert "4032 elements unbounded" in trial.summary()


def test_writing_past_the_last_column(built: Callable[..., Launchable]) -> None:
    bad = tampered(built("single_buffer", "bf16", SHAPE), r"v_cndmask.*", 0)
    trial = run(bad, 64, 60, 0, seed=1)
    assert trial.spoilt > 0
    assert "bytes written outside the outputs" in trial.summary()


def test_a_finding_names_the_entry(built: Callable[..., Launchable]) -> None:
    bad = tampered(built("single_buffer", "bf16", SHAPE), r"s_waitcnt vmcnt\(0\)(?! l)", 1)
    trial = run(bad, 64, 64, 0, seed=1)
    assert not trial.ok
    assert "finding(s), first: " in trial.summary()
    assert re.search(r"\[prologue\[\d+\] store ", trial.summary())


def test_a_size_that_does_not_fit(built: Callable[..., Launchable]) -> None:
    ready = built("single_buffer", "bf16", SHAPE)
    with pytest.raises(EmitError, match="the size along 'm' is -1"):
        run(ready, -1, 8)


@pytest.mark.parametrize("dtype", ["fp8", "fp4"])
def test_block_scales_lie_as_kernels_take_them(dtype: str) -> None:
    """One code for 32 elements: a right kernel is called right."""
    loop = product(16, 16, 128, dtype, "f32", blocks=True)
    emitted = emit_program(synchronize(arrange(loop, GFX950, 1, strategy=in_order).program))
    sizes = {"m": 21, "n": 13, "k": emitted.launch.least + emitted.launch.step}
    trial = run_program(emitted, assemble(emitted), sizes=sizes, spare={"blocks_A": 3})
    assert trial.ok, trial.summary()


def test_numbers_that_are_not_whole_need_no_word(built: Callable[..., Launchable]) -> None:
    """How near results must be follows from the arrays, and a word about data changes nothing."""
    ready = built("single_buffer", "bf16", SHAPE, "gfx950", "f32")
    rng = np.random.default_rng(2)
    depth = ready.emitted.k_min + 4 * ready.emitted.k_step
    arrays = {name: rng.standard_normal((64, depth)) for name in "AB"}
    trial = run(ready, 64, 64, 4, arrays=arrays)
    assert trial.ok, trial.summary()
    assert 0 < trial.worst <= 1
