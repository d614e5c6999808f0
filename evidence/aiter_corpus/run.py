"""Run the corpus of hand-written kernels and print a table, one row per kernel.

    PIPELOOM_AITER=../aiter python -m evidence.aiter_corpus.run [FAMILY ...]
        [--only TEXT] [--moe 40] [--seed 0] [--check] [--ledger PAGE.md [--missing]]

ROCm/aiter at the commit of ``case.COMMIT``; its binaries are run, never copied. Each kernel is
launched at a small size under random timings of memory, in a process of its own that may take
``--limit`` seconds. ``agrees`` is "yes" where the result is NumPy's; "prompt" where it is only with
memory that answers at once (then the findings say why); "-" where the family is not compared.
``--check`` adds what ``pipeloom check`` says of each, ``--ledger`` puts the rows into that page,
where verdicts stay as they are if none are asked for.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from evidence.aiter_corpus.attention import attention_case
from evidence.aiter_corpus.case import COMMIT, VARIABLE, Case, corpus_root
from evidence.aiter_corpus.gemm import bf16_case, f4_case, fp8_case, i8_case
from evidence.aiter_corpus.ledger import CHECK_HEAD, Cells, Page, row, table_head
from evidence.aiter_corpus.mla import is_decode, mla_case
from evidence.aiter_corpus.moe import moe_case
from pipeloom.drive.checking import check
from pipeloom.drive.timing_files import savings, time_checked, time_loosened
from pipeloom.errors import ScheduleError
from pipeloom.judge.check.verdict import CheckVerdict
from pipeloom.judge.emulate import EmulateError, RunResult, run_kernel

FAMILIES: Mapping[str, Callable[[Path], Case]] = {
    "bf16gemm": bf16_case,
    "i8gemm": i8_case,
    "f4gemm": f4_case,
    "fp8gemm_blockscale": fp8_case,
    "fmha_v3_bwd": attention_case,
    "fmoe": moe_case,
    "mla": mla_case,
}
WORK_LIMIT = 400_000
"""Instructions of one workgroup; the cases take some tens of thousands."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one kernel did."""

    family: str
    name: str
    ran: bool
    agrees: str
    instructions: int
    seconds: float
    findings: Mapping[str, int]
    problem: str = ""
    extra: tuple[str, ...] = ()

    def cells(self) -> Cells:
        found = ", ".join(f"{kind} {count}" for kind, count in self.findings.items()) or "none"
        ran = "yes" if self.ran else f"no: {self.problem}"
        seconds = f"{self.seconds:.1f}"
        return (self.name, ran, self.agrees, str(self.instructions), seconds, found, *self.extra)


CHECK_SEEDS = 2
"""Random timings that try to show a race, beside the directed ones."""


def check_columns(case: Case) -> tuple[str, ...]:
    """The cells of ``CHECK_HEAD``."""
    start = time.process_time()
    case = case.judged or case
    try:
        checked = check(case.path, case.grid, case.block, case.arguments(), seeds=CHECK_SEEDS)
        timing, loosened = time_checked(checked, 1), time_loosened(checked, 1)
    except ScheduleError as error:
        return (f"error: {error.message}", *["-"] * 7, *_spent(start))
    verdict = checked.verdict
    trips, cycles, less, busy = "-", "-", "-", "-"
    if timing is not None:
        trips, cycles = str(timing.main.loop.trips), f"{timing.main.cycles:.0f}"
        busy = f"{timing.main.efficiency:.1%}"
        if loosened is not None:
            less = f"{savings(timing, loosened)[0].after:.0f}"
    needless = str(len(verdict.needless))
    cells = (
        verdict.status.title,
        shown(verdict),
        holds(verdict),
        trips,
        needless,
        cycles,
        less,
        busy,
    )
    return (*cells, *_spent(start))


def _spent(start: float) -> tuple[str, str]:
    """CPU seconds since ``start``, and the most memory that this process ever had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{time.process_time() - start:.1f}", f"{peak:.0f}"


def holds(verdict: CheckVerdict) -> str:
    """For which trip counts the verdict is."""
    if verdict.every_trip_count:
        least = max(loop.least for loop in verdict.loops)
        plain = all(loop.period == 1 and not loop.unlike for loop in verdict.loops)
        return f"from {least} on" + ("" if plain else ", same remainder")
    return next((loop.reason for loop in verdict.loops if loop.reason), "no loop")


def shown(verdict: CheckVerdict) -> str:
    """What is wrong, and the first run of the emulator that gives other numbers, if any does."""
    if verdict.reason:
        return verdict.reason
    if not verdict.findings:
        return "-"
    kinds = ", ".join(sorted({finding.kind.value for finding in verdict.findings}))
    tried = [finding.witness for finding in verdict.findings if finding.witness is not None]
    best = next((one for one in tried if one.wrong), tried[0] if tried else None)
    return f"{kinds}: {best or 'no run can'}"


def cases(family: str, root: Path, moe: int = 40, seed: int = 0, only: str = "") -> Iterator[Case]:
    """The family's cases with ``only`` in their name; of fmoe a sample drawn with ``seed``."""
    paths = sorted((root / family).rglob("*.co"))
    if family == "fmoe" and moe < len(paths):
        paths = sorted(random.Random(seed).sample(paths, moe))
    if family == "mla":
        paths = [path for path in paths if is_decode(path)]
    for path in paths:
        if only in path.stem:
            yield FAMILIES[family](path)


