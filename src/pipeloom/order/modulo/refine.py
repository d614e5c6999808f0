"""Better schedules at the same II: fewer stages, fewer buffers, fewer registers, earlier loads.

The objectives are optimised one after the other, each held at its best while the next one is
improved (lexicographic order), on the exact model of the whole body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.exact import SearchOutcome
from pipeloom.order.modulo.result import ObjectiveValue
from pipeloom.order.modulo.whole import Objective, WholeModel


@dataclass(slots=True)
class Refined:
    """The best starts so far, and the objectives settled on the way to them."""

    starts: Sequence[int]
    values: list[ObjectiveValue] = field(default_factory=list)
    settled: bool = False


def refine_schedule(
    structure: Structure,
    ii: int,
    refined: Refined,
    objectives: Sequence[Objective],
    effort: Effort,
) -> None:
    """Improve ``refined``; each objective's value comes with whether it is proved best.

    Objectives that mean nothing for the problem (buffers without channels) are left out. What is
    there at any moment is valid, so that a search may be broken off anywhere.
    """
    stages = structure.problem.budget.stages
    model = WholeModel(structure, ii, effort, stages=stages, turnable=True)
    for objective in objectives:
        if effort.spent():
            return
        target = model.expression(objective)
        if target is None:
            continue
        expression, sign = target
        model.hint(refined.starts)
        model.model.model.minimize(expression)
        verdict, found, solver = model.solve()
        if verdict is not SearchOutcome.FOUND:
            return
        refined.starts = found
        best = round(solver.objective_value)
        proved = round(solver.best_objective_bound) >= best
        refined.values.append(ObjectiveValue(objective.value, sign * best, proved))
        model.model.model.clear_objective()
        model.model.model.add(expression <= best)
    refined.settled = all(value.proved for value in refined.values)
