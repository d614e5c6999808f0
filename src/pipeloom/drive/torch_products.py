"""``torch.matmul`` timed on the same product as a kernel: operands that lie as the kernel's do."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from pipeloom.device.laid_arrays import ArrayRule
from pipeloom.device.stopwatch import TimeSpread

NAMES = {"bf16": "bfloat16", "fp16": "float16"}


def torch_product_us(
    rules: Mapping[str, ArrayRule],
    sizes: Mapping[str, int],
    sets: int,
    *,
    device: int,
    runs: int,
    warm_up: int,
    apart: bool,
) -> float | None:
    """The median in microseconds; None for what is no plain product, or without torch or its GPU.

    Launches rotate over as many sets of operands, back to back or ``apart``, as the kernel's do.
    """
    if not _plain(rules) or importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    times = []
    with torch.cuda.device(device):
        operands = [
            (_operand(torch, rules["A"], "m", sizes), _operand(torch, rules["B"], "k", sizes))
            for _ in range(sets)
        ]
        for number in range(warm_up + runs):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            torch.matmul(*operands[number % sets])
            last.record()
            if apart:
                last.synchronize()
            times.append((first, last))
        torch.cuda.synchronize(device)
        return TimeSpread.of([1000 * a.elapsed_time(b) for a, b in times[warm_up:]]).median


def _plain(rules: Mapping[str, ArrayRule]) -> bool:
    """Whether a kernel computes what ``torch.matmul`` does, in the same types."""
    if rules.keys() != {"A", "B", "out"}:
        return False
    dims = [set(rules[name].dims) for name in ("A", "B", "out")]
    types = {rule.dtype for rule in rules.values()}
    return dims == [{"m", "k"}, {"n", "k"}, {"m", "n"}] and types in ({"bf16"}, {"fp16"})


def _operand(torch: Any, rule: ArrayRule, rows: str, sizes: Mapping[str, int]) -> Any:
    """A matrix by its rows, that lies in memory as the kernel has it."""
    batches = [sizes["batches"]] if "batches" in sizes else []
    shape = [*batches, *(sizes[dim] for dim in rule.dims)]
    made = torch.randn(*shape, device="cuda", dtype=getattr(torch, NAMES[rule.dtype]))
    return made if rule.dims[0] == rows else made.mT
