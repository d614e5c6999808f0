"""Who runs the kernels of a trial: the emulator here, a device in ``on_gpu``.

    InEmulator(contract, {name: (kernel, line_map)}, seed=3)(arrays, {"alpha": 0.5}).findings

A runner launches what the record of a kernel says, one kernel or several, with arrays of NumPy as
they lie in memory, gaps included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeloom.device.sequence import APART, LaunchStep, operand_rules, planned
from pipeloom.device.tensors import TensorView, view_of
from pipeloom.judge.emulate import CodeKernel, Defect, PlacedArg, PointerInto, Timing, run_kernel
from pipeloom.machine.source_lines import LineMap

Array = npt.NDArray[Any]

ADDRESS = 8
"""Bytes."""
UNSET = 0xFF
"""What a workspace holds before: NaN, as floats."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What launches did, beside their results."""

    spoilt: int = 0
    """Bytes that they wrote around the arrays."""
    findings: tuple[Defect, ...] = ()
    """What the emulator saw go wrong."""
    executed: int = 0
    """Instructions that it executed, over all waves."""


Runner: TypeAlias = Callable[[Mapping[str, Array], Mapping[str, float]], Launched]
"""Launches a kernel with its arrays and numbers, by name."""


@dataclass(frozen=True, slots=True)
class InEmulator:
    """Every array in memory of its own, so that any access past what it is a view of is a finding.

    So is each part of the workspace. ``excess`` are workgroups too many along x, y and z.
    """

    record: Mapping[str, Any]
    kernels: Mapping[str, tuple[CodeKernel, LineMap]]
    seed: int = 0
    timing: Timing = Timing.RANDOM
    check_races: bool = True
    excess: tuple[int, int, int] = (0, 0, 0)

    def __call__(self, arrays: Mapping[str, Array], scalars: Mapping[str, float]) -> Launched:
        """Launch; ``DeviceError`` for what the kernels cannot compute."""
        given = {n: arrays[n] for n in operand_rules(self.record) if n in arrays}
        views = {name: view_of(array, name) for name, array in given.items()}
        placed = {name: replace(view, address=APART) for name, view in views.items()}
        plan = planned(self.record, placed, scalars)
        own = {view.address: _memory(arrays[name], view) for name, view in views.items()}
        held = {name: own[view.address] for name, view in views.items()}  # C and out are one
        workspace = {at: np.full(size, UNSET, np.uint8) for at, size in plan.parts}
        findings: tuple[Defect, ...] = ()
        executed = 0
        for step in plan.steps:
            kernel, line_map = self.kernels[step.kernel]
            result = run_kernel(
                kernel,
                grid=[n + more for n, more in zip(step.grid, self.excess, strict=True)],
                block=step.block,
                args=_arguments(step, held, workspace),
                seed=self.seed,
                timing=self.timing,
                line_map=line_map,
                check_races=self.check_races,
            )
            findings += result.findings
            executed += result.executed
        return Launched(0, findings, executed)


def _memory(array: Array, view: TensorView) -> Array:
    """The bytes from an array's first element to the end of what it is a view of."""
    owner: Any = array
    while owner.base is not None:
        owner = owner.base
    octets: Array = owner.ravel(order="K").view(np.uint8)
    return octets[view.address - owner.ctypes.data :]


def _arguments(
    step: LaunchStep, held: Mapping[str, Array], workspace: Mapping[int, Array]
) -> list[PlacedArg]:
    """Pointers, and the numbers between them."""
    found, at = [], 0
    for one in sorted(step.pointers, key=lambda pointer: pointer.offset):
        found.append(PlacedArg(at, one.offset - at, step.arguments[at : one.offset]))
        if one.array is None:
            begin = max(place for place in workspace if place <= one.more)
            value = PointerInto(workspace[begin], one.more - begin)
        else:
            value = PointerInto(held[one.array], one.more)
        found.append(PlacedArg(one.offset, ADDRESS, value, one.array or "the workspace"))
        at = one.offset + ADDRESS
    found.append(PlacedArg(at, len(step.arguments) - at, step.arguments[at:]))
    return [one for one in found if one.size]
