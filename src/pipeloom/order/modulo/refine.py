"""Better schedules at the same II: fewer stages, fewer buffers, fewer registers, earlier loads.

The objectives are optimised one after the other, each held at its best while the next one is
improved (lexicographic order), on the exact model of the whole body.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.exact import Effort
from pipeloom.order.modulo.result import ObjectiveValue
from pipeloom.order.modulo.search import Verdict
from pipeloom.order.modulo.whole import Objective, WholeModel


def refine_schedule(
    structure: Structure,
    ii: int,
    starts: Sequence[int],
    objectives: Sequence[Objective],
    effort: Effort,
) -> tuple[Sequence[int], tuple[ObjectiveValue, ...]]:
    """The improved starts, and each objective's value with whether it is proved best.

    Objectives that mean nothing for the problem (buffers without channels) are left out.
    """
    model = WholeModel(structure, ii, stages=structure.problem.budget.stages, turnable=True)
    values: list[ObjectiveValue] = []
    for objective in objectives:
        if effort.spent():
            break
        target = model.expression(objective)
        if target is None:
            continue
        expression, sign = target
        model.hint(starts)
        model.model.model.minimize(expression)
        verdict, found, solver = model.solve(effort)
        if verdict is not Verdict.FOUND:
            break
        starts = found
        best = round(solver.objective_value)
        proved = round(solver.best_objective_bound) >= best
        values.append(ObjectiveValue(objective.value, sign * best, proved))
        model.model.model.clear_objective()
        model.model.model.add(expression <= best)
    return starts, tuple(values)
