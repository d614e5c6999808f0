"""Products of fp8 with a scale for each 128 of K, and for each 128 x 128 of B."""

from __future__ import annotations

import numpy as np

from benchmarks.family_cases.drawn import Kind, Problem
from pipeloom.declare.kernels import gemm_scaled
from pipeloom.drive.trial import Data, Launchable
from pipeloom.machine.dtypes import dtype_for

BLOCK = 128
MADE = (
    (32, 128, "fp8", "bf16", "gfx950", 2),
    (64, 128, "bf8", "f32", "gfx950", 4),
    (64, 256, "fp8", "fp16", "gfx950", 4),
    (64, 128, "fp8_fnuz", "bf16", "gfx942", 2),
)
KINDS = len(MADE)
"""Different kernels; problems take them in turn."""
ODD = (0.0, -0.0, np.inf, np.nan, 2.0**-140, -3.0)
"""Scales that some problems have among others."""


def kind_of(number: int) -> Kind:
    """A declaration."""
    m, n, dtype, out, arch, waves = MADE[number]
    return Kind(gemm_scaled(m, n, BLOCK, dtype, out, scales="blocks"), arch, waves)


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Sizes down to 0 and 1; every code at times, NaN among them; scales of all sizes."""
    depth = kernel.emitted.k_min + kernel.emitted.k_step * int(rng.integers(0, 3))
    m, n = (int(size) for size in rng.choice([0, 1, 7, 33, 130, 257], 2))
    dtype = dtype_for(kind.loop.meaning["A"].type.dtype.name)
    every = np.arange(1 << dtype.bits).astype(np.uint16)
    small = every[np.abs(np.nan_to_num(dtype.decode(every), nan=1e9, posinf=1e9)) <= 8]
    hard = rng.random() < 0.3
    arrays = {}
    for name, rows in (("A", m), ("B", n)):
        codes = rng.choice(small, (rows, depth))
        if hard:
            codes = np.where(rng.random(codes.shape) < 0.002, rng.choice(every, codes.shape), codes)
        arrays[name] = dtype.decode(codes.astype(np.uint16))
    by_row = rng.uniform(0.1, 2, (m, depth // BLOCK)).astype(np.float32)
    by_block = rng.uniform(0.1, 2, (-(-n // BLOCK), depth // BLOCK)).astype(np.float32)
    if rng.random() < 0.3:
        by_row = np.where(rng.random(by_row.shape) < 0.1, rng.choice(ODD, by_row.shape), by_row)
    arrays["scale_A"] = np.repeat(by_row, BLOCK, axis=1)
    arrays["scale_B"] = np.repeat(by_block[..., None], BLOCK, axis=2)
    return Problem({"m": m, "n": n, "k": depth}, seed, arrays, {}, Data.NORMAL)
