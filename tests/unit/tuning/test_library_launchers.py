"""Both launchers choose alike, refuse alike, and their launches run in the emulator.

HIP is the stand-in of ``tests/standin``, found as a real one would be.
"""

from __future__ import annotations

import ctypes
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pipeloom.declare.gemm_problem import Finish, GemmProblem
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import Hip
from pipeloom.device.tensors import view_of
from pipeloom.judge.simulate.whole_gpu import Plan
from pipeloom.machine.dtypes import BF16, E8M0, FP4
from pipeloom.tuning.binding import chosen
from tests.standin.build import compiler
from tests.unit.tuning.library_stand import (
    BLOCK,
    SHAPES,
    Array,
    Call,
    Device,
    compute_with_both,
    load_launcher,
    operands,
    shifted,
    tuned_as,
    workspace,
    write_quickly,
)


@pytest.mark.parametrize(
    ("shape", "spare"), [((33, 70, 72), 8), ((65, 1, 136), 0), ((3, 40, 1304), 8)]
)
def test_both_launchers_compute(
    folder: Path,
    device: Device,
    binding: ModuleType,
    compile_c: Callable[[Path, Path], None],
    shape: tuple[int, int, int],
    spare: int,
) -> None:
    a, b, out, expected = operands(*shape, spare)
    names = compute_with_both(folder, device, binding, compile_c, {"a": a, "b": b, "out": out})
    np.testing.assert_array_equal(out, expected)
    assert len(names) == (2 if shape[2] > 1000 else 1)


def test_a_workspace_that_is_too_small(
    folder: Path, device: Device, launcher: ctypes.CDLL, binding: ModuleType
) -> None:
    a, b, out, expected = operands(3, 40, 1304)
    there = {"a": device.holds(a), "b": device.holds(b), "out": device.holds(out)}
    size, handle = launcher.plg_workspace(3, 40, 1304), ctypes.c_void_p()
    hip = device.hip.place.path.encode()
    assert launcher.plg_open(str(folder).encode(), hip, ctypes.byref(handle)) == 0
    at = (there["a"].address, 1304, there["b"].address, 1304, there["out"].address, 40)
    parts = workspace(device, size)
    assert launcher.plg_gemm(handle, 3, 40, 1304, *at, parts, size - 1, None) == 1
    assert b"needs a workspace of" in launcher.plg_message()
    launcher.plg_close(handle)
    opened = binding.Library(folder)
    assert opened.workspace_bytes(**there) == size
    small = device.holds(np.zeros(size - 4, np.uint8))
    with pytest.raises(binding.LibraryError, match="the workspace has"):
        opened.gemm(**there, workspace=small)
    opened.gemm(**there, workspace=device.holds(np.zeros(size, np.uint8)))
    device.fetch()
    np.testing.assert_array_equal(out, expected)


def test_on_every_device(folder: Path, hip: Hip, launcher: ctypes.CDLL) -> None:
    """Code is loaded on the device that it is launched on, once on each."""
    handle = ctypes.c_void_p()
    assert launcher.plg_open(str(folder).encode(), None, ctypes.byref(handle)) == 0
    for number in (0, 2, 0, 2, 1):
        with hip.on(number):
            a, b, out, expected = operands(33, 40, 72)
            there = [DeviceArray(hip, number, view_of(x, "x")) for x in (a, b, out)]
            for one, array in zip(there, (a, b, out), strict=True):
                one.fill(array.ctypes.data)
            at = (there[0].address, 72, there[1].address, 72, there[2].address, 40)
            code = launcher.plg_gemm(handle, 33, 40, 72, *at, None, 0, None)
            if number == 1:  # another chip
                assert (code, launcher.plg_message()[-6:]) == (2, b" (209)")
                break
            assert code == 0, launcher.plg_message()
            there[2].fetch(out.ctypes.data)
            np.testing.assert_array_equal(out, expected)
    launcher.plg_close(handle)


