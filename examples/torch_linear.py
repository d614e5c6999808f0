"""The linear layers of a model on a kernel of ours: same weights, same results, gradients too.

    python examples/torch_linear.py            # on a GPU of ROCm, with its build of PyTorch

``torch.compile`` keeps the op as one call. UNTESTED ON HARDWARE: the tests run it on PyTorch's CPU
build against a stand-in for HIP.
"""

from __future__ import annotations

from typing import Any

import torch

import pipeloom as pl


class KernelLinear(torch.nn.Module):
    """A linear layer whose product is an op: ``op(x, weight)``, then the bias."""

    def __init__(self, linear: Any, op: pl.TorchOp) -> None:
        super().__init__()
        self.weight, self.bias, self.op = linear.weight, linear.bias, op

    def forward(self, x: Any) -> Any:
        """Any number of dimensions before the last."""
        rows = self.op(x.reshape(-1, x.shape[-1]), self.weight)
        found = rows.reshape(*x.shape[:-1], self.weight.shape[0])
        return found if self.bias is None else found + self.bias


def swap_linear(model: Any, op: pl.TorchOp) -> int:
    """Put the op into every linear layer of a model; how many there were."""
    count = 0
    for name, child in model.named_children():
        if type(child) is torch.nn.Linear:
            setattr(model, name, KernelLinear(child, op))
            count += 1
        else:
            count += swap_linear(child, op)
    return count


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4096, 11008, bias=False), torch.nn.SiLU(), torch.nn.Linear(11008, 4096)
    ).to("cuda", torch.bfloat16)
    x = torch.randn(2048, 4096, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        expected = model(x)
    arch = torch.cuda.get_device_properties(0).gcnArchName.split(":")[0]
    chip = {"gfx942": "MI300X", "gfx950": "MI355X"}[arch]
    op = pl.torch_op(pl.gemm(2048, 4096, 4096, target=chip).image, "linear")
    print(f"{swap_linear(model, op)} layers on {op}")
    found = torch.compile(model, fullgraph=True)(x)
    print("largest difference", (found - expected).abs().max().item())


if __name__ == "__main__":
    main()
