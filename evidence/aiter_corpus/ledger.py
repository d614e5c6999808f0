"""The page of rows: read, with rows put in or replaced, and written again, a section per family.

What stands before the first section is written by hand and kept as it is; each section has a line
that counts its rows and a table in the order of names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

HEAD = ("kernel", "ran", "agrees", "instructions", "seconds", "findings")
CHECK_HEAD = (
    "verdict",
    "shown",
    "holds for trips",
    "trips",
    "needless waits",
    "loop, cycles",
    "without needless",
    "matrix busy",
    "seconds to check",
    "peak MB",
)
Cells = tuple[str, ...]


def row(cells: Cells) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def table_head(checked: bool = True) -> list[str]:
    """The two lines above the rows."""
    head = HEAD + CHECK_HEAD if checked else HEAD
    return [row(head), "|---" * len(head) + "|"]


@dataclass(frozen=True, slots=True)
class Page:
    """``rows`` by family and by name of the kernel."""

    preface: str
    rows: Mapping[str, Mapping[str, Cells]]

    @classmethod
    def read(cls, text: str) -> Page:
        preface, *sections = text.split("\n## ")
        rows: dict[str, dict[str, Cells]] = {}
        for section in sections:
            family, *lines = section.splitlines()
            found = [_cells(line) for line in lines if line.startswith("| ")]
            rows[family] = {cells[0]: cells for cells in found if cells[0] != HEAD[0]}
        return cls(preface.rstrip() + "\n", rows)

    def with_row(self, family: str, cells: Cells) -> Page:
        """The page with one row more, in the place of the kernel's old one if it has one."""
        mine = {**self.rows.get(family, {}), cells[0]: cells}
        return Page(self.preface, {**self.rows, family: mine})

    def text(self) -> str:
        """The page as it is written."""
        parts = [self.preface]
        for family, counted in zip(self.rows, self.summaries(), strict=True):
            lines = [row(cells) for _, cells in sorted(self.rows[family].items())]
            body = "\n".join([*table_head(), *lines])
            parts.append(f"## {family}\n\n{counted}\n\n{body}\n")
        return "\n".join(parts)

    @property
    def all_ran(self) -> bool:
        return all(cells[1] == "yes" for mine in self.rows.values() for cells in mine.values())

    def summaries(self) -> list[str]:
        """One line per family: how many ran to the end, how many agree, the verdicts."""
        lines = []
        for family, mine in self.rows.items():
            some = mine.values()
            ran = sum(cells[1] == "yes" for cells in some)
            by = Counter(cells[2].partition(",")[0] for cells in some)
            compared = len(some) - by["-"]
            agree = f"{by['yes']} of {compared} agree" if compared else "not compared"
            prompt = f", {by['prompt']} more with prompt memory" if by["prompt"] else ""
            verdicts = Counter(
                cells[len(HEAD)].partition(":")[0] for cells in some if len(cells) > len(HEAD)
            )
            said = "".join(f", {count} {verdict}" for verdict, count in sorted(verdicts.items()))
            lines.append(f"{family}: {ran} of {len(some)} ran to the end, {agree}{prompt}{said}")
        return lines


def _cells(line: str) -> Cells:
    return tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))
