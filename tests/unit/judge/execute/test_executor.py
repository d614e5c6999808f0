"""Real kernels on real numbers: exactly what their meaning says, or a difference one can see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.random_programs.strict import fully_synchronized
from pipeloom import build_schedule
from pipeloom.judge.execute import ORDERS, TIMINGS, Executor, Fault, execute, wave_last
from pipeloom.program import OpDef, Program, Work
from pipeloom.program.block_values import evaluate_block
from pipeloom.program.vocabulary import VOCABULARY
from pipeloom.reference.lift import lift_in_units
from tests.unit.judge.verify.programs import attention, lowered

NAMES = ("ping_pong", "four_wave", "single_buffer")


@pytest.fixture(scope="module", params=NAMES)
def strict(request: pytest.FixtureRequest) -> Program:
    return fully_synchronized(lift_in_units(build_schedule(request.param)))


@pytest.mark.parametrize("policy", TIMINGS)
def test_a_synchronised_program_gives_its_meaning(strict: Program, policy: str) -> None:
    executor = Executor(strict)
    for trips in range(3):
        for order in ORDERS:
            outcome = executor.run(trips=trips, policy=policy, order=order, seed=trips)
            assert outcome.correct, outcome.describe()


def test_inputs_of_your_own_and_what_comes_out(strict: Program) -> None:
    rng = np.random.default_rng(7)
    meaning = strict.meaning
    count = strict.iterations.at({"T": 2})
    tiles = {n.name: rng.integers(-9, 9, (count, *n.type.shape)) for n in meaning.inputs}
    outcome = execute(strict, trips=2, arrays=tiles, policy="random", order="random")
    expected = evaluate_block(meaning, {n: list(t) for n, t in tiles.items()}, count)
    assert np.array_equal(outcome.outputs["out"], expected["out"][0])
    assert outcome.trips == {"T": 2}


@pytest.mark.parametrize("name", NAMES)
def test_a_race_shows_as_a_wrong_number_or_as_none(name: str) -> None:
    program = lift_in_units(build_schedule(name))
    undefined = execute(program, trips=1)
    assert {wrong.fault for wrong in undefined.wrong} == {Fault.POISON}
    assert np.isnan(undefined.outputs["out"]).any()
    assert undefined.suspects
    numbers = [execute(program, trips=1, policy=policy) for policy in ("stale", "overrun", "late")]
    assert any(not outcome.correct for outcome in numbers)


def test_the_same_seed_gives_the_same_run(strict: Program) -> None:
    def run(seed: int) -> list[str]:
        outcome = execute(
            strict, trips=2, policy="random", order="random", seed=seed, trace=True, explain=False
        )
        return [str(event) for event in outcome.trace]

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_the_trace_holds_every_issue_and_write_once(strict: Program) -> None:
    executor = Executor(strict)
    outcome = executor.run(trips=1, trace=True, order=wave_last(strict.waves, 1))
    lines = [line for walk in executor.walks(1) for line in walk.lines]
    places = [[e.at for e in outcome.trace if e.what == what] for what in ("issues", "writes")]
    assert sorted(places[0], key=str) == sorted((x.place for x in lines if x.data), key=str)
    assert sorted(places[1], key=str) == sorted((x.place for x in lines if x.counted), key=str)
    barriers = [event for event in outcome.trace if event.what == "leaves the barrier"]
    assert len(barriers) == sum(line.is_barrier for line in lines)


def test_a_store_that_nobody_makes_and_one_outside(strict: Program) -> None:
    group = strict.groups[0]
    steps = group.sections[-1].steps
    assert isinstance(steps[-1], Work)
    from dataclasses import replace

    sections = (*group.sections[:-1], replace(group.sections[-1], steps=steps[:-1]))
    groups = (replace(group, sections=sections), *strict.groups[1:])
    outcome = execute(strict.with_groups(groups, strict.provenance), trips=1)
    assert [wrong.fault for wrong in outcome.wrong] == [Fault.MISSING]
    assert "never stored" in str(outcome.wrong[0])


def test_an_op_of_your_own() -> None:
    twice = OpDef("acme.twice", 1, lambda a: 2 * a)
    from pipeloom.machine.chips import target_for
    from pipeloom.machine.dtypes import F32
    from pipeloom.program import (
        Access,
        Affine,
        Group,
        Meaning,
        Node,
        NodeKind,
        Resource,
        Section,
        Space,
        TileType,
        TripCount,
        Wait,
    )

    tile = TileType(("m", "k"), (4, 2), F32)
    meaning = Meaning(
        "twice",
        "k",
        (
            Node(name="A", kind=NodeKind.STREAM, type=tile),
            Node(name="x", kind=NodeKind.OP, type=tile, op="acme.twice", uses=("A",)),
            Node(name="out", kind=NodeKind.OUTPUT, type=tile, uses=("x",)),
        ),
    )
    steps = (
        Work(
            node="A", label="load", iteration=0, reads=(Access("A"),), writes=(Access("a"),),
            is_copy=True, counter="vmcnt", entries=1,
        ),
        Wait("vmcnt", 0),
        Work(node="x", label="x", iteration=0, reads=(Access("a"),), writes=(Access("r"),)),
        Work(
            node="x", label="store", iteration=0, reads=(Access("r"),), writes=(Access("out"),),
            is_copy=True, counter="vmcnt", entries=1,
        ),
    )  # fmt: skip
    program = Program(
        name="twice",
        meaning=meaning,
        target=target_for("gfx950"),
        resources=tuple(Resource(name=n, space=Space.REGISTER, type=tile) for n in "ar"),
        groups=(Group((0,), (Section(name="loop", steps=steps, trips="T", advance=1),)),),
        trips=(TripCount("T"),),
        iterations=Affine(0, (("T", 1),)),
    )
    ops = VOCABULARY.extended(twice)
    tiles = np.arange(24.0).reshape(3, 4, 2)
    outcome = execute(program, trips=3, ops=ops, arrays={"A": tiles})
    assert outcome.clean
    assert np.array_equal(outcome.outputs["out"], 2 * tiles)
    assert execute(program, trips=0, ops=ops).clean


def test_a_number_in_place_of_an_infinity_is_another_value() -> None:
    right = lowered(attention())
    low = replace(right.resource("r.m"), start=-100.0)
    wrong = replace(right, resources=tuple(low if r.name == "r.m" else r for r in right.resources))
    for program, found in ((right, False), (wrong, True)):
        places = {(s.at.section, s.resource) for s in execute(program, trips=1).suspects}
        assert (("loop", "r.m") in places) is found
