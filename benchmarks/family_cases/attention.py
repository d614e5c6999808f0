"""Attention forward: heads in groups, causal or not, any number of queries and keys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.family_cases.drawn import Array, Kind, Problem, gaps, loop_size
from pipeloom.declare.kernels import attention
from pipeloom.drive.trial import Data, Launchable

MADE: tuple[Callable[[], Kind], ...] = (
    lambda: Kind(attention(64, 32, 64), "gfx950"),
    lambda: Kind(attention(64, 64, 64, causal=True, lse=True), "gfx950"),
    lambda: Kind(attention(32, 32, 128, dtype="fp16", lse=True), "gfx950", 1),
    lambda: Kind(attention(64, 32, 64, causal=True), "gfx942"),
    lambda: Kind(attention(64, 32, 128, 64, lse=True), "gfx942"),
    lambda: Kind(attention(128, 32, 64, causal=True), "gfx950", 8),
)
KINDS = len(MADE)
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration."""
    return MADE[number]()


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """No query, no key, one of each, ragged tiles, more queries than keys, peaked rows."""
    meaning = kind.loop.meaning
    sizes = {
        "batch": int(rng.choice([1, 1, 2])),
        "heads": int(rng.choice([1, 2])),
        "group": int(rng.choice([1, 3])),
        "q": int(rng.choice([0, 1, 30, 64, 70])),
        "keys": loop_size(rng, kernel),
        **{dim: meaning.tile[dim] for dim in ("d", "v")},
    }
    arrays: dict[str, Array] = {}
    if (how := rng.random()) < 0.3:
        for name in "QK":
            shape = tuple(sizes[dim] for dim in meaning[name].dims)
            arrays[name] = rng.standard_normal(shape) * (10 if how < 0.2 else 2.0**-120)
    scalars = {"scale": float(rng.choice([0.125, 1.0, 1e-3]))}
    data = Data(str(rng.choice(["integers", "normal"])))
    return Problem(sizes, seed, arrays, gaps(rng, kernel, sizes), data, scalars)
