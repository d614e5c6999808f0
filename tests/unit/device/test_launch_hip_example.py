"""The example that launches a kernel: as documented, on a problem that the emulator finishes."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from pipeloom.cli.main import main
from pipeloom.device.hip import Hip
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.launching import image_of
from pipeloom.files import write_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "launch_hip.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("launch_hip", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_launches_and_compares(
    example: ModuleType, hip: Hip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False)
    image = image_of(gemm_kernel(spec))
    code = tmp_path / "k.hsaco"
    write_file(code, next(iter(image.codes.values())))
    sizes = ["--m=40", "--n=33", "--k=72"]
    assert example.main([str(code), *sizes]) == 1
    assert "k.json" in capsys.readouterr().err
    write_file(code.with_suffix(".json"), json.dumps(image.record))
    assert example.main([str(code), *sizes]) == 0
    assert capsys.readouterr().out == "equal to NumPy\n"


def test_the_documented_commands(example: ModuleType) -> None:
    """Both are commands that exist, for one file and the same sizes."""
    assert example.__doc__
    write, launch = (
        shlex.split(line) for line in re.findall(r"^ {4}(\w.*)$", example.__doc__, re.M)
    )
    with pytest.raises(SystemExit) as ended:
        main([*write[1:], "--help"])
    assert ended.value.code == 0
    assert launch[:3] == ["python", "examples/launch_hip.py", write[-1]]
    assert [word for word in launch if word.isdecimal()] == write[2:5]
