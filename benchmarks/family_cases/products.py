"""Products of every type for any K, with what may follow them, on both chips."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.family_cases.drawn import Array, Kind, Problem, awkward, gaps, loop_size
from pipeloom.declare import Loop
from pipeloom.declare.kernels import gemm, gemm_added, gemm_bias, gemm_gate, gemm_scaled
from pipeloom.drive.trial import Data, Launchable
from pipeloom.machine.dtypes import F32, I8, I32


def bytes_of(out: str) -> Loop:
    """Products of i8, as they are or times a factor for each row and column."""
    loop = Loop("bytes", over="k")
    a, b = loop.stream("A", I8, m=32, k=64), loop.stream("B", I8, n=64, k=64)
    total = loop.carry("C", I32, m=32, n=64)
    total += a.staged() @ b.staged()
    if out == "i32":
        loop.store("out", total)
    else:
        rows, columns = loop.resident("rows", F32, m=32), loop.resident("columns", F32, n=64)
        loop.store("out", (total * rows * columns).to(out))
    return loop


MADE: tuple[Callable[[], Kind], ...] = (
    lambda: Kind(gemm(64, 64, 64), "gfx950"),
    lambda: Kind(gemm(32, 64, 32, "fp16", "f32"), "gfx942"),
    lambda: Kind(gemm(32, 32, 16, "f32", "f32"), "gfx950"),
    lambda: Kind(gemm(64, 32, 16, "f32", "bf16"), "gfx942"),
    lambda: Kind(gemm(64, 64, 128, "fp8", "f32"), "gfx950"),
    lambda: Kind(gemm(64, 64, 64, "fp8_fnuz", "f32"), "gfx942"),
    lambda: Kind(bytes_of("i32"), "gfx950"),
    lambda: Kind(bytes_of("i8"), "gfx942"),
    lambda: Kind(bytes_of("bf16"), "gfx950"),
    lambda: Kind(gemm_bias(64, 32, 64, "bf16", activation="gelu"), "gfx950"),
    lambda: Kind(gemm_gate(64, 32, 64), "gfx950", 1),
    lambda: Kind(gemm_scaled(64, 64, 128, scales="rows"), "gfx950"),
    lambda: Kind(gemm(128, 64, 64, "bf16", "f32"), "gfx950", 8),
    lambda: Kind(gemm_added(32, 64, 64), "gfx950", 2),
)
KINDS = len(MADE)
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration."""
    return MADE[number]()


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Sizes down to 0 and 1, any K, infinities, NaN and denormals; of bytes all codes."""
    m, n = (int(size) for size in rng.choice([0, 1, 7, 33, 64, 70], 2))
    sizes = {"m": m, "n": n, "k": loop_size(rng, kernel)}
    sizes |= {dim: int(rng.choice([0, 1, 3, 5])) for dim in kind.loop.meaning.batch}
    arrays: dict[str, Array] = {}
    for node in kind.loop.meaning.inputs:
        name, shape = node.name, tuple(sizes[dim] for dim in node.dims)
        how = rng.random()
        if node.type.dtype == I8:
            arrays[name] = rng.integers(-128, 128, shape)
        elif how < 0.25:
            arrays[name] = awkward(rng, shape)
        elif how < 0.35:
            arrays[name] = rng.standard_normal(shape) * 2.0**-126
    data = Data(str(rng.choice(["integers", "normal"])))
    return Problem(sizes, seed, arrays, gaps(rng, kernel, sizes), data)
