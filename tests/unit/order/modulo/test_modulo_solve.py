"""How a solve behaves: objectives, stopping, progress, determinism, and the page's example."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from benchmarks.random_loops import Shape, random_problem
from pipeloom.errors import ConfigError, OrderError
from pipeloom.order.modulo import (
    ALL_OBJECTIVES,
    Budget,
    Edge,
    MachineUnit,
    ModuloProblem,
    Objective,
    Op,
    Reader,
    Reservation,
    SolveProgress,
    Value,
    check_modulo,
    explain_ii,
    render_table,
    solve_modulo,
)
from pipeloom.order.modulo.decide import Decider, Decision
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.exact import SearchOutcome
from pipeloom.order.modulo.list_scheduling import ATTEMPTS, ListScheduler
from pipeloom.order.modulo.solve import least_ii

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "modulo-solver.md"
HARD = Shape(ops=40, units=2, longest_hold=5, longest_latency=9, edges_per_op=1.8, carried=0.5)


ABOVE_ITS_BOUND = (
    20,
    Shape(ops=12, second_use=0.9, longest_hold=5, longest_latency=9, carried=0.5),
)
"""Its II is 28, ResMII 27; quick search first finds 40, so that the search goes on from there."""


def page_problem() -> ModuloProblem:
    text = PAGE.read_text(encoding="utf-8")
    return ModuloProblem.from_json(text.split("```json")[1].partition("\n")[2].split("```")[0])


def test_the_page_shows_what_its_problem_gives() -> None:
    problem = page_problem()
    result = solve_modulo(problem)
    assert (result.ii, result.proved, result.stages, result.buffers) == (4, True, 3, (("tile", 2),))


def test_each_objective_is_no_worse_than_without_and_keeps_the_ii() -> None:
    for seed in range(12):
        problem = random_problem(seed, Shape(ops=9))
        plain = solve_modulo(problem)
        for objective in ALL_OBJECTIVES:
            better = solve_modulo(problem, objectives=[objective])
            assert better.ii == plain.ii
            assert not check_modulo(problem, better.ii, better.starts)
            for value in better.objectives:
                assert value.proved
        least = solve_modulo(problem, objectives=[Objective.STAGES])
        assert least.stages <= plain.stages


def test_fewest_stages_are_those_below_which_a_budget_costs_ii() -> None:
    for seed in range(6):
        problem = random_problem(seed, Shape(ops=6, longest_latency=8))
        least = solve_modulo(problem, objectives=[Objective.STAGES])
        (told,) = least.objectives
        assert told.value == least.stages
        if least.stages > 1:
            fewer = problem.with_budget(stages=least.stages - 1)
            with pytest.raises(OrderError):
                solve_modulo(fewer, max_ii=least.ii)


@pytest.mark.parametrize("registers", [None, 9])
@pytest.mark.parametrize("stages", [None, 5])
@pytest.mark.parametrize("values", [(), (Value("v", 0, 1, (Reader(1),)),)])
def test_a_search_is_by_budgets_only_where_they_can_bind(
    values: tuple[Value, ...], stages: int | None, registers: int | None
) -> None:
    ops, edges = (Op("a", 1), Op("b", 0)), (Edge(0, 1, 1),)
    budget = Budget(stages=stages, registers=registers)
    problem = ModuloProblem("pair", (), ops, edges, values=values, budget=budget)
    binds = stages is not None or (registers is not None and values != ())
    assert Decider(problem).budgeted == binds


def test_list_scheduling_leaves_each_op_time_for_what_follows_it() -> None:
    for seed in range(6):
        problem = random_problem(seed, Shape(ops=8, longest_latency=8))
        result = solve_modulo(problem)
        decider = Decider(problem)
        timed = decider.structure.timed(result.ii)
        effort = Effort(None, 1, 0, None)
        scheduler = ListScheduler(decider.structure, timed, result.ii, result.stages, effort)
        for src, dst, weight in timed.edges:
            assert scheduler.latest[src] + weight <= scheduler.latest[dst]


def test_list_scheduling_finds_a_chain_by_itself() -> None:
    once = (Reservation("u", 1),)
    ops = (Op("a", 2, once), Op("b", 2, once), Op("c", 2, once))
    problem = ModuloProblem("chain", (MachineUnit("u", 1),), ops, (Edge(0, 1, 2), Edge(1, 2, 2)))
    found = Decider(problem).quick(3, Effort(None, 1, 0, None))
    assert found.verdict is SearchOutcome.FOUND
    assert not check_modulo(problem, 3, found.starts)


def test_an_ii_that_resists_the_exact_search_is_tried_with_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CP-SAT decides nothing here: what a search that is stopped then has is the heuristic's."""

    def resists(_: Decider, ii: int, effort: Effort, work: float) -> Decision:
        effort.charge(work)
        return Decision(ii, SearchOutcome.UNKNOWN)

    monkeypatch.setattr(Decider, "exact", resists)
    wide = Shape(ops=48, units=3, longest_hold=5, longest_latency=12, edges_per_op=1.6, carried=0.1)
    problem = random_problem(214, wide)
    patient = solve_modulo(problem, work_limit=4)
    assert not check_modulo(problem, patient.ii, patient.starts)
    monkeypatch.setattr("pipeloom.order.modulo.solve.PATIENT_ATTEMPTS", ATTEMPTS)
    assert patient.ii < solve_modulo(problem, work_limit=4).ii


