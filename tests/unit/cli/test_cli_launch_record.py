"""What ``pipeloom emit`` says of launching its kernel, and the options that it checks."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from pipeloom import __version__, compile_schedule
from pipeloom.cli.main import main
from pipeloom.drive.trial import run_gemm
from pipeloom.judge.emulate import LaunchError, load_code_object
from pipeloom.reference.mi355x import mi355x_single_buffer_target
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules.single_buffer import SingleBufferSchedule
from pipeloom.write import (
    assemble,
    chip_for,
    emit_kernel,
    single_buffer_costs,
    single_buffer_geometry,
)

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
    }
    assert data["format"] == "pipeloom-launch-1"
    assert data["pipeloom"] == __version__
    assert (data["dtype"], data["out_dtype"], data["verdict"]) == ("bf16", "bf16", "PROVED")
    assert data["tile"] == {"BM": 128, "BN": 128, "BK": 64}
    assert data["grid"] == ["ceil(N / 128)", "ceil(M / 128)", "1"]
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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.hsaco", "k.json"]


def test_a_record_replaces_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``pipeloom emit k.json -o k.hsaco`` must not overwrite the schedule it reads."""
    compiled = tmp_path / "k.json"
    assert main(["compile", "ping_pong", "--tile", "bf16", "-o", str(compiled)]) == 0
    before = compiled.read_bytes()
    assert main(["emit", str(compiled), "-o", str(tmp_path / "k.hsaco")]) == 1
    assert "k.json, which is something else" in capsys.readouterr().err
    assert compiled.read_bytes() == before
    assert not (tmp_path / "k.hsaco").exists()


def test_assembly_alone_has_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", "ping_pong", "-o", str(tmp_path / "k.s"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["launch"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["k.s"]


# ---------------------------------------------------------------- the waits of single_buffer


def loop_waits(text: str) -> list[str]:
    loop = re.search(r"_loop_\d+:\n(.*?)_epilogue_", text, re.S)
    assert loop
    return re.findall(r"s_waitcnt (.*)", loop[1])


@pytest.mark.parametrize(("target", "dtype"), [("gfx942", "bf16"), ("gfx950", "fp16")])
def test_single_buffer_waits_for_no_more_than_it_must(
    capsys: pytest.CaptureFixture[str], target: str, dtype: str
) -> None:
    assert main(["emit", "single_buffer", "--target", target, "--dtype", dtype]) == 0
    printed = loop_waits(capsys.readouterr().out)
    tile = single_buffer_geometry(chip_for(target), dtype)
    costs = single_buffer_costs(tile, k_steps=2)
    profile = mi355x_single_buffer_target().with_pipeline(**costs)
    compiled = synchronize(
        compile_schedule(SingleBufferSchedule(2, target=profile)), keep_barriers=True, reorder=True
    )
    counted = emit_kernel(compiled, target=target, dtype=dtype, geometry=tile)
    assert printed == loop_waits(counted.text)
    assert "lgkmcnt(8)" in printed


# ---------------------------------------------------------------- seeds


def test_a_negative_seed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "ping_pong", "--seed=-1"])
    assert caught.value.code == 2
    assert "'-1' is not a whole number of 0 or more" in capsys.readouterr().err


@needs_assembler
def test_a_negative_seed_of_a_trial() -> None:
    emitted = emit_kernel(synchronize(compile_schedule(SingleBufferSchedule())))
    with pytest.raises(LaunchError, match="seed is -1"):
        run_gemm(emitted, assemble(emitted), M=8, N=8, K=128, seed=-1)
