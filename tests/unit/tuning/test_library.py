"""The library: both launchers choose alike, refuse alike, and their launches run in the emulator.

HIP is a stand-in compiled from C, whose launches come back here and run in the emulator.
"""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import json
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.declare.gemm_problem import Finish, GemmProblem
from pipeloom.drive.gemm import gemm_kernel
from pipeloom.drive.store import Store
from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.judge.emulate import load_code_object, run_kernel
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, predict
from pipeloom.machine.dtypes import BF16, E8M0, FP4
from pipeloom.machine.gpus import gpu_for
from pipeloom.tuning import library
from pipeloom.tuning.search import BlockTrial, Tuned
from pipeloom.write.assemble import assemble_text

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of two small kernels."""
    made = tmp_path_factory.mktemp("library") / "lib"
    tuned = [_tuned(GemmProblem(*shape), plan) for shape, plan in SHAPES.items()]
    written = _write(tuned, made)
    assert sorted(written) == sorted(path for path in made.rglob("*") if path.is_file())
    return made


@pytest.fixture(scope="module")
def mx_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of a kernel with block scales."""
    made = tmp_path_factory.mktemp("library") / "mx"
    _write([_tuned(GemmProblem(64, 64, 256, "mxfp4"), Plan(Block(64, 64, 256)))], made)
    return made


def _tuned(problem: GemmProblem, plan: Plan) -> Tuned:
    cost = BlockCost(600.0, 1500.0, 512.0, "matrix unit")
    found = predict(GPU, problem, plan, cost)
    trial = BlockTrial(plan.block, found.seconds * 1e6, found.seconds * 1e6, cost.cycles)
    return Tuned(problem, GPU.chip, plan, cost, found, (trial,), 1, 0.0)


def _write(tuned: Sequence[Tuned], folder: Path) -> list[Path]:
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


@pytest.fixture(scope="module")
def compile_c() -> Callable[[Path, Path], None]:
    """The system's C compiler, or zig's, which assembling needs anyway."""
    known = shutil.which("cc")
    compiler = [known] if known else [sys.executable, "-m", "ziglang", "cc"]

    def build(source: Path, target: Path) -> None:
        flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        command = [*compiler, *flags, str(source), "-o", str(target), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return build


@pytest.fixture(scope="module")
def device(
    tmp_path_factory: pytest.TempPathFactory, compile_c: Callable[[Path, Path], None]
) -> Device:
    path = tmp_path_factory.mktemp("hip") / "libfakehip.so"
    compile_c(HERE / "fake_hip.c", path)
    return Device(ctypes.CDLL(str(path)))


@pytest.fixture(scope="module")
def launcher(folder: Path, compile_c: Callable[[Path, Path], None]) -> ctypes.CDLL:
    """The C launcher, compiled without anything of ROCm."""
    return _launcher(folder, compile_c)


def _launcher(folder: Path, compile_c: Callable[[Path, Path], None]) -> ctypes.CDLL:
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


@pytest.fixture(scope="module")
def binding(folder: Path) -> ModuleType:
    """The Python module, as it lies in the library."""
    spec = importlib.util.spec_from_file_location("pipeloom_gemm", folder / "pipeloom_gemm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inputs(m: int, n: int, k: int, spare: int = 0) -> tuple[Array, Array, Array, Array]:
    """A, B, an empty C with rows of their own length, and what C should be."""
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float32) for rows in (m, n))

    def codes(values: Array) -> Array:
        wide = np.full((values.shape[0], k + spare), 0x7FC0, np.uint16)
        wide[:, :k] = BF16.encode(values)
        return wide[:, :k]

    out = np.full((m, n), 0x5A5A, np.uint16)
    return codes(a), codes(b), out, BF16.encode(a @ b.T).astype(np.uint16)


