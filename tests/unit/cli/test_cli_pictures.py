"""compare, report, trace and the whole-GPU estimate on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evidence import claims
from pipeloom import build_schedule
from pipeloom.cli.main import main
from pipeloom.drive.comparing import parse_variant
from pipeloom.errors import SpecError
from tests.unit.cli.ran import ran

ROOT = Path(__file__).resolve().parents[3]
SHORT = ["--k-tiles", "8"]


class Output:
    """One in-process run."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        self.code = main(arguments)
        self.out, self.err = capsys.readouterr()


# ---------------------------------------------------------------- compare


def test_compare_has_a_row_per_variant(capsys: pytest.CaptureFixture[str]) -> None:
    variants = ["ping_pong", "four_wave", "ping_pong:scheduling=identity"]
    done = Output(capsys, "compare", *variants, *SHORT, "--json")
    rows = json.loads(done.out)
    assert done.code == 0
    assert [row["name"] for row in rows] == variants
    assert [row["verdict"] for row in rows] == ["TIMING", "TIMING", "TIMING"]
    assert rows[0]["barriers"] == 16
    assert rows[1]["barriers"] == 4
    assert all(0 < row["matrix_efficiency"] <= 1 for row in rows)
    assert all(row["cycles_per_trip"] > 4000 for row in rows)


