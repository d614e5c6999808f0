"""``pipeloom solve``: schedules, problem files, budgets, explanations, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.order.modulo import Edge, MachineUnit, ModuloProblem, Op, Reservation
from tests.unit.cli.ran import ran

DOT = ModuloProblem(
    name="dot",
    units=(MachineUnit("mem", 1), MachineUnit("mfma", 1), MachineUnit("ports", 2)),
    ops=(
        Op("load", 8, (Reservation("mem", 2), Reservation("ports", 1)), load=True),
        Op("mma", 4, (Reservation("mfma", 4),)),
    ),
    edges=(Edge(0, 1, 8), Edge(1, 1, 4, distance=1)),
)


@pytest.fixture
def problem(tmp_path: Path) -> str:
    path = tmp_path / "dot.json"
    path.write_text(DOT.to_json())
    return str(path)


def test_a_problem_file(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", problem, "--explain"]) == 0
    out = capsys.readouterr().out
    assert "mma -> mma" in out
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert lines["mfma"] == ["bbbb", "100%"]
    assert lines["mem"] == ["aa..", "50%"]
    assert lines["ports"] == ["1...", "12%"]
    assert all(f"{name} 4" in out for name in ("II", "ResMII", "RecMII"))
    assert all(part in out for part in ("stages 3", "II 3"))


def test_json(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", problem, "--explain", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["ii"], data["proved"], data["quantum"]) == (4, True, 1)
    assert data["explanation"]["ii"] == 3
    assert data["explanation"]["minimal"] is True


def test_an_ii_that_is_impossible_is_explained(
    problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", problem, "--ii", "3"]) == 1
    assert "3" in capsys.readouterr().out
    assert main(["solve", problem, "--ii", "3", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["ii"] is None
    assert data["explanation"]["words"]
    assert main(["solve", problem, "--ii", "9"]) == 0


def test_a_stage_budget_costs_ii(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", problem, "--budget", "stages=2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["stages"] <= 2
    assert data["ii"] > 4


def test_the_gemm_tile(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "BM=64", "--set", "BN=64"]
    assert main(["solve", "gemm_tile", *small, "--budget", "lds=65536,stages=4"]) == 0
    out = capsys.readouterr().out
    assert all(part in out for part in ("gemm_tile", "16 cycles", "lds A0 "))


def test_a_declared_body(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "single_buffer", "--json", "--objectives", ""]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["proved"] is True
    assert data["ii"] >= 64


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--budget", "vgpr=9"], "vgpr"),
        (["--budget", "lds=much"], "much"),
        (["--objectives", "beauty"], "beauty"),
        (["--set", "BM=64"], "--set"),
        (["--time-limit", "0"], "time_limit"),
    ],
)
def test_errors(
    problem: str, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ran(capsys, "solve", problem, *arguments)
    assert (done.code, done.out) == (1, "")
    assert named in done.err


def test_the_bar_shows_ii_bound_and_best(
    problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["solve", problem]) == 0
    captured = capsys.readouterr()
    assert "bound 4" in captured.err
    assert "II 4" in captured.out


def test_the_same_from_python(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", problem, "--budget", "stages=2", "--explain", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = pl.solve(problem, budget={"stages": 2}, explain=True)
    assert found.to_dict() == told
    record = pl.ModuloProblem.from_dict(json.loads(Path(problem).read_text()))
    assert pl.solve(record, budget={"stages": 2}, explain=True).to_dict() == told


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"budget": {"vgpr": 9}}, "budget"),
        ({"budget": {"stages": 0}}, "budget.stages"),
        ({"objectives": ["beauty"]}, "objectives"),
        ({"source": 3}, "source"),
    ],
)
def test_calls_that_are_refused(problem: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(pl.ScheduleError) as error:
        pl.solve(**{"source": problem, **options})
    assert error.value.field == field
    assert error.value.hint
