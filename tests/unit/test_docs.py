"""The pages' examples run as printed, and their tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pipeloom.machine.dtypes import DTYPES
from pipeloom.program import VOCABULARY

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\s*```\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize("page", ["executor", "performance-model", "verdicts"])
def test_examples_run_and_print_what_stands_below_them(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of a page one after the other; ``...`` stands for lines that are left out."""
    names: dict[str, Any] = {}
    for code, printed in EXAMPLE.findall((DOCS / f"{page}.md").read_text("utf-8")):
        exec(compile(code, page, "exec"), names)
        said = capsys.readouterr().out.splitlines()
        assert [line for line in printed.splitlines() if line.strip() != "..."] == [
            line for line in said if line in printed.splitlines()
        ]


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
