"""The tables of pages name what there is."""

from __future__ import annotations

import re
from pathlib import Path

from pipeloom.machine.dtypes import DTYPES
from pipeloom.program import VOCABULARY

DOCS = Path(__file__).parents[2] / "docs"


def _named(head: str) -> list[str]:
    """What the first column of a table names, in order."""
    text = (DOCS / "writing-schedules.md").read_text("utf-8")
    table = text.split(f"| {head} |")[1].split("\n\n")[0]
    return [
        name for row in table.splitlines()[2:] for name in re.findall("`(.*?)`", row.split("|")[1])
    ]


def test_every_op_and_type_has_its_line() -> None:
    assert sorted(_named("op")) == sorted(op.name for op in VOCABULARY)
    assert sorted(_named("element type")) == sorted(dtype.name for dtype in DTYPES)
