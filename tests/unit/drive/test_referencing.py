"""Kernels beside a function of the user's own: ordered and right are two questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.cli.main import main
from pipeloom.drive.checking import CheckEffort
from pipeloom.drive.kernel_files import open_kernel
from pipeloom.drive.referencing import compare_with, usual_tolerance
from pipeloom.errors import ScheduleError
from pipeloom.machine_code.launch_arguments import Scalar
from pipeloom.machine_code.launch_buffers import Buffer, Fill, Link
from pipeloom.machine_code.launch_file import LaunchSpec, save_launch
from tests.unit.cli.test_check_command import TEXT
from tests.unit.device.test_others_kernels import HOW, SOURCE

GOOD = """
import numpy as np

def swapped(x):
    return {"y": np.roll(np.arange(128), 64)}

def added(x, y, by, other=3):
    return {"y": x + by}

def everything(**given):
    return {"y": given["x"] + given["by"]}

def off(x, by):
    return {"y": x + by + (np.arange(64) == 5) * 2}

def close(x, by):
    return {"y": (x + by) * 1.001}

def nan(x, by):
    return {"y": np.full(64, np.nan)}

def fails(x):
    return {"y": x[1000]}

def nothing(x):
    x += 1

def unknown(z):
    return {"y": z}

def elsewhere(x):
    return {"z": x}

def wrong_shape(x):
    return {"y": x[:5]}

number = 3
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(GOOD)
    (tmp_path / "swap.s").write_text(TEXT)
    (tmp_path / "add.s").write_text(SOURCE)
    save_launch(HOW, tmp_path / "add.launch.json")
    buffers = (Buffer("x", 0, (128,), "u32", Fill.ZEROS), Buffer("y", 8, (128,), "u32", Fill.ZEROS))
    save_launch(LaunchSpec("swap", (1,), (128,), buffers), tmp_path / "swap.launch.json")
    return tmp_path


def _check(folder: Path, kernel: str, function: str, *more: str) -> int:
    reference = f"{folder / 'mine.py'}:{function}"
    return main(["check", str(folder / kernel), "--reference", reference, "--simulate", "0", *more])


@pytest.mark.parametrize("function", ["added", "everything"])
def test_agreement(mine: Path, capsys: pytest.CaptureFixture[str], function: str) -> None:
    assert _check(mine, "add.s", function) == 0
    told = capsys.readouterr().out
    assert "agrees with" in told
    assert "64 numbers within" in told


def test_ordered_but_wrong(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _check(mine, "add.s", "off") == 5
    told = capsys.readouterr().out
    assert told.startswith("PROVED")
    assert "ORDERED BUT WRONG" in told
    assert "1 of 64 numbers" in told
    assert "y[5] is 12, not 14" in told
    sarif = mine / "out.sarif"
    assert _check(mine, "add.s", "off", "--json", "--sarif", str(sarif), "--fail-on", "race") == 4
    plain = json.loads(capsys.readouterr().out)
    assert (plain["status"], plain["reference"]["agrees"]) == ("proved", False)
    assert len(plain["reference"]["runs"]) == 5
    assert "result" in sarif.read_text()


def test_unordered_and_wrong_late(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Right with prompt memory: the exit code is the race's, and the late run differs."""
    assert _check(mine, "swap.s", "swapped") == 0
    late = "  s_waitcnt lgkmcnt(0)\n  global_store"
    (mine / "swap.s").write_text(TEXT.replace(late, "  global_store"))
    capsys.readouterr()
    assert _check(mine, "swap.s", "swapped") in (3, 4)
    told = capsys.readouterr().out
    assert "with memory that is prompt and in order, and not with operations as late" in told


def test_tolerances(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _check(mine, "add.s", "close") == 5
    assert _check(mine, "add.s", "close", "--tolerance", "0.01") == 0
    assert _check(mine, "add.s", "nan", "--tolerance", "0.01") == 5
    assert usual_tolerance("i32") == 0
    ranked = [usual_tolerance(kind) for kind in ("f64", "f32", "fp16", "bf16", "fp8")]
    assert ranked == sorted(ranked)
    assert 2.0**-8 < usual_tolerance("bf16") < 2.0**-5
    with pytest.raises(SystemExit):
        main(["check", str(mine / "add.s"), "--tolerance", "0.1"])
    assert "--tolerance is for --reference" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("fails", "raised IndexError"),
        ("nothing", "returns NoneType, and no outputs by name"),
        ("unknown", "takes z, which the launch does not have"),
        ("elsewhere", "returns 'z', which is no buffer"),
        ("wrong_shape", "does not fit the buffer"),
        ("number", "is int, no function"),
        ("missing", "has no name 'missing'"),
    ],
)
def test_functions_that_are_refused(
    mine: Path, capsys: pytest.CaptureFixture[str], function: str, words: str
) -> None:
    assert _check(mine, "add.s", function) == 1
    assert words in capsys.readouterr().err


def test_files_that_are_refused(mine: Path) -> None:
    file = open_kernel(mine / "add.s")
    for text, words in (("mine.py", "names nothing"), ("none.py:f", "there is no file none.py")):
        with pytest.raises(ScheduleError, match=words):
            compare_with(text, file, HOW)
    (mine / "broken.py").write_text("1 / 0\n")
    with pytest.raises(ScheduleError, match="ZeroDivisionError"):
        compare_with(f"{mine / 'broken.py'}:f", file, HOW)


def test_runs_that_do_not_end(mine: Path) -> None:
    file, reference = open_kernel(mine / "add.s"), f"{mine / 'mine.py'}:added"
    found = compare_with(reference, file, HOW, effort=CheckEffort(max_instructions=3))
    assert not found.agrees
    assert "issued more than 3 instructions" in found.lines()[0]
    slow = compare_with(reference, file, HOW, effort=CheckEffort(500, seconds=0.02))
    assert "it takes" in slow.runs[-1].stopped


def test_what_the_function_is_given(mine: Path) -> None:
    """Numbers, not bit patterns; aliases under both names; no tables of pointers."""
    seen: dict[str, Any] = {}
    (mine / "see.py").write_text(
        "import builtins\ndef f(**given):\n    builtins.seen_by_test = given\n"
        "    return {'x': given['x']}\n"
    )
    args = (
        Buffer("x", None, (128,), "bf16", Fill.ONES),
        Buffer("same", 0, same_as="x"),
        Buffer("y", 8, (64,), "i32", Fill.ZEROS, pointers=(Link("x"),)),
        Scalar("by", 16, "i32", 7),
    )
    launch = LaunchSpec("through_lds", (1,), (64,), args, dynamic_lds=256)
    compare_with(f"{mine / 'see.py'}:f", open_kernel(mine / "add.s"), launch)
    import builtins

    seen = builtins.seen_by_test  # type: ignore[attr-defined]
    del builtins.seen_by_test  # type: ignore[attr-defined]
    assert set(seen) == {"x", "same", "by"}
    np.testing.assert_array_equal(seen["same"], np.ones(128))
    assert seen["by"] == 7
