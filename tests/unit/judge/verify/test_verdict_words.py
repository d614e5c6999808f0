"""TIMING and RACE have one definition, that of docs/verdicts.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeloom.judge.verify.findings import Status

DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize("status", [Status.TIMING, Status.RACE])
def test_the_glossary_says_what_the_page_of_verdicts_says(status: Status) -> None:
    table = (DOCS / "verdicts.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {status.title} \| {status.exit_code} \| (.*) \|$", table, re.MULTILINE)
    assert row is not None
    assert f"| {status.title} | {row[1]}" in (DOCS / "glossary.md").read_text(encoding="utf-8")
