"""Kernels of every schedule, type, chip and unusual tile compute the right matrix.

A sample; the whole of it, with many timings: ``python -m evidence.emit_evidence matrix``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom import compile_schedule, load_spec
from pipeloom.declare.kernels import gemm
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.judge.emulate import Timing, run_kernel
from pipeloom.judge.emulate.formats import bf16_to_f32, f32_to_bf16
from pipeloom.judge.emulate.lds_shadow import Footprint, LocalMemory
from pipeloom.machine.chips import target_for
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import woven
from pipeloom.reference.resync import synchronize
from pipeloom.write import EmitError, assemble, count_conflicts, emit_program
from tests.unit.write.kernels import Shape, built_kernel, program_of, ready, run

pytestmark = pytest.mark.usefixtures("short_search")
Floats = npt.NDArray[np.float32]

TILES: list[tuple[str, str, str, Shape]] = [
    ("ping_pong", "gfx950", "bf16", (128, 256, 64, 32, 16)),
    ("ping_pong", "gfx950", "fp8", (384, 128, 128, 16, 128)),
    ("four_wave", "gfx950", "bf16", (64, 64, 256, 16, 32)),
    ("four_wave", "gfx950", "fp16", (192, 64, 64, 16, 32)),
    ("four_wave", "gfx950", "fp8", (128, 128, 64, 32, 64)),
    ("single_buffer", "gfx950", "fp8", (64, 64, 256, 32, 64)),
    ("single_buffer", "gfx942", "fp16", (32, 128, 64, 16, 16)),
    ("single_buffer", "gfx942", "bf16", (64, 64, 128, 32, 8)),
    ("single_buffer", "gfx942", "fp8", (64, 64, 128, 16, 32)),
    ("gemm_tile", "gfx950", "fp8", (64, 128, 128, 16, 128)),
    ("gemm_tile", "gfx942", "bf16", (64, 64, 32, 16, 16)),
    ("gemm_tile_ping_pong", "gfx942", "fp8", (128, 128, 64, 16, 32)),
]


@pytest.mark.parametrize(("name", "target", "dtype", "shape"), TILES, ids=str)
def test_tiles_and_types(name: str, target: str, dtype: str, shape: Shape) -> None:
    """Ragged sizes and none, strides that all differ, NaN between the rows of A and B."""
    kernel = built_kernel(name, dtype, shape, target)
    bm, bn, *_ = shape
    spare = {"A": 16, "B": 80, "out": 13}
    for trial in (
        run(kernel, bm - 5, bn - 3, 1, seed=1, spare=spare),
        run(kernel, bm + 1, 1, 0, seed=2, data=Data.NORMAL),
    ):
        assert trial.ok, trial.summary()


def test_fp4_without_block_scales() -> None:
    loop = gemm(64, 64, 128, "fp4", "f32")
    lowered = lower(loop.meaning, target_for("gfx950"), loop.ops, loop.staged, 4)
    emitted = emit_program(woven(lowered, Pattern(barriers=2)))
    launch = emitted.launch
    sizes = {"m": 59, "n": 61, "k": launch.least + launch.step}
    trial = run_program(emitted, assemble(emitted), sizes=sizes, spare={"A": 32})
    assert trial.ok, trial.summary()


@pytest.mark.parametrize("out", ["bf16", "fp16", "f32"])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_every_output_type_rounds_right(target: str, out: str) -> None:
    shape = (64, 64, 64, 16, 32 if target == "gfx950" else 16)
    kernel = built_kernel("single_buffer", "fp16", shape, target, out)
    for spare in (4, 3):  # four columns at a time, and one by one
        trial = run(kernel, 64, 64, 1, data=Data.NORMAL, seed=spare, spare={"out": spare})
        assert trial.ok, trial.summary()


@pytest.mark.parametrize("timing", list(Timing))
def test_several_workgroups_under_each_timing(timing: Timing) -> None:
    kernel = built_kernel("ping_pong", "bf16", (128, 128, 64, 16, 32))
    trial = run(kernel, 130, 260, 1, seed=11, timing=timing)
    assert trial.ok, trial.summary()


def test_depths_that_do_not_fit() -> None:
    kernel = built_kernel("four_wave", "bf16", (64, 64, 256, 16, 32))
    launch = kernel.emitted.launch
    least, step = launch.least, launch.step
    for depth in (1, least - step // 2, least + 1, least + step // 2):
        with pytest.raises(EmitError, match=f"the size along 'k' is {depth}") as caught:
            launch.check({"m": 8, "n": 8, "k": depth})
        assert (caught.value.hint or "").startswith(f"choose {least} + n * {step}")


KNOBS: list[dict[str, Any]] = [
    {"scheduling": "identity"},
    {"global_before_frag": True},
    {"barrier_before_pre_ops": True, "lgkm_after_last": True},
]


@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_other_orders_of_the_same_ops(knobs: dict[str, Any]) -> None:
    """The writer follows whatever order a strategy found, not one it knows."""
    tile = {"BM": 128, "BN": 128, "BK": 64, "MMA_K": 32, "elem_bytes": 2}
    spec = {"schedule": "ping_pong", "geometry": tile, "schedule_config": knobs}
    compiled = synchronize(compile_schedule(load_spec(spec)), reorder=True)
    trial = run(ready(emit_program(program_of(compiled, "bf16"))), 128, 128, 2, seed=4)
    assert trial.ok, trial.summary()


@pytest.mark.parametrize(
    ("name", "shape", "target"),
    [
        ("ping_pong", (128, 128, 64, 16, 32), "gfx950"),
        ("four_wave", (64, 64, 256, 16, 32), "gfx950"),
        ("single_buffer", (64, 64, 64, 16, 16), "gfx942"),
        ("gemm_tile", (64, 64, 32, 16, 16), "gfx942"),
    ],
)
def test_lds_accesses_of_a_run_never_conflict(
    monkeypatch: pytest.MonkeyPatch, name: str, shape: Shape, target: str
) -> None:
    """Not the layout on paper: the addresses that the machine code computes."""
    seen: list[int] = []
    load, store = LocalMemory.load, LocalMemory.store

    def watch(footprint: Footprint) -> None:
        seen.append(count_conflicts(footprint.addresses.tolist(), target_for(target)))

    def watched_load(self: LocalMemory, footprint: Footprint) -> Any:
        watch(footprint)
        return load(self, footprint)

    def watched_store(self: LocalMemory, footprint: Footprint, values: Any) -> None:
        watch(footprint)
        store(self, footprint, values)

    monkeypatch.setattr(LocalMemory, "load", watched_load)
    monkeypatch.setattr(LocalMemory, "store", watched_store)
    trial = run(built_kernel(name, "bf16", shape, target), shape[0], shape[1], 0, seed=1)
    assert trial.ok, trial.summary()
    assert len(seen) >= 16
    assert sum(seen) == 0


def multiply(kernel: Launchable, a: Floats, b: Floats) -> Floats:
    """C of given bf16 or fp16 data, as f32; no finding."""
    emitted = kernel.emitted

    def encoded(values: Floats) -> npt.NDArray[Any]:
        return f32_to_bf16(values) if emitted.dtype == "bf16" else values.astype(np.float16)

    (m, k), n = a.shape, b.shape[0]
    kind = {"bf16": np.uint16, "fp16": np.float16, "f32": np.float32}[emitted.out_dtype]
    c = np.zeros((m, n), kind)
    result = run_kernel(
        kernel.kernel,
        grid=emitted.launch.grid({"m": m, "n": n, "k": k}),
        block=emitted.block,
        args=[encoded(a), encoded(b), c, m, k, n, k, k, n],
        line_map=kernel.line_map,
    )
    assert result.ok, result.findings
    return bf16_to_f32(c) if emitted.out_dtype == "bf16" else c.astype(np.float32)


@pytest.mark.parametrize("out", ["bf16", "fp16", "f32"])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_special_values_stay_in_their_row_and_column(target: str, out: str) -> None:
    shape = (64, 64, 64, 16, 32 if target == "gfx950" else 16)
    kernel = built_kernel("single_buffer", "bf16", shape, target, out)
    k = kernel.emitted.launch.least
    a, b = np.ones((40, k), np.float32), np.ones((24, k), np.float32)
    a[3, 5], a[7, 0], b[11, k - 1] = np.nan, np.inf, -np.inf
    c = multiply(kernel, a, b)
    with np.errstate(invalid="ignore"):
        expected = (a.astype(np.float64) @ b.T.astype(np.float64)).astype(np.float32)
    assert np.isnan(expected[3]).all()
    assert np.isnan(expected[7, 11])  # the two infinities meet
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_sums_that_leave_fp16_become_infinite(target: str) -> None:
    """f32 sums are rounded once: 65520 and more is out of fp16, anything below is not."""
    shape = (64, 64, 64, 16, 32 if target == "gfx950" else 16)
    kernel = built_kernel("single_buffer", "fp16", shape, target, "fp16")
    k = kernel.emitted.launch.least
    a, b = np.zeros((4, k), np.float32), np.zeros((8, k), np.float32)
    a[:, 0], a[:, 1], b[:, 0] = 255, 1, 256  # 65280, and
    b[:, 1] = [0, 224, 239, 240, 241, 1000, -65280, 60000]
    c = multiply(kernel, a, b)
    assert np.isfinite(c[:, [0, 1, 2, 6]]).all()
    assert np.isposinf(c[:, [3, 4, 5, 7]]).all()
    assert (c[:, 6] == 0).all()
