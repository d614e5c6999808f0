"""What is needed under a condition only, and is skipped with it."""

from __future__ import annotations

from collections.abc import Mapping

from pipeloom.order.homes import Home
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region


def needed_under(meaning: Meaning, homes: Mapping[str, Home]) -> dict[str, str]:
    """Values that only steps under a condition need, with that: they are skipped with those."""
    found: dict[str, str] = {}
    nodes = [n for n in meaning.nodes if n.kind is NodeKind.OP]
    for node in reversed([n for n in nodes if n.region is Region.LOOP and n.when is None]):
        needed = {_needs(user, node.name, found, homes) for user in meaning.nodes}
        needed -= {""}
        when = needed.pop() if len(needed) == 1 else None
        reduces = len(meaning.domain(node).dims) > len(node.type.dims)
        if when is None or reduces or node.init is not None or node.type.dtype.bits != 32:
            continue
        if set(meaning[when].type.dims) <= set(node.type.dims):
            found[node.name] = when
    return found


def _needs(user: Node, name: str, lazy: Mapping[str, str], homes: Mapping[str, Home]) -> str | None:
    """Under which condition ``user`` needs a value; "" if it does not, None if in any case."""
    if name not in user.operands:
        return ""
    if name in (user.when, user.otherwise, user.init) or user.kind is not NodeKind.OP:
        return None
    if user.when is not None and overwrites(homes, user, user.otherwise):
        return user.when
    return lazy.get(user.name)


def overwrites(homes: Mapping[str, Home], node: Node, before: str | None) -> bool:
    """Whether ``before`` lies where ``node`` will."""
    home = homes.get(node.name)
    if home is None or before is None:
        return False
    at = home.members.index(node.name)
    if at > 0:
        return home.members[at - 1] == before
    return home.whole and home.carry == before
