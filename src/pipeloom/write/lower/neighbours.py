"""Ops within blocks of columns: halves that change places, and what is the largest of a block.

Partners are a choice of registers. The largest is found in each lane's registers first, two at a
time, and then among the lanes of a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.program import VOCABULARY, Access, OpDef, Reduce, Work
from pipeloom.write.code import Code
from pipeloom.write.convert import is_encoded
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank, Operand
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.lanes import LANE_BIT_VALUES as LANE_BITS
from pipeloom.write.lower.lanes import LaneExchange, sharing_lanes
from pipeloom.write.lower.reductions import OF_THREE
from pipeloom.write.lower.register_tiles import Coordinates
from pipeloom.write.lower.templates import templates_of
from pipeloom.write.lower.vector_operands import COMBINE, Operands, OperandSource, move

AT_ONCE = 4
"""Partners that are asked for before the first is waited for."""


def partners(held: Coordinates, axis: int, size: int) -> Coordinates:
    """The elements in the other halves of blocks of ``size`` along an axis, from which parts
    begin."""
    found = held.copy()
    place = held[:, axis] % size
    found[:, axis] += (place + size // 2) % size - place
    return found


def plan_swapped(
    context: Context,
    work: Work,
    target: Access,
    source: OperandSource,
    slots: Sequence[int],
    wanted: Sequence[Coordinates],
) -> Write | None:
    """Partners that lie in other lanes, whose numbers differ in one bit; None where lanes have
    their own.

    Args:
        context: Of the kernel.
        work: The step.
        target: The result.
        source: What changes places.
        slots: Of the result.
        wanted: By slot, the elements that lanes want.
    """
    tile, frame = context.tile(target, work), context.frame
    if source.tile is None or len(slots) % tile.pack:
        return None
    lane, corner = np.arange(WAVE_LANES), [p for p, _ in source.box]
    found = []
    for at in wanted:
        there = [(bit, source.tile.slot_of((at + corner)[lane ^ bit])) for bit in (0, *LANE_BITS)]
        found.append(next(((bit, slot) for bit, slot in there if slot is not None), (0, None)))
    bits = tuple(sorted({bit for bit, _ in found} - {0}))
    if not bits or any(slot is None for _, slot in found):
        return None
    operands = Operands(context, tile, 1, node=work.node)
    here = frame.scratch("partners", AT_ONCE)
    exchange = LaneExchange.plan(frame, "", bits, AT_ONCE)
    jobs = list(zip(slots, found, strict=True))

    def emit(code: Code) -> None:
        operands.prepare(code)
        result = context.registers(target)
        for begin in range(0, len(jobs), AT_ONCE):
            some, made = jobs[begin : begin + AT_ONCE], []
            for number, (_, (bit, there)) in enumerate(some):
                value, other = frame[here].part(number), frame[exchange.others].part(number)
                move(code, value, operands.read(code, 0, source, there))
                if bit:
                    exchange.fetch(code, bit, value, other)
                made.append(other if bit else value)
            code.wait(lgkm=0)
            for number in range(0, len(some), tile.pack):
                place = result.part(some[number][0] // tile.pack)
                operands.finish(code, place, made[number : number + tile.pack], exact=True)

    return emit


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
    if source.tile is None or is_encoded(tile.resource.type.dtype) or not whole:
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
