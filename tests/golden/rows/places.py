"""Where tiles lie that are no part of a matrix: maps of shipped kernels, changed in some places,
followed for drawn sizes; and what whole kernels with such tiles compute. A row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from benchmarks.kernel_results import digest
from pipeloom.declare import Loop, kernels
from pipeloom.drive.trial import Data, made_up
from pipeloom.errors import ScheduleError
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import BF16, F32, FP4, FP8, I32
from pipeloom.order.spread import scales
from pipeloom.program.address_maps import AddressMap, CountedDim, IndexedDim
from pipeloom.program.blocked_matrices import blocked_matrix, in_blocks
from pipeloom.program.evaluate import array_sizes, evaluate, stored_times
from pipeloom.program.index_forms import Digit, IndexForm
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.placed_streams import (
    check_placed,
    derived_sizes,
    reads_zeros_past,
    taps_of,
)
from tests.declarations import length_cases
from tests.golden.rows.answers import answers

LOOPS: Mapping[str, Callable[[], Loop]] = {
    "conv2d": lambda: kernels.conv2d(16, 16, 16, pad=1, stride=2),
    "conv2d dilated": lambda: kernels.conv2d(8, 16, 16, 16, taps=(3, 2), dilation=2),
    "conv3d": lambda: kernels.conv3d(16, 16, 16, taps=2, pad=1),
    "conv 1x1": lambda: kernels.conv2d(32, 16, 16, taps=1),
    "pages": lambda: kernels.decode_attention(16, 32, 32, page=16),
    "shuffled": lambda: kernels.gemm_mx(32, 32, 256),
    "experts up": lambda: kernels.moe_up(16, 16, 32),
    "experts up, shuffled": lambda: kernels.moe_up(16, 16, 32, shuffled=True),
    "experts down": lambda: kernels.moe_down(16, 16, 32),
    "experts added": lambda: kernels.moe_down(16, 16, 32, add=True),
    "scattered": lambda: kernels.gemm_scatter(16, 16, 32),
    "caches": lambda: kernels.gemm_rotary(16, 32, 32, scatter=True),
    "added": lambda: kernels.gemm_added(16, 16, 32),
    "grouped": lambda: kernels.grouped(16, 16, 32),
    "lengths": length_cases.CASES[0].declare,
    "shared out": lambda: kernels.decode_attention(16, 16, 32),
}
EACH = 80
TYPES = (BF16, FP8, FP4, F32, I32)


def place_rows() -> dict[str, dict[str, str]]:
    """By kernel: its maps, and the same with a digit, a factor, a tile or a type changed."""
    return {name: dict(_changed(Random(name), make().meaning)) for name, make in LOOPS.items()}


def _changed(rng: Random, meaning: Meaning) -> Iterator[tuple[str, str]]:
    placed = [node for node in meaning.nodes if node.at is not None]
    for number in range(EACH if placed else 0):
        node = rng.choice(placed)
        said: list[str] = []
        try:
            for _ in range(number % 3):
                node = _other(rng, node, meaning.over)
            others = [one for one in placed if one.name != node.name]
            said += _followed(rng, meaning.over, node, others)
            why = "followed"
        except (ScheduleError, KeyError, StopIteration) as error:
            why = " ".join(str(error).split()) or type(error).__name__
        yield f"{number}: {node.type}", f"{digest(str(said))}, {why}"


def _other(rng: Random, node: Node, over: str) -> Node:
    assert node.at is not None
    place, what = node.at, rng.random()
    if what < 0.15:
        return replace(node, align=rng.choice((1, 2, 4, 16)))
    if what < 0.3:
        dtype = rng.choice(TYPES)
        return replace(node, type=replace(node.type, dtype=dtype))
    if what < 0.45:
        shape = tuple(rng.choice((n, 2 * n, n // 2, n + 1)) for n in node.type.shape)
        return replace(node, type=replace(node.type, shape=shape))
    counted, indexed = list(place.counted), list(place.indexed)
    if what < 0.55:
        gone = rng.choice([digit.name for one in counted for digit in one.digits])
        counted = [
            replace(one, digits=tuple(digit for digit in one.digits if digit.name != gone))
            for one in counted
        ]
        indexed = [one for one in indexed if gone not in dict(one.index.factors)]
    elif what < 0.75:
        at = rng.randrange(len(counted))
        digits = list(counted[at].digits)
        which = rng.randrange(len(digits))
        digits[which : which + 1] = _digit(rng, digits[which], place)
        counted[at] = CountedDim(counted[at].dim, tuple(digits))
    elif what < 0.9:
        at = rng.randrange(len(indexed))
        form = indexed[at].index
        names = [digit.name for one in counted for digit in one.digits]
        factors = dict(form.factors) | {rng.choice(names): rng.choice((0, 1, 2, -1))}
        kept = tuple((name, factor) for name, factor in factors.items() if factor)
        form = IndexForm(form.constant + rng.choice((0, 0, -1, 2)), kept)
        indexed[at] = IndexedDim(indexed[at].dim, form)
    elif what < 0.95:
        at = rng.randrange(len(indexed))
        name = rng.choice((*place.dims, *node.type.dims))
        indexed[at] = IndexedDim(name, indexed[at].index)
    else:
        rng.shuffle(rng.choice((counted, indexed)))
    return replace(node, at=AddressMap(tuple(counted), tuple(indexed), place.entries))


def _digit(rng: Random, digit: Digit, place: AddressMap) -> list[Digit]:
    what = rng.randrange(6)
    if what == 0 and digit.along:
        return [replace(digit, more=rng.choice((-2, 1)), step=rng.choice((1, 2)))]
    if what == 1:
        return [replace(digit, along=rng.choice(place.dims), count=0)]
    if what == 2:
        return [Digit("d", rng.choice((1, 2))), digit]
    if what == 3 and digit.count > 1:
        return []
    return [Digit(digit.name, rng.choice((1, 2, 3, 8, 16, 24)))]


def _followed(rng: Random, over: str, node: Node, others: list[Node]) -> Iterator[str]:
    place = node.at
    assert place is not None
    yield f"{node.type} by {place.derived()}, {answers(place)}"
    sizes = {dim: rng.choice((1, 2, 5, 7)) for dim in place.dims} | place.fixed()
    sizes |= {entry.dim: 6 for entry in place.entries}
    yield f"{place.sizes(sizes)}, {place.least_sizes(node.type.sizes)}"
    index = {dim: np.arange(2, 2 + min(n, 9)) for dim, n in node.type.sizes.items()}
    entries = {e.array: np.array([3, 0, -1, 9, 1, 2]) for e in place.entries}
    at, inside = place.located(index, sizes, entries)
    where = [np.broadcast_to(p, np.broadcast_shapes(*(q.shape for q in at))) for p in at]
    yield digest(f"{[p.tolist() for p in where]} {inside.tolist()}")
    shape = [sizes[dim] for dim in place.dims]
    array = np.arange(int(np.prod(shape))).reshape(shape) + 1
    yield digest(str(place.gathered(array, index, sizes, entries).tolist()))
    if over in node.type.dims:
        tile = node.type.sizes[over]
        yield place.span(over, node.type.sizes)
        yield f"{place.form(over, tile).name}, {place.is_matrix(over, tile)}"
    matrix = blocked_matrix(node)
    if matrix is not None:
        yield f"{answers(matrix)} {in_blocks(node, np.arange(35.0 * 300).reshape(35, 300)).shape}"
        rows, columns = np.divmod(np.arange(600), 200)
        yield digest(str([p.tolist() for p in matrix.place(rows * 13, columns)]))
        for op in target_for("gfx950").matrix_ops:
            yield f"{scales(op, node, node.type.shape).numbers}"
    check_placed("loop", over, [*others, node])
    if matrix is None and over in node.type.dims:
        yield f"{taps_of('loop', over, node)}, {reads_zeros_past(over, node)}"
    for share in (1.0, 0.7, 0.4):
        kept = {dim: size for dim, size in sizes.items() if rng.random() < share}
        kept |= {dim: 2 * n for dim, n in node.type.sizes.items() if rng.random() > share}
        yield str(derived_sizes(over, [node], kept))


def value_rows() -> dict[str, dict[str, str]]:
    """By kernel and sizes: what it computes, to three digits, and how often it stores."""
    return {name: dict(_computed(Random(name), make().meaning)) for name, make in LOOPS.items()}


def _computed(rng: Random, meaning: Meaning) -> Iterator[tuple[str, str]]:
    for number in range(6):
        said: list[str] = []
        try:
            said += _values(rng, meaning, _sizes(rng, meaning))
        except ScheduleError as error:
            said.append(" ".join(str(error).split()))
        yield f"{number}", "; ".join(said)


def _sizes(rng: Random, meaning: Meaning) -> dict[str, int]:
    """Sizes that follow from each other, those of what lies elsewhere first."""
    nodes = (*meaning.inputs, *meaning.index_arrays, *meaning.outputs)
    fixed = {d: n for node in nodes if node.at is not None for d, n in node.at.fixed().items()}
    placed = [dim for node in nodes if node.at is not None for dim in node.at.dims]
    last = {node.at.dims[-1] for node in nodes if node.at is not None}
    known: dict[str, int] = {}
    for dim in (*placed, *(dim for node in nodes for dim in node.dims)):
        if dim not in known:
            n = meaning.tile.get(dim, rng.choice((32, 64, 5) if dim in last else (1, 3, 4, 6)))
            size = rng.choice((n, n, max(n - 3, 1), 2 * n + 5)) if dim in meaning.tile else n
            known = meaning.all_sizes({**known, dim: fixed.get(dim, size)})
    return known


def _values(rng: Random, meaning: Meaning, sizes: Mapping[str, int]) -> Iterator[str]:
    arrays: dict[str, Any] = {
        node.name: made_up(node, sizes, rng.randrange(9), Data.INTEGERS) for node in meaning.inputs
    }
    for node in meaning.index_arrays:
        count = [sizes[dim] for dim in node.dims]
        arrays[node.name] = np.array(
            rng.choices((0, 0, 1, 1, 2, 3, -1), k=int(np.prod(count))), np.int32
        ).reshape(count)
    scalars = {node.name: 0.5 for node in meaning.nodes if node.kind is NodeKind.SCALAR}
    with np.errstate(all="ignore"):
        found = evaluate(meaning, arrays, scalars, sizes=sizes)
    for name, array in found.items():
        size = np.abs(array[np.isfinite(array)].astype(np.float64))
        sums = f"{size.sum():.3g}, {size.max(initial=0):.3g}"
        yield f"{name} {array.shape}, {size.size} finite: {sums}"
    times = stored_times(meaning, arrays, array_sizes(meaning, arrays, sizes))
    yield digest(str({name: count.tolist() for name, count in times.items()}))
