"""Products whose results are quantised by blocks of columns, with a scale for each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.family_cases.drawn import Array, Kind, Problem, awkward, gaps, loop_size
from pipeloom.declare.quantised import gemm_quantised
from pipeloom.drive.trial import Data, Launchable

MADE: tuple[Callable[[], Kind], ...] = (
    lambda: Kind(gemm_quantised(32, 64, 32, block=32), "gfx950", 1),
    lambda: Kind(gemm_quantised(64, 256, 64, out="i8", activation="silu"), "gfx950"),
    lambda: Kind(gemm_quantised(64, 64, 32, "fp16", "fp8_fnuz", block=16), "gfx942", 2),
    lambda: Kind(gemm_quantised(64, 128, 128, "fp8", "bf8", block=64), "gfx950"),
    lambda: Kind(gemm_quantised(64, 128, 64, powers=True), "gfx950", 2),
    lambda: Kind(gemm_quantised(256, 256, 64), "gfx950", 8),
)
KINDS = len(MADE)
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration."""
    return MADE[number]()


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Rows down to none, whole blocks of columns, infinities, NaN and blocks of zeros."""
    (block,) = {node.within.size for node in kind.loop.meaning.nodes if node.within is not None}
    rows, blocks = int(rng.choice([0, 1, 7, 33, 33, 70])), int(rng.choice([0, 1, 1, 2, 3, 5]))
    sizes = {"m": rows, "n": block * blocks, "k": loop_size(rng, kernel)}
    arrays: dict[str, Array] = {}
    for name in ("A", "B"):
        shape = tuple(sizes[dim] for dim in kind.loop.meaning[name].dims)
        how = rng.random()
        if how < 0.2:
            arrays[name] = awkward(rng, shape)
        elif how < 0.4:
            arrays[name] = rng.standard_normal(shape) * (rng.random(shape[:1])[:, None] < 0.5)
    data = Data(str(rng.choice(["integers", "normal"])))
    return Problem(sizes, seed, arrays, gaps(rng, kernel, sizes), data)
