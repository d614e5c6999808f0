"""What a launch costs on top of HIP: Python below 20 us for a prepared kernel, C below 2 us.

    python -m benchmarks.bench_launch

HIP is the stand-in of the tests, told to check launches and to drop them. Its own check of a launch
is measured with C, and is part of both figures. CPU time is counted, not wall time.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import pipeloom as pl
from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import Hip
from pipeloom.device.images import KernelImage
from pipeloom.device.tensors import view_of
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.judge.simulate.whole_gpu import Plan
from tests.standin.build import StandIn, compile_library
from tests.unit.tuning.library_stand import BLOCK, load_launcher, tuned_as, write_quickly

PYTHON_US, C_US = 20.0, 2.0
SIZE = 256
LAUNCHES = 20_000


def each(call: Callable[[], Any], launches: int = LAUNCHES) -> float:
    """Microseconds of CPU time of one call: the least of five rounds."""
    call()
    rounds = []
    for _ in range(5):
        begin = time.process_time()
        for _ in range(launches // 5):
            call()
        rounds.append((time.process_time() - begin) / (launches // 5) * 1e6)
    return min(rounds)


def arrays(hip: Hip) -> dict[str, DeviceArray]:
    """A, B and C of a product on device 0."""
    host = np.zeros((SIZE, SIZE), np.uint16)
    return {name: DeviceArray(hip, 0, view_of(host, name)) for name in ("A", "B", "out")}


class Tensor:
    """What PyTorch's tensors answer a launch, without PyTorch."""

    def __init__(self, there: DeviceArray) -> None:
        self._there = there
        self.shape, self.dtype, self.device = (SIZE, SIZE), "torch.bfloat16", Place()

    def data_ptr(self) -> int:
        return self._there.address

    def stride(self) -> tuple[int, int]:
        return SIZE, 1


class Place:
    """A device of PyTorch's."""

    type, index = "cuda", 0

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place)


def in_c(folder: Path, hip: Hip, there: dict[str, DeviceArray]) -> float:
    """Microseconds of one plg_gemm, called a thousand times by a loop in C."""
    lib = folder / "lib"
    write_quickly([tuned_as(GemmProblem(SIZE, SIZE, SIZE), Plan(BLOCK))], lib)
    launcher = load_launcher(lib, compile_library)
    loop = folder / "loop.c"
    loop.write_text(
        "typedef int (*call)(void *, long, long, long, const void *, long, const void *, long, "
        "void *, long, void *, long, void *);\n"
        "int loop(call f, void *l, long s, void *a, void *b, void *c, int n) {\n"
        "    int code = 0;\n"
        "    while (n-- > 0) code |= f(l, s, s, s, a, s, b, s, c, s, 0, 0, 0);\n"
        "    return code;\n}\n"
    )
    compile_library(loop, folder / "loop.so")
    run = ctypes.CDLL(str(folder / "loop.so")).loop
    run.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_long] + [ctypes.c_void_p] * 3 + [ctypes.c_int]
    handle = ctypes.c_void_p()
    assert launcher.plg_open(str(lib).encode(), hip.place.path.encode(), ctypes.byref(handle)) == 0
    function = ctypes.cast(launcher.plg_gemm, ctypes.c_void_p)
    at = [there[name].address for name in ("A", "B", "out")]

    def thousand() -> None:
        assert run(function, handle, SIZE, *at, 1000) == 0, launcher.plg_message()

    return each(thousand, 100) / 1000


def main() -> int:
    """Measure, print, and say by the exit code whether the targets are met."""
    with tempfile.TemporaryDirectory() as name, StandIn.start(Path(name)) as stand:
        os.environ.update(stand.environment())
        os.environ["PIPELOOM_STANDIN_IDLE"] = "1"
        hip = Hip.open()
        made = gemm_kernel(
            replace(GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False), any_k=True)
        )
        codes = {one.name: pl.assemble(one).data for one in made.kernels}
        kernel = pl.prepare(KernelImage(made.contract(), codes))
        there = arrays(hip)
        tensors = {name: Tensor(one) for name, one in there.items()}
        found = {
            "Python, arrays of ours": (each(lambda: kernel(**there)), PYTHON_US),
            "Python, as PyTorch's tensors": (each(lambda: kernel(**tensors)), PYTHON_US),
            "Python, bound": (each(kernel.bind(**there)), PYTHON_US),
            "C": (in_c(Path(name), hip, there), C_US),
        }
    for what, (cost, target) in found.items():
        print(f"{what:<30} {cost:6.2f} us, below {target:g}: {cost < target}")
    return 0 if all(cost < target for cost, target in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
