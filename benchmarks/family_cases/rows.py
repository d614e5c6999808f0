"""Rows: softmax, norms, losses and gates, of any length that fits, on both chips."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.family_cases.drawn import (
    Array,
    Kind,
    Problem,
    awkward,
    gaps,
    loop_size,
    whole_loads,
)
from pipeloom.declare import Loop
from pipeloom.declare.kernels import (
    add_rms_norm,
    cross_entropy,
    layer_norm,
    rms_norm,
    softmax,
    top2_gate,
)
from pipeloom.drive.trial import Data, Launchable
from pipeloom.machine.dtypes import I32

MADE: tuple[Callable[[int, int, str, str], Loop], ...] = (
    softmax,
    layer_norm,
    rms_norm,
    add_rms_norm,
    lambda columns, rows, dtype, _: cross_entropy(columns, rows, dtype),
    lambda columns, rows, *_: top2_gate(columns, rows),
)
KINDS = 3 * len(MADE)
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration: its type, its longest row, and how many rows an iteration takes."""
    rng = np.random.default_rng([31, number])
    make = MADE[number % len(MADE)]
    columns, rows = int(rng.choice([64, 128, 256])), int(rng.choice([1, 2, 4]))
    arch = str(rng.choice(["gfx950", "gfx950", "gfx942"]))
    dtype, out = (str(one) for one in rng.choice(["bf16", "fp16", "f32"], 2))
    loop = make(columns, rows, dtype, out)
    return Kind(loop, arch, int(rng.choice([1, rows])))


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Rows of 0 and 1 elements, peaked ones, infinities, NaN and denormals; labels of no column."""
    meaning = kind.loop.meaning
    most = meaning.tile["n"]
    sizes = {
        "b": int(rng.choice([0, 1, 2, 5])),
        "r": loop_size(rng, kernel),
        "n": whole_loads(kernel, "n", int(rng.choice([1, 2, 7, most // 2 + 1, most - 1, most]))),
    }
    arrays: dict[str, Array] = {}
    for node in meaning.inputs:
        shape = tuple(sizes[dim] for dim in node.dims)
        if node.type.dtype == I32:
            arrays[node.name] = rng.integers(-2, sizes["n"] + 2, shape)
        elif (how := rng.random()) < 0.2:
            arrays[node.name] = awkward(rng, shape)
        elif how < 0.4:
            arrays[node.name] = rng.standard_normal(shape) * 30
        elif how < 0.5:
            arrays[node.name] = rng.standard_normal(shape) * 2.0**-127
    data = Data(str(rng.choice(["integers", "normal"])))
    return Problem(sizes, seed, arrays, gaps(rng, kernel, sizes), data)