@pytest.mark.parametrize(
    ("shape", "spare"), [((33, 70, 72), 8), ((65, 1, 136), 0), ((3, 40, 1304), 8)]
)
def test_both_launchers_compute(
    folder: Path,
    device: Device,
    launcher: ctypes.CDLL,
    binding: ModuleType,
    shape: tuple[int, int, int],
    spare: int,
) -> None:
    a, b, out, expected = _inputs(*shape, spare)
    device.holds(a.base if a.base is not None else a, b.base if b.base is not None else b, out)
    device.launches.clear()
    opened = binding.Library(folder, device.library)
    entry = opened.gemm(a, b, out, dtype="bf16")
    assert not device.faults
    np.testing.assert_array_equal(out, expected)
    out[:] = 0
    m, n, k = shape
    handle = ctypes.c_void_p()
    hip = device.library._name.encode()
    assert launcher.plg_open(str(folder).encode(), hip, ctypes.byref(handle)) == 0
    arrays = (a.ctypes.data, k + spare, b.ctypes.data, k + spare, out.ctypes.data, n)
    size = launcher.plg_workspace(m, n, k)
    parts = _work(device, size)
    if size:
        assert launcher.plg_gemm(handle, m, n, k, *arrays, parts, size - 1, None) == 1
        assert b"needs a workspace of" in launcher.plg_message()
    done = launcher.plg_gemm(handle, m, n, k, *arrays, parts, size, None)
    assert done == 0, launcher.plg_message()
    np.testing.assert_array_equal(out, expected)
    launcher.plg_close(handle)
    half = len(device.launches) // 2
    assert half == (2 if size else 1)
    assert device.launches[:half] == device.launches[half:]
    assert device.launches[0][0] == entry["kernel"]
    opened.close()


def _work(device: Device, size: int) -> int:
    """A workspace, with NaN in it; 0 for none."""
    if not size:
        return 0
    address = ctypes.c_void_p()
    device.library.hipMalloc(ctypes.byref(address), ctypes.c_size_t(size))
    assert address.value is not None
    device.arrays[address.value][:] = 0xFF
    return address.value


