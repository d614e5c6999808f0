"""The smallest II, proved: ``solve_modulo``.

Rounds of growing work close the gap between the lower bound and the best schedule: from below (the
bound rises), then by halves (the best falls). The first round is list scheduling alone, which ends
most searches; later ones ask CP-SAT, with twice the work each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeloom.checks import check_int
from pipeloom.errors import ConfigError, InternalError, OrderError
from pipeloom.order.modulo.bounds import enough_ii
from pipeloom.order.modulo.decide import Decider, Decision
from pipeloom.order.modulo.effort import Effort, OutOfEffort
from pipeloom.order.modulo.exact import SearchOutcome
from pipeloom.order.modulo.list_scheduling import PATIENT_ATTEMPTS
from pipeloom.order.modulo.measure import measure, normalised, unit_tables
from pipeloom.order.modulo.problem import ModuloProblem
from pipeloom.order.modulo.result import BoundCertificate, ModuloResult, Refutation
from pipeloom.order.modulo.validity import check_modulo
from pipeloom.order.modulo.whole import Objective, Refined, refine_schedule

ALL_OBJECTIVES = (
    Objective.STAGES,
    Objective.BUFFERS,
    Objective.REGISTERS,
    Objective.EARLY_LOADS,
)

FIRST_ROUND_WORK = 0.3
"""CP-SAT's work on an II in the first round that asks it: most IIs that it settles take less, and
the half unit that ``exact_weave`` has goes to two of them."""

MOST_SLOTS = 1_000_000
"""The largest II: tables of a search and of its result have a cell per slot."""


@dataclass(frozen=True, slots=True)
class SolveProgress:
    """What a long solve knows so far."""

    phase: str
    """What it is doing."""
    ii: int
    """The II in question."""
    lower_bound: int
    """No II below it is possible."""
    best: int | None
    """The II of the best schedule; None until one is found."""
    seconds: float
    """Time since the solve began."""


def solve_modulo(
    problem: ModuloProblem,
    time_limit: float | None = None,
    workers: int | None = None,
    seed: int = 0,
    *,
    objectives: Sequence[Objective] = (),
    max_ii: int | None = None,
    work_limit: float | None = None,
    progress: Callable[[SolveProgress], None] | None = None,
    hint: Sequence[int] = (),
) -> ModuloResult:
    """The schedule with the smallest II, with a certificate; every result has been checked.

    A limit or Ctrl-C ends the search, in whatever phase, with the best schedule so far and the
    bound proved by then: ``status`` is STOPPED, and ``stopped`` says by what. Ctrl-C before there
    is a schedule raises ``KeyboardInterrupt``. A run that ends by itself or by ``work_limit`` gives
    the same result for the same seed and worker count; one stopped by the clock can differ, as
    clocks do.

    Raises ``OrderError`` when budgets or ``max_ii`` leave no schedule.

    Args:
        problem: The iteration and its machine.
        time_limit: Seconds after which it stops.
        workers: CP-SAT's thread count; 1 unless given.
        seed: What CP-SAT's choices are drawn from.
        objectives: What to improve at the smallest II, in this order.
        max_ii: Give up beyond this II.
        work_limit: Deterministic units, of about a second each, after which it stops.
        progress: Told what is known, every now and then.
        hint: A start per op, near which CP-SAT looks first; it need not be a schedule.
    """
    _check_arguments(time_limit, work_limit, workers, seed, max_ii)
    deadline = None if time_limit is None else time.monotonic() + time_limit
    effort = Effort(deadline, workers or 1, seed, work_limit)
    return _Solve(problem, effort, max_ii, progress, hint).run(objectives)


def least_ii(problem: ModuloProblem) -> tuple[int, str]:
    """An II below which there is no schedule, without search, and the unit or recurrence that
    says so."""
    decider = Decider(problem)
    return decider.mii, bound_words(decider)


def _check_arguments(
    time_limit: float | None,
    work_limit: float | None,
    workers: int | None,
    seed: int,
    max_ii: int | None,
) -> None:
    for name, limit in (("time_limit", time_limit), ("work_limit", work_limit)):
        if limit is not None and not limit > 0:
            raise ConfigError(
                f"{name} is {limit!r}",
                hint="give seconds above 0, or None for no limit",
                field=name,
            )
    for name, value, least in (("workers", workers, 1), ("seed", seed, 0), ("max_ii", max_ii, 1)):
        if value is not None:
            check_int("solve_modulo", name, value, least)


class _Solve:
    """State of one call: which IIs are settled, and the best schedule."""

    def __init__(
        self,
        problem: ModuloProblem,
        effort: Effort,
        max_ii: int | None,
        progress: Callable[[SolveProgress], None] | None,
        hint: Sequence[int],
    ) -> None:
        self.problem = problem
        self.started = time.monotonic()
        self.effort = effort
        effort.tick = self._tick
        self.asked_ii = max_ii
        self.useful_ii = enough_ii(problem) if max_ii is None else max_ii
        self.max_ii = min(MOST_SLOTS, self.useful_ii)
        self.progress = progress
        self.decider = Decider(problem, tuple(hint))
        self.best: Decision | None = None
        self.settled: dict[int, Decision] = {}
        self.resisted: dict[int, float] = {}
        self.lower_bound = self.decider.mii
        self.at = self.lower_bound
        self.phase = "bounds"

    def run(self, objectives: Sequence[Objective]) -> ModuloResult:
        self._reject_hopeless()
        try:
            self._close_gap()
        except KeyboardInterrupt:
            self.effort.interrupted = True
        if self.best is None and self.effort.interrupted:
            raise KeyboardInterrupt
        if self.best is None and self.lower_bound <= self.max_ii:
            self._try_fallback()
        if self.best is None:
            raise self._nothing_found()
        refined = Refined(self.best.starts, settled=not objectives)
        if objectives and not self.effort.spent():
            try:
                self._report("objectives", self.best.ii)
                refine_schedule(
                    self.decider.structure, self.best.ii, refined, objectives, self.effort
                )
            except OutOfEffort:
                pass
            except KeyboardInterrupt:
                self.effort.interrupted = True
        return self._result(refined)

    def _reject_hopeless(self) -> None:
        """One buffer per channel is the least that any schedule holds; and tables have an end."""
        limit = self.problem.budget.lds_bytes
        least = sum(channel.bytes for channel in self.problem.channels)
        if limit is not None and least > limit:
            raise OrderError(
                f"one buffer per channel of {self.problem.name!r} takes {least} bytes of LDS, "
                f"budget {limit}",
                hint=f"give at least {least} bytes, or smaller buffers",
                field="budget.lds_bytes",
            )
        if MOST_SLOTS < self.lower_bound <= self.useful_ii:
            raise OrderError(
                f"{self.problem.name!r} has no II below {self.lower_bound}: "
                f"{bound_words(self.decider)}; the solver goes up to {MOST_SLOTS}",
                hint=self._coarser,
                field="latency",
            )

    @property
    def _coarser(self) -> str:
        return f"count time in larger units than a {self.problem.time_unit}"

    def _close_gap(self) -> None:
        """Decide IIs in rounds until the bound meets the best.

        Work is counted in deterministic time, so that rounds do not depend on the machine.
        """
        work = 0.0
        if (
            not self._finished()
            and self._attempt(self.lower_bound, work) is not SearchOutcome.FOUND
        ):
            self._try_fallback()
        while not self._finished():
            self._raise_bound(work)
            self._lower_best(work)
            work = max(FIRST_ROUND_WORK, 2 * work)

    def _raise_bound(self, work: float) -> None:
        """From below, until an II resists; one refutation covers all smaller IIs if monotone."""
        step = 0
        while not self._finished():
            ii = self.lower_bound
            if self.decider.monotone and self.best is not None:
                ii = min(ii + step, (ii + self.best.ii) // 2)
            if self._attempt(ii, work) is SearchOutcome.UNKNOWN:
                return
            step = min(2 * step + 1, MOST_SLOTS)

    def _lower_best(self, work: float) -> None:
        """Halve the gap to the best: a larger II is usually easier, though nothing says so.

        Without a schedule, the gap is to an II that is ample for most problems.
        """
        failed, ample = self.lower_bound, min(self.max_ii, 4 * self.lower_bound + 64) + 1
        while not self._finished():
            best = ample if self.best is None else self.best.ii
            if best - failed <= 1:
                return
            ii = (failed + best) // 2
            if self._attempt(ii, work) is not SearchOutcome.FOUND:
                failed = ii

    def _try_fallback(self) -> None:
        fallback = self.decider.fallback()
        if fallback.verdict is SearchOutcome.FOUND and fallback.ii <= self.max_ii:
            self._record(fallback)

    def _finished(self) -> bool:
        if self.effort.spent():
            return True
        if self.best is not None:
            return self.lower_bound >= self.best.ii
        return self.lower_bound > self.max_ii

    def _attempt(self, ii: int, work: float) -> SearchOutcome:
        """Decide one II with this much work of CP-SAT, unless it is settled or has resisted it."""
        known = self.settled.get(ii)
        if known is None:
            self._report("quick search", ii)
            known = self.decider.quick(ii, self.effort)
        if known.verdict is SearchOutcome.UNKNOWN and self.resisted.get(ii, 0.0) < work:
            self._report("exact search", ii)
            known = self.decider.exact(ii, self.effort, work)
            if known.verdict is SearchOutcome.UNKNOWN and ii not in self.resisted:
                known = self.decider.quick(ii, self.effort, PATIENT_ATTEMPTS)
            self.resisted[ii] = work
        self._record(known)
        return known.verdict

    def _record(self, decision: Decision) -> None:
        self.settled[decision.ii] = decision
        if decision.verdict is SearchOutcome.FOUND:
            broken = check_modulo(self.problem, decision.ii, decision.starts)
            if broken:
                raise InternalError(
                    f"{decision.how} gave an invalid schedule at II {decision.ii}: {broken[0]}"
                )
            if self.best is None or decision.ii < self.best.ii:
                self.best = decision
        if decision.verdict is SearchOutcome.IMPOSSIBLE and self.decider.monotone:
            self.lower_bound = max(self.lower_bound, decision.ii + 1)
        while (
            self.lower_bound in self.settled
            and self.settled[self.lower_bound].verdict is SearchOutcome.IMPOSSIBLE
        ):
            self.lower_bound += 1

    def _tick(self) -> None:
        self._report(self.phase, self.at)

    def _report(self, phase: str, ii: int) -> None:
        self.phase, self.at = phase, ii
        if self.progress is not None:
            best = None if self.best is None else self.best.ii
            seconds = time.monotonic() - self.started
            self.progress(SolveProgress(phase, ii, self.lower_bound, best, seconds))

    def _nothing_found(self) -> OrderError:
        name = self.problem.name
        if self.lower_bound <= self.max_ii:
            return OrderError(
                f"no schedule of {name!r} was found before the search was stopped; "
                f"II < {self.lower_bound} is impossible",
                hint="give more time, or larger budgets",
            )
        if self.asked_ii is not None or self.max_ii == MOST_SLOTS:
            return OrderError(
                f"{name!r} has no schedule with II up to {self.max_ii}",
                hint="raise max_ii, or the budgets"
                if self.max_ii < MOST_SLOTS
                else f"raise the budgets, or {self._coarser}",
            )
        return OrderError(
            f"{name!r} has no schedule at any II within its budgets", hint="raise a budget"
        )

    def _result(self, refined: Refined) -> ModuloResult:
        assert self.best is not None
        starts = normalised(refined.starts)
        problem, ii = self.problem, self.best.ii
        broken = check_modulo(problem, ii, starts)
        if broken:
            raise InternalError(f"the schedule of {problem.name!r} is invalid: {broken[0]}")
        usage = measure(problem, ii, starts)
        recurrence = self.decider.recurrence
        names = tuple(op.name for op in problem.ops)
        certificate = self._certificate()
        return ModuloResult(
            problem=problem.name,
            ops=names,
            ii=ii,
            starts=starts,
            proved=certificate.proved,
            lower_bound=certificate.lower_bound,
            res_mii=self.decider.res_mii,
            rec_mii=self.decider.rec_mii,
            recurrence=() if recurrence is None else tuple(names[op] for op in recurrence.ops),
            stages=usage.stages,
            buffers=tuple(
                (channel.name, count)
                for channel, count in zip(problem.channels, usage.buffers, strict=True)
            ),
            lds_bytes=usage.lds_bytes,
            register_peak=usage.register_peak,
            unit_tables=unit_tables(problem, ii, starts),
            certificate=certificate,
            objectives=tuple(refined.values),
            stopped=None if refined.settled and certificate.proved else self._stopped_by(),
        )

    def _certificate(self) -> BoundCertificate:
        assert self.best is not None
        decider, best = self.decider, self.best
        bound = min(self.lower_bound, best.ii)
        found: list[Refutation] = []
        if decider.mii > 1:
            found.append(Refutation(1, decider.mii - 1, "bounds", bound_words(decider)))
        for ii in range(decider.mii, bound):
            how = self._refuted_by(ii)
            words = f"II = {ii} is refuted by {how}"
            if found and found[-1].how == how:
                words = f"II = {found[-1].first} to {ii} are refuted by {how}"
                found[-1] = Refutation(found[-1].first, ii, how, words)
            else:
                found.append(Refutation(ii, ii, how, words))
        stopped = None if bound == best.ii else self._stopped_by()
        return BoundCertificate(bound, bound == best.ii, tuple(found), stopped)

    def _stopped_by(self) -> str:
        if self.effort.interrupted:
            return "interrupted"
        return "work limit" if self.effort.worked_out() else "time limit"

    def _refuted_by(self, ii: int) -> str:
        known = self.settled.get(ii)
        if known is not None and known.verdict is SearchOutcome.IMPOSSIBLE:
            return known.how
        larger = min(
            other
            for other, decision in self.settled.items()
            if other > ii and decision.verdict is SearchOutcome.IMPOSSIBLE
        )
        return f"the refutation of II = {larger}, to which it would stretch"


def bound_words(decider: Decider) -> str:
    """What forbids an II below ``decider.mii``."""
    loop = decider.recurrence
    kind = "recurrence"
    time_unit = decider.problem.time_unit
    if decider.mii > max(decider.rec_mii, decider.res_mii):
        loop = decider.buffer_loop
        kind = "recurrence through reused buffers"
    if loop is not None and loop.ii == decider.mii:
        path = " -> ".join(decider.problem.ops[op].name for op in (*loop.ops, loop.ops[0]))
        per = "iteration" if loop.distance == 1 else f"{loop.distance} iterations"
        return f"{kind} {path} needs {loop.latency} {time_unit}s per {per}"
    worst = max(decider.units, key=lambda bound: bound.ii)
    return (
        f"{worst.unit} is held {worst.busy} {time_unit}s per iteration by "
        f"{len(worst.ops)} ops, capacity {worst.capacity}"
    )
