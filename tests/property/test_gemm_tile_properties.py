"""Random GEMM tiles: whatever the shape, grid, latency and limits, proved and A @ B.T."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeloom import build_schedule, verify
from pipeloom.judge.execute import ORDERS, execute, operands
from pipeloom.judge.verify.schedules import Status
from pipeloom.reference.kernels import kernel_for

COMMON = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=18
)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    kernel = draw(st.sampled_from(["four_wave", "ping_pong", "single_buffer"]))
    grids = [(1, 1), (1, 2), (2, 1), (2, 2)] if kernel != "single_buffer" else [(1, 1)]
    m, n = draw(st.sampled_from(grids))
    return {
        "schedule": "gemm_tile",
        "kernel": kernel,
        "geometry": {
            "BM": (64 if kernel == "single_buffer" else 32) * m,
            "BN": (64 if kernel == "ping_pong" else 32) * n,
            "BK": draw(st.sampled_from([64, 128])),
            "m": m,
            "n": n,
        },
        "global_latency": draw(st.sampled_from([50, 300, 900])),
        "budget": draw(
            st.sampled_from([{}, {"stages": 2}, {"stages": 3}, {"lds": 65536}, {"stages": 5}])
        ),
        "k_tiles": draw(st.sampled_from([None, 1, 2, 3, 5, 8])),
        "objectives": [],
        "work_limit": 2.0,
    }


@COMMON
@given(specs(), st.sampled_from(sorted(ORDERS)), st.integers(0, 3))
def test_every_pipeline_is_proved_and_right(spec: dict[str, Any], order: str, seed: int) -> None:
    compiled = build_schedule(spec)
    assert verify(compiled).status is Status.PROVED
    kernel = kernel_for(compiled)
    first = kernel.min_trips
    if spec["k_tiles"] is not None:
        rest = (spec["k_tiles"] - kernel.tiles(0)) % kernel.tiles_per_iteration
        assert rest == 0
        assert kernel.tiles(first) <= spec["k_tiles"]
    for trips in (first, first + 2):
        a, b = operands(compiled, trips=trips, seed=seed)
        execution = execute(compiled, a, b, trips=trips, order=order, seed=seed)
        assert execution.correct
        assert execution.c is not None
        assert np.array_equal(execution.c, a @ b.T)
