"""Emitted kernels compute the right matrix, whatever the timing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.emulate import Timing
from pipeloom.trial import Data, Launchable, run_gemm

Built = Callable[..., Launchable]

DOUBLE = [
    ("bf16", (128, 128, 64, 16, 32)),
    ("bf16", (256, 256, 64, 32, 16)),
    ("fp16", (128, 256, 64, 16, 32)),
    ("fp16", (256, 128, 64, 16, 32)),
    ("fp8", (128, 128, 128, 16, 128)),
    ("fp8", (256, 256, 128, 32, 64)),
]
SINGLE = [
    ("gfx942", "bf16", (128, 128, 64, 16, 0)),
    ("gfx942", "fp16", (64, 128, 64, 32, 0)),
    ("gfx942", "fp8", (64, 64, 128, 16, 0)),
    ("gfx950", "bf16", (64, 64, 64, 16, 0)),
    ("gfx950", "fp16", (128, 64, 64, 16, 0)),
    ("gfx950", "fp8", (64, 64, 256, 32, 0)),
]


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
@pytest.mark.parametrize(("dtype", "shape"), DOUBLE, ids=str)
def test_double_buffered(
    built: Built, name: str, dtype: str, shape: tuple[int, int, int, int, int]
) -> None:
    ready = built(name, dtype, shape)
    bm, bn, bk, *_ = shape
    for seed, (trips, less) in enumerate([(0, 0), (1, 3), (2, 0)]):
        trial = run_gemm(
            ready.emitted, ready, M=bm - less, N=bn - less, K=bk * 2 * (trips + 1), seed=seed
        )
        assert trial.ok, trial.summary()


@pytest.mark.parametrize(("target", "dtype", "shape"), SINGLE, ids=str)
def test_single_buffer(
    built: Built, target: str, dtype: str, shape: tuple[int, int, int, int, int]
) -> None:
    ready = built("single_buffer", dtype, shape, target)
    bm, bn, bk, *_ = shape
    for seed, (trips, less) in enumerate([(0, 1), (1, 0), (5, 8)]):
        trial = run_gemm(
            ready.emitted, ready, M=bm - less, N=bn - less, K=bk * (trips + 2), seed=seed
        )
        assert trial.ok, trial.summary()


@pytest.mark.parametrize("out_dtype", ["bf16", "fp16", "f32"])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_every_output_type_rounds_right(built: Built, target: str, out_dtype: str) -> None:
    ready = built("single_buffer", "fp16", (64, 64, 64, 16, 0), target, out_dtype)
    for spare in (4, 3):  # four columns at a time, and one by one
        trial = run_gemm(
            ready.emitted,
            ready,
            M=64,
            N=64,
            K=192,
            data=Data.NORMAL,
            seed=spare,
            spare_columns=spare,
        )
        assert trial.ok, trial.summary()
        assert 0 < trial.worst <= 1


def test_accumulators_in_vgprs(built: Built) -> None:
    ready = built("four_wave", "bf16", (128, 128, 64, 16, 32), "gfx950", None, "vgpr")
    assert ready.emitted.resources.agprs == 0
    trial = run_gemm(ready.emitted, ready, M=128, N=120, K=256, seed=5)
    assert trial.ok, trial.summary()


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
@pytest.mark.parametrize("timing", list(Timing))
def test_several_workgroups_under_each_timing(built: Built, name: str, timing: Timing) -> None:
    ready = built(name, "bf16", (128, 128, 64, 16, 32))
    trial = run_gemm(ready.emitted, ready, M=130, N=260, K=256, seed=11, timing=timing)
    assert trial.ok, trial.summary()


def test_a_result_of_one_element(built: Built) -> None:
    ready = built("single_buffer", "bf16", (64, 64, 64, 16, 0))
    trial = run_gemm(ready.emitted, ready, M=1, N=1, K=128, seed=2)
    assert trial.ok, trial.summary()
