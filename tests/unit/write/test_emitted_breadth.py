"""A sample of everything a GEMM may be asked for: types of C, odd sizes and tiles, special values.

The whole of it, with many timings: ``python -m benchmarks.emit_evidence matrix``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom import compile_schedule
from pipeloom.drive.trial import Data, Launchable, run_gemm
from pipeloom.judge.emulate import run_kernel
from pipeloom.judge.emulate.formats import bf16_to_f32, f32_to_bf16
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.mi355x import mi355x_single_buffer_target
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules.four_wave import FourWaveSpec
from pipeloom.reference.schedules.gemm_tile import GemmTileSpec, TileSpec
from pipeloom.reference.schedules.ping_pong import PingPongSpec
from pipeloom.reference.schedules.single_buffer import SingleBufferSchedule
from pipeloom.reference.schedules.spec_parts import GeometrySpec
from pipeloom.write import (
    EmitError,
    assemble,
    emit_kernel,
    single_buffer_costs,
    single_buffer_geometry,
)
from pipeloom.write.chips import chip_for

Shape = tuple[int, int, int, int, int]
Floats = npt.NDArray[np.float32]

KERNELS = [
    ("ping_pong", "gfx950"),
    ("four_wave", "gfx950"),
    ("gemm_tile", "gfx950"),
    ("gemm_tile_ping_pong", "gfx950"),
    ("single_buffer", "gfx950"),
    ("single_buffer", "gfx942"),
]
GRIDS = {"gemm_tile": "four_wave", "gemm_tile_ping_pong": "ping_pong"}
SIZE = {"bf16": 2, "fp16": 2, "fp8": 1}
OUTPUTS = ["bf16", "fp16", "f32"]


def small_tile(name: str, target: str, dtype: str) -> Shape:
    """The smallest tile of the matrix page."""
    if name != "single_buffer":
        return (128, 128, 64, 16, 32) if SIZE[dtype] == 2 else (128, 128, 128, 16, 128)
    if target == "gfx942":
        return (64, 64, 64, 16, 16) if SIZE[dtype] == 2 else (64, 64, 128, 16, 32)
    return (64, 64, 64, 16, 32) if SIZE[dtype] == 2 else (64, 64, 256, 16, 128)


@cache
def schedule(name: str, elem_bytes: int, shape: Shape) -> CompiledSchedule:
    bm, bn, bk, side, depth = shape
    if name in GRIDS:
        tile = TileSpec(
            BM=bm, BN=bn, BK=bk, MMA_M=side, MMA_N=side, MMA_K=depth, elem_bytes=elem_bytes
        )
        spec = GemmTileSpec(kernel=GRIDS[name], geometry=tile, time_limit=None)
        return compile_schedule(spec.build())
    geometry = GeometrySpec(
        BM=bm, BN=bn, BK=bk, MMA_M=side, MMA_N=side, MMA_K=depth, elem_bytes=elem_bytes
    )
    made = PingPongSpec if name == "ping_pong" else FourWaveSpec
    return synchronize(compile_schedule(made(geometry=geometry).build()))


@cache
def kernel(
    name: str,
    target: str,
    dtype: str = "bf16",
    out_dtype: str | None = None,
    shape: Shape | None = None,
) -> Launchable:
    """Emitted, assembled, loaded."""
    shape = shape or small_tile(name, target, dtype)
    bm, bn, bk, side, _ = shape
    geometry = None
    if name == "single_buffer":
        geometry = single_buffer_geometry(chip_for(target), dtype, BM=bm, BN=bn, BK=bk, side=side)
        costs = single_buffer_costs(geometry, k_steps=2)
        declared = SingleBufferSchedule(
            2, target=mi355x_single_buffer_target().with_pipeline(**costs)
        )
        compiled = synchronize(compile_schedule(declared))
    else:
        compiled = schedule(name, SIZE[dtype], shape)
    emitted = emit_kernel(
        compiled,
        target=target,
        dtype=dtype,
        out_dtype=out_dtype,
        geometry=geometry,
    )
    return Launchable.load(emitted, assemble(emitted))


def check(ready: Launchable, M: int, N: int, trips: int, **options: Any) -> float:
    """Right, whatever the data; returns the largest error in units of what is allowed."""
    emitted = ready.emitted
    depth = emitted.k_min + trips * emitted.k_step
    trial = run_gemm(emitted, ready, M=M, N=N, K=depth, **options)
    assert trial.ok, trial.summary()
    return trial.worst


@pytest.mark.parametrize(
    ("name", "target", "dtype", "out_dtype"),
    [
        (*which, dtype, OUTPUTS[(number + offset) % 3])
        for number, which in enumerate(KERNELS)
        for offset, dtype in enumerate(SIZE)
    ],
)
def test_types_of_c(name: str, target: str, dtype: str, out_dtype: str) -> None:
    """Every kernel with each input and each output type; together all nine pairs, twice."""
    ready = kernel(name, target, dtype, out_dtype)
    bm, bn, *_ = small_tile(name, target, dtype)
    together = check(ready, bm - 1, bn - 4, 1, seed=1, data=Data.NORMAL)
    single = check(ready, bm, bn - 3, 0, seed=2, data=Data.NORMAL)
    if out_dtype != "f32":  # short sums of fp8 products can be exact there
        assert together > 0
        assert single > 0
    check(ready, 17, bn, 1, seed=3)


@pytest.mark.parametrize(("name", "target"), KERNELS)
def test_odd_sizes(name: str, target: str) -> None:
    ready = kernel(name, target)
    bm, bn, *_ = small_tile(name, target, "bf16")
    check(ready, 1, 1, 0, seed=4)
    check(ready, 1, bn + 1, 1, seed=5, spare_columns=0)
    check(ready, bm + 1, 2 * bn + 3, 1, seed=6)


@pytest.mark.parametrize(("name", "target"), KERNELS)
@pytest.mark.parametrize("dtype", ["fp16", "fp8"])
def test_rows_longer_than_k_and_n(name: str, target: str, dtype: str) -> None:
    """Strides of A, B and C all differ, and what lies between the rows of A and B is NaN."""
    ready = kernel(name, target, dtype, "f32" if dtype == "fp8" else "fp16")
    bm, bn, *_ = small_tile(name, target, dtype)
    check(ready, bm - 7, bn + 5, 1, seed=7, spare_depth=(16, 80), spare_columns=13)
    check(ready, 3, bn, 0, seed=8, spare_depth=(4096, 0), spare_columns=1024)


@pytest.mark.parametrize(("name", "target"), KERNELS)
def test_depths_that_do_not_fit(name: str, target: str) -> None:
    ready = kernel(name, target)
    emitted = ready.emitted
    least, step = emitted.k_min, emitted.k_step
    depths = (0, least - step, least - 1, least + 1, least + step // 2, least + step - 8)
    for depth in (d for d in depths if 0 <= d != least):
        with pytest.raises(
            EmitError,
            match=rf"K is {depth}, but the schedule starts with {least} and steps by {step}\n\n"
            rf"hint: choose K = {least} \+ n \* {step}, or pad K with zeros",
        ):
            run_gemm(emitted, ready, M=8, N=8, K=depth)


TILES: list[tuple[str, str, str, Shape]] = [
    ("four_wave", "gfx950", "bf16", (64, 64, 256, 16, 32)),
    ("ping_pong", "gfx950", "bf16", (256, 256, 32, 16, 32)),
    ("ping_pong", "gfx950", "fp8", (384, 128, 128, 16, 128)),
    ("four_wave", "gfx950", "fp16", (128, 128, 128, 32, 16)),
    ("four_wave", "gfx950", "bf16", (128, 256, 32, 16, 32)),
    ("four_wave", "gfx950", "bf16", (192, 64, 64, 16, 32)),
    ("four_wave", "gfx950", "fp8", (128, 128, 64, 32, 64)),
    ("gemm_tile", "gfx950", "fp16", (64, 64, 64, 16, 32)),
    ("gemm_tile", "gfx950", "fp8", (64, 128, 128, 16, 128)),
    ("gemm_tile", "gfx950", "fp8", (128, 128, 64, 32, 64)),  # one matrix instruction per quadrant
    ("single_buffer", "gfx950", "bf16", (32, 32, 64, 16, 32)),
    ("single_buffer", "gfx950", "bf16", (96, 64, 64, 16, 32)),
    ("single_buffer", "gfx942", "fp16", (32, 256, 64, 16, 16)),
    ("single_buffer", "gfx942", "bf16", (64, 64, 256, 32, 8)),
]


@pytest.mark.parametrize(("name", "target", "dtype", "shape"), TILES, ids=str)
def test_unusual_tiles(name: str, target: str, dtype: str, shape: Shape) -> None:
    ready = kernel(name, target, dtype, None, shape)
    check(ready, shape[0], shape[1], 1, seed=9)
    check(ready, shape[0] - 5, shape[1] + 2, 0, seed=10, spare_depth=(16, 32))


def multiply(ready: Launchable, a: Floats, b: Floats) -> Floats:
    """C of given bf16 or fp16 data, as f32; no finding."""
    emitted = ready.emitted

    def encoded(values: Floats) -> npt.NDArray[Any]:
        return f32_to_bf16(values) if emitted.dtype == "bf16" else values.astype(np.float16)

    (m, k), n = a.shape, b.shape[0]
    kind = {"bf16": np.uint16, "fp16": np.float16, "f32": np.float32}[emitted.out_dtype]
    c = np.zeros((m, n), kind)
    result = run_kernel(
        ready.kernel,
        grid=emitted.grid(m, n),
        block=emitted.block,
        args=[encoded(a), encoded(b), c, m, n, k, k, k, n],
        line_map=ready.line_map,
    )
    assert result.ok, result.findings
    return bf16_to_f32(c) if emitted.out_dtype == "bf16" else c.astype(np.float32)


@pytest.mark.parametrize("out_dtype", OUTPUTS)
@pytest.mark.parametrize(
    ("name", "target"), [("single_buffer", "gfx942"), ("single_buffer", "gfx950")]
)
def test_special_values_stay_in_their_row_and_column(
    name: str, target: str, out_dtype: str
) -> None:
    ready = kernel(name, target, "bf16", out_dtype)
    k = ready.emitted.k_min
    a, b = np.ones((40, k), np.float32), np.ones((24, k), np.float32)
    a[3, 5], a[7, 0], b[11, k - 1] = np.nan, np.inf, -np.inf
    c = multiply(ready, a, b)
    with np.errstate(invalid="ignore"):
        expected = (a.astype(np.float64) @ b.T.astype(np.float64)).astype(np.float32)
    assert np.isnan(expected[3]).all()
    assert np.isnan(expected[7, 11])  # the two infinities meet
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_sums_that_leave_fp16_become_infinite(target: str) -> None:
    """f32 sums are rounded once: 65520 and more is out of fp16, anything below is not."""
    ready = kernel("single_buffer", target, "fp16", "fp16")
    k = ready.emitted.k_min
    a, b = np.zeros((4, k), np.float32), np.zeros((8, k), np.float32)
    a[:, 0], a[:, 1], b[:, 0] = 255, 1, 256  # 65280, and
    b[:, 1] = [0, 224, 239, 240, 241, 1000, -65280, 60000]
    c = multiply(ready, a, b)
    assert np.isfinite(c[:, [0, 1, 2, 6]]).all()
    assert np.isposinf(c[:, [3, 4, 5, 7]]).all()
    assert (c[:, 6] == 0).all()
