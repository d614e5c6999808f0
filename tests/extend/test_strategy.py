"""Orders of one's own: whatever a strategy returns is checked, synchronised and proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import pipeloom as pl

LOOP = pl.kernels.gemm(32, 32, 32)
GFX950 = pl.target_for("gfx950")


def one_after_the_other(problem: pl.ModuloProblem) -> pl.Timetable:
    """No overlap at all: each task when the one before it is over."""
    starts, now = [], 0
    for op in problem.ops:
        starts.append(now)
        now += 1 + max([op.latency, *(use.offset + use.occupancy for use in op.uses)])
    return pl.Timetable(now + max(edge.latency for edge in problem.edges), tuple(starts))


@dataclass(frozen=True)
class Stretched:
    """The exact order at a slower pace; an object may have options, and a name of its own."""

    by: int
    name: str = "acme.stretched"

    def __call__(self, problem: pl.ModuloProblem) -> pl.Timetable:
        found = pl.solve_modulo(problem, work_limit=1.0)
        return pl.Timetable(found.ii * self.by, tuple(s * self.by for s in found.starts))


def test_a_function() -> None:
    program = pl.pipeline(LOOP, GFX950, waves=4, strategy=one_after_the_other)
    assert pl.verify(program).proved
    assert pl.execute(program, trips=2, order="reverse").correct
    ordered = program.provenance.ordered
    assert ordered is not None
    assert (ordered.strategy, ordered.stages) == ("one_after_the_other", 1)
    assert not ordered.proved
    assert {r.copies for r in program.resources} == {1}


def test_an_object_and_what_it_costs() -> None:
    fast = pl.pipeline(LOOP, GFX950, waves=4, strategy=Stretched(1))
    alone = pl.pipeline(LOOP, GFX950, waves=4, strategy=one_after_the_other)
    assert fast.provenance.ordered is not None
    assert fast.provenance.ordered.strategy == "acme.stretched"
    assert pl.verify(fast).proved
    assert cycles(alone) > 1.5 * cycles(fast)


def cycles(program: pl.Program) -> float:
    """Simulated cycles of one iteration."""
    ((_, per_trip),) = program.iterations.factors
    return pl.simulate(program).steady_cycles_per_iteration / per_trip


def test_its_kernel_runs() -> None:
    program = pl.pipeline(LOOP, GFX950, waves=4, strategy=one_after_the_other)
    trial = pl.run(program, sizes={"m": 33, "n": 32, "k": 96})
    assert trial.ok, trial.summary()


Wrong = Callable[[pl.ModuloProblem], object]
WRONG: dict[str, tuple[Wrong, str]] = {
    "too early": (
        lambda p: pl.Timetable(4096, (0,) * len(p.ops)),
        "read A tile starts at 0, before",
    ),
    "too few": (lambda p: pl.Timetable(4096, (0,)), "1 starts for 5 ops"),
    "no pace": (lambda p: pl.Timetable(0, (0,) * len(p.ops)), "II is 0"),
    "nothing": (lambda p: None, "returned None"),
    "halves": (lambda p: pl.Timetable(9, (0.5,) * len(p.ops)), "returned Timetable"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_refused(name: str) -> None:
    strategy, message = WRONG[name]
    with pytest.raises(pl.OrderError, match=message):
        pl.pipeline(LOOP, GFX950, waves=4, strategy=strategy)  # type: ignore[arg-type]


def test_no_strategy_at_all() -> None:
    with pytest.raises(pl.OrderError, match="'greedy' cannot be called"):
        pl.pipeline(LOOP, GFX950, waves=4, strategy="greedy")  # type: ignore[arg-type]
