"""A small library, and a stand-in for HIP whose launches run in the emulator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import Hip
from pipeloom.device.tensors import view_of
from pipeloom.drive.gemm import gemm_kernel
from pipeloom.drive.store import Store
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, predict
from pipeloom.machine.dtypes import BF16
from pipeloom.machine.gpus import gpu_for
from pipeloom.tuning import library
from pipeloom.tuning.search import BlockTrial, Tuned

Array = npt.NDArray[Any]
HERE = Path(__file__).parent
GPU = gpu_for("MI355X")
BLOCK = Block(32, 32, 64)
SHAPES = {(96, 64, 128): Plan(BLOCK), (32, 32, 4096): Plan(BLOCK, 3)}


def tuned_as(problem: GemmProblem, plan: Plan) -> Tuned:
    cost = BlockCost(600.0, 1500.0, 512.0, "matrix unit")
    found = predict(GPU, problem, plan, cost)
    trial = BlockTrial(plan.block, found.seconds * 1e6, found.seconds * 1e6, cost.cycles)
    return Tuned(problem, GPU.chip, plan, cost, found, (trial,), 1, 0.0)


def write_quickly(tuned: Sequence[Tuned], folder: Path, **options: Any) -> list[Path]:
    """Kernels in the first order that fits, which takes no search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "gemm_kernel", lambda spec: gemm_kernel(replace(spec, search=False)))
        return library.write_library(tuned, folder, Store(None), **options)


class Device:
    """Device 0 of the stand-in, with copies of arrays of the host, and what was launched."""

    def __init__(self, hip: Hip) -> None:
        self.hip = hip
        self._copies: dict[int, tuple[DeviceArray, Array]] = {}

    def holds(self, array: Array) -> DeviceArray:
        """The array there; one that is a part of another lies in the other."""
        base = array if array.base is None else array.base
        assert isinstance(base, np.ndarray)
        at = base.ctypes.data
        if at not in self._copies:
            there = DeviceArray(self.hip, 0, view_of(base, "base"))
            there.fill(at)
            self._copies[at] = there, base
        there, _ = self._copies[at]
        part = there.seen_as(view_of(array, "array"))
        part.view = replace(part.view, address=there.address + array.ctypes.data - at)
        return part

    def address(self, array: Array) -> int:
        """Where it lies."""
        return self.holds(array).address

    def fetch(self) -> None:
        """Wait, and bring everything back to the host."""
        self.hip.call("hipDeviceSynchronize")
        for at, (there, _) in self._copies.items():
            there.fetch(at)

    def launches(self) -> list[str]:
        """Kernels and grids since the last time."""
        told = self.hip.library.standin_launches
        told.restype = ctypes.c_char_p
        return str(told(1).decode()).splitlines()


class Call(ctypes.Structure):
    """``plg_call``."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "batches")),
        *((name, ctypes.c_void_p) for name in ("a", "b", "c", "out")),
        *((name, ctypes.c_int64) for name in ("lda", "ldb", "ldc", "ldout")),
        *((f"stride_{name}", ctypes.c_int64) for name in ("a", "b", "c", "out")),
        *((name, ctypes.c_void_p) for name in ("bias", "scale_a", "scale_b")),
        *((f"blocks_{name}", ctypes.c_void_p) for name in "ab"),
        *((f"ld_blocks_{name}", ctypes.c_int64) for name in "ab"),
        *((f"stride_blocks_{name}", ctypes.c_int64) for name in "ab"),
        ("alpha", ctypes.c_float),
        ("beta", ctypes.c_float),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
    ]


def load_launcher(folder: Path, compile_c: Callable[[Path, Path], None]) -> ctypes.CDLL:
    compile_c(folder / "pipeloom_gemm.c", folder / "libpipeloom_gemm.so")
    found = ctypes.CDLL(str(folder / "libpipeloom_gemm.so"))
    size, address = ctypes.c_int64, ctypes.c_void_p
    found.plg_choose.argtypes = [size] * 3
    arrays: list[Any] = [address, size] * 3
    found.plg_gemm.argtypes = [address, size, size, size, *arrays, address, size, address]
    found.plg_workspace.argtypes, found.plg_workspace.restype = [size] * 3, size
    found.plg_workspace_of.argtypes, found.plg_workspace_of.restype = [ctypes.POINTER(Call)], size
    found.plg_run.argtypes = [address, ctypes.POINTER(Call)]
    found.plg_close.argtypes = [address]
    found.plg_message.restype = found.plg_kernel.restype = ctypes.c_char_p
    return found


def operands(m: int, n: int, k: int, spare: int = 0) -> tuple[Array, Array, Array, Array]:
    """A, B, an empty C with rows of their own length, and what C should be."""
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float32) for rows in (m, n))

    def codes(values: Array) -> Array:
        wide = np.full((values.shape[0], k + spare), 0x7FC0, np.uint16)
        wide[:, :k] = BF16.encode(values)
        return wide[:, :k]

    out = np.full((m, n), 0x5A5A, np.uint16)
    return codes(a), codes(b), out, BF16.encode(a @ b.T).astype(np.uint16)


def workspace(device: Device, size: int) -> int:
    """A workspace, with NaN in it; 0 for none."""
    return device.hip.handle("hipMalloc", size) if size else 0


def compute_with_both(
    folder: Path,
    device: Device,
    binding: ModuleType,
    compile_c: Callable[[Path, Path], None],
    arrays: dict[str, Array],
    pairs: int = 1,
) -> list[str]:
    """Compute with the Python launcher, then with C's; the kernels, which both launch alike."""
    a, out = arrays["a"], arrays["out"]
    there = {name: device.holds(array) for name, array in arrays.items()}
    device.launches()
    opened = binding.Library(folder)
    opened.gemm(**there)
    device.fetch()
    opened.close()
    found, mine = out.copy(), device.launches()
    out[:] = 0
    there["out"].fill(out.ctypes.data)
    launcher, handle = load_launcher(folder, compile_c), ctypes.c_void_p()
    hip = device.hip.place.path.encode()
    assert launcher.plg_open(str(folder).encode(), hip, ctypes.byref(handle)) == 0
    call = Call(m=out.shape[0], n=out.shape[1], k=a.shape[1] * pairs, batches=1, alpha=1)
    call.ldout = out.shape[1]
    for name, array in arrays.items():
        setattr(call, name, there[name].address)
        wide = pairs if name in "ab" else 1
        setattr(call, f"ld_{name}" if name.startswith("blocks") else f"ld{name}",
                array.strides[0] // array.itemsize * wide)  # fmt: skip
    call.workspace_bytes = launcher.plg_workspace_of(ctypes.byref(call))
    call.workspace = workspace(device, call.workspace_bytes)
    assert launcher.plg_run(handle, ctypes.byref(call)) == 0, launcher.plg_message()
    device.fetch()
    launcher.plg_close(handle)
    np.testing.assert_array_equal(out, found)
    assert device.launches() == mine
    return [line.split()[0] for line in mine]


def shifted(codes: Array, shift: int, spare: int) -> tuple[Array, Array]:
    """A matrix with so many elements before it and between its rows; and all of it."""
    rows, columns = codes.shape
    whole = np.full(shift + rows * (columns + spare), np.iinfo(codes.dtype).max, codes.dtype)
    matrix = whole[shift:].reshape(rows, columns + spare)[:, :columns]
    matrix[:] = codes
    return matrix, whole
