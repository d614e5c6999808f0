"""The GEMM tile from declaration to proof: II, depth, phases, and the right product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom import CompiledSchedule, build_schedule, load_spec, verify
from pipeloom.drive.programs import simulate
from pipeloom.errors import ConfigError, OrderError
from pipeloom.judge.execute import execute, operands
from pipeloom.judge.verify.schedules import Status
from pipeloom.reference.kernels import kernel_for
from pipeloom.reference.ops import OpRole, Phase
from pipeloom.reference.pipelining import derive_pipeline
from pipeloom.reference.pipelining.costs import TileCosts
from pipeloom.reference.pipelining.inorder import in_order_cycles
from pipeloom.reference.schedules.gemm_tile import GemmTileSchedule

SMALL = {"BM": 64, "BN": 64, "BK": 64}
"""A tile so small that the latency spans many of them: deep pipelines, solved in no time."""


def spec(**keys: Any) -> dict[str, Any]:
    return {"schedule": "gemm_tile", **keys}


def assert_right(compiled: CompiledSchedule, trips: range) -> None:
    """PROVED, and A @ B.T under the worst timing."""
    assert verify(compiled).status is Status.PROVED
    for count in trips:
        a, b = operands(compiled, trips=count, seed=count)
        execution = execute(compiled, a, b, trips=count)
        assert execution.correct
        assert execution.c is not None
        assert np.array_equal(execution.c, a @ b.T)


@pytest.mark.parametrize(
    ("keys", "bound"),
    [
        ({"kernel": "four_wave"}, 2048),
        ({"kernel": "ping_pong"}, 2048),
        ({"kernel": "four_wave", "geometry": {"elem_bytes": 1}}, 2048),
        ({"kernel": "four_wave", "arch": "gfx942"}, 2048),
    ],
)
def test_ii_is_the_mfma_bound(keys: dict[str, Any], bound: int) -> None:
    schedule = load_spec(spec(**keys))
    assert isinstance(schedule, GemmTileSchedule)
    costs = TileCosts(schedule.tile, schedule.machine)
    compiled = build_schedule(schedule)
    tiles = kernel_for(compiled).tiles_per_iteration
    assert costs.mfma_bound == bound
    assert compiled.certificate.proved
    assert compiled.certificate.makespan == bound * tiles
    # the waits and barriers of the finished schedule lose nothing of it
    assert in_order_cycles(compiled, costs) == pytest.approx(bound)
    assert_right(compiled, range(3))


def test_depth_follows_the_latency() -> None:
    """More latency, more stages and buffers, the same II while LDS lasts."""
    depth = {}
    for latency in (600, 1500):
        schedule = load_spec(spec(global_latency=latency, objectives=["stages", "buffers"]))
        goal = schedule.pipelining()
        assert goal is not None
        loop = derive_pipeline(goal)
        assert loop.cycles_per_tile == 2048
        depth[latency] = (loop.stages, max(n for name, n in loop.counts if name[:3] == "LDS"))
    assert depth == {600: (2, 1), 1500: (3, 2)}


@pytest.mark.parametrize(
    ("kernel", "stages"), [*(("four_wave", n) for n in range(2, 7)), ("ping_pong", 3)]
)
def test_any_number_of_stages_is_proved_and_right(kernel: str, stages: int) -> None:
    shape = SMALL if kernel == "four_wave" else {**SMALL, "BN": 128}
    keys = {"budget": {"stages": stages}, "objectives": []}
    compiled = build_schedule(spec(kernel=kernel, geometry=shape, **keys))
    assert compiled.config.drain_passes + 1 <= stages
    assert_right(compiled, range(4))


def test_deeper_pipelines_are_faster_until_a_unit_is_full() -> None:
    per_tile = []
    for stages in range(2, 6):
        schedule = load_spec(spec(geometry=SMALL, budget={"stages": stages}, objectives=[]))
        goal = schedule.pipelining()
        assert goal is not None
        per_tile.append(derive_pipeline(goal).cycles_per_tile)
    assert per_tile == sorted(per_tile, reverse=True)
    assert per_tile[0] > per_tile[-1]


@pytest.mark.parametrize("k_tiles", range(1, 9))
def test_every_k_has_a_schedule(k_tiles: int) -> None:
    """Residues modulo the unrolling, and K too short to fill the pipeline."""
    compiled = build_schedule(spec(geometry=SMALL, k_tiles=k_tiles))
    kernel = kernel_for(compiled)
    trips = (k_tiles - kernel.tiles(0)) // kernel.tiles_per_iteration
    assert trips >= 0
    assert kernel.tiles(trips) == k_tiles
    assert_right(compiled, range(trips, trips + 2))


@pytest.mark.parametrize("shape", [{}, {"BM": 64, "BN": 64}, {"BM": 128, "BN": 128, "BK": 128}])
def test_staging_through_registers(shape: dict[str, int]) -> None:
    """The third matmul: staging registers, LDS and fragments of each K step all rotate."""
    compiled = build_schedule(spec(kernel="single_buffer", geometry=shape))
    kernel = kernel_for(compiled)
    assert compiled.schedule == "gemm_tile_single_buffer"
    assert compiled.certificate.proved
    assert compiled.geometry is not None
    assert len(kernel.accumulators()) == compiled.geometry.k_mmas >= 2
    assert_right(compiled, range(4))


def test_registers_that_bind_cost_ii() -> None:
    """One set of staging registers: a load waits for the store before it, and II pays."""
    compiled = build_schedule(spec(kernel="single_buffer"))
    per_tile = compiled.certificate.makespan // compiled.config.num_partitions
    assert per_tile == 2320
    assert "store -> load -> store" in compiled.notes[0]


def test_m_by_n_quadrants() -> None:
    compiled = build_schedule(
        spec(geometry={"BM": 64, "BN": 128, "m": 1, "n": 4}, global_latency=300)
    )
    kernel = kernel_for(compiled)
    assert len(kernel.accumulators()) == 4
    assert_right(compiled, range(3))


def test_each_buffer_and_register_keeps_its_tile() -> None:
    """Loads of a piece visit its buffers in turn, across prologue, kernel and epilogue."""
    compiled = build_schedule(spec(geometry=SMALL))
    kernel = kernel_for(compiled)
    seen: dict[tuple[int, int], list[int]] = {}
    for step in kernel.walk(compiled, 0, 4):
        if step.op.role is OpRole.GLOBAL_LOAD:
            seen.setdefault((step.op.channel, step.op.subtile), []).append(step.op.stage)
    for stages in seen.values():
        count = max(stages) + 1
        assert stages == [tile % count for tile in range(kernel.tiles(4))]


def test_lds_that_binds_costs_ii() -> None:
    free = build_schedule(spec(geometry=SMALL))
    tight = build_schedule(spec(geometry=SMALL, budget={"lds": 2 * 64 * 64 * 2}))
    assert tight.config.depth == 1
    per_tile = [c.certificate.makespan / c.config.num_partitions for c in (free, tight)]
    assert per_tile[0] < per_tile[1]
    assert_right(tight, range(3))


def test_the_simulator_runs_it() -> None:
    compiled = build_schedule("gemm_tile")
    kernel = kernel_for(compiled)
    summary = simulate(compiled, k_tiles=kernel.tiles(8)).summary()
    assert summary["steady_cycles_per_iteration"] >= 2048


def test_same_bytes_twice() -> None:
    once, again = (build_schedule(spec(geometry=SMALL)).to_json() for _ in range(2))
    assert once == again
    assert CompiledSchedule.from_dict(build_schedule(spec(geometry=SMALL)).to_dict()).to_json() == (
        once
    )


def test_notes_say_what_was_derived() -> None:
    compiled = build_schedule("gemm_tile")
    assert compiled.notes[0].startswith("2048 cycles per K tile (proved least), in steps of 16")
    assert compiled.notes[1].startswith("2 stages, kernel of 1 K tile(s), 1 x LDS A0")
    assert compiled.notes[2] == "for K of 1 + 1 * trips tiles"
    assert compiled.counts(Phase.KERNEL).barriers == 4


@pytest.mark.parametrize(
    ("keys", "kind", "message"),
    [
        ({"kernel": "six_wave"}, ConfigError, "kernel is 'six_wave', which is not a wave grid"),
        (
            {"budget": {"registers": 100}},
            ConfigError,
            "fragments of one K tile take 128 registers per lane, but the budget is 100",
        ),
        ({"arch": "gfx900"}, ConfigError, "unknown architecture 'gfx900'"),
        ({"geometry": {"elem_bytes": 8}}, ConfigError, "has no 16x16 matrix instruction"),
        ({"k_tiles": 0}, ConfigError, "k_tiles"),
        (
            {"kernel": "single_buffer", "budget": {"registers": 200}},
            ConfigError,
            r"take 64 \+ 160 registers per lane, but the budget is 200",
        ),
        (
            {"budget": {"lds": 1024}, "time_limit": 5.0},
            OrderError,
            "gemm_tile four_wave 256x256x64",
        ),
    ],
)
def test_what_cannot_be(keys: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        build_schedule(spec(**keys))


def test_modulo_needs_a_declaration_that_leaves_the_depth_open() -> None:
    with pytest.raises(OrderError, match="this body of 24 ops has its buffers fixed") as caught:
        build_schedule("ping_pong", ["scheduling=modulo"])
    assert "gemm_tile" in (caught.value.hint or "")
