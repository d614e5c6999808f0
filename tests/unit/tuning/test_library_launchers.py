"""Both launchers choose alike, refuse alike, and their launches run in the emulator.

HIP is a stand-in compiled from C, whose launches come back here and run in the emulator.
"""

from __future__ import annotations

import ctypes
import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pipeloom.declare.gemm_problem import Finish, GemmProblem
from pipeloom.judge.simulate.whole_gpu import Plan
from pipeloom.machine.dtypes import BF16, E8M0, FP4
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
    launcher: ctypes.CDLL,
    binding: ModuleType,
    shape: tuple[int, int, int],
    spare: int,
) -> None:
    a, b, out, expected = operands(*shape, spare)
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
    parts = workspace(device, size)
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
    a, base = shifted(left, shift, spare)
    names = compute_with_both(
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
    write_quickly([tuned_as(GemmProblem(64, 64, 128, layout="NN"), Plan(BLOCK))], tmp_path)
    for k in (72, 71):
        a, right, out, expected = operands(40, 24, k)
        b = np.ascontiguousarray(right.T)
        arrays = {"a": a, "b": b, "out": out}
        names = compute_with_both(tmp_path, device, binding, compile_c, arrays, [a, b], "bf16")
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
        arrays[name], base = shifted(codes[:, ::2] | codes[:, 1::2] << 4, 0, spare)
        bases.append(base)
        scales = rng.choice([0.5, 1, 2], (rows, k // 32)).astype(np.float32)
        arrays[f"blocks_{name}"] = E8M0.encode(scales).astype(np.uint8)
        scaled.append(FP4.round(values) * np.repeat(scales, 32, axis=1))
    arrays["out"] = np.zeros((m, n), np.uint16)
    names = compute_with_both(mx_folder, device, binding, compile_c, arrays, bases, "mxfp4")
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
    launcher, handle = load_launcher(tmp_path, compile_c), ctypes.c_void_p()
    hip = device.library._name.encode()
    assert launcher.plg_open(str(tmp_path).encode(), hip, ctypes.byref(handle)) == 0
    call = Call(m=m, n=n, k=k, batches=2, lda=k, ldb=k, ldout=n, alpha=alpha, beta=beta)
    call.a, call.b, call.out = (array.ctypes.data for array in (a_codes, b_codes, out))
    call.stride_a, call.stride_b, call.stride_out = m * k, n * k, m * n
    call.bias, call.scale_a, call.scale_b = (v.ctypes.data for v in (bias, rows, columns))
    call.workspace_bytes = launcher.plg_workspace_of(ctypes.byref(call))
    assert call.workspace_bytes >= 4 * 2 * 2 * m * n
    call.workspace = workspace(device, call.workspace_bytes)
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
    a, b, out, _ = operands(33, 70, 72)
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
    a, b, out, _ = operands(33, 70, 72)
    with pytest.raises(binding.LibraryError, match=part):
        binding.Library(folder, device.library).gemm(*change(a, b, out), dtype="bf16")
    assert not device.launches


def test_more_that_the_python_launcher_refuses(
    folder: Path, device: Device, binding: ModuleType, tmp_path: Path
) -> None:
    a, b, out, _ = operands(33, 70, 72)
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
    a, b, out, _ = operands(33, 70, 72)
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
