"""Columns of an output dealt to matrix blocks: lanes store 16 bytes, and waves whole lines.

A lane of a matrix result has four columns of every block of 16, 8 bytes of a 16-bit output, and
the lanes of a row 32 bytes. Which columns the rows of an operand stand for is free, as long as
whatever has that dimension agrees: index 16 j + 4 g + r of the program stands for

    memory     8 g + 4 j + r      g 0..3 (lanes), j 0..1 (blocks), r 0..3 (registers)

in every 32. The same lane then has 8 neighbours in two blocks, the lanes of a row 64 bytes, and two
stores of a wave, one behind the other, a line of 128. Nothing but global addresses changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.program import Box, Meaning, Node, NodeKind, Program, Space, Work
from pipeloom.program.blocked_matrices import blocked_matrix
from pipeloom.program.tiles import volume
from pipeloom.write.lower.register_tiles import QUAD, RegisterTile

SPAN = 32
"""Neighbours among which columns change places."""
HALF_WORD = 2
BY_ROWS = ("accumulator", (("side", 16),))


def dealt(index: NDArray[Any]) -> NDArray[Any]:
    """Where in memory an index of the program lies."""
    low, lanes, block = index % 4, index // 4 % 4, index // 16 % 2
    return np.asarray(index - index % SPAN + 8 * lanes + 4 * block + low)


def dealt_tile(tile: RegisterTile, dims: Sequence[str], dealt_dims: frozenset[str]) -> RegisterTile:
    """A register tile with coordinates as memory has them."""
    axes = [axis for axis, dim in enumerate(dims) if dim in dealt_dims]
    if not axes:
        return tile
    coordinates = tile.coordinates.copy()
    for axis in axes:
        coordinates[..., axis] = dealt(coordinates[..., axis])
    return replace(tile, coordinates=coordinates)


def dealt_dimensions(program: Program) -> frozenset[str]:
    """The dimensions that can be dealt, and should.

    They are the last of an output of 16-bit elements that matrix blocks of 16 hold by rows. Whoever
    touches memory along them must do so in whole spans, or row by row.
    """
    meaning = program.meaning
    outputs = {node.name: node for node in meaning.outputs}
    wanted = {
        outputs[work.writes[0].resource].type.dims[-1]
        for _, _, work in program.works()
        if work.is_copy
        and work.writes[0].resource in outputs
        and outputs[work.writes[0].resource].type.dtype.bits == 8 * HALF_WORD
        and _by_rows(program, work)
    }
    return frozenset(dim for dim in wanted if _may(program, meaning, dim))


def _by_rows(program: Program, work: Work) -> bool:
    """Whether a store has matrix blocks of 16 by rows, and states no more than whole words of 16
    bytes: fewer instructions than stated would make waits wrong."""
    tile = program.resource(work.reads[0].resource)
    if tile.layout is None or (tile.layout.kind, tile.layout.numbers) != BY_ROWS:
        return False
    stored = volume(work.reads[0].boxes[0] if work.reads[0].boxes else tile.type.whole)
    return work.entries * WAVE_LANES * LOAD_BYTES <= stored * HALF_WORD


def _may(program: Program, meaning: Meaning, dim: str) -> bool:
    """Whether nobody needs neighbours along a dimension, or to know where he stands, and it is not
    the name that a view gives to columns of another array's tile."""
    having = [node for node in meaning.nodes if dim in node.type.dims]
    if dim == meaning.over or any(
        node.kind in (NodeKind.LEFT, NodeKind.VIEW)
        or node.type.sizes[dim] % SPAN
        or blocked_matrix(node)
        or _parts_neighbours(node, dim)
        for node in having
    ):
        return False
    arrays = {node.name: node for node in (*meaning.inputs, *meaning.outputs)}
    spaces = {resource.name: resource.space for resource in program.resources}
    for _, _, work in program.works():
        for access, other in ((a, b) for a in work.reads for b in work.writes):
            for there, here in ((access, other), (other, access)):
                node = arrays.get(there.resource)
                if there.resource in spaces or node is None or dim not in node.type.dims:
                    continue
                if spaces.get(here.resource) is Space.LDS:
                    if node.type.dims[-1] == dim:
                        return False
                elif not _whole_spans((*(there.boxes or work.parts), *here.boxes), node, dim):
                    return False
    return True


def _parts_neighbours(node: Node, dim: str) -> bool:
    """Whether an op within blocks, or a code that stands for several elements, would find others:
    whole spans stay together, and so do the neighbours in a register run."""
    if node.type.dims[-1] == dim and node.type.dtype.covers % SPAN and node.type.dtype.covers > 1:
        return True
    if node.within is None or node.within.dim != dim:
        return False
    return node.within.size % (2 * SPAN) != 0 and node.within.size > QUAD


def _whole_spans(boxes: Sequence[Box], node: Node, dim: str) -> bool:
    axis = node.type.dims.index(dim)
    return all(box[axis][0] % SPAN == box[axis][1] % SPAN == 0 for box in boxes)
