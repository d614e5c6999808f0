"""Commands on loops and programs of the user's own: ``my.py:name`` and program files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.drive.programs import as_program
from pipeloom.program import Barrier, Step, Wait, Work

SOURCE = """
import pipeloom as pl

def small():
    loop = pl.Loop("small", over="k")
    a = loop.stream("A", "bf16", m=32, k=32)
    b = loop.stream("B", "bf16", n=32, k=32)
    c = loop.carry("C", "f32", m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c.to("bf16"))
    return loop

def scaled():
    loop = pl.Loop("scaled", over="k")
    a = loop.stream("A", "bf16", m=32, k=32)
    total = loop.carry("S", "f32", m=32)
    total += a.sum("k")
    loop.store("out", total * loop.scalar("alpha"))
    return loop

PROGRAM = pl.pipeline(small(), pl.target_for("gfx950"), 4)
NUMBER = 3
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def test_a_loop_is_verified(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", f"{mine}:small", "--waves", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "proved"
    assert main(["verify", f"{mine}:PROGRAM"]) == 0
    assert "PROVED" in capsys.readouterr().out


def test_a_loop_is_shown_and_simulated(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{mine}:PROGRAM"]) == 0
    assert "load A" in capsys.readouterr().out
    assert main(["simulate", f"{mine}:PROGRAM", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["iterations"] > 0
    assert main(["simulate", f"{mine}:PROGRAM"]) == 0
    assert "cycles" in capsys.readouterr().out


def test_a_loop_s_graph_has_the_target_s_latencies(
    mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", f"{mine}:PROGRAM", "--json"]) == 0
    graph = json.loads(capsys.readouterr().out)
    target = pl.target_for("gfx950")
    latency = {op["label"].split()[0]: op["latency"] for op in graph["ops"]}
    assert latency["load"] == target.global_latency.value
    assert latency["read"] == target.lds_latency.value
    assert graph["longest_path"] > 0


def test_a_loop_is_reported_and_emitted(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, code = tmp_path / "x.html", tmp_path / "k.hsaco"
    assert main(["report", f"{mine}:PROGRAM", "-o", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == page.stat().st_size
    assert main(["emit", f"{mine}:PROGRAM", "-o", str(code)]) == 0
    assert code.read_bytes()[:4] == b"\x7fELF"
    assert json.loads((tmp_path / "k.json").read_text())["kernel"]
    capsys.readouterr()
    assert main(["emit", f"{mine}:PROGRAM"]) == 0
    assert "v_mfma" in capsys.readouterr().out


def test_a_loop_is_run_compared_and_solved(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    own, one = f"{mine}:small", ["--waves", "4"]
    assert main(["run", own, *one, "--timings", "1", "--m", "30", "--size", "n=33"]) == 0
    assert "n=33: equal to NumPy in 1 timing" in capsys.readouterr().out
    assert main(["run", own, *one, "--size", "x=3"]) == 1
    assert "has no dimension 'x'" in capsys.readouterr().err
    assert main(["compare", f"{mine}:PROGRAM", f"{mine}:PROGRAM:emitted=true", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["verdict"] for row in rows] == ["PROVED", "PROVED"]
    assert main(["solve", own, *one, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ii"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "scaled needs the scalar 'alpha'"),
        (["--scalar", "alfa=2", "--scalar", "alpha=2"], "scaled has no scalar 'alfa'"),
    ],
)
def test_scalars_are_checked_before_the_search(
    mine: str,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeloom.drive.running.emit", lambda _: pytest.fail("it was searched for"))
    assert main(["run", f"{mine}:scaled", *options]) == 1
    assert message in capsys.readouterr().err


def test_a_program_file_is_a_source(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", f"{mine}:PROGRAM", "--json"]) == 0
    file = tmp_path / "program.json"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert pl.Program.from_json(file.read_text()).name == "small"
    assert main(["verify", str(file)]) == 0


def _edited(program: pl.Program, change: Callable[[Step], Step | None], path: Path) -> str:
    """A file of the program with each step changed, or dropped."""
    groups = tuple(
        replace(
            group,
            sections=tuple(
                replace(s, steps=tuple(x for step in s.steps if (x := change(step)) is not None))
                for s in group.sections
            ),
        )
        for group in program.groups
    )
    path.write_text(program.with_groups(groups, program.provenance).to_json(), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def program(mine: str) -> pl.Program:
    return as_program(f"{mine}:PROGRAM")


@pytest.mark.parametrize("lost", [(Wait,), (Wait, Barrier)])
def test_a_racing_program_comes_out_proved(
    program: pl.Program,
    lost: tuple[type, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = _edited(program, lambda s: None if isinstance(s, lost) else s, tmp_path / "a.json")
    assert pl.verify(broken).status.name == "RACE"
    mended = tmp_path / "b.json"
    assert main(["fix", broken, "-o", str(mended), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict_before"], told["verdict_after"]) == ("RACE", "PROVED")
    after = pl.Program.from_json(mended.read_text(encoding="utf-8"))
    assert pl.verify(after).proved
    cycles = pl.simulate(after).steady_cycles_per_iteration
    assert told["cost"]["cycles_per_trip"] == pytest.approx(cycles, abs=0.01)
    derived = pl.synchronize(pl.Program.from_json(Path(broken).read_text()), reorder=True)
    assert cycles <= pl.simulate(derived).steady_cycles_per_iteration
    assert main(["fix", str(mended)]) == 0
    assert "already PROVED" in capsys.readouterr().out


def test_wrong_work_is_an_error_with_the_finding(
    program: pl.Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def next_tile(step: Step) -> Step:
        if isinstance(step, Work) and step.iteration == 0 and step.label.startswith("load A"):
            return replace(step, iteration=1)
        return step

    wrong = _edited(program, next_tile, tmp_path / "wrong.json")
    assert main(["fix", wrong, "-o", str(tmp_path / "none.json")]) == 1
    assert "A of iteration 0" in capsys.readouterr().err
    assert not (tmp_path / "none.json").exists()


def test_a_loop_is_proved_already(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", f"{mine}:small", "--waves", "4"]) == 0
    assert "already PROVED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "{}:PROGRAM"], "whose order is settled"),
        (["verify", "{}:NUMBER"], "not a loop"),
        (["verify", "{}:PROGRAM", "--waves", "2"], "--waves 2 cannot change"),
        (["verify", "{}:PROGRAM", "--arch", "gfx942"], "--arch gfx942 cannot change"),
        (
            ["verify", "ping_pong", "--waves", "2"],
            "--waves is for loops, and ping_pong is a schedule",
        ),
        (["verify", "{}:PROGRAM", "--set", "a=1"], "is a program, which --set cannot change"),
    ],
)
def test_what_does_not_fit_is_refused(
    mine: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: int | str | None = main([a.format(mine) for a in arguments])
    except SystemExit as error:
        code = error.code
    assert code in (1, 2)
    assert message in capsys.readouterr().err
