"""The meaning in numbers: what the declaration computes, in NumPy, for any trip count.

This is the yardstick of every judge: the executor, the emulator's runs and the tests compare with
it. Values are rounded to their type wherever they have one; sums are NumPy's, so a kernel that adds
in another order agrees to rounding, and exactly where sums are exact. Integers are exact whatever
their size (``whole_numbers`` says what ops make of them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np

from pipeloom.array_kinds import Array, Places
from pipeloom.errors import ConfigError
from pipeloom.program.added_outputs import add, begin
from pipeloom.program.block_values import evaluate_block, place_tile
from pipeloom.program.index_arrays import (
    check_blocks,
    chosen_indices,
    times_stored,
)
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.problem_spans import Stretch, stretch_of, turns_of
from pipeloom.program.vocabulary import VOCABULARY, Vocabulary


class BlockOutputs(Protocol):
    """What to say of the outputs of one workgroup, one array per iteration, or one."""

    def held(self, output: Node) -> np.dtype[Any]:
        """NumPy's type of what is said of an output."""

    def __call__(
        self,
        scalars: Mapping[str, float],
        ops: Vocabulary,
        meaning: Meaning,
        tiles: Mapping[str, Sequence[Array]],
        trips: int,
    ) -> Mapping[str, list[Array]]:
        """Of so many trips on these tiles."""


def evaluate(
    meaning: Meaning,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, float] | None = None,
    ops: Vocabulary = VOCABULARY,
    sizes: Mapping[str, int] | None = None,
    block: BlockOutputs | None = None,
) -> dict[str, Array]:
    """The outputs for whole arrays: every block of the grid, as many iterations as they take.

    An input array has the dimensions of its tile; sizes need not be multiples of the tile: what
    lies outside reads as zero, and is not stored. Dimensions of one name must agree in size, and
    one that neither the loop nor an output goes along must fit into its tile. ``sizes`` are those
    that no input has: of outputs whose rows are scattered, which are 0 where nothing is stored, or
    what ``arrays`` has of them. ``block`` says something else of each block than its outputs: how
    far they may be off.
    """
    of_block = block or _values_of_block
    sizes = array_sizes(meaning, arrays, sizes or {})
    meaning.check_sizes(sizes)
    _check_outputs(meaning, sizes)
    tiles = meaning.tile  # of dimensions that only outputs have, one tile is all there is
    outputs = {
        node.name: np.zeros(
            [sizes.get(d, tiles.get(d, 1)) for d in node.dims],
            node.type.dtype.held if block is None else block.held(node),
        )
        for node in meaning.outputs
    }
    for node in meaning.outputs:
        if node.name in arrays:
            start = np.asarray(arrays[node.name])
            if node.adds:
                begin(outputs[node.name], start)
            else:
                outputs[node.name][...] = start
    sizes = {**tiles, **dict.fromkeys(meaning.batch, 1), **sizes}
    for index in product(*(range(sizes[d]) for d in meaning.batch)):
        batch = dict(zip(meaning.batch, index, strict=True))
        given = {n.name: arrays[n.name][of_batch(n, batch)] for n in meaning.inputs}
        given |= {n.name: arrays[n.name][of_batch(n, batch)] for n in meaning.index_arrays}
        into = {n.name: _part(outputs[n.name], of_batch(n, batch)) for n in meaning.outputs}
        stretch = _stretch(meaning, batch, sizes, given)
        say = partial(of_block, scalars or {}, ops)
        _evaluate_one(meaning, given, into, sizes, stretch, say)
    return outputs


