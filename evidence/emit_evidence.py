"""Evidence for the emitter: every kernel under many timings, and every wait of many of them.

    python -m evidence.emit_evidence matrix  [--output evidence/emitted-matrix.md]
    python -m evidence.emit_evidence mutants [--output evidence/emitted-mutants.md]

matrix: for each kernel trip counts 0, 1, 2 and 5; M and N the whole tile or ragged; each with seeds
of its own (data, timing of memory, order of waves). Integer data must come out exactly.

mutants: each weakening of a proved program that the verifier calls unsafe is emitted all the same
and run; does the emulator notice?

A row is written as soon as its kernel is done. Rows that are there already are kept as long as the
kernel's machine code is what it was then (the column ``code`` is its digest), so an interrupted run
goes on where it was, and after a change to the emitter only what it changed is run again. ``--all``
runs everything again; ``--only KERNEL ...`` leaves other kernels as they are.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from evidence.emit_cases import Subject, cases, output_cases, weakened_cases
from evidence.emit_mutants import Tally, weaken
from evidence.evidence_page import Row, Table, cell, commit, write_page
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.errors import ScheduleError
from pipeloom.write import assemble

RAGGED = {"m": 5, "n": 3}
NORMAL_SEED = 1
MUTANT_SEEDS = 20


@dataclass(frozen=True, slots=True)
class Effort:
    """How often a kernel is run."""

    trips: tuple[int, ...]
    seeds: int

    @property
    def runs(self) -> int:
        """Of one kernel."""
        return len(self.trips) * self.seeds


MATRIX = Effort((0, 1, 2, 5), 2)
OUTPUTS = Effort((1,), 2)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a kernel: rows for the page, or why there are none."""

    case: Subject
    row: Row = ()
    failures: tuple[str, ...] = ()
    tally: Tally | None = None
    refused: str = ""
    unchanged: bool = False
    seconds: float = 0.0


def load(case: Subject) -> tuple[Launchable, str]:
    """The kernel, and the digest of its machine code."""
    emitted = case.emit()
    ready = Launchable.load(emitted, assemble(emitted))
    return ready, hashlib.sha256(ready.kernel.code).hexdigest()[:8]


def run_case(case: Subject, effort: Effort, known: str) -> Outcome:
    """All runs of one kernel: odd seeds are ragged, and one run of each trip count is normal data.

    Nothing is run if the digest of the code is ``known``.
    """
    started = time.perf_counter()
    try:
        ready, digest = load(case)
    except ScheduleError as error:
        return Outcome(case, refused=cell(error.message))
    if digest == known:
        return Outcome(case, unchanged=True)
    emitted = ready.emitted
    failures = []
    for trips in effort.trips:
        for seed in range(effort.seeds):
            less = RAGGED if seed % 2 else {}
            sizes = case.sizes(emitted.launch, trips)
            trial = run_program(
                emitted,
                ready,
                sizes={name: size - less.get(name, 0) for name, size in sizes.items()},
                seed=1000 * trips + seed,
                data=Data.NORMAL if seed == NORMAL_SEED else Data.INTEGERS,
            )
            if not trial.ok:
                failures.append(cell(trial.summary()))
    made = emitted.resources
    row = (
        str(effort.runs),
        str(len(failures)),
        f"{made.vgprs} VGPRs, {made.agprs} AGPRs, {made.lds_bytes} bytes of LDS",
        digest,
    )
    return Outcome(case, row, tuple(failures), seconds=time.perf_counter() - started)


def weaken_case(case: Subject, seeds: int, every: int, known: str) -> Outcome:
    """The weakenings of one kernel, unless the digest of its code is ``known``."""
    started = time.perf_counter()
    try:
        ready, digest = load(case)
    except ScheduleError as error:
        return Outcome(case, refused=cell(error.message))
    if digest == known:
        return Outcome(case, unchanged=True)
    del ready
    tally = weaken(case, seeds, every)
    tried = tally.unsafe + len(tally.harmless)
    row = (
        str(tried) if tried == tally.among else f"{tried} of {tally.among}",
        str(len(tally.harmless)),
        str(tally.unsafe),
        f"{tally.noticed} ({100 * tally.noticed / max(tally.unsafe, 1):.1f} %)",
        str(tally.first_seed),
        digest,
    )
    return Outcome(case, row, tally=tally, seconds=time.perf_counter() - started)


NAMES = ("kernel", "target", "types", "tile, instruction")
FOUND = ("runs", "failed", "registers and LDS", "code")
CODE = -1
"""The column of the digest."""
UNKNOWN = "-"
"""In place of a digest: run, but it was not noted of what. Such a row is run again."""


