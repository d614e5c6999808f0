"""Grouped products and routed experts: rows, experts, padding and entries of nothing at random."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.family_cases.drawn import Array, Kind, Problem, awkward, gaps, loop_size
from pipeloom.declare.experts import TOKEN_BITS, grouped, moe_down, moe_up
from pipeloom.drive.trial import Data, Launchable

BLOCK = 64
SLOTS = 3
MADE: tuple[Callable[[], Kind], ...] = (
    lambda: Kind(grouped(BLOCK, 64, 64), "gfx950"),
    lambda: Kind(moe_up(BLOCK, 64, 64, slots=SLOTS), "gfx950"),
    lambda: Kind(moe_down(BLOCK, 64, 64, slots=SLOTS), "gfx950"),
    lambda: Kind(grouped(BLOCK, 64, 32, "fp16", "f32"), "gfx942"),
    lambda: Kind(moe_up(BLOCK, 32, 32, slots=SLOTS), "gfx942"),
    lambda: Kind(moe_up(BLOCK, 64, 64, slots=SLOTS, limit=7.0, shuffled=True), "gfx950"),
    lambda: Kind(moe_down(BLOCK, 64, 64, slots=SLOTS, shuffled=True), "gfx950"),
    lambda: Kind(moe_down(BLOCK, 64, 64, slots=SLOTS, add=True), "gfx950"),
)
KINDS = len(MADE)
"""Different kernels; problems take them in turn."""


def kind_of(number: int) -> Kind:
    """A declaration."""
    return MADE[number]()


def routed(
    rng: np.random.Generator, names: Array, experts: int, padding: tuple[int, ...]
) -> tuple[Array, Array]:
    """``names`` sorted by experts drawn for them, each one's padded to whole blocks; blocks of
    nothing, and of an expert that there is not, among them."""
    of = rng.integers(0, experts, len(names))
    rows, chosen = [], []
    for expert in rng.permutation(experts):
        mine = names[of == expert]
        more = -len(mine) % BLOCK
        filled = np.concatenate([mine, rng.choice(padding, more)])
        rows.append(filled[rng.permutation(len(filled))])
        chosen += [expert] * (len(filled) // BLOCK)
        if rng.random() < 0.3:
            rows.append(rng.choice([*padding, *names[:3]], BLOCK))
            chosen.append(int(rng.choice([-1, experts, experts + 7])))
    return np.concatenate(rows).astype(np.int32), np.array(chosen, np.int32)


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Tokens down to 1, experts without any, ragged columns."""
    depth = loop_size(rng, kernel)
    tokens, experts = int(rng.choice([1, 5, 30, 90])), int(rng.integers(1, 5))
    named = "ids" if kind.loop.name != "grouped" else "rows"
    if named == "rows":
        names = rng.permutation(tokens)[: int(rng.integers(1, tokens + 1))]
        padding: tuple[int, ...] = (-1, tokens, tokens + 1000, -(2**31))
    else:
        slots = np.arange(SLOTS) << TOKEN_BITS
        names = (np.arange(tokens)[:, None] | slots[None, :]).ravel()
        padding = (tokens | SLOTS << TOKEN_BITS, 0xFFFFFF)
    rows, chosen = routed(rng, names, experts, padding)
    pairs = tokens * SLOTS
    sizes = {"m": len(rows), "m_blocks": len(chosen), "e": experts, "d": depth, "k": depth}
    sizes |= {"n": int(rng.choice([1, 33, 64, 70]))}
    sizes |= {"r": tokens} if named == "rows" else {"tokens": tokens, "pairs": pairs}
    meaning = kind.loop.meaning
    source = next(n for n in meaning.inputs if n.at is not None)
    known = {d for n in (*meaning.inputs, *meaning.outputs) for d in n.dims}
    sizes = {d: s for d, s in sizes.items() if d != "tokens" or d in known}
    arrays = {named: rows, "experts": chosen}
    hard = bool(rng.random() < 0.3)
    if hard:
        arrays[source.name] = awkward(rng, tuple(sizes[d] for d in source.dims))
    return Problem(sizes, seed, arrays, gaps(rng, kernel, sizes), Data.INTEGERS)
