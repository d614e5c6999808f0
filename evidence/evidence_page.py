"""Pages of results that outlive an interrupted run: Markdown tables, read back and merged.

A table's rows are named by their first cells. A page is read, the rows of one kernel are replaced,
and the whole is written again in a fixed order, in one step: what was there before stays.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Row = tuple[str, ...]


@dataclass(slots=True)
class Table:
    """Rows under a header; the first ``keys`` cells name what a row is about."""

    header: Row
    keys: int
    rows: list[Row] = field(default_factory=list)

    def about(self, key: Row) -> list[Row]:
        """The rows of one subject."""
        return [row for row in self.rows if row[: self.keys] == key]

    def put(self, key: Row, rows: Sequence[Row]) -> None:
        """Replace the rows of one subject."""
        self.rows = [row for row in self.rows if row[: self.keys] != key]
        self.rows += [key + row for row in rows]

    def arrange(self, subjects: Sequence[Row]) -> None:
        """In the order of ``subjects``; rows about anything else go."""
        self.rows = [row for key in subjects for row in self.about(key)]

    def total(self, column: str) -> int:
        """The sum of a column of counts."""
        place = self.header.index(column)
        return sum(int(row[place].split()[0]) for row in self.rows)

    def lines(self) -> list[str]:
        """As Markdown."""
        head = [self.header, ("---",) * len(self.header)]
        return ["| " + " | ".join(cells) + " |" for cells in [*head, *self.rows]]

    def read(self, page: Path) -> None:
        """Take the rows of the table with this header in an earlier page, if there is one."""
        if not page.exists():
            return
        lines = page.read_text(encoding="utf-8").splitlines()
        head, rule = self.lines()[:2]
        self.rows = []
        for at, line in enumerate(lines):
            if line == head and lines[at + 1] == rule:
                for following in lines[at + 2 :]:
                    if not following.startswith("| "):
                        break
                    self.rows.append(tuple(following[2:-2].split(" | ")))


def write_page(page: Path | None, render: Callable[[], str]) -> None:
    """Replace the page in one step, or print it."""
    if page is None:
        print(render())
        return
    draft = page.with_name(page.name + ".new")
    draft.write_text(render(), encoding="utf-8")
    os.replace(draft, page)


def cell(text: str) -> str:
    """Text of one line that does not end a cell."""
    return " ".join(text.split()).replace("|", "/")


def commit() -> str:
    """The last one that changed the package, which is what is run."""
    asked = ("git", "log", "-1", "--format=%h", "--", "src")
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
