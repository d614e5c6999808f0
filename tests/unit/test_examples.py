"""The examples run as their first lines say, and print what the documentation promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import pipeloom as pl
from pipeloom.judge.execute import execute
from pipeloom.reference.compiler import Sync
from pipeloom.reference.lift import lift
from pipeloom.reference.ops import OpTag

EXAMPLES = Path(__file__).parents[2] / "examples"
OWN = EXAMPLES / "own_schedule.py"
TRITON = EXAMPLES / "triton_matmul.py"


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


def test_triton_matmul_is_proved_of_the_fixed_compiler() -> None:
    """3.8.0, which the file is about, is not installed here."""
    pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
    pytest.importorskip("triton", reason="the triton wheel is not installed")
    verdict = runpy.run_path(str(TRITON))["main"]()
    assert verdict.status is pl.CheckStatus.PROVED
