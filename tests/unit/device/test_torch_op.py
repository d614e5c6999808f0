"""Kernels as ops of PyTorch, on the stand-in: its CPU build, whose tensors are copied there."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.declare.gemm_problem import Finish
from pipeloom.device.hip import Hip
from pipeloom.drive.gemm import Gemm, GemmSpec, gemm_kernel

pytestmark = pytest.mark.usefixtures("short_search")

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")


@cache
def product(**options: Any) -> Gemm:
    tile = {"BM": 32, "BN": 32, "BK": 64, "waves_m": 2, "waves_n": 2, "search": False}
    return gemm_kernel(GemmSpec(**{**tile, **options}))


@cache
def op(name: str, **options: Any) -> pl.TorchOp:
    """An op's name is taken once in a process."""
    return pl.torch_op(product(**options), name)


def whole(*shape: int, seed: int = 0, grad: bool = False) -> Any:
    """Small integers, whose sums are exact."""
    made = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-3, 4, shape, generator=made).to(torch.bfloat16)
    return numbers.requires_grad_(grad)


@pytest.mark.parametrize("options", [{}, {"splits": 3}, {"align": 2}])
def test_it_computes_the_product(hip: Hip, options: dict[str, Any]) -> None:
    made = op("_".join(["product", *options]), **options)
    a, b = whole(33, 200, seed=1), whole(40, 200, seed=2)
    found = made(a, b)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, a @ b.T)


def test_a_transposed_input_is_made_contiguous(hip: Hip) -> None:
    a, b = whole(200, 33, seed=1).T, whole(40, 200, seed=2)
    assert torch.equal(op("product")(a, b), a @ b.T)


def test_opcheck(hip: Hip) -> None:
    """Schema, fake, autograd and dispatch, as PyTorch's own test has them."""
    a, b = whole(8, 64, seed=1, grad=True), whole(16, 64, seed=2, grad=True)
    results = torch.library.opcheck(op("product").overload, (a, b))
    assert set(results.values()) == {"SUCCESS"}


def test_compiled_as_one_op(hip: Hip) -> None:
    made = op("product")

    def layer(x: Any, w: Any) -> Any:
        return torch.relu(made(x, w)) + 1

    seen: list[str] = []

    def backend(module: Any, inputs: Any) -> Any:
        seen.extend(str(n.target) for n in module.graph.nodes if n.op == "call_function")
        return module

    a, b = whole(8, 64, seed=1), whole(16, 64, seed=2)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    assert torch.equal(compiled(a, b), torch.relu(a @ b.T) + 1)
    assert sum("pipeloom" in target for target in seen) == 1


def test_the_derivative_is_that_of_the_product(hip: Hip) -> None:
    made = op("scaled", finish=Finish(alpha=True))
    a, b = whole(8, 64, seed=1, grad=True), whole(16, 64, seed=2, grad=True)
    made(a, b, 2.0).sum().backward()
    x, y = a.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()
    (2 * (x @ y.T)).sum().backward()
    assert torch.equal(a.grad, x.grad)
    assert torch.equal(b.grad, y.grad)


def test_batches_go_through(hip: Hip) -> None:
    made = op("batched", batched=True)
    a, b = whole(2, 8, 64, seed=1, grad=True), whole(2, 16, 64, seed=2)
    found = made(a, b)
    assert torch.equal(found, a @ b.transpose(1, 2))
    found.sum().backward()
    assert torch.equal(a.grad, b.sum(1, keepdim=True).expand(2, 8, 64))


def test_another_kernel_has_no_derivative(hip: Hip) -> None:
    """A bias is no product: what it would be is not guessed."""
    made = op("biased", finish=Finish(bias=True))
    a, b = whole(8, 64, seed=1, grad=True), whole(16, 64, seed=2)
    found = made(a, b, torch.ones(16))
    assert torch.equal(found, (a @ b.T) + 1)
    with pytest.raises(pl.DeviceError, match="no derivative"):
        found.sum().backward()


def test_what_is_refused(hip: Hip) -> None:
    op("product")
    with pytest.raises(pl.DeviceError, match="does not take the op"):
        pl.torch_op(product(), "product")
    with pytest.raises(pl.DeviceError, match="A is f32"):
        op("product")(torch.zeros(8, 64), whole(16, 64))
    with pytest.raises(pl.DeviceError, match="along k"):
        op("product")(whole(8, 64), whole(16, 128))


def test_codes_have_no_derivative(hip: Hip) -> None:
    """They are no numbers: a gradient of them would be taken of their bits."""
    a, b = whole(8, 64, seed=1, grad=True), whole(16, 64, seed=2)
    found = op("product")(a, b.view(torch.uint16))
    assert torch.equal(found, a @ b.T)
    with pytest.raises(pl.DeviceError, match="given as codes"):
        found.sum().backward()
