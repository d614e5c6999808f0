"""The smallest initiation interval of a schedule's loop or of a problem file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeloom.declare.loop import Loop
from pipeloom.drive.sources import Source, find_source, is_compiled, is_loop, refuse_changes
from pipeloom.drive.subjects import ProgramSubject, open_source
from pipeloom.errors import OrderError, SpecError
from pipeloom.order.modulo import (
    Explanation,
    ModuloProblem,
    ModuloResult,
    Objective,
    Progress,
    explain_ii,
    solve_modulo,
)
from pipeloom.program import Program
from pipeloom.reference.body_problem import body_problem
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.spec import apply_settings, load_spec

BUDGETS = {"registers": "registers", "lds": "lds_bytes", "stages": "stages"}
Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class SolveJob:
    """What to solve. ``budget`` limits registers, lds and stages; ``max_ii`` gives up beyond it."""

    source: Source
    budget: Mapping[str, int] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()
    max_ii: int | None = None
    time_limit: float | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Solved:
    """The schedule, None where none is within ``max_ii``; ``quantum`` is the cycles of a step."""

    problem: str
    result: ModuloResult | None
    quantum: int
    explanation: Explanation | None
    interrupted: bool = False

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


def load_problem(job: SolveJob) -> tuple[ModuloProblem, int]:
    """The problem that the source means, and the cycles of one of its time steps."""
    source, budget = job.source, dict(job.budget)
    found = find_source(source)
    if isinstance(found, CompiledSchedule) or (isinstance(found, Mapping) and is_compiled(found)):
        name = found.schedule if isinstance(found, CompiledSchedule) else found.get("schedule")
        raise SpecError(
            f"{source.name} is a compiled schedule, whose order is settled; solve takes a "
            "schedule's name, a spec or a problem file",
            hint=f"pipeloom solve {name}, or the spec that it was compiled from",
            field="schedule",
        )
    if isinstance(found, Program):
        raise SpecError(
            f"{source.name} is a program, whose order is settled",
            hint="solve takes the loop that it was made of",
            field="schedule",
        )
    if isinstance(found, Loop) or is_loop(found):
        subject = open_source(source)
        assert isinstance(subject, ProgramSubject)
        assert not isinstance(subject.origin, Program)
        problem = subject.origin.problem()
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
        return _limited(ModuloProblem.from_record(found), budget), 1
    schedule = load_spec(apply_settings(found, source.settings))
    return _limited(_body_problem(schedule), budget), 1


def _body_problem(schedule: PipelineSchedule) -> ModuloProblem:
    body = schedule.build_body()
    return body_problem(schedule.name, LoopBody(body, schedule.derive_edges(body)))


def _limited(problem: ModuloProblem, budget: Mapping[str, int]) -> ModuloProblem:
    limits: dict[str, Any] = {BUDGETS[name]: value for name, value in budget.items()}
    return replace(problem, budget=replace(problem.budget, **limits))
