"""The model of the whole GPU: what must hold whatever its constants are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom.declare.gemm_problem import Finish, GemmProblem
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, fastest, predict, traffic
from pipeloom.machine.gpus import GPUS, Gpu, gpu_for
from pipeloom.tuning.candidates import block_spec
from pipeloom.tuning.ranking import LIBRARIES, Ranked, best_use

MI355X = gpu_for("MI355X")
BIG = Block(256, 256, 64, 2, 4)
FULL = BlockCost(2048.0, 2000.0, 2048, "matrix unit")

sizes = st.integers(1, 40_000)
blocks = st.builds(
    Block, st.sampled_from((64, 128, 256)), st.sampled_from((64, 96, 256)), st.just(64)
)


def _cost(block: Block) -> BlockCost:
    matrix = block.m * block.n * block.k // 2048
    return BlockCost(1.1 * matrix, 1500.0, matrix, "LDS array")


@settings(max_examples=60, deadline=None)
@given(
    m=sizes,
    n=sizes,
    k=sizes,
    block=blocks,
    split=st.sampled_from((1, 2, 4)),
    batches=st.sampled_from((1, 3)),
    resident=st.sampled_from((1, 2, 5)),
)
def test_no_prediction_beats_the_machine(
    m: int, n: int, k: int, block: Block, split: int, batches: int, resident: int
) -> None:
    problem, plan = GemmProblem(m, n, k, batches=batches), Plan(block, split)
    cost = replace(_cost(block), resident=resident, busy=0.9 * _cost(block).cycles)
    for gpu in GPUS:
        found = predict(gpu, problem, plan, cost)
        peak = gpu.clock_peak_ghz.value
        assert 0 < found.clock_ghz <= peak
        assert found.seconds >= fastest(gpu, problem, plan, cost) * (1 - 1e-9)
        assert sum(us for _, us in found.parts) == pytest.approx(found.seconds * 1e6, rel=1e-6)
        assert all(us >= 0 for _, us in found.parts)
        assert found.limit
        moved = traffic(gpu, problem, plan)
        assert moved.hbm >= batches * ((m + n) * k * 2 + m * n * 2)
        assert moved.fill >= batches * (m + n) * k * 2 * 0.99
        assert 0 <= moved.cold <= 1


@settings(max_examples=60, deadline=None)
@given(m=sizes, n=sizes, k=sizes, block=blocks)
def test_a_slower_loop_is_never_faster(m: int, n: int, k: int, block: Block) -> None:
    problem, cost = GemmProblem(m, n, k), _cost(block)
    slower = replace(cost, cycles=1.3 * cost.cycles)
    for gpu in GPUS:
        assert predict(gpu, problem, Plan(block), slower).seconds >= predict(
            gpu, problem, Plan(block), cost
        ).seconds * (1 - 1e-3)


def test_k_is_filled_up_to_whole_trips() -> None:
    """3 iterations, and then 6 at a time: of 64, that makes 69."""
    uneven = replace(FULL, least=3, step=6)
    assert [uneven.padded(n) for n in (1, 3, 4, 64)] == [3, 3, 9, 69]
    problem = GemmProblem(4096, 4096, 64 * 64)
    as_many = predict(MI355X, GemmProblem(4096, 4096, 69 * 64), Plan(BIG), FULL)
    padded = predict(MI355X, problem, Plan(BIG), uneven)
    whole = predict(MI355X, problem, Plan(BIG), FULL)
    assert whole.seconds < padded.seconds <= 1.01 * as_many.seconds


def test_one_workgroup_too_many_costs_a_round() -> None:
    whole = predict(MI355X, GemmProblem(4096, 4096, 4096), Plan(BIG), FULL)
    more = predict(MI355X, GemmProblem(4096, 4097, 4096), Plan(BIG), FULL)
    assert (whole.rounds, more.rounds) == (1, 2)
    assert more.seconds > 1.5 * whole.seconds


def test_batches_are_more_workgroups_and_as_much_more_of_everything() -> None:
    one, many = GemmProblem(2048, 2048, 2048), GemmProblem(2048, 2048, 2048, batches=4)
    assert many.flops == 4 * one.flops
    alone, four = (predict(MI355X, p, Plan(BIG, 1, False), FULL) for p in (one, many))
    assert (alone.workgroups, alone.rounds) == (64, 1)
    assert (four.workgroups, four.rounds) == (256, 1)  # on compute units that were idle
    assert four.tflops > 3 * alone.tflops
    moved = [traffic(MI355X, p, Plan(BIG, 1, False)) for p in (one, many)]
    assert moved[1].fill == 4 * moved[0].fill
    assert moved[1].hbm == 4 * moved[0].hbm
    added = GemmProblem(2048, 2048, 2048, finish=Finish(beta=True))
    assert traffic(MI355X, added, Plan(BIG)).hbm == moved[0].hbm + 2 * 2048**2


def test_a_workgroup_starts_while_another_of_its_compute_unit_computes() -> None:
    """16 of each unit: one after the other, or two beside each other and the ends of one more."""
    problem = GemmProblem(64 * 256, 64 * 16, 64 * 10)
    block, tile = Block(64, 64, 64), 10 * 4000.0
    alone = BlockCost(4000.0, 6000.0, 4000.0, "matrix unit", busy=4000.0)
    kernel, ends = [], 6000.0 + MI355X.ramp_cycles.value
    for resident in (1, 2, 16):
        found = predict(MI355X, problem, Plan(block), replace(alone, resident=resident))
        cycles = (found.seconds - MI355X.start_us.value * 1e-6) * found.clock_ghz * 1e9
        kernel.append(cycles - 16 * 64 * 64 * 2 / 8)
    assert kernel[0] == pytest.approx(16 * (tile + ends), rel=1e-3)
    assert kernel[1] == kernel[2] == pytest.approx(16 * tile + ends, rel=1e-3)
    # Where a workgroup alone leaves the unit idle, others use that; two are not enough for all.
    idle = replace(alone, resident=2, busy=1000.0)
    found = predict(MI355X, problem, Plan(block), idle)
    cycles = (found.seconds - MI355X.start_us.value * 1e-6) * found.clock_ghz * 1e9
    assert cycles == pytest.approx(8 * (tile + ends + 64 * 64 * 2 / 8), rel=1e-3)


def test_rows_beyond_the_matrix_are_not_loaded() -> None:
    """4 rows in a tile of 64 wait as long for their loads as in one of 16, but for B's."""
    cost = BlockCost(1.0, 2000.0, 1.0, "memory")
    waits = {
        (m, high): dict(
            predict(MI355X, GemmProblem(m, 64, 8192), Plan(Block(high, 64, 64)), cost).parts
        )["latency of loads"]
        for m, high in ((4, 16), (4, 64), (64, 64))
    }
    assert waits[4, 16] == pytest.approx(waits[4, 64])
    assert waits[64, 64] == pytest.approx(waits[4, 64] * 128 / 68, rel=0.01)


