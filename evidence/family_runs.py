"""The page of what random problems of the families of kernels came to; written by their runs.

python -m benchmarks.families --weaken 8 --write       # evidence/family-runs.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence.evidence_page import Table, commit, write_page

PAGE = Path(__file__).with_name("family-runs.md")
HEADER = (
    "family",
    "kernels",
    "PROVED",
    "problems",
    "wrong",
    "with findings",
    "outside",
    "weakened, unsafe",
    "harmless as written",
    "not noticed",
    "LLVM adds to",
    "CPU s",
    "of",
)


@dataclass(slots=True)
class FamilyRun:
    """What came of the problems of a family."""

    name: str
    kernels: int = 0
    proved: int = 0
    problems: int = 0
    wrong: int = 0
    findings: int = 0
    outside: int = 0
    unsafe: int = 0
    harmless: int = 0
    """Weakenings that no run notices and that the scan of the machine code does not, either."""
    unnoticed: int = 0
    added: int | None = None
    """Kernels to which LLVM's passes add something; None where they were not run."""
    seconds: int = 0

    @property
    def good(self) -> bool:
        """Whether all that was run is as it should be."""
        bad = self.wrong + self.findings + self.outside + self.unnoticed + (self.added or 0)
        return not bad and self.proved == self.kernels

    @property
    def row(self) -> tuple[str, ...]:
        """As cells, behind the name."""
        counts = (
            *(self.kernels, self.proved, self.problems, self.wrong, self.findings, self.outside),
            *(self.unsafe, self.harmless, self.unnoticed),
        )
        added = "not run" if self.added is None else str(self.added)
        return (*map(str, counts), added, str(self.seconds), commit())


def page(table: Table) -> str:
    """All of it."""
    counts = {name: table.total(name) for name in HEADER[1:10]}
    return "\n".join(
        [
            "# Random problems of families",
            "",
            "Kernels of small tiles, derived and proved, run in the emulator on sizes down to 0 and"
            " 1, ragged, with",
            "infinities, NaN, denormals and peaked rows where a family allows them, and compared"
            " with NumPy element by element;",
            "bytes around outputs must stay. Of waits and barriers that were weakened, those to"
            " which the verifier objects must be",
            "noticed in the emulator, unless the scan of the machine code finds nothing, either:"
            " a store of single elements counts once in",
            "a program, and what it issues besides does the work of a wait. `python -m"
            " benchmarks.families --weaken 1 --write` writes",
            "this page, and takes `--llvm` for what LLVM's passes add.",
            "",
            f"{counts['kernels']} kernels, {counts['PROVED']} PROVED; {counts['problems']}"
            f" problems, {counts['wrong']} wrong, {counts['with findings']} with findings, "
            f"{counts['outside']} with bytes written outside;",
            f"{counts['weakened, unsafe']} unsafe weakenings, {counts['not noticed']} not noticed,"
            f" {counts['harmless as written']} harmless as written.",
            "",
            *table.lines(),
            "",
        ]
    )


def write(found: FamilyRun, families: Sequence[str]) -> None:
    """Replace the row of one family."""
    table = Table(HEADER, 1)
    table.read(PAGE)
    table.put((found.name,), [found.row])
    table.arrange([(name,) for name in families])
    write_page(PAGE, lambda: page(table))
