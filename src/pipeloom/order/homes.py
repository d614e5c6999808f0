"""Which values share storage: a carry's update overwrites it in place, where nobody minds.

    O -> O.next = O * alpha -> O.next.2 = O.next + P @ V       one accumulator, updated twice
    m -> m.next = max(m, rowmax);  alpha = exp2(m - m.next)    alpha needs both: two copies

A value may be overwritten by its successor if every other reader can come before it, that is, if
no other reader depends on the successor. So element-wise ops overwrite what they read. A chain from
the carry to its update without such a reader is one place; otherwise only its end, from the last
one on, is, and that place rotates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Home:
    """Values in one place, in order; ``carry`` is whose they become, ``whole`` if it is there too.

    A home with a carry but not ``whole`` rotates: the carry's value is the one of a copy before.
    """

    members: tuple[str, ...]
    carry: str | None = None
    whole: bool = False

    @property
    def rotates(self) -> bool:
        """Whether iterations take turns in copies."""
        return not self.whole


def find_homes(meaning: Meaning, ops: Vocabulary) -> dict[str, Home]:
    """The home of every OP node of the loop."""
    found: dict[str, Home] = {}
    for carry in (n for n in meaning.nodes if n.kind is NodeKind.CARRY):
        chain = _chain(meaning, carry, ops)
        start = _legal_from(meaning, chain)
        start = max([start, *(at + 1 for at, name in enumerate(chain) if name in found)])
        members = tuple(chain[max(start, 1) :])
        home = Home(members, carry.name, whole=start == 0)
        found |= dict.fromkeys(members, home)
    for node in meaning.nodes:
        if node.kind is NodeKind.OP and node.region is Region.LOOP and node.name not in found:
            before = _consumed(meaning, node, ops, found, _turns(meaning, found))
            members = (node.name,) if before is None else (*found[before].members, node.name)
            found |= dict.fromkeys(members, Home(members))
    return found


def _turns(meaning: Meaning, found: Mapping[str, Home]) -> list[tuple[str, str]]:
    """(reader, who overwrites what it reads): orders that sharing a place already asks for."""
    turns = []
    for home in set(found.values()):
        chain = [home.carry, *home.members] if home.whole and home.carry else [*home.members]
        for kept, over in pairwise(chain):
            turns += [(n.name, over) for n in _readers(meaning, kept) if n.name != over]
    return turns


def _readers(meaning: Meaning, name: str) -> list[Node]:
    return [
        n
        for n in meaning.nodes
        if name in n.operands and n.region is Region.LOOP and n.kind is not NodeKind.CARRY
    ]


def _consumed(
    meaning: Meaning,
    node: Node,
    ops: Vocabulary,
    found: Mapping[str, Home],
    turns: list[tuple[str, str]],
) -> str | None:
    """An operand that ``node`` may overwrite, element by element: nobody needs it afterwards."""
    if ops[node.op].reduce is not None or node.when is not None or node.within is not None:
        return None
    for name in node.uses:
        home = found.get(name)
        if home is None or home.carry is not None or meaning[name].type != node.type:
            continue
        if home.members[-1] == name and not _needed_after(meaning, name, node.name, turns):
            return name
    return None


def _needed_after(
    meaning: Meaning, kept: str, over: str, turns: list[tuple[str, str]] | None = None
) -> bool:
    """Whether a reader of ``kept`` can only run when ``over``, another reader, has."""
    dependent = _dependents(meaning, over, turns or [])
    return any(n.name != over and n.name in dependent for n in _readers(meaning, kept))


def _chain(meaning: Meaning, carry: Node, ops: Vocabulary) -> list[str]:
    """The carry, ..., its update: each computed from the one before, of the same type.

    Without such a path, the carry stands apart: its update is a chain of its own.
    """
    update = carry.uses[0]

    def back(name: str) -> list[str] | None:
        if name == carry.name:
            return [name]
        node = meaning[name]
        if node.kind is not NodeKind.OP or node.region is not Region.LOOP:
            return None
        first = [n for n in (node.init, node.otherwise) if n is not None]
        if not first and ops[node.op].reduce is None and node.within is None:
            first = list(node.uses)
        for before in first:
            if before in node.uses and before == node.init:
                continue  # a product that also multiplies what it adds to
            if meaning[before].type == node.type:
                path = back(before)
                if path is not None:
                    return [*path, name]
        return None

    return back(update) or [carry.name, update]


def _legal_from(meaning: Meaning, chain: list[str]) -> int:
    """The first member from which on each may overwrite the one before it."""
    for at in range(len(chain) - 2, -1, -1):
        kept, over = chain[at], chain[at + 1]
        if kept not in meaning[over].operands:
            return at + 1
        if _needed_after(meaning, kept, over):
            return at + 1
    return 0


def _dependents(meaning: Meaning, name: str, turns: list[tuple[str, str]]) -> set[str]:
    """What is computed from a value within its iteration, or has to wait for that."""
    found: set[str] = set()
    more = {name}
    while more - found:
        found |= more
        for node in meaning.nodes:
            if node.kind is not NodeKind.CARRY and found & set(node.operands):
                found.add(node.name)
        more = {after for before, after in turns if before in found}
    return found
