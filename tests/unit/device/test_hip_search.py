"""Where HIP is looked for, in which order, and what is refused."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.device.hip import Hip
from pipeloom.device.hip_search import HipPlace, find_hip, mapped_libraries
from tests.standin.build import StandIn


def library(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"")
    return folder / name


def search(tmp_path: Path, environment: dict[str, str], *there: Path) -> HipPlace:
    """What is found where only some files can be loaded."""
    known = {str(path) for path in there}

    def load(path: str) -> Any:
        if path not in known:
            raise OSError(f"{path}: cannot open shared object file")
        return ctypes.CDLL(None)

    place, _ = find_hip(environment, load, tmp_path / "maps", tmp_path / "rocm")
    return place


def test_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = library(tmp_path / "own", "libhip.so")
    wheel = library(tmp_path / "wheel", "libamdhip64.so.7")
    torch = library(tmp_path / "torch" / "lib", "libamdhip64.so")
    listed = library(tmp_path / "listed", "libamdhip64.so.6")
    home = library(tmp_path / "hip" / "lib", "libamdhip64.so.8")
    old = library(tmp_path / "rocm" / "lib", "libamdhip64.so.6")
    core = library(tmp_path / "rocm" / "core-7.14" / "lib", "libamdhip64.so.7")
    (tmp_path / "torch" / "__init__.py").write_text("")
    code = f"def find_libraries(name):\n    return [{str(wheel)!r}]\n"
    (tmp_path / "rocm_sdk.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    environment = {
        "PIPELOOM_HIP_LIBRARY": str(given),
        "LD_LIBRARY_PATH": f"{tmp_path / 'none'}:{listed.parent}",
        "HIP_PATH": str(tmp_path / "hip"),
    }
    order = [given, wheel, torch, listed, home, Path("libamdhip64.so.7"), old, core]
    there = order[:]
    for expected in order:
        found = search(tmp_path, environment, *there)
        assert found.path == str(expected)
        assert found.found_by
        environment.pop("PIPELOOM_HIP_LIBRARY", None)
        there.remove(expected)
    with pytest.raises(pl.DeviceError, match="no HIP runtime here") as raised:
        search(tmp_path, environment)
    assert "LD_LIBRARY_PATH" in raised.value.message
    assert "PIPELOOM_HIP_LIBRARY" in str(raised.value.hint)


def test_a_wheel_that_fails_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rocm_sdk.py").write_text("def find_libraries(name):\n    raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rocm_sdk", raising=False)
    loader = Path("libamdhip64.so.6")
    assert search(tmp_path, {}, loader).found_by == "the loader"


def test_what_is_loaded_already_is_taken(tmp_path: Path) -> None:
    first, second = (library(tmp_path / n, "libamdhip64.so.7") for n in ("one", "two"))
    line = "7f00-7f01 r-xp 00000000 08:01 123    {}\n"
    maps = tmp_path / "maps"
    maps.write_text(line.format("/lib/libc.so.6") + 2 * line.format(first))
    assert mapped_libraries(maps) == [str(first)]
    environment = {"LD_LIBRARY_PATH": str(second.parent)}
    assert search(tmp_path, environment, first, second).path == str(first)
    with pytest.raises(pl.DeviceError, match="two HIP runtimes"):
        search(tmp_path, {"PIPELOOM_HIP_LIBRARY": str(second)}, first, second)
    maps.write_text(line.format(first) + line.format(second))
    with pytest.raises(pl.DeviceError, match="two HIP runtimes"):
        search(tmp_path, {}, first, second)


def test_a_wrong_path_is_told(tmp_path: Path) -> None:
    with pytest.raises(pl.DeviceError, match="cannot be loaded") as raised:
        search(tmp_path, {"PIPELOOM_HIP_LIBRARY": str(tmp_path / "none.so")})
    assert raised.value.field == "PIPELOOM_HIP_LIBRARY"


def test_a_library_that_is_no_hip() -> None:
    with pytest.raises(pl.DeviceError, match="hipModuleLaunchKernel"):
        Hip(ctypes.CDLL(None), HipPlace("libc.so.6", "the loader"))


def test_devices(hip: Hip, standin: StandIn) -> None:
    """The architecture is that of the new properties, without what follows the colon."""
    assert hip.place.path == str(standin.library)
    assert hip.version == "7.1.25424"
    first, second, third = hip.gpus()
    assert [first.arch, second.arch, third.arch] == ["gfx950", "gfx942", "gfx950"]
    assert (first.compute_units, second.compute_units) == (256, 304)
    assert (first.clock_mhz, first.wall_clock_mhz, first.xccs) == (2400, 100, 8)
    assert (first.lds_bytes, second.lds_bytes) == (160 << 10, 64 << 10)
    assert first.memory_bytes == 1 << 30
    assert "256 CUs" in str(first)
    old = ctypes.create_string_buffer(4096)
    assert hip.library.hipGetDeviceProperties(old, 0) == 0
    assert old.raw[1160:1166] == b"\0" * 6
    assert old.raw[396:].startswith(b"gfx950:")


def test_visible_devices(hip: Hip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    hip.library.hipDeviceReset()
    assert [one.arch for one in Hip(hip.library, hip.place).gpus()] == ["gfx942"]
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "-1")
    hip.library.hipDeviceReset()
    none = Hip(hip.library, hip.place)
    assert none.gpus() == ()
    with pytest.raises(pl.DeviceError, match="sees no GPU"):
        none.gpu(0)


def test_the_current_device_is_kept(hip: Hip) -> None:
    hip.call("hipSetDevice", 2)
    with hip.on(1):
        assert hip.number("hipGetDevice") == 1
    assert hip.number("hipGetDevice") == 2
    with pytest.raises(pl.DeviceError, match="hipErrorInvalidDevice"):
        hip.call("hipSetDevice", 9)
