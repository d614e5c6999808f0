"""How many wrong kernels the executor shows wrong: mutants against the emulator, kind by kind.

    python -m benchmarks.executor_power                      the kernels of SUBJECTS
    python -m benchmarks.executor_power --only gemm_gate --per-kind 3
    python -m benchmarks.executor_power --output evidence/executor-power.md

Each mutant of a proved program is emitted as it is and run in the emulator, on arrays of its own
and with the waits of the machine: it shares nothing with the executor but the program. Of those
that the emulator shows wrong, the executor should show all:

    wrong      an execution gives a wrong or undefined number, or hangs
    suspect    none does, but a step reads what it should not
    missed     neither

What neither judge shows is taken for right. What the emitter refuses is not run.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from benchmarks.random_programs.classify import classify, sample_trips
from benchmarks.random_programs.mutate import Mutant, MutationKind, sample_mutants
from evidence.emit_mutants import wave_through
from evidence.evidence_page import commit, write_page
from pipeloom import pipeline
from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm
from pipeloom.declare.products import gemm_bias, gemm_gate, gemm_scaled
from pipeloom.declare.rows import rms_norm, softmax
from pipeloom.drive import deriving
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.errors import ScheduleError
from pipeloom.judge.emulate import Timing
from pipeloom.judge.execute import Executor
from pipeloom.program import Program
from pipeloom.write import assemble, emit_program

TRIALS = ((2, False, Timing.LATE), (0, False, Timing.RANDOM), (1, True, Timing.RANDOM))
"""Trips, whether the last falls short, and when data come; with the seeds from 0 on."""
HEADS = ("mutants", "not emitted", "emulator: wrong", "wrong", "suspect", "missed", "both right")


@dataclass(frozen=True)
class Subject:
    """A kernel: its loop, the waves that share a tile, and all sizes of a run but the loop's."""

    name: str
    loop: Callable[[], Loop]
    waves: int
    sizes: tuple[tuple[str, int], ...]
    short: int = 0
    """By how much the loop's size may fall short of whole iterations."""


SQUARE = (("m", 32), ("n", 32))
HEAD = (("q", 32), ("d", 32), ("v", 32), ("batch", 1), ("heads", 1), ("group", 1))
SUBJECTS = (
    Subject("gemm", partial(gemm, 32, 32, 64), 4, SQUARE),
    Subject("gemm_bias", partial(gemm_bias, 32, 32, 64, activation="relu"), 4, SQUARE),
    Subject("gemm_gate", partial(gemm_gate, 32, 32, 64), 4, SQUARE),
    Subject("gemm_scaled", partial(gemm_scaled, 32, 32, 128), 4, SQUARE),
    Subject("softmax", partial(softmax, 128, 4), 1, (("b", 1), ("n", 100)), 3),
    Subject("rms_norm", partial(rms_norm, 512, 4), 1, (("b", 1), ("n", 500)), 3),
    Subject("attention", partial(attention, 32, 32, 32), 2, HEAD, 7),
)


@dataclass(frozen=True)
class Judged:
    """One mutant: what the emulator says, None if it is not emitted, and what the executor."""

    subject: str
    kind: MutationKind
    name: str
    emulated: bool | None
    executed: str

    @property
    def row(self) -> Counter[str]:
        """What it adds to each column."""
        if self.emulated is None:
            return Counter(mutants=1, **{"not emitted": 1})
        if not self.emulated:
            return Counter({"mutants": 1, "both right": int(self.executed == "missed")})
        return Counter({"mutants": 1, "emulator: wrong": 1, self.executed: 1})


@cache
def program_of(subject: Subject) -> Program:
    """Derived and proved; not the fastest."""
    varied = deriving.VARIED
    deriving.VARIED = 0
    try:
        return pipeline(subject.loop(), waves=subject.waves, target="gfx950")
    finally:
        deriving.VARIED = varied


def emulated_wrong(subject: Subject, program: Program) -> bool | None:
    """Whether some run in the emulator goes wrong; None if there is no kernel to run."""
    try:
        emitted = emit_program(program, judge=wave_through, name="mutant")
        ready = Launchable.load(emitted, assemble(emitted))
    except ScheduleError:
        return None
    for seed, (trips, short, timing) in enumerate(TRIALS):
        whole = emitted.launch.least + trips * emitted.launch.step
        sizes = dict(subject.sizes) | {program.meaning.over: whole - short * subject.short}
        if not run_program(emitted, ready, sizes=sizes, seed=seed, timing=timing).ok:
            return True
    return False


