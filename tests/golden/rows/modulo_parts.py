"""What the parts of the modulo scheduler say of random loops at some IIs, before any search:
bounds, paths, tables, heuristic orders, and the models that CP-SAT is asked. A row for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from benchmarks.kernel_results import digest
from benchmarks.random_loops import Shape, random_problem
from pipeloom.order.modulo import ALL_OBJECTIVES, ModuloProblem
from pipeloom.order.modulo.bounds import buffer_edges, enough_ii, exceeds_budget, unit_bounds
from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.decide import Decider, place_core, reduced_distances
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.exact import ModuloModel, SearchOutcome
from pipeloom.order.modulo.list_scheduling import ORDERS, ListScheduler
from pipeloom.order.modulo.longest_paths import TimedGraph
from pipeloom.order.modulo.measure import fits_budget, measure, unit_tables
from pipeloom.order.modulo.whole import WholeModel

SHAPES = {
    "small": Shape(lifetimes=True),
    "tight": Shape(ops=8, units=2, lifetimes=True, tightness=0.9, carried=0.4),
    "carried": Shape(ops=9, edges_per_op=2.0, carried=0.6, longest_latency=9, lifetimes=True),
    "held long": Shape(ops=7, units=3, longest_hold=9, second_use=0.6, lifetimes=True),
    "few hold": Shape(ops=12, edges_per_op=2.5, carried=0.1),
    "long": Shape(ops=14, units=2, longest_latency=40, longest_hold=30, carried=0.1),
}
EACH = 12


def modulo_part_rows() -> dict[str, dict[str, str]]:
    """By shape and seed: bounds in words, the rest as hashes, part by part."""
    return {
        name: {
            f"seed {seed}": "; ".join(_said(_drawn(name, seed), Random(seed)))
            for seed in range(100, 100 + EACH)
        }
        for name in SHAPES
    }


def _drawn(name: str, seed: int) -> ModuloProblem:
    problem = random_problem(seed, SHAPES[name])
    if name != "few hold":
        return problem
    ops = [replace(op, uses=(), load=False) if n % 4 else op for n, op in enumerate(problem.ops)]
    return replace(problem, ops=tuple(ops))


def _said(problem: ModuloProblem, rng: Random) -> Iterator[str]:
    decider = Decider(problem)
    yield f"MII {decider.mii} to {enough_ii(problem)}, {decider.recurrence}, {decider.buffer_loop}"
    yield f"{'' if decider.budgeted else 'no '}budgets, monotone {decider.monotone}"
    yield digest(f"{unit_bounds(problem)} {buffer_edges(problem)} {decider.graph_steps}")
    for more in (0, 1, rng.randint(2, 9)):
        yield f"II {decider.mii + more}: {', '.join(_at(problem, decider, decider.mii + more))}"


def _at(problem: ModuloProblem, decider: Decider, ii: int) -> Iterator[str]:
    structure, effort = decider.structure, Effort(None, 1, 0)
    timed = structure.timed(ii)
    yield f"{exceeds_budget(problem, timed, ii)}"
    yield digest(_paths(timed))
    yield digest(_core(structure, ii))
    lists = ListScheduler(structure, timed, ii, problem.budget.stages, effort)
    said = [lists.possible, lists.latest, [lists._ranks(order) for order in ORDERS]]
    starts = lists.run(2)
    yield f"{starts is not None}, {digest(f'{said} {starts} {effort.steps}')}"
    if starts is not None:
        usage = measure(problem, ii, starts)
        yield digest(f"{usage} {fits_budget(problem, usage)} {unit_tables(problem, ii, starts)}")
    yield str(decider.quick(ii, Effort(None, 1, 0), 1).verdict.value)
    yield digest(_models(structure, ii, problem.budget.stages))


def _paths(timed: TimedGraph) -> str:
    count = timed.count
    heads, tails = [0] * count, [0] * count
    said: list[Any] = [sorted(timed.edges), timed.settle(heads), heads]
    said += [TimedGraph.reversed(timed).settle(tails), tails, timed.longest_from(0)]
    return str(said)


def _core(structure: Structure, ii: int) -> str:
    core = structure.core(ii)
    room = structure.room(core.holds.values())
    near = [sorted(reduced_distances(far)) for far in core.far]
    return f"{core} {room} {near} {structure.order} {structure.component_of}"


def _models(structure: Structure, ii: int, stages: int | None) -> str:
    """The models as they are stated: of the core, and of the whole with every objective."""
    found: list[object] = []

    def stated(model: ModuloModel, work: float | None = None) -> tuple[SearchOutcome, None]:
        found.append(str(model.model.Proto()))
        return SearchOutcome.UNKNOWN, None

    effort = Effort(None, 1, 0)
    with patch.object(ModuloModel, "solve", stated):
        place_core(structure, ii, effort)
        for turnable in (False, True):
            whole = WholeModel(structure, ii, effort, stages=stages, turnable=turnable)
            found.append(whole.possible)
            if whole.possible:
                whole.hint(range(len(structure.problem.ops)))
                found += [whole.kept, [_named(whole, one) for one in ALL_OBJECTIVES]]
                whole.solve()
    return f"{found} {effort.steps}"


def _named(whole: WholeModel, objective: Any) -> str:
    expression = whole.expression(objective)
    return "none" if expression is None else f"{expression[0]} {expression[1]}"