def test_block_scales_are_read_too() -> None:
    plain, scaled = (GemmProblem(2048, 2048, 2048, dtype) for dtype in ("fp8", "mxfp8"))
    assert scaled.in_bytes == (33 / 32, 33 / 32)
    assert GemmProblem(2048, 2048, 2048, "mxfp4").in_bytes == (17 / 32, 17 / 32)
    moved = [traffic(MI355X, problem, Plan(BIG)).fill for problem in (plain, scaled)]
    assert moved[1] == moved[0] * 33 / 32


def test_few_tiles_want_k_in_parts() -> None:
    few = GemmProblem(512, 512, 65536)
    assert (
        predict(MI355X, few, Plan(BIG, 16), FULL).seconds
        < predict(MI355X, few, Plan(BIG, 1), FULL).seconds / 4
    )
    many = GemmProblem(8192, 8192, 1024)
    assert (
        predict(MI355X, many, Plan(BIG, 2), FULL).seconds
        > predict(MI355X, many, Plan(BIG, 1), FULL).seconds
    )


def test_the_order_of_blocks_decides_what_l2_is_filled_with() -> None:
    # 32 tiles of an XCD as 4 x 8 have 12 panels of 256 rows, where a row of 32 would have 33.
    square = GemmProblem(8192, 8192, 8192)
    ours, best = (traffic(MI355X, square, Plan(BIG, 1, b)) for b in (False, True))
    assert ours.fill == best.fill == 12 * 256 * 8192 * 2 * 32
    odd = GemmProblem(8192, 8192 + 256, 8192)
    ours, best = (traffic(MI355X, odd, Plan(BIG, 1, b)) for b in (False, True))
    assert best.fill < ours.fill < 1.2 * best.fill
    large = GemmProblem(
        65536, 65536, 4096
    )  # more than MALL holds: chip by chip, 8 x 32 tiles at once
    ours, best = (traffic(MI355X, large, Plan(BIG, 1, b)) for b in (False, True))
    assert best.hbm < ours.hbm < 1.3 * best.hbm


