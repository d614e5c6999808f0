"""Views: the first elements of an input's tile, under dimensions of their own.

What an operand has to do with a result is in the names of dimensions. A tile that two products read
along different sides, one summing over what the other has as columns, needs two names for one side:

    K     STREAM            bf16(keys=32, d=576)
    V     VIEW of K         bf16(keys=32, v=512)    V[i, j] is K[i, j]
    S     matmul Q, K       sums over d
    O     matmul P, V       has v, which waves and workgroups may divide

There is one array and one tile; no step moves anything for a view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeloom.errors import GraphError
from pipeloom.program.nodes import Node, NodeKind

if TYPE_CHECKING:
    from pipeloom.program.meaning import Meaning


def users_of(meaning: Meaning, name: str) -> list[Node]:
    """What takes a value as its operand; of a tile, what takes a view of it does not."""
    return [n for n in meaning.nodes if name in n.operands and n.kind is not NodeKind.VIEW]


def check_view(meaning: Meaning, node: Node) -> None:
    """Raise for a view of what is no input, or that is no part of its tile.

    A dimension under another name must lie in one tile: it is neither the loop's nor the grid's.
    """
    used = [meaning[name] for name in node.uses]
    loaded = len(used) == 1 and used[0].kind in (NodeKind.STREAM, NodeKind.RESIDENT)
    here, there = node.type, used[0].type if used else node.type
    if not loaded or here.dtype != there.dtype or len(here.dims) != len(there.dims):
        raise GraphError(
            f"view {node.name!r} is {here}, of {', '.join(node.uses)}: {there}",
            hint="a view is of one stream or resident, with its type and as many dimensions",
            field=node.name,
        )
    arrays = {dim for one in meaning.inputs for dim in one.type.dims}
    fixed = {meaning.over, *meaning.grid}
    for dim, size, old, most in zip(here.dims, here.shape, there.dims, there.shape, strict=True):
        kept = dim == old and size == most
        renamed = dim not in arrays and old not in fixed and dim != meaning.over and size <= most
        if not kept and not renamed:
            raise GraphError(
                f"view {node.name!r} has {dim} = {size} for {old} = {most} of {used[0].name!r}",
                hint=f"keep {old!r} and its size, or give as much of it or less a name that no "
                f"array has{', if the loop and the outputs do not go along it' * (old in fixed)}",
                field=node.name,
            )
