"""evidence/golden-verdicts.md says what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence import make_golden_verdicts as make

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "evidence" / "golden-verdicts.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["ping_pong/000", "ping_pong/040", "four_wave/024"])
def test_rows_are_current(name: str) -> None:
    cases = dict(make.canonical(ROOT / "tests" / "golden" / "schedules.jsonl.gz"))
    first = cases[f"{name.split('/')[0]}/000"]
    _, line = make.row(name, cases[name], first)
    assert line in PAGE.splitlines()


def test_every_canonical_case_is_listed() -> None:
    names = [n for n, _ in make.canonical(ROOT / "tests/golden/schedules.jsonl.gz")]
    assert len(names) == 98
    assert all(f"| {name} |" in PAGE for name in names)
