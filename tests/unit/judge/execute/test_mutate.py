"""Mutants differ by one slip, in all groups alike, and the executor tells which are wrong."""

from __future__ import annotations

import pytest

from benchmarks.random_programs.classify import classify
from benchmarks.random_programs.mutate import Mutant, MutationKind, mutants, sample_mutants
from benchmarks.random_programs.strict import fully_synchronized, thinned
from pipeloom import build_schedule
from pipeloom.declare import Loop
from pipeloom.program import Barrier, Program, Wait
from pipeloom.reference.lift import lift_in_units
from tests.unit.judge.verify.programs import lowered


@pytest.fixture(scope="module")
def program() -> Program:
    return lift_in_units(build_schedule("ping_pong"))


@pytest.fixture(scope="module")
def every(program: Program) -> list[Mutant]:
    return list(mutants(program))


def test_every_kind_that_the_program_has_room_for(every: list[Mutant]) -> None:
    found = {mutant.kind for mutant in every}
    assert found == set(MutationKind) - {MutationKind.WRONG_NUMBER}  # it has no numbers


def test_a_number_that_is_one_off_is_wrong() -> None:
    loop = Loop("doubled", over="k")
    loop.store("out", loop.stream("X", "f32", k=2, c=4) * 2.0)
    doubled = lowered(loop.meaning)
    assert classify(doubled).correct
    (mutant,) = mutants(doubled, frozenset({MutationKind.WRONG_NUMBER}))
    failure = classify(mutant.program).failure
    assert failure is not None
    wrong = failure.outcome.wrong[0]
    assert wrong.found is not None
    assert wrong.expected is not None
    assert wrong.found / wrong.expected == 1.5


def test_mutants_are_new_and_named(program: Program, every: list[Mutant]) -> None:
    assert all(mutant.program != program for mutant in every)
    assert len({mutant.name for mutant in every}) == len(every)
    assert all(mutant.name.startswith(mutant.kind.value) for mutant in every)


def test_a_slip_is_made_in_both_groups(program: Program, every: list[Mutant]) -> None:
    dropped = next(m for m in every if m.kind is MutationKind.DROP_BARRIER)
    counts = [
        sum(isinstance(s, Barrier) for section in g.sections for s in section.steps)
        for p in (program, dropped.program)
        for g in p.groups
    ]
    assert counts[2:] == [count - 1 for count in counts[:2]]


def test_samples_are_drawn_evenly_and_repeatably(program: Program) -> None:
    sample = sample_mutants(program, 26, seed=3)
    assert sample == sample_mutants(program, 26, seed=3)
    assert sample != sample_mutants(program, 26, seed=4)
    kinds = [mutant.kind for mutant in sample]
    assert max(kinds.count(kind) for kind in kinds) <= 3


def test_what_is_left_after_thinning_is_needed() -> None:
    strict = fully_synchronized(lift_in_units(build_schedule("single_buffer")))

    def is_right(candidate: Program) -> bool:
        return classify(candidate, trips=({"T": 0}, {"T": 1}), random_runs=0).correct

    dense = thinned(strict, is_right)
    steps = [s for _, _, s in dense.groups[0].steps()]
    assert is_right(dense)
    left = [s for s in steps if isinstance(s, Wait | Barrier)]
    assert (
        0 < len(left) < sum(isinstance(s, Wait | Barrier) for _, _, s in strict.groups[0].steps())
    )
