"""docs/golden-verdicts.md says what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "golden-verdicts.md").read_text(encoding="utf-8")


def generator() -> ModuleType:
    path = ROOT / "docs" / "make_golden_verdicts.py"
    spec = importlib.util.spec_from_file_location("make_golden_verdicts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["ping_pong/000", "ping_pong/040", "four_wave/024"])
def test_rows_are_current(name: str) -> None:
    make = generator()
    cases = dict(make.canonical(ROOT / "tests" / "golden" / "schedules.jsonl.gz"))
    first = cases[f"{name.split('/')[0]}/000"]
    _, line = make.row(name, cases[name], first)
    assert line in PAGE.splitlines()


def test_every_canonical_case_is_listed() -> None:
    names = [n for n, _ in generator().canonical(ROOT / "tests/golden/schedules.jsonl.gz")]
    assert len(names) == 98
    assert all(f"| {name} |" in PAGE for name in names)
