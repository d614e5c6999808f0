"""The witness of a kernel of ours: assembled, run at a small size, and judged like any other."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pipeloom.drive.checking import KernelFile, check
from pipeloom.judge.emulate import load_code_object
from pipeloom.judge.emulate.arguments import Argument
from pipeloom.write import EmittedKernel, assemble

TRIPS = 4
"""Trips of the loop beyond the least K: they repeat, so that the verdict is for all of them."""


def emitted_witness(emitted: EmittedKernel) -> dict[str, Any]:
    """What the proof of an emitted kernel rests on, at one tile of its outputs and a few trips."""
    launch = emitted.launch
    over = launch.meaning.over
    sizes = dict(launch.tiles) | dict.fromkeys(launch.meaning.batch, 1)
    if over in sizes:
        sizes[over] = launch.least + TRIPS * launch.step
    data = assemble(emitted).data
    kernel = load_code_object(data).kernel(emitted.name)
    rng = np.random.default_rng(0)
    values: dict[str, Argument] = dict(sizes)
    for node in (*launch.meaning.inputs, *launch.meaning.outputs):
        count = prod(sizes[dim] for dim in node.dims) * node.type.dtype.bits // 8
        filled = node.kind.is_input
        values[node.name] = rng.integers(0, 256 if filled else 1, count, dtype=np.uint8)
        values[f"ld_{node.name}"] = launch.pitch(node.name, sizes)
    checked = check(
        KernelFile(kernel, data, f"{emitted.name}.s", emitted.text),
        launch.grid(sizes),
        emitted.block,
        [values.get(argument.name, 1) for argument in emitted.arguments],
        look_for_needless=False,
    )
    return checked.witness()
