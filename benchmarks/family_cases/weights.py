"""Weights of small types: every code, scales and zero points by group, on both chips."""

from __future__ import annotations

import numpy as np

from benchmarks.family_cases.drawn import Kind, Problem, awkward, gaps
from pipeloom.declare.kernels import gemm_weights
from pipeloom.drive.trial import Data, Launchable
from pipeloom.machine.dtypes import dtype_for

KINDS = 12
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration: types, groups shorter and longer than an iteration."""
    rng = np.random.default_rng([26, number])
    arch = str(rng.choice(["gfx950", "gfx950", "gfx942"]))
    small = "fp8" if arch == "gfx950" else "fp8_fnuz"
    depth = int(rng.choice([32, 64, 64, 128]))
    group = int(rng.choice([0, 8, 32, 64, 128]))
    depth = max(depth, group)  # of the others, not every order can be written
    loop = gemm_weights(
        64,
        64,
        depth,
        str(rng.choice(["i4", "u4", "i8", "u8", small])),
        str(rng.choice(["bf16", "fp16"])),
        str(rng.choice(["bf16", "f32"])),
        group=group,
        zeros=bool(group and rng.random() < 0.5),
        scales=str(rng.choice(["f32", "bf16"])),
    )
    return Kind(loop, arch)


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Sizes down to 0 and 1, all codes, A with infinities and NaN at times."""
    meaning = kind.loop.meaning
    covers = meaning["S"].type.dtype.covers
    depth = kernel.emitted.k_min + kernel.emitted.k_step * int(rng.integers(0, 3))
    while depth % covers:
        depth += kernel.emitted.k_step
    m, n = (int(size) for size in rng.choice([0, 1, 7, 40, 64, 70], 2))
    codes = dtype_for(meaning["B"].type.dtype.name)
    every = np.arange(1 << codes.bits).astype(np.uint16)
    every = every[np.isfinite(codes.decode(every))]
    arrays = {"B": codes.decode(rng.choice(every, (n, depth)))}
    groups = max(depth // covers, 1)
    scales = rng.uniform(0.01, 2, (n, groups))
    arrays["S"] = np.repeat(scales, covers, axis=1) if covers > 1 else scales[:, 0]
    if "Z" in meaning:
        arrays["Z"] = np.repeat(rng.integers(-9, 20, (n, groups)), covers, axis=1)
    if rng.random() < 0.3:
        arrays["A"] = awkward(rng, (m, depth))
    return Problem(
        {"m": m, "n": n, "k": depth},
        seed,
        arrays,
        gaps(rng, kernel, {"m": m, "n": n, "k": depth}),
        Data.NORMAL,
    )
