"""Pricing finished schedules, and barriers that a schedule proposes for itself."""

from __future__ import annotations

import pytest

from pipeloom import build_schedule, load_spec, verify
from pipeloom.errors import ConfigError
from pipeloom.reference.ops import Phase
from pipeloom.reference.pipelining.costs import TileCosts
from pipeloom.reference.pipelining.inorder import in_order_cycles
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules.gemm_tile import GemmTileSchedule

BF16 = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}


def costs(kernel: str) -> TileCosts:
    schedule = load_spec({"schedule": "gemm_tile", "kernel": kernel})
    assert isinstance(schedule, GemmTileSchedule)
    return TileCosts(schedule.tile, schedule.machine)


@pytest.mark.parametrize("kernel", ["four_wave", "ping_pong"])
def test_sound_waits_cost_the_hand_written_orders_something(kernel: str) -> None:
    spec = {"schedule": kernel, "geometry": BF16}
    model = costs(kernel)
    reference = in_order_cycles(build_schedule(spec), model)
    proven = in_order_cycles(build_schedule(spec, sync="proven", reorder=True), model)
    assert model.mfma_bound <= reference < proven


def test_slower_memory_is_never_faster() -> None:
    compiled = build_schedule({"schedule": "four_wave", "geometry": BF16}, sync="proven")
    schedule = load_spec({"schedule": "gemm_tile"})
    assert isinstance(schedule, GemmTileSchedule)
    cycles = [
        in_order_cycles(compiled, TileCosts(schedule.tile, schedule.machine, latency))
        for latency in (100, 600, 2000, 5000)
    ]
    assert cycles == sorted(cycles)
    assert cycles[0] < cycles[-1]


def test_a_staged_schedule_has_no_such_price() -> None:
    with pytest.raises(ConfigError, match="no tile cost for role GLOBAL_LOAD"):
        in_order_cycles(build_schedule("single_buffer"), costs("four_wave"))


def test_a_proposal_that_cannot_be_made_sound_is_not_taken() -> None:
    bare = build_schedule({"schedule": "four_wave", "geometry": BF16})
    fewest = synchronize(bare)
    assert synchronize(bare, loop_barriers=()) == fewest
    generous = synchronize(bare, loop_barriers=range(24))
    assert verify(generous).proved
    assert generous.counts(Phase.KERNEL).barriers >= fewest.counts(Phase.KERNEL).barriers
