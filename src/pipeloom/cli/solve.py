"""``pipeloom solve``: the smallest initiation interval, and why no smaller one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeloom.cli.bars import bar
from pipeloom.cli.main import INTERRUPTED_CODE
from pipeloom.cli.options import flag, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.source_options import ArchOptions, SourceOptions
from pipeloom.drive.solving import Report, SolveJob, check_budget, read_objectives, solve
from pipeloom.errors import SpecError
from pipeloom.order.modulo import Explanation, ModuloResult, SolveProgress
from pipeloom.show.console import TerminalConsole
from pipeloom.show.reservation import render_solution


@dataclass(frozen=True)
class SolveCommand(SourceOptions, ArchOptions):
    """Modulo scheduling: the least number of cycles per iteration that dependences, units,
    registers and LDS allow. Takes a schedule (gemm_tile has its depth derived; others are solved
    as declared) or a problem file (docs/modulo.md). Ctrl-C stops the search and keeps the best
    schedule so far (exit code 130).

    Examples:
        pipeloom solve gemm_tile --explain
        pipeloom solve ping_pong --budget registers=96,stages=2

    Exit codes:
        1: an error in the input, or no schedule within --ii
    """

    ii: int | None = option("--ii N")
    """only IIs up to N, in the steps that the II is printed in (of 16 cycles for gemm_tile in
    bf16); exit 1 if none is"""
    budget: str = option("--budget KEY=N,...", "")
    """limits: registers=N (per lane, for fragments), lds=BYTES, stages=N"""
    explain: bool = flag()
    """name the constraints that rule out II - 1"""
    objectives: str = option("--objectives NAME,...", "stages,buffers")
    """what to improve at the smallest II, in order: stages, buffers, registers, early_loads
    (default stages,buffers; an empty string for none)"""
    time_limit: float = option("--time-limit S", 60.0)
    """seconds for the search (default 60)"""

    def run(self) -> int:
        """Solve and print; 1 where there is no schedule, 130 where Ctrl-C left the best so far."""
        job = SolveJob(
            self.asked(),
            budget=read_budget(self.budget),
            objectives=read_objectives(_words(self.objectives)),
            max_ii=self.ii,
            time_limit=self.time_limit,
            explain=self.explain,
        )
        with self._shown() as report:
            found = solve(job, report)
        if self.json:
            print_json(found.to_dict())
        elif found.result is not None:
            _print(found.result, found.quantum, found.explanation)
        elif found.explanation is None:
            print(f"no schedule with II up to {self.ii} was found in time", file=sys.stderr)
        else:
            print(found.explanation)
        if found.interrupted:
            print("interrupted: this is the best so far", file=sys.stderr)
            return INTERRUPTED_CODE
        return 0 if found.result is not None else 1

    @contextmanager
    def _shown(self) -> Iterator[Report]:
        """The II in work, the bound and the best: a bar on a terminal, else lines now and then."""
        with bar(self, "bounds") as tell:

            def report(progress: SolveProgress) -> None:
                best = "none yet" if progress.best is None else str(progress.best)
                now = f"{progress.phase}: II {progress.ii}"
                tell(f"{now}, bound {progress.lower_bound}, best {best}")

            yield report


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
