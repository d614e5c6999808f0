"""A pattern's loop from the modulo solver: the smallest II of its instructions, proved.

The weaver's own times are the hint. What the solver gives are steps of a product; within a step the
product comes first, then loads, then reads, and a barrier stands alone. Whether the order is faster
than the weaver's is for the simulator to say.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.errors import OrderError
from pipeloom.order.instruction_problem import relaxed, step_cycles, stepped
from pipeloom.order.modulo import ModuloProblem, least_ii, solve_modulo
from pipeloom.order.pattern import Pattern
from pipeloom.order.tasks import Lowered
from pipeloom.order.weave import TICKS, Weaver, Woven
from pipeloom.program.steps import Unit

WORK_LIMIT = 0.5
"""Of a solve, in units of about a second that are the same on every machine."""


def exact_weave(lowered: Lowered, pattern: Pattern, registers: dict[str, int]) -> Woven:
    """The solver's times for the instructions of ``lowered``; raises ``OrderError``.

    Ctrl-C is raised too: what the solver has by then is no better than what the search has.
    """
    if pattern.cluster:
        raise OrderError("groups that take turns have their times", hint="no clusters")
    weaver = Weaver(lowered, pattern, registers)
    if any(task.unit is Unit.LOAD for task in weaver.tasks):
        raise OrderError("loads to registers have the weaver's times", hint="leave exact out")
    problem = stepped(
        lowered,
        weaver.products,
        registers,
        pattern.barriers,
        margin=pattern.margin,
        deep=pattern.deep,
    )
    step = step_cycles(lowered)
    hint = _hint(problem, Weaver(lowered, pattern, registers).weave(), step)
    result = solve_modulo(problem, work_limit=WORK_LIMIT, hint=hint)
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    return _placed(weaver, result.ii, result.starts, step)


def exact_bound(lowered: Lowered) -> tuple[int, str]:
    """Cycles below which the modulo problem of the instructions has no schedule, and why."""
    return least_ii(relaxed(lowered))


def _hint(problem: ModuloProblem, woven: Woven, step: int) -> tuple[int, ...]:
    """The weaver's times, in steps."""
    starts = woven.timetable.starts[: len(problem.ops)]
    first = min(starts)
    return tuple((start - first) // (step * TICKS) for start in starts)


def _placed(weaver: Weaver, ii: int, starts: Sequence[int], step: int) -> Woven:
    machine, tasks = weaver.machine, weaver.tasks
    rank = {Unit.MATRIX: 0, Unit.LOAD_LDS: 1, Unit.LDS_READ: 2}
    order = sorted(range(len(tasks)), key=lambda i: (starts[i] % ii, rank[tasks[i].unit], i))
    at: dict[int, float] = {}
    used: dict[tuple[int, str], int] = {}
    for i in order:
        unit = tasks[i].unit
        slot = (starts[i] % ii, tasks[i].group)
        at[i] = starts[i] * step
        if unit is not Unit.MATRIX:
            at[i] += min(machine.operands + machine.issue * used.get(slot, 0), step - 1)
            used[slot] = used.get(slot, 0) + (2 if unit is Unit.LOAD_LDS else 1)
    gates = sorted(starts[len(tasks) :])
    barriers = [gate * step + 0.25 for gate in gates]
    return weaver.placed(ii * step, at, barriers, (gates[0] - 2) * step)