def test_a_later_objective_never_spoils_an_earlier_one() -> None:
    for seed in range(8):
        problem = random_problem(seed, Shape(ops=8))
        first = solve_modulo(problem, objectives=[Objective.STAGES])
        both = solve_modulo(problem, objectives=[Objective.STAGES, Objective.EARLY_LOADS])
        assert both.stages == first.stages


def test_a_heuristic_that_finds_nothing_costs_work_and_not_the_smallest_ii(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """a and b come 3 apart, which is the same slot at II 3, and follow each other in a circle."""
    once = (Reservation("u", 1),)
    ops = (Op("a", 3, once), Op("b", 0, once), Op("c", 9, once), Op("d", 0))
    edges = (Edge(0, 1, 3), Edge(1, 0, 0, 1), Edge(2, 3, 9))
    problem = ModuloProblem("circle", (MachineUnit("u", 1),), ops, edges)
    assert least_ii(problem)[0] == 3
    monkeypatch.setattr(Decider, "quick", lambda _, ii, effort: Decision(ii, SearchOutcome.UNKNOWN))
    told: list[SolveProgress] = []
    result = solve_modulo(problem, progress=told.append)
    assert (result.ii, result.proved) == (4, True)
    assert all(at.best is None or at.ii <= at.best for at in told)


def test_a_stage_budget_that_leaves_no_overlap_costs_ii() -> None:
    problem = page_problem()
    one = solve_modulo(problem.with_budget(stages=1))
    assert one.stages == 1
    assert one.proved
    assert one.ii > solve_modulo(problem).ii
    assert explain_ii(problem.with_budget(stages=1), one.ii - 1) is not None


def test_max_ii_below_the_smallest_is_refused() -> None:
    with pytest.raises(OrderError, match="no schedule with II up to 3"):
        solve_modulo(page_problem(), max_ii=3)


def test_a_spent_clock_still_gives_a_checked_schedule_with_its_bound() -> None:
    problem = random_problem(5, HARD)
    result = solve_modulo(problem, time_limit=1e-6)
    assert not check_modulo(problem, result.ii, result.starts)
    assert 1 <= result.lower_bound <= result.ii
    assert result.proved == (result.lower_bound == result.ii)
    if not result.proved:
        assert result.certificate.stopped == "time limit"


def test_a_work_limit_ends_the_search_at_the_same_place_every_time() -> None:
    problem = random_problem(*ABOVE_ITS_BOUND)
    first, second = (solve_modulo(problem, work_limit=1e-4) for _ in range(2))
    assert first == second
    assert first.certificate.stopped == "work limit"
    assert first.lower_bound < 28 <= first.ii
    assert solve_modulo(problem, work_limit=100.0) == solve_modulo(problem)


def test_ctrl_c_keeps_the_best_schedule() -> None:
    problem = random_problem(*ABOVE_ITS_BOUND)
    calls = 0

    def press(progress: SolveProgress) -> None:
        nonlocal calls
        if progress.best is not None:
            calls += 1
            raise KeyboardInterrupt

    result = solve_modulo(problem, progress=press)
    assert calls == 1
    assert result.ii > 28
    assert not check_modulo(problem, result.ii, result.starts)
    assert not result.proved
    assert result.certificate.stopped == "interrupted"


def test_progress_tells_bound_and_best_in_order() -> None:
    seen: list[SolveProgress] = []
    result = solve_modulo(random_problem(*ABOVE_ITS_BOUND), progress=seen.append)
    assert seen
    bounds = [p.lower_bound for p in seen]
    assert bounds == sorted(bounds)
    assert result.ii == 28 > max(result.res_mii, result.rec_mii)
    bests = [p.best for p in seen if p.best is not None]
    assert bests == sorted(bests, reverse=True)
    assert all(p.lower_bound <= result.ii for p in seen)
    assert [p.seconds for p in seen] == sorted(p.seconds for p in seen)


def test_the_order_of_ops_does_not_change_the_ii() -> None:
    for seed in range(15):
        problem = random_problem(seed, Shape(ops=10, carried=0.3))
        order = list(range(len(problem.ops)))
        random.Random(seed).shuffle(order)
        place = {old: new for new, old in enumerate(order)}
        shuffled = replace(
            problem,
            ops=tuple(problem.ops[old] for old in order),
            edges=tuple(
                Edge(place[e.src], place[e.dst], e.latency, e.distance) for e in problem.edges
            ),
        )
        assert solve_modulo(shuffled).ii == solve_modulo(problem).ii


def test_workers_do_not_change_ii_or_proof() -> None:
    for seed in (3, 11):
        problem = random_problem(seed, Shape(ops=14, longest_hold=4, carried=0.4))
        one, two = solve_modulo(problem), solve_modulo(problem, workers=2)
        assert (one.ii, one.proved, one.lower_bound) == (two.ii, two.proved, two.lower_bound)


_SCRIPT = """
from pipeloom.order.modulo import ALL_OBJECTIVES, solve_modulo
from benchmarks.random_loops import Shape, random_problem
for seed in range(6):
    problem = random_problem(seed, Shape(ops=10, carried=0.4))
    print(solve_modulo(problem, objectives=ALL_OBJECTIVES))
"""


def test_hash_seeds_do_not_change_a_byte() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1


def test_the_rendered_table_has_every_op_on_its_unit() -> None:
    problem = page_problem()
    result = solve_modulo(problem)
    head, *rows = render_table(result)
    assert head == ["slots", "mem", "mfma"]
    cells = [[label.split("@")[0] for label in row[1:]] for row in rows]
    assert cells == [["load", "mma"], ["", "mma"]]


def test_a_place_that_is_given_back_is_free_again() -> None:
    """A search that forgets so proves that 16 is the smallest II, and 15 has a schedule."""
    problem = random_problem(380, Shape(ops=7, units=2, second_use=0.9))
    result = solve_modulo(problem, workers=1)
    assert (result.ii, result.status.value) == (15, "proved")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_certificate_refutes_every_smaller_ii(count: int) -> None:
    once = (Reservation("u", 1),)
    ops = tuple(Op(f"op {n}", 0, once) for n in range(count))
    result = solve_modulo(ModuloProblem("busy", (MachineUnit("u", 1),), ops, ()))
    refuted = [ii for r in result.certificate.refutations for ii in range(r.first, r.last + 1)]
    assert (result.ii, refuted) == (count, list(range(1, count)))


def test_neighbouring_iis_that_fall_alike_are_refuted_together() -> None:
    """Three ops hold a unit twice each; which IIs have room for them, by trying all starts."""
    pairs = [((0, 2), (7, 1)), ((0, 2), (10, 1)), ((0, 1), (5, 1))]

    def fits(ii: int) -> bool:
        slots = [[o + n for o, length in pair for n in range(length)] for pair in pairs]
        starts = product(range(ii), repeat=len(pairs))
        held = (
            Counter((s + x) % ii for s, mine in zip(at, slots, strict=True) for x in mine)
            for at in starts
        )
        return any(max(count.values()) == 1 for count in held)

    smallest = next(ii for ii in range(1, 30) if fits(ii))
    ops = tuple(
        Op(f"op {n}", 0, tuple(Reservation("u", length, offset=o) for o, length in pair))
        for n, pair in enumerate(pairs)
    )
    result = solve_modulo(ModuloProblem("twice", (MachineUnit("u", 1),), ops, ()), workers=1)
    found = result.certificate.refutations
    refuted = [ii for r in found for ii in range(r.first, r.last + 1)]
    assert (result.ii, refuted) == (smallest, list(range(1, smallest)))
    assert len(found) > 1
    assert found[-1].last > found[-1].first
    assert all(one.how != two.how for one, two in pairwise(found))


def test_what_holds_a_unit_for_long_is_one_run_of_its_slots() -> None:
    """From its first slot to its last, in the table as in the data."""
    ops = tuple(Op(name, 0, (Reservation("u", held),)) for name, held in (("a", 3), ("b", 1)))
    result = solve_modulo(ModuloProblem("long", (MachineUnit("u", 1),), ops, ()))
    assert result.ii == 4
    said: Any = result.to_dict()
    at = {start["op"]: start["slot"] for start in said["starts"]}
    told = [
        (hold["ops"][0], slot)
        for hold in said["units"][0]["holds"]
        for slot in range(hold["slots"][0], hold["slots"][1] + 1)
    ]
    assert sorted(told) == sorted(
        (name, (at[name] + n) % 4) for name, held in (("a", 3), ("b", 1)) for n in range(held)
    )
    shown = {row[1].split("@")[0]: row[0] for row in render_table(result)[1:]}
    assert shown["b"] == str(at["b"])
    if at["a"] <= 1:
        assert shown["a"] == f"{at['a']}-{at['a'] + 2}"


def test_a_unit_that_is_held_too_often_need_not_be_the_first() -> None:
    twice = (Reservation("one", 1), Reservation("two", 2), Reservation("two", 2, 1))
    units = (MachineUnit("one", 1), MachineUnit("two", 1))
    with pytest.raises(ConfigError, match="'op' holds 'two' 2 times at once"):
        solve_modulo(ModuloProblem("twice", units, (Op("op", 0, twice),), ()))
