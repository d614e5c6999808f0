"""Convolutions: windows, strides, dilations, edges and channels at random, on both chips."""

from __future__ import annotations

from math import prod

import numpy as np

from benchmarks.family_cases.drawn import Kind, Problem, awkward, gaps
from pipeloom.declare.kernels import conv2d, conv3d
from pipeloom.drive.trial import Data, Launchable
from pipeloom.program.placed_streams import reads_zeros_past

KINDS = 12
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A convolution's declaration."""
    rng = np.random.default_rng([26, number])
    deep = bool(rng.random() < 0.25)
    count = 3 if deep else 2
    taps = [int(n) for n in rng.choice([1, 2, 3] if deep else [1, 3, 3, 5, 7], count)]
    fp8 = bool(rng.random() < 0.2)
    arch = str(rng.choice(["gfx950", "gfx950", "gfx942"]))
    channels = int(rng.choice([8, 16, 24, 32, 64, 128])) * (1 + fp8)
    loop = (conv3d if deep else conv2d)(
        channels,
        64,
        64,
        dtype=("fp8" if arch == "gfx950" else "fp8_fnuz") if fp8 else "bf16",
        taps=taps,
        stride=[int(n) for n in rng.integers(1, 3, count)],
        dilation=[int(n) for n in rng.integers(1, 3, count)],
        pad=[int(n) for n in rng.integers(0, 4, count)],
        bias=bool(rng.random() < 0.5),
        activation=str(rng.choice(["none", "relu", "silu"])),
        residual=bool(rng.random() < 0.3),
    )
    return Kind(loop, arch)


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Sizes of images down to 1, with any number of filters."""
    node = kind.loop.meaning["X"]
    assert node.at is not None
    taps = {one.dim: one.index for one in node.at.checked()}
    sizes = {"images": int(rng.integers(1, 4)), "n": int(rng.choice([1, 7, 40, 64, 70]))}
    for digit in node.at.digits("m")[1:]:
        least = max(1, 1 - digit.more)
        sizes[digit.along] = int(rng.integers(least, least + (4 if len(taps) > 2 else 9)))
    tile = node.type.sizes["k"]
    depth = prod(digit.count for digit in node.at.digits("k"))
    sizes["k"] = -(-depth // tile) * tile
    if reads_zeros_past("k", node):
        sizes["k"] += kernel.emitted.launch.step * int(rng.choice([0, 0, 3]))
    whole = kind.loop.meaning.all_sizes(sizes)
    arrays = {}
    hard = bool(rng.random() < 0.3)
    if hard:
        arrays["X"] = awkward(rng, tuple(whole[dim] for dim in node.dims))
    return Problem(
        whole,
        seed,
        arrays,
        gaps(rng, kernel, whole),
        Data.INTEGERS if hard else Data(str(rng.choice(["integers", "normal"]))),
    )
