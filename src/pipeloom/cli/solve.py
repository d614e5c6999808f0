"""``pipeloom solve``: the smallest initiation interval, and why no smaller one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any

from pipeloom.checks import nearest
from pipeloom.cli.common import add_json, add_source, print_json
from pipeloom.cli.source_file import find_source, is_compiled
from pipeloom.cli.tile import DERIVES_DEPTH, add_arch
from pipeloom.errors import OrderError, SpecError
from pipeloom.machine.chips import target_for
from pipeloom.order.modulo import (
    Explanation,
    ModuloProblem,
    ModuloResult,
    Objective,
    Progress,
    explain_ii,
    solve_modulo,
)
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.pipelining import modulo_problem
from pipeloom.reference.pipelining.body import body_problem
from pipeloom.reference.spec import apply_settings, load_spec

BUDGETS = {"registers": "registers", "lds": "lds_bytes", "stages": "stages"}
DEFAULT_TIME_LIMIT = 60.0
Report = Callable[[Progress], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Modulo scheduling: the least number of cycles per iteration that dependences, "
        "units, registers and LDS allow. Takes a schedule (gemm_tile has its depth derived; others "
        "are solved as declared) or a problem file (docs/modulo.md). Ctrl-C stops the search and "
        "keeps the best schedule so far."
    )
    add_source(parser)
    add_arch(parser)
    parser.add_argument(
        "--ii",
        type=int,
        metavar="N",
        help="only IIs up to N, in the steps that the II is printed in (of 16 cycles for gemm_tile "
        "in bf16); exit 1 if none is",
    )
    parser.add_argument(
        "--budget",
        metavar="KEY=N,...",
        default="",
        help="limits: registers=N (per lane, for fragments), lds=BYTES, stages=N",
    )
    parser.add_argument(
        "--explain", action="store_true", help="name the constraints that rule out II - 1"
    )
    parser.add_argument(
        "--objectives",
        metavar="NAME,...",
        default="stages,buffers",
        help="what to improve at the smallest II, in order: stages, buffers, registers, "
        "early_loads (default stages,buffers; an empty string for none)",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=DEFAULT_TIME_LIMIT,
        metavar="S",
        help=f"seconds for the search (default {DEFAULT_TIME_LIMIT:g})",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Solve and print."""
    problem, quantum = load_problem(arguments)
    objectives = _objectives(arguments.objectives)
    try:
        with _progress(arguments) as report:
            result = solve_modulo(
                problem,
                time_limit=arguments.time_limit,
                objectives=objectives,
                max_ii=arguments.ii,
                progress=report,
            )
    except OrderError:
        if arguments.ii is None:
            raise
        return _refuse(problem, arguments)
    explanation = None
    if arguments.explain and result.ii > 1:
        explanation = explain_ii(problem, result.ii - 1, time_limit=arguments.time_limit)
    if arguments.json:
        print_json({**result.to_dict(), "quantum": quantum, **_explained(explanation)})
        return 0
    _print(result, quantum, explanation)
    return 0


def load_problem(arguments: argparse.Namespace) -> tuple[ModuloProblem, int]:
    """The problem that the source means, and the cycles of one of its time steps."""
    budget = read_budget(arguments.budget)
    data = find_source(arguments.source)
    if is_compiled(data):
        raise SpecError(
            f"{arguments.source} is a compiled schedule, whose order is settled; solve takes a "
            "schedule's name, a spec or a problem file",
            hint=f"pipeloom solve {data.get('schedule')}, or the spec that it was compiled from",
            field="schedule",
        )
    if arguments.arch is not None:
        arch = target_for(arguments.arch).arch
        if data.get("schedule") != DERIVES_DEPTH:
            raise SpecError(
                f"{arguments.source} is solved with the latencies that it states, whatever the "
                "chip",
                hint=f"drop --arch; only {DERIVES_DEPTH} is derived for a chip",
                field="arch",
            )
        data = {"arch": arch, **data}
    if "schedule" not in data:
        if arguments.settings:
            raise SpecError(
                f"{arguments.source} is a problem file, which --set cannot change",
                hint="edit the file, or use --budget",
            )
        problem = ModuloProblem.from_record(data)
        return _limited(problem, budget), 1
    spec = apply_settings(data, arguments.settings)
    if data["schedule"] == "gemm_tile":
        known = spec.get("budget", {})
        spec["budget"] = {**(known if isinstance(known, Mapping) else {}), **budget}
        budget = {}
    schedule = load_spec(spec)
    goal = schedule.pipelining()
    if goal is not None:
        return modulo_problem(goal.loop), goal.loop.quantum
    body = schedule.build_body()
    problem = body_problem(schedule.name, LoopBody(body, schedule.derive_edges(body)))
    return _limited(problem, budget), 1


def read_budget(text: str) -> dict[str, int]:
    """``registers=96,lds=65536`` as numbers by name."""
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        if name not in BUDGETS:
            raise SpecError(
                f"--budget has no limit {name!r}", hint=nearest(name, BUDGETS), field="budget"
            )
        if not value.isdigit() or int(value) < 1:
            raise SpecError(
                f"--budget {name} is {value!r}, but must be a positive integer",
                hint=f"write {name}=N",
                field=f"budget.{name}",
            )
        found[name] = int(value)
    return found


def _limited(problem: ModuloProblem, budget: Mapping[str, int]) -> ModuloProblem:
    limits: dict[str, Any] = {BUDGETS[name]: value for name, value in budget.items()}
    return replace(problem, budget=replace(problem.budget, **limits))


def _objectives(text: str) -> tuple[Objective, ...]:
    known = {objective.name.lower(): objective for objective in Objective}
    chosen = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name not in known:
            raise SpecError(
                f"--objectives has {name!r}", hint=nearest(name, known), field="objectives"
            )
        chosen.append(known[name])
    return tuple(chosen)


def _refuse(problem: ModuloProblem, arguments: argparse.Namespace) -> int:
    """No schedule up to the II asked for: say why, and fail."""
    explanation = explain_ii(problem, arguments.ii, time_limit=arguments.time_limit)
    if arguments.json:
        print_json({"problem": problem.name, "ii": None, **_explained(explanation)})
        return 1
    if explanation is None:
        print(f"no schedule with II up to {arguments.ii} was found in time", file=sys.stderr)
    else:
        print(explanation)
    return 1


def _explained(explanation: Explanation | None) -> dict[str, Any]:
    if explanation is None:
        return {}
    return {
        "explanation": {
            "ii": explanation.ii,
            "minimal": explanation.minimal,
            "words": list(explanation.words),
        }
    }


def _print(result: ModuloResult, quantum: int, explanation: Explanation | None) -> None:
    from pipeloom.show.console import TerminalConsole
    from pipeloom.show.reservation import render_solution

    console = TerminalConsole()
    width = min(console.width, 140)
    console.print(render_solution(result, width=width, quantum=quantum, explanation=explanation))


class _Bar(AbstractContextManager[Report]):
    """A bar on stderr with the II in work, the bound and the best."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        self._display = Display(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._display.add_task("bounds", total=None)

    def __enter__(self) -> Report:
        self._display.start()
        return self._show

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._display.stop()

    def _show(self, progress: Progress) -> None:
        best = "none yet" if progress.best is None else str(progress.best)
        text = f"{progress.phase}: II {progress.ii}, bound {progress.lower_bound}, best {best}"
        self._display.update(self._task, description=text)


def _progress(arguments: argparse.Namespace) -> AbstractContextManager[Report | None]:
    if arguments.json or not sys.stderr.isatty():
        return nullcontext()
    return _Bar()