class Page(Protocol):
    """A page and the kernels it is about."""

    @property
    def subjects(self) -> Sequence[Subject]:
        """The kernels."""
        ...

    def known(self, case: Subject) -> str:
        """The digest of the code that the page speaks of, or nothing."""
        ...

    def work(self, case: Subject, known: str) -> Callable[[], Outcome]:
        """What another process has to do for a kernel."""
        ...

    def enter(self, outcome: Outcome) -> None:
        """Replace what it says about a kernel."""
        ...

    def render(self) -> str:
        """As Markdown."""
        ...


class MatrixPage:
    """Every tile of every kernel; every type of C; failures; what is refused."""

    def __init__(self, earlier: Path | None) -> None:
        tiles, outputs = list(cases()), list(output_cases())
        self.subjects = [*tiles, *outputs]
        self._tiles = frozenset(case.cells for case in tiles)
        self.tiles = Table((*NAMES, *FOUND), len(NAMES))
        self.outputs = Table((*NAMES, *FOUND), len(NAMES))
        self.failed = Table((*NAMES, "failure"), len(NAMES))
        self.refused = Table((*NAMES, "refused"), len(NAMES))
        if earlier is not None:
            for table in (self.tiles, self.outputs, self.failed, self.refused):
                table.read(earlier)
            self._arrange()

    def effort(self, case: Subject) -> Effort:
        """More for the tiles than for the types of C."""
        return MATRIX if case.cells in self._tiles else OUTPUTS

    def work(self, case: Subject, known: str) -> Callable[[], Outcome]:
        return partial(run_case, case, self.effort(case), known)

    def _table(self, case: Subject) -> Table:
        return self.tiles if case.cells in self._tiles else self.outputs

    def known(self, case: Subject) -> str:
        table = self._table(case)
        rows = table.about(case.cells)
        return rows[0][CODE] if rows and rows[0][table.keys] == str(self.effort(case).runs) else ""

    def enter(self, outcome: Outcome) -> None:
        case = outcome.case
        self._table(case).put(case.cells, [outcome.row] if outcome.row else [])
        self.refused.put(case.cells, [(outcome.refused,)] if outcome.refused else [])
        self.failed.put(case.cells, [(text,) for text in outcome.failures])
        self._arrange()

    def _arrange(self) -> None:
        keys = [case.cells for case in self.subjects]
        self.tiles.arrange([key for key in keys if key in self._tiles])
        self.outputs.arrange([key for key in keys if key not in self._tiles])
        self.refused.arrange(keys)
        self.failed.arrange(keys)

    def render(self) -> str:
        tiles, outputs = self.tiles, self.outputs
        runs = tiles.total("runs") + outputs.total("runs")
        failed = tiles.total("failed") + outputs.total("failed")
        lines = [
            "# What was run",
            "",
            "Written by `python -m evidence.emit_evidence matrix --output "
            "evidence/emitted-matrix.md`: each kernel below was emitted from a proved schedule, "
            "assembled, and run in the emulator. A seed decides the data, the timing of memory and "
            "the order of waves; every other seed has M and N ragged (5 rows and 3 columns short "
            "of the tile). Integer data is compared exactly with NumPy; one seed of each trip "
            "count has normal data, compared within the rounding of the types. A run passes with "
            "no finding, every element right and nothing written outside C. `code` is the start "
            f"of the SHA-256 of the machine code that was run{_unnoted(tiles)}. Last run at "
            f"commit {commit()}; a row whose code was the same then was kept.",
            "",
            f"{len(tiles.rows) + len(outputs.rows)} kernels, {runs} runs, {failed} failed.",
            "",
            "## Tiles",
            "",
            f"Each with {_times(MATRIX)}.",
            "",
            *tiles.lines(),
            "",
            "## Types of C",
            "",
            f"Other than those above, of the smallest tile of each kernel; {_times(OUTPUTS)}.",
            "",
            *outputs.lines(),
        ]
        for title, table in (("Failures", self.failed), ("Refused", self.refused)):
            if table.rows:
                lines += ["", f"## {title}", "", *table.lines()]
        return "\n".join(lines) + "\n"


