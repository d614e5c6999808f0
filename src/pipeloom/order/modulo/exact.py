"""Exact placement at one II with OR-Tools CP-SAT, for what list scheduling leaves open.

An op's time is ``S = II * lap + slot``. Edges speak of S, units of slots. A unit is a sum of
0/1 "starts in slot m" literals where IIs are short, and intervals laid twice around the circle
where occupancies are long. Lifetimes need both: for a value that lives ``[born, freed)``, the
number of iterations that have it live in slot m is

    lap(freed) - lap(born) + [slot(born) <= m] - [slot(freed) <= m]

and the sum over values peaks at some value's birth, so only births are checked.

Two models use these parts: ``place_core`` decides an II without budgets from the core alone, and
``WholeModel`` knows every limit, and the secondary objectives. The core is worth its own model: of
348 published loops, the whole body's leaves 6 open after seconds that the core's settles in a tenth
of one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from pipeloom.order.modulo.core import Hold
from pipeloom.order.modulo.effort import Effort

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

# Up to this many (slot, occupied cycle) pairs per op, literals beat intervals.
LITERAL_LIMIT = 1 << 11

INTERRUPT_POLL_SECONDS = 0.2
STOP_POLL_SECONDS = 0.02


class SearchOutcome(Enum):
    """What a search at one II established."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"


class ModuloModel:
    """A CP-SAT model under construction: ops with laps and slots, orders, unit limits."""

    def __init__(self, ii: int, effort: Effort) -> None:
        from ortools.sat.python import cp_model

        self.cp = cp_model
        self.ii = ii
        self.effort = effort
        self.model = cp_model.CpModel()
        self.start: dict[int, Any] = {}
        self.lap: dict[int, Any] = {}
        self.slot: dict[int, Any] = {}

    def add_time(self, low: int, high: int) -> tuple[Any, Any, Any]:
        """A time in [low, high] with its lap and slot."""
        at = self.model.new_int_var(low, high, "")
        lap = self.model.new_int_var(low // self.ii, high // self.ii, "")
        slot = self.model.new_int_var(0, self.ii - 1, "")
        self.model.add(at == self.ii * lap + slot)
        return at, lap, slot

    def add_op(self, op: int, low: int, high: int) -> None:
        self.start[op], self.lap[op], self.slot[op] = self.add_time(low, high)

    def add_units(self, holds: dict[int, tuple[Hold, ...]], room: Sequence[int]) -> None:
        """At most ``room`` holds of each unit in every slot."""
        per_unit: dict[int, list[tuple[int, Hold]]] = {}
        for op in sorted(holds):
            for hold in holds[op]:
                if hold.length:
                    per_unit.setdefault(hold.unit, []).append((op, hold))
        literals: dict[int, list[Any]] = {}
        for unit in sorted(per_unit):
            items = per_unit[unit]
            longest = max(hold.length for _, hold in items)
            if longest * self.ii <= LITERAL_LIMIT:
                self._literal_unit(items, room[unit], literals)
            else:
                self._interval_unit(items, room[unit])

    def _literal_unit(
        self, items: list[tuple[int, Hold]], room: int, literals: dict[int, list[Any]]
    ) -> None:
        held: list[list[Any]] = [[] for _ in range(self.ii)]
        for op, hold in items:
            if op not in literals:
                choice = [self.model.new_bool_var("") for _ in range(self.ii)]
                self.model.add_exactly_one(choice)
                self.model.add(
                    self.slot[op] == sum(m * literal for m, literal in enumerate(choice))
                )
                literals[op] = choice
            self.effort.step(self.ii * (1 + hold.length))
            for m, literal in enumerate(literals[op]):
                for cycle in range(hold.length):
                    held[(m + hold.offset + cycle) % self.ii].append(literal)
        for row in held:
            if len(row) > room:
                if room == 1 and len(set(map(id, row))) == len(row):
                    self.model.add_at_most_one(row)
                else:
                    self.model.add(sum(row) <= room)

    def _interval_unit(self, items: list[tuple[int, Hold]], room: int) -> None:
        """Each hold as an interval and its copy one II later: together they see every wrap."""
        intervals: list[Any] = []
        for op, hold in items:
            first = self.slot[op]
            if hold.offset:
                first = self.model.new_int_var(0, self.ii - 1, "")
                wraps = self.model.new_bool_var("")
                self.model.add(self.slot[op] + hold.offset == first + self.ii * wraps)
            for turn in (0, self.ii):
                intervals.append(
                    self.model.new_fixed_size_interval_var(first + turn, hold.length, "")
                )
        if room == 1:
            self.model.add_no_overlap(intervals)
        else:
            self.model.add_cumulative(intervals, [1] * len(intervals), room)

    def solve(self, work: float | None = None) -> tuple[SearchOutcome, Any]:
        """Run CP-SAT in a thread, so that Ctrl-C reaches us; returns the solver for values.

        ``work`` limits this one solve, in deterministic time.
        """
        effort = self.effort
        solver = self.cp.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = effort.workers
        # Workers exchange what they learn at fixed points instead of when they happen to be
        # ready: the price of the same answer on every run.
        parameters.interleave_search = effort.workers > 1
        parameters.random_seed = effort.seed % (1 << 31)
        parameters.catch_sigint_signal = False
        left = effort.remaining()
        if left is not None:
            parameters.max_time_in_seconds = max(0.01, left)
        share = effort.share(work)
        if share is not None:
            parameters.max_deterministic_time = share
        status = run_interruptible(solver, self.model, effort)
        effort.charge(solver.response_proto.deterministic_time)
        if status in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            return SearchOutcome.FOUND, solver
        if status == self.cp.INFEASIBLE:
            return SearchOutcome.IMPOSSIBLE, solver
        return SearchOutcome.UNKNOWN, solver


def run_interruptible(solver: cp_model.CpSolver, model: cp_model.CpModel, effort: Effort) -> Any:
    """``solver.solve`` in a thread of its own, so that Ctrl-C reaches us and ends it early.

    Returns, or raises what another signal or ``tick`` raised, only when the solver has ended: its
    threads would abort a process that ends before them. The wait is for an event of our own;
    ``Thread.join`` takes an interrupted thread for a dead one before 3.12. A stop is repeated, as
    the solver forgets one that comes before it has begun.
    """
    outcome: list[Any] = []
    failure: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            outcome.append(solver.solve(model))
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=work, daemon=True).start()
    while not done.is_set():
        try:
            if effort.interrupted or failure:
                solver.stop_search()
                done.wait(STOP_POLL_SECONDS)
            elif not done.wait(INTERRUPT_POLL_SECONDS) and effort.tick is not None:
                effort.tick()
        except KeyboardInterrupt:
            effort.interrupted = True
        except BaseException as error:
            failure.append(error)
    if failure:
        raise failure[0]
    return outcome[0]
