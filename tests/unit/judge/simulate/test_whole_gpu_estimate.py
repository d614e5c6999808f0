"""The whole-GPU estimate: tiles as they were simulated, put through the model of ``tune``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.judge.simulate import WaveOp, WaveProgram, simulate_programs, simulate_stream
from pipeloom.judge.simulate.estimate import estimate_gemm, stores_output, traced_cost
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, predict
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.gpus import gpu_for

BLOCK = Block(256, 256, 64)
COST = BlockCost(2000.0, 0.0, 2000.0, "matrix unit")
CUBE = GemmProblem(4096, 4096, 4096)
LONG = GemmProblem(8192, 8192, 16384)
STORE = 256 * 256 * 2 / GFX950.store_bytes_per_clk.value


def test_cycles_per_tile_and_rounds() -> None:
    result = estimate_gemm(GFX950, CUBE, BLOCK, COST)
    assert BLOCK.waves == 4
    assert result.workgroups == 256
    assert result.rounds == 1
    assert result.last_round_share == 1.0
    assert result.tile_cycles == 64 * 2000 + STORE
    assert result.tflops == pytest.approx(CUBE.flops / result.microseconds / 1e6)
    assert result.tflops <= result.tflops_at_peak_clock
    long = estimate_gemm(GFX950, LONG, BLOCK, COST)
    assert long.tflops < long.tflops_at_peak_clock
    assert long.bound == "power"


def test_a_batch_is_all_of_its_products() -> None:
    found = estimate_gemm(GFX950, replace(CUBE, m=2048, n=2048, batches=4), BLOCK, COST)
    assert found.workgroups == 256
    assert found.tflops * found.microseconds == pytest.approx(4 * 2 * 2048**2 * 4096 / 1e6)


def test_one_workgroup_too_many_costs_a_round() -> None:
    full = estimate_gemm(GFX950, CUBE, BLOCK, COST)
    more = estimate_gemm(GFX950, GemmProblem(4096, 4097, 4096), BLOCK, COST)
    assert more.workgroups == 272
    assert more.rounds == 2
    assert more.last_round_share == pytest.approx(16 / 256)
    assert more.tflops < 0.7 * full.tflops


def test_a_k_between_steps_is_padded_and_said() -> None:
    paired = replace(COST, least=2, step=2)
    whole = estimate_gemm(GFX950, CUBE, BLOCK, paired)
    short = estimate_gemm(GFX950, GemmProblem(4096, 4096, 63 * 64), BLOCK, paired)
    assert short.tile_cycles == whole.tile_cycles
    text = "K padded with zeros from 4032 to 4096, in steps of the kernel"
    assert text in short.assumptions
    assert not any("padded" in assumption for assumption in whole.assumptions)


def test_it_is_what_tune_predicts_of_such_a_block() -> None:
    """Chip, cycles and plan being the same, so is every figure."""
    cost = replace(COST, ends=700.0)
    plan = Plan(BLOCK, blocked=False)
    known = predict(gpu_for("gfx950"), GemmProblem(4096, 4096, 4096), plan, cost)
    found = estimate_gemm(GFX950, CUBE, BLOCK, cost)
    assert found.tflops == pytest.approx(known.tflops)
    assert found.clock_ghz == pytest.approx(known.clock_ghz)
    assert (found.bound, found.rounds) == (known.limit, known.rounds)


def test_constants_of_a_machine_of_ones_own_count() -> None:
    """Where stores are fast, a thin product takes less."""
    thin, fast = GemmProblem(65536, 256, 64), replace(COST, cycles=10.0, matrix=10.0)
    slow = estimate_gemm(GFX950, thin, BLOCK, fast)
    quick = estimate_gemm(GFX950.with_value("store_bytes_per_clk", 1e6, "test"), thin, BLOCK, fast)
    assert quick.microseconds < slow.microseconds


@pytest.mark.parametrize(("iterations", "least", "step"), [(6, 0, 1), (12, 2, 2), (40, 3, 1)])
def test_the_run_is_as_long_as_it_was(iterations: int, least: int, step: int) -> None:
    """Iterations that fill the queues are not steady, and count once."""
    trace = simulate_stream("G40 wv63 R30 M8 branch", iterations=iterations)
    assert not stores_output(trace)
    cost = traced_cost(trace, least, step, 0.0)
    assert cost.ends != 0
    assert cost.cycles == trace.steady_cycles_per_iteration / step
    problem = GemmProblem(256, 256, 64 * (least + step * iterations))
    found = estimate_gemm(GFX950, problem, BLOCK, cost).tile_cycles
    assert found == pytest.approx(trace.total_cycles + STORE)


def test_a_tile_that_stores_c_is_not_charged_for_it_again() -> None:
    loop = (WaveOp.mfma(GFX950.matrix_ops[0]),) * 8
    program = WaveProgram(0, loop, epilogue=(WaveOp.global_store(16),) * 4)
    trace = simulate_programs([program], GFX950, 8)
    assert stores_output(trace)
    block = Block(64, 32, 64)
    cost = traced_cost(trace, 0, 1, 64 * 32 * 2 / GFX950.store_bytes_per_clk.value)
    result = estimate_gemm(GFX950, GemmProblem(64, 32, 512), block, cost, stored=True)
    assert result.tile_cycles == pytest.approx(trace.total_cycles)
    assert any("as in the simulated tile" in text for text in result.assumptions)


def test_copies_to_aligned_rows_read_and_write_each_byte_once() -> None:
    """K of 4099 elements is no whole loads: both operands are copied, of our kernels only."""
    gpu = gpu_for("gfx950")

    def copies(problem: GemmProblem, blocked: bool) -> float:
        parts = dict(predict(gpu, problem, Plan(BLOCK, blocked=blocked), COST).parts)
        return parts["copies to aligned rows"]

    odd, twice = GemmProblem(4096, 4096, 4099), GemmProblem(8192, 8192, 4099)
    assert copies(CUBE, blocked=False) == copies(odd, blocked=True) == 0
    rate = gpu.hbm_gb_per_s.value * gpu.memory.hbm_share.value * 1e3  # bytes in a microsecond
    more = copies(twice, blocked=False) - copies(odd, blocked=False)
    assert more == pytest.approx(2 * 2 * 4096 * 4099 * 2 / rate)


def test_power_limits_only_below_the_peak_clock() -> None:
    """Matrix instructions that take four times as long for the same work leave it cool."""
    slow = replace(COST, cycles=8000.0, matrix=8000.0)
    cool, hot = (estimate_gemm(GFX950, LONG, BLOCK, cost) for cost in (slow, COST))
    peak = gpu_for("MI355X").clock_peak_ghz.value
    assert (cool.clock_ghz, cool.bound) == (peak, "matrix unit")
    assert hot.clock_ghz < peak
    assert hot.bound == "power"
