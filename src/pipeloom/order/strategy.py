"""Who decides when tasks start: any object that takes the problem and gives start times.

    def one_after_the_other(problem: ModuloProblem) -> Timetable:
        ...
    pipeline(loop, target, 4, strategy=one_after_the_other)

Start times are checked against the problem, whoever made them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeloom.errors import OrderError
from pipeloom.order.modulo import ModuloProblem, Objective, solve_modulo

WORK_LIMIT = 10.0
"""Units of about a second, the same on every machine; a search that has not ended by then keeps
the best so far and does not claim that it is the best."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """When tasks start: task ``i`` of iteration ``n`` at ``starts[i] + n * ii``."""

    ii: int
    """The initiation interval, in steps of the problem."""
    starts: tuple[int, ...]
    """The start of each op of the problem, in steps."""
    lower_bound: int | None = None
    """A claim that no timetable has a smaller ``ii``; None claims nothing."""
    why: str = ""
    """What the claim rests on."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search for a better one."""

    @property
    def proved(self) -> bool:
        """Whether no timetable has a smaller ``ii``."""
        return self.lower_bound == self.ii


Strategy = Callable[[ModuloProblem], Timetable]


@dataclass(frozen=True, slots=True)
class Exact:
    """The smallest II, proved, then the fewest stages."""

    work_limit: float | None = WORK_LIMIT
    """Deterministic units, of about a second each, after which the best so far is taken; None
    searches to the end."""
    objectives: tuple[Objective, ...] = (Objective.STAGES,)
    """What to improve at the smallest II, in this order."""
    name: str = "modulo"
    """What provenance and pages call it."""

    def __call__(self, problem: ModuloProblem) -> Timetable:
        result = solve_modulo(problem, work_limit=self.work_limit, objectives=self.objectives)
        stopped = result.stopped == "interrupted"
        why = "interrupted: the best so far" if stopped else result.certificate.why
        return Timetable(result.ii, result.starts, result.lower_bound, why, stopped)


def ask(strategy: Strategy, problem: ModuloProblem) -> Timetable:
    """What a strategy answers; raises ``OrderError`` if that is no timetable at all."""
    name = strategy_name(strategy)
    if not callable(strategy):
        raise OrderError(
            f"strategy {strategy!r} cannot be called",
            hint="pass a function of a ModuloProblem that returns a Timetable",
            field="strategy",
        )
    found: object = strategy(problem)
    if not isinstance(found, Timetable) or any(type(start) is not int for start in found.starts):
        raise OrderError(
            f"strategy {name} returned {found!r}",
            hint="return Timetable(ii, starts): whole steps, one start for each op of the problem",
            field="strategy",
        )
    return found


def strategy_name(strategy: Strategy) -> str:
    """What a page calls it: its ``name``, or that of the function."""
    name = getattr(strategy, "name", None) or getattr(strategy, "__name__", None)
    return str(name or type(strategy).__name__)
