"""The whole work of one node of a meaning: its result's dimensions, then those that it reduces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeloom.errors import ConfigError
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.tiles import TileType, merged_sizes

if TYPE_CHECKING:
    from pipeloom.program.meaning import Meaning


def domain_of(meaning: Meaning, node: Node) -> TileType:
    """All dimensions of a node's work with their sizes; an error if an operand lacks one."""
    where = f"{meaning.name}.{node.name}"
    operands = [meaning[name].type for name in node.uses] if node.kind is NodeKind.OP else []
    sizes = merged_sizes([node.type, *operands], where)
    dims = tuple(dict.fromkeys((*node.type.dims, *sizes)))
    if node.kind is NodeKind.OP:
        used = {d for t in operands for d in t.dims}
        if node.init is not None:
            used |= set(meaning[node.init].type.dims)
        lacking = [d for d in node.type.dims if d not in used]
        if lacking:
            raise ConfigError(
                f"{where}: no operand has dimension {lacking[0]!r}",
                hint="a result's dimensions come from its operands",
                field=node.name,
            )
    return TileType(dims, tuple(sizes[d] for d in dims), node.type.dtype)
