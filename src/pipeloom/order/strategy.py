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
    """Task ``i`` of iteration ``n`` starts at ``starts[i] + n * ii``, in steps of the problem.

    ``lower_bound`` is a claim about every other timetable, ``why`` says what it rests on;
    ``interrupted``, that Ctrl-C ended the search for a better one.
    """

    ii: int
    starts: tuple[int, ...]
    lower_bound: int | None = None
    why: str = ""
    interrupted: bool = False

    @property
    def proved(self) -> bool:
        """Whether no timetable has a smaller ``ii``."""
        return self.lower_bound == self.ii


Strategy = Callable[[ModuloProblem], Timetable]


@dataclass(frozen=True, slots=True)
class Exact:
    """The smallest II, proved, then the fewest stages."""

    work_limit: float | None = WORK_LIMIT
    objectives: tuple[Objective, ...] = (Objective.STAGES,)
    name: str = "modulo"

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
