"""The whole work of one node of a meaning: its result's dimensions, then those that it reduces; and
dimensions of which one tile must hold all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeloom.errors import ConfigError
from pipeloom.program.added_outputs import parts_of_sums
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


def uncut_dims(meaning: Meaning) -> dict[str, int]:
    """Those with the tile's size; ``Meaning.uncut`` says which they are."""
    found: dict[str, int] = {}
    parts = parts_of_sums(meaning)
    for node in meaning.nodes:
        sizes, part = meaning.domain(node).sizes, {*node.type.dims, *parts.get(node.name, ())}
        found |= {d: sizes[d] for d in set(meaning.grid) & set(sizes) - part}
    for node in meaning.inputs:
        moves = {*meaning.grid, *([meaning.over] if node.kind is NodeKind.STREAM else [])}
        found |= {d: s for d, s in node.type.sizes.items() if d not in moves}
    for node in meaning.nodes:
        if node.kind is NodeKind.VIEW:
            own = meaning[node.uses[0]].type.dims
            found |= {d: s for d, s in node.type.sizes.items() if d not in own}
    for output in meaning.outputs:
        names, seen, whole = [output.name], set[str](), {*output.type.dims}
        while names:
            node = meaning[names.pop()]
            if node.name not in seen:
                seen.add(node.name)
                whole |= parts.get(node.name, frozenset())
                names.extend(node.operands)
        for node in meaning.inputs:
            if node.name in seen:
                lost = {*node.type.dims, *(one.per for one in node.chosen)}
                found |= {d: meaning.tile[d] for d in lost & {*meaning.grid} - whole}
    return found
