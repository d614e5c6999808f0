"""The pages of a tuning run: well-formed, without scripts, with every shape and its kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pipeloom.cli.main import main
from pipeloom.show.tuning_page import render_tuning
from pipeloom.tune import candidates


@pytest.fixture(autouse=True)
def small_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "SIDES", (32,))


def test_pages_of_a_run(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    row = {"m": 64, "n": 48, "k": 128, "dtype": "bf16", "chip": "MI355X", "tflops": 0.5}
    figures.write_text(json.dumps(row) + "\n\n" + json.dumps({**row, "tflops": 0.25}) + "\n")
    command = ["tune", "64x48x128", "640x480x1024", "--jobs", "1", "--page", str(tmp_path / "p")]
    assert main([*command, "--published", str(figures)]) == 0
    page = (tmp_path / "p" / "index.html").read_text()
    assert "64x48x128" in page
    assert "1 published figures" in page
    assert "<script" not in page
    for drawing in re.findall(r"<svg.*?</svg>", page, re.S):
        ElementTree.fromstring(drawing)
    links = set(re.findall(r'href="([^"]+)"', page))
    assert links
    assert all((tmp_path / "p" / link).is_file() for link in links)


TUNED: dict[str, Any] = {
    "m": 4096,
    "n": 4096,
    "k": 8192,
    "dtype": "bf16",
    "split_k": 2,
    "tflops": 1400.0,
    "link": None,
    "microseconds": 180.5,
    "clock_ghz": 1.75,
    "efficiency": 0.5,
    "limit": "start and end of tiles",
    "parts_us": {"launch": 1.0},
    "trials": [("256x256x64, 8 waves", 1.0, None)],
    "candidates": 3,
    "open_us": 2.0,
    "block": {"m": 256, "n": 256, "k": 64, "waves_m": 2, "waves_n": 4},
}
"""A row of a run as ``render_tuning`` takes it."""


def test_names_are_text() -> None:
    names = {"limit": "<b>&", "parts_us": {"<i>": 1.0}, "trials": [("<u>", 1.0, None)]}
    row = {**TUNED, **names}
    page = render_tuning("<script>", [row], peak_tflops=10.0, hbm_gb_per_s=100.0)
    for tag in ("<b>", "<i>", "<u>", "<script>"):
        assert tag not in page


@pytest.mark.parametrize("text", ["{}", "nonsense", '{"m": []}'])
def test_what_is_no_figure(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.jsonl"
    figures.write_text("\n" + text)
    command = ["tune", "64x48x128", "--page", str(tmp_path), "--published"]
    assert main([*command, str(figures)]) == 1
    assert "figures.jsonl:2: no figure" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "none")]) == 1
    with pytest.raises(SystemExit):
        main(["tune", "64x48x128", "--published", str(figures)])
