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


def test_a_record_replaces_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``pipeloom emit k.json -o k.hsaco`` must not overwrite the schedule it reads."""
    compiled = tmp_path / "k.json"
    assert main(["compile", "ping_pong", "--dtype", "bf16", "-o", str(compiled)]) == 0
    before = compiled.read_bytes()
    assert main(["emit", str(compiled), "-o", str(tmp_path / "k.hsaco")]) == 1
    assert "k.json, which is something else" in capsys.readouterr().err
    assert compiled.read_bytes() == before
    assert not (tmp_path / "k.hsaco").exists()


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