class MutantsPage:
    """How many weakenings of each kernel are noticed, and why the others are not."""

    def __init__(self, earlier: Path | None, every: int) -> None:
        self.subjects = list(weakened_cases())
        self._every = every
        counts = ("weakened", "still proved", "unsafe", "noticed", "by the first seed", "code")
        self.counts = Table((*NAMES, *counts), len(NAMES))
        self.missed = Table((*NAMES, "not noticed", "why"), len(NAMES))
        self.harmless = Table((*NAMES, "still proved"), len(NAMES))
        if earlier is not None:
            for table in (self.counts, self.missed, self.harmless):
                table.read(earlier)

    def work(self, case: Subject, known: str) -> Callable[[], Outcome]:
        return partial(weaken_case, case, MUTANT_SEEDS, self._every, known)

    def known(self, case: Subject) -> str:
        rows = self.counts.about(case.cells)
        return rows[0][CODE] if rows else ""

    def enter(self, outcome: Outcome) -> None:
        key, tally = outcome.case.cells, outcome.tally or Tally()
        self.counts.put(key, [outcome.row] if outcome.row else [])
        self.missed.put(key, [(what, cell(why)) for what, why in tally.missed])
        self.harmless.put(key, [(what,) for what in tally.harmless])
        for table in (self.counts, self.missed, self.harmless):
            table.arrange([case.cells for case in self.subjects])

    def render(self) -> str:
        counts = self.counts
        unsafe, noticed = counts.total("unsafe"), counts.total("noticed")
        lines = [
            "# Weakened kernels",
            "",
            "Written by `python -m evidence.emit_evidence mutants --output "
            "evidence/emitted-mutants.md`. Each wait of a proved program is loosened by one entry "
            "and deleted, each barrier deleted, in all groups of waves alike (`12 of 70`: evenly "
            "spread over all that there are). Of those that the verifier calls unsafe: how "
            f"many does the emulator notice within {MUTANT_SEEDS} seeds (trip counts 2, 0 and 1 "
            "in turn, data as late as waits let it be and at random)? `code` is the start of the "
            f"SHA-256 of the machine code that was weakened{_unnoted(counts)}. Last run at commit "
            f"{commit()}; a row whose code was the same then was kept.",
            "",
            f"{noticed} of {unsafe} noticed ({100 * noticed / max(unsafe, 1):.1f} %), in "
            f"{len(counts.rows)} kernels.",
            "",
            *counts.lines(),
        ]
        if self.missed.rows:
            lines += [
                "",
                "## Not noticed, and why",
                "",
                *self.missed.lines(),
            ]
        if self.harmless.rows:
            lines += ["", "## Still proved", "", *self.harmless.lines()]
        lines += [
            "",
            "## Order",
            "",
            "That what runs is the program, step by step, is tested apart from this: "
            "`tests/unit/write/test_emitted_order.py` decodes the assembled bytes and compares "
            "every load, LDS access, matrix instruction, wait (with its count), barrier and "
            "priority with the program's steps.",
        ]
        return "\n".join(lines) + "\n"


def _unnoted(table: Table) -> str:
    unnoted = any(row[CODE] == UNKNOWN for row in table.rows)
    return f" (`{UNKNOWN}` where an older run did not note it)" if unnoted else ""


def _times(effort: Effort) -> str:
    *some, last = map(str, effort.trips)
    counts = f"trip counts {', '.join(some)} and {last}" if some else f"trip count {last}"
    return f"{counts}, {effort.seeds} seeds of each"


def fill(
    page: Page, output: Path | None, workers: int, chosen: Sequence[Subject], again: bool
) -> None:
    """Run the chosen kernels, new ones first, and write the page after each."""
    known = {case.cells: "" if again else page.known(case) for case in chosen}
    first = sorted(chosen, key=lambda case: bool(known[case.cells]))
    with ProcessPoolExecutor(workers) as pool:
        futures = [pool.submit(page.work(case, known[case.cells])) for case in first]
        for future in as_completed(futures):
            outcome = future.result()
            if outcome.unchanged:
                print(f"{outcome.case}: unchanged", flush=True)
                continue
            page.enter(outcome)
            said = outcome.refused or ", ".join(outcome.row)
            print(f"{outcome.case}: {said}, {outcome.seconds:.0f} s", flush=True)
            if output is not None:
                write_page(output, page.render)
    write_page(output, page.render)


def main() -> None:
    """Parse the command line, run, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["matrix", "mutants"])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", nargs="+", metavar="KERNEL")
    parser.add_argument("--all", action="store_true", help="also what has not changed")
    parser.add_argument("--every", type=int, default=1, help="of so many weakenings, try one")
    given = parser.parse_args()

    page: Page = MatrixPage(given.output)
    if given.what == "mutants":
        page = MutantsPage(given.output, given.every)
    chosen = [case for case in page.subjects if given.only is None or case.cells[0] in given.only]
    fill(page, given.output, given.workers, chosen, given.all)


if __name__ == "__main__":
    main()