def _both(
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
    launcher, handle = _launcher(folder, compile_c), ctypes.c_void_p()
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
    call.workspace = _work(device, call.workspace_bytes)
    assert launcher.plg_run(handle, ctypes.byref(call)) == 0, launcher.plg_message()
    launcher.plg_close(handle)
    assert not device.faults
    np.testing.assert_array_equal(out, found)
    assert device.launches[len(mine) :] == mine
    return [name for name, _ in mine]


def _shifted(codes: Array, shift: int, spare: int) -> tuple[Array, Array]:
    """A matrix with so many elements before it and between its rows; and all of it."""
    rows, columns = codes.shape
    whole = np.full(shift + rows * (columns + spare), np.iinfo(codes.dtype).max, codes.dtype)
    matrix = whole[shift:].reshape(rows, columns + spare)[:, :columns]
    matrix[:] = codes
    return matrix, whole


@pytest.mark.parametrize(
    ("shape", "shift", "spare", "copies"),
    [((33, 70, 71), 0, 0, 2), ((33, 40, 72), 1, 0, 1), ((3, 40, 1301), 3, 6, 2)],
    ids=["k", "beginning", "slices"],
)
def test_rows_that_are_not_aligned_are_copied(
    folder: Path,
    device: Device,
    binding: ModuleType,
    compile_c: Callable[[Path, Path], None],
    shape: tuple[int, int, int],
    shift: int,
    spare: int,
    copies: int,
) -> None:
    """Only those that need it; K that is not whole loads has zeros before it."""
    left, right, out, expected = _inputs(*shape)
    a, base = _shifted(left, shift, spare)
    names = _both(
        folder, device, binding, compile_c, {"a": a, "b": right, "out": out}, [base, right], "bf16"
    )
    np.testing.assert_array_equal(out, expected)
    assert names[:copies] == ["gemm_pack_columns_16"] * copies
    assert "pack" not in names[copies]


def test_matrices_stored_the_other_way_round(
    tmp_path: Path,
    device: Device,
    binding: ModuleType,
    compile_c: Callable[[Path, Path], None],
) -> None:
    """B as K x N; with a K that is not whole loads, one is copied by columns and one by rows."""
    _write([_tuned(GemmProblem(64, 64, 128, layout="NN"), Plan(BLOCK))], tmp_path)
    for k in (72, 71):
        a, right, out, expected = _inputs(40, 24, k)
        b = np.ascontiguousarray(right.T)
        arrays = {"a": a, "b": b, "out": out}
        names = _both(tmp_path, device, binding, compile_c, arrays, [a, b], "bf16")
        np.testing.assert_array_equal(out, expected)
        assert len(names) == (1 if k == 72 else 3)
    opened = binding.Library(tmp_path, device.library)
    with pytest.raises(binding.LibraryError, match=r"layout NN"):
        opened.gemm(a, right, out, dtype="bf16")


@pytest.mark.parametrize("spare", [0, 3])
def test_block_scales(
    mx_folder: Path,
    device: Device,
    binding: ModuleType,
    compile_c: Callable[[Path, Path], None],
    spare: int,
) -> None:
    """Two elements to a byte, rows of scales at any address; copied where rows are not aligned."""
    m, n, k = 33, 40, 160
    rng = np.random.default_rng(3)
    arrays: dict[str, Array] = {}
    scaled, bases = [], []
    for name, rows in (("a", m), ("b", n)):
        values = rng.integers(-3, 4, (rows, k)).astype(np.float32)
        codes = FP4.encode(values).astype(np.uint8)
        arrays[name], base = _shifted(codes[:, ::2] | codes[:, 1::2] << 4, 0, spare)
        bases.append(base)
        scales = rng.choice([0.5, 1, 2], (rows, k // 32)).astype(np.float32)
        arrays[f"blocks_{name}"] = E8M0.encode(scales).astype(np.uint8)
        scaled.append(FP4.round(values) * np.repeat(scales, 32, axis=1))
    arrays["out"] = np.zeros((m, n), np.uint16)
    names = _both(mx_folder, device, binding, compile_c, arrays, bases, "mxfp4")
    np.testing.assert_array_equal(arrays["out"], BF16.encode(scaled[0] @ scaled[1].T))
    assert len(names) == (3 if spare else 1)


def test_what_goes_with_block_scales(mx_folder: Path, device: Device, binding: ModuleType) -> None:
    a, blocks, out = np.zeros((8, 32), np.uint8), np.zeros((8, 2), np.uint8), np.zeros((8, 8), "H")
    opened = binding.Library(mx_folder, device.library)
    for given, part in (
        ({}, "are with blocks_A"),
        ({"blocks_a": blocks, "blocks_b": blocks[:4]}, "blocks_B must be 8 x 2"),
        ({"blocks_a": blocks, "blocks_b": blocks.astype("H")}, "blocks_B is not e8m0"),
    ):
        with pytest.raises(binding.LibraryError, match=part):
            opened.gemm(a, a, out, dtype="mxfp4", **given)
    with pytest.raises(binding.LibraryError, match="k is 24, and must be whole blocks of 32"):
        opened.gemm(a[:, :12], a[:, :12], out, dtype="fp4", blocks_a=blocks, blocks_b=blocks)


FINISH = Finish(alpha=True, beta=True, scales=True, bias=True, activation="relu")


def test_batches_and_what_follows_the_sum(
    tmp_path: Path,
    device: Device,
    binding: ModuleType,
    compile_c: Callable[[Path, Path], None],
) -> None:
    """Both launchers, against NumPy; C is read where it lies, and what is missing is refused."""
    problem = GemmProblem(40, 40, 136, batches=2, finish=FINISH)
    _write([_tuned(problem, Plan(BLOCK, 2))], tmp_path)
    rng = np.random.default_rng(5)
    m, n, k, alpha, beta = 40, 33, 72, 0.5, -2.0

    def drawn(*shape: int) -> tuple[Array, Array]:
        values = rng.integers(-3, 4, shape).astype(np.float32)
        return values, BF16.encode(values).astype(np.uint16)

    (a, a_codes), (b, b_codes), (c, c_codes) = drawn(2, m, k), drawn(2, n, k), drawn(2, m, n)
    bias = rng.integers(-3, 4, n).astype(np.float32)
    rows, columns = (rng.choice([0.5, 1, 2], size).astype(np.float32) for size in (m, n))
    product = np.einsum("bmk,bnk->bmn", a, b) * rows[:, None] * columns
    expected = BF16.encode(np.maximum(alpha * product + beta * c + bias, 0))
    out = c_codes.copy()
    device.holds(a_codes, b_codes, out, bias, rows, columns)
    opened = binding.Library(tmp_path, device.library)
    given = {"bias": bias, "scale_a": rows, "scale_b": columns}
    opened.gemm(a_codes, b_codes, out, alpha=alpha, beta=beta, dtype="bf16", **given)
    assert not device.faults
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(binding.LibraryError, match="the call lacks bias"):
        opened.gemm(a_codes, b_codes, out, dtype="bf16", scale_a=rows, scale_b=columns)
    with pytest.raises(binding.LibraryError, match=f"bias must be {n} numbers of f32"):
        opened.gemm(a_codes, b_codes, out, dtype="bf16", **{**given, "bias": rows})
    opened.close()

    out[:] = c_codes
    launcher, handle = _launcher(tmp_path, compile_c), ctypes.c_void_p()
    hip = device.library._name.encode()
    assert launcher.plg_open(str(tmp_path).encode(), hip, ctypes.byref(handle)) == 0
    call = Call(m=m, n=n, k=k, batches=2, lda=k, ldb=k, ldout=n, alpha=alpha, beta=beta)
    call.a, call.b, call.out = (array.ctypes.data for array in (a_codes, b_codes, out))
    call.stride_a, call.stride_b, call.stride_out = m * k, n * k, m * n
    call.bias, call.scale_a, call.scale_b = (v.ctypes.data for v in (bias, rows, columns))
    call.workspace_bytes = launcher.plg_workspace_of(ctypes.byref(call))
    assert call.workspace_bytes >= 4 * 2 * 2 * m * n
    call.workspace = _work(device, call.workspace_bytes)
    assert launcher.plg_run(handle, ctypes.byref(call)) == 0, launcher.plg_message()
    assert not device.faults
    np.testing.assert_array_equal(out, expected)
    call.bias = None
    assert launcher.plg_run(handle, ctypes.byref(call)) == 1
    assert b"with a bias" in launcher.plg_message()
    launcher.plg_close(handle)


def test_what_a_plain_library_does_not_do(
    folder: Path, device: Device, launcher: ctypes.CDLL, binding: ModuleType
) -> None:
    a, b, out, _ = _inputs(33, 70, 72)
    opened = binding.Library(folder, device.library)
    for options, part in (
        ({"alpha": 2.0}, "have no alpha"),
        ({"beta": 1.0}, "have no beta"),
        ({"c": out[:1], "beta": 1.0}, "c is 1 x 70"),
        ({"bias": np.zeros(70, np.float32)}, "the call has bias"),
    ):
        with pytest.raises(binding.LibraryError, match=part):
            opened.gemm(a, b, out, dtype="bf16", **options)
    call = Call(m=33, n=70, k=72, batches=1, lda=72, ldb=72, ldout=70, alpha=1)
    call.a, call.b, call.out = (array.ctypes.data for array in (a, b, out))
    for changes, said in (
        ({"alpha": 2.0}, b"without alpha"),
        ({"beta": 1.0}, b"without beta"),
        ({"scale_a": 64}, b"without scales"),
        ({"blocks_a": 64}, b"without block scales"),
        ({"batches": 2}, b"batches is 2, and must be 1"),
    ):
        wrong = Call.from_buffer_copy(call)
        for name, value in changes.items():
            setattr(wrong, name, value)
        assert launcher.plg_run(None, ctypes.byref(wrong)) == 1
        assert said in launcher.plg_message()


def test_both_launchers_choose_alike(
    folder: Path, launcher: ctypes.CDLL, binding: ModuleType
) -> None:
    table = json.loads((folder / "dispatch.json").read_text())
    names = list(table["kernels"])
    draw, seen = random.Random(1), set()
    for _ in range(300):
        shape = [2 ** draw.randrange(14) + draw.randrange(3) for _ in range(3)]
        mine = binding.chosen(table["entries"], *shape)["kernel"]
        assert launcher.plg_kernel(launcher.plg_choose(*shape)).decode() == mine
        seen.add(mine)
    assert seen == set(names)
    for own in SHAPES:
        entry = binding.chosen(table["entries"], *own)
        assert (entry["m"], entry["n"], entry["k"]) == own
    assert launcher.plg_kernel(99) is None


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda a, b, c: (a, b[:, :64], c), "cannot be"),
        (lambda a, b, c: (a.T, b, c), "not contiguous"),
        (lambda a, b, c: (a.astype(np.float16), b, c), "is not bf16"),
        (lambda a, b, c: (a[None, None], b, c), "4 dimensions"),
        (lambda a, b, c: (np.stack([a, a]), b, c), "one product at a time, or batches differ"),
    ],
    ids=["sizes", "transposed", "type", "dimensions", "batches"],
)
def test_what_the_python_launcher_refuses(
    folder: Path,
    device: Device,
    binding: ModuleType,
    change: Callable[[Array, Array, Array], tuple[Array, Array, Array]],
    part: str,
) -> None:
    device.launches.clear()
    a, b, out, _ = _inputs(33, 70, 72)
    with pytest.raises(binding.LibraryError, match=part):
        binding.Library(folder, device.library).gemm(*change(a, b, out), dtype="bf16")
    assert not device.launches