def executed(program: Program, quick: bool) -> str:
    """What the executor shows, at trips from the least on; ``quick``: only whether it is wrong."""
    try:
        executor = Executor(program)
        if not classify(executor, trips=sample_trips(program, 2 if quick else 3)).correct:
            return "wrong"
        if quick:
            return "missed"
        clean = all(executor.run(trips=t, explain=True).clean for t in sample_trips(program, 3))
    except ScheduleError:  # steps that do not fit together
        return "wrong"
    return "missed" if clean else "suspect"


def judged(subject: Subject, mutant: Mutant) -> Judged:
    """One mutant, by both."""
    wrong = emulated_wrong(subject, mutant.program)
    shown = "" if wrong is None else executed(mutant.program, quick=not wrong)
    return Judged(subject.name, mutant.kind, mutant.name, wrong, shown)


def mutants_of(subject: Subject, per_kind: int, seed: int) -> Iterator[Mutant]:
    """So many of every kind that the program has room for."""
    for kind in MutationKind:
        yield from sample_mutants(program_of(subject), per_kind, seed, frozenset({kind}))


def table(
    found: Iterable[Judged], by: Callable[[Judged], str], title: str
) -> list[tuple[str, ...]]:
    """A row for each sort of mutant, the total last."""
    rows: dict[str, Counter[str]] = {}
    for one in found:
        for name in (by(one), "total"):
            rows.setdefault(name, Counter()).update(one.row)
    names = sorted(rows, key=lambda name: (name == "total", name))
    return [(title, *HEADS), *((n, *(str(rows[n][head]) for head in HEADS)) for n in names)]


def shown_share(found: Iterable[Judged]) -> tuple[int, int]:
    """Of how many that the emulator shows wrong the executor shows how many."""
    wrong = [one for one in found if one.emulated]
    return sum(one.executed != "missed" for one in wrong), len(wrong)


def page(found: list[Judged], made: str, at: str) -> str:
    """The ledger, as Markdown."""
    shown, wrong = shown_share(found)
    lines = [
        "# The executor's power",
        "",
        f"Written by `{made}` at commit {at}. Proved programs, each broken by one slip, emitted "
        "all the same and run in the emulator (three runs: 2, 0 and 1 trips). *emulator: wrong*: a "
        "run gives wrong numbers or a finding. Of those, the executor shows *wrong*: a wrong or "
        "undefined number, or a hang; *suspect*: only a step that reads what it should not; "
        "*missed*: nothing. *both right*: neither judge shows anything. The rest is what only the "
        "executor shows wrong, by latencies and orders that the emulator's runs did not have.",
        "",
        f"The executor shows {shown} of the {wrong} mutants that the emulator shows wrong "
        f"({shown / max(1, wrong):.1%}).",
    ]
    sorts: Mapping[str, Callable[[Judged], str]] = {
        "slip": lambda one: one.kind.value,
        "kernel": lambda one: one.subject,
    }
    for title, by in sorts.items():
        head, *rows = table(found, by, title)
        lines += ["", *("| " + " | ".join(r) + " |" for r in (head, ("---",) * len(head), *rows))]
    missed = [one for one in found if one.emulated and one.executed == "missed"]
    if missed:
        lines += ["", "Missed:", "", *(f"- {one.subject}: {one.name}" for one in missed)]
    return "\n".join(lines) + "\n"


def run(subjects: Iterable[Subject], per_kind: int, seed: int, workers: int) -> list[Judged]:
    """Judge the mutants, subject by subject."""
    found: list[Judged] = []
    for subject in subjects:
        mutants = list(mutants_of(subject, per_kind, seed))
        with ProcessPoolExecutor(workers) as pool:
            found += pool.map(partial(judged, subject), mutants)
        shown, wrong = shown_share(found)
        print(f"{subject.name}: {len(mutants)} mutants; so far {shown} of {wrong}", flush=True)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Judge, print, and write the page; 1 below 99 %."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=[s.name for s in SUBJECTS])
    parser.add_argument("--per-kind", type=int, default=8, help="mutants of each kind and kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes that judge")
    parser.add_argument("--output", type=Path, help="write the ledger here")
    options = parser.parse_args(arguments)
    subjects = [s for s in SUBJECTS if options.only is None or s.name in options.only]
    found = run(subjects, options.per_kind, options.seed, options.workers)
    given = " ".join(sys.argv[1:] if arguments is None else arguments)
    made = f"python -m benchmarks.executor_power {given}".strip()
    write_page(options.output, partial(page, found, made, commit()))
    shown, wrong = shown_share(found)
    return int(shown < 0.99 * wrong)


if __name__ == "__main__":
    sys.exit(main())
