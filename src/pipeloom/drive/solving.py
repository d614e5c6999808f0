"""The smallest initiation interval of a schedule's loop or of a problem file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeloom.checks import check_int, check_known
from pipeloom.cms.table import Table
from pipeloom.declare.loop import Loop
from pipeloom.drive.loops import LoopSource
from pipeloom.drive.opening import open_found
from pipeloom.drive.sources import Source, find_source, is_loop, refuse_changes
from pipeloom.errors import OrderError, SpecError
from pipeloom.order.modulo import (
    Explanation,
    ModuloProblem,
    ModuloResult,
    Objective,
    SolveProgress,
    explain_ii,
    solve_modulo,
)
from pipeloom.order.node_tasks import lower
from pipeloom.order.problem_builder import LoopProblem
from pipeloom.order.task_problem import loop_problem
from pipeloom.order.whole_instructions import whole_instructions
from pipeloom.program import Program
from pipeloom.reference.body_problem import body_problem
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.spec import apply_settings, load_spec

BUDGETS = {"registers": "registers", "lds": "lds_bytes", "stages": "stages"}
Report = Callable[[SolveProgress], None]


@dataclass(frozen=True, slots=True)
class SolveJob:
    """What to solve."""

    source: Source | ModuloProblem
    """The loop, schedule or problem."""
    budget: Mapping[str, int] = field(default_factory=dict)
    """Limits of ``registers``, ``lds`` and ``stages``."""
    objectives: tuple[Objective, ...] = ()
    """What to improve at the smallest interval, in order."""
    max_ii: int | None = None
    """Where to give up."""
    time_limit: float | None = None
    """Seconds for the search."""
    explain: bool = False
    """Whether to name the constraints that rule out the next smaller interval."""


@dataclass(frozen=True, slots=True, repr=False)
class Solved:
    """What was found of a loop's initiation interval."""

    problem: str
    """The name of the problem."""
    result: ModuloResult | None
    """The schedule and its interval; None where none is within ``max_ii``."""
    quantum: int
    """Cycles of one of its time steps."""
    explanation: Explanation | None
    """The constraints that rule out a smaller interval, where that was asked for."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search: this is then the best so far."""

    def __repr__(self) -> str:
        found = f"{self.problem}: nothing within the limit" if self.result is None else self.result
        return f"<Solved {found}, {self.quantum} cycles a step>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        known: dict[str, Any] = {"problem": self.problem, "ii": None}
        if self.result is not None:
            known = {**self.result.to_dict(), "quantum": self.quantum}
        if self.explanation is not None:
            known["explanation"] = {
                "ii": self.explanation.ii,
                "minimal": self.explanation.minimal,
                "words": list(self.explanation.words),
            }
        return known


def solve(job: SolveJob, progress: Report | None = None) -> Solved:
    """Solve, and explain where asked or where nothing is found; Ctrl-C keeps what there is."""
    problem, quantum = load_problem(job)
    result, wanted = None, job.max_ii
    try:
        result = solve_modulo(
            problem,
            time_limit=job.time_limit,
            objectives=job.objectives,
            max_ii=job.max_ii,
            progress=progress,
        )
        wanted = result.ii - 1 if job.explain and result.ii > 1 else None
    except OrderError:
        if job.max_ii is None:
            raise
    explanation, interrupted = None, result is not None and result.stopped == "interrupted"
    if wanted is not None and not interrupted:
        try:
            explanation = explain_ii(problem, wanted, time_limit=job.time_limit)
        except KeyboardInterrupt:
            if result is None:
                raise
            interrupted = True
    return Solved(problem.name, result, quantum, explanation, interrupted)


def check_budget(budget: Mapping[str, int]) -> None:
    """Refuse limits that there are not, and those that nothing could be within."""
    for name, value in budget.items():
        check_known(name, BUDGETS, f"the budget has no limit {name!r}", "budget", SpecError)
        check_int("budget", name, value, 1)


def read_objectives(names: Sequence[str]) -> tuple[Objective, ...]:
    """Objectives by their names."""
    known = {objective.name.lower(): objective for objective in Objective}
    for name in names:
        check_known(name, known, f"there is no objective {name!r}", "objectives", SpecError)
    return tuple(known[name] for name in names)


def load_problem(job: SolveJob) -> tuple[ModuloProblem, int]:
    """The problem that the source means, and the cycles of one of its time steps."""
    source, budget = job.source, dict(job.budget)
    check_budget(budget)
    if isinstance(source, ModuloProblem):
        return _limited(source, budget), 1
    found = find_source(source)
    if isinstance(found, CompiledSchedule):
        raise SpecError(
            f"{source.name} is a compiled schedule, whose order is settled; solve takes a "
            "schedule's name, a spec or a problem file",
            hint=f"pipeloom solve {found.schedule}, or the spec that it was compiled from",
            field="schedule",
        )
    if isinstance(found, Program | Table):
        raise SpecError(
            f"{source.name} is a program, whose order is settled",
            hint="solve takes the loop that it was made of",
            field="schedule",
        )
    if isinstance(found, Loop) or is_loop(found):
        loop = open_found(source, found).origin
        assert isinstance(loop, LoopSource)
        problem = order_problem(loop)
        return _limited(problem.problem, budget), problem.quantum
    if source.arch is not None:
        raise SpecError(
            f"{source.name} is solved with the latencies that it states, whatever the chip",
            hint="drop --arch; only loops (gemm_tile, my.py:name) are derived for a chip",
            field="arch",
        )
    if isinstance(found, PipelineSchedule):
        refuse_changes(source, found)
        return _limited(_body_problem(found), budget), 1
    if "schedule" not in found:
        if source.settings:
            raise SpecError(
                f"{source.name} is a problem file, which --set cannot change",
                hint="edit the file, or use --budget",
            )
        return _limited(ModuloProblem.from_dict(found), budget), 1
    schedule = load_spec(apply_settings(found, source.settings))
    return _limited(_body_problem(schedule), budget), 1


def order_problem(source: LoopSource) -> LoopProblem:
    """What the order of a loop must respect."""
    loop, known = whole_instructions(source.loop, source.target), source.options
    lowered = lower(
        loop.meaning,
        source.target,
        loop.ops,
        loop.staged,
        source.waves,
        quadrants=known.get("quadrants"),
    )
    limits = {name: known.get(name) for name in ("depth", "stages", "global_latency")}
    return loop_problem(lowered, **limits)


def _body_problem(schedule: PipelineSchedule) -> ModuloProblem:
    body = schedule.build_body()
    return body_problem(schedule.name, LoopBody(body, schedule.derive_edges(body)))


def _limited(problem: ModuloProblem, budget: Mapping[str, int]) -> ModuloProblem:
    limits: dict[str, Any] = {BUDGETS[name]: value for name, value in budget.items()}
    return replace(problem, budget=replace(problem.budget, **limits))