def test_compare_knows_sync(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(
        Output(
            capsys, "compare", "four_wave", "four_wave:sync=proven,reorder=true", *SHORT, "--json"
        ).out
    )
    assert [row["verdict"] for row in rows] == ["TIMING", "PROVED"]


@pytest.mark.parametrize("width", [80, 120])
def test_compare_fits_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = Output(capsys, "compare", "ping_pong", "four_wave", *SHORT)
    assert done.code == 0
    lines = done.out.splitlines()
    assert max(len(line) for line in lines) <= width
    for part in ("variant", "verdict", "cycles", "waits", "barriers", "stalled", "TIMING"):
        assert part in done.out
    flat = " ".join(done.out.split())
    assert "the LDS queue is full" in flat or "queue is full" in flat


def test_compare_takes_compiled_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a:b=c.json"
    target.write_text(build_schedule("four_wave").to_json())
    rows = json.loads(Output(capsys, "compare", str(target), "four_wave", *SHORT, "--json").out)
    assert rows[0]["cycles_per_trip"] == rows[1]["cycles_per_trip"]


@pytest.mark.parametrize(
    ("text", "source", "settings", "sync", "reorder"),
    [
        ("ping_pong", "ping_pong", [], None, False),
        ("ping_pong:sync=proven", "ping_pong", [], "proven", False),
        ("a.toml:x=1,sync=proven,reorder=true,y=2", "a.toml", ["x=1", "y=2"], "proven", True),
    ],
)
def test_parse_variant(
    text: str, source: str, settings: list[str], sync: str | None, reorder: bool
) -> None:
    found = parse_variant(text)
    named = found.source
    assert (named.what, list(named.settings), named.sync, named.reorder) == (
        source,
        settings,
        sync,
        reorder,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ping_pong:sync=maybe", "use one of reference, proven"),
        ("ping_pong:reorder=1", "use one of true, false"),
        ("ping_pong:identity", "'identity' is not of the form key=value"),
    ],
)
def test_bad_variants(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_variant(text)
    assert message in str(caught.value)


# ---------------------------------------------------------------- report


def test_report_writes_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    done = Output(capsys, "report", "four_wave", *SHORT, "-o", str(target))
    assert (done.code, done.err) == (0, "")
    assert all(part in done.out for part in (str(target), "TIMING"))
    page = target.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert target.stat().st_size < 500_000
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize("source", ["four_wave", "specs/mine.toml"])
def test_report_without_a_file_takes_the_name_of_the_schedule(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mine.toml").write_text('schedule = "four_wave"\n', encoding="utf-8")
    done = Output(capsys, "report", source, *SHORT)
    name = f"{Path(source).stem}.html"
    assert (done.code, done.err) == (0, "")
    assert name in done.out
    assert sorted(os.listdir(tmp_path)) == sorted([name, "specs"])
    assert os.listdir(tmp_path / "specs") == ["mine.toml"]
    done = Output(capsys, "report", source, *SHORT, "--json")
    assert json.loads(done.out)["output"] == name


def test_report_json_and_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    size = ["--m", "4096", "--n", "4096", "--k", "8192"]
    done = Output(capsys, "report", "ping_pong", *SHORT, *size, "-o", str(target), "--json")
    data = json.loads(done.out)
    assert data.pop("emit")["form"] == "sync repaired; 4 loads moved"
    assert data == {
        "bytes": target.stat().st_size,
        "emitted": False,
        "output": str(target),
        "simulated": True,
        "verdict": "TIMING",
    }
    assert '"assumptions":["MI355X' in target.read_text(encoding="utf-8")


def test_report_without_a_tile_shape_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"
    done = Output(capsys, "report", "single_buffer", "--dtype", "none", "-o", str(target))
    assert done.code == 0
    assert "not simulated" in done.out
    told = Output(capsys, "report", "single_buffer", "--dtype", "none", "-o", str(target), "--json")
    assert json.loads(told.out)["simulated"] is False
    assert "no tile shape" in target.read_text("utf-8")


# ---------------------------------------------------------------- trace


def test_trace_writes_a_file_perfetto_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "t.json"
    done = Output(capsys, "trace", "four_wave", *SHORT, "-o", str(target))
    assert (done.code, done.err) == (0, "")
    assert str(target) in done.out
    events: list[dict[str, Any]] = json.loads(target.read_text())["traceEvents"]
    assert {e["ph"] for e in events} == {"M", "X", "s", "f", "C"}
    figures = json.loads(
        Output(capsys, "trace", "four_wave", *SHORT, "-o", str(target), "--json").out
    )
    assert figures["waves"] == 4
    assert figures["bytes"] == target.stat().st_size


# ---------------------------------------------------------------- the estimate


def test_simulate_estimates_a_whole_problem(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--m", "4096", "--n", "4096", "--k", "4096"]
    data = json.loads(Output(capsys, "simulate", "ping_pong", *SHORT, *size, "--json").out)
    assert 0 < data["estimate"]["tflops"] <= data["estimate"]["tflops_at_peak_clock"] < 3000
    assert data["estimate"]["workgroups"] == 256
    shown = Output(capsys, "simulate", "ping_pong", *SHORT, *size).out
    assert all(part in shown for part in ("whole GPU", "MI355X", "TFLOPS"))


# ---------------------------------------------------------------- errors


def test_a_missing_folder_is_said_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeloom.cli.emit.EmitCommand.run", work)
    assert main(["emit", "ping_pong", "-o", "nowhere/k.s"]) == 1
    assert "nowhere/k.s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["compare", "ping_pong"], "two variants"),
        (["compare", "ping_pong", "ping_pnog"], "'ping_pong'"),
        (["compare", "ping_pong", "ping_pong:schedulign=csp"], "'scheduling'"),
        (["compare", "ping_pong", "single_buffer:tile=none"], "tile shape"),
        (["compare", "ping_pong", "four_wave", "--arch", "gfx90a"], "gfx90a"),
        (["report", "nonsense", "-o", "x.html"], "nonsense"),
        (["report", "ping_pong", "-o", "nowhere/x.html"], "nowhere/x.html"),
        (["report", "ping_pong", "--k-tiles", "7", "-o", "x.html"], "field k_tiles"),
        (["trace", "single_buffer", "--dtype", "none", "-o", "x.json"], "field geometry"),
        (["trace", "ping_pong", "-o", "nowhere/x.json"], "nowhere/x.json"),
        (["simulate", "ping_pong", "--m", "4096"], "--n"),
        (["simulate", "--stream", "M4 branch", "--k", "64"], "stream"),
        (["simulate", "ping_pong", "--m", "0", "--n", "1", "--k", "1"], "field m"),
        (["simulate", "ping_pong", "--m", "64", "--n", "64", "--k", "64"], "field k"),
    ],
)
def test_errors_are_one_message_and_leave_no_file(
    arguments: list[str],
    named: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It names what is wrong: in the message, or as the field that is to be changed."""
    monkeypatch.chdir(tmp_path)
    done = ran(capsys, *arguments)
    assert (done.code, done.out) == (1, "")
    assert named == f"field {done.field}" or named in done.err
    assert os.listdir(tmp_path) == []


def test_the_output_of_a_trace_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["trace", "ping_pong"])
    assert caught.value.code == 2
    assert "-o/--output" in capsys.readouterr().err


# ---------------------------------------------------------------- the terminal view


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "source", [["ping_pong", "--k-tiles", "16"], ["--stream", "wv10 B R8 G2 wl0 B M16 branch"]]
)
def test_simulate_fits_the_terminal(
    width: int,
    source: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = Output(capsys, "simulate", *source)
    assert done.code == 0
    assert max(len(line) for line in done.out.splitlines()) <= width
    for part in ("cycles per ", "wave 0", "matrix unit", "stalls", "waits for"):
        assert part in done.out


# ---------------------------------------------------------------- evidence/claims.md


def test_the_page_of_claims_is_current() -> None:
    page = (ROOT / "evidence" / "claims.md").read_text("utf-8")
    assert claims.render() == page, "run python -m evidence.claims --write"