def test_more_that_the_python_launcher_refuses(
    folder: Path, device: Device, binding: ModuleType, tmp_path: Path
) -> None:
    a, b, out, _ = _inputs(33, 70, 72)
    with pytest.raises(binding.LibraryError, match="say dtype="):
        binding.Library(folder, device.library).gemm(a, b, out)
    with pytest.raises(binding.LibraryError, match="not in the memory of a ROCm GPU"):
        binding.Library(folder).gemm(a, b, out, dtype="bf16")
    with pytest.raises(binding.LibraryError, match="is no library"):
        binding.Library(tmp_path)
    (tmp_path / "dispatch.json").write_text("{}")
    with pytest.raises(binding.LibraryError, match="has format None"):
        binding.Library(tmp_path)
    assert binding.Library(folder, device.library).gemm(a[:0], b, out[:0], dtype="bf16")


def test_what_the_c_launcher_refuses(folder: Path, device: Device, launcher: ctypes.CDLL) -> None:
    a, b, out, _ = _inputs(33, 70, 72)
    handle = ctypes.c_void_p()
    assert launcher.plg_open(b"lib", b"/nowhere.so", ctypes.byref(handle)) == 3
    assert b"no HIP runtime here" in launcher.plg_message()
    hip = device.library._name.encode()
    assert launcher.plg_open(b"missing", hip, ctypes.byref(handle)) == 0
    device.launches.clear()

    def call(m: int, n: int, k: int, lda: int, shift: int = 0) -> tuple[int, bytes]:
        arrays = (a.ctypes.data + shift, lda, b.ctypes.data, k, out.ctypes.data, n)
        return launcher.plg_gemm(handle, m, n, k, *arrays, None, 0, None), launcher.plg_message()

    assert b"needs a workspace" in call(33, 70, 70, 70)[1]
    assert call(-1, 70, 72, 72)[0] == 1
    assert call(33, 70, 72, 71) == (1, call(33, 70, 72, 71)[1])
    assert b"needs a workspace" in call(33, 70, 72, 72, 2)[1]
    assert b"multiples of 2 bytes" in call(33, 70, 72, 72, 1)[1]
    assert b"over 2 GiB" in call(33, 70, 72, 1 << 30)[1]
    assert call(0, 70, 72, 72)[0] == 0
    assert call(33, 70, 72, 72) == (2, b"hipModuleLoad: file not found (301)")
    assert not device.launches
    launcher.plg_close(handle)


