"""The whole-GPU estimate: tiles as they were simulated, put through the model of ``tune``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom.judge.simulate import Instruction, WaveProgram, simulate_programs, simulate_stream
from pipeloom.judge.simulate.estimate import GemmProblem, TileTiming, estimate_gemm
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, predict
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.gpus import gpu_for
from pipeloom.tune.problem import Problem

TIMING = TileTiming(256, 256, k_per_iteration=64, cycles_per_iteration=2000.0)
CUBE = GemmProblem(4096, 4096, 4096)


def test_cycles_per_tile_and_rounds() -> None:
    result = estimate_gemm(GFX950, CUBE, TIMING)
    store = 256 * 256 * 2 / GFX950.store_bytes_per_clk.value
    assert result.workgroups == 256
    assert result.rounds == 1
    assert result.last_round_share == 1.0
    assert result.tile_cycles == 64 * 2000 + store
    assert result.tflops == pytest.approx(CUBE.flops / result.microseconds / 1e6)
    assert result.tflops < result.tflops_at_peak_clock
    assert result.bound == "power"


def test_a_batch_is_all_of_its_products() -> None:
    found = estimate_gemm(GFX950, replace(CUBE, m=2048, n=2048, batches=4), TIMING)
    assert found.workgroups == 256
    assert found.tflops * found.microseconds == pytest.approx(4 * 2 * 2048**2 * 4096 / 1e6)


def test_one_workgroup_too_many_costs_a_round() -> None:
    full = estimate_gemm(GFX950, CUBE, TIMING)
    more = estimate_gemm(GFX950, GemmProblem(4096, 4097, 4096), TIMING)
    assert more.workgroups == 272
    assert more.rounds == 2
    assert more.last_round_share == pytest.approx(16 / 256)
    assert more.tflops < 0.7 * full.tflops


def test_k_outside_the_loop_shortens_it() -> None:
    timing = TileTiming(256, 256, 128, 4000.0, 500.0, 900.0, k_outside_loop=128)
    result = estimate_gemm(GFX950, CUBE, timing)
    store = 256 * 256 * 2 / GFX950.store_bytes_per_clk.value
    assert result.tile_cycles == 500 + 31 * 4000 + 900 + store


def test_a_k_between_steps_is_padded_and_said() -> None:
    whole = estimate_gemm(GFX950, CUBE, TIMING)
    short = estimate_gemm(GFX950, GemmProblem(4096, 4096, 4090), TIMING)
    assert short.tile_cycles == whole.tile_cycles
    text = "K padded with zeros from 4090 to 4096, in steps of the kernel"
    assert text in short.assumptions
    assert not any("padded" in assumption for assumption in whole.assumptions)


def test_it_is_what_tune_predicts_of_such_a_block() -> None:
    """Chip, cycles and plan being the same, so is every figure."""
    gpu = gpu_for("gfx950")
    cost = BlockCost(2000.0, 700.0, 2000, "matrix unit")
    plan = Plan(Block(256, 256, 64), blocked=False)
    known = predict(gpu, Problem(4096, 4096, 4096), plan, cost)
    timing = replace(TIMING, prologue_cycles=300.0, epilogue_cycles=400.0)
    found = estimate_gemm(GFX950, CUBE, timing)
    assert found.tflops == pytest.approx(known.tflops)
    assert found.clock_ghz == pytest.approx(known.clock_ghz)
    assert (found.bound, found.rounds) == (known.limit, known.rounds)


def test_constants_of_a_machine_of_ones_own_count() -> None:
    """Where stores are fast, a thin product takes less."""
    thin, fast = GemmProblem(65536, 256, 64), TileTiming(256, 256, 64, 10.0)
    slow = estimate_gemm(GFX950, thin, fast)
    quick = estimate_gemm(GFX950.with_value("store_bytes_per_clk", 1e6, "test"), thin, fast)
    assert quick.microseconds < slow.microseconds


def test_timing_comes_from_a_trace() -> None:
    trace = simulate_stream("M128 branch", iterations=12)
    timing = TileTiming.from_trace(trace, tile_m=256, tile_n=256, k_per_iteration=64)
    assert timing.cycles_per_iteration == trace.steady_cycles_per_iteration
    assert timing.epilogue_cycles == trace.epilogue_cycles
    assert not timing.includes_store


@pytest.mark.parametrize("iterations", [6, 12, 40])
def test_the_warm_up_of_the_loop_is_counted_once(iterations: int) -> None:
    """Iterations that fill the queues are not steady, and the run is as long as it is."""
    trace = simulate_stream("G40 wv63 R30 M8 branch", iterations=iterations)
    timing = TileTiming.from_trace(trace, tile_m=256, tile_n=256, k_per_iteration=64)
    assert timing.warm_up_cycles != 0
    problem = GemmProblem(256, 256, 64 * iterations)
    store = 256 * 256 * 2 / GFX950.store_bytes_per_clk.value
    assert estimate_gemm(GFX950, problem, timing).tile_cycles == pytest.approx(
        trace.total_cycles + store
    )


def test_a_tile_that_stores_c_is_not_charged_for_it_again() -> None:
    loop = (Instruction.mfma(GFX950.matrix_ops[0]),) * 8
    program = WaveProgram(0, loop, epilogue=(Instruction.global_store(16),) * 4)
    trace = simulate_programs([program], GFX950, 8)
    timing = TileTiming.from_trace(trace, tile_m=64, tile_n=32, k_per_iteration=64)
    assert timing.includes_store
    result = estimate_gemm(GFX950, GemmProblem(64, 32, 512), timing)
    assert result.tile_cycles == pytest.approx(trace.total_cycles)
    assert any("as in the simulated tile" in text for text in result.assumptions)
