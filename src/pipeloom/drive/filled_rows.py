"""Rows as a kernel asks for them: a trial lays its arrays out, and so may fill them up.

Wide loads ask that rows begin at whole loads, and that rows which something sums end there. The
first is a matter of leading dimensions. The second is one of zeros, of which a sum of products
knows nothing: arrays of a trial are longer by them, where the kernel asks for no size along there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.program import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.vocabulary import VOCABULARY
from pipeloom.write import Launch


def filled_sizes(launch: Launch, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes with those that loads do not take whole made longer, where zeros change nothing."""
    return {
        dim: size
        if not size % launch.multiples.get(dim, 1) or not _takes_zeros(launch.meaning, dim)
        else -(-size // launch.multiples[dim]) * launch.multiples[dim]
        for dim, size in sizes.items()
    }


def filled(values: NDArray[Any], node: Node, sizes: Mapping[str, int]) -> NDArray[Any]:
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
