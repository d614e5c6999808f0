"""The example that swaps linear layers, on a small transformer layer and the stand-in for HIP."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.device.hip import Hip
from pipeloom.drive.gemm import GemmSpec, gemm_kernel

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
EXAMPLE = Path(__file__).parents[3] / "examples" / "torch_linear.py"


def test_a_transformer_layer_computes_the_same(hip: Hip) -> None:
    swap = runpy.run_path(str(EXAMPLE))["swap_linear"]
    spec = GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False)
    op = pl.torch_op(gemm_kernel(spec), "linear_of_the_example")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128, bias=False),
        torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(128, 64)),
    ).to(torch.bfloat16)
    x = torch.randint(-2, 3, (2, 5, 64)).to(torch.bfloat16)
    expected = model(x)
    assert swap(model, op) == 2
    found = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    assert torch.allclose(found.float(), expected.float(), rtol=2e-2, atol=2e-2)
    found.sum().backward()
    assert model[0].weight.grad.abs().sum() > 0
