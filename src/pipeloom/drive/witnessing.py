"""The witness of a kernel of ours: assembled, run at a small size, and judged like any other."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeloom.drive.checking import KernelFile, check
from pipeloom.errors import SpecError
from pipeloom.judge.emulate import load_code_object
from pipeloom.judge.emulate.arguments import Argument
from pipeloom.write import EmittedKernel, assemble

TRIPS = 4
"""Trips of the loop beyond the least K: they repeat, so that the verdict is for all of them."""
_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "f32": 4}


def emitted_witness(emitted: EmittedKernel) -> dict[str, Any]:
    """What the proof of an emitted GEMM rests on, at one tile of C and a few trips."""
    shape = emitted.geometry
    if shape is None:
        raise SpecError(
            f"{emitted.name} is no GEMM, so that its launch is not known",
            hint="write its witness with: pipeloom check K.hsaco --launch LAUNCH.json --witness",
        )
    m, n, k = shape.BM, shape.BN, emitted.k_min + TRIPS * emitted.k_step
    data = assemble(emitted).data
    kernel = load_code_object(data).kernel(emitted.name)
    rng = np.random.default_rng(0)

    def random(elements: int, name: str) -> Argument:
        return rng.integers(0, 256, elements * _BYTES[name], dtype=np.uint8)

    inputs = [random(m * k, emitted.dtype), random(n * k, emitted.dtype)]
    out = np.zeros(m * n * _BYTES[emitted.out_dtype], np.uint8)
    checked = check(
        KernelFile(kernel, data, f"{emitted.name}.s", emitted.text),
        emitted.grid(m, n),
        emitted.block,
        [*inputs, out, m, n, k, k, k, n],
        look_for_needless=False,
    )
    return checked.witness()
