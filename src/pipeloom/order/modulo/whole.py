"""The exact model of the whole body at one II: every budget, and the secondary objectives.

Used where budgets make lifetimes and stages matter, so that ops outside the core count too. Ops
that hold no limited unit and start or end no lifetime are still eliminated where that does not
add edges: a path through them becomes one edge, and their own times follow at the end.

Better schedules at the same II: fewer stages, fewer buffers, fewer registers, earlier loads.

The objectives are optimised one after the other, each held at its best while the next one is
improved (lexicographic order), on the exact model of the whole body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.exact import ModuloModel, SearchOutcome
from pipeloom.order.modulo.longest_paths import NO_PATH, TimedGraph, settle_in_slots
from pipeloom.order.modulo.measure import normalised
from pipeloom.order.modulo.result import ObjectiveValue

MODEL_STEPS = 10
"""What two constraints and a literal cost to state."""


class Objective(Enum):
    """What to improve once II is minimal, in the order the caller lists them."""

    STAGES = "stages"
    """The fewest iterations that overlap: a short prologue and epilogue."""
    BUFFERS = "buffers"
    """The fewest LDS buffers."""
    REGISTERS = "registers"
    """The fewest registers live at once."""
    EARLY_LOADS = "early loads"
    """Loads as early as possible."""


class WholeModel:
    """CP-SAT model of a problem at one II; solve for feasibility, or for one objective."""

    def __init__(
        self,
        structure: Structure,
        ii: int,
        effort: Effort,
        *,
        stages: int | None,
        turnable: bool = False,
    ) -> None:
        """Building counts against ``effort`` too; raises ``OutOfEffort``."""
        self.effort = effort
        self.structure = structure
        self.problem = structure.problem
        self.ii = ii
        self.timed = structure.timed(ii)
        self.stages = stages
        self.turnable = turnable
        self.possible = self._build()

    def _build(self) -> bool:
        problem, ii = self.problem, self.ii
        count = len(problem.ops)
        heads = [0] * count
        tails = [0] * count
        if not self.timed.settle(heads):
            return False
        reverse = TimedGraph.reversed(self.timed)
        reverse.settle(tails)
        horizon = self._horizon() if self.stages is None else self.stages * ii - 1
        if any(head + tail > horizon for head, tail in zip(heads, tails, strict=True)):
            return False
        self.kept, orders = self._eliminate()
        self.model = ModuloModel(ii, self.effort)
        model = self.model
        for op in self.kept:
            model.add_op(op, heads[op], horizon - tails[op])
        for a, b, weight in orders:
            model.model.add(model.start[b] - model.start[a] >= weight)
        holds = {op: self.structure.holds(op, ii) for op in self.kept if self.structure.uses[op]}
        model.add_units(holds, self.structure.room(holds.values()))
        if self.stages is None and not self.turnable and holds:
            # Where stages do not count, the table may be turned freely: fix one slot.
            model.model.add(model.slot[min(holds)] == 0)
        self.heads, self.tails = heads, tails
        self.buffers = self._add_buffers(horizon)
        self.peak = self._add_registers(horizon)
        return True

    def _horizon(self) -> int:
        """A span that some valid schedule keeps, if any is valid.

        Where two neighbouring starts are further apart than every edge and reader reaches, all
        later ops can move one II earlier: no slot changes, no lifetime grows. So gaps of a
        schedule need not exceed ``reach``.
        """
        problem, ii = self.problem, self.ii
        readers = [reader for held in problem.lifetimes for reader in held.readers]
        distance = max(
            [abs(edge.distance) for edge in self.structure.edges] + [r.distance for r in readers],
            default=0,
        )
        latency = max([abs(edge.latency) for edge in problem.edges], default=0)
        hold = max([r.hold for r in readers], default=0)
        hold += max([value.delay for value in problem.values], default=0)
        reach = (distance + 1) * ii + latency + hold
        return len(problem.ops) * reach

    def _eliminate(self) -> tuple[list[int], list[tuple[int, int, int]]]:
        problem = self.problem
        needed = {op for op in range(len(problem.ops)) if self.structure.uses[op]}
        for edge in problem.edges:
            if problem.ops[edge.src].load:
                needed |= {edge.src, edge.dst}
        for held in problem.lifetimes:
            needed |= {*held.fills, *(r.op for r in held.readers)}
        after: list[dict[int, int]] = [{} for _ in problem.ops]
        before: list[dict[int, int]] = [{} for _ in problem.ops]
        for src, dst, weight in self.timed.edges:
            if src != dst:
                after[src][dst] = weight
                before[dst][src] = weight
        queue = [op for op in range(len(problem.ops)) if op not in needed]
        gone: set[int] = set()
        while queue:
            op = queue.pop()
            if op in gone or len(before[op]) * len(after[op]) > len(before[op]) + len(after[op]):
                continue
            gone.add(op)
            for src, first in before[op].items():
                del after[src][op]
                for dst, second in after[op].items():
                    if src != dst and first + second > after[src].get(dst, NO_PATH):
                        after[src][dst] = before[dst][src] = first + second
            for dst in after[op]:
                del before[dst][op]
            queue += sorted(
                other
                for other in {*before[op], *after[op]}
                if other not in needed and other not in gone
            )
        kept = [op for op in range(len(problem.ops)) if op not in gone]
        return kept, [(src, dst, w) for src in kept for dst, w in sorted(after[src].items())]

    def _add_buffers(self, horizon: int) -> list[Any]:
        """``n * II >= last read's end - first fill`` for every channel, and the byte limit."""
        problem, model = self.problem, self.model
        buffers: list[Any] = []
        for channel in problem.channels:
            most = channel.max_buffers
            if most is None:
                far = max(r.distance * self.ii + r.hold for r in channel.readers)
                most = max(1, -(-(horizon + far) // self.ii))
                if problem.budget.lds_bytes is not None and channel.bytes:
                    most = min(most, max(1, problem.budget.lds_bytes // channel.bytes))
            n = model.model.new_int_var(1, most, "")
            for op in channel.fills:
                for r in channel.readers:
                    freed = model.start[r.op] + r.distance * self.ii + r.hold
                    model.model.add(n * self.ii >= freed - model.start[op])
            buffers.append(n)
        if problem.budget.lds_bytes is not None and buffers:
            used = sum(c.bytes * n for c, n in zip(problem.channels, buffers, strict=True))
            model.model.add(used <= problem.budget.lds_bytes)
        return buffers

    def _add_registers(self, horizon: int) -> Any:
        """The peak of live registers, bounded by the budget; None when no value is declared."""
        problem, model, ii = self.problem, self.model, self.ii
        if not problem.values:
            return None
        total = sum(value.registers for value in problem.values)
        ends: list[tuple[Any, Any, Any, Any]] = []
        laps = 1
        for value in problem.values:
            far = max(r.distance * ii + r.hold for r in value.readers)
            born, born_lap, born_slot = model.start[value.op], None, None
            if value.delay:
                born, born_lap, born_slot = model.add_time(0, horizon + value.delay)
                model.model.add(born == model.start[value.op] + value.delay)
            else:
                born_lap, born_slot = model.lap[value.op], model.slot[value.op]
            freed, freed_lap, freed_slot = model.add_time(0, horizon + far + value.delay)
            model.model.add(freed >= born)
            for r in value.readers:
                model.model.add(freed >= model.start[r.op] + r.distance * ii + r.hold)
            ends.append((born_lap, born_slot, freed_lap, freed_slot))
            laps = max(laps, (horizon + far + value.delay) // ii + 1)
        limit = problem.budget.registers
        peak = model.model.new_int_var(0, total * (laps + 1) if limit is None else limit, "")
        for _, at, _, _ in ends:
            live: list[Any] = []
            for value, (born_lap, born_slot, freed_lap, freed_slot) in zip(
                problem.values, ends, strict=True
            ):
                begun = self._at_most(born_slot, at)
                ended = self._at_most(freed_slot, at)
                live.append(value.registers * (freed_lap - born_lap + begun - ended))
            model.model.add(sum(live) <= peak)
        return peak

    def _at_most(self, left: Any, right: Any) -> Any:
        """A literal that is true exactly when ``left <= right``."""
        if left is right:
            return 1
        self.effort.step(MODEL_STEPS)
        literal = self.model.model.new_bool_var("")
        self.model.model.add(left <= right).only_enforce_if(literal)
        self.model.model.add(left > right).only_enforce_if(~literal)
        return literal

    def expression(self, objective: Objective) -> tuple[Any, int] | None:
        """The objective as (expression to minimise, sign), or None if it means nothing here."""
        model = self.model
        if objective is Objective.STAGES:
            longest = max(h + t for h, t in zip(self.heads, self.tails, strict=True))
            count = model.model.new_int_var(longest // self.ii + 1, 1 << 40, "")
            for op in self.kept:
                model.model.add(count * self.ii > model.start[op] + self.tails[op])
            return count, 1
        if objective is Objective.BUFFERS:
            return (sum(self.buffers), 1) if self.buffers else None
        if objective is Objective.REGISTERS:
            return None if self.peak is None else (self.peak, 1)
        slacks: list[Any] = []
        for op, desc in enumerate(self.problem.ops):
            waits = [edge for edge in self.problem.edges if edge.src == op and edge.dst != op]
            if not desc.load or not waits:
                continue
            slack = model.model.new_int_var(0, 1 << 40, "")
            for edge in waits:
                gap = model.start[edge.dst] + edge.distance * self.ii - model.start[op]
                model.model.add(slack <= gap - edge.latency)
            slacks.append(slack)
        return (-sum(slacks), -1) if slacks else None

    def bytes_held(self) -> Any:
        """LDS bytes of all buffers, as an expression."""
        return sum(c.bytes * n for c, n in zip(self.problem.channels, self.buffers, strict=True))

    def hint(self, starts: Sequence[int]) -> None:
        """Suggest a known schedule."""
        self.model.model.clear_hints()
        for op in self.kept:
            self.model.model.add_hint(self.model.start[op], starts[op])

    def solve(self, work: float | None = None) -> tuple[SearchOutcome, list[int], Any]:
        """Start times of every op, or the verdict that there are none."""
        if not self.possible:
            return SearchOutcome.IMPOSSIBLE, [], None
        verdict, solver = self.model.solve(work)
        if verdict is not SearchOutcome.FOUND:
            return verdict, [], solver
        fixed = {op: solver.value(self.model.start[op]) for op in self.kept}
        return verdict, self._extend(fixed), solver

    def _extend(self, fixed: dict[int, int]) -> list[int]:
        """Times of the eliminated ops: the least ones, with the kept ops held in place."""
        times = [0] * len(self.problem.ops)
        for op, at in fixed.items():
            times[op] = at
        settle_in_slots(self.timed, times, {}, self.ii)
        return list(normalised(times))


@dataclass(slots=True)
class Refined:
    """The best starts so far, and the objectives settled on the way to them."""

    starts: Sequence[int]
    """By op, of the best that was found."""
    values: list[ObjectiveValue] = field(default_factory=list)
    """Of the objectives, in their order, as far as they were asked."""
    settled: bool = False
    """Whether each of them was decided."""


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
