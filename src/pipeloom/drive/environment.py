"""What this machine has: packages, the assembler, GPUs, the store; and how to get what is missing.

[probe for probe in examine() if probe.state is not State.OK]
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeloom.device.hip import DeviceInfo, Hip
from pipeloom.device.hip_errors import DeviceError
from pipeloom.drive.store import VARIABLE, Store
from pipeloom.errors import ScheduleError
from pipeloom.files import read_text
from pipeloom.machine.cdna import PROCESSORS

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
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")
LEAST_KERNEL = "s_endpgm\n"


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


def examine(open_hip: Callable[[], Hip] = Hip.open) -> tuple[Probe, ...]:
    """Look at everything; ``open_hip`` finds the HIP runtime."""
    return (
        _python(),
        *(_package(name) for name in NEEDED),
        *(_package(name, *use) for name, use in OPTIONAL.items()),
        _assembler(),
        *_hip(open_hip),
        _torch(),
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

    newest = max(PROCESSORS)
    if importlib.util.find_spec("ziglang") is None:
        return Probe("assembler", State.ABSENT, remedy="pip install 'pipeloom[emit]'")
    try:
        code = assemble_text(LEAST_KERNEL, newest)
    except (ScheduleError, OSError) as error:
        said = error.message if isinstance(error, ScheduleError) else str(error)
        remedy = "pip install --force-reinstall 'pipeloom[emit]'"
        return Probe("assembler", State.FAILED, said.splitlines()[0], remedy)
    return Probe("assembler", State.OK, f"LLVM for {newest}, {len(code)} bytes of code object")


def _hip(open_hip: Callable[[], Hip]) -> tuple[Probe, ...]:
    """HIP and its devices; only launches and ``bench`` need them."""
    use = "only for run --on gpu, bench and pl.launch"
    try:
        hip = open_hip()
    except DeviceError as error:
        return (Probe("HIP", State.ABSENT, f"{use}: {error.message}", error.hint or ""),)
    try:
        version, gpus = hip.version, hip.gpus()
    except DeviceError as error:
        found = f"{hip.place.path}: {error.message}"
        return (Probe("HIP", State.ABSENT, found, error.hint or ""),)
    found = f"{version}, {hip.place.path} ({hip.place.found_by})"
    if not gpus:
        remedy = "see rocminfo, HIP_VISIBLE_DEVICES, and the groups video and render"
        return (Probe("HIP", State.ABSENT, f"{found}, no GPU", remedy),)
    return Probe("HIP", State.OK, found), *map(_gpu, gpus)


def _gpu(gpu: DeviceInfo) -> Probe:
    name = f"GPU {gpu.index}"
    if gpu.arch in PROCESSORS:
        return Probe(name, State.OK, str(gpu))
    remedy = f"kernels are written for {', '.join(PROCESSORS)}"
    return Probe(name, State.ABSENT, str(gpu), remedy)


def _torch() -> Probe:
    """PyTorch, whose tensors launches take; imported by nobody, but for its build."""
    found = _version("torch")
    if found is None:
        return Probe("torch", State.ABSENT, "its tensors can be launched with", "pip install torch")
    spec = importlib.util.find_spec("torch")
    build = Path(spec.origin or "").parent / "version.py" if spec is not None else Path()
    text = read_text(build) if build.is_file() else ""
    for_rocm = re.search(r"^hip[^=]*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    if for_rocm is not None:
        return Probe("torch", State.OK, f"{found}, for ROCm {for_rocm[1]}")
    remedy = "for tensors on an AMD GPU install a build for ROCm: pytorch.org, Get Started"
    return Probe("torch", State.OK, f"{found}, not for ROCm", remedy)


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
