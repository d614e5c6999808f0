"""What a family draws: a declaration, the machine it is for, and problems to try it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.declare import Loop
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import Data, Launchable, Trial, run_program
from pipeloom.program import Program
from pipeloom.write import assemble, emit_program

Array = NDArray[Any]
HARD = (np.nan, np.inf, -np.inf, 0.0, -0.0)
"""What awkward inputs hold beside small whole numbers: with these a sum is the same in any order.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kernel: what it computes, on which chip, by how many waves."""

    loop: Loop
    arch: str
    waves: int = 4

    def program(self) -> Program:
        """Derived and proved."""
        return pipeline(self.loop, self.arch, self.waves)

    def ready(self) -> Launchable:
        """Emitted, assembled and loaded."""
        emitted = emit_program(self.program())
        return Launchable.load(emitted, assemble(emitted))


@dataclass(frozen=True, slots=True)
class Problem:
    """Sizes, data and gaps for one run of a kernel."""

    sizes: Mapping[str, int]
    seed: int
    arrays: Mapping[str, Array] = field(default_factory=dict)
    spare: Mapping[str, int] = field(default_factory=dict)
    """Further elements of rows, full of NaN."""
    data: Data = Data.INTEGERS

    def run(self, kernel: Launchable) -> Trial:
        """In the emulator, against NumPy; nothing outside of the outputs may change."""
        return run_program(
            kernel.emitted,
            kernel,
            sizes=self.sizes,
            seed=self.seed,
            data=self.data,
            arrays=self.arrays,
            spare=self.spare,
        )


def awkward(rng: np.random.Generator, shape: tuple[int, ...], share: float = 0.02) -> Array:
    """Small whole numbers with a few awkward ones among them."""
    values = rng.integers(-3, 4, shape).astype(np.float32)
    chosen = rng.random(shape) < share
    return np.where(chosen, rng.choice(HARD, shape), values).astype(np.float32)
