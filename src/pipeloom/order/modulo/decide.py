"""Is this II possible? The cheapest sufficient answer first.

1. A recurrence or a unit that needs more than II, or lifetimes that need more than a budget:
   impossible, without search.
2. Modulo list scheduling of the whole body: finds most schedules, with short lifetimes.
3. Depth-first search of the core: places tighter loops in a millisecond, refutes many IIs.
4. Iterative modulo scheduling of the core, for large bodies.
5. CP-SAT: on the core when nothing is budgeted, on the whole body when something is.

A placement of the core is completed to the whole body; when budgets do not fit it, step 5 decides.
Limits on the buffers of one channel are edges (``buffer_edges``) and need no step of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.order.modulo.bounds import (
    UnitBound,
    buffer_edges,
    most_buffers,
    unit_bounds,
)
from pipeloom.order.modulo.core import Core, Structure
from pipeloom.order.modulo.depth_first import CoreSearch, Verdict
from pipeloom.order.modulo.earliest import complete_schedule
from pipeloom.order.modulo.effort import Effort, OutOfEffort
from pipeloom.order.modulo.exact import place_core
from pipeloom.order.modulo.floors import exceeds_budget
from pipeloom.order.modulo.iterative import repair_schedule
from pipeloom.order.modulo.listing import list_schedule
from pipeloom.order.modulo.measure import fits_budget, measure, normalised
from pipeloom.order.modulo.problem import ModuloProblem
from pipeloom.order.modulo.recurrences import Recurrence, critical_recurrence
from pipeloom.order.modulo.tighten import tighten_lifetimes
from pipeloom.order.modulo.topdown import TopDownScheduler
from pipeloom.order.modulo.whole import WholeModel

QUICK_FAILURES = 60
REPAIR_SEEDS = 2
REPAIR_EFFORT = 8

EDGES_PER_STEP = 8
"""Edges that a longest path settles in one step of effort."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict at one II, its schedule if found, and the method that settled it."""

    ii: int
    verdict: Verdict
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
        self._cores: dict[int, tuple[Core, CoreSearch]] = {}

    def quick(self, ii: int, effort: Effort) -> Decision:
        """Steps 1 to 4; UNKNOWN is a normal answer."""
        try:
            return self._quick(ii, effort)
        except OutOfEffort:
            return Decision(ii, Verdict.UNKNOWN)

    def _quick(self, ii: int, effort: Effort) -> Decision:
        if ii < self.mii:
            return Decision(ii, Verdict.IMPOSSIBLE, how="bounds")
        effort.step(self.graph_steps)
        if self.budgeted:
            short = exceeds_budget(self.problem, self.structure.timed(ii), ii)
            if short is not None:
                return Decision(ii, Verdict.IMPOSSIBLE, how=f"least lifetimes ({short})")
        listed = self._top_down(ii, effort)
        if listed is not None:
            return listed
        core, search = self._core(ii)
        verdict, placed = search.run(QUICK_FAILURES, effort)
        if verdict is Verdict.IMPOSSIBLE:
            return Decision(ii, verdict, how="search of the core")
        if verdict is Verdict.FOUND:
            decision = self._complete(core, placed, "search of the core")
            if decision.verdict is Verdict.FOUND or self.budgeted:
                return decision
        for attempt in range(REPAIR_SEEDS):
            found = repair_schedule(
                core, effort, seed=effort.seed * REPAIR_SEEDS + attempt, rounds=REPAIR_EFFORT
            )
            if found is not None:
                return self._complete(core, found, "iterative modulo scheduling")
        return Decision(ii, Verdict.UNKNOWN)

    def _top_down(self, ii: int, effort: Effort) -> Decision | None:
        timed = self.structure.timed(ii)
        stages = self.problem.budget.stages
        starts = TopDownScheduler(self.structure, timed, ii, stages, effort).run()
        if starts is None:
            return None
        starts = tighten_lifetimes(self.structure, timed, ii, starts)
        if self.budgeted and not fits_budget(self.problem, measure(self.problem, ii, starts)):
            return None
        return Decision(ii, Verdict.FOUND, normalised(starts), "modulo list scheduling")

    def exact(self, ii: int, effort: Effort, work: float | None = None) -> Decision:
        """Step 5; UNKNOWN only when ``effort`` or ``work`` ran out."""
        try:
            return (
                Decision(ii, Verdict.UNKNOWN) if effort.spent() else self._exact(ii, effort, work)
            )
        except OutOfEffort:
            return Decision(ii, Verdict.UNKNOWN)

    def _exact(self, ii: int, effort: Effort, work: float | None) -> Decision:
        core, _ = self._core(ii)
        if not self.budgeted:
            verdict, placed = place_core(core, effort, work)
            if verdict is not Verdict.FOUND:
                return Decision(ii, verdict, how="CP-SAT on the core")
            return self._complete(core, placed, "CP-SAT on the core")
        model = WholeModel(
            self.structure,
            ii,
            effort,
            stages=self.problem.budget.stages,
            turnable=bool(self.hint),
        )
        if self.hint and model.possible:
            model.hint(self.hint)
        verdict, starts, _ = model.solve(work)
        return Decision(ii, verdict, tuple(starts), "CP-SAT on the whole body")

    def decide(self, ii: int, effort: Effort) -> Decision:
        """All steps."""
        decision = self.quick(ii, effort)
        if decision.verdict is not Verdict.UNKNOWN:
            return decision
        return self.exact(ii, effort)

    def fallback(self) -> Decision:
        """The unpipelined schedule; UNKNOWN when budgets rule it out."""
        ii, starts = list_schedule(self.structure)
        starts = tighten_lifetimes(self.structure, self.structure.timed(ii), ii, starts)
        if not fits_budget(self.problem, measure(self.problem, ii, starts)):
            return Decision(ii, Verdict.UNKNOWN)
        return Decision(ii, Verdict.FOUND, normalised(starts), "list scheduling")

    def _core(self, ii: int) -> tuple[Core, CoreSearch]:
        if ii not in self._cores:
            core = self.structure.core(ii)
            self._cores[ii] = (core, CoreSearch(core))
        return self._cores[ii]

    def _complete(self, core: Core, placed: dict[int, int], how: str) -> Decision:
        ii = core.ii
        starts = complete_schedule(self.structure, core, placed)
        starts = tighten_lifetimes(self.structure, self.structure.timed(ii), ii, starts)
        if self.budgeted and not fits_budget(self.problem, measure(self.problem, ii, starts)):
            return Decision(ii, Verdict.UNKNOWN)
        return Decision(ii, Verdict.FOUND, normalised(starts), how)


def _channels_compete(problem: ModuloProblem) -> bool:
    """Whether LDS can still overflow when every channel keeps its own limit."""
    limit = problem.budget.lds_bytes
    if limit is None:
        return False
    most = most_buffers(problem)
    return sum(c.bytes * (n or 0) for c, n in zip(problem.channels, most, strict=True)) > limit
