"""Matrix instructions of a wave, carried out together.

What a matrix instruction computes concerns nobody but its wave, and nobody looks before some other
instruction, or a load that lands, touches one of the registers. Until then a wave only holds its
products; then those that do not depend on each other are one array operation. Which these are
depends on the sequence alone and is worked out once per sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from pipeloom.array_kinds import Array, Indices, Words
from pipeloom.judge.emulate.matrix_layout import Shape
from pipeloom.judge.emulate.register_numbers import LANES
from pipeloom.judge.emulate.wave import Wave

MOST_HELD = 256
"""Products that a wave holds back; more save nothing."""

Scale = Callable[[Wave], Words]
"""Reads the E8M0 codes of an operand, one per lane."""

_E8M0 = np.append(np.exp2(np.arange(255.0) - 127), np.nan).astype(np.float32)
_BLOCK = 32
"""Elements along K that share a scale, wherever the registers hold them."""


@dataclass(frozen=True, slots=True)
class BatchKind:
    """All that instructions of one batch have in common."""

    shape: Shape
    places_a: Indices
    places_b: Indices


@dataclass(frozen=True, slots=True, eq=False)
class BatchProduct:
    """One matrix instruction: rows of the register file, or a constant addend.

    ``reads`` and ``writes`` are register sets; instructions with equal ``key`` are of one kind.
    """

    key: tuple[Any, ...]
    kind: BatchKind
    a: int
    b: int
    d: int
    c: int | None
    constant: Array
    scales: tuple[Scale, Scale] | None
    reads: int
    writes: int


def hold(wave: Wave, product: BatchProduct) -> None:
    """The wave executes ``product``: its arithmetic is put off."""
    if len(wave.products) >= MOST_HELD:
        carry_out(wave)
    wave.products.append(product)
    wave.held |= product.reads | product.writes


def carry_out(wave: Wave) -> None:
    """Compute what the wave holds: its registers are then as the program says."""
    plan = _plan(tuple(wave.products))
    wave.products.clear()
    wave.held = 0
    for batch in plan:
        batch(wave)


@lru_cache(maxsize=512)
def _plan(products: tuple[BatchProduct, ...]) -> tuple[Callable[[Wave], None], ...]:
    """Batches in an order that respects every dependence."""
    waiting = list(products)
    batches: list[Callable[[Wave], None]] = []
    while waiting:
        ready: dict[tuple[Any, ...], list[BatchProduct]] = {}
        later: list[BatchProduct] = []
        read = written = 0
        for product in waiting:
            if written & (product.reads | product.writes) or read & product.writes:
                later.append(product)
            else:
                ready.setdefault(product.key, []).append(product)
            read |= product.reads
            written |= product.writes
        batches += [_batch(chosen) for chosen in ready.values()]
        waiting = later
    return tuple(batches)


def _batch(products: Sequence[BatchProduct]) -> Callable[[Wave], None]:
    first = products[0]
    shape, places_a, places_b = first.kind.shape, first.kind.places_a, first.kind.places_b
    a_places, a_chosen = _fragments([p.a for p in products], places_a)
    b_places, b_chosen = _fragments([p.b for p in products], places_b)
    d_rows = _rows([p.d for p in products], shape.words_d)
    c_rows = None
    if first.c is not None:
        c_rows = _rows([p.c for p in products if p.c is not None], shape.words_d)
    constant = first.constant
    order = shape.row_order()
    scales = [p.scales for p in products if p.scales is not None]

    def run(wave: Wave) -> None:
        v = wave.v
        words = v.reshape(-1)
        left = shape.operand(shape.a, words.take(a_places))
        right = shape.operand(shape.b, words.take(b_places))
        left = left if a_chosen is None else left.take(a_chosen, axis=0)
        right = right if b_chosen is None else right.take(b_chosen, axis=0)
        if scales:
            left = _scaled(left, [read(wave) for read, _ in scales], order)
            right = _scaled(right, [read(wave) for _, read in scales], None)
        addend = constant if c_rows is None else shape.addend(v[c_rows])
        v[d_rows] = shape.result_words(left @ right.swapaxes(-1, -2), addend)

    return run


def _rows(first: Sequence[int], words: int) -> slice | Indices:
    """The registers of each operand in turn: a slice where they are neighbours."""
    if list(first) == list(range(first[0], first[0] + words * len(first), words)):
        return slice(first[0], first[0] + words * len(first))
    return (np.array(first)[:, None] + np.arange(words)).ravel()


def _fragments(first: Sequence[int], places: Indices) -> tuple[Indices, Indices | None]:
    """Words of the distinct fragments, and which of them each product takes (None: in turn)."""
    distinct = sorted(set(first))
    chosen = None if list(first) == distinct else np.array([distinct.index(a) for a in first])
    return np.array(distinct)[:, None] * LANES + places, chosen


def _scaled(values: Array, codes: list[Words], order: Indices | None) -> Array:
    """Block scales: a byte of lane l scales K block l // side of row l % side (E8M0, bias 127)."""
    count, _, side, depth = values.shape
    each = np.stack([np.broadcast_to(code, (LANES,)) for code in codes])
    powers = _E8M0[each[:, : depth // _BLOCK * side]].reshape(count, -1, side).swapaxes(1, 2)
    if order is not None:
        powers = powers[:, order]
    scaled: Array = values.reshape(count, side, -1, _BLOCK) * powers[..., None]
    return scaled.reshape(values.shape)
