"""Costs of instructions: numbers of the sources, and what the simulator makes of them."""

from __future__ import annotations

import pytest

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate import WaveOp, WaveProgram, simulate_programs
from pipeloom.judge.simulate.issued import LOOP_END, SKIPPED
from pipeloom.machine.gfx950 import GFX950
from pipeloom.program.costs import (
    Cost,
    barrier_cycles,
    cost_of,
    loop_end_cycles,
    skipped_cost,
    total_cost,
)
from pipeloom.program.steps import Issue, Unit


@pytest.mark.parametrize(
    ("issue", "cost"),
    [
        (Issue(Unit.MATRIX, shape="16x16x32_f16"), Cost(8, matrix=16, vector=4)),
        (Issue(Unit.MATRIX, shape="16x16x128_fp4_scaled"), Cost(12, matrix=16, vector=4)),
        (Issue(Unit.TRANS, 2), Cost(16, vector=16)),
        (Issue(Unit.LDS_READ, bytes=16), Cost(4, array=4, back=8)),
        (Issue(Unit.LDS_READ, bytes=16, conflict=2.0), Cost(4, array=8, back=8)),
        (Issue(Unit.LDS_WRITE, bytes=8), Cost(12, array=2)),
        (
            Issue(Unit.LOAD_LDS, bytes=16),
            Cost(4, array=4, texture=16, memory=1024 / 45, loaded=1024),
        ),
        (Issue(Unit.LOAD, bytes=4), Cost(4, texture=4, memory=256 / 45, loaded=256)),
        (Issue(Unit.STORE, bytes=4), Cost(4, texture=4, memory=32.0)),
        (Issue(Unit.SCALAR, 3), Cost(12)),
    ],
    ids=str,
)
def test_cycles_of_every_unit(issue: Issue, cost: Cost) -> None:
    """By hand from the facts of gfx950; bank conflicts are the array's."""
    assert total_cost([issue], GFX950) == cost


def held(*instructions: WaveOp) -> int:
    """Cycles for which a wave that is alone issues them."""
    trace = simulate_programs([WaveProgram(0, instructions)], GFX950, 1)
    return max(event.free for event in trace.events)


def test_branches_cost_what_the_simulator_takes() -> None:
    assert skipped_cost(GFX950).held == held(*SKIPPED)
    assert loop_end_cycles(GFX950) == held(*LOOP_END)


def test_a_barrier_is_dear_for_a_wave_that_is_alone() -> None:
    assert barrier_cycles(GFX950, 1) == held(WaveOp.barrier()) == 16
    assert barrier_cycles(GFX950, 2) == 1


def test_a_product_without_its_instruction_has_no_cost() -> None:
    with pytest.raises(ConfigError, match="matrix_op"):
        cost_of(Unit.MATRIX, GFX950)
