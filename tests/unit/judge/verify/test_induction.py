"""Trip counts beyond those examined add nothing."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipeloom import build_schedule
from pipeloom.declare import Loop
from pipeloom.judge.verify import proves, verify
from pipeloom.judge.verify.blame import Blame
from pipeloom.judge.verify.deeds import all_deeds
from pipeloom.judge.verify.induction import _Loop, is_settled, loop_shape, repeats
from pipeloom.judge.verify.obligations import Prover
from pipeloom.judge.verify.run_tables import build_run
from pipeloom.judge.verify.supply import Plans
from pipeloom.program import Access, Affine, Box, Program, Step, Work
from pipeloom.reference.lift import lift
from pipeloom.reference.resync import synchronize
from tests.unit.judge.verify.programs import (
    BARRIER,
    ROW,
    TILE,
    T,
    add_up,
    attention,
    changed,
    copy,
    edited,
    lds,
    load_row,
    looped,
    lowered,
    producer_consumer,
    program,
    register,
    row_sum,
    row_sum_program,
    straight,
    wait,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "schedules.jsonl.gz"
with gzip.open(GOLDEN, "rt", encoding="utf-8") as stream:
    SPECS: dict[str, Any] = {
        case["case"].removeprefix("canonical/"): case["spec"]
        for case in map(json.loads, stream)
        if case["case"].startswith("canonical/")
    }

SAMPLE = ["ping_pong/005", "ping_pong/041", "four_wave/000", "single_buffer/002"]
Pair = tuple[str, tuple[int, int] | None, tuple[int, int]]


def brute_force(program: Program, trips: range) -> set[Pair]:
    """The hazards of each trip count on its own, without any induction."""
    found: set[Pair] = set()
    plans = Plans(program, all_deeds(program))
    for count in trips:
        run = build_run(plans, {"T": count}, True)
        prover = Prover(run)
        prover.prove()
        for hazard in Blame(run, prover).hazards():
            first, second = hazard.first, hazard.second
            found.add(
                (
                    hazard.kind.value,
                    None if first is None else (first.section, first.slot),
                    (second.section, second.slot),
                )
            )
    return found


@pytest.mark.parametrize("name", SAMPLE)
def test_ten_trip_counts_show_what_the_verdict_shows(name: str) -> None:
    program = lift(build_schedule(SPECS[name]))
    names = [section.name for section in program.groups[0].sections]
    verdict = verify(program, counter_stall=True)
    claimed = {
        (
            f.kind.value,
            None if f.first is None else (names.index(f.first.section), f.first.slot),
            (names.index(f.second.section), f.second.slot),
        )
        for f in verdict.findings
        if f.counterexample is not None
    }
    assert claimed == brute_force(program, range(10))


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_a_proof_is_a_proof_at_ten_trip_counts(name: str) -> None:
    program = lift(synchronize(build_schedule(name), reorder=True))
    assert verify(program, counter_stall=True).proved
    assert brute_force(program, range(4, 10)) == set()


@pytest.mark.parametrize(
    "program", [row_sum_program(), producer_consumer(), lowered(attention())], ids=lambda p: p.name
)
def test_a_cut_stays_where_it_is_as_the_loop_grows(program: Program) -> None:
    """Once trips repeat they do so in every longer run."""
    verdict = verify(program)
    assert verdict.proved
    shape = loop_shape(program, "T")
    assert shape is not None
    plans = Plans(program, all_deeds(program))
    for count in range(verdict.coverage.checked[-1], 14):
        run = build_run(plans, {"T": count}, None)
        outcome = Prover(run).prove()
        assert not outcome.wrong
        assert not outcome.missing
        assert repeats(run, outcome, shape) == (verdict.coverage.repeats_from, 1)


def test_loads_kept_in_flight_for_several_trips(toy: Any) -> None:
    lines = "load1 load mma vm0 bar frag lg0 bar", "load load1 load1 mma vm2 bar frag lg0 bar"
    for line in lines:
        compiled = toy.compiled("load vm0 bar frag lg0 bar", line, "mma")
        assert verify(lift(compiled, toy.Kernel())).proved


def drifting(places: int) -> Program:
    """Q lies in a row of places, which every trip moves on by one, with P behind: as long as there
    are fewer trips than places, the last still holds Q."""
    loop = Loop("drifting", over="k")
    x = loop.stream("X", "f32", k=1, c=8)
    p, q = loop.resident("P", "f32", c=8), loop.resident("Q", "f32", c=8)
    s = loop.carry("S", c=8)
    s += x.sum("k")
    loop.store("with_p", (s + p).named("plus_p"))
    loop.store("with_q", (s + q).named("plus_q"))
    names = [f"q{n}" for n in range(places)]
    base = lowered(loop.as_written, [register(name, ROW) for name in names])

    def fill(steps: list[Step]) -> None:
        steps += [copy(name, name, f"r.{name}", None, "vm") for name in "PQ"]
        steps += [wait("vm"), *(copy("Q", "r.Q", name, None) for name in names)]

    def move(steps: list[Step]) -> None:
        row = ["r.P", *names]
        steps += [copy("Q", *pair, 0) for pair in reversed(list(pairwise(row)))]

    base = edited(edited(base, 0, "before", fill), 0, "loop", move)
    return changed(base, "after", "plus_q", reads=(Access("r.S"), Access(names[-1])))


@pytest.mark.parametrize("places", [2, 4, 7])
def test_what_goes_wrong_after_many_trips_is_found(places: int) -> None:
    base = drifting(places)
    verdict = verify(base)
    assert not verdict.proved
    assert not proves(base)
    assert min(finding.trips for finding in verdict.findings) == places
    assert brute_force(base, range(places)) == set()


LEFT, RIGHT = (((0, 1), (0, 4)),), (((0, 1), (4, 8)),)


def spread(places: int) -> Program:
    """A row is stored half by half, in two trips, while Q moves along ``places``: where it comes
    from at the end differs in each of so many last trips."""
    loop = Loop("spread", over="k")
    x = loop.stream("X", "f32", k=1, c=8)
    q = loop.resident("Q", "f32", c=8)
    s = loop.carry("S", c=8)
    s += x.sum("k")
    loop.store("Y", x)
    loop.store("out", (s + q).named("plus"))
    names = [f"q{n}" for n in range(places)]

    def store(source: str, half: tuple[Box, ...], at: int) -> Work:
        step = copy("Y", Access(source, half), Access("Y", half), at, "vm", label=f"store {source}")
        return replace(step, parts=half)

    first: list[Step] = [
        copy("Q", "Q", "r.Q", None, "vm"),
        load_row("now", 0),
        wait("vm"),
        store("now", LEFT, 0),
        add_up(["now"], "sum", 0),
        *(copy("Q", "r.Q", name, None) for name in names),
    ]
    trip: list[Step] = [
        copy("X", "now", "before", 0),
        load_row("now", 1),
        wait("vm"),
        store("now", LEFT, 1),
        store("before", RIGHT, 0),
        add_up(["now"], "sum", 1),
        *(copy("Q", *pair, 0) for pair in reversed(list(pairwise(["r.Q", *names])))),
    ]
    plus = Work(
        node="plus",
        label="plus",
        iteration=None,
        reads=(Access("sum"), Access(names[-1])),
        writes=(Access("r.plus"),),
    )
    last = [store("now", RIGHT, 0), plus, copy("out", "r.plus", "out", None, "vm")]
    rows = [register(name, ROW) for name in ("r.plus", "r.Q", *names)]
    return program(
        loop.as_written,
        [register("now", TILE), register("before", TILE), register("sum", ROW, 0.0), *rows],
        [((0,), [straight("first", *first), looped(*trip), straight("last", *last, first=T)])],
        iterations=Affine(1, (("T", 1),)),
    )


@pytest.mark.parametrize("places", [1, 3])
def test_a_cut_keeps_clear_of_trips_that_differ(places: int) -> None:
    """Stores of an iteration reach a trip ahead and back, and nothing is apart by more: behind the
    cut come one trip like those before it, one that is apart, and those that differ."""
    verdict = verify(spread(places))
    assert verdict.proved
    assert (verdict.coverage.repeats_from, verdict.coverage.checked[-1]) == (2, places + 4)


@pytest.mark.parametrize(
    ("found", "settled"),
    [
        ([(4, (2, 1))], True),
        ([(4, None)], False),
        ([(3, None), (4, (2, 1))], True),
        ([(3, None), (4, (2, 2))], False),
        ([(2, None), (3, (1, 2)), (4, (2, 2))], True),
        ([(3, (1, 1)), (4, (2, 2))], True),
        ([(3, (1, 3)), (4, (2, 2))], False),
        ([(4, (2, 1)), (4, (2, 2)), (3, (1, 2))], True),
        ([(4, (2, 1)), (4, (2, 2)), (3, None)], False),
        ([(4, (2, 3)), (4, (2, 2)), (3, (1, 3)), (2, (1, 3))], False),
    ],
)
def test_runs_stand_for_longer_ones_if_one_number_of_trips_leads_back_to_them(
    found: list[tuple[int, tuple[int, int] | None]], settled: bool
) -> None:
    """Runs of one count are those with other counts of other loops."""
    assert is_settled(4, found) == settled
    assert is_settled(4, found[::-1]) == settled


def handed_over(*, early: bool) -> Program:
    """Two buffers, one barrier per row: while a row is added up the next one is filled in. If
    ``early``, also the last of a trip while the first of the next is."""
    buffers = [lds(f"buffer {n}", TILE) for n in range(2)]

    def fill(n: int) -> list[Step]:
        target = Access(f"buffer {n}", shared=True)
        return [copy("X", "X", target, n, "vm", label=f"fill {n}"), wait("vm"), BARRIER]

    def use(n: int) -> list[Step]:
        fetch = copy("X", f"buffer {n}", "R", n, "lgkm", label=f"fetch {n}")
        return [BARRIER, fetch, wait("lgkm"), add_up(["R"], "sum", n)]

    store = straight("end", copy("out", "sum", "out", None, "vm"))
    meet = [] if early else [BARRIER]
    return program(
        row_sum(),
        [*buffers, register("R", TILE), register("sum", ROW, 0.0)],
        [
            ((0,), [looped(*fill(0), *fill(1), *meet, advance=2)]),
            ((1,), [looped(*use(0), *use(1), *meet, advance=2), store]),
        ],
        iterations=Affine(0, (("T", 2),)),
    )


@pytest.mark.parametrize(("early", "apart"), [(False, 1), (True, 2)])
def test_trips_that_meet_in_lds_are_not_apart(early: bool, apart: int) -> None:
    """One wave fetches the last row of a trip while the other fills in the first of the next."""
    made = handed_over(early=early)
    verdict = verify(made)
    assert verdict.proved
    shape = loop_shape(made, "T")
    assert shape is not None
    run = build_run(Plans(made, all_deeds(made)), {"T": 6}, None)
    loop = _Loop(run, shape, 6)
    assert loop.apart(loop.touched()) == apart
