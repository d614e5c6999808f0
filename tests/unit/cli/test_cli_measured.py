"""Thread traces through the commands: what is written can be read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeloom.cli.main import main
from tests.unit.cli.ran import ran
from tests.unit.thread_trace.traces import put, trace_files


def test_a_trace_is_shown_written_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, trace_files())
    both, page = tmp_path / "both.json", tmp_path / "page.html"
    found = ran(capsys, "trace", "--measured", str(tmp_path), "-o", str(both), "--json")
    assert found.code == 0
    assert (found.data["measured_cycles"], found.data["trips"]) == (40.0, 3)
    assert json.loads(both.read_text())["traceEvents"]
    shown = ran(capsys, "trace", "--measured", str(tmp_path))
    assert shown.code == 0
    assert "v_mfma" in shown.out
    reported = ran(capsys, "report", "--measured", str(tmp_path), "-o", str(page), "--json")
    assert reported.data["measured"]["error"] == found.data["error"]
    assert "wave 0 measured" in page.read_text()


def test_what_does_not_fit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, trace_files())
    folder = str(tmp_path)
    for wrong in (
        ("trace", "--measured", folder, "--launch", "l.json"),
        ("trace", "ping_pong"),
        ("trace", "-o", str(tmp_path / "t.json")),
        ("trace", "ping_pong", "--format", "rocprof", "-o", str(tmp_path / "f")),
        ("report",),
    ):
        with pytest.raises(SystemExit) as ended:
            main(list(wrong))
        assert ended.value.code == 2
    assert ran(capsys, "trace", "--measured", str(tmp_path / "none")).field == "measured"
    assert ran(capsys, "trace", "single_buffer", "--measured", folder).field == "measured"
