"""A small library, and a stand-in for HIP whose launches run in the emulator."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.gemm import gemm_kernel
from pipeloom.drive.store import Store
from pipeloom.judge.emulate import load_code_object, run_kernel
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
LISTENER = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_uint,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


def tuned_as(problem: GemmProblem, plan: Plan) -> Tuned:
    cost = BlockCost(600.0, 1500.0, 512.0, "matrix unit")
    found = predict(GPU, problem, plan, cost)
    trial = BlockTrial(plan.block, found.seconds * 1e6, found.seconds * 1e6, cost.cycles)
    return Tuned(problem, GPU.chip, plan, cost, found, (trial,), 1, 0.0)


def write_quickly(tuned: Sequence[Tuned], folder: Path) -> list[Path]:
    """Kernels in the first order that fits, which takes no search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "gemm_kernel", lambda spec: gemm_kernel(replace(spec, search=False)))
        return library.write_library(tuned, folder, Store(None))


class Device:
    """The stand-in for HIP, with the arrays that kernels may touch."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.arrays: dict[int, Array] = {}
        self.launches: list[tuple[str, tuple[int, ...]]] = []
        self.faults: list[str] = []
        self._keep = LISTENER(self._launch)
        library.listen(self._keep)

    def holds(self, *arrays: Array) -> None:
        """Arrays whose addresses kernels are given."""
        self.arrays |= {array.ctypes.data: array.reshape(-1) for array in arrays}

    def _at(self, address: int) -> Array:
        """What begins there: an array, or the rest of one."""
        base = max(found for found in self.arrays if found <= address)
        array = self.arrays[base]
        rest = array.view(np.uint8)[address - base :] if address > base else array
        assert len(rest), f"nothing is at {address}"
        return rest

    def _launch(
        self, path: bytes, name: bytes, grid: Any, threads: int, arguments: int, size: int
    ) -> int:
        if not path:
            raw = (ctypes.c_uint8 * size).from_address(arguments)
            self.arrays[arguments] = np.ctypeslib.as_array(raw)
            return 0
        packed = ctypes.string_at(arguments, size)
        kernel = load_code_object(path.decode()).kernel(name.decode())
        values: list[Any] = []
        for argument in kernel.arguments:
            if argument.is_pointer:
                values.append(self._at(struct.unpack_from("<Q", packed, argument.offset)[0]))
            else:
                kind = {4: "<i", 8: "<q"}[argument.size]
                values.append(struct.unpack_from(kind, packed, argument.offset)[0])
        shape = tuple(grid[axis] for axis in range(3))
        self.launches.append((name.decode(), shape))
        done = run_kernel(kernel, grid=shape, block=(threads, 1, 1), args=values)
        self.faults += [str(finding) for finding in done.findings]
        if size != kernel.kernarg_size:
            self.faults.append(f"{size} bytes of arguments for {kernel.kernarg_size}")
        return len(self.faults)


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
    if not size:
        return 0
    address = ctypes.c_void_p()
    device.library.hipMalloc(ctypes.byref(address), ctypes.c_size_t(size))
    assert address.value is not None
    device.arrays[address.value][:] = 0xFF
    return address.value


def compute_with_both(
    folder: Path,
    device: Device,
    binding: ModuleType,
    compile_c: Callable[[Path, Path], None],
    arrays: dict[str, Array],
    bases: Sequence[Array],
    dtype: str,
) -> list[str]:
    """Compute with the Python launcher, then with C's; the kernels, which both launch alike."""
    a, b, out = (arrays[name] for name in ("a", "b", "out"))
    more = {name: array for name, array in arrays.items() if name.startswith("blocks")}
    device.holds(*bases, out, *more.values())
    device.launches.clear()
    opened = binding.Library(folder, device.library)
    opened.gemm(a, b, out, dtype=dtype, **more)
    opened.close()
    assert not device.faults
    found, mine = out.copy(), device.launches[:]
    out[:] = 0
    launcher, handle = load_launcher(folder, compile_c), ctypes.c_void_p()
    hip = device.library._name.encode()
    assert launcher.plg_open(str(folder).encode(), hip, ctypes.byref(handle)) == 0
    k = a.shape[1] * (2 if dtype == "mxfp4" else 1)
    call = Call(m=out.shape[0], n=out.shape[1], k=k, batches=1, alpha=1)
    call.ldout = out.shape[1]
    for name, array in {**arrays}.items():
        setattr(call, name, array.ctypes.data)
        pairs = 2 if dtype == "mxfp4" and name in "ab" else 1
        setattr(call, f"ld_{name}" if name in more else f"ld{name}",
                array.strides[0] // array.itemsize * pairs)  # fmt: skip
    call.workspace_bytes = launcher.plg_workspace_of(ctypes.byref(call))
    call.workspace = workspace(device, call.workspace_bytes)
    assert launcher.plg_run(handle, ctypes.byref(call)) == 0, launcher.plg_message()
    launcher.plg_close(handle)
    assert not device.faults
    np.testing.assert_array_equal(out, found)
    assert device.launches[len(mine) :] == mine
    return [name for name, _ in mine]


def shifted(codes: Array, shift: int, spare: int) -> tuple[Array, Array]:
    """A matrix with so many elements before it and between its rows; and all of it."""
    rows, columns = codes.shape
    whole = np.full(shift + rows * (columns + spare), np.iinfo(codes.dtype).max, codes.dtype)
    matrix = whole[shift:].reshape(rows, columns + spare)[:, :columns]
    matrix[:] = codes
    return matrix, whole
