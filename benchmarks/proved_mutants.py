"""Schedules broken by one slip that stay PROVED: do the other judges agree?

    python -m benchmarks.proved_mutants                          every mutant of SUBJECTS
    python -m benchmarks.proved_mutants --only ping_pong --swaps 10     fewer swapped neighbours
    python -m benchmarks.proved_mutants --output evidence/proved-mutants.md

Most of a schedule's waits and barriers are needed, some only set the pace, and neighbours may often
change places. Each wait dropped, loosened by a step's entries or by one, each barrier dropped or
moved, each two neighbours swapped gives a mutant. Those that the verifier still calls PROVED are
executed, each wave in turn last and at random, then emitted and run in the emulator, with data as
late as waits let them be and at random. One that gives a wrong number anywhere is a false PROVED.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from benchmarks.random_programs.classify import classify, sample_trips
from benchmarks.random_programs.mutate import SYNCHRONISATION, Mutant, MutationKind, mutants
from evidence.emit_cases import Case
from evidence.emit_mutants import first_noticed
from evidence.evidence_page import commit, write_page
from evidence.weaken import weakenings
from pipeloom.errors import ScheduleError
from pipeloom.judge.verify import proves
from pipeloom.program import Program

SUBJECTS = (
    Case("ping_pong", "gfx950", "bf16", (128, 128, 64, 16, 32)),
    Case("four_wave", "gfx950", "bf16", (128, 128, 64, 16, 32)),
    Case("single_buffer", "gfx950", "bf16", (64, 64, 64, 16, 32)),
)
SEEDS = 6
"""Runs in the emulator: trips 2, 0 and 1, each with data late and at random."""
STRONG = (MutationKind.SWAP_NEIGHBOURS, MutationKind.TIGHTEN_WAIT)
"""They weaken nothing by themselves."""
TRIP_COUNTS = 2
"""Of the executor's runs, from the least on."""
HEADS = ("mutants", "PROVED", "executed right", "emulated right", "not emitted", "false PROVED")


@dataclass(frozen=True)
class Judged:
    """One mutant; of one that is not PROVED nothing more is asked."""

    subject: str
    kind: str
    name: str
    proved: bool
    executed: bool = True
    emulated: bool | None = None
    """None if there is no kernel of it."""

    @property
    def false(self) -> bool:
        """PROVED, and wrong."""
        return self.proved and not (self.executed and self.emulated is not False)

    @property
    def row(self) -> Counter[str]:
        """What it adds to each column."""
        if not self.proved:
            return Counter(mutants=1)
        said = (1, 1, self.executed, self.emulated, self.emulated is None, self.false)
        return Counter({head: int(bool(one)) for head, one in zip(HEADS, said, strict=True)})


@cache
def program_of(subject: Case) -> Program:
    """As ``emit`` writes it."""
    return subject.program()


def mutants_of(subject: Case, swaps: int = 1) -> Iterator[Mutant]:
    """Every slip in waits, barriers and order, once; one in ``swaps`` of those of STRONG."""
    program, seen = program_of(subject), set[int]()
    strong = 0
    looser = (Mutant(MutationKind.LOOSEN_WAIT, w.what, w.program) for w in weakenings(program))
    for mutant in (*mutants(program, SYNCHRONISATION), *looser):
        key = hash(mutant.program)
        strong += mutant.kind in STRONG
        if key not in seen and not (mutant.kind in STRONG and strong % swaps):
            seen.add(key)
            yield mutant


def judged(subject: Case, mutant: Mutant) -> Judged:
    """One mutant by the verifier, and if that proves it by the others."""
    told = partial(Judged, subject.schedule, mutant.kind.value, mutant.name)
    try:
        if not proves(mutant.program):
            return told(proved=False)
    except ScheduleError:  # it cannot decide
        return told(proved=False)
    right = classify(mutant.program, trips=sample_trips(mutant.program, TRIP_COUNTS)).correct
    try:
        emulated: bool | None = first_noticed(subject, mutant.program, SEEDS) is None
    except ScheduleError:
        emulated = None
    return told(proved=True, executed=right, emulated=emulated)


def run(subjects: Iterable[Case], swaps: int = 1, workers: int = 1) -> list[Judged]:
    """Judge the mutants, subject by subject."""
    found: list[Judged] = []
    for subject in subjects:
        some = list(mutants_of(subject, swaps))
        if workers == 1:
            found += map(partial(judged, subject), some)
        else:
            with ProcessPoolExecutor(workers) as pool:
                found += pool.map(partial(judged, subject), some)
        proved = sum(one.proved for one in found)
        print(f"{subject}: {len(found)} mutants so far, {proved} PROVED", flush=True)
    return found


def table(found: Sequence[Judged]) -> list[tuple[str, ...]]:
    """A row for each schedule and slip, and the totals."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    for one in found:
        for name in ((one.subject, one.kind), ("total", "")):
            rows.setdefault(name, Counter()).update(one.row)
    names = sorted(rows, key=lambda name: (name[0] == "total", name))
    head = ("schedule", "slip", *HEADS)
    return [head, *((*name, *(str(rows[name][h]) for h in HEADS)) for name in names)]


def page(found: Sequence[Judged], made: str, at: str) -> str:
    """The ledger, as Markdown."""
    head, *rows = table(found)
    lines = [
        "# Mutants that stay PROVED",
        "",
        f"Written by `{made}` at commit {at}. Every wait of a schedule, as `emit` writes it, is "
        "dropped and loosened, every barrier dropped and moved by a step; waits are tightened and "
        "neighbours swapped, of those one in as many as `--swaps` says. What is PROVED all the "
        f"same is executed at {TRIP_COUNTS} trip counts, each wave in turn last and at random, and "
        f"run in the emulator {SEEDS} times, at trip counts 2, 0 and 1. "
        "*false PROVED*: one of them gives a wrong number.",
        "",
        *("| " + " | ".join(r) + " |" for r in (head, ("---",) * len(head), *rows)),
    ]
    false = [one for one in found if one.false]
    if false:
        lines += ["", "False:", "", *(f"- {one.subject}: {one.name}" for one in false)]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Judge them and print the table; 1 if a judge contradicts a proof."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[s.schedule for s in SUBJECTS])
    parser.add_argument("--swaps", type=int, default=1, help="one in so many of them")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, help="write the ledger here")
    options = parser.parse_args(argv)
    chosen = [s for s in SUBJECTS if options.only is None or s.schedule in options.only]
    found = run(chosen, options.swaps, options.workers)
    for row in table(found):
        print(f"{row[0]:14}{row[1]:18}" + "".join(f"{cell:>16}" for cell in row[2:]))
    for one in found:
        if one.false:
            print(f"FALSE PROVED: {one.subject}: {one.name}")
    if options.output is not None:
        given = " ".join(sys.argv[1:] if argv is None else argv)
        made = f"python -m benchmarks.proved_mutants {given}"
        write_page(options.output, lambda: page(found, made, commit()))
    return int(any(one.false for one in found))


if __name__ == "__main__":
    sys.exit(main())
