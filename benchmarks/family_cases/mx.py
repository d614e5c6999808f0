"""Products with block scales, weights and scales shuffled: every code, any rows."""

from __future__ import annotations

import numpy as np

from benchmarks.family_cases.drawn import Kind, Problem, awkward
from pipeloom.declare.kernels import gemm_mx
from pipeloom.drive.trial import Data, Launchable
from pipeloom.machine.dtypes import dtype_for

KINDS = 4
"""Different kernels; problems take them in turn."""
SPARE = 32


def kind_of(number: int) -> Kind:
    """A declaration; sums of exact products, in f32 or rounded."""
    rng = np.random.default_rng([31, number])
    m, n = (int(size) for size in rng.choice([32, 64, 128], 2))
    dtype, out = str(rng.choice(["fp4", "fp8"])), str(rng.choice(["bf16", "f32"]))
    shuffled = bool(rng.random() < 0.75)
    loop = gemm_mx(m, n, 256, dtype, out, shuffled=shuffled)
    return Kind(loop, "gfx950", waves=2)


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Sizes down to 0 and 1; weights in all codes, fp8 ones of A with infinities and NaN."""
    meaning = kind.loop.meaning
    depth = kernel.emitted.k_min + kernel.emitted.k_step * int(rng.integers(0, 3))
    depth = max(depth, 256) // 256 * 256
    m, n = (int(size) for size in rng.choice([0, 1, 7, 33, 64, 130], 2))
    dtype = dtype_for(meaning["A"].type.dtype.name)
    every = np.arange(1 << dtype.bits).astype(np.uint16)
    every = every[np.abs(np.nan_to_num(dtype.decode(every), nan=1e9)) <= 6]
    arrays = {}
    for name, rows in (("A", m), ("B", n)):
        codes = dtype.decode(rng.choice(every, (rows, depth)))
        scales = np.exp2(rng.integers(-6, 7, (rows, depth // 32)))
        arrays[name] = codes
        arrays[f"blocks_{name}"] = np.repeat(scales, 32, axis=1)
    if dtype.bits == 8 and rng.random() < 0.4:
        hard = awkward(rng, (m, depth))
        arrays["A"] = np.where(np.isinf(hard), np.nan, hard)
    for node in (node for node in meaning.inputs if node.at is not None):
        arrays[node.name] = kind.loop.shuffled(node.name, arrays[node.name])
    spare = {"A": SPARE * int(rng.integers(0, 2))}
    return Problem({"m": m, "n": n, "k": depth}, seed, arrays, spare, Data.NORMAL)
