"""Evidence for the emitter: every kernel under many timings, and every wait of many of them.

    python -m evidence.emit_evidence matrix  [--output evidence/emitted-matrix.md]
    python -m evidence.emit_evidence mutants [--output evidence/emitted-mutants.md]

matrix: for each kernel trip counts 0, 1, 2 and 5; M and N the whole tile or ragged; each with seeds
of its own (data, timing of memory, order of waves). Integer data must come out exactly.

mutants: each weakening of a proved schedule that the verifier calls unsafe is emitted all the same
and run; does the emulator notice?

A row is written as soon as its kernel is done. Rows that are there already are kept as long as the
kernel's machine code is what it was then (the column ``code`` is its digest), so an interrupted run
goes on where it was, and after a change to the emitter only what it changed is run again. ``--all``
runs everything again; ``--only SCHEDULE ...`` leaves other kernels as they are.
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

from evidence.emit_cases import Case, cases, output_cases, weakened_cases
from evidence.emit_mutants import Tally, weaken
from evidence.evidence_page import Row, Table, cell, write_page
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.errors import ScheduleError
from pipeloom.write import assemble

RAGGED = (5, 3)
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

    case: Case
    row: Row = ()
    failures: tuple[str, ...] = ()
    tally: Tally | None = None
    refused: str = ""
    unchanged: bool = False
    seconds: float = 0.0


def load(case: Case) -> tuple[Launchable, str]:
    """The kernel, and the digest of its machine code."""
    emitted = case.emit()
    ready = Launchable.load(emitted, assemble(emitted))
    return ready, hashlib.sha256(ready.kernel.code).hexdigest()[:8]


def run_case(case: Case, effort: Effort, known: str) -> Outcome:
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
            less = RAGGED if seed % 2 else (0, 0)
            trial = run_program(
                emitted,
                ready,
                sizes={
                    "m": case.shape[0] - less[0],
                    "n": case.shape[1] - less[1],
                    "k": emitted.launch.least + trips * emitted.launch.step,
                },
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


def weaken_case(case: Case, seeds: int, known: str) -> Outcome:
    """All weakenings of one kernel, unless the digest of its code is ``known``."""
    started = time.perf_counter()
    try:
        ready, digest = load(case)
    except ScheduleError as error:
        return Outcome(case, refused=cell(error.message))
    if digest == known:
        return Outcome(case, unchanged=True)
    del ready
    tally = weaken(case, seeds)
    row = (
        str(tally.unsafe + len(tally.harmless)),
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

    subjects: list[Case]

    def known(self, case: Case) -> str:
        """The digest of the code that the page speaks of, or nothing."""
        ...

    def work(self, case: Case, known: str) -> Callable[[], Outcome]:
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
        self._tiles = frozenset(tiles)
        self.tiles = Table((*NAMES, *FOUND), len(NAMES))
        self.outputs = Table((*NAMES, *FOUND), len(NAMES))
        self.failed = Table((*NAMES, "failure"), len(NAMES))
        self.refused = Table((*NAMES, "refused"), len(NAMES))
        if earlier is not None:
            for table in (self.tiles, self.outputs, self.failed, self.refused):
                table.read(earlier)

    def effort(self, case: Case) -> Effort:
        """More for the tiles than for the types of C."""
        return MATRIX if case in self._tiles else OUTPUTS

    def work(self, case: Case, known: str) -> Callable[[], Outcome]:
        return partial(run_case, case, self.effort(case), known)

    def _place(self, case: Case) -> tuple[Table, Row]:
        if case in self._tiles:
            return self.tiles, case.cells
        return self.outputs, case.cells

    def known(self, case: Case) -> str:
        table, key = self._place(case)
        rows = table.about(key)
        return rows[0][CODE] if rows and rows[0][table.keys] == str(self.effort(case).runs) else ""

    def enter(self, outcome: Outcome) -> None:
        case = outcome.case
        table, key = self._place(case)
        full = case.cells
        table.put(key, [outcome.row] if outcome.row else [])
        if case in self._tiles or not outcome.refused:
            self.refused.put(full, [(outcome.refused,)] if outcome.refused else [])
        self.failed.put(full, [(text,) for text in outcome.failures])
        keys = [c.cells for c in self.subjects]
        self.tiles.arrange([c.cells for c in self.subjects if c in self._tiles])
        self.outputs.arrange(
            [key for c, key in zip(self.subjects, keys, strict=True) if c not in self._tiles]
        )
        self.refused.arrange(list(dict.fromkeys(keys)))
        self.failed.arrange(list(dict.fromkeys(keys)))

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
            f"of the SHA-256 of the machine code that was run{_unnoted(tiles)}.",
            "",
            f"{len(tiles.rows) + len(outputs.rows)} kernels, {runs} runs, {failed} failed.",
            "",
            "## Tiles",
            "",
            f"Trip counts {_listed(MATRIX.trips)}; {MATRIX.seeds} seeds of each.",
            "",
            *tiles.lines(),
            "",
            "## Types of C",
            "",
            f"The smallest tile of each kernel; trip counts {_listed(OUTPUTS.trips)}, "
            f"{OUTPUTS.seeds} seeds of each.",
            "",
            *outputs.lines(),
        ]
        for title, table in (("Failures", self.failed), ("Refused", self.refused)):
            if table.rows:
                lines += ["", f"## {title}", "", *table.lines()]
        return "\n".join(lines) + "\n"


class MutantsPage:
    """How many weakenings of each kernel are noticed, and why the others are not."""

    def __init__(self, earlier: Path | None) -> None:
        self.subjects = list(weakened_cases())
        counts = ("weakened", "still proved", "unsafe", "noticed", "by the first seed", "code")
        self.counts = Table((*NAMES, *counts), len(NAMES))
        self.missed = Table((*NAMES, "not noticed", "why"), len(NAMES))
        self.harmless = Table((*NAMES, "still proved"), len(NAMES))
        if earlier is not None:
            for table in (self.counts, self.missed, self.harmless):
                table.read(earlier)

    def work(self, case: Case, known: str) -> Callable[[], Outcome]:
        return partial(weaken_case, case, MUTANT_SEEDS, known)

    def known(self, case: Case) -> str:
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
            "evidence/emitted-mutants.md`. Each wait of a proved schedule is loosened by one entry "
            "and deleted, each barrier deleted. Of those that the verifier calls unsafe: how many "
            f"does the emulator notice within {MUTANT_SEEDS} seeds (trip counts 2, 0 and 1 in "
            "turn)? `code` is the start of the SHA-256 of the machine code that was weakened"
            f"{_unnoted(counts)}.",
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
                "The proof takes every wave's slice of a load to overlap every read of the region, "
                "which is right for any layout. The emulator looks at bytes.",
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


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(n) for n in numbers[:-1]) + f" and {numbers[-1]}"


def fill(
    page: Page, output: Path | None, workers: int, chosen: Sequence[Case], again: bool
) -> None:
    """Run the chosen kernels, new and small ones first, and write the page after each."""
    known = {case: "" if again else page.known(case) for case in chosen}
    first = sorted(chosen, key=lambda case: (bool(known[case]), case.shape[0] * case.shape[1]))
    with ProcessPoolExecutor(workers) as pool:
        futures = [pool.submit(page.work(case, known[case])) for case in first]
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
    parser.add_argument("--only", nargs="+", metavar="SCHEDULE")
    parser.add_argument("--all", action="store_true", help="also what has not changed")
    given = parser.parse_args()

    page: Page = MatrixPage(given.output) if given.what == "matrix" else MutantsPage(given.output)
    chosen = [case for case in page.subjects if given.only is None or case.schedule in given.only]
    fill(page, given.output, given.workers, chosen, given.all)


if __name__ == "__main__":
    main()