def _execute(case: Case, timing: str) -> tuple[RunResult, float | None]:
    """The run, and the error in units of what is allowed."""
    values = case.values()
    result = run_kernel(
        case.kernel,
        grid=case.grid,
        block=case.block,
        args=case.arguments(values),
        timing=timing,
        max_instructions=WORK_LIMIT,
        check_wait_states=False,
        max_findings=1000,
    )
    return result, case.error(values) if case.error is not None else None


def judge_case(family: str, case: Case) -> Outcome:
    """One row of the table without verdict; what is refused is a row too."""
    start = time.process_time()
    problem, agrees = "", "-"
    result: RunResult | None = None
    try:
        result, error = _execute(case, "random")
        if error is not None:
            agrees = "yes" if error <= 1 else "no"
            if agrees == "no" and result.findings:
                _, prompt = _execute(case, "early")
                agrees = "prompt" if prompt is not None and prompt <= 1 else "no"
    except EmulateError as error_met:
        problem = error_met.message
    found = Counter(finding.kind.value for finding in result.findings) if result else Counter()
    seconds = time.process_time() - start
    return Outcome(
        family=family,
        name=case.name,
        ran=result is not None and result.complete,
        agrees=agrees,
        instructions=result.executed if result else 0,
        seconds=seconds,
        findings=dict(sorted(found.items())),
        problem=problem or (result.stopped or "" if result else ""),
    )


def _work(family: str, case: Case, checked: bool, out: Connection) -> None:
    outcome = judge_case(family, case)
    out.send(outcome)
    if checked:
        out.send(replace(outcome, extra=check_columns(case)))


def in_child(family: str, case: Case, checked: bool, limit: float) -> Outcome:
    """The row, made in a process of its own; what takes more than ``limit`` seconds says so."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(family, case, checked, send))
    child.start()
    send.close()
    late = f"over {limit:.0f} s"
    outcome = Outcome(family, case.name, False, "-", 0, limit, {}, late)
    stop = time.monotonic() + limit
    try:
        for _ in range(2 if checked else 1):
            if not receive.poll(max(stop - time.monotonic(), 0)):
                break
            outcome = receive.recv()
        else:
            return outcome
    except EOFError:
        late = "the process died"
    finally:
        child.kill()
        child.join()
    missing = (late, *["-"] * (len(CHECK_HEAD) - 1)) if checked else ()
    problem = outcome.problem if outcome.ran else late
    return replace(outcome, problem=problem, extra=missing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--moe", type=int, default=40, help="how many of fmoe are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="judge each kernel, too")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a kernel may take")
    parser.add_argument("--ledger", type=Path, help="put the rows into this page; with --check")
    parser.add_argument("--missing", action="store_true", help="only what has no row there yet")
    options = parser.parse_args()
    unknown = [family for family in options.families if family not in FAMILIES]
    if unknown:
        parser.error(f"unknown family {unknown[0]}; one of: {', '.join(FAMILIES)}")
    root = corpus_root()
    if root is None:
        parser.error(f"set {VARIABLE} to a checkout of ROCm/aiter at {COMMIT}")
    page = Page.read(options.ledger.read_text("utf-8")) if options.ledger else Page("", {})
    fresh = Page("", {})
    print("\n".join(table_head(options.check)))
    for family in options.families or FAMILIES:
        drawn = list(cases(family, root, options.moe, options.seed, options.only))
        for case in drawn:
            if options.missing and case.name in page.rows.get(family, {}):
                continue
            cells = in_child(family, case, options.check, options.limit).cells()
            if options.ledger and not options.check:
                cells += page.rows.get(family, {}).get(case.name, ())[len(cells) :]
            fresh = fresh.with_row(family, cells)
            print(row(cells), flush=True)
            if options.ledger:
                page = page.with_row(family, cells)
                options.ledger.write_text(page.text(), encoding="utf-8")
    print("\n".join(["", *fresh.summaries()]))
    return 0 if fresh.all_ran else 1


if __name__ == "__main__":
    sys.exit(main())
