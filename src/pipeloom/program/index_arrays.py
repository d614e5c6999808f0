"""Arrays of whole numbers that say where tiles lie: rows to gather, experts to choose.

They are inputs of a kernel, and of no step: what they say is settled when a workgroup begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np

from pipeloom.array_kinds import Places
from pipeloom.errors import ConfigError, GraphError
from pipeloom.machine.dtypes import I32
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.problem_spans import ProblemSpan
from pipeloom.program.tiles import TileType

BLOCKS = "{}_blocks"
"""The dimension of an index array that has an entry for each block along another."""


def index_nodes(nodes: Iterable[Node], span: ProblemSpan | None = None) -> tuple[Node, ...]:
    """The index arrays that nodes and a span name, as inputs; raises for one that is named in two
    ways."""
    found: dict[str, Node] = {}
    nodes = tuple(nodes)
    sizes = {dim: size for node in nodes for dim, size in node.type.sizes.items()}
    more = [(span.lengths, span.per, 1, "")] if span is not None and span.lengths else []
    for node in nodes:
        wanted = [(one.index, BLOCKS.format(one.per), 1, "") for one in node.chosen]
        if node.at is not None:
            wanted += [(e.array, e.dim, sizes.get(e.dim, 1), e.per) for e in node.at.entries]
        more += wanted
    for name, dim, size, per in more:
        tile, batch = TileType((dim,), (size,), I32), (per,) if per else ()
        made = Node(name=name, kind=NodeKind.RESIDENT, type=tile, region=Region.BEFORE, batch=batch)
        if found.setdefault(name, made) != made or any(n.name == name for n in nodes):
            raise GraphError(
                f"{name!r} is an index array with an entry for each of {dim!r}, and something else",
                hint="give each index array a name of its own",
                field=name,
            )
    return tuple(found.values())


def per_block(nodes: Iterable[Node]) -> dict[str, str]:
    """Index arrays with an entry for each block, and the dimension that those are counted along."""
    return {one.index: one.per for node in nodes for one in node.chosen}


def block_counts(nodes: Iterable[Node], tile: Mapping[str, int]) -> dict[str, str]:
    """How many blocks there are, as formulas, by the dimension of their index array."""
    dims = per_block(nodes).values()
    return {BLOCKS.format(dim): f"ceil({dim} / {tile[dim]})" for dim in dims}


def check_blocks(nodes: Iterable[Node], tile: Mapping[str, int], sizes: Mapping[str, int]) -> None:
    """Raise where an index array has fewer entries than there are blocks."""
    for name, dim in per_block(nodes).items():
        count, blocks = sizes.get(BLOCKS.format(dim)), -(-sizes.get(dim, 0) // tile[dim])
        if count is not None and count < blocks:
            raise ConfigError(
                f"{name} has {count} entries, and there are {blocks} blocks along {dim!r}",
                hint=f"give one for each {tile[dim]} of {dim}, -1 for a block that has nothing "
                "to do",
                field=name,
            )


def chosen_indices(
    node: Node, block: Mapping[str, int], sizes: Mapping[str, int], arrays: Mapping[str, Any]
) -> tuple[int, ...] | None:
    """Which indices of its chosen dimensions a node takes in a block; None for none."""
    found = tuple(int(np.asarray(arrays[one.index])[block[one.per]]) for one in node.chosen)
    inside = all(0 <= at < sizes[one.dim] for at, one in zip(found, node.chosen, strict=True))
    return found if inside else None


def times_stored(
    outputs: Iterable[Node],
    grids: Iterable[tuple[Mapping[str, int], Mapping[str, Places]]],
    sizes: Mapping[str, int],
    entries: Mapping[str, Places],
) -> dict[str, Places]:
    """How often each element of outputs is stored, by all workgroups of one problem.

    ``grids`` has for each workgroup that runs its block, and its indices by dimension.
    """
    outputs, grids = tuple(outputs), list(grids)
    found = {n.name: np.zeros([sizes[d] for d in n.array_dims], np.int64) for n in outputs}
    for node, (_, index) in product(outputs, grids):
        own = {dim: index[dim] for dim in node.type.dims}
        if node.at is None:
            inside = [places[places < sizes[dim]] for dim, places in own.items()]
            found[node.name][np.ix_(*inside)] += 1
            continue
        at, kept = node.at.located(own, sizes, entries)
        shape = tuple(len(places) for places in own.values())
        where = np.broadcast_to(kept, shape)
        np.add.at(found[node.name], tuple(np.broadcast_to(p, shape)[where] for p in at), 1)
    return found
