"""A library's op of PyTorch, from the package as pip installs it, on the stand-in for HIP."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pipeloom.declare.gemm_problem import Finish, GemmProblem
from pipeloom.device.hip import Hip
from pipeloom.errors import ScheduleError
from pipeloom.judge.simulate.whole_gpu import Plan
from pipeloom.tuning.library_package import python_package
from tests.unit.tuning.library_stand import BLOCK, SHAPES, tuned_as, write_quickly

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("setuptools", reason="setuptools builds the package")

BUILD = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"


def whole(*shape: int, seed: int = 0, grad: bool = False) -> Any:
    """Small integers, whose sums are exact."""
    made = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=made).to(torch.bfloat16).requires_grad_(grad)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """What a wheel of the folder holds, and nothing of the folder itself."""
    folder, place = tmp_path_factory.mktemp("library") / "lib", tmp_path_factory.mktemp("site")
    tuned = [tuned_as(GemmProblem(*shape), plan) for shape, plan in SHAPES.items()]
    write_quickly(tuned, folder, name="wheel_gemms", torch=True)
    command = [sys.executable, "-c", BUILD, str(place)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (wheel,) = place.glob("wheel_gemms-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(place)
    folder.rename(folder.with_name("gone"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        yield importlib.import_module("wheel_gemms.ops")


@pytest.mark.parametrize("shape", [*SHAPES, (33, 40, 200)])
def test_every_shape_has_its_kernel(
    hip: Hip, installed: ModuleType, shape: tuple[int, int, int]
) -> None:
    """Of the second, K is cut in three: two kernels, and a workspace of PyTorch's."""
    m, n, k = shape
    a, b = whole(m, k, seed=1), whole(n, k, seed=2)
    assert torch.equal(torch.ops.wheel_gemms.gemm(a, b), a @ b.T)


def test_opcheck_and_compile(hip: Hip, installed: ModuleType) -> None:
    op = installed.gemm
    a, b = whole(8, 64, seed=1, grad=True), whole(16, 64, seed=2, grad=True)
    assert set(torch.library.opcheck(op.overload, (a, b)).values()) == {"SUCCESS"}
    compiled = torch.compile(lambda x, w: torch.relu(op(x, w)), fullgraph=True, backend="eager")
    assert torch.equal(compiled(a, b), torch.relu(a @ b.T))


def test_gradients(hip: Hip, installed: ModuleType) -> None:
    a, b = whole(8, 64, seed=1, grad=True), whole(16, 64, seed=2, grad=True)
    installed.gemm(a, b).sum().backward()
    assert torch.equal(a.grad, b.detach().sum(0, keepdim=True).expand(8, 64))
    assert torch.equal(b.grad, a.detach().sum(0, keepdim=True).expand(16, 64))


def test_what_is_refused(hip: Hip, installed: ModuleType) -> None:
    error = importlib.import_module("wheel_gemms").LibraryError
    with pytest.raises(error, match="along k"):
        installed.gemm(whole(8, 64), whole(16, 128))
    with pytest.raises(error, match="3 dimensions"):
        installed.gemm(whole(2, 8, 64), whole(2, 16, 64))
    with pytest.raises(error, match="does not take the op"):
        importlib.import_module("wheel_gemms").Library().torch_op("gemm", "wheel_gemms")


def test_numbers_and_a_bias(hip: Hip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the folder itself; what it computes beyond the product comes in the records' order."""
    problem = GemmProblem(32, 32, 128, finish=Finish(alpha=True, beta=True, bias=True))
    write_quickly([tuned_as(problem, Plan(BLOCK, 2))], tmp_path, name="finished_gemms", torch=True)
    monkeypatch.syspath_prepend(tmp_path)
    op = importlib.import_module("finished_gemms.ops").gemm
    a, b, c = whole(32, 128, seed=1), whole(32, 128, seed=2), whole(32, 32, seed=3)
    bias = torch.arange(32, dtype=torch.float32) - 16
    expected = (2 * (a.float() @ b.float().T) + 3 * c.float() + bias).to(torch.bfloat16)
    assert torch.equal(op(a, b, C=c, bias=bias, alpha=2.0, beta=3.0), expected)
    with pytest.raises(Exception, match="no derivative"):
        op(a.requires_grad_(), b, C=c, bias=bias, alpha=2.0, beta=3.0).sum().backward()


@pytest.mark.parametrize("name", ["", "1a", "a-b", "A", "torch", "json", "class", "x" * 90])
def test_names_that_python_cannot_have(name: str) -> None:
    with pytest.raises(ScheduleError, match="cannot be called"):
        python_package(name)
