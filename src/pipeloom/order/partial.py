"""Reductions that need not cross lanes: values kept as the part that each lane has of them.

A row of a matrix result lies in several lanes, so its sum or maximum takes exchanges between them.
Two kinds of value can do without, and are joined where something needs the whole:

    sums        carried from 0, added to and multiplied in the loop, and read only behind it
    maxima      compared with a bound, to decide whether steps are skipped at all: some lane's part
                exceeds the bound just where the row's maximum does. Steps that are not skipped read
                the whole

The layout says so (``partial``); what a value means does not change.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.resources import PARTIAL, Layout
from pipeloom.program.vocabulary import PRODUCTS, Reduce, Vocabulary


def kept_partial(
    meaning: Meaning, ops: Vocabulary, skipped: Mapping[str, str]
) -> dict[str, Reduce]:
    """Values that stay in parts. ``skipped``: by node, the condition under which its step runs."""
    found: dict[str, Reduce] = {}
    for node in meaning.nodes:
        if node.kind is NodeKind.CARRY:
            found |= dict.fromkeys(_sum_chain(meaning, ops, node), Reduce.ADD)
        elif node.kind is NodeKind.OP and node.region is Region.LOOP:
            tests = _tests(meaning, ops, node, skipped)
            if tests:
                found[node.name] = Reduce.MAX
                found |= dict.fromkeys(tests, Reduce.ANY)
    return found


def in_parts(layout: Layout, how: Reduce) -> Layout:
    """The layout of a value of rows that is kept in parts."""
    if dict(layout.numbers).get("only") != 0:
        return layout
    return Layout(layout.kind, (*layout.numbers, ("partial", PARTIAL[how])))


def _readers(meaning: Meaning, name: str) -> list[Node]:
    return [n for n in meaning.nodes if name in n.operands and n.region is Region.LOOP]


def _sum_chain(meaning: Meaning, ops: Vocabulary, carry: Node) -> list[str]:
    """The carry and all that it goes through in an iteration; nothing if any of it is read."""
    chain, at, adds = [carry.name], carry.uses[0], False
    while at != carry.name:
        node = meaning[at]
        chain.append(at)
        reduces = node.op in ops and ops[node.op].reduce is Reduce.ADD and node.op not in PRODUCTS
        if node.kind is NodeKind.OP and reduces and node.init is not None and node.when is None:
            at, adds = node.init, True
        elif node.op == "mul" and node.otherwise in (None, node.uses[0]):
            at = node.uses[0]
        else:
            return []
        if meaning[at].kind not in (NodeKind.OP, NodeKind.CARRY):
            return []
    inside = set(chain)
    alone = all(
        n.name in inside and (n.op != "mul" or n.uses[1] not in inside)
        for name in chain
        for n in _readers(meaning, name)
    )
    behind = [n for n in meaning.nodes if carry.name in n.operands and n.region is Region.AFTER]
    joined = all(n.kind is NodeKind.OP and ops[n.op].reduce is None for n in behind)
    return chain if adds and alone and joined and carry.start == 0 else []


def _tests(meaning: Meaning, ops: Vocabulary, node: Node, skipped: Mapping[str, str]) -> list[str]:
    """Comparisons that a maximum decides, if nothing else needs it in any case."""
    if node.op not in ops or ops[node.op].reduce is not Reduce.MAX or node.init is not None:
        return []
    readers = _readers(meaning, node.name)
    tests = [n for n in readers if n.name not in skipped]
    for test in tests:
        bound = test.op in ("gt", "ge") and test.uses[0] == node.name != test.uses[1]
        if not bound or any(
            n.when != test.name or test.name in (*n.uses, n.init, n.otherwise)
            for n in _readers(meaning, test.name)
        ):
            return []
    names = [test.name for test in tests]
    return names if all(skipped[n.name] in names for n in readers if n not in tests) else []
