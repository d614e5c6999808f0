"""``pipeloom solve``: the smallest initiation interval, and why no smaller one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pipeloom.cli.bars import bar
from pipeloom.cli.common import source_of
from pipeloom.cli.main import INTERRUPTED_CODE
from pipeloom.cli.options import JSON, CommandUsage, flag, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.source_options import ARCH, source
from pipeloom.drive.solving import Report, SolveJob, check_budget, read_objectives, solve
from pipeloom.errors import SpecError
from pipeloom.order.modulo import Explanation, ModuloResult, SolveProgress
from pipeloom.show.console import TerminalConsole
from pipeloom.show.reservation import render_solution

DEFAULT_TIME_LIMIT = 60.0


USAGE = CommandUsage(
    "Modulo scheduling: the least number of cycles per iteration that dependences, "
    "units, registers and LDS allow. Takes a schedule (gemm_tile has its depth derived; others "
    "are solved as declared) or a problem file (docs/modulo.md). Ctrl-C stops the search and "
    "keeps the best schedule so far (exit code 130).",
    (
        source(),
        ARCH,
        option(
            "--ii N",
            "only IIs up to N, in the steps that the II is printed in (of 16 cycles for gemm_tile "
            "in bf16); exit 1 if none is",
            type=int,
        ),
        option(
            "--budget KEY=N,...",
            "limits: registers=N (per lane, for fragments), lds=BYTES, stages=N",
            default="",
        ),
        flag("--explain", "name the constraints that rule out II - 1"),
        option(
            "--objectives NAME,...",
            "what to improve at the smallest II, in order: stages, buffers, registers, "
            "early_loads (default stages,buffers; an empty string for none)",
            default="stages,buffers",
        ),
        option(
            "--time-limit S",
            f"seconds for the search (default {DEFAULT_TIME_LIMIT:g})",
            type=float,
            default=DEFAULT_TIME_LIMIT,
        ),
        JSON,
    ),
    examples=(
        "pipeloom solve gemm_tile --explain",
        "pipeloom solve ping_pong --budget registers=96,stages=2",
    ),
    codes={1: "an error in the input, or no schedule within --ii"},
)


def run(arguments: argparse.Namespace) -> int:
    """Solve and print; 1 where there is no schedule, 130 where Ctrl-C left the best so far."""
    job = SolveJob(
        source_of(arguments),
        budget=read_budget(arguments.budget),
        objectives=read_objectives(_words(arguments.objectives)),
        max_ii=arguments.ii,
        time_limit=arguments.time_limit,
        explain=arguments.explain,
    )
    with _shown(arguments) as report:
        found = solve(job, report)
    if arguments.json:
        print_json(found.to_dict())
    elif found.result is not None:
        _print(found.result, found.quantum, found.explanation)
    elif found.explanation is None:
        print(f"no schedule with II up to {arguments.ii} was found in time", file=sys.stderr)
    else:
        print(found.explanation)
    if found.interrupted:
        print("interrupted: this is the best so far", file=sys.stderr)
        return INTERRUPTED_CODE
    return 0 if found.result is not None else 1


def read_budget(text: str) -> dict[str, int]:
    """``registers=96,lds=65536`` as numbers by name."""
    found: dict[str, int] = {}
    for item in _words(text):
        name, _, value = item.partition("=")
        if not value.isdigit():
            raise SpecError(
                f"--budget {name} is {value!r}, but must be a positive integer",
                hint=f"write {name}=N",
                field=f"budget.{name}",
            )
        found[name] = int(value)
    check_budget(found)
    return found


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _print(result: ModuloResult, quantum: int, explanation: Explanation | None) -> None:
    console = TerminalConsole()
    width = min(console.width, 140)
    console.print(render_solution(result, width=width, quantum=quantum, explanation=explanation))


@contextmanager
def _shown(arguments: argparse.Namespace) -> Iterator[Report]:
    """The II in work, the bound and the best: a bar on a terminal, else lines now and then."""
    with bar(arguments, "bounds") as tell:

        def report(progress: SolveProgress) -> None:
            best = "none yet" if progress.best is None else str(progress.best)
            now = f"{progress.phase}: II {progress.ii}"
            tell(f"{now}, bound {progress.lower_bound}, best {best}")

        yield report
