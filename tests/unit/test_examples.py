"""The examples run as their first lines say, and print what the documentation promises."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import pipeloom as pl
from pipeloom.judge.execute import execute
from pipeloom.reference.compiler import Sync
from pipeloom.reference.lift import lift
from pipeloom.reference.ops import OpTag

README = Path(__file__).parents[2] / "README.md"
OWN = Path(__file__).parents[2] / "examples" / "own_schedule.py"


def test_own_schedule_prints_two_proofs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(OWN), run_name="__main__")
    printed = capsys.readouterr().out
    assert "reference sync: PROVED: QkvProjection" in printed
    assert "proven sync:    PROVED: QkvProjection" in printed


@pytest.mark.parametrize("sync", ["reference", "proven", "repaired"])
def test_own_schedule_computes_right(sync: Sync) -> None:
    schedule = runpy.run_path(str(OWN))["QkvProjection"]()
    compiled = pl.compile_schedule(schedule, sync=sync)
    kernel = schedule.kernel(compiled)
    for trips in range(3):
        assert execute(lift(compiled, kernel), trips=trips, order="reverse").correct


def test_own_schedule_saves_barriers_when_proven() -> None:
    schedule = runpy.run_path(str(OWN))["QkvProjection"]()

    def barriers(sync: Sync) -> int:
        kernel = pl.compile_schedule(schedule, sync=sync).kernel
        return sum(entry.op.tag == OpTag.BARRIER for entry in kernel)

    assert (barriers("reference"), barriers("proven")) == (24, 4)


def test_own_schedule_stays_short() -> None:
    assert len(OWN.read_text(encoding="utf-8").splitlines()) < 60


def test_the_readme_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = README.read_text(encoding="utf-8")
    ((code, printed),) = re.findall(r"```python\n(.*?)```.*?```\n(.*?)```", text, re.DOTALL)
    assert 15 <= len([line for line in code.splitlines() if line]) <= 25
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == printed
    assert "<title>layer" in Path("layer.html").read_text(encoding="utf-8")
