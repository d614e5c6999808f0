"""Ops within blocks: of so many neighbours along a dimension, each seen together, alone.

    swapped      the halves of each block change places: the partner of a rotary pair
    block_max    the largest of its block, once for all of its elements: what a scale is made of

A result has the dimensions of its operand, and nothing is reduced. So parts of the work are boxes
of the result, as for any op element by element, but for one thing: they end where blocks do. Tiles
are whole blocks, and so are arrays: what lies past an end has nothing to do with what lies before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import lcm

from pipeloom.errors import ConfigError, GraphError
from pipeloom.program.nodes import Node
from pipeloom.program.tiles import Box
from pipeloom.program.vocabulary import InBlocks, OpDef


def check_block_op(node: Node, op: OpDef, operand: Node, over: str) -> None:
    """Raise for a node that says nothing of blocks though its op works in them, or cannot."""
    within = node.within
    if (within is not None) != (op.in_blocks is not None):
        raise node.wrong(
            f"is {op.name!r} of {'no' if within is None else 'some'} blocks",
            hint="ops within blocks, and no others, say along which dimension, and of what size",
        )
    if within is None:
        return
    size = operand.type.sizes.get(within.dim, 0)
    uneven = type(within.size) is not int or within.size < 2 or within.size % 2
    if uneven or size % within.size or not size or within.dim == over:
        raise node.wrong(
            f"takes {within.size} of {within.dim!r} at a time, of which "
            f"{operand.name!r} has {size or 'none'}",
            hint="let blocks have an even size, of which a tile has a whole number, along another "
            "dimension than the loop's",
        )
    covers = within.size if op.in_blocks is InBlocks.MAX else operand.type.dtype.covers
    if node.type.dtype.covers != covers or (covers > 1 and node.type.dims[-1] != within.dim):
        raise GraphError(
            f"{node.name!r}, {node.type}, is {op.name!r} of blocks of {within.size} along "
            f"{within.dim!r}",
            hint="blocks lie along the last dimension, and one code stands for each: "
            f"F32.per({within.size})",
            field=node.name,
        )
    plain = (node.init, node.when, node.otherwise) == (None, None, None)
    if (operand.type.dims, operand.type.shape) != (node.type.dims, node.type.shape) or not plain:
        raise GraphError(
            f"{node.name!r}, {node.type}, is {op.name!r} of {operand.name!r}, {operand.type}",
            hint="its result has the dimensions of its operand, and is added to nothing",
            field=node.name,
        )


def block_sizes(nodes: Iterable[Node]) -> dict[str, int]:
    """What ends with blocks of every size, by dimension, is a multiple of."""
    found: dict[str, int] = {}
    for node in nodes:
        if node.within is not None:
            dim, size = node.within.dim, node.within.size
            found[dim] = lcm(found.get(dim, 1), size)
    return found


def check_whole_blocks(loop: str, nodes: Iterable[Node], sizes: Mapping[str, int]) -> None:
    """Raise for arrays that end within a block."""
    for dim, block in block_sizes(nodes).items():
        if sizes.get(dim, 0) % block:
            raise ConfigError(
                f"{loop}: the size along {dim!r} is {sizes[dim]}, and blocks of {block} are seen "
                "together",
                hint=f"pad it to a multiple of {block}",
                field=dim,
            )


def ends_with_blocks(node: Node, part: Box, dims: Sequence[str]) -> bool:
    """Whether a part of a node's work is one of whole blocks."""
    if node.within is None:
        return True
    return not any(end % node.within.size for end in part[list(dims).index(node.within.dim)])
