"""A declaration becomes a ``Meaning``: every value gets its place before, in or after the loop.

What depends on a stream or on a carried value is computed in every iteration if an update or a
store of every iteration needs it, else once after the loop. What depends on neither is computed
once: before the loop, or after it where only the end needs it. An array, a scalar or a carried
value that nothing stored needs is refused, for it is a mistake more often than not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from pipeloom.declare.beginnings import begun, ended
from pipeloom.errors import GraphError
from pipeloom.machine.dtypes import F32
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.problem_spans import ProblemSpan
from pipeloom.program.vocabulary import PRODUCTS, VOCABULARY


def close(
    name: str,
    over: str,
    nodes: Mapping[str, Node],
    updates: Mapping[str, str],
    until: str | None,
    begins: Mapping[str, str] = MappingProxyType({}),
    since: str | None = None,
    span: ProblemSpan | None = None,
) -> Meaning:
    """Close the carries, place every node before, in or after the loop.

    What is computed for nothing is left out; arrays, scalars and carries are not.
    """
    nodes = _used(nodes, {*updates.values(), *begins.values()})
    stale = [n.name for n in nodes.values() if n.kind is NodeKind.CARRY and n.name not in updates]
    if stale:
        raise GraphError(
            f"loop {name!r}: carry {stale[0]!r} never changes",
            hint="write c += ..., or c = c.becomes(...); what never changes is a constant",
            field=stale[0],
        )
    nodes, updates = begun(nodes, updates, begins)
    table = {
        n.name: replace(n, uses=(updates[n.name],)) if n.kind is NodeKind.CARRY else n
        for n in nodes.values()
    }
    table = _rounded_at_once(table)
    varies: set[str] = set()
    for node in table.values():
        moves = node.kind is NodeKind.LEFT and node.type.dims == (over,)
        if moves or node.kind in (NodeKind.STREAM, NodeKind.CARRY) or varies & set(node.operands):
            varies.add(node.name)
    stored = [n.name for n in table.values() if n.kind is NodeKind.OUTPUT and over in n.type.dims]
    inside = _needed(table, [*updates.values(), *stored])
    carry_of = {update: carry for carry, update in updates.items()}
    placed = [_placed(node, varies, inside, carry_of) for node in table.values()]
    placed = ended(placed, begins)
    outputs = [node.name for node in placed if node.kind is NodeKind.OUTPUT]
    used = _needed({node.name: node for node in placed}, outputs)
    idle = [node for node in placed if node.name not in used]
    for node in sorted(idle, key=lambda node: node.kind is not NodeKind.CARRY):
        raise GraphError(
            f"loop {name!r}: {node.name!r} is declared but never used by anything stored",
            hint="store it, use it, or leave it out",
            field=node.name,
        )
    lost = [n.name for n in placed if n.kind is NodeKind.STREAM and n.region is not Region.LOOP]
    if lost:
        raise GraphError(
            f"loop {name!r}: what is stored takes {lost[0]!r} without a carry, and of every "
            "iteration only the last would be left",
            hint=f"carry the sum: c = loop.carry(...); c += ...; or store it with {over!r}",
            field=lost[0],
        )
    _check_arguments(name, placed)
    return Meaning(name, over, tuple(_late(placed)), until, span, since)


def _used(nodes: Mapping[str, Node], needed: Collection[str]) -> dict[str, Node]:
    """Without places, numbers and results that nothing needs."""
    computed = (NodeKind.OP, NodeKind.CONSTANT)
    kept = dict(nodes)
    users = dict.fromkeys(nodes, 0) | dict.fromkeys(needed, 1)
    for node in nodes.values():
        for name in node.operands:
            users[name] += 1
    for name, node in reversed(list(nodes.items())):
        if not users[name] and (node.kind.is_place or node.kind in computed):
            del kept[name]
            for operand in node.operands:
                users[operand] -= 1
    return kept


def _check_arguments(loop: str, nodes: list[Node]) -> None:
    """Arrays, sizes and scalars are the kernel's arguments: each has a name of its own."""
    arrays = [n for n in nodes if n.kind in (NodeKind.STREAM, NodeKind.RESIDENT, NodeKind.OUTPUT)]
    scalars = [n.name for n in nodes if n.kind is NodeKind.SCALAR]
    names = [*(n.name for n in arrays), *scalars, *{d for n in arrays for d in n.dims}]
    for one in names:
        if names.count(one) > 1:
            raise GraphError(
                f"loop {loop!r} has two arguments called {one!r}",
                hint="give the array, the dimension or the scalar another name: arrays, sizes and "
                "scalars are arguments of the kernel",
                field=one,
            )


def _rounded_at_once(table: dict[str, Node]) -> dict[str, Node]:
    """An op whose result is only converted, for a product, gives that type at once: a tile of f32
    between the two would take twice the registers. Masks do not: left out where they change
    nothing, they cost nothing in place."""
    multiplied = {name for n in table.values() if n.op in PRODUCTS for name in n.uses}
    users: dict[str, int] = {}
    for node in table.values():
        for name in node.operands:
            users[name] = users.get(name, 0) + 1
    found = dict(table)
    for node in table.values():
        inner = table[node.uses[0]] if node.op == "convert" and node.name in multiplied else None
        if inner is None or inner.kind is not NodeKind.OP or users[inner.name] > 1:
            continue
        dims = {dim for name in inner.uses for dim in table[name].type.dims}
        masks = inner.op in VOCABULARY and VOCABULARY[inner.op].masks
        plain = inner.init is None and inner.when is None and inner.type.dtype == F32 and not masks
        if plain and dims == set(inner.type.dims) and inner.op not in PRODUCTS:
            found[node.name] = replace(inner, name=node.name, type=node.type)
            del found[inner.name]
    return found


def _late(nodes: list[Node]) -> list[Node]:
    """What only the end needs (a bias, and what is computed of it) moves there: a loop that keeps
    it would have fewer registers."""
    early = {name for n in nodes if n.region is Region.LOOP for name in n.operands}
    found: list[Node] = []
    for node in reversed(nodes):
        movable = node.kind in (NodeKind.RESIDENT, NodeKind.OP) and node.region is Region.BEFORE
        if movable and node.name not in early:
            node = replace(node, region=Region.AFTER)
        elif node.region is Region.BEFORE:
            early |= set(node.operands)
        found.append(node)
    return found[::-1]


def _needed(table: Mapping[str, Node], roots: list[str]) -> set[str]:
    """The roots and all they are computed from."""
    found: set[str] = set()
    while roots:
        name = roots.pop()
        if name not in found:
            found.add(name)
            roots.extend(table[name].operands)
    return found


def _placed(node: Node, varies: set[str], inside: set[str], carry_of: Mapping[str, str]) -> Node:
    """``node`` in its region; after the loop, an update's value is that of its carry."""
    if node.kind is NodeKind.CARRY or (node.name in inside and node.name in varies):
        return replace(node, region=Region.LOOP)
    if node.name not in varies and node.kind is not NodeKind.OUTPUT:
        return replace(node, region=Region.BEFORE)

    def last(name: str | None) -> str | None:
        return None if name is None else carry_of.get(name, name)

    return replace(
        node,
        region=Region.AFTER,
        uses=tuple(carry_of.get(use, use) for use in node.uses),
        init=last(node.init),
        when=last(node.when),
        otherwise=last(node.otherwise),
    )
