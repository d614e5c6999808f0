"""Whether iterations only add to what is carried, element of the loop by element.

Then it is all the same which elements an iteration takes: tiles may be longer than declared, and
zeros before the arrays may move all of them on. A function of a sum of one tile knows its tile:

    c += a @ b                   any tiles
    c += (a @ b) * 0.5           any tiles: a constant factor is one of every element, too
    c += maximum(a @ b, 0)       those that the declaration says, from the first element on
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from pipeloom.machine.dtypes import F32, I32
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.vocabulary import VOCABULARY, Reduce

if TYPE_CHECKING:
    from pipeloom.program.meaning import Meaning


def only_adds(meaning: Meaning) -> bool:
    """Whether every carried value is its start and a sum over the loop of what each element gives,
    and nothing that an iteration stores is of a whole tile."""
    sums, totals = set[str](), dict[str, str]()
    for node in meaning.nodes:
        if node.kind is NodeKind.CARRY:
            totals[node.name] = node.name
        elif node.region is Region.LOOP and node.kind in (NodeKind.OP, NodeKind.OUTPUT):
            known = {*sums, *totals}
            reduces = meaning.over in {*meaning.domain(node).dims} - {*node.type.dims}
            if not reduces and not known & {*node.operands}:
                continue
            rounds = not (node.type.dtype.holds(F32) or node.type.dtype == I32)
            if node.when is not None or rounds:
                return False
            if reduces:
                op = VOCABULARY.get(node.op)
                if op is None or op.reduce is not Reduce.ADD or known & {*node.uses}:
                    return False
                own = "" if node.init is None else totals.get(node.init)
            else:
                own = "" if _scaled(meaning, node, sums) else _added(node, sums, totals)
            if own is None:
                return False
            if own:
                totals[node.name] = own
            else:
                sums.add(node.name)
    carries = [node for node in meaning.nodes if node.kind is NodeKind.CARRY]
    return all(totals.get(node.uses[0]) == node.name for node in carries)


def _scaled(meaning: Meaning, node: Node, sums: set[str]) -> bool:
    """Whether it is a sum times a finite constant."""
    factors = [meaning[name] for name in node.uses if name not in sums]
    constant = [f.kind is NodeKind.CONSTANT and isfinite(f.start or 0.0) for f in factors]
    return node.op == "mul" and node.init is None and constant == [True]


def _added(node: Node, sums: set[str], totals: dict[str, str]) -> str | None:
    """Whose total a sum or difference is, nobody's if it is one of sums; None for anything else."""
    if node.op not in ("add", "sub") or node.init is not None:
        return None
    one, other = node.uses
    if node.op == "add" and other in totals:
        one, other = other, one
    if other not in sums:
        return None
    return "" if one in sums else totals.get(one)
