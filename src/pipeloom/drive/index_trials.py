"""Index arrays in trials: made up where none are given, and what they must be for a kernel.

An output whose rows an index array names is right only if no row is named twice. That is a property
of the array, which no kernel checks; a trial does, and then expects every element that is named to
be stored, and every other to be left alone.

Rows as a kernel asks for them: a trial lays its arrays out, and so may fill them up.

Wide loads ask that rows begin at whole loads, and that rows which something sums end there. The
first is a matter of leading dimensions. The second is one of zeros, of which a sum of products
knows nothing: arrays of a trial are longer by them, where the kernel asks for no size along there.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.drive.array_places import UNTOUCHED
from pipeloom.judge.emulate import LaunchError
from pipeloom.program.evaluate import stored_times
from pipeloom.program.index_arrays import per_block
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.vocabulary import VOCABULARY
from pipeloom.write import Launch

Array = npt.NDArray[Any]


def made_up_indices(meaning: Meaning, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Every row by itself, of what is chosen the first, and lengths from whole to nothing."""
    blocks, found = per_block(meaning.nodes), {}
    lengths = "" if meaning.span is None else meaning.span.lengths
    for node in meaning.index_arrays:
        shape = tuple(sizes[dim] for dim in node.dims)
        found[node.name] = np.arange(prod(shape), dtype=np.int32).reshape(shape)
        if node.name in blocks:
            found[node.name] = np.zeros(shape, np.int32)
        elif node.name == lengths:
            found[node.name] = np.linspace(sizes[meaning.over], 0, shape[0]).astype(np.int32)
    return found


def check_stored_once(
    meaning: Meaning, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """Which elements are stored, by output, where index arrays decide; none twice."""
    scattered = any(node.at is not None for node in meaning.outputs)
    if not scattered and not per_block(meaning.nodes):
        return {}
    found = stored_times(meaning, arrays, sizes)
    found = {name: times for name, times in found.items() if not meaning[name].adds}
    for node in meaning.outputs:
        if node.adds:
            continue
        if found[node.name].max(initial=0) > 1:
            row = int(np.argwhere(found[node.name] > 1)[0][len(node.batch)])
            source = node.at.entries[0].array if node.at and node.at.entries else node.name
            raise LaunchError(
                f"{source} names row {row} of {node.name} more than once",
                hint="workgroups would store it in any order: name each row once, and let padding "
                "name none",
                field=source,
            )
    return {name: times == 1 for name, times in found.items()}


def overwritten(shown: Array, kept: Array) -> int:
    """Bytes of elements that nobody stores, and that were written nevertheless."""
    codes = np.ascontiguousarray(shown).view(np.uint8).reshape(*shown.shape, shown.itemsize)
    return int((codes[~kept] != UNTOUCHED).sum())


def filled_sizes(launch: Launch, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes with those that loads do not take whole made longer, where zeros change nothing."""
    return {
        dim: size
        if not size % launch.multiples.get(dim, 1) or not _takes_zeros(launch.meaning, dim)
        else -(-size // launch.multiples[dim]) * launch.multiples[dim]
        for dim, size in sizes.items()
    }


def filled(values: Array, node: Node, sizes: Mapping[str, int]) -> Array:
    """An array with zeros up to these sizes."""
    missing = [(0, sizes[d] - n) for d, n in zip(node.dims, values.shape, strict=True)]
    return np.pad(values, missing) if any(more for _, more in missing) else values


def gaps(launch: Launch, sizes: Mapping[str, int]) -> dict[str, int]:
    """Elements between the rows of inputs, so that each begins where loads want it."""
    found = {}
    for node in launch.meaning.inputs:
        step = 8 * launch.pitches.get(node.name, 1) // node.type.dtype.bits
        if step > 1 and node.type.dtype.covers == 1 and len(node.array_dims) > 1:
            found[node.name] = -sizes[node.array_dims[-1]] % step
    return found


def _takes_zeros(meaning: Meaning, dim: str) -> bool:
    """Whether zeros behind the end of all arrays along a dimension change no output.

    What is reduced along it was asked that already, for tiles that reach past the end, or has a
    mask, which knows the size; along the loop, zeros before the arrays were.
    """
    if dim == meaning.over and not meaning.adds_up:
        return False
    for node in meaning.nodes:
        asked = node.kind.is_place and dim in (node.along, *node.type.dims)
        own = node.kind is NodeKind.OP and node.op not in VOCABULARY
        elsewhere = node.at is not None and dim in (*node.dims, *node.type.dims)
        kept = node.kind is NodeKind.OUTPUT and dim in node.dims
        if asked or own or elsewhere or kept or dim in node.outer:
            return False
    return True
