"""Is this II possible? The cheapest sufficient answer first.

1. A recurrence or a unit that needs more than II, or lifetimes that need more than a budget:
   impossible, without search.
2. List scheduling of the whole body: finds most schedules, with short lifetimes.
3. CP-SAT: on the core when nothing is budgeted, on the whole body when something is.

Limits on the buffers of one channel are edges (``buffer_edges``) and need no step of their own.

The core at one II, exactly: CP-SAT gives its ops slots, and the rest of the body follows.

Once core ops have slots, each op's time is the least one that satisfies its edges and, for a
placed op, falls into its slot. Least times also give the fewest stages those slots permit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.errors import InternalError
from pipeloom.order.modulo.bounds import (
    UnitBound,
    buffer_edges,
    exceeds_budget,
    most_buffers,
    unit_bounds,
)
from pipeloom.order.modulo.core import Core, Hold, Structure
from pipeloom.order.modulo.effort import Effort, OutOfEffort
from pipeloom.order.modulo.exact import ModuloModel, SearchOutcome
from pipeloom.order.modulo.list_scheduling import ATTEMPTS, ListScheduler, unpipelined
from pipeloom.order.modulo.longest_paths import settle_in_slots
from pipeloom.order.modulo.measure import fits_budget, measure, normalised
from pipeloom.order.modulo.problem import ModuloProblem
from pipeloom.order.modulo.recurrences import Recurrence, critical_recurrence
from pipeloom.order.modulo.reservations import ReservationTable, first_free
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


def place_core(
    structure: Structure, ii: int, effort: Effort, work: float | None = None
) -> tuple[SearchOutcome, list[int]]:
    """Decide an II without budgets: start times of all ops, or a proof that there are none."""
    core = structure.core(ii)
    model = ModuloModel(ii, effort)
    turned = False
    for number, group in enumerate(core.groups):
        far = core.far[number]
        # Any op may be the origin of its group. All groups but one may also turn by 0..II-1.
        turn = ii - 1 if turned else 0
        turned = True
        for position, op in enumerate(group):
            low, high = far[0][position], -far[position][0]
            model.add_op(op, low, high + turn)
        for a, b, weight in reduced_distances(far):
            model.model.add(model.start[group[b]] - model.start[group[a]] >= weight)
    _order_twins(model, core)
    model.add_units(core.holds, structure.room(core.holds.values()))
    verdict, solver = model.solve(work)
    if verdict is not SearchOutcome.FOUND:
        return verdict, []
    slots = {op: solver.value(model.start[op]) % ii for op in core.holds}
    return verdict, _complete(structure, core, slots)


def _complete(structure: Structure, core: Core, slots: dict[int, int]) -> list[int]:
    """Start times of all ops, given the slots of the core."""
    ii = core.ii
    table = ReservationTable(ii, structure.room(core.holds.values()))
    for op, slot in slots.items():
        if not table.add(core.holds[op], slot):
            raise InternalError(f"core op {op} does not fit its slot {slot} at II {ii}")
    timed = structure.timed(ii)
    if core.fillers:
        rough = [0] * len(structure.problem.ops)
        settle_in_slots(timed, rough, slots, ii)
        for op in sorted(core.fillers, key=lambda item: (rough[item], item)):
            holds = structure.holds(op, ii)
            at = first_free(table.starts(holds), rough[op], rough[op] + ii - 1, ii)
            if at is None:
                raise InternalError(f"no free slot for an op that must fit at II {ii} by ResMII")
            slots[op] = at % ii
            table.add(holds, slots[op])
    times = [0] * len(structure.problem.ops)
    settle_in_slots(timed, times, slots, ii)
    return times


def _order_twins(model: ModuloModel, core: Core) -> None:
    """Ops alone in their group with equal holds are interchangeable: keep their slots sorted."""
    last: dict[tuple[Hold, ...], int] = {}
    for group in core.groups:
        if len(group) > 1:
            continue
        op = group[0]
        before = last.get(core.holds[op])
        if before is not None:
            model.model.add(model.slot[before] <= model.slot[op])
        last[core.holds[op]] = op


def reduced_distances(far: tuple[tuple[int, ...], ...]) -> list[tuple[int, int, int]]:
    """A small subset of the distances that implies them all: (a, b, least distance).

    Ops at a fixed distance from each other form a cluster, tied to its first op both ways; among
    first ops, a distance is dropped when a third one implies it.
    """
    import numpy as np

    size = len(far)
    matrix = np.array(far, dtype=np.int64)
    kept: list[tuple[int, int, int]] = []
    leaders: list[int] = []
    for op in range(size):
        for leader in leaders:
            if far[leader][op] + far[op][leader] == 0:
                kept.append((leader, op, far[leader][op]))
                kept.append((op, leader, far[op][leader]))
                break
        else:
            leaders.append(op)
    distances = matrix[np.ix_(leaders, leaders)]
    needed = ~np.eye(len(leaders), dtype=bool)
    for via in range(len(leaders)):
        through = distances[:, via : via + 1] + distances[via : via + 1, :]
        implied = through >= distances
        implied[via, :] = False
        implied[:, via] = False
        needed &= ~implied
    for a, b in zip(*needed.nonzero(), strict=True):
        kept.append((leaders[int(a)], leaders[int(b)], int(distances[a, b])))
    return kept
