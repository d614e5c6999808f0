"""Which bits a NaN can have: what rounding to bf16 by addition must look at.

Half a unit is added to the bits of an f32 and its upper half is taken. That keeps a NaN whose lower
half is zero; of another, the sum may carry into the sign or leave an infinity. Arithmetic gives the
NaN of an operand, made quiet, or the chip's own, whose lower half is zero (IEEE 754, 6.2.3; CDNA3
ISA, "Quiet NaN"). So lower halves come from f32 in memory, and from nowhere else.
"""

from __future__ import annotations

from pipeloom.machine.dtypes import BF16
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind
from pipeloom.program.vocabulary import VOCABULARY


def short_nans(meaning: Meaning, name: str) -> bool:
    """Whether every NaN that a value can be has zeros in its lower half."""
    seen, open_ = {name}, [name]
    while open_:
        node = meaning[open_.pop()]
        if not _harmless(node):
            return False
        fresh = [other for other in node.operands if other not in seen]
        seen.update(fresh)
        open_ += fresh
    return True


def _harmless(node: Node) -> bool:
    """Whether a node brings in no lower half of its own."""
    if node.kind in (NodeKind.STREAM, NodeKind.RESIDENT):
        return node.type.dtype == BF16 or node.type.dtype.is_integer
    if node.kind is NodeKind.SCALAR:
        return node.positive
    if node.kind is NodeKind.OP:
        return node.op in VOCABULARY
    return True
