"""A kernel of ours judged as others' are: assembled, run at a small size, every access ordered.

The proof of a program says nothing of registers that the writer shares, or of waits that it adds.
This judge knows nothing of programs, so a fault of the writer meets one who does not share it.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pipeloom.drive.checking import Checked, check
from pipeloom.drive.kernel_files import KernelFile
from pipeloom.errors import SpecError
from pipeloom.judge.emulate import load_code_object
from pipeloom.judge.emulate.arguments import Argument
from pipeloom.write import EmittedKernel, assemble
from pipeloom.write.gate import require_proved

TRIPS = 4
"""Trips of the loop beyond the least K: they repeat, so that the verdict is for all of them."""


def emitted_witness(emitted: EmittedKernel, *, allow_timing: bool = False) -> dict[str, Any]:
    """What the proof of an emitted kernel rests on, for other checkers."""
    return require_right(emitted, allow_timing=allow_timing).witness()


def require_right(emitted: EmittedKernel, *, allow_timing: bool = False) -> Checked:
    """The judgement of an emitted kernel at one tile of its outputs and a few trips.

    Raises ``GateError`` unless it is PROVED, or TIMING where that is allowed, and ``SpecError``
    where the kernel could not be judged.
    """
    checked = _judged(emitted)
    if checked.verdict.status.name == "NOT_JUDGED":
        raise SpecError(
            f"{emitted.name} was not judged: {checked.verdict.reason}",
            hint="the emulator runs what this package emits",
        )
    require_proved(
        checked.verdict,
        f"the machine code of {emitted.name}",
        allow_timing=allow_timing,
        hint="its program was proved, so the writer is at fault: report it, with the program",
    )
    return checked


def _judged(emitted: EmittedKernel) -> Checked:
    launch = emitted.launch
    over = launch.meaning.over
    sizes = dict(launch.tiles) | dict.fromkeys(launch.meaning.batch, 1)
    if over in sizes:
        sizes[over] = (launch.least + TRIPS * launch.step) * launch.placing.slices
    data = assemble(emitted).data
    kernel = load_code_object(data).kernel(emitted.name)
    rng = np.random.default_rng(0)
    values: dict[str, Argument] = dict(sizes)
    for node in (*launch.meaning.inputs, *launch.meaning.outputs):
        elements, filled = prod(sizes[dim] for dim in node.dims), node.kind.is_input
        count = elements * (1 if filled else launch.placing.slices) * node.type.dtype.bits // 8
        values[node.name] = rng.integers(0, 256 if filled else 1, count, dtype=np.uint8)
        values[f"ld_{node.name}"] = launch.pitch(node.name, sizes)
        values[f"bs_{node.name}"] = elements
    if emitted.timing is not None:
        values |= emitted.timing.values(launch.grid(sizes))
    return check(
        KernelFile(kernel, data, f"{emitted.name}.s", emitted.text),
        launch.grid(sizes),
        emitted.block,
        [values.get(argument.name, 1) for argument in emitted.arguments],
        look_for_needless=False,
    )
