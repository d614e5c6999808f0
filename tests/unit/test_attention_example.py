"""The example of attention runs, and is right."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "attention.py"


def test_it_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert runpy.run_path(str(EXAMPLE))["main"](queries=40, keys=70)
    assert "4 * masked iterations; PROVED" in capsys.readouterr().out
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 80
