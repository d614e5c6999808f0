"""Projections of heads: rotated by position, and rows of caches that an index array names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.family_cases.drawn import Array, Kind, Problem, awkward, gaps, loop_size
from pipeloom.declare.rotary import gemm_rotary, gemm_scatter
from pipeloom.drive.trial import Data, Launchable

MADE: tuple[Callable[[], Kind], ...] = (
    lambda: Kind(gemm_rotary(32, 32, 64), "gfx950", 2),
    lambda: Kind(gemm_rotary(32, 32, 32, pairs="neighbours", scatter=True), "gfx950", 1),
    lambda: Kind(gemm_rotary(32, 64, 64, "fp16", "fp16", scatter=True, tables="bf16"), "gfx942", 2),
    lambda: Kind(gemm_rotary(64, 64, 128, "fp8", pairs="neighbours"), "gfx950"),
    lambda: Kind(gemm_scatter(32, 64, 32), "gfx950", 2),
    lambda: Kind(gemm_rotary(32, 64, 32, norm=True, scatter=True), "gfx950", 2),
    lambda: Kind(gemm_rotary(128, 128, 64, scatter=True), "gfx950", 8),
)
KINDS = len(MADE)
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration."""
    return MADE[number]()


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Rows down to none, heads of a whole tile or of none, slots of nothing among the others."""
    meaning = kind.loop.meaning
    rows, heads = int(rng.choice([0, 1, 7, 33, 33, 70])), int(rng.choice([0, 1, 1, 2, 2, 3]))
    sizes = {"m": rows, "heads": heads, "d": meaning.tile["d"], "k": loop_size(rng, kernel)}
    arrays: dict[str, Array] = {}
    if meaning.index_arrays:
        sizes["rows"] = rows + int(rng.integers(rows == 0, 9))
        slots = rng.permutation(max(sizes["rows"], rows))[:rows]
        nothing = rng.choice([-1, sizes["rows"], -(2**31), sizes["rows"] + 1000], rows)
        arrays["slots"] = np.where(rng.random(rows) < 0.2, nothing, slots).astype(np.int32)
    for name in [one.name for one in meaning.inputs]:
        if rng.random() < 0.2:
            shape = tuple(sizes[dim] for dim in meaning[name].dims)
            arrays[name] = awkward(rng, shape)
    data = Data(str(rng.choice(["integers", "normal"])))
    return Problem(sizes, seed, arrays, gaps(rng, kernel, sizes), data)
