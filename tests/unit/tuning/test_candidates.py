"""Every block that is timed can be written: the writer itself is asked, not a rule about it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.gemm import GemmSpec
from pipeloom.drive.store import Store
from pipeloom.judge.simulate.whole_gpu import Block
from pipeloom.machine.gpus import Gpu, gpu_for
from pipeloom.program import Program
from pipeloom.tuning import candidates
from pipeloom.tuning.candidates import (
    SIDES,
    block_spec,
    blocks,
    bounds,
    grids,
    require_written,
    time_block,
)
from pipeloom.tuning.ranking import rank
from pipeloom.write import EmitError

LAYOUTS = ("NT", "NN", "TN", "TT")


def drawn(seed: int) -> tuple[GemmProblem, Gpu]:
    """Sides of 1 to 20,000, any layout, on each chip."""
    draw = random.Random(seed)
    m, n, k = (int(10 ** draw.uniform(0, 4.3)) for _ in range(3))
    gpu = gpu_for(draw.choice(("MI355X", "MI355X", "MI300X")))
    dtype = draw.choice(("bf16", "fp16", "fp8") if gpu.arch == "gfx950" else ("bf16", "fp16"))
    return GemmProblem(m, n, k, dtype, layout=draw.choice(LAYOUTS)), gpu


def proposed(problem: GemmProblem, gpu: Gpu, most: int) -> list[GemmSpec]:
    """The blocks that a search would time first, if each disappointed."""
    least = bounds(gpu.target, problem.dtype, layout=problem.layout)
    return [ranked.job for ranked in rank(gpu, problem, least)[:most]]


@pytest.mark.parametrize("seed", range(8))
def test_what_the_tuner_proposes_can_be_written(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a quarter of the sides, to be quick; 90 seeds with all of them were tried."""
    monkeypatch.setattr(candidates, "SIDES", SIDES[seed % 4 :: 4])
    for job in proposed(*drawn(seed), most=3):
        require_written(job)


def test_blocks_whose_scales_come_too_late_are_not_proposed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An iteration of 32x32x256 is shorter than a third of memory's latency; of 64x64 it is not."""
    monkeypatch.setattr(candidates, "SIDES", (32, 64))
    found = {(job.BM, job.BN, job.depth) for job in bounds("gfx950", "mxfp4")}
    assert (32, 32, 256) not in found
    assert (64, 64, 256) in found
    for job in proposed(GemmProblem(60, 60, 4096, "mxfp4"), gpu_for("gfx950"), most=2):
        require_written(job)


def test_blocks_have_sides_of_16_for_few_rows() -> None:
    """And they win there: half of the rows of a block of 32 would be none."""
    found = {(b.m, b.n, b.waves_m, b.waves_n) for b in blocks("bf16")}
    assert {(16, 32, 1, 2), (16, 64, 1, 4), (16, 128, 1, 4), (64, 16, 4, 1)} <= found
    assert all(min(m, n) > 16 or max(m, n) <= 128 for m, n, _, _ in found)
    assert proposed(GemmProblem(16, 7168, 4608), gpu_for("gfx950"), most=1)[0].BM == 16


def some_blocks() -> list[tuple[str, str, str, Block]]:
    """Every side along M and N in every layout, waves and types in turn."""
    found = []
    for number, (m, layout) in enumerate((m, layout) for m in SIDES for layout in LAYOUTS):
        n = SIDES[(3 * number + 1) % len(SIDES)]
        if list(grids(m, n)):
            dtype, deep = (("bf16", 64), ("fp8", 128))[number % 3 == 2]
            waves = [grid for grid in grids(m, n) if _shares(m, n, grid)]
            if waves:
                block = Block(m, n, deep, *waves[number % len(waves)])
                found.append(("gfx950", dtype, layout, block))
    return [*found, *(("gfx942", "bf16", layout, Block(96, 160, 32)) for layout in LAYOUTS)]


def _shares(m: int, n: int, grid: tuple[int, int]) -> bool:
    return m % (16 * grid[0]) == 0 and n % (16 * grid[1]) == 0


@pytest.mark.parametrize(("arch", "dtype", "layout", "block"), some_blocks(), ids=str)
def test_the_writer_takes_tiles_of_every_side_in_every_layout(
    arch: str, dtype: str, layout: str, block: Block
) -> None:
    require_written(block_spec(arch, dtype, block, layout))


@pytest.mark.parametrize("refuses", ["the first order", "what is derived"])
def test_what_the_writer_refuses_is_no_candidate(
    refuses: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Program] = []

    def occupied(program: Program, **_: object) -> None:
        asked.append(program)
        if refuses == "the first order" or len(asked) > 1:
            raise EmitError("it cannot be written")

    monkeypatch.setattr(candidates, "occupied", occupied)
    job = block_spec("gfx950", "bf16", Block(32, 32, 64), "NT")
    assert time_block(job, Store(tmp_path)) is None
    assert len(asked) == (1 if refuses == "the first order" else 2)
    assert candidates.known_block(job, Store(tmp_path)) == (True, None)
