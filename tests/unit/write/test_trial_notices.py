"""The trial itself: a kernel that computes or stores wrong is called wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from pipeloom.drive.trial import Data, Launchable, run_gemm, run_timings
from pipeloom.write import EmitError, assemble

SHAPE = (64, 64, 64, 16, 0)


def tampered(ready: Launchable, pattern: str, count: int) -> Launchable:
    """The kernel with the first ``count`` matching instructions replaced by s_nop."""
    text, done = re.subn(pattern, "s_nop 0", ready.emitted.text, count=count)
    assert done == (count or done) > 0
    emitted = replace(ready.emitted, text=text)
    return Launchable.load(emitted, assemble(emitted))


@pytest.mark.parametrize("data", list(Data))
def test_a_missing_multiplication(built: Callable[..., Launchable], data: Data) -> None:
    bad = tampered(built("single_buffer", "bf16", SHAPE), r"v_mfma\w+ a\[0:3\].*", 1)
    trial = run_gemm(bad.emitted, bad, M=64, N=64, K=192, seed=1, data=data)
    assert not trial.ok
    assert trial.wrong > 100
    assert not trial.spoilt
    assert f"WRONG: {trial.wrong} of 4096 elements wrong" in trial.summary()


def test_writing_past_the_last_column(built: Callable[..., Launchable]) -> None:
    bad = tampered(built("single_buffer", "bf16", SHAPE), r"v_cndmask.*", 0)
    trial = run_gemm(bad.emitted, bad, M=64, N=60, K=128, seed=1)
    assert trial.spoilt > 0
    assert "bytes written outside C" in trial.summary()


def test_a_finding_names_the_entry(built: Callable[..., Launchable]) -> None:
    bad = tampered(built("single_buffer", "bf16", SHAPE), r"s_waitcnt vmcnt\(0\)(?! l)", 1)
    trial = run_gemm(bad.emitted, bad, M=64, N=64, K=128, seed=1)
    assert not trial.ok
    assert "finding(s), first: " in trial.summary()
    assert re.search(r"\[prologue\[\d+\] SHARED_STORE", trial.summary())


def test_many_timings_on_one_code(built: Callable[..., Launchable]) -> None:
    emitted = built("single_buffer", "bf16", SHAPE).emitted
    trials = run_timings(emitted, assemble(emitted), M=32, N=16, K=128, seeds=range(3))
    assert [trial.seed for trial in trials] == [0, 1, 2]
    assert all(trial.ok for trial in trials)
    assert "M=32 N=16 K=128 seed 2: correct" in trials[2].summary()


def test_a_size_that_does_not_fit(built: Callable[..., Launchable]) -> None:
    ready = built("single_buffer", "bf16", SHAPE)
    with pytest.raises(EmitError, match="K is 65"):
        run_gemm(ready.emitted, ready, M=8, N=8, K=65)
