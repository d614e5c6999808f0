"""Carried values that start from a tile, said with carried values that start from a number.

    c = loop.carry("C", start=loop.resident("C0", pl.F32, m=32, n=32), m=32, n=32)

What is added up, or is the largest of all, may as well start from nothing and take the tile in
where it is read: C0 + sum, max(m0, largest). Any other value takes the tile in the first iteration,
which a carried truth knows: c is ``where(first, C0, C)`` in all that reads it; after the loop, too,
which may have had no iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from pipeloom.machine.dtypes import BOOL, F32
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.tiles import TileType
from pipeloom.program.vocabulary import VOCABULARY, Reduce

_JOINS = {Reduce.ADD: ("add", 0.0), Reduce.MAX: ("max", -inf), Reduce.MIN: ("min", inf)}
FIRST = "first iteration"
NUMBER, NEVER = f"{FIRST} number", "no iteration"


def begun(
    nodes: Mapping[str, Node], updates: Mapping[str, str], begins: Mapping[str, str]
) -> tuple[dict[str, Node], dict[str, str]]:
    """Nodes and updates of which every carry starts from a number."""
    found, changed = dict(nodes), dict(updates)
    for carry, tile in begins.items():
        chain = _chain(found, carry, changed[carry])
        if chain is not None:
            links, (op, number) = chain
            found[carry] = replace(found[carry], start=number)
            for at, name in enumerate(links):
                after = links[at + 1] if at + 1 < len(links) else None
                found = _read_as(found, name, op, (name, tile), except_by=after)
        else:
            found, changed = _with_first(found, changed)
            found = _read_as(found, carry, "select", (FIRST, tile, carry))
    return found, changed


def ended(nodes: list[Node], begins: Mapping[str, str]) -> list[Node]:
    """Placed nodes; those after the loop see what a carry starts from if it is still that."""
    table = {node.name: node for node in nodes}
    selects = [n for n in nodes if n.op == "select" and n.uses[0] == FIRST]
    taken = {n.uses[2]: begins[n.uses[2]] for n in selects if n.uses[2] in begins}
    found: dict[str, Node] = {}
    for node in nodes:
        read = [c for c in node.operands if c in taken] if node.region is Region.AFTER else []
        last = {carry: f"{carry} at last" for carry in read}
        for carry, name in last.items():
            if NEVER not in found:
                found[NEVER] = _after(NEVER, TileType((), (), BOOL), "gt", NUMBER, "half")
            choice = (NEVER, taken[carry], carry)
            found.setdefault(name, _after(name, table[carry].type, "select", *choice))
        found[node.name] = replace(
            node,
            uses=tuple(last.get(use, use) for use in node.uses),
            init=last.get(node.init or "", node.init),
            otherwise=last.get(node.otherwise or "", node.otherwise),
        )
    return list(found.values())


def _after(name: str, kind: TileType, op: str, *uses: str) -> Node:
    return Node(name=name, kind=NodeKind.OP, type=kind, op=op, uses=uses, region=Region.AFTER)


def _chain(
    nodes: Mapping[str, Node], carry: str, update: str
) -> tuple[list[str], tuple[str, float]] | None:
    """The carry, ..., its update, each the one before joined with something; and how."""
    links, at, joins = [update], update, set[Reduce]()
    while at != carry:
        node = nodes[at]
        how, before = _link(node)
        known = [name for name in before if _leads(nodes, carry, name)]
        if how is None or len(known) != 1 or node.when is not None:
            return None
        joins.add(how)
        at = known[0]
        links.append(at)
    return (links[::-1], _JOINS[joins.pop()]) if len(joins) == 1 else None


def _link(node: Node) -> tuple[Reduce | None, tuple[str, ...]]:
    if node.kind is not NodeKind.OP or node.op not in VOCABULARY:
        return None, ()
    if node.init is not None:
        how = VOCABULARY[node.op].reduce
        return (how if how in _JOINS else None), (node.init,)
    return {op: (how, node.uses) for how, (op, _) in _JOINS.items()}.get(node.op, (None, ()))


def _leads(nodes: Mapping[str, Node], carry: str, name: str) -> bool:
    """Whether a value is the carry, joined with something or not."""
    while name != carry:
        before = [b for b in _link(nodes[name])[1] if b == carry or _link(nodes[b])[1]]
        if len(before) != 1:
            return False
        name = before[0]
    return True


def _read_as(
    nodes: dict[str, Node],
    name: str,
    op: str,
    uses: tuple[str, ...],
    except_by: str | None = None,
) -> dict[str, Node]:
    """All that reads a value reads what it stands for, but for one reader that goes on from it."""
    whole = f"{name} from its start"
    readers = [n for n in nodes.values() if name in n.operands and n.name != except_by]
    if not readers:
        return nodes
    found: dict[str, Node] = {}
    kind = nodes[name].type
    joined = Node(name=whole, kind=NodeKind.OP, type=kind, op=op, uses=uses, region=Region.LOOP)
    for node in nodes.values():
        if node in readers:
            if whole not in found:
                found[whole] = joined
            node = replace(
                node,
                uses=tuple(whole if use == name else use for use in node.uses),
                init=whole if node.init == name else node.init,
                otherwise=whole if node.otherwise == name else node.otherwise,
            )
        found[node.name] = node
    return found


def _with_first(
    nodes: dict[str, Node], updates: dict[str, str]
) -> tuple[dict[str, Node], dict[str, str]]:
    """With a carried truth of whether this is the first iteration."""
    if FIRST in nodes:
        return nodes, updates
    number, truth, one = TileType((), (), F32), TileType((), (), BOOL), NUMBER
    new = [
        Node(name=one, kind=NodeKind.CARRY, type=number, start=1.0),
        Node(name="half", kind=NodeKind.CONSTANT, type=number, start=0.5),
        Node(name="none", kind=NodeKind.CONSTANT, type=number, start=0.0),
        Node(name=FIRST, kind=NodeKind.OP, type=truth, op="gt", uses=(one, "half")),
        Node(name=f"{one} next", kind=NodeKind.OP, type=number, op="mul", uses=(one, "none")),
    ]
    return {**{n.name: n for n in new}, **nodes}, {**updates, one: f"{one} next"}
