"""The example of a declared kernel runs, for any number of rows, and stays a declaration."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_kernel.py"


@pytest.mark.parametrize(("rows", "columns"), [(2, 256), (4, 250), (13, 515)])
def test_it_sums(rows: int, columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert runpy.run_path(str(EXAMPLE))["main"](batch=2, rows=rows, columns=columns)
    assert "PROVED; waits: s_waitcnt vmcnt" in capsys.readouterr().out


def test_it_is_a_declaration_and_nothing_else() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 45
    assert "OpDesc" not in text
    assert "Emitter" not in text
    assert "from pipeloom" not in text