def test_a_library_is_of_one_type(tmp_path: Path) -> None:
    one = _tuned(GemmProblem(96, 64, 128), Plan(BLOCK))
    other = replace(one, chip="MI350X")
    with pytest.raises(ScheduleError, match="one chip, one type, one layout"):
        _write([one, other], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ScheduleError, match="cannot write"):
        _write([one], tmp_path / "file" / "lib")


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipeloom.tuning import candidates

    monkeypatch.setattr(candidates, "SIDES", (32,))
    monkeypatch.chdir(tmp_path)
    assert main(["gemm", "64", "48", "128", "--jobs", "1", "-o", "k.hsaco"]) == 0
    assert "TFLOPS predicted" in capsys.readouterr().out
    record = json.loads((tmp_path / "k.json").read_text())
    assert record["verdict"] == "PROVED"
    assert record["predicted"]["m"] == 64
    assert load_code_object(str(tmp_path / "k.hsaco")).kernel(record["kernel"])
    assert main(["gemm", "32", "32", "8192", "--jobs", "1", "-o", "s.hsaco"]) == 0
    record = json.loads((tmp_path / "s.json").read_text())["then"]
    assert load_code_object(str(tmp_path / record["file"])).kernel(record["kernel"])
    asked = ["--batches", "2", "--bias", "--activation", "relu", "-o", "b.hsaco"]
    assert main(["gemm", "64", "48", "128", "--jobs", "1", *asked]) == 0
    record = json.loads((tmp_path / "b.json").read_text())
    assert {"bias", "bs_bias", "batches"} <= {a["name"] for a in record["arguments"]}
    assert (record["predicted"]["batches"], record["predicted"]["finish"]) == (2, "bias, relu")
    assert (
        main(["gemm", "64", "48", "128", "--jobs", "1", "--dtype", "mxfp8", "-o", "x.hsaco"]) == 0
    )
    record = json.loads((tmp_path / "x.json").read_text())
    assert {"blocks_A", "ld_blocks_B"} <= {a["name"] for a in record["arguments"]}
    assert main(["gemm", "64", "48", "129", "--jobs", "1", "-o", "odd.hsaco"]) == 0
    assert "gemm_pack_columns_16, then " in capsys.readouterr().out
    record = json.loads((tmp_path / "odd.json").read_text())
    assert record["predicted"]["parts_us"]["copies to aligned rows"] > 0
    for copy in record["before"].values():
        assert load_code_object(str(tmp_path / copy["file"])).kernel(copy["kernel"])
    _run_by_their_records(tmp_path, capsys)
    assert main(["library", "64x48x128", "--jobs", "1", "-o", "lib", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 8
    assert main(["tune", "64x48x128", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["tuned"]
    assert found["block"]["m"] == 32
    assert main(["tune", "64x48x128", "-o", "found.json"]) == 0
    assert json.loads((tmp_path / "found.json").read_text())["tuned"] == [found]
    assert "64x48x128" in capsys.readouterr().out
    _same_from_python(tmp_path, found, capsys)


def _run_by_their_records(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever ``gemm`` wrote, with its copies and its sums, is run at its own sizes or others."""
    once = ["--timings", "1", "--json"]
    for name, smaller in (("k", []), ("s", ["--k", "512"]), ("b", []), ("x", []), ("odd", [])):
        capsys.readouterr()
        assert main(["run", f"{name}.hsaco", *once, *smaller]) == 0
        ran = json.loads(capsys.readouterr().out)
        record = json.loads((folder / f"{name}.json").read_text())
        sizes = {dim: record["predicted"][dim] for dim in ("m", "n", "k", "batches")}
        assert ran["sizes"] == {**sizes, **({"k": 512} if smaller else {})}
        assert (ran["kernel"], ran["runs"], ran["wrong"]) == (record["kernel"], 1, [])
        assert ran["instructions"] > 0
    assert main(["run", "k.hsaco", "--max-instructions", "10"]) == 1
    assert main(["run", "k.hsaco", "--size", "rows=3"]) == 1
    assert main(["run", "k.hsaco", "--size", "batches=3"]) == 1
    with pytest.raises(SystemExit, match="2"):
        main(["run", "k.hsaco", "--sync", "proven"])
    with pytest.raises(SystemExit, match="2"):
        main(["run", "k.hsaco", "--scalar", "alpha=3"])
    code = bytearray((folder / "k.hsaco").read_bytes())
    code[-1] ^= 1
    (folder / "other.hsaco").write_bytes(code)
    record = json.loads((folder / "k.json").read_text())
    (folder / "other.json").write_text(json.dumps(record))
    assert main(["run", "other.hsaco"]) == 1
    changes: list[dict[str, Any]] = [{"sizes": {}}, {"gemm": {"BM": "wide"}}]
    for change in changes:
        told = {**record, "made_from": {**record["made_from"], **change}}
        (folder / "other.json").write_text(json.dumps(told))
        assert main(["run", "other.hsaco"]) == 1
    capsys.readouterr()
    del record["made_from"]
    (folder / "other.json").write_text(json.dumps(record))
    assert main(["run", "other.hsaco"]) == 1
    assert "no record" not in capsys.readouterr().err
    (folder / "odd_pack_columns_16.hsaco").unlink()
    assert main(["run", "odd.hsaco"]) == 1
    capsys.readouterr()


def _same_from_python(
    folder: Path, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """``pl.tune``, ``pl.gemm`` and ``pl.library`` find and write what the commands did."""
    assert [one.to_dict() for one in pl.tune((64, 48, 128))] == [told]
    made = pl.gemm(64, 48, 128)
    assert made.run(sizes={"m": 33, "k": 64}).ok
    kernels: list[Any] = [made, made.kernel]
    for given in kernels:
        with pytest.raises(ConfigError) as error:
            pl.run(given, sizes={"m": 64})
        assert ".run(" in str(error.value.hint)
    for path in made.write(folder / "p.hsaco"):
        other = folder / path.name.replace("p", "k", 1)
        assert path.read_bytes().replace(b'"p.hsaco"', b'"k.hsaco"') == other.read_bytes()
    assert main(["gemm", "64", "48", "128", "--jobs", "1", "-o", "k.s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["k.s"]
    (text,) = made.assembly().values()
    assert (folder / "k.s").read_text() == text
    assert load_code_object(assemble_text(text, "gfx950")).kernel(made.kernel.name)
    written = pl.library(["64x48x128"], folder / "again")
    assert written.kernels == 1
    for one in (made, made.kernel, made.tuned, written):
        assert len(repr(one)) < 500
    for path in written.files:
        assert path.read_bytes() == (folder / "lib" / path.relative_to(written.folder)).read_bytes()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"shapes": (64, 48)}, "shapes"),
        ({"shapes": [(64, 48, 1.5)]}, "shapes"),
        ({"shapes": "64x48x0"}, "m|n|k"),
        ({"on": "cloud"}, "on"),
        ({"address": "auto"}, "on"),
        ({"tokens": [64]}, "tokens"),
        ({"activation": "gleu"}, "activation"),
        ({"dtype": "fp7"}, "dtype"),
        ({"close": 9.0}, "close"),
    ],
)
def test_calls_that_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ScheduleError) as error:
        pl.tune(**{"shapes": "64x48x128", **options})
    assert str(error.value.field) in field.split("|")
    assert error.value.hint


@pytest.mark.parametrize(
    ("sizes", "options", "field"),
    [
        ((64, 48, 128), {"dtyp": "fp8"}, "dtyp"),
        ((64.0, 48, 128), {}, "m"),
        ((64, 48, 128), {"dtype": "mxfp4", "target": "MI300X"}, "dtype"),
        ((64, 48, 0), {}, "k"),
    ],
)
def test_products_that_are_refused(
    sizes: tuple[Any, Any, Any], options: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError) as error:
        pl.gemm(*sizes, **options)
    assert str(error.value.field).endswith(field)
    assert error.value.hint


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["tune", "64x48"], 1),
        (["tune", "64x48x128", "--dtype", "fp7"], 1),
        (["tune", "64x48x128", "--target", "H100"], 1),
        (["tune", "64x48x128", "--layout", "XY"], 1),
        (["tune", "64x48x128", "--close", "9"], 1),
        (["gemm", "64", "48", "128", "-o", "k.txt"], 1),
        (["gemm", "64", "48", "128", "--dtype", "mxfp8", "--target", "MI300X"], 1),
        (["library", "64x48x128", "-o", "/dev/null/lib"], 1),
        (["tune", "64x48x128", "--page", "/dev/null/page"], 1),
        (["tune", "64x48x128", "--seconds", "nan"], 2),
        (["tune"], 2),
        (["tune", "64x48x128", "--jobs", "0"], 2),
        (["tune", "64x48x128", "--activation", "gleu"], 2),
        (["tune", "64x48x128", "--batches", "0"], 2),
        (["tune", "64x48x128", "--address", "auto"], 2),
        (["tune", "llama-3-8b", "--tokens", "x"], 2),
        (["gemm", "64", "48", "-1"], 2),
        (["gemm", "64x48x128"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_codes(
    command: list[str], code: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    try:
        found = main(command)
    except SystemExit as error:
        found = int(error.code or 0)
    assert found == code
    assert capsys.readouterr().err


def test_no_byte_of_a_kernel_comes_from_the_store(tmp_path: Path) -> None:
    """Whatever every entry says, the same code and the same record are written."""
    store = Store(tmp_path)
    spec = _tuned(GemmProblem(96, 64, 128), Plan(BLOCK)).spec
    before = library.kernel_of(spec, store)
    for key in store.keys():  # noqa: SIM118
        entry = store.read(key) or {}
        if "program" not in entry and "tried" not in entry:
            store.write(key, {"right": "x", "record": {"kernel": "../../evil"}, "codes": {"a": ""}})
    assert library.kernel_of(spec, store) == before


@pytest.mark.parametrize("name", ["../evil", "a b", "", "a\n", 'a"', "é", "a" * 300, "1a"])
def test_names_are_identifiers(name: str) -> None:
    with pytest.raises(ScheduleError, match="no name of a kernel"):
        library._identifier(name)


def test_no_field_of_a_record_ends_as_code(folder: Path) -> None:
    """Text is escaped as C has it, numbers are numbers."""
    table = json.loads((folder / "dispatch.json").read_text())
    evil = '"}; system("x"); /* \\ é\n'
    for place in (table, next(iter(table["kernels"].values()))):
        for key in [key for key, value in place.items() if isinstance(value, int)]:
            changed = json.loads(json.dumps(table))
            (changed if place is table else next(iter(changed["kernels"].values())))[key] = evil
            try:
                written = library.c_table(changed)
            except (ValueError, ScheduleError):
                continue
            assert "system" not in written, key
    record = next(iter(table["kernels"].values()))
    record["file"] = evil
    written = library.c_table(table)
    (line,) = [line for line in written.splitlines() if "system" in line]
    literal = line.split(", ")[1]
    assert literal[0] == literal[-1] == '"'
    assert ast.literal_eval("b" + literal).decode() == evil
    table["chip"] = evil
    with pytest.raises(ScheduleError, match="no name"):
        library.c_table(table)
