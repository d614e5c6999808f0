"""Run the corpus of hand-written kernels and print a table, one row per kernel.

    PIPELOOM_AITER=../aiter python -m evidence.aiter_corpus.run [FAMILY ...]
        [--only TEXT] [--moe 40] [--seed 0] [--check] [--output TABLE.md]

ROCm/aiter at the commit of ``case.COMMIT``; its binaries are run, never copied. Each kernel is
launched at a small size under random timings of memory. ``agrees`` is "yes" where the result is
NumPy's; "prompt" where it is only with memory that answers at once (then the findings say why);
"-" where the family is not compared. ``--check`` adds what ``pipeloom check`` says of each.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evidence.aiter_corpus.attention import attention_case
from evidence.aiter_corpus.case import COMMIT, VARIABLE, Case, corpus_root
from evidence.aiter_corpus.gemm import bf16_case, f4_case, fp8_case, i8_case
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

    def row(self) -> str:
        found = ", ".join(f"{kind} {count}" for kind, count in self.findings.items()) or "none"
        ran = "yes" if self.ran else f"no: {self.problem}"
        return (
            f"| {self.name} | {ran} | {self.agrees} | {self.instructions} | {self.seconds:.1f} | "
            f"{found} |" + "".join(f" {cell} |" for cell in self.extra)
        )


HEAD = ("kernel", "ran", "agrees", "instructions", "seconds", "findings")
CHECK_HEAD = (
    "verdict",
    "shown",
    "trips",
    "needless waits",
    "loop, cycles",
    "without needless",
    "matrix busy",
    "seconds to check",
)
CHECK_SEEDS = 2
"""Random timings that try to show a race, beside the directed ones."""


def check_columns(case: Case) -> tuple[str, ...]:
    """The cells of ``CHECK_HEAD``."""
    start = time.perf_counter()
    try:
        checked = check(case.path, case.grid, case.block, case.arguments(), seeds=CHECK_SEEDS)
        timing, loosened = time_checked(checked, 1), time_loosened(checked, 1)
    except ScheduleError as error:
        return (f"error: {error.message}", *["-"] * 6, f"{time.perf_counter() - start:.1f}")
    verdict = checked.verdict
    trips, cycles, less, busy = "-", "-", "-", "-"
    if timing is not None:
        trips, cycles = str(timing.main.loop.trips), f"{timing.main.cycles:.0f}"
        busy = f"{timing.main.efficiency:.1%}"
        if loosened is not None:
            less = f"{savings(timing, loosened)[0].after:.0f}"
    needless = str(len(verdict.needless))
    cells = (verdict.status.name, shown(verdict), trips, needless, cycles, less, busy)
    return (*cells, f"{time.perf_counter() - start:.1f}")


def shown(verdict: CheckVerdict) -> str:
    """What is wrong, and the first run of the emulator that gives other numbers, if any does.

    Wait states are rules of the pipeline, which the emulator does not time: no run shows them.
    """
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


def judge_case(
    family: str, case: Case, columns: Callable[[Case], tuple[str, ...]] | None = None
) -> Outcome:
    """One row of the table, with the cells of ``columns``; what is refused is a row too."""
    start = time.perf_counter()
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
    seconds = time.perf_counter() - start
    return Outcome(
        family=family,
        name=case.name,
        ran=result is not None and result.complete,
        agrees=agrees,
        instructions=result.executed if result else 0,
        seconds=seconds,
        findings=dict(sorted(found.items())),
        problem=problem or (result.stopped or "" if result else ""),
        extra=() if columns is None else columns(case),
    )


def summary(outcomes: Iterable[Outcome]) -> list[str]:
    """One line per family: how many ran to the end, how many agree."""
    lines = []
    all_of = list(outcomes)
    for family in dict.fromkeys(outcome.family for outcome in all_of):
        some = [outcome for outcome in all_of if outcome.family == family]
        ran = sum(outcome.ran for outcome in some)
        by = Counter(outcome.agrees for outcome in some)
        compared = len(some) - by["-"]
        agree = f"{by['yes']} of {compared} agree" if compared else "not compared"
        prompt = f", {by['prompt']} more with prompt memory" if by["prompt"] else ""
        verdicts = Counter(outcome.extra[0].partition(":")[0] for outcome in some if outcome.extra)
        said = "".join(f", {count} {verdict}" for verdict, count in sorted(verdicts.items()))
        lines.append(f"{family}: {ran} of {len(some)} ran to the end, {agree}{prompt}{said}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--moe", type=int, default=40, help="how many of fmoe are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="judge each kernel, too")
    parser.add_argument("--output", type=Path, help="write the table here too")
    options = parser.parse_args()
    unknown = [family for family in options.families if family not in FAMILIES]
    if unknown:
        parser.error(f"unknown family {unknown[0]}; one of: {', '.join(FAMILIES)}")
    root = corpus_root()
    if root is None:
        parser.error(f"set {VARIABLE} to a checkout of ROCm/aiter at {COMMIT}")
    outcomes: list[Outcome] = []
    head = HEAD + CHECK_HEAD if options.check else HEAD
    lines = [
        f"Snapshot {COMMIT}, fmoe drawn with seed {options.seed}.",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    print("\n".join(lines))
    for family in options.families or FAMILIES:
        for case in cases(family, root, options.moe, options.seed, options.only):
            columns = check_columns if options.check else None
            outcomes.append(judge_case(family, case, columns))
            lines.append(outcomes[-1].row())
            print(lines[-1], flush=True)
    tail = ["", *summary(outcomes)]
    print("\n".join(tail))
    if options.output:
        options.output.write_text("\n".join([*lines, *tail]) + "\n", encoding="utf-8")
    return 0 if all(outcome.ran for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
