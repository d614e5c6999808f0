"""Decode attention: contexts of any length, pages in any order, splits, several new tokens, caches
of 8 bits with scales, values that are columns of keys.

Keys, values, their scales and table entries that no row may see are NaN, infinities, and pages that
there are not; what rows see is normal, peaked or tiny.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.family_cases.drawn import HARD, Array, Kind, Problem
from pipeloom.declare.decoding import SCALES, decode_attention, decode_latent, decode_reduce
from pipeloom.drive.trial import Data, Launchable
from pipeloom.program import Meaning, NodeKind

DEPTH, TILE = 64, 32
NOWHERE = (-1, 2**31 - 1, -(2**31), 10**6)
"""Entries that name no page."""


def _attention(page: int | None = None, group: int | None = None, dtype: str = "bf16") -> Kind:
    return Kind(decode_attention(16, TILE, DEPTH, dtype=dtype, page=page, group=group), "gfx950", 1)


def _cached(
    scales: str,
    cache: str = "fp8",
    page: int | None = None,
    group: int | None = None,
    dtype: str = "bf16",
    keys: int = TILE,
    arch: str = "gfx950",
) -> Kind:
    made = decode_attention(
        16, keys, DEPTH, dtype=dtype, cache=cache, scales=scales, page=page, group=group
    )
    return Kind(made, arch, 1)


def _latent(
    page: int | None = None,
    group: int | None = None,
    cache: str | None = None,
    scales: str | None = None,
) -> Kind:
    made = decode_latent(16, TILE, DEPTH, 32, cache=cache, scales=scales, page=page, group=group)
    return Kind(made, "gfx950", {"v": 2})


MADE: tuple[Callable[[], Kind], ...] = (
    _attention,
    lambda: _attention(group=2),
    lambda: _attention(page=1),
    lambda: _attention(page=16, group=3),
    lambda: _attention(page=64),
    lambda: _attention(page=8, group=4, dtype="fp16"),
    lambda: _cached("tensor", dtype="fp8", keys=64),
    lambda: _cached("head", page=16),
    lambda: _cached("token", page=1, group=2),
    lambda: _cached("token", page=64),
    lambda: _cached("token", "fp8_fnuz", arch="gfx942"),
    _latent,
    lambda: _latent(page=1, group=2),
    lambda: _latent(page=16, cache="fp8", scales="token"),
    lambda: Kind(decode_reduce(16, DEPTH), "gfx950", 1),
    lambda: Kind(decode_reduce(16, DEPTH), "gfx942", 1),
)
KINDS = len(MADE)


def kind_of(number: int) -> Kind:
    """A declaration."""
    return MADE[number]()


def draw_problem(rng: np.random.Generator, kind: Kind, kernel: Launchable, seed: int) -> Problem:
    """Lengths 0, 1, ragged and too many; tables with entries of nothing, and padding."""
    if kind.loop.name == "decode_reduce":
        return _reduction(rng, seed)
    meaning = kernel.emitted.launch.meaning
    batch, heads, splits = (int(n) for n in rng.integers(1, (4, 3, 5)))
    sizes = {"batch": batch, "heads": heads, "splits": splits, "q": int(rng.integers(1, 17))}
    of_heads = (heads,) if "heads" in meaning.batch else ()
    if not of_heads:
        del sizes["heads"]
    long = kernel.emitted.k_min + 2 * kernel.emitted.k_step - 5  # the loop runs, some of its waits
    keys = int(rng.choice([1, TILE, 3 * TILE - 5, 5 * TILE, long]))
    place = meaning["K"].at
    page = 0 if place is None else place.digits("keys")[-1].count
    width = -(-keys // page) if page else 0
    keys = width * page or keys
    lengths = rng.choice([-2, 0, 1, keys // 2, keys - 1, keys, keys + 9], batch)
    scale = float(rng.choice([1e-30, 1.0, 1.0, 8.0]))
    inside = np.clip(lengths, 0, keys)
    arrays: dict[str, Array] = {"lengths": lengths}
    columns = {one: meaning.tile[one] for one in ("d", "v")}
    if not page:
        sizes |= {"keys": keys, **columns}
        seen = (np.arange(keys) < inside[:, None]).reshape(batch, *[1] * len(of_heads), keys)
        arrays |= _cache(rng, meaning, (batch, *of_heads, keys), seen, scale)
    else:
        pages = batch * width + int(rng.integers(0, 4))
        table = rng.permutation(pages)[: batch * width].reshape(batch, width)
        table[rng.random(table.shape) < 0.1] = rng.choice(NOWHERE)
        used = np.zeros((pages, page), bool)
        for row, length in zip(table, inside, strict=True):
            for at in range(length):
                if 0 <= row[at // page] < pages:
                    used[row[at // page], at % page] = True
            row[-(-length // page) :] = rng.choice([*NOWHERE, 0])
        arrays |= {"table": table}
        arrays |= _cache(rng, meaning, (*of_heads, pages, page), used, scale)
        sizes |= {"table_length": width, "pages": pages, "slots": page, "c": columns["d"]}
        sizes |= {"w" if "V" in arrays else "v": columns["v"]}
    spare = {name: 16 * int(rng.integers(0, 3)) for name in ("Q", "K", "V")}
    spare = {name: more for name, more in spare.items() if name == "Q" or name in arrays}
    return Problem(sizes, seed, arrays, spare, Data.NORMAL)


def _cache(
    rng: np.random.Generator, meaning: Meaning, shape: tuple[int, ...], seen: Array, scale: float
) -> dict[str, Array]:
    """Keys and values, and scales by key or head; anything where nobody looks."""
    found = {}
    for node in meaning.inputs:
        by_key = node.kind is NodeKind.STREAM
        if by_key and node.name in ("K", "V"):
            values = rng.standard_normal((*shape, node.type.shape[-1])).astype(np.float32)
            values *= np.float32(scale if node.name == "K" else 1.0)
            found[node.name] = np.where(seen[..., None], values, rng.choice(HARD, values.shape))
        elif by_key:
            values = rng.uniform(0.1, 4, shape).astype(np.float32)
            found[node.name] = np.where(seen, values, rng.choice(HARD, shape))
        elif node.name in SCALES:
            found[node.name] = rng.uniform(0.1, 4, shape[-3]).astype(np.float32)
    return found


def _reduction(rng: np.random.Generator, seed: int) -> Problem:
    splits, rows = int(rng.integers(1, 6)), int(rng.integers(1, 40))
    lse = rng.standard_normal((splits, rows)).astype(np.float32) * np.float32(rng.choice([1, 40]))
    lse[rng.random(lse.shape) < 0.3] = -np.inf
    parts = rng.standard_normal((splits, rows, DEPTH)).astype(np.float32)
    parts[np.isneginf(lse)] = 0
    sizes = {"splits": splits, "r": rows, "v": DEPTH}
    return Problem(sizes, seed, {"O": parts, "L": lse}, {}, Data.NORMAL)
