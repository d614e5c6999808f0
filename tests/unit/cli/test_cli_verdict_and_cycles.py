"""``verify``, ``fix`` and ``simulate`` on the command line: exit codes, files, JSON, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeloom import CompiledSchedule, verify
from tests.unit.cli.ran import ran


def test_verify_exits_3_on_timing_and_shows_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "verify", "ping_pong")
    assert (done.code, done.out.split()[0]) == (3, "TIMING")
    told = ran(capsys, "verify", "ping_pong", "--json")
    assert (told.code, told.data["status"]) == (3, "timing")
    assert told.data["findings"]


def test_verify_exits_4_on_a_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.json"
    ran(capsys, "compile", "ping_pong", "--sync", "proven", "-o", str(path))
    data = json.loads(path.read_text())
    data["kernel"] = [e for e in data["kernel"] if e["op"]["tag"] != 130]
    for slot, entry in enumerate(data["kernel"]):
        entry["time_slot"] = slot
    path.write_text(json.dumps(data))
    done = ran(capsys, "verify", str(path), "--json")
    assert (done.code, done.data["status"]) == (4, "race")


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_verify_exits_0_when_proved(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "verify", name, "--sync", "proven", "--json")
    assert (done.code, done.data["status"]) == (0, "proved")
    assert done.data["coverage"]["repeats_from"] is not None


def test_fix_writes_what_it_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fixed.json"
    done = ran(capsys, "fix", "ping_pong", "-o", str(path))
    assert done.code == 0
    assert done.out.index("TIMING") < done.out.index("PROVED")
    assert "4228 cycles" in done.out
    assert verify(CompiledSchedule.from_dict(json.loads(path.read_text()))).proved


def test_fix_json(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "fix", "four_wave", "--json")
    data = done.data
    assert done.code == 0
    assert (data["verdict_before"], data["verdict_after"]) == ("TIMING", "PROVED")
    assert data["changes"]


def test_fix_names_the_ops_of_an_order_it_cannot_save(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = ["--set", "scheduling=identity", "--set", "global_before_frag=true"]
    done = ran(capsys, "fix", "ping_pong", *settings, "--keep-barriers")
    assert (done.code, done.field) == (1, "order")
    data = ran(capsys, "fix", "ping_pong", *settings, "--reorder", "--json").data
    assert data["verdict_after"] == "PROVED"
    assert data["changes"]


def test_fix_keeps_the_barriers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "fix", "ping_pong", "--keep-barriers")
    assert (done.code, done.field) == (1, "order")
    assert "--reorder" in done.err
    path = tmp_path / "kept.json"
    command = ["fix", "ping_pong", "--keep-barriers", "--reorder", "-o", str(path)]
    done = ran(capsys, *command)
    assert done.code == 0
    assert "PROVED" in done.out
    assert "16 -> 16" in done.out
    assert verify(CompiledSchedule.from_dict(json.loads(path.read_text()))).proved


def test_sync_repaired_works_on_specs_and_on_compiled_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repaired = ["--sync", "repaired", "--reorder"]
    assert ran(capsys, "verify", "four_wave", *repaired).code == 0
    path = tmp_path / "c.json"
    ran(capsys, "compile", "four_wave", "-o", str(path))
    assert ran(capsys, "verify", str(path)).code == 3
    assert ran(capsys, "verify", str(path), *repaired).code == 0


def test_simulate_prints_figures_timeline_and_stalls(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "simulate", "ping_pong", "--k-tiles", "8")
    data = ran(capsys, "simulate", "ping_pong", "--k-tiles", "8", "--json").data
    assert done.code == 0
    assert str(data["total_cycles"]) in done.out
    assert all(part in done.out for part in ("matrix unit", "stalls"))


def test_simulate_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = ran(capsys, "simulate", "four_wave", "--k-tiles", "8", "--json").data
    assert data["iterations"] == 3
    assert 0 < data["steady_matrix_efficiency"][0] <= 1
    assert data["stalls"]


def test_simulate_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "simulate", "--stream", "M16 branch", "--iterations", "8")
    assert done.code == 0
    assert "matrix unit" in done.out


@pytest.mark.parametrize(
    ("arguments", "field", "named"),
    [
        (["simulate"], None, "--stream"),
        (["simulate", "ping_pong", "--stream", "M"], None, "stream"),
        (["simulate", "ping_pong", "--k-tiles", "3"], "k_tiles", "3"),
        (["simulate", "ping_pong", "--arch", "gfx90a"], "arch", "gfx90a"),
        (["simulate", "--stream", "M16 Q"], None, "Q"),
    ],
)
def test_simulate_refuses(
    arguments: list[str], field: str | None, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ran(capsys, *arguments)
    assert (done.code, done.out, done.field) == (1, "", field)
    assert named in done.err


def test_a_compiled_file_takes_no_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.json"
    ran(capsys, "compile", "four_wave", "-o", str(path))
    done = ran(capsys, "verify", str(path), "--set", "auto_waits=false")
    assert done.code == 1
    assert "--set" in done.err
