# mypy: disable-error-code="no-untyped-def,untyped-decorator,unused-ignore"
"""A kernel of Triton's with a race, fixed and put back: Triton then gives the fixed one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.cli.main import main
from pipeloom.drive.triton_kernels import compile_triton
from pipeloom.drive.triton_override import dump_digest
from pipeloom.errors import ScheduleError

pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
triton = pytest.importorskip("triton", reason="the triton wheel is not installed")
import triton.language as tl  # noqa: E402

LAUNCH = {
    "kernel": "row_sum",
    "grid": [2, 1, 1],
    "block": [256, 1, 1],
    "dynamic_lds": 16,
    "args": [
        {
            "is": "buffer",
            "name": "x",
            "offset": 0,
            "shape": [2, 500],
            "type": "f32",
            "fill": "ones",
        },
        {"is": "buffer", "name": "out", "offset": 8, "shape": [2], "type": "f32", "fill": "zeros"},
        {"is": "value", "name": "n", "offset": 16, "type": "i32", "value": 500},
        {"is": "value", "name": "scratch", "offset": 24, "type": "i64", "value": 0},
        {"is": "value", "name": "profile", "offset": 32, "type": "i64", "value": 0},
    ],
}


@triton.jit
def row_sum(x, out, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * n + c, mask=c < n, other=0.0)
    tl.store(out + row, tl.sum(v, axis=0))


def compiled() -> bytes:
    arrays = [np.zeros((2, 500), np.float32), np.zeros(2, np.float32), 500]
    return compile_triton(row_sum, arrays, {"B": 512}, "gfx950")[0].data


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A dump of Triton's, and what it compiles; the assembly has lost a barrier since."""
    place = tmp_path_factory.mktemp("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_KERNEL_DUMP", "1")
        patch.setenv("TRITON_DUMP_DIR", str(place / "dump"))
        patch.setenv("TRITON_CACHE_DIR", str(place / "cache"))
        usual = compiled()
    (text,) = (place / "dump").glob("*/row_sum.amdgcn")
    written = text.read_text()
    assert written.count("s_barrier") == 1
    text.write_text(written.replace("s_barrier", ""))
    (place / "launch.json").write_text(json.dumps(LAUNCH))
    return text, usual


def check(path: Path, place: Path, *more: str) -> int:
    return main(["check", str(path), "--launch", str(place / "launch.json"), "--seeds=0", *more])


def test_triton_takes_what_was_fixed(
    dumped: tuple[Path, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text, usual = dumped
    place = text.parents[2]
    assert check(text, place, "--override", str(tmp_path / "mine"), "--json") == 4
    told = json.loads(capsys.readouterr().out)
    assert told["fixed"]["verdict"]["status"] == "proved"
    file, environment = Path(told["override"]["file"]), told["override"]["environment"]
    assert file.parent.name == text.parent.name
    script = (tmp_path / "mine" / "override.env").read_text().splitlines()
    assert sorted(script) == sorted(f"export {name}={value}" for name, value in environment.items())
    with monkeypatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        assert compiled() == file.read_bytes() != usual
    monkeypatch.setenv("TRITON_CACHE_DIR", str(place / "cache"))
    assert compiled() == usual
    other = tmp_path / "mine" / ("A" * 52) / "k.hsaco"
    other.parent.mkdir()
    other.write_bytes(b"another")
    assert check(text, place, "--override", str(tmp_path / "mine")) == 4
    assert environment["TRITON_CACHE_DIR"] not in capsys.readouterr().out


def test_what_is_not_of_a_dump_is_refused(
    dumped: tuple[Path, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = dumped
    place = text.parents[2]
    outside = shutil.copy(text, tmp_path / "row_sum.amdgcn")
    for path, why in ((outside, "dump of Triton's"), (next(_cached(place)), "Triton's cache")):
        with pytest.raises(ScheduleError, match=why) as error:
            dump_digest(path)
        assert "TRITON_KERNEL_DUMP=1" in str(error.value.hint)
    assert check(Path(outside), place, "--override", str(tmp_path / "mine")) == 1
    other = Path(shutil.copy(text, text.with_name("other.amdgcn")))
    assert check(other, place, "--override", str(tmp_path / "mine")) == 1
    assert "Triton looks for other" in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "mine")


def _cached(place: Path) -> Any:
    return (place / "cache").glob("*/row_sum.hsaco")


def test_a_kernel_that_cannot_be_fixed_is_not_put_back(
    dumped: tuple[Path, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its output is too small: no wait mends that."""
    text, _ = dumped
    wrong = json.loads(json.dumps(LAUNCH))
    wrong["args"][1]["shape"] = [1]
    launch = tmp_path / "launch.json"
    launch.write_text(json.dumps(wrong))
    code = check(text, tmp_path, "--override", str(tmp_path / "mine"))
    assert code == 4
    assert "not fixed" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()
