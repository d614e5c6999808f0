"""A small Triton project, for the gate: two kernels, compiled for gfx950 and run without a GPU.

    pytest examples/gate -p pipeloom.cli.pytest_gate --pipeloom-gate

Every kernel that Triton compiles in the run is judged when it ends.
"""

from __future__ import annotations

import numpy as np
import pytest

import pipeloom as pl

triton = pytest.importorskip("triton", reason="needs the triton wheel")
import triton.language as tl  # noqa: E402


@triton.jit  # type: ignore[untyped-decorator]
def add(x, y, out, n, B: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def row_sum(x, out, n, B: tl.constexpr):  # type: ignore[no-untyped-def]
    row, c = tl.program_id(0), tl.arange(0, B)
    tl.store(out + row, tl.sum(tl.load(x + row * n + c, mask=c < n, other=0.0), axis=0))


@pytest.fixture
def x() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.random.default_rng(0).integers(0, 9, (2, 500)).astype(np.float32)


def test_add(x: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    checked = pl.check_triton(add, (4,), x, x, np.zeros_like(x), 1000, B=256)
    assert checked.verdict.status.title == "PROVED"


def test_row_sum(x: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    checked = pl.check_triton(row_sum, (2,), x, np.zeros(2, np.float32), 500, B=512)
    assert checked.verdict.status.title == "PROVED"
