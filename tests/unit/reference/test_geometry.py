"""KERNELS.md section 3: counts from the shape, for the shapes people run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeloom import KernelGeometry, derive_safe_max_globals

PING_PONG, FOUR_WAVE = KernelGeometry.ping_pong, KernelGeometry.four_wave
PING_PONG_GRID, FOUR_WAVE_GRID = (2, 4), (2, 2)
BF16 = {"BM": 256, "BN": 256, "BK": 64, "MMA_M": 16, "MMA_N": 16, "MMA_K": 32, "elem_bytes": 2}
FP8 = {"BM": 256, "BN": 256, "BK": 128, "MMA_M": 16, "MMA_N": 16, "MMA_K": 128, "elem_bytes": 1}

Factory = Callable[..., KernelGeometry]


@pytest.mark.parametrize(
    ("make", "shape", "changes", "vm", "lgkm"),
    [
        # bf16: 8 elements per 16 bytes, 8 threads per row of BK. 512 threads: 64 rows at once, 2
        # for 128 rows. Fragment 16*32/64*2 = 16 bytes: one read. Quadrant 4x2, two K steps.
        (PING_PONG, BF16, {}, (2, 2), (8, 4)),
        # fp8: 16 elements per 16 bytes, 8 threads per row. Two 16-byte pieces, one K step.
        (PING_PONG, FP8, {}, (2, 2), (8, 4)),
        # four waves: 256 threads, 32 rows at once; quadrant 4x4
        (FOUR_WAVE, BF16, {}, (4, 4), (8, 8)),
        (FOUR_WAVE, FP8, {}, (4, 4), (8, 8)),
        (FOUR_WAVE, BF16, {"BM": 128, "BN": 128}, (2, 2), (4, 4)),
        # rows that do not fill a pass round up: 48 / 64 and 128 / 64
        (PING_PONG, BF16, {"BM": 96, "MMA_M": 8, "MMA_K": 64}, (1, 2), (3, 2)),
        # 32x32x16 bf16: fragment 32*16/64*2 = 16 bytes, four K steps, quadrants 2x1
        (PING_PONG, BF16, {"MMA_M": 32, "MMA_N": 32, "MMA_K": 16}, (2, 2), (8, 4)),
        # fp8 16x16x32: 8 bytes are one read, not two pieces; four K steps
        (PING_PONG, FP8, {"MMA_K": 32}, (2, 2), (16, 8)),
        # fp8 32x32x64: 32 bytes in one piece are two reads; two K steps
        (PING_PONG, FP8, {"MMA_M": 32, "MMA_N": 32, "MMA_K": 64}, (2, 2), (8, 4)),
    ],
)
def test_counts(
    make: Factory,
    shape: dict[str, int],
    changes: dict[str, int],
    vm: tuple[int, int],
    lgkm: tuple[int, int],
) -> None:
    geometry = make(**{**shape, **changes})
    assert (geometry.vm_per_load_a, geometry.vm_per_load_b) == vm
    assert (geometry.lgkm_per_load_a, geometry.lgkm_per_load_b) == lgkm


def test_shape_fields() -> None:
    bf16, fp8 = PING_PONG(**BF16), FOUR_WAVE(**FP8)
    assert (bf16.simd_width, fp8.simd_width) == (8, 16)
    assert (bf16.is_fp8, fp8.is_fp8) == (False, True)
    assert (bf16.k_mmas, fp8.k_mmas) == (2, 1)
    # 2 * (BM + BN) * BK * element size
    assert (bf16.lds_bytes, fp8.lds_bytes) == (131072, 131072)
    assert {name: getattr(bf16, name) for name in BF16} == BF16


@pytest.mark.parametrize(
    ("make", "grid", "shape", "changes", "expected"),
    [
        (PING_PONG, PING_PONG_GRID, BF16, {}, 1),  # 2 * 4 * 2 = 16 >= 8, two K steps
        (PING_PONG, PING_PONG_GRID, FP8, {}, 0),  # 1 * 4 * 2 = 8, but one K step
        (FOUR_WAVE, FOUR_WAVE_GRID, BF16, {}, 1),
        (FOUR_WAVE, FOUR_WAVE_GRID, FP8, {}, 0),
        (PING_PONG, PING_PONG_GRID, BF16, {"BM": 64, "BN": 256}, 0),  # 2 * 1 * 2 = 4 < 8
        (PING_PONG, PING_PONG_GRID, BF16, {"BM": 128, "BN": 256}, 1),  # 2 * 2 * 2 = 8
    ],
)
def test_max_globals(
    make: Factory,
    grid: tuple[int, int],
    shape: dict[str, int],
    changes: dict[str, int],
    expected: int,
) -> None:
    assert make(**{**shape, **changes}).max_globals(grid) == expected


def test_safe_max_globals() -> None:
    assert [derive_safe_max_globals(k) for k in (0, 1, 2, 3)] == [0, 0, 1, 1]


def test_lds_limit_is_that_of_the_chip() -> None:
    gfx950_full: dict[str, Any] = {**BF16, "BM": 384, "BN": 256}
    assert PING_PONG(**gfx950_full).lds_bytes == 160 * 1024
    small: dict[str, Any] = {**BF16, "BM": 128, "BN": 128}
    assert PING_PONG(**small, lds_limit=64 * 1024).lds_bytes == 64 * 1024
