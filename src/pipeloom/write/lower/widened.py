"""Floats of 8 bits to floats of 16, a register of results at a time, without f32 between."""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.machine.cdna import widening
from pipeloom.program import Access, Work
from pipeloom.write.code import Code
from pipeloom.write.isa import Bank
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.templates import float_bits
from pipeloom.write.lower.vector_operands import OperandSource, readable

PAIR, PACKED = 2, 4
"""Elements of a register of results, and of one of what they are made of."""
ONE = float_bits(1.0)
"""What the instructions multiply with."""


def plan_widened(
    context: Context,
    work: Work,
    target: Access,
    source: OperandSource,
    jobs: Sequence[tuple[int, list[int | None]]],
) -> Write | None:
    """One instruction for two elements; None where the chip has none for the types, or pairs of
    results do not come of pairs.

    Args:
        context: Of the kernel.
        work: The step.
        target: The result.
        source: What is converted.
        jobs: The slots of the result, each with the slot that it comes of.
    """
    tile, frame = context.tile(target, work), context.frame
    if source.tile is None or source.access is None or source.join is not None:
        return None
    if (tile.pack, source.tile.pack) != (PAIR, PACKED):
        return None
    types = source.tile.resource.type.dtype.name, tile.resource.type.dtype.name
    verb = widening(context.target.encoded_as, *types)
    slots = [(slot, found[0] or 0) for slot, found in jobs]
    pairs = list(zip(slots[::PAIR], slots[1::PAIR], strict=False))
    together = all(
        a % PAIR == 0 and at % PAIR == 0 and (b, beside) == (a + 1, at + 1)
        for (a, at), (b, beside) in pairs
    )
    if verb is None or not together or len(slots) % PAIR:
        return None
    access = source.access
    spare = frame.scratch("operands", 2)

    def emit(code: Code) -> None:
        result, held = context.registers(target), context.registers(access)
        for (slot, at), _ in pairs:
            into = place = result.part(slot // PAIR)
            if place.bank is not Bank.VECTOR:
                into = frame[spare].part(1)
            word = readable(code, held.part(at // PACKED), frame[spare].part(0))
            upper = ["op_sel:[1,0,0]"] if at % PACKED else []
            code(verb, into, word, ONE, modifiers=upper)
            if into is not place:
                code("v_accvgpr_write_b32", place, into)

    return emit
