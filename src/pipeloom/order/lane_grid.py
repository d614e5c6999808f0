"""Lanes as a grid over the dimensions, where no row-major deal suits every op.

Each dimension of a loop has so many lanes, and they are the same for every value: a power of two
that divides it, lane digits in an order of their own. What a lane has of a value is every so
manieth element along each of its dimensions, in slots. A value without a dimension lies in all
lanes along that one. So operands that differ in dimensions lie where their results do, and what is
reduced over any dimensions lies in one lane, or in lanes along them:

    d = x - y; (d * d).sum("k")     x (m, k), y (n, k): n has 16 lanes, m 4, k none

Dimensions that stay get lanes before those that ops reduce, the last one first, so that loads are
of neighbours and sums need few exchanges. Elements are moved one by one. Where 64 lanes are too
many, several hold the same.
"""

from __future__ import annotations

from math import prod

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import REGISTER_BYTES
from pipeloom.order.shares import Shares
from pipeloom.order.spread import UNIFORM, grouped, per_lane
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import NodeKind
from pipeloom.program.resources import Layout

MOST_EACH = 80
"""Elements of a tile that a lane may have: of sizes that a power of two hardly divides it would
have more than its registers hold."""


def grid_layouts(meaning: Meaning, shares: Shares) -> dict[str, Layout] | None:
    """How every value in registers lies; None where lanes would have too much of one, or a part of
    a register.

    Args:
        meaning: The declaration, which has no matrix product.
        shares: What a wave has of each dimension.
    """
    grid = _grid(meaning, shares)
    found = {}
    for node in meaning.nodes:
        if node.kind.is_number or node.kind is NodeKind.OUTPUT:
            continue
        dims = node.type.dims
        numbers = [
            (f"{what}{axis}", number)
            for axis, dim in enumerate(dims)
            for what, number in zip(("lanes", "step"), grid[dim], strict=True)
        ]
        whole = prod(shares.shape(dims)) == 1
        layout = UNIFORM if whole else grouped(Layout("grid", tuple(numbers)), node.type.dtype)
        each, bits = per_lane(layout, shares.shape(dims)), node.type.dtype.bits
        packed = node.kind is not NodeKind.STREAM and bits < 8 * REGISTER_BYTES and not whole
        if packed and not node.type.dtype.is_bool and each * bits % (8 * REGISTER_BYTES):
            return None
        if each > MOST_EACH:
            return None
        found[node.name] = layout
    return found


def _grid(meaning: Meaning, shares: Shares) -> dict[str, tuple[int, int]]:
    """By dimension: its lanes, and how far apart they are."""
    widest = max((n.type.dims for n in meaning.nodes), key=len)
    known = dict.fromkeys((*widest, *(d for n in meaning.nodes for d in n.type.dims)))
    reduced = {
        dim
        for node in meaning.nodes
        if node.kind is NodeKind.OP
        for dim in set(meaning.domain(node).dims) - set(node.type.dims)
    }
    sizes = dict(zip(known, shares.shape(tuple(known)), strict=True))
    grid, used = {}, 1
    for dim in sorted(sizes, key=lambda dim: (dim in reduced, -list(sizes).index(dim))):
        lanes = min(sizes[dim] & -sizes[dim], WAVE_LANES // used)
        grid[dim] = lanes, used
        used *= lanes
    return grid
