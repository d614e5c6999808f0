"""Launch files of others: a limit and an error for everything that asks for too much."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.judge.emulate import CodeKernel
from pipeloom.machine_code import launch_elements
from pipeloom.machine_code.launch_buffers import Buffer, Fill
from pipeloom.machine_code.launch_file import LaunchSpec, load_launch
from pipeloom.machine_code.launch_template import template

PLAIN: dict[str, Any] = {"kernel": "k", "grid": [1], "block": [64], "args": []}
BUFFER: dict[str, Any] = {"is": "buffer", "name": "a", "offset": 0, "shape": [8], "type": "f32"}


def _loaded(tmp_path: Path, **changes: Any) -> LaunchSpec:
    path = tmp_path / "launch.json"
    path.write_text(json.dumps({**PLAIN, **changes}))
    return load_launch(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": -1},
        {"seed": 1 << 64},
        {"type": "i8", "low": -129},
        {"type": "u8", "high": 257},
        {"type": "u32", "low": -1},
        {"type": "i32", "low": 0.2, "high": 0.7},
        {"type": "fp16", "high": 70000},
        {"type": "f32", "high": 1e39},
        {"type": "f64", "low": -1.7e308, "high": 1.7e308},
        {"low": float("nan")},
        {"low": float("inf")},
        {"low": 2.0, "high": 1.0},
        {"shape": [10**9]},
        {"shape": [10**30]},
        {"shape": [1] * 100},
        {"shape": [70000, 70000], "fill": "arange"},
        {"shape": [70000, 70000], "fill": "zeros"},
        {"shape": [0]},
        {"offset": 10**12},
        {"offset": -8},
    ],
)
def test_a_buffer_that_cannot_be(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError):
        _loaded(tmp_path, args=[{**BUFFER, **changes}]).arguments()


def test_many_buffers_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_elements, "MOST_ELEMENTS", 20)
    args = [{**BUFFER, "name": f"a{n}", "offset": 8 * n} for n in range(3)]
    assert len(_loaded(tmp_path, args=args[:2]).arguments()) == 2
    with pytest.raises(ConfigError, match="24 elements"):
        _loaded(tmp_path, args=args).arguments()
    args[2]["same_as"] = "a0"
    assert len(_loaded(tmp_path, args=args).arguments()) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": [10**9]},
        {"grid": [1024, 2]},
        {"grid": [10**4000] * 3},
        {"block": [10**4000]},
        {"grid": []},
        {"dynamic_lds": -1},
        {"dynamic_lds": 10**4000},
        {"args": [{"is": "padding", "offset": 0, "size": 10**12}]},
        {"args": [{"is": "padding", "offset": 10**12, "size": 1}]},
        {"args": [{"is": "bytes", "name": "x", "offset": 10**12, "hex": "00"}]},
    ],
)
def test_a_launch_that_cannot_be(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError):
        _loaded(tmp_path, **changes)


def test_the_largest_of_each_is_taken(tmp_path: Path) -> None:
    assert _loaded(tmp_path, grid=[1024]).grid == (1024,)
    for kind, low, high in (("u8", 0, 256), ("i8", -128, 128), ("u64", 0, 2.0**64)):
        values = Buffer("a", 0, (64,), kind, Fill.RANDOM, 0, low, high).array()
        assert values.dtype == np.dtype(launch_elements.NUMPY_TYPES[kind])


def test_a_template_of_gigabytes(kernel: CodeKernel) -> None:
    assert template(replace(kernel, arguments=())).args
    with pytest.raises(ConfigError, match="4294967295 bytes"):
        template(replace(kernel, kernarg_bytes=0xFFFFFFFF, arguments=()))


@pytest.fixture(scope="module")
def kernel() -> CodeKernel:
    return CodeKernel(
        name="k", arch="gfx950", code=bytes(4), group_segment_bytes=0, private_segment_bytes=0,
        kernarg_bytes=64, rsrc1=0, rsrc2=0, rsrc3=0, properties=0, preload=0, arguments=(),
        uses_private_segment=False,
    )  # fmt: skip
