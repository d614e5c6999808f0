"""Is this II possible? The cheapest sufficient answer first.

1. A recurrence or a unit that needs more than II, or lifetimes that need more than a budget:
   impossible, without search.
2. List scheduling of the whole body: finds most schedules, with short lifetimes.
3. CP-SAT: on the core when nothing is budgeted, on the whole body when something is.

Limits on the buffers of one channel are edges (``buffer_edges``) and need no step of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.order.modulo.bounds import (
    UnitBound,
    buffer_edges,
    exceeds_budget,
    most_buffers,
    unit_bounds,
)
from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.effort import Effort, OutOfEffort
from pipeloom.order.modulo.exact import SearchOutcome
from pipeloom.order.modulo.list_scheduling import ATTEMPTS, ListScheduler, unpipelined
from pipeloom.order.modulo.measure import fits_budget, measure, normalised
from pipeloom.order.modulo.place_core import place_core
from pipeloom.order.modulo.problem import ModuloProblem
from pipeloom.order.modulo.recurrences import Recurrence, critical_recurrence
from pipeloom.order.modulo.whole import WholeModel

EDGES_PER_STEP = 8
"""Edges that a longest path settles in one step of effort."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict at one II, its schedule if found, and the method that settled it."""

    ii: int
    verdict: SearchOutcome
    starts: tuple[int, ...] = ()
    how: str = ""


class Decider:
    """Decides IIs of one problem, sharing what does not depend on II."""

    def __init__(self, problem: ModuloProblem, hint: tuple[int, ...] = ()) -> None:
        self.problem = problem
        self.hint = hint
        self.structure = Structure(problem)
        count = len(problem.ops)
        self.units: tuple[UnitBound, ...] = unit_bounds(problem)
        self.recurrence: Recurrence | None = critical_recurrence(count, problem.edges)
        self.res_mii = max((bound.ii for bound in self.units), default=1)
        self.rec_mii = self.recurrence.ii if self.recurrence is not None else 0
        self.buffer_loop: Recurrence | None = None
        implied = buffer_edges(problem)
        if implied:
            self.buffer_loop = critical_recurrence(count, (*problem.edges, *implied))
        buffer_ii = self.buffer_loop.ii if self.buffer_loop is not None else 0
        self.mii = max(1, self.res_mii, self.rec_mii, buffer_ii)
        self.budgeted = (
            problem.budget.stages is not None
            or (problem.budget.registers is not None and bool(problem.values))
            or _channels_compete(problem)
        )
        self.monotone = not self.budgeted and self.structure.stretches()
        lifetimes = len(problem.values) + len(problem.channels)
        paths = (1 + lifetimes) * len(self.structure.edges)
        self.graph_steps = max(1, paths // EDGES_PER_STEP)

    def quick(self, ii: int, effort: Effort, attempts: int = ATTEMPTS) -> Decision:
        """Steps 1 and 2; UNKNOWN is a normal answer."""
        if ii < self.mii:
            return Decision(ii, SearchOutcome.IMPOSSIBLE, how="bounds")
        try:
            effort.step(self.graph_steps)
            timed = self.structure.timed(ii)
            if self.budgeted:
                short = exceeds_budget(self.problem, timed, ii)
                if short is not None:
                    return Decision(ii, SearchOutcome.IMPOSSIBLE, how=f"least lifetimes ({short})")
            stages = self.problem.budget.stages
            starts = ListScheduler(self.structure, timed, ii, stages, effort).run(attempts)
        except OutOfEffort:
            starts = None
        return self._found(ii, starts, "modulo list scheduling")

    def exact(self, ii: int, effort: Effort, work: float | None = None) -> Decision:
        """Step 3; UNKNOWN only when ``effort`` or ``work`` ran out."""
        how = "CP-SAT on the whole body" if self.budgeted else "CP-SAT on the core"
        try:
            if effort.spent():
                return Decision(ii, SearchOutcome.UNKNOWN)
            if self.budgeted:
                verdict, starts = self._whole(ii, effort, work)
            else:
                verdict, starts = place_core(self.structure, ii, effort, work)
        except OutOfEffort:
            return Decision(ii, SearchOutcome.UNKNOWN)
        found = verdict is SearchOutcome.FOUND
        return Decision(ii, verdict, normalised(starts) if found else (), how)

    def _whole(
        self, ii: int, effort: Effort, work: float | None
    ) -> tuple[SearchOutcome, list[int]]:
        stages = self.problem.budget.stages
        model = WholeModel(self.structure, ii, effort, stages=stages, turnable=bool(self.hint))
        if self.hint and model.possible:
            model.hint(self.hint)
        verdict, starts, _ = model.solve(work)
        return verdict, starts

    def decide(self, ii: int, effort: Effort) -> Decision:
        """All steps."""
        decision = self.quick(ii, effort)
        return decision if decision.verdict is not SearchOutcome.UNKNOWN else self.exact(ii, effort)

    def fallback(self) -> Decision:
        """The unpipelined schedule; UNKNOWN when budgets rule it out."""
        ii, starts = unpipelined(self.structure)
        return self._found(ii, starts, "list scheduling")

    def _found(self, ii: int, starts: Sequence[int] | None, how: str) -> Decision:
        """What a heuristic found, where it fits the budgets."""
        if starts is None or not fits_budget(self.problem, measure(self.problem, ii, starts)):
            return Decision(ii, SearchOutcome.UNKNOWN)
        return Decision(ii, SearchOutcome.FOUND, normalised(starts), how)


def _channels_compete(problem: ModuloProblem) -> bool:
    """Whether LDS can still overflow when every channel keeps its own limit."""
    limit = problem.budget.lds_bytes
    if limit is None:
        return False
    most = most_buffers(problem)
    return sum(c.bytes * (n or 0) for c, n in zip(problem.channels, most, strict=True)) > limit
