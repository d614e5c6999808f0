"""``derive``: the fastest program that a search finds, proved, written and run."""

from __future__ import annotations

import pytest

from pipeloom.declare.kernels import attention, gemm
from pipeloom.drive.deriving import Progress, derive, steady_cycles
from pipeloom.drive.program_trial import run_program
from pipeloom.judge.verify import verify
from pipeloom.lift import simulate_emitted
from pipeloom.machine.chips import target_for
from pipeloom.order.lower import lower
from pipeloom.order.patterns import woven
from pipeloom.order.weave import Pattern
from pipeloom.write import assemble
from pipeloom.write.lower.emit import emit_program

GFX950 = target_for("gfx950")


def test_a_small_tile_is_derived_to_its_bound() -> None:
    told: list[Progress] = []
    found = derive(gemm(64, 64, 64), GFX950, 4, progress=told.append)
    assert found is not None
    assert found.pattern is not None
    assert found.cycles <= 1.03 * found.bound
    assert found.unit == "memory"
    assert verify(found.program).proved
    assert steady_cycles(found.program) == found.cycles
    assert [p.cycles for p in told] == sorted((p.cycles for p in told), reverse=True)
    ordered = found.program.provenance.ordered
    assert ordered is not None
    assert ordered.bound == found.bound


def test_what_is_no_product_of_loads_is_left_to_others() -> None:
    assert derive(attention(), GFX950, 4) is None


@pytest.mark.parametrize(
    ("shape", "waves", "pattern"),
    [
        ((64, 64, 64), 4, Pattern(barriers=2)),
        ((128, 128, 64), 8, Pattern(groups=2, cluster=8, margin=0)),
    ],
)
def test_written_and_run(shape: tuple[int, int, int], waves: int, pattern: Pattern) -> None:
    loop = gemm(*shape)
    program = woven(lower(loop.meaning, GFX950, loop.ops, loop.staged, waves), pattern)
    emitted = emit_program(program)
    least = program.iterations.at(program.min_trips)
    step = sum(factor for _, factor in program.iterations.factors)
    m, n, k = shape
    trial = run_program(
        emitted, assemble(emitted), sizes={"m": m, "n": n, "k": k * (least + step)}, seed=5
    )
    assert trial.ok, trial.summary()
    trace = simulate_emitted(emitted, GFX950, least + 6 * step)
    cycles = trace.steady_cycles_per_iteration / step
    assert cycles == pytest.approx(steady_cycles(program), rel=0.1)
