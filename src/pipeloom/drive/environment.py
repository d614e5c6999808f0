"""What this machine has: packages, the assembler, GPUs, the store; and how to get what is missing.

[probe for probe in examine() if probe.state is not State.OK]
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeloom.drive.store import VARIABLE, Store
from pipeloom.errors import ScheduleError

OLDEST = (3, 11)
NEEDED = ("numpy", "ortools", "rich", "lazy-loader", "shtab")
"""Packages that pipeloom does nothing without."""
OPTIONAL: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ziglang": ("emit", "assembles kernels, for emit -o K.hsaco, run, gemm, library, check"),
        "tinygrad": ("emulate", "decodes instructions, for run and check"),
        "triton": ("", "compiles functions of Triton, for pl.check_triton"),
        "ray": ("ray", "tunes on a cluster, for tune --on ray"),
    }
)
"""Packages that some need: the extra that brings them, where one does, and what for."""
HIP = "libamdhip64.so"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")
LEAST_KERNEL = "s_endpgm\n"
CHIP = "gfx950"


class State(Enum):
    """How it stands with one thing."""

    OK = "ok"
    ABSENT = "not here"
    """Not there, and only some commands miss it."""
    FAILED = "FAILED"
    """Needed, and missing or broken."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that was looked for."""

    name: str
    """What."""
    state: State
    """How it stands with it."""
    found: str = ""
    """What is there, or what it would be for."""
    remedy: str = ""
    """How to get it, where it is not there."""

    def to_dict(self) -> dict[str, str]:
        """Plain data."""
        state = self.state.name.lower()
        return {"name": self.name, "state": state, "found": self.found, "remedy": self.remedy}


def versions() -> dict[str, Any]:
    """Of Python, the system, and every package that is installed; None where one is not."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in (*NEEDED, *OPTIONAL)},
    }


def examine(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[Probe, ...]:
    """Look at everything; ``load`` finds the HIP runtime by name."""
    return (
        _python(),
        *(_package(name) for name in NEEDED),
        *(_package(name, *use) for name, use in OPTIONAL.items()),
        _assembler(),
        _gpus(load),
        _store(),
        _browser(),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _python() -> Probe:
    found = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info >= OLDEST:
        return Probe("Python", State.OK, found)
    needed = ".".join(map(str, OLDEST))
    return Probe("Python", State.FAILED, found, f"install Python {needed} or later")


def _package(name: str, extra: str = "", use: str = "") -> Probe:
    found = _version(name)
    if found is not None:
        return Probe(name, State.OK, found)
    if not use:
        return Probe(name, State.FAILED, remedy=f"pip install {name}")
    package = f"'pipeloom[{extra}]'" if extra else name
    return Probe(name, State.ABSENT, use, f"pip install {package}")


def _assembler() -> Probe:
    """LLVM, as the wheel has it: it assembles and links the least kernel there is."""
    from pipeloom.write.assemble import assemble_text

    if importlib.util.find_spec("ziglang") is None:
        return Probe("assembler", State.ABSENT, remedy="pip install 'pipeloom[emit]'")
    try:
        code = assemble_text(LEAST_KERNEL, CHIP)
    except (ScheduleError, OSError) as error:
        said = error.message if isinstance(error, ScheduleError) else str(error)
        remedy = "pip install --force-reinstall 'pipeloom[emit]'"
        return Probe("assembler", State.FAILED, said.splitlines()[0], remedy)
    return Probe("assembler", State.OK, f"LLVM for {CHIP}, {len(code)} bytes of code object")


def _gpus(load: Callable[[str], Any]) -> Probe:
    """No command needs one; what is written can run on one."""
    try:
        hip = load(HIP)
    except OSError:
        return Probe("HIP", State.ABSENT, "no command needs it", f"install ROCm for {HIP}")
    count = ctypes.c_int(0)
    code = hip.hipGetDeviceCount(ctypes.byref(count))
    if code or not count.value:
        return Probe("HIP", State.ABSENT, f"{HIP}, no GPU", "check the driver with rocminfo")
    names = []
    for device in range(count.value):
        name = ctypes.create_string_buffer(256)
        named = hip.hipDeviceGetName(name, len(name), device) == 0
        names.append(name.value.decode(errors="replace") if named else f"GPU {device}")
    return Probe("HIP", State.OK, f"{HIP}, {', '.join(names)}")


def _store() -> Probe:
    store = Store.usual()
    path = store.path
    if path is None:
        return Probe("store", State.ABSENT, f"{VARIABLE} is off", f"unset {VARIABLE}")
    folder = next(one for one in (path.parent, *path.parents) if one.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        remedy = f"make it writable, or name another folder by {VARIABLE}"
        return Probe("store", State.FAILED, f"{folder} cannot be written", remedy)
    kept = f"{store.size() / 1e6:.1f} MB" if path.exists() else "nothing kept yet"
    return Probe("store", State.OK, f"{Path(path)}, {kept}")


def _browser() -> Probe:
    """Shows the pages that report, compare and tune write."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is not None:
        return Probe("browser", State.OK, found)
    return Probe("browser", State.ABSENT, "only shows pages", "install chromium")
