"""What a family draws: a declaration, the machine it is for, and problems to try it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.declare import Loop
from pipeloom.drive.any_size import emit_any_size
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import SPARE, Data, Launchable, Trial, run_program
from pipeloom.order.strategy import Strategy
from pipeloom.program import NodeKind, Program
from pipeloom.program.blocked_matrices import blocked_matrix
from pipeloom.write import assemble

Array = NDArray[Any]
HARD = (np.nan, np.inf, -np.inf, 0.0, -0.0)
"""What awkward inputs hold beside small whole numbers: with these a sum is the same in any order.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kernel: what it computes, on which chip, by how many waves."""

    loop: Loop
    arch: str
    waves: int | Mapping[str, int] = 4
    otherwise: Strategy | None = None
    """Who orders a loop that is not woven."""

    def program(self) -> Program:
        """Derived and proved."""
        return pipeline(self.loop, self.arch, self.waves, otherwise=self.otherwise)

    def ready(self) -> Launchable:
        """Emitted, assembled and loaded."""
        return ready(self.program())


@dataclass(frozen=True, slots=True)
class Problem:
    """Sizes, data and gaps for one run of a kernel."""

    sizes: Mapping[str, int]
    seed: int
    arrays: Mapping[str, Array] = field(default_factory=dict)
    spare: Mapping[str, int] = field(default_factory=dict)
    """Further elements of rows, full of NaN."""
    data: Data = Data.INTEGERS
    scalars: Mapping[str, float] = field(default_factory=dict)

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
            scalars=self.scalars,
        )


def ready(program: Program) -> Launchable:
    """Emitted for any size where it can be, assembled and loaded."""
    emitted = emit_any_size(program)
    return Launchable.load(emitted, assemble(emitted))


def loop_size(rng: np.random.Generator, kernel: Launchable) -> int:
    """A size along the loop that a kernel takes: none, a few, or so many trips that what one
    leaves behind is met by another."""
    launch = kernel.emitted.launch
    trips = int(rng.choice([0, 1, 2, 5]))
    if launch.meaning.ragged or launch.placing.ragged:
        size = int(rng.integers(0, launch.least + trips * launch.step + 1))
        return whole_loads(kernel, launch.meaning.over, size)
    return launch.least + launch.step * trips


def whole_loads(kernel: Launchable, dim: str, size: int) -> int:
    """The next size along a dimension that loads take."""
    return size + -size % kernel.emitted.launch.multiples.get(dim, 1)


def gaps(rng: np.random.Generator, kernel: Launchable, sizes: Mapping[str, int]) -> dict[str, int]:
    """Elements behind the rows of inputs, so many that rows are aligned as the kernel wants, and
    behind those of outputs, which are stored wide only where they are aligned."""
    found, meaning = {}, kernel.emitted.launch.meaning
    sizes = meaning.all_sizes(sizes)
    for node in (*meaning.inputs, *meaning.outputs):
        if blocked_matrix(node):
            continue  # blocks lie together
        bits, last = node.type.dtype.bits, -(-sizes[node.array_dims[-1]] // node.type.dtype.covers)
        whole = max(8 * node.align // bits, 1)
        found[node.name] = -last % whole + whole * int(rng.integers(0, 2))
        if node.kind is NodeKind.OUTPUT and rng.random() < 0.4:
            found[node.name] = SPARE
    return found


def awkward(rng: np.random.Generator, shape: tuple[int, ...], share: float = 0.02) -> Array:
    """Small whole numbers with a few awkward ones among them."""
    values = rng.integers(-3, 4, shape).astype(np.float32)
    chosen = rng.random(shape) < share
    return np.where(chosen, rng.choice(HARD, shape), values).astype(np.float32)
