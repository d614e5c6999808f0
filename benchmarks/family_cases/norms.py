"""RMSNorm before a product: squares summed of the tiles that are multiplied, on both chips."""

from __future__ import annotations

import numpy as np

from benchmarks.family_cases.drawn import Kind, Problem, awkward, gaps, loop_size
from pipeloom.declare.kernels import gemm_norm
from pipeloom.drive.trial import Data, Launchable

KINDS = 8
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration: types, depth and what A goes through first."""
    rng = np.random.default_rng([32, number])
    arch = str(rng.choice(["gfx950", "gfx950", "gfx942"]))
    loop = gemm_norm(
        int(rng.choice([32, 64])),
        int(rng.choice([32, 64])),
        int(rng.choice([32, 64])),
        str(rng.choice(["bf16", "fp16"])),
        str(rng.choice(["bf16", "f32"])),
        activation=str(rng.choice(["none", "relu", "silu"])),
    )
    return Kind(loop, arch)


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Sizes down to 0 and 1, rows of zeros, infinities and NaN at times."""
    m, n = (int(size) for size in rng.choice([0, 1, 7, 33, 64, 70], 2))
    sizes = {"m": m, "n": n, "k": loop_size(rng, kernel)}
    arrays = {}
    if (how := rng.random()) < 0.3:
        arrays["A"] = awkward(rng, (m, sizes["k"]))
    elif how < 0.5:
        rows = rng.choice([0.0, 1.0, 1000.0], (m, 1))
        arrays["A"] = rows * rng.standard_normal((m, sizes["k"]))
    scalars = {"inverse": 1 / max(sizes["k"], 1), "eps": float(rng.choice([1e-5, 1.0]))}
    data = Data(str(rng.choice(["integers", "normal"])))
    return Problem(sizes, seed, arrays, gaps(rng, kernel, sizes), data, scalars)
