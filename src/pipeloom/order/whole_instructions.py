"""Tiles that matrix instructions take whole: a loop with its products' dimensions filled up.

A head of 80 elements is multiplied by instructions that sum 32 of them: its tile becomes 96 wide,
and what lies past the end of the arrays reads as zeros. So it does in any tile that reaches past
the end, and the declaration means the same: sizes of arrays are those of a launch. Along the loop a
longer tile is fewer iterations, which is the same only where each just adds to what is carried, and
nothing where it reads zeros.
"""

from __future__ import annotations

from math import lcm

from pipeloom.declare.loop import Loop
from pipeloom.errors import ScheduleError
from pipeloom.machine.target import Target
from pipeloom.order.matrix_choice import wanted_granules
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import NodeKind
from pipeloom.program.only_adds import only_adds
from pipeloom.program.problem_spans import shared_out
from pipeloom.program.vocabulary import PRODUCTS, VOCABULARY


def whole_instructions(loop: Loop, target: Target) -> Loop:
    """``loop`` with tiles of whole matrix instructions, where that changes nothing else.

    Args:
        loop: The declaration.
        target: The chip, whose instructions say what is whole.
    """
    try:
        meaning = loop.meaning
        found = [
            wanted_granules(meaning, node, target)
            for node in meaning.nodes
            if node.kind is NodeKind.OP and node.op in PRODUCTS
        ]
    except ScheduleError:
        return loop  # whoever lowers it says why
    sizes = {dim: size for n in meaning.nodes for dim, size in n.type.sizes.items()}
    wanted: dict[str, int] = {}
    for granules in found:
        for dim, granule in granules.items():
            wanted[dim] = lcm(wanted.get(dim, 1), granule)
    longer = {
        dim: -(-sizes[dim] // granule) * granule
        for dim, granule in wanted.items()
        if sizes[dim] % granule
    }
    mixed = {d for n in meaning.nodes for d, size in n.type.sizes.items() if size != sizes[d]}
    free = longer.keys() - _kept(meaning) - mixed
    return loop.tiled({dim: longer[dim] for dim in free}) if free else loop


def _kept(meaning: Meaning) -> set[str]:
    """Dimensions whose tile says more than how the work is cut: places, views, blocks that an index
    array counts, what a user's op reduces; the loop's, unless iterations only add up, and nobody
    has a part of them."""
    kept = {one.per for node in meaning.nodes for one in node.chosen}
    for node in meaning.nodes:
        if node.kind is NodeKind.VIEW:
            kept |= {*node.type.dims, *meaning[node.uses[0]].type.dims} - {meaning.over}
        if node.at is not None:
            kept |= set(node.type.dims)
        if node.kind is NodeKind.OP and node.op not in VOCABULARY:
            kept |= set(meaning.domain(node).dims) - set(node.type.dims)
    adds = (meaning.ragged or meaning.adds_up) and only_adds(meaning)
    return kept if adds and not shared_out(meaning.span) else {*kept, meaning.over}
