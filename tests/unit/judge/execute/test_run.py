"""Real kernels on real numbers: exactly A @ B.T, or a difference one can see."""

from __future__ import annotations

import numpy as np
import pytest

from pipeloom import CompiledSchedule, build_schedule
from pipeloom.judge.execute import (
    ORDERS,
    POISON_VALUE,
    TIMINGS,
    Executor,
    dry_run,
    execute,
    fully_synchronized,
    operands,
    wave_last,
)
from pipeloom.reference.kernels import kernel_for

NAMES = ("ping_pong", "four_wave", "single_buffer")


@pytest.fixture(scope="module", params=NAMES)
def strict(request: pytest.FixtureRequest) -> CompiledSchedule:
    return fully_synchronized(build_schedule(request.param))


@pytest.mark.parametrize("timing", TIMINGS)
def test_a_synchronised_schedule_gives_exactly_a_times_b(
    strict: CompiledSchedule, timing: str
) -> None:
    executor = Executor(strict)
    for trips in range(4):
        a, b = operands(strict, trips=trips, seed=trips)
        for order in ORDERS:
            execution = executor.run(
                trips=trips, timing=timing, order=order, seed=trips, operands=(a, b)
            )
            assert execution.correct, execution.describe()
            assert execution.c is not None
            assert execution.poisoned is not None
            assert np.array_equal(execution.c, a @ b.T)
            assert not execution.poisoned.any()


@pytest.mark.parametrize("timing", ["late", "early", "stale", "overrun", "random"])
def test_old_content_instead_of_poison_changes_nothing_for_a_right_schedule(
    strict: CompiledSchedule, timing: str
) -> None:
    a, b = operands(strict, trips=2)
    execution = execute(strict, a, b, trips=2, timing=timing, undefined="memory", order="random")
    assert execution.c is not None
    assert np.array_equal(execution.c, a @ b.T)


@pytest.mark.parametrize("name", NAMES)
def test_a_race_shows_as_a_wrong_number_or_as_poison(name: str) -> None:
    compiled = build_schedule(name)
    a, b = operands(compiled, trips=1)
    poisoned = execute(compiled, a, b, trips=1)
    assert poisoned.c is not None
    assert poisoned.poisoned is not None
    assert poisoned.poisoned.any()
    assert (poisoned.c[poisoned.poisoned] == POISON_VALUE).all()
    assert (poisoned.c[~poisoned.poisoned] != POISON_VALUE).all()
    assert poisoned.describe().startswith("poisoned reads: ")
    numbers = [
        execute(compiled, a, b, trips=1, timing=timing, undefined="memory").c
        for timing in ("stale", "overrun")
    ]
    assert any((c != a @ b.T).any() for c in numbers if c is not None)


def test_a_whole_256_tile(strict: CompiledSchedule) -> None:
    """K = 8 BK of a 256 x 256 tile; the speed of it is in benchmarks/bench_execute.py."""
    kernel = kernel_for(strict)
    trips = next(t for t in range(10) if kernel.tiles(t) == 8)
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-8, 9, (256, 8 * 64)) for _ in range(2))
    execution = execute(strict, a, b, trips=trips, timing="random", order="random", seed=3)
    assert execution.c is not None
    assert np.array_equal(execution.c, a @ b.T)


def test_small_integer_types_do_not_overflow() -> None:
    strict = fully_synchronized(build_schedule("four_wave"))
    a, b = operands(strict, trips=3)
    execution = execute(strict, a.astype(np.int8) * 12, b.astype(np.int8), trips=3)
    assert execution.c is not None
    assert np.array_equal(execution.c, 12 * a @ b.T)


def test_the_same_seed_gives_the_same_run(strict: CompiledSchedule) -> None:
    compiled = build_schedule(strict.schedule)

    def run(seed: int) -> list[str]:
        execution = dry_run(
            compiled, trips=2, timing="random", order="random", seed=seed, trace=True
        )
        return [str(event) for event in execution.trace]

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_the_trace_holds_every_issue_and_landing_once(strict: CompiledSchedule) -> None:
    executor = Executor(strict)
    execution = executor.run(trips=1, trace=True, order=wave_last(executor.kernel.waves, 1))
    program = executor.program(1)
    ops = [op for wave in range(executor.kernel.waves) for op in program.ops(wave)]
    issues = [event.at for event in execution.trace if event.what == "issues"]
    lands = [event.at for event in execution.trace if event.what == "lands"]
    assert sorted(issues) == sorted((op.wave, op.step) for op in ops)
    assert sorted(lands) == sorted((op.wave, op.step) for op in ops if op.accumulator is None)
    barriers = [event for event in execution.trace if event.what == "leaves the barrier"]
    assert len(barriers) == sum(len(wave.barrier_steps) for wave in program.waves)


def test_arrays_need_a_kernel_whose_operands_they_know() -> None:
    """``dry_run`` takes any kernel; see the litmus tests. Arrays take A and B, or AB."""
    compiled = fully_synchronized(build_schedule("ping_pong"))
    other = kernel_for(build_schedule("four_wave"))
    a, b = operands(compiled, trips=0, kernel=other)
    execution = execute(compiled, a, b, trips=0, kernel=other)
    assert execution.c is not None
    assert np.array_equal(execution.c, a @ b.T) is execution.correct
