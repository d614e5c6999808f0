"""``my.py:Schedule`` with its two required methods alone, through the commands that judge it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeloom.cli.main import main

FILE = """
from dataclasses import replace
import pipeloom as pl

class InStep(pl.PipelineSchedule):
    def config(self):
        return replace(pl.mi355x_double_buffer(), warp_stagger=pl.WarpStaggerRule.none())

    def build_body(self):
        return pl.DeclarativeSchedule().build_body()

class Racy(InStep):
    def schedule_config(self):
        return pl.ScheduleConfig(auto_waits=False, wait_vm_last=40)
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("name", "code"), [("InStep", 0), ("Racy", 4)])
def test_verify(own: str, name: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", f"{own}:{name}"]) == code
    said = capsys.readouterr()
    assert name in said.out
    assert said.err.startswith("note: ")


@pytest.mark.parametrize("command", ["simulate", "show"])
def test_simulate_and_show(own: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, f"{own}:InStep"]) == 0
    assert "InStep" in capsys.readouterr().out


def test_report_is_simulated_too(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", f"{own}:InStep", "-o", str(tmp_path / "own.html")]) == 0
    assert "not simulated" not in capsys.readouterr().out


def test_a_compiled_file_keeps_the_verdict_and_the_note(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "own.json")
    assert main(["compile", f"{own}:Racy", "-o", file]) == 0
    capsys.readouterr()
    assert main(["verify", file]) == 4
    assert "what ops touch follows from their roles" in capsys.readouterr().err


def test_emitting_asks_for_the_tile(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", f"{own}:InStep"]) != 0
    assert "geometry()" in capsys.readouterr().err


def test_a_knob_without_effect_is_said_while_judging(capsys: pytest.CaptureFixture[str]) -> None:
    main(["verify", "ping_pong", "--set", "omit_mma_set_prio=true"])
    assert "omit_mma_set_prio has no effect" in capsys.readouterr().err
