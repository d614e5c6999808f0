"""Attention backward: rows, dK and dV, dQ; causal or not, groups of heads, lengths down to none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.family_cases.drawn import Array, Kind, Problem, gaps
from pipeloom.declare.kernels import (
    attention_backward_added,
    attention_backward_keys,
    attention_backward_queries,
    attention_backward_rows,
)
from pipeloom.drive.trial import Data, Launchable
from pipeloom.machine.dtypes import dtype_for
from pipeloom.order.in_order import in_order

PEAK = 6.0
"""By what some keys exceed others, so that rows have one key that counts."""
MADE: tuple[Callable[[], Kind], ...] = (
    lambda: Kind(attention_backward_rows(64, 64), "gfx950"),
    lambda: Kind(attention_backward_rows(64, 64, "fp16"), "gfx942", 1),
    lambda: Kind(attention_backward_keys(128, 32, 128), "gfx950"),
    lambda: Kind(attention_backward_keys(64, 32, 64, causal=True), "gfx950", 2),
    lambda: Kind(attention_backward_keys(256, 32, 64, causal=True), "gfx950", 8),
    lambda: Kind(attention_backward_keys(32, 32, 128, "fp16", causal=True), "gfx950", 1),
    lambda: Kind(attention_backward_keys(64, 32, 32, "fp16"), "gfx942", 2),
    lambda: Kind(attention_backward_queries(128, 32, 128, causal=True), "gfx950"),
    lambda: Kind(attention_backward_queries(256, 32, 64), "gfx950", 8),
    lambda: Kind(attention_backward_queries(32, 32, 64, "fp16", causal=True), "gfx950", 1),
    lambda: Kind(attention_backward_queries(64, 32, 64, "fp16"), "gfx942", 2),
    lambda: Kind(attention_backward_queries(32, 32, 32, causal=True), "gfx942", 1),
    lambda: Kind(attention_backward_added(256, 32, 128), "gfx950", 4),
    lambda: Kind(attention_backward_added(64, 32, 64, causal=True), "gfx950", 2),
    lambda: Kind(attention_backward_added(32, 32, 64), "gfx950", 1, in_order),
    lambda: Kind(attention_backward_added(32, 32, 32, "fp16", causal=True), "gfx942", 1, in_order),
    lambda: Kind(attention_backward_keys(128, 32, 128), "gfx942", 4, in_order),
)
KINDS = len(MADE)
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration."""
    return MADE[number]()


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Lengths down to none, more keys than queries and fewer, rows with one key that counts."""
    meaning = kind.loop.meaning
    lengths = [0, 1, 5, 31, 33, 70, 100, 230]
    sizes = {dim: int(rng.choice(lengths)) for dim in ("q", "keys") if dim in meaning.tile}
    sizes |= {"batch": 1, "heads": int(rng.integers(1, 3))}
    if any("group" in node.batch for node in meaning.inputs):
        sizes["group"] = int(rng.integers(1, 3))
    tiles = int(rng.integers(1, 9)) if meaning.over == "v" else 2  # few end before the loop
    for dim, tile in meaning.tile.items():
        sizes.setdefault(dim, tiles * tile if dim == "v" else tile)
    arrays: dict[str, Array] = {}
    for node in meaning.inputs:
        shape = tuple(sizes[dim] for dim in node.dims)
        values = rng.normal(size=shape)
        if node.name == "K" and rng.random() < 0.3:
            values *= np.where(rng.random((*shape[:-1], 1)) < 0.1, PEAK, 1.0)
        if node.name == "lse":
            values = np.where(rng.random(shape) < 0.1, -np.inf, values)
        if node.name == "shift":  # of rows whose sum is larger than any of their terms
            values = -np.abs(values) * 8
        arrays[node.name] = dtype_for(node.type.dtype.name).round(values.astype(np.float32))
    spare = gaps(rng, kernel, sizes)
    return Problem(sizes, seed, arrays, spare, Data.NORMAL)
