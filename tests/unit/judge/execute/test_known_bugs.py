"""The bugs the field knows, each in a program that is otherwise right, and what the run shows.

The base is the four-wave schedule with its own prologue and a fully synchronised rest: right for
every trip count, so that whatever goes wrong is the bug's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from benchmarks.random_programs.classify import classify
from benchmarks.random_programs.strict import fully_synchronized
from pipeloom import build_schedule
from pipeloom.judge.execute import Executor, Fault, Outcome
from pipeloom.program import Barrier, Program, Step, Wait, Work
from pipeloom.reference.lift import lift_in_units

Edit = Callable[[list[Step]], Sequence[Step]]


def _counts(*trips: int) -> tuple[dict[str, int], ...]:
    return tuple({"T": count} for count in trips or (0, 1, 2))


def _is_right(program: Program, *trips: int) -> bool:
    return classify(program, trips=_counts(*trips)).correct


def _failure(program: Program, *trips: int) -> Outcome:
    found = classify(program, trips=_counts(*trips))
    assert found.failure is not None
    how = found.failure.how
    return Executor(program).run(trips=how.trips, order=how.order, seed=how.seed, explain=True)


def _with(program: Program, name: str, edit: Edit) -> Program:
    groups = tuple(
        replace(
            group,
            sections=tuple(
                replace(s, steps=tuple(edit(list(s.steps)))) if s.name == name else s
                for s in group.sections
            ),
        )
        for group in program.groups
    )
    return program.with_groups(groups, program.provenance)


def _without(program: Program, name: str, what: Callable[[Step], bool]) -> Program:
    return _with(program, name, lambda steps: [s for s in steps if not what(s)])


def _steps(program: Program, name: str) -> list[Step]:
    return list(next(s for s in program.groups[0].sections if s.name == name).steps)


def _is_wait(counter: str) -> Callable[[Step], bool]:
    return lambda step: isinstance(step, Wait) and step.counter == counter


def _is_mma(step: Step) -> bool:
    return isinstance(step, Work) and bool(step.accumulates)


def _swapped(steps: list[Step], at: int) -> list[Step]:
    steps[at], steps[at + 1] = steps[at + 1], steps[at]
    return steps


@pytest.fixture(scope="module")
def published() -> Program:
    return lift_in_units(build_schedule("four_wave"))


@pytest.fixture(scope="module")
def base(published: Program) -> Program:
    strict = fully_synchronized(published)
    mixed = _with(strict, "prologue", lambda _: _steps(published, "prologue"))
    assert _is_right(mixed)
    return mixed


def test_loads_in_flight_from_the_loop_into_the_epilogue(base: Program, published: Program) -> None:
    """The published epilogue waits for its own loads but has no barrier to publish them."""
    busy = _with(base, "loop", lambda steps: [*steps[:-5], steps[-1]])
    assert _is_right(busy)
    broken = _with(busy, "epilogue", lambda _: _steps(published, "epilogue"))
    outcome = _failure(broken, 1)
    assert outcome.suspects
    assert all(suspect.at.section in ("epilogue", "store") for suspect in outcome.suspects)


def test_only_a_trip_count_of_zero(base: Program) -> None:
    """The loop drains its fragments; nobody drains those of the prologue if it never runs."""
    drained = _with(base, "loop", lambda steps: [*steps, Wait("lgkmcnt", 0)])

    def undrained(steps: list[Step]) -> list[Step]:
        first = next(n for n, s in enumerate(steps) if _is_mma(s))
        return [s for n, s in enumerate(steps) if n > first or not _is_wait("lgkmcnt")(s)]

    broken = _with(drained, "epilogue", undrained)
    assert not _is_right(broken, 0)
    assert _is_right(broken, 1, 2, 3)
    assert _failure(broken, 0).suspects[0].at.section == "epilogue"


def test_a_vm_wait_without_the_barrier_that_publishes_it(base: Program) -> None:
    outcome = _failure(_without(base, "prologue", lambda s: isinstance(s, Barrier)), 0)
    read = outcome.suspects[0]
    assert read.resource.startswith("LDS")
    assert read.at.section == "prologue"


def test_an_epilogue_mma_before_its_lgkm_drain(base: Program) -> None:
    outcome = _failure(_without(base, "epilogue", _is_wait("lgkmcnt")), 0)
    first = outcome.suspects[0]
    assert first.fault is Fault.IN_FLIGHT
    assert not first.resource.startswith("LDS")


def test_a_wait_left_stale_after_steps_were_reordered(base: Program) -> None:
    """vmcnt(28) is for the first load; after a swap that is not the one the fragment reads."""
    broken = _with(base, "prologue", lambda steps: _swapped(steps, 0))
    read = next(s for s in _failure(broken, 0).suspects if s.resource.startswith("LDS"))
    assert read.at.slot == 10
    assert {cause.slot for cause in read.causes} == {1}


def test_a_barrier_before_the_wait_that_should_precede_it(base: Program) -> None:
    at = next(n for n, s in enumerate(_steps(base, "prologue")) if _is_wait("vmcnt")(s))
    broken = _with(base, "prologue", lambda steps: _swapped(steps, at))
    assert isinstance(_steps(broken, "prologue")[at], Barrier)
    read = next(s for s in _failure(broken, 0).suspects if s.resource.startswith("LDS"))
    assert read.at.slot == at + 2


def test_every_published_schedule_relies_on_more_than_waits_and_barriers(
    published: Program,
) -> None:
    """KERNELS.md section 4: the original leaves register waits to the compiler."""
    assert not _is_right(published)
    assert not _is_right(lift_in_units(build_schedule("ping_pong")))


def test_an_order_that_no_synchronisation_saves() -> None:
    """IDENTITY spreads loads: A(0, 0) of the next tile before the last read of the old one."""
    order = lift_in_units(build_schedule("ping_pong", ['schedule_config.scheduling="identity"']))
    strict = fully_synchronized(order)
    assert _is_right(strict, 0)
    outcome = _failure(strict, 1)
    assert {wrong.fault for wrong in outcome.wrong} == {Fault.WRONG}
    assert {suspect.fault for suspect in outcome.suspects} == {Fault.OTHER}


def test_dropping_the_stagger_from_a_strict_program_harms_nothing() -> None:
    strict = fully_synchronized(lift_in_units(build_schedule("ping_pong")))
    flat = strict
    for section in ("prologue", "loop", "epilogue"):
        flat = _without(flat, section, lambda s: isinstance(s, Barrier) and bool(s.label))
    assert _is_right(flat, 1)
