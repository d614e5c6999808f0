"""Index arrays in trials: made up where none are given, and what they must be for a kernel.

An output whose rows an index array names is right only if no row is named twice. That is a property
of the array, which no kernel checks; a trial does, and then expects every element that is named to
be stored, and every other to be left alone.
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
