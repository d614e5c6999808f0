"""Run the Triton corpus in the emulator and write what agrees with NumPy.

    python -m evidence.emulate_triton [--only TEXT] [--seeds 3]
        [--output evidence/emulated-triton.md]

Every case is compiled for every target it applies to, executed with several seeds (data, timing of
memory, order of waves) and compared. It agrees when all outputs are right and the emulator reports
nothing. Needs the triton and tinygrad wheels; no GPU.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

from evidence.triton_corpus.corpus import all_cases
from evidence.triton_corpus.harness import ARCHS, build, execute

TIMINGS = ("random", "late", "early")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case on one target."""

    case: int
    arch: str
    problem: str
    instructions: frozenset[str]


def judge(job: tuple[int, str, int]) -> Outcome:
    """Compile and run one case; the problem is empty when it agrees."""
    number, arch, seeds = job
    case = all_cases()[number]
    used: set[str] = set()
    try:
        built = build(case, arch)
        for seed in range(seeds):
            verdict = execute(case, built, seed, timing=TIMINGS[seed % len(TIMINGS)])
            used.update(verdict.run.instructions)
            if not verdict.ok:
                return Outcome(number, arch, f"seed {seed}: {verdict.detail}", frozenset(used))
    except Exception as error:  # a compiler's or the emulator's: either is an outcome to show
        first = str(error).strip().splitlines() or [""]
        return Outcome(number, arch, f"{type(error).__name__}: {first[0]}", frozenset(used))
    return Outcome(number, arch, "", frozenset(used))


def page(outcomes: Sequence[Outcome], seeds: int) -> str:
    """The table as Markdown."""
    cases = all_cases()
    total, right = len(outcomes), sum(not outcome.problem for outcome in outcomes)
    names = sorted({name for outcome in outcomes for name in outcome.instructions})
    matrix = [name for name in names if name.startswith("v_mfma")]
    lines = [
        "# Triton kernels in the emulator",
        "",
        f"Written by `python -m evidence.emulate_triton --seeds {seeds} --output <this file>`;",
        "the kernels are in `evidence/triton_corpus`. Each is compiled by Triton 3.9.0 for the",
        f"target, run {seeds} times (timing {', '.join(TIMINGS[:seeds])} in turn; data and wave",
        "order by seed) and compared with NumPy. Products on small integers must be equal, other",
        "results within the type's rounding; a run with any finding does not agree.",
        "",
        f"**{right} of {total}** kernels x targets agree, over {len({o.case for o in outcomes})} "
        f"kernels. They execute {len(names)} different instructions, {len(matrix)} of them MFMA:",
        ", ".join(f"`{name}`" for name in matrix) + ".",
        "",
        "| family | " + " | ".join(ARCHS) + " |",
        "|---|" + "---|" * len(ARCHS),
    ]
    tally: dict[str, dict[str, Counter[bool]]] = defaultdict(lambda: defaultdict(Counter))
    for outcome in outcomes:
        tally[cases[outcome.case].family][outcome.arch][not outcome.problem] += 1
    for family, by_arch in tally.items():
        cells = [
            f"{by_arch[arch][True]} of {sum(by_arch[arch].values())}" if by_arch[arch] else "-"
            for arch in ARCHS
        ]
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    wrong = [outcome for outcome in outcomes if outcome.problem]
    if wrong:
        lines += ["", "## What does not agree", ""]
        lines += [
            f"- {o.arch}, {cases[o.case].family}, {cases[o.case].name}: {o.problem[:300]}"
            for o in wrong
        ]
    lines += ["", "## The kernels", ""]
    variants: dict[str, list[str]] = defaultdict(list)
    for number in sorted({outcome.case for outcome in outcomes}):
        case = cases[number]
        only = "" if case.archs == ARCHS else f" ({', '.join(case.archs)})"
        variants[case.family].append(case.name + only)
    for family, found in variants.items():
        lines += [f"**{family}**: " + "; ".join(found) + ".", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose family or name contains this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    chosen = [
        (number, arch, options.seeds)
        for number, case in enumerate(all_cases())
        for arch in case.archs
        if options.only in f"{case.family}: {case.name}"
    ]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("TRITON_CACHE_DIR", cache)
        with ProcessPoolExecutor() as workers:
            outcomes = list(workers.map(judge, chosen, chunksize=4))
    for outcome in outcomes:
        if outcome.problem:
            case = all_cases()[outcome.case]
            print(f"{outcome.arch} {case.family}: {case.name}: {outcome.problem}")
    agreed = sum(not outcome.problem for outcome in outcomes)
    print(f"{agreed} of {len(outcomes)} agree, {time.perf_counter() - start:.0f} s")
    if options.output:
        options.output.write_text(page(outcomes, options.seeds) + "\n")


if __name__ == "__main__":
    main()
