"""Ops within blocks of columns: halves that change places, and what is the largest of a block.

Partners are a choice of registers. The largest is found in each lane's registers first, two at a
time, and then among the lanes of a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeloom.program import VOCABULARY, Access, OpDef, Reduce, Work
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank, Operand
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.lanes import LaneExchange, sharing_lanes
from pipeloom.write.lower.reductions import OF_THREE
from pipeloom.write.lower.register_tiles import Coordinates
from pipeloom.write.lower.templates import templates_of
from pipeloom.write.lower.vector_operands import COMBINE, Operands, OperandSource, move


def partners(held: Coordinates, axis: int, size: int) -> Coordinates:
    """The elements in the other halves of blocks of ``size`` along an axis, from which parts
    begin."""
    found = held.copy()
    place = held[:, axis] % size
    found[:, axis] += (place + size // 2) % size - place
    return found


def plan_block_max(
    context: Context,
    work: Work,
    op: OpDef,
    target: Access,
    source: OperandSource,
    slots: Sequence[int],
) -> Write:
    """The largest of each block, or the largest size, in the register that all lanes of its row
    have of it."""
    node, tile = context.program.meaning[work.node], context.tile(target, work)
    assert node.within is not None
    covers = node.within.size
    box, there = context.register_box(target, work), source.box
    terms = [
        _terms(source, tile.coordinates[slot] - [p for p, _ in box] + [p for p, _ in there], covers)
        for slot in slots
    ]
    bits = sharing_lanes(tile.coordinates[slots[0]])
    whole = len(bits) and all(len(found) << len(bits) == covers for found in terms)
    if source.tile is None or tile.pack > 1 or not whole:
        raise EmitError(
            f"{work.label}: lanes of a row do not hold the blocks of {covers} of {node.uses[0]!r}",
            hint="let it be the result of a product, whose lanes have rows",
            field=work.label,
        )
    operands, lines = Operands(context, tile, 2), templates_of(op)

    def term(code: Code, number: int, slot: int) -> Operand:
        if op is not VOCABULARY["block_amax"]:
            return operands.read(code, number, source, slot)
        operands.apply(code, lines, operands.result(number), [slot], [source])
        return operands.result(number)

    frame = context.frame
    most = frame.scratch("largest", len(slots))
    exchange = LaneExchange.plan(frame, COMBINE[Reduce.MAX], bits, len(slots))

    def emit(code: Code) -> None:
        result = context.registers(target)
        values = [
            result.part(slot) if result.bank is Bank.VECTOR else frame[most].part(number)
            for number, slot in enumerate(slots)
        ]
        for value, found in zip(values, terms, strict=True):
            first, *rest = found
            move(code, value, term(code, 0, first))
            for one, two in zip(rest[::2], rest[1::2], strict=False):
                code(OF_THREE[Reduce.MAX], value, term(code, 0, one), term(code, 1, two), value)
            if len(rest) % 2:
                code(COMBINE[Reduce.MAX], value, term(code, 0, rest[-1]), value)
        exchange.emit(code, values)
        for slot, value in zip(slots, values, strict=True):
            operands.finish(code, result.part(slot), [value])

    return emit


def _terms(source: OperandSource, block: Coordinates, covers: int) -> list[int]:
    """A lane's slots of a block, whose first element in each lane's row is given."""
    assert source.tile is not None
    found = []
    for slot, held in enumerate(source.tile.coordinates):
        first = held.copy()
        first[:, -1] -= held[:, -1] % covers
        if np.array_equal(first, block):
            found.append(slot)
    return found
