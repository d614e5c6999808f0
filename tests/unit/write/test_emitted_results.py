"""Emitted kernels compute the right matrix, whatever the timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeloom import ScheduleConfig, SchedulingStrategy, compile_schedule
from pipeloom.drive.trial import Data, Launchable, run_gemm
from pipeloom.judge.emulate import Timing
from pipeloom.judge.emulate.lds import Footprint, LocalMemory
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules.ping_pong import PingPongSpec
from pipeloom.reference.schedules.spec_parts import GeometrySpec
from pipeloom.write import CHIPS, assemble, count_conflicts, emit_kernel

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


@pytest.mark.parametrize(
    ("name", "shape", "target"),
    [
        ("ping_pong", (128, 128, 64, 16, 32), "gfx950"),
        ("four_wave", (256, 256, 64, 32, 16), "gfx950"),
        ("single_buffer", (64, 64, 64, 16, 0), "gfx942"),
        ("single_buffer", (64, 64, 64, 32, 0), "gfx950"),
    ],
)
def test_lds_accesses_of_a_run_never_conflict(
    built: Built,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    shape: tuple[int, int, int, int, int],
    target: str,
) -> None:
    """Not the layout on paper: the addresses that the machine code computes."""
    seen: list[int] = []
    load, store = LocalMemory.load, LocalMemory.store

    def watch(footprint: Footprint) -> None:
        seen.append(count_conflicts(footprint.addresses.tolist(), CHIPS[target]))

    def watched_load(self: LocalMemory, footprint: Footprint) -> Any:
        watch(footprint)
        return load(self, footprint)

    def watched_store(self: LocalMemory, footprint: Footprint, values: Any) -> None:
        watch(footprint)
        store(self, footprint, values)

    monkeypatch.setattr(LocalMemory, "load", watched_load)
    monkeypatch.setattr(LocalMemory, "store", watched_store)
    ready = built(name, "bf16", shape, target)
    trial = run_gemm(ready.emitted, ready, M=shape[0], N=shape[1], K=2 * shape[2], seed=1)
    assert trial.ok, trial.summary()
    assert len(seen) >= 64
    assert sum(seen) == 0


KNOBS: list[dict[str, Any]] = [
    {"scheduling": SchedulingStrategy.IDENTITY},
    {"scheduling": SchedulingStrategy.GREEDY},
    {"global_before_frag": True},
    {"barrier_before_pre_ops": True, "lgkm_after_last": True},
]


@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_other_orders_of_the_same_ops(knobs: dict[str, Any]) -> None:
    """The emitter follows whatever order a strategy found, not one it knows."""
    tile = GeometrySpec(BM=128, BN=128, BK=64, MMA_K=32, elem_bytes=2)
    spec = PingPongSpec(geometry=tile, schedule_config=ScheduleConfig(**knobs))
    emitted = emit_kernel(synchronize(compile_schedule(spec.build()), reorder=True))
    trial = run_gemm(emitted, assemble(emitted), M=128, N=128, K=384, seed=4)
    assert trial.ok, trial.summary()
