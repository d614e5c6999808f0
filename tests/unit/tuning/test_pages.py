"""The pages of a tuning run: well-formed, without scripts, with every shape and its kernel."""

from __future__ import annotations

import json
import re
from itertools import combinations
from math import dist
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from pipeloom.cli.main import main
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan
from pipeloom.machine.gpus import gpu_for
from pipeloom.show import tuning_page
from pipeloom.show.tuning_page import COLOURS, OTHERS, render_tuning
from pipeloom.tuning import candidates, pages


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
    assert "1 published figure, " in page
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


def lab(colour: str) -> tuple[float, float, float]:
    """CIELAB of an sRGB colour (CIE 15, D65)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (((c + 0.055) / 1.055) ** 2.4 if c > 0.04045 else c / 12.92 for c in parts)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_no_two_colours_are_taken_for_each_other(scheme: int) -> None:
    """20 in CIELAB is far beyond what is told apart side by side (about 2)."""
    shades = [lab(pair[scheme]) for pair in (*COLOURS.values(), *OTHERS)]
    assert min(dist(a, b) for a, b in combinations(shades, 2)) > 20


def test_every_name_has_a_colour_of_its_own() -> None:
    row = {**TUNED, "limit": "LDS array", "parts_us": {"memory": 1.0, "power": 1.0, "split-K": 2.0}}
    page = render_tuning("tuned", [row], peak_tflops=10.0, hbm_gb_per_s=100.0)
    key = re.findall(r"background: (var\(--part-\d+\))\"></i>([^<]+)</span>", page)
    assert {name for _, name in key} == {"LDS array", "memory", "power", "split-K"}
    assert len({colour for colour, _ in key}) == 4
    for colour, _ in key:
        name = colour.removeprefix("var(").removesuffix(")")
        assert page.count(f"{name}: #") == 2, "in light and dark"


@pytest.mark.parametrize(
    ("dtype", "bits"), [("bf16", 16), ("bf8", 8), ("mxfp8", 8.25), ("mxfp4", 4.25)]
)
def test_a_shape_stands_at_the_bytes_of_its_type(dtype: str, bits: float) -> None:
    m, n, k = (TUNED[size] for size in "mnk")
    moved = (m + n) * k * bits / 8 + 2 * m * n
    assert tuning_page._intensity({**TUNED, "dtype": dtype}) == pytest.approx(2 * m * n * k / moved)


def test_a_column_that_would_be_empty_is_left_out() -> None:
    page = render_tuning("tuned", [TUNED], peak_tflops=10.0, hbm_gb_per_s=100.0)
    assert ">published<" not in page
    page = render_tuning("tuned", [{**TUNED, "published": 1200.0}], peak_tflops=1.0, hbm_gb_per_s=1)
    assert ">published<" in page
    assert "(+17 %)" in page


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


def test_the_peak_is_that_of_all_matrix_units() -> None:
    """256 units that do a block of 256x256x64 in 2048 cycles, at 2.4 GHz."""
    block, cost = Block(256, 256, 64), BlockCost(2100.0, 0.0, 2048.0, "matrix unit")
    one: Any = SimpleNamespace(gpu=gpu_for("MI355X"), plan=Plan(block), cost=cost)
    assert pages._peak_tflops(one) == pytest.approx(256 * 2 * 256 * 256 * 64 / 2048 * 2.4e-3)
