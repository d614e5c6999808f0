"""What ``pipeloom emit`` says of launching its kernel, and the options that it checks."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import pipeloom as pl
from pipeloom import __version__
from pipeloom.cli.main import main
from pipeloom.judge.emulate import LaunchError, load_code_object

needs_assembler = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None or importlib.util.find_spec("tinygrad") is None,
    reason="assembling needs the ziglang wheel, emulating the tinygrad wheel",
)


@needs_assembler
def test_the_record_beside_a_code_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary, record = tmp_path / "k.hsaco", tmp_path / "k.json"
    assert main(["emit", "single_buffer", "--target", "gfx942", "-o", str(binary), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    data = json.loads(record.read_text())
    assert printed == {
        **data,
        "lines": printed["lines"],
        "output": str(binary),
        "launch": str(record),
        "witness": str(tmp_path / "k.witness.json"),
    }
    assert data["format"] == "pipeloom-launch-2"
    assert data["pipeloom"] == __version__
    assert (data["dtype"], data["out_dtype"], data["verdict"]) == ("bf16", "bf16", "PROVED")
    assert data["tile"] == {"m": 128, "n": 128, "k": 64}
    assert data["grid"] == ["ceil(n / 128)", "ceil(m / 128)", "1"]
    assert (data["threads"], data["k_min"], data["k_step"]) == (256, 128, 64)
    kernel = load_code_object(binary).kernel(data["kernel"])
    assert kernel.arch == data["target"]
    assert kernel.group_segment_bytes == data["resources"]["lds_bytes"]
    assert kernel.metadata.required_block == (data["threads"], 1, 1)
    listed = [(a["name"], a["offset"], a["size"], a["kind"]) for a in data["arguments"]]
    assert listed == [
        (a.name, a.offset, a.size, "pointer" if a.is_pointer else "value") for a in kernel.arguments
    ]
    # Written anew over its own, and no temporary file stays behind.
    assert main(["emit", "single_buffer", "--target", "gfx942", "-o", str(binary)]) == 0
    assert f"wrote {binary}, and {record}: how to launch it" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "k.hsaco",
        "k.json",
        "k.witness.json",
    ]


@needs_assembler
def test_a_code_object_is_run_by_the_record_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record goes beside a schedule of its name; another record is not that of the code."""
    schedule = tmp_path / "k.json"
    schedule.write_text('{"schedule": "single_buffer", "geometry": {"BK": 64, "MMA_K": 16}}')
    before = schedule.read_bytes()
    code, short = str(tmp_path / "k.hsaco"), ["--timings", "1", "--m", "90", "--json"]
    settings = ["--set", "geometry.elem_bytes=2", "--target", "gfx942"]
    assert main(["emit", str(schedule), *settings, "-o", code, "--no-witness"]) == 0
    assert schedule.read_bytes() == before
    assert (tmp_path / "k.launch.json").exists()
    capsys.readouterr()
    assert main(["run", code, *short]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert (ran["target"], ran["tile"], ran["wrong"]) == (
        "gfx942",
        {"m": 128, "n": 128, "k": 64},
        [],
    )
    with pytest.raises(SystemExit, match="2"):
        main(["run", code, "--sync", "proven"])
    lone = tmp_path / "lone.hsaco"
    lone.write_bytes((tmp_path / "k.hsaco").read_bytes())
    assert main(["run", str(lone)]) == 1
    changed = json.loads((tmp_path / "k.launch.json").read_text())
    changed["made_from"]["settings"].append("geometry.BM=64")
    (tmp_path / "lone.json").write_text(json.dumps(changed))
    assert main(["run", str(lone)]) == 1
    assert main(["run", str(tmp_path / "none.hsaco")]) == 1


def test_assembly_alone_has_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", "ping_pong", "-o", str(tmp_path / "k.s"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["launch"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["k.s"]


# ---------------------------------------------------------------- seeds


def test_a_negative_seed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "ping_pong", "--seed=-1"])
    assert caught.value.code == 2
    assert "'-1' is not a whole number of 0 or more" in capsys.readouterr().err


@needs_assembler
def test_a_negative_seed_of_a_trial() -> None:
    with pytest.raises(LaunchError, match="seed is -1"):
        pl.run("single_buffer", sizes={"m": 8, "n": 8, "k": 128}, seed=-1)
