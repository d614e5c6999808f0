# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return,unused-ignore"
"""Triton and Gluon kernels in one call, compiled here; the compiler's waits are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.drive.checking import check
from pipeloom.drive.correcting import correct
from pipeloom.drive.kernel_files import KernelFile, assembled
from pipeloom.drive.triton_kernels import check_triton, compile_triton
from pipeloom.errors import ConfigError
from pipeloom.judge.check.verdict import CheckKind, CheckStatus
from pipeloom.judge.emulate import load_code_object

pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
triton = pytest.importorskip("triton", reason="the triton wheel is not installed")
import triton.language as tl  # noqa: E402
from triton.experimental import gluon  # noqa: E402
from triton.experimental.gluon import language as gl  # noqa: E402


@triton.jit
def row_sum(x, out, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * n + c, mask=c < n, other=0.0)
    tl.store(out + row, tl.sum(v, axis=0))


@triton.jit
def everyone(out, n):
    tl.store(out, tl.program_id(0) + n)


@gluon.jit
def turned(x, out, N: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [8, 8], [4, 1], [1, 0])
    columns: gl.constexpr = gl.BlockedLayout([4, 1], [8, 8], [1, 4], [0, 1])
    i = gl.arange(0, N, gl.SliceLayout(1, rows))
    j = gl.arange(0, N, gl.SliceLayout(0, rows))
    tile = gl.load(x + i[:, None] * N + j[None, :])
    moved = gl.convert_layout(tile, columns)
    p = gl.arange(0, N, gl.SliceLayout(1, columns))
    q = gl.arange(0, N, gl.SliceLayout(0, columns))
    gl.store(out + q[None, :] * N + p[:, None], moved)


def test_a_reduction_through_lds() -> None:
    x = np.random.default_rng(0).integers(0, 9, (2, 500)).astype(np.float32)
    checked = check_triton(row_sum, (2,), x, np.zeros(2, np.float32), 500, B=512)
    assert checked.verdict.status is CheckStatus.PROVED
    assert checked.verdict.figures["workgroups"] == 2


def test_a_gluon_kernel() -> None:
    x = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    checked = check_triton(turned, (1,), x, np.zeros_like(x), N=32)
    assert checked.verdict.status is CheckStatus.PROVED
    assert checked.study is not None
    assert checked.study.groups[0].pairs


def test_workgroups_that_store_to_one_place() -> None:
    verdict = check_triton(everyone, (2,), np.zeros(4, np.int32), 7).verdict
    assert [finding.kind for finding in verdict.findings] == [CheckKind.WORKGROUPS]
    assert verdict.findings[0].second.line.startswith("everyone.s:")


def test_a_code_object_alone_leads_back_to_the_python_source() -> None:
    args: list[Any] = [np.zeros(4, np.int32), 7]
    file, shared = compile_triton(everyone, args, {}, "gfx950")
    alone = KernelFile(file.kernel, file.data)
    launch: list[Any] = [*args, None, None]
    verdict = check(alone, (2,), (256,), launch, dynamic_lds=shared, seeds=0).verdict
    (finding,) = verdict.findings
    lines = Path(__file__).read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if "tl.store(out, tl.program_id" in line)
    assert finding.second.line == f"{Path(__file__).name}:{number}"


def test_from_triton_to_a_fixed_file() -> None:
    """A barrier is taken out of the compiler's assembly, and put back by ``correct``."""
    x = np.random.default_rng(0).integers(0, 9, (1, 500)).astype(np.float32)
    args: list[Any] = [x, np.zeros(1, np.float32), 500]
    file, shared = compile_triton(row_sum, args, {"B": 512}, "gfx950")
    pytest.importorskip("ziglang", reason="the ziglang wheel is not installed")
    text, data = assembled(file.text.replace("s_barrier", "s_nop 0"))
    broken = KernelFile(load_code_object(data).kernel(), data, "row_sum.s", text)
    launch: list[Any] = [*args, None, None]
    checked = check(broken, (1,), (256,), launch, dynamic_lds=shared, seeds=0)
    assert checked.verdict.status is not CheckStatus.PROVED
    assert correct(checked).checked.verdict.status is CheckStatus.PROVED


@pytest.mark.parametrize(
    ("args", "constants", "field"),
    [
        ((), {"B": 64}, "args"),
        ((np.zeros(4, np.float32), np.zeros(4, np.float32), 4), {}, "constants"),
        ((np.zeros(4, np.float32), np.zeros(4, np.float32), 4), {"B": 64, "C": 1}, "constants"),
        ((np.zeros(4, np.complex64), np.zeros(4, np.float32), 4), {"B": 64}, "types"),
    ],
)
def test_arguments_that_do_not_fit(args: Any, constants: Any, field: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_triton(row_sum, (1,), *args, **constants)
    assert raised.value.field == field


def test_a_plain_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="no jitted function"):
        check_triton(print, (1,))


def test_a_chip_that_is_not_judged() -> None:
    x = np.zeros((2, 500), np.float32)
    with pytest.raises(ConfigError, match="gfx90a") as error:
        check_triton(row_sum, (2,), x, np.zeros(2, np.float32), 500, B=512, arch="gfx90a")
    assert error.value.field == "arch"
