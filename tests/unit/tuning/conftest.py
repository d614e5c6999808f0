"""Libraries on disk, both launchers, and the stand-in for HIP."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.device.hip import Hip
from pipeloom.judge.simulate.whole_gpu import Block, Plan
from tests.standin.build import compile_library
from tests.unit.tuning.library_stand import (
    SHAPES,
    Device,
    load_launcher,
    tuned_as,
    write_quickly,
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of two small kernels."""
    made = tmp_path_factory.mktemp("library") / "lib"
    tuned = [tuned_as(GemmProblem(*shape), plan) for shape, plan in SHAPES.items()]
    written = write_quickly(tuned, made)
    assert sorted(written) == sorted(path for path in made.rglob("*") if path.is_file())
    return made


@pytest.fixture(scope="module")
def mx_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of a kernel with block scales."""
    made = tmp_path_factory.mktemp("library") / "mx"
    write_quickly([tuned_as(GemmProblem(64, 64, 256, "mxfp4"), Plan(Block(64, 64, 256)))], made)
    return made


@pytest.fixture(scope="session")
def compile_c() -> Callable[[Path, Path], None]:
    """The system's C compiler, or zig's, which assembling needs anyway."""
    return compile_library


@pytest.fixture
def device(hip: Hip) -> Device:
    return Device(hip)


@pytest.fixture(scope="module")
def launcher(folder: Path, compile_c: Callable[[Path, Path], None]) -> ctypes.CDLL:
    """The C launcher, compiled without anything of ROCm."""
    return load_launcher(folder, compile_c)


@pytest.fixture(scope="module")
def binding(folder: Path) -> ModuleType:
    """The Python module, as it lies in the library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return importlib.import_module("pipeloom_gemm")
