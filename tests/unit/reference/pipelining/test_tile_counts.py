"""Instruction counts of a tile against KERNELS.md section 3, and what they cost a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeloom.errors import ConfigError
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.pipelining.costs import LDS, MEMORY, MFMA, VMEM, TileCosts
from pipeloom.reference.schedules.gemm_loop import register_budget
from pipeloom.reference.tile import (
    FOUR_WAVE_GRID,
    PING_PONG_GRID,
    SINGLE_BUFFER_GRID,
    GemmTile,
    WaveGrid,
)

BF16 = {"BM": 256, "BN": 256, "BK": 64, "MMA_M": 16, "MMA_N": 16, "MMA_K": 32, "elem_bytes": 2}
FP8 = {"BM": 256, "BN": 256, "BK": 128, "MMA_M": 16, "MMA_N": 16, "MMA_K": 128, "elem_bytes": 1}


def tile(shape: dict[str, int], **changes: Any) -> GemmTile:
    return GemmTile(**{**shape, **changes})


@pytest.mark.parametrize("shape", [BF16, FP8, {**BF16, "BM": 128, "BN": 128, "BK": 128}])
@pytest.mark.parametrize(
    ("grid", "derive"),
    [(FOUR_WAVE_GRID, KernelGeometry.four_wave), (PING_PONG_GRID, KernelGeometry.ping_pong)],
)
def test_counts_agree_with_the_kernels_of_the_specification(
    shape: dict[str, int], grid: WaveGrid, derive: Callable[..., KernelGeometry]
) -> None:
    assert tile(shape, grid=grid).geometry() == derive(**shape)


def test_quadrants_share_the_work() -> None:
    coarse, fine = tile(BF16), tile(BF16, m=4, n=4)
    assert coarse.mmas_per_op == 4 * fine.mmas_per_op
    assert coarse.fragment_reads("A") == 2 * fine.fragment_reads("A")
    assert coarse.tile_bytes == fine.tile_bytes == 2 * 256 * 64 * 2
    assert (coarse.pieces("A"), fine.pieces("A")) == (2, 4)
    assert tile(BF16, m=4, grid=PING_PONG_GRID).pieces("A") == 2


def test_narrow_dma_takes_four_times_the_loads() -> None:
    wide, narrow = tile(BF16), tile(BF16, dma_bytes=4)
    assert narrow.load_entries("B") == 4 * wide.load_entries("B") == 16


def test_loads_to_registers_are_wide_on_every_chip() -> None:
    staged = tile(BF16, grid=SINGLE_BUFFER_GRID, m=1, n=1, dma_bytes=4)
    # 256 rows of 128 bytes by 256 lanes of 16
    assert staged.load_entries("A") == 8
    assert staged.tile_loads == 16
    # each operand by itself: 32 rows of 64 bytes are half a load of all waves
    thin = tile(BF16, BM=64, BN=32, BK=32, grid=SINGLE_BUFFER_GRID, m=1, n=1)
    assert (thin.load_entries("A"), thin.load_entries("B"), thin.tile_loads) == (1, 1, 2)


@pytest.mark.parametrize(
    ("shape", "steps", "reads"),
    [
        (BF16, 2, 8),  # 16 bytes per lane and MFMA
        ({**BF16, "MMA_K": 16}, 2, 8),  # 8: a read feeds two
        ({**BF16, "MMA_M": 32, "MMA_N": 32, "MMA_K": 8}, 4, 8),
        (FP8, 1, 8),  # 32: two reads each
        ({**BF16, "BK": 16, "MMA_K": 16}, 1, 4),  # a K tile of 8 bytes is one short read
    ],
)
def test_reads_are_16_bytes_whatever_an_instruction_takes(
    shape: dict[str, int], steps: int, reads: int
) -> None:
    made = tile(shape)
    assert (made.k_steps, made.fragment_reads("A")) == (steps, reads)
    row = made.BK * made.elem_bytes * made.MMA_M // 64
    assert made.fragment_reads("A") * made.read_bytes == made.mma_rows("A") * row


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"BM": 48}, r"WM/MMA_M|WM \(24\)"),
        ({"BK": 48}, r"BK \(48\) is not a positive multiple of MMA_K \(32\)"),
        ({"m": 3}, r"rows of A \(256\) is not a positive multiple of pieces \(3\)"),
        ({"MMA_M": 3}, r"WM \(128\) is not a positive multiple of MMA_M \(3\)"),
        ({"dma_bytes": 32}, "dma_bytes"),
        ({"BM": 0}, "BM"),
    ],
)
def test_shapes_that_do_not_divide(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tile(BF16, **changes)


def test_costs_of_the_bf16_tile_on_gfx950() -> None:
    costs = TileCosts(tile(BF16), GFX950)
    held = {use.unit: use.occupancy for use in costs.load("A").uses}
    # 128 rows of 128 bytes: 16 KiB, at 64, 45 and 256 bytes per cycle
    assert (held[VMEM], held[MEMORY], held[LDS]) == (256, 365, 64)
    assert costs.load("A").latency == 600 + 365
    # 8 reads of 16 bytes for each of 256 lanes at 256 bytes per cycle
    assert {use.unit: use.occupancy for use in costs.fragment("B").uses}[LDS] == 128
    # 32 MFMAs of 16 cycles
    assert {use.unit: use.occupancy for use in costs.mma().uses}[MFMA] == 512
    assert costs.mfma_bound == 4 * 512


@pytest.mark.parametrize("grid", [FOUR_WAVE_GRID, PING_PONG_GRID])
def test_the_matrix_units_work_the_same_however_waves_share(grid: WaveGrid) -> None:
    assert TileCosts(tile(BF16, grid=grid), GFX950).mfma_bound == 2048
    assert TileCosts(tile(FP8, grid=grid), GFX950).mfma_bound == 2048


def test_a_quadrant_of_one_instruction_leaves_every_step_to_the_memory_ops() -> None:
    costs = TileCosts(tile(FP8, BM=64, BN=64), GFX950).mma()
    assert costs.latency == 32
    assert [use.unit for use in costs.uses] == [MFMA]


def test_a_barrier_is_dear_with_one_wave_per_simd() -> None:
    assert TileCosts(tile(BF16), GFX950).publish == 37
    assert TileCosts(tile(BF16, grid=PING_PONG_GRID), GFX950).publish == 1


def test_a_matrix_instruction_the_machine_lacks() -> None:
    with pytest.raises(ConfigError, match="gfx942 has no MFMA '16x16x32_f16'"):
        TileCosts(tile(BF16), GFX942).mma()


def test_registers_left_for_fragments() -> None:
    # one wave per SIMD: 512, less 256 accumulators, less 32; two waves: 256 - 128 - 32
    assert register_budget(tile(BF16), GFX950) == 224
    # fragments lie in v0 to v255, however few accumulators there are in AGPRs
    assert register_budget(tile(BF16, BM=128, BN=128), GFX950) == 224
    # 64 loads of 4 bytes per lane have 48 addresses more than the usual 16
    assert register_budget(tile(BF16, dma_bytes=4), GFX950) == 224 - 48
    assert register_budget(tile(BF16, grid=PING_PONG_GRID), GFX950) == 96
    with pytest.raises(ConfigError, match="needs 512 of 512 registers for accumulators"):
        register_budget(tile(BF16, BM=512), GFX950)
