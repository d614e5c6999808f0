"""Chips of one's own, from files: tuned for, written for, timed against, run from their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.device.hip import Hip
from pipeloom.machine.chip_file import chip_text, with_facts
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.gpus import GPUS, gpu_for
from pipeloom.tuning import candidates

FACTS = {"branch_cycles": (60.0, "test"), "lds_latency": (96.0, "test")}
SHAPE = ("64", "48", "1024")


def told(capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    assert main([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def chip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A slow one; and a search that takes no time."""
    monkeypatch.setattr(candidates, "SIDES", (32,))
    monkeypatch.chdir(tmp_path)
    Path("slow.toml").write_text(chip_text(GFX950, FACTS, "MI350X, rack 7"))
    return "slow.toml"


def test_which_gpu_it_is_the_compute_unit_of() -> None:
    for name, watts in (("MI350X, rack 7", 1000), ("rack 7", 1400), ("MI355X", 1400)):
        mine = with_facts(GFX950, FACTS, name)
        gpu = gpu_for(mine)
        assert (gpu.chip, gpu.target, gpu.own) == (name, mine, mine)
        assert gpu.power_w.value == watts
    assert gpu_for(with_facts(GFX942, {}, "MI325X")).hbm_gb_per_s.value == 6000
    assert gpu_for(with_facts(GFX942, {}, "MI355X")).power_w.value == 750
    assert gpu_for(GFX950) is gpu_for("MI355X")
    assert gpu_for("MI355X").own is None


def test_clock_and_bandwidth_of_a_chip_file_are_the_models() -> None:
    facts = {"hbm_gb_per_s": (4000.0, "test"), "clock_peak_ghz": (2.0, "test")}
    for name in ("MI350X, slow", "slow"):
        gpu = gpu_for(with_facts(GFX950, facts, name))
        assert (gpu.hbm_gb_per_s.value, gpu.clock_peak_ghz.value) == (4000, 2)
    assert gpu_for(with_facts(GFX950, FACTS, "MI350X, rack 7")).clock_peak_ghz.value == 2.2
    for gpu in GPUS:
        assert gpu.hbm_gb_per_s.unit == "GB/s"
        assert gpu.clock_peak_ghz.unit == "GHz"


def test_commands_tune_for_it(chip: str, capsys: pytest.CaptureFixture[str]) -> None:
    shape, once = "x".join(SHAPE), ("--jobs", "1")
    (usual,) = told(capsys, "tune", shape, *once, "--target", "MI350X")["tuned"]
    (mine,) = told(capsys, "tune", shape, *once, "--target-file", chip)["tuned"]
    assert mine["chip"] == "MI350X, rack 7"
    assert mine["parts_us"] != usual["parts_us"]
    assert (mine,) == tuple(told(capsys, "tune", shape, *once, "--target-file", chip)["tuned"])
    made = told(capsys, "gemm", *SHAPE, *once, "--target-file", chip, "-o", "k.hsaco")
    assert made["microseconds"] == mine["microseconds"]
    ran = told(capsys, "run", "k.hsaco", "--timings", "1", "--m", "33", "--k", "64")
    assert ran["wrong"] == []
    told(capsys, "library", shape, *once, "--target-file", chip, "-o", "lib")
    assert json.loads(Path("lib/dispatch.json").read_text())["chip"] == "MI350X, rack 7"
    told(capsys, "tune", shape, *once, "--target-file", chip, "--page", "page")
    assert "MI350X, rack 7" in Path("page/index.html").read_text()
    assert main(["tune", shape, "--target-file", "none.toml"]) == 1
    assert "cannot read the chip file" in capsys.readouterr().err


def test_a_kernel_that_is_emitted_for_it_is_run_and_timed(
    chip: str, hip: Hip, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its record has the chip whole, so that it is made anew, byte for byte."""
    sizes = ("--m", "64", "--n", "64", "--k", "512")
    emitted = ("emit", "single_buffer", "--target-file", chip, "-o", "k.hsaco", "--no-witness")
    assert main([*emitted]) == 0
    assert main(["run", "k.hsaco", "--timings", "1", *sizes]) == 0
    capsys.readouterr()
    timed = ("bench", "k.hsaco", *sizes, "--runs", "1", "--warm-up", "0", "--rotate", "0")
    (mine,) = told(capsys, *timed)["measured"]
    (usual,) = told(capsys, *timed, "--target", "gfx950")["measured"]
    assert mine["model_microseconds"] > usual["model_microseconds"]
    other = Path("other.toml")
    other.write_text(chip_text(GFX942, {}, "other"))
    assert main([*timed, "--target-file", str(other)]) == 1
    assert "asked of gfx942" in capsys.readouterr().err


def test_a_chip_that_nobody_ships_is_asked_for(chip: str) -> None:
    """From Python it is the object."""
    mine = with_facts(GFX950, FACTS, "mine")
    (found,) = pl.tune("64x48x1024", target=mine)
    assert found.machine == mine == found.spec.target
    assert found.spec.machine == mine
