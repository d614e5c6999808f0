"""Masks by the end of a dimension, as people write them, made the ops that say so.

    pl.where(loop.index("n") < loop.size("n"), x, -inf)     keep(x, n left, 1)
    pl.where((seen) & (column < loop.size("keys")), s, 0)   within(where(seen, s, 0), keys left)

What a mask by the end leaves of a value is known past it, which is how a loop may have any size,
and how whole tiles are computed without the mask. A condition that was only written for a mask is
left out, as is all that nothing uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from pipeloom.program.nodes import Node, NodeKind

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop
    from pipeloom.declare.tensor import Tensor

_SWAPPED = {"gt": "lt", "ge": "le"}


def recognised(
    loop: Loop, nodes: Mapping[str, Node], op: str, names: tuple[str, ...]
) -> Tensor | None:
    """What an op on these values is instead; None where it is no mask by an end."""
    if op in ("lt", "le", "gt", "ge"):
        dim = _inside(nodes, op, names)
        return None if dim is None else loop.apply("ge", loop.left(dim), 1.0)
    if op != "select":
        return None
    masked = {-inf: "keep", 0.0: "within"}.get(_number(nodes, names[2], 1.0))
    found = None if masked is None else _ends(nodes, names[0])
    if masked is None or found is None:
        return None
    left, rest = found
    value = loop.value(names[1])
    for condition in rest:
        value = loop.apply("select", loop.value(condition), value, loop.value(names[2]))
    ending = (1.0,) if masked == "keep" else ()
    return loop.apply(masked, value, loop.value(left), *ending)


def _inside(nodes: Mapping[str, Node], op: str, names: tuple[str, ...]) -> str | None:
    """The dimension of which a comparison asks whether an element is in the array."""
    small, large = names if op not in _SWAPPED else names[::-1]
    strict = _SWAPPED.get(op, op) == "lt"
    node = nodes[large]
    if strict and node.kind is NodeKind.SIZE and is_index(nodes, small) == node.along:
        return node.along
    if strict and node.kind is NodeKind.LEFT and _number(nodes, small, 1.0) == 0:
        return node.type.dims[0]
    return None


def is_index(nodes: Mapping[str, Node], name: str) -> str | None:
    """The dimension along which a value is where elements stand, if it is that."""
    node = nodes[name]
    if node.op != "sub" or node.when is not None:
        return None
    size, left = (nodes[use] for use in node.uses)
    same = left.kind is NodeKind.LEFT and left.type.dims == (size.along,)
    return size.along if same else None


def _ends(nodes: Mapping[str, Node], condition: str) -> tuple[str, tuple[str, ...]] | None:
    """What is left where a condition holds, and the other conditions that it has."""
    node = nodes[condition]
    if node.op == "ge" and node.when is None:
        left, least = node.uses
        ends = nodes[left].kind is NodeKind.LEFT and _number(nodes, least, 0.0) == 1
        return (left, ()) if ends else None
    if node.op == "mul" and node.type.dtype.is_bool and node.when is None:
        for one, other in (node.uses, node.uses[::-1]):
            found = _ends(nodes, one)
            if found is not None:
                return found[0], (*found[1], other)
    return None


def _number(nodes: Mapping[str, Node], name: str, otherwise: float) -> float:
    node = nodes[name]
    return node.start if node.kind is NodeKind.CONSTANT and node.start is not None else otherwise