def test_power_limits_the_clock_of_large_products() -> None:
    large = predict(MI355X, GemmProblem(8192, 8192, 8192), Plan(BIG), FULL)
    small = predict(MI355X, GemmProblem(2048, 2048, 2048), Plan(BIG), FULL)
    assert large.limit == "power"
    assert large.clock_ghz < small.clock_ghz == MI355X.clock_peak_ghz.value
    weaker = predict(gpu_for("MI350X"), GemmProblem(8192, 8192, 8192), Plan(BIG), FULL)
    assert weaker.tflops < large.tflops


def _worse(gpu: Gpu, part: str, fact: str, factor: float) -> Gpu:
    """A chip of which one fact of a part is so many times larger."""
    whole: Any = getattr(gpu, part)
    known = getattr(whole, fact)
    return replace(
        gpu, **{part: replace(whole, **{fact: replace(known, value=known.value * factor)})}
    )


@pytest.mark.parametrize("fact", ["pj_per_mall_byte", "pj_per_hbm_byte"])
def test_bytes_that_cost_more_energy_lower_the_clock(fact: str) -> None:
    problem = GemmProblem(8192, 8192, 8192)
    usual = predict(MI355X, problem, Plan(BIG), FULL)
    assert usual.limit == "power"
    assert predict(_worse(MI355X, "energy", fact, 3.0), problem, Plan(BIG), FULL).clock_ghz < (
        0.999 * usual.clock_ghz
    )


def test_partial_sums_cost_energy() -> None:
    """The clock falls where they cost more, by as much as their bytes are."""
    problem = GemmProblem(8192, 8192, 65536)
    dear = _worse(MI355X, "energy", "pj_per_hbm_byte", 3.0)
    fall = []
    for split in (1, 4):
        usual, less = (predict(gpu, problem, Plan(BIG, split), FULL) for gpu in (MI355X, dear))
        fall.append(less.clock_ghz / usual.clock_ghz)
    assert fall[1] < 0.99 * fall[0]


def test_bf16_multiplies_with_less_energy_than_fp16() -> None:
    for gpu in GPUS:
        two = [GemmProblem(8192, 8192, 8192, dtype) for dtype in ("bf16", "fp16")]
        fast, slow = (predict(gpu, problem, Plan(BIG), FULL) for problem in two)
        assert slow.limit == "power"
        assert 1.02 < fast.tflops / slow.tflops < 1.09


def test_the_gap_is_no_part_of_a_kernel() -> None:
    problem = GemmProblem(512, 512, 512)
    long = replace(MI355X, gap_us=replace(MI355X.gap_us, value=100.0))
    usual, later = (predict(gpu, problem, Plan(BIG), FULL) for gpu in (MI355X, long))
    assert later.seconds == usual.seconds
    assert later.in_stream < usual.in_stream < usual.tflops == later.tflops
    # Between the two kernels of a product in parts there is one.
    usual, later = (predict(gpu, problem, Plan(BIG, 2), FULL) for gpu in (MI355X, long))
    assert later.seconds > usual.seconds + 90e-6


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.chip)
def test_mall_is_no_slower_than_hbm(gpu: Gpu) -> None:
    reached = gpu.hbm_gb_per_s.value * gpu.memory.hbm_share.value
    assert gpu.memory.mall_gb_per_s.value >= reached


@pytest.mark.parametrize("fact", ["l2_cycles", "mall_ns", "hbm_ns", "alias_ns"])
def test_loads_that_come_later_take_longer(fact: str) -> None:
    """Where an iteration is short, part of it comes from HBM, and rows lie 32 KB apart."""
    problem, short = GemmProblem(16384, 16384, 16384), replace(FULL, cycles=100.0, matrix=100.0)
    usual, late = (
        dict(predict(gpu, problem, Plan(BIG), short).parts)["latency of loads"]
        for gpu in (MI355X, _worse(MI355X, "memory", fact, 3.0))
    )
    assert 0 < 1.001 * usual < late


def test_a_block_waits_if_loads_set_its_time() -> None:
    problem = GemmProblem(4096, 4096, 4096)
    for cycles, waits in ((20_000.0, False), (100.0, True)):
        found = predict(MI355X, problem, Plan(BIG), replace(FULL, cycles=cycles, matrix=cycles))
        assert Ranked(cast("Any", None), Plan(BIG), found).waits is waits


def test_blocks_are_ranked_as_our_kernels_are_written_unless_others_are_asked_for() -> None:
    gpu, problem = gpu_for("gfx950"), GemmProblem(4096, 4096, 4096)
    job = block_spec("gfx950", "bf16", Block(256, 256, 64))
    cost = BlockCost(2000.0, 0.0, 2000.0, "matrix unit")
    assert not best_use(gpu, problem, job, cost).plan.blocked
    assert best_use(gpu, problem, job, cost, LIBRARIES).plan.blocked
