"""``verify``, ``fix`` and ``simulate`` on the command line: exit codes, files, JSON, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeloom import CompiledSchedule, verify
from pipeloom.cli.main import main


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_verify_exits_3_on_timing_and_shows_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "verify", "ping_pong")
    assert code == 3
    assert out.startswith("TIMING")
    assert "apart by" in out
    assert "shortest counterexample" in out


def test_verify_exits_4_on_a_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.json"
    _run(capsys, "compile", "ping_pong", "--sync", "proven", "-o", str(path))
    data = json.loads(path.read_text())
    data["kernel"] = [e for e in data["kernel"] if e["op"]["tag"] != 130]
    for slot, entry in enumerate(data["kernel"]):
        entry["time_slot"] = slot
    path.write_text(json.dumps(data))
    code, out, _ = _run(capsys, "verify", str(path))
    assert code == 4
    assert out.startswith("RACE")


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_verify_exits_0_when_proved(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "verify", name, "--sync", "proven", "--json")
    verdict = json.loads(out)
    assert code == 0
    assert verdict["status"] == "proved"
    assert verdict["coverage"]["repeats_from"] is not None


def test_fix_writes_what_it_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fixed.json"
    code, out, _ = _run(capsys, "fix", "ping_pong", "-o", str(path))
    assert code == 0
    assert "before: TIMING" in out
    assert "after:  PROVED" in out
    assert "kernel: ops moved" in out
    assert "sync repaired; 4 loads moved: 4228 cycles per trip with a bf16 tile, -0.2 %" in out
    assert verify(CompiledSchedule.from_dict(json.loads(path.read_text()))).proved


def test_fix_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "fix", "four_wave", "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["verdict_before"], data["verdict_after"]) == ("TIMING", "PROVED")
    assert data["changes"]


def test_fix_names_the_ops_of_an_order_it_cannot_save(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = ["--set", "scheduling=identity", "--set", "global_before_frag=true"]
    code, _, err = _run(capsys, "fix", "ping_pong", *settings, "--keep-barriers")
    assert code == 1
    assert err.startswith("error: ")
    assert "hint: " in err
    code, out, _ = _run(capsys, "fix", "ping_pong", *settings, "--reorder")
    assert code == 0
    assert "after:  PROVED" in out
    assert "reordered" in out


def test_fix_keeps_the_barriers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "fix", "ping_pong", "--keep-barriers")
    assert code == 1
    assert "waits alone cannot save this order with its barriers" in err
    assert "moves after" in err
    path = tmp_path / "kept.json"
    command = ["fix", "ping_pong", "--keep-barriers", "--reorder", "-o", str(path)]
    code, out, _ = _run(capsys, *command)
    assert code == 0
    assert "after:  PROVED" in out
    assert "barriers 16 -> 16" in out
    assert "note: waits derived from dependences, barriers kept" in out
    assert verify(CompiledSchedule.from_dict(json.loads(path.read_text()))).proved


def test_sync_repaired_works_on_specs_and_on_compiled_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repaired = ["--sync", "repaired", "--reorder"]
    assert _run(capsys, "verify", "four_wave", *repaired)[0] == 0
    path = tmp_path / "c.json"
    _run(capsys, "compile", "four_wave", "-o", str(path))
    assert _run(capsys, "verify", str(path))[0] == 3
    assert _run(capsys, "verify", str(path), *repaired)[0] == 0


def test_simulate_prints_figures_timeline_and_stalls(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "simulate", "ping_pong", "--k-tiles", "8")
    assert code == 0
    assert "cycles per K tile" in out
    assert "matrix unit" in out
    assert "stalls" in out


def test_simulate_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "simulate", "four_wave", "--k-tiles", "8", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["iterations"] == 3
    assert 0 < data["steady_matrix_efficiency"][0] <= 1
    assert data["stalls"]


def test_simulate_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "simulate", "--stream", "M16 branch", "--iterations", "8")
    assert code == 0
    assert "limited by: matrix unit" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate"], "nothing to simulate"),
        (["simulate", "ping_pong", "--stream", "M"], "not both"),
        (["simulate", "ping_pong", "--k-tiles", "3"], "cannot run 3 iterations"),
        (["simulate", "ping_pong", "--arch", "gfx90a"], "unknown architecture 'gfx90a'"),
        (["simulate", "--stream", "M16 Q"], "Q"),
    ],
)
def test_simulate_refuses(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = _run(capsys, *arguments)
    assert code == 1
    assert message in err


def test_a_compiled_file_takes_no_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.json"
    _run(capsys, "compile", "four_wave", "-o", str(path))
    code, _, err = _run(capsys, "verify", str(path), "--set", "auto_waits=false")
    assert code == 1
    assert "which --set cannot change" in err