def _stretch(
    meaning: Meaning,
    problem: Mapping[str, int],
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
) -> Stretch:
    """What the loop goes along in a problem of the batch."""
    size, tile = sizes.get(meaning.over, 0), _step(meaning)
    if meaning.span is None:
        return Stretch(0, -(-size // tile), size)
    return stretch_of(meaning.span, tile, size, problem, sizes, arrays)


def _values_of_block(
    scalars: Mapping[str, float],
    ops: Vocabulary,
    meaning: Meaning,
    tiles: Mapping[str, Sequence[Array]],
    trips: int,
) -> Mapping[str, list[Array]]:
    return evaluate_block(meaning, tiles, trips, scalars, ops)


def _check_outputs(meaning: Meaning, sizes: Mapping[str, int]) -> None:
    scattered = [node for node in meaning.outputs if node.at is not None]
    for dim in (dim for node in scattered for dim in node.dims if dim not in sizes):
        raise ConfigError(
            f"{meaning.name} stores along {dim!r}, whose size no input says",
            hint=f"pass sizes={{{dim!r}: ...}}",
            field=dim,
        )


def of_batch(node: Node, index: Mapping[str, int]) -> tuple[int, ...]:
    """Where a node's array has what belongs to one index of the batch dimensions: of a stream all
    of its turns."""
    return tuple(index[dim] for dim in node.batch if dim in index)


def _evaluate_one(
    meaning: Meaning,
    arrays: Mapping[str, Array],
    outputs: Mapping[str, Array],
    sizes: Mapping[str, int],
    stretch: Stretch,
    of_block: Callable[[Meaning, Mapping[str, Sequence[Array]], int], Mapping[str, list[Array]]],
) -> None:
    own = {**sizes, meaning.over: stretch.size}
    places = range(stretch.first, stretch.first + max(stretch.tiles, 1))
    for block in running_blocks(meaning, sizes, arrays):
        tiles = {n.name: _tiles(meaning, n, arrays, own, block, stretch) for n in meaning.inputs}
        tiles |= {
            n.name: [place_tile(meaning, n, own, block, i) for i in places] * max(stretch.turns, 1)
            for n in meaning.nodes
            if n.kind.is_place
        }
        trips = stretch.tiles * stretch.turns
        for name, values in of_block(meaning, tiles, trips).items():
            for iteration, value in enumerate(values):
                node = meaning[name]
                place = block_slices(meaning, node, block, iteration)
                if node.at is not None:
                    _scatter(node, outputs[name], value, _indices(node, place), sizes, arrays)
                    continue
                part = _part(outputs[name], place)
                inside = value[tuple(slice(0, size) for size in part.shape)]
                if node.adds:
                    add(part, ..., inside)
                else:
                    part[...] = inside


def _part(array: Array, place: tuple[int | slice, ...]) -> Array:
    """A part to write into, of an array without dimensions, too."""
    index: Any = (*place, ...)
    found: Array = array[index]
    return found


def _scatter(
    node: Node,
    output: Array,
    value: Array,
    index: Mapping[str, Places],
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
) -> None:
    """Store a tile where its elements lie; nothing of what lies outside."""
    assert node.at is not None
    at, kept = node.at.located(index, sizes, arrays)
    where = np.broadcast_to(kept, value.shape)
    places = tuple(np.broadcast_to(p, value.shape)[where] for p in at)
    if node.adds:
        add(output, places, value[where])
    else:
        output[places] = value[where]


def _indices(node: Node, place: Sequence[slice]) -> dict[str, Places]:
    return {d: np.arange(s.start, s.stop) for d, s in zip(node.type.dims, place, strict=True)}


def running_blocks(
    meaning: Meaning, sizes: Mapping[str, int], arrays: Mapping[str, Array]
) -> Iterator[dict[str, int]]:
    """The blocks of the grid that have something to do: those for which every choice is inside."""
    choosing = [node for node in meaning.inputs if node.chosen]
    for block in blocks(meaning, sizes):
        if all(chosen_indices(n, block, sizes, arrays) is not None for n in choosing):
            yield block


def stored_times(
    meaning: Meaning, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """How often every element of the outputs is stored; once each, unless places are scattered or
    workgroups end at once."""
    found = {n.name: np.zeros([sizes[d] for d in n.dims], np.int64) for n in meaning.outputs}
    for index in product(*(range(sizes[d]) for d in meaning.batch)):
        batch = dict(zip(meaning.batch, index, strict=True))
        own = {n.name: arrays[n.name][of_batch(n, batch)] for n in meaning.index_arrays}
        running = [
            (block, {d: s for n in meaning.outputs for d, s in _block_indices(meaning, n, block)})
            for block in running_blocks(meaning, sizes, own)
        ]
        for name, times in times_stored(meaning.outputs, running, sizes, own).items():
            found[name][of_batch(meaning[name], batch)] += times
    return found


def _block_indices(
    meaning: Meaning, node: Node, block: Mapping[str, int]
) -> Iterator[tuple[str, Places]]:
    yield from _indices(node, block_slices(meaning, node, block, 0)).items()


def by_element(node: Node, values: Array, sizes: Mapping[str, int]) -> Array:
    """An input with a value for each element, given like that or with one for each of its codes."""
    known = {**sizes, **(node.at.fixed() if node.at is not None else {})}
    dtype, size = node.type.dtype, known.get(node.dims[-1]) if node.dims else None
    codes = None if size is None else -(-size // dtype.covers)
    if dtype.covers == 1 or np.ndim(values) != len(node.dims) or values.shape[-1] != codes:
        return values
    return np.repeat(values, dtype.covers, axis=-1)[..., :size]


def by_elements(meaning: Meaning, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The same of all arrays; those with a code for each element say how many there are."""
    nodes = [node for node in meaning.inputs if node.name in arrays]
    single = [node for node in nodes if node.type.dtype.covers == 1]
    sizes = {d: n for one in single for d, n in zip(one.dims, arrays[one.name].shape, strict=False)}
    return {**arrays, **{n.name: by_element(n, arrays[n.name], sizes) for n in nodes}}


def array_sizes(
    meaning: Meaning, arrays: Mapping[str, Array], given: Mapping[str, int]
) -> dict[str, int]:
    """The size of every dimension, from the input arrays, and of others as given; raises where
    arrays disagree."""
    sizes: dict[str, int] = {}
    for node in (*meaning.inputs, *meaning.index_arrays):
        if node.name not in arrays:
            raise ConfigError(
                f"{meaning.name} needs the array {node.name!r}",
                hint=f"pass one of dimensions {node.dims}",
                field=node.name,
            )
        shape = np.shape(arrays[node.name])
        if len(shape) != len(node.dims):
            raise ConfigError(
                f"{node.name} has shape {shape}, but its dimensions are {node.dims}",
                hint="pass an array with one axis per dimension",
                field=node.name,
            )
        for dim, size in zip(node.dims, shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ConfigError(
                    f"{node.name} has {size} along {dim!r}, another array {sizes[dim]}",
                    hint="arrays that share a dimension must agree on its size",
                    field=node.name,
                )
    found = meaning.all_sizes({**given, **sizes})
    check_blocks(meaning.nodes, meaning.tile, found)
    return found


def blocks(meaning: Meaning, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The grid: the block number along each dimension, the last one fastest."""
    tile = {d: s for n in meaning.outputs for d, s in n.type.sizes.items()}
    counts = [range(-(-sizes[d] // tile[d])) for d in meaning.grid]
    for numbers in product(*counts):
        yield dict(zip(meaning.grid, numbers, strict=True))


def block_slices(
    meaning: Meaning, node: Node, block: Mapping[str, int], iteration: int
) -> tuple[slice, ...]:
    """Where a node's tile of a workgroup and iteration lies in its array."""
    at = {**block, meaning.over: iteration}
    return tuple(
        slice(at.get(d, 0) * s, (at.get(d, 0) + 1) * s)
        for d, s in zip(node.type.dims, node.type.shape, strict=True)
    )


def _tiles(
    meaning: Meaning,
    node: Node,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    block: Mapping[str, int],
    stretch: Stretch,
) -> list[Array]:
    array = arrays[node.name][chosen_indices(node, block, sizes, arrays) or ()]
    if node.kind is not NodeKind.STREAM:
        return [padded_tile(meaning, node, array, block, 0, arrays)]
    first, end = stretch.first, None if meaning.span is None else stretch.size
    places = range(first, first + stretch.tiles)
    turns = array if turns_of(meaning.span) else [array]
    return [
        padded_tile(meaning, node, each, block, i, arrays, end) for each in turns for i in places
    ]


def padded_tile(
    meaning: Meaning,
    node: Node,
    array: Array,
    block: Mapping[str, int],
    iteration: int,
    entries: Mapping[str, Array] | None = None,
    end: int | None = None,
) -> Array:
    """A tile of ``array``, zero where it lies outside, or behind ``end`` along its first dimension;
    ``entries`` are index arrays."""
    slices = block_slices(meaning, node, block, iteration)
    if node.at is not None:
        own = {e.dim: len((entries or {})[e.array]) for e in node.at.entries}
        own |= dict(zip(node.at.dims, array.shape, strict=True))
        tile = node.at.gathered(array, _indices(node, slices), own, entries or {})
    else:
        part = array[slices]
        tile = np.zeros(node.type.shape, np.asarray(array).dtype)
        tile[tuple(slice(0, size) for size in part.shape)] = part
    if end is not None:
        tile[max(end - slices[0].start, 0) :] = 0
    return tile


def _step(meaning: Meaning) -> int:
    """How far one iteration advances along ``over``."""
    sizes = [n.type.sizes[meaning.over] for n in meaning.inputs if meaning.over in n.type.dims]
    return sizes[0] if sizes else 1