def test_the_c_launcher_is_c_and_cpp(folder: Path, tmp_path: Path) -> None:
    warnings = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    for language in (["-x", "c", "-std=c11", "-D_GNU_SOURCE"], ["-x", "c++", "-std=c++17"]):
        command = [*compiler(), *language, *warnings, str(folder / "pipeloom_gemm.c")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


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
    left, right, out, expected = operands(*shape)
    a, _ = shifted(left, shift, spare)
    names = compute_with_both(folder, device, binding, compile_c, {"a": a, "b": right, "out": out})
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
    write_quickly([tuned_as(GemmProblem(64, 64, 128, layout="NN"), Plan(BLOCK))], tmp_path)
    for k in (72, 71):
        a, right, out, expected = operands(40, 24, k)
        b = np.ascontiguousarray(right.T)
        arrays = {"a": a, "b": b, "out": out}
        names = compute_with_both(tmp_path, device, binding, compile_c, arrays)
        np.testing.assert_array_equal(out, expected)
        assert len(names) == (1 if k == 72 else 3)
    opened = binding.Library(tmp_path)
    with pytest.raises(binding.LibraryError, match="B has 24 along k, and A has 71"):
        opened.gemm(*map(device.holds, (a, right, out)))


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
    scaled = []
    for name, rows in (("a", m), ("b", n)):
        values = rng.integers(-3, 4, (rows, k)).astype(np.float32)
        codes = FP4.encode(values).astype(np.uint8)
        arrays[name], _ = shifted(codes[:, ::2] | codes[:, 1::2] << 4, 0, spare)
        scales = rng.choice([0.5, 1, 2], (rows, k // 32)).astype(np.float32)
        arrays[f"blocks_{name}"] = E8M0.encode(scales).astype(np.uint8)
        scaled.append(FP4.round(values) * np.repeat(scales, 32, axis=1))
    arrays["out"] = np.zeros((m, n), np.uint16)
    names = compute_with_both(mx_folder, device, binding, compile_c, arrays, pairs=2)
    np.testing.assert_array_equal(arrays["out"], BF16.encode(scaled[0] @ scaled[1].T))
    assert len(names) == (3 if spare else 1)


def test_what_goes_with_block_scales(mx_folder: Path, device: Device, binding: ModuleType) -> None:
    a, blocks, out = np.zeros((8, 32), np.uint8), np.zeros((8, 2), np.uint8), np.zeros((8, 8), "H")
    opened = binding.Library(mx_folder)
    given = {"a": a, "b": a, "out": out, "blocks_a": blocks, "blocks_b": blocks}
    for change, part in (
        ({"blocks_a": None}, "is not given blocks_A"),
        ({"blocks_b": blocks[:4].copy()}, "blocks_B has 4 along n"),
        ({"blocks_b": blocks.astype("H")}, "blocks_B is uint16"),
        ({"a": a[:, :12].copy(), "b": a[:, :12].copy()}, "one for 32 each"),
    ):
        arrays = {n: x for n, x in {**given, **change}.items() if x is not None}
        with pytest.raises(binding.LibraryError, match=part):
            opened.gemm(**{name: device.holds(array) for name, array in arrays.items()})


FINISH = Finish(alpha=True, beta=True, scales=True, bias=True, activation="relu")


def test_batches_and_what_follows_the_sum(
    tmp_path: Path,
    device: Device,
    binding: ModuleType,
    compile_c: Callable[[Path, Path], None],
) -> None:
    """Both launchers, against NumPy; C is read where it lies, and what is missing is refused."""
    problem = GemmProblem(40, 40, 136, batches=2, finish=FINISH)
    write_quickly([tuned_as(problem, Plan(BLOCK, 2))], tmp_path)
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
    opened = binding.Library(tmp_path)
    arrays = {"a": a_codes, "b": b_codes, "out": out, "bias": bias}
    arrays |= {"scale_a": rows, "scale_b": columns}
    there = {name: device.holds(array) for name, array in arrays.items()}
    opened.gemm(**there, alpha=alpha, beta=beta)
    device.fetch()
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(binding.LibraryError, match="is not given bias"):
        opened.gemm(**{name: one for name, one in there.items() if name != "bias"})
    with pytest.raises(binding.LibraryError, match=f"bias has {m} along n"):
        opened.gemm(**{**there, "bias": there["scale_a"]})
    opened.close()

    out[:] = c_codes
    there["out"].fill(out.ctypes.data)
    launcher, handle = load_launcher(tmp_path, compile_c), ctypes.c_void_p()
    hip = device.hip.place.path.encode()
    assert launcher.plg_open(str(tmp_path).encode(), hip, ctypes.byref(handle)) == 0
    call = Call(m=m, n=n, k=k, batches=2, lda=k, ldb=k, ldout=n, alpha=alpha, beta=beta)
    call.stride_a, call.stride_b, call.stride_out = m * k, n * k, m * n
    for name, one in there.items():
        setattr(call, name, one.address)
    call.workspace_bytes = launcher.plg_workspace_of(ctypes.byref(call))
    assert call.workspace_bytes >= 4 * 2 * 2 * m * n
    call.workspace = workspace(device, call.workspace_bytes)
    assert launcher.plg_run(handle, ctypes.byref(call)) == 0, launcher.plg_message()
    device.fetch()
    np.testing.assert_array_equal(out, expected)
    call.bias = None
    assert launcher.plg_run(handle, ctypes.byref(call)) == 1
    assert b"with a bias" in launcher.plg_message()
    launcher.plg_close(handle)


def test_what_a_plain_library_does_not_do(
    folder: Path, device: Device, launcher: ctypes.CDLL, binding: ModuleType
) -> None:
    a, b, out, _ = operands(33, 70, 72)
    opened = binding.Library(folder)
    bias = device.holds(np.zeros(70, np.float32))
    for options, part in (
        ({"alpha": 2.0}, "have no alpha"),
        ({"beta": 1.0}, "have no beta"),
        ({"c": out}, "have no beta"),
        ({"bias": bias}, "takes no bias"),
    ):
        with pytest.raises(binding.LibraryError, match=part):
            opened.gemm(*map(device.holds, (a, b, out)), **options)
    call = Call(m=33, n=70, k=72, batches=1, lda=72, ldb=72, ldout=70, alpha=1)
    call.a, call.b, call.out = (array.ctypes.data for array in (a, b, out))
    for changes, said in (
        ({"alpha": 2.0}, b"without alpha"),
        ({"beta": 1.0}, b"without beta"),
        ({"scale_a": 64}, b"without scales"),
        ({"blocks_a": 64}, b"without block scales"),
        ({"batches": 2}, b"batches is 2, and must be 1"),
        ({"out": None}, b"out is a null pointer"),
        ({"b": None}, b"B is a null pointer"),
    ):
        wrong = Call.from_buffer_copy(call)
        for name, value in changes.items():
            setattr(wrong, name, value)
        assert launcher.plg_run(None, ctypes.byref(wrong)) == 1
        assert said in launcher.plg_message()


def test_both_launchers_choose_alike(folder: Path, launcher: ctypes.CDLL) -> None:
    table = json.loads((folder / "dispatch.json").read_text())
    names = list(table["kernels"])
    draw, seen = random.Random(1), set()
    for _ in range(300):
        shape = [2 ** draw.randrange(14) + draw.randrange(3) for _ in range(3)]
        mine = chosen(table["entries"], *shape)["kernel"]
        assert launcher.plg_kernel(launcher.plg_choose(*shape)).decode() == mine
        seen.add(mine)
    assert seen == set(names)
    for own in SHAPES:
        entry = chosen(table["entries"], *own)
        assert (entry["m"], entry["n"], entry["k"]) == own
    assert launcher.plg_kernel(99) is None


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda a, b, c: (a, b[:, :64], c), "B has 64 along k"),
        (lambda a, b, c: (a.T, b, c), "from one k to the next"),
        (lambda a, b, c: (a.astype(np.float16), b, c), "A is fp16"),
        (lambda a, b, c: (a[None, None], b, c), "4 dimensions"),
        (lambda a, b, c: (np.stack([a, a]), b, c), "3 dimensions"),
        (lambda a, b, c: (a[0], b, c), "are matrices"),
    ],
    ids=["sizes", "transposed", "type", "dimensions", "batches", "vector"],
)
def test_what_the_python_launcher_refuses(
    folder: Path,
    device: Device,
    binding: ModuleType,
    change: Callable[[Array, Array, Array], tuple[Array, Array, Array]],
    part: str,
) -> None:
    a, b, out, _ = operands(33, 70, 72)
    with pytest.raises(binding.LibraryError, match=part):
        binding.Library(folder).gemm(*map(device.holds, change(a, b, out)))
    assert not device.launches()


