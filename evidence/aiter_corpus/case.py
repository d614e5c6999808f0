"""One kernel of the corpus with its launch: what every judge of it takes.

    case = cases("bf16gemm")[0]
    run_kernel(case.kernel, grid=case.grid, block=case.block, args=case.arguments())

Arguments are given by the names that the kernel's own metadata has; their places come from there.
Some kernels list a pointer as a 4-byte value: an array always takes 8 bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate import CodeKernel, PlacedArg, load_code_object

Array = npt.NDArray[Any]
Value = Any

COMMIT = "e4048607a535ace3a2b51ded31b1c8c2d45c0879"
"""The snapshot of ROCm/aiter that figures are given for."""
VARIABLE = "PIPELOOM_AITER"
"""Environment variable: the snapshot's directory, the one that holds ``hsa``."""
BLOCK = (256, 1, 1)


def corpus_root() -> Path | None:
    """Where the snapshot lies; None without it."""
    named = os.environ.get(VARIABLE)
    root = Path(named) / "hsa" / "gfx950" if named else None
    return root if root is not None and root.is_dir() else None


@dataclass(frozen=True)
class Case:
    """A kernel, its launch, and how to tell whether the result is right.

    ``values`` makes the arguments anew (arrays are written to by a run); ``error`` compares them
    after a run with NumPy and gives the largest error in units of what is allowed: at most 1 is
    agreement. None where the family is only run, not compared.
    """

    path: Path
    grid: tuple[int, int, int]
    values: Callable[[], Mapping[str, Value]]
    error: Callable[[Mapping[str, Value]], float] | None = None
    block: tuple[int, int, int] = BLOCK
    slots: tuple[str, ...] = ()
    """Names of the arguments in slots of 16 bytes, where the metadata is not to be trusted."""
    judged: Case | None = None
    """The launch that is judged, where it is another than the one that is run and compared."""

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def kernel(self) -> CodeKernel:
        return load_code_object(self.path).kernel()

    def arguments(self, values: Mapping[str, Value] | None = None) -> list[PlacedArg]:
        """The arguments by their places."""
        given = self.values() if values is None else values
        if self.slots:
            known = {name: (16 * slot, 4) for slot, name in enumerate(self.slots)}
        else:
            listed = self.kernel.explicit_arguments
            known = {argument.name: (argument.offset, argument.size) for argument in listed}
        return place(known, given)


def place(known: Mapping[str, tuple[int, int]], values: Mapping[str, Value]) -> list[PlacedArg]:
    """``values`` at their (offset, size); what is not named is zero, None is a null pointer."""
    placed = []
    for name, value in values.items():
        if name in known:
            offset, size = known[name]
            size = 8 if value is None or isinstance(value, np.ndarray) else size
            placed.append(PlacedArg(offset, size, value, name))
    return placed


def worst(got: Array, want: Array, allowed: float) -> float:
    """The largest difference, in units of ``allowed`` times the largest number wanted."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.isfinite(got).all():
        return float("inf")
    scale = max(float(np.abs(want).max()), 1e-30)
    return float(np.abs(got - want).max()) / (scale * allowed)