def test_more_that_the_python_launcher_refuses(
    folder: Path, device: Device, binding: ModuleType, tmp_path: Path
) -> None:
    a, b, out, _ = operands(33, 70, 72)
    with pytest.raises(binding.LibraryError, match="not in the memory of a ROCm GPU"):
        binding.Library(folder).gemm(a, b, out)
    with pytest.raises(binding.LibraryError, match="is no library"):
        binding.Library(tmp_path)
    (tmp_path / "dispatch.json").write_text("{}")
    with pytest.raises(binding.LibraryError, match="has format None"):
        binding.Library(tmp_path)
    none = device.holds(np.zeros((0, 70), np.uint16))
    assert binding.Library(folder).gemm(device.holds(np.zeros((0, 72), "H")), device.holds(b), none)
    shutil.copy(folder / "dispatch.json", tmp_path)
    with pytest.raises(binding.LibraryError, match="cannot read kernels/"):
        binding.Library(tmp_path).gemm(*map(device.holds, (a, b, out)))


def test_what_the_c_launcher_refuses(folder: Path, device: Device, launcher: ctypes.CDLL) -> None:
    a, b, out, _ = operands(33, 70, 72)
    handle = ctypes.c_void_p()
    assert launcher.plg_open(b"lib", b"/nowhere.so", ctypes.byref(handle)) == 3
    assert b"no HIP runtime here" in launcher.plg_message()
    hip = device.hip.place.path.encode()
    assert launcher.plg_open(b"missing", hip, ctypes.byref(handle)) == 0

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
    assert not device.launches()
    launcher.plg_close(handle)
