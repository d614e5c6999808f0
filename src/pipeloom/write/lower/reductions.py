"""Reductions on register tiles: sums within a lane, then across the lanes that share a result.

A result's terms lie in slots of its own lane, or in those of lanes that hold the same element of
the result; these combine what they have (``lanes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil

import numpy as np

from pipeloom.program import VOCABULARY, Access, OpDef, Reduce, Work
from pipeloom.write.code import Code
from pipeloom.write.convert import is_encoded
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank, Operand, Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.lanes import LaneExchange, sharing_lanes
from pipeloom.write.lower.register_tiles import Coordinates, RegisterTile, partial
from pipeloom.write.lower.templates import templates_of
from pipeloom.write.lower.vector_operands import COMBINE, PAIRS, Operands, OperandSource, move

OF_THREE = {Reduce.MAX: "v_max3_f32", Reduce.MIN: "v_min3_f32"}
"""What combines two more operands at once."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What one result slot sums: slots of its own lane, then lanes that differ in ``bits``."""

    slots: tuple[int | None, ...]
    bits: tuple[int, ...]


def terms_of(
    work: Work,
    op: OpDef,
    source: OperandSource,
    relative: Coordinates,
    dims: Sequence[str],
    reduced: dict[str, int],
) -> Terms:
    """Where the terms of a result lie: in the lane itself, or shared among lanes that hold it."""
    covers = 1 if source.tile is None else source.tile.resource.type.dtype.covers
    if covers > 1 and op.reduce is Reduce.ADD:
        raise EmitError(
            f"{work.label} sums elements that share a code",
            hint="take their largest, x.max(...), which is the code",
            field=work.label,
        )
    last = source.dims[-1:] * (covers > 1)
    reduced = {d: ceil(n / covers) if d in last else n for d, n in reduced.items()}
    points = list(product(*(range(size) for size in reduced.values())))
    if source.left is not None:
        raise EmitError(
            f"{work.label} reduces what is left along {source.dims[0]!r}",
            hint="count what is there, where(left >= 1, 1.0, 0.0).sum(...), or sum what is loaded",
            field=work.label,
        )
    if source.tile is None:
        return Terms((None,) * len(points), ())
    corner = np.array([p for p, _ in source.box], np.int64)
    kept = [axis for axis, dim in enumerate(source.dims) if dim in dims]
    gone = [axis for axis, dim in enumerate(source.dims) if dim not in dims]
    wanted = relative[:, [dims.index(source.dims[axis]) for axis in kept]]
    mine, counted = [], np.zeros((len(relative), len(points)), np.int64)
    extents = [reduced[source.dims[axis]] for axis in gone]
    for slot in source.tile.slots_in(source.box, work.label):
        here = source.tile.coordinates[slot] - corner
        if np.array_equal(here[:, kept], wanted):
            mine.append(slot)
            flat = np.zeros(len(here), np.int64)
            for axis, size in zip(gone, extents, strict=True):
                flat = flat * size + here[:, axis] // (covers if source.dims[axis] in last else 1)
            counted[np.arange(len(here)), flat] += 1
    lane = np.arange(len(relative))
    bits = sharing_lanes(relative)
    if (counted == 1).all():
        return Terms(tuple(mine), ())
    if op.reduce is Reduce.ADD:
        # Lanes that hold the same terms, as where there are fewer elements than lanes, add none.
        bits = tuple(bit for bit in bits if not np.array_equal(counted, counted[lane ^ bit]))
    for bit in bits:
        counted = counted + counted[lane ^ bit]
    exact = (counted == 1).all() or (op.reduce is not Reduce.ADD and (counted >= 1).all())
    if not exact:
        raise EmitError(
            f"{work.label}: lanes that hold an element of the result do not hold all of what it "
            f"sums of {source.tile.resource.name} ({source.tile.kind})",
            hint="reduce a dimension whose elements lie in the lanes of their result",
            field=work.label,
        )
    return Terms(tuple(mine), bits)


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a step reduces, and to where."""

    op: OpDef
    target: Access
    tile: RegisterTile
    slots: Sequence[int]
    """Of the result."""
    terms: Sequence[Terms]
    """What each of them sums."""
    source: OperandSource
    start: OperandSource | None
    """The value that the terms are added to."""
    first: Sequence[int | None]
    """Its slot for each of the result."""


def plan_reduction(context: Context, reduction: Reduction, *, in_parts: bool) -> Write:
    """Sums in lanes, then across them, then onto the start value; all slots side by side.

    ``in_parts``: this step is one of several that make the sum. It adds in place and lane by lane;
    only the last of them joins the lanes.
    """
    op, tile, terms, slots = reduction.op, reduction.tile, reduction.terms, reduction.slots
    start, first, frame = reduction.start, reduction.first, context.frame
    assert op.reduce is not None
    verb = COMBINE[op.reduce]
    in_lanes = partial(tile.resource) is op.reduce
    bits = () if context.partial or in_lanes or not terms else terms[0].bits
    if (len({term.bits for term in terms}) > 1 and not in_lanes) or is_encoded(
        tile.resource.type.dtype
    ):
        raise EmitError(
            f"{op.name} sums to {tile.resource.name} ({tile.resource.type.dtype}, {tile.kind})"
            + (" in parts" if in_parts else ""),
            hint="reduce to 32-bit registers whose lanes all share alike",
            field=tile.resource.name,
        )
    most = max((len(term.slots) for term in terms), default=0)
    operands = Operands(context, tile, min(most, 2), pairs=most > PAIRS)
    sums = "" if in_parts else frame.scratch("sums", len(slots))
    exchange = LaneExchange.plan(frame, verb, bits, len(slots)) if bits else None

    def emit(code: Code) -> None:
        result = context.registers(reduction.target)
        places = [result.part(slot) for slot in slots]
        alone = in_parts or (not bits and result.bank is Bank.VECTOR)
        values = places if alone else [frame[sums].part(i) for i in range(len(slots))]
        for value, term, begin in zip(values, terms, first, strict=True):
            started = alone and start is not None
            if started and start is not None:
                move(code, value, operands.read(code, 0, start, begin))
            _combine(code, operands, op, value, reduction.source, term.slots, not started)
        if exchange is not None:
            exchange.emit(code, values)
        for value, place, begin in zip(values, places, first, strict=True):
            if not alone and start is not None:
                code(verb, value, operands.read(code, 0, start, begin), value)
            operands.finish(code, place, [value])

    return emit


def _combine(
    code: Code,
    operands: Operands,
    op: OpDef,
    into: Register,
    source: OperandSource,
    slots: Sequence[int | None],
    fresh: bool,
) -> None:
    """The terms of ``slots`` onto what a register holds, or ``fresh`` ones.

    Three operands at a time where that goes; else pairs first, which need not wait for each other.
    Terms that are computed first come one by one.
    """
    assert op.reduce is not None
    how, left = op.reduce, list(slots)
    verb = COMBINE[how]
    if op is VOCABULARY["sum_squares"] and operands.squares(code, into, source, left, fresh):
        return
    if op.lowered() is not None:
        lines = templates_of(op)
        for number, slot in enumerate(left):
            made = into if fresh and number == 0 else operands.result(1)
            operands.apply(code, lines, made, [slot], [source])
            if made != into:
                code(verb, into, made, into)
        return

    def term(number: int) -> Operand:
        return operands.read(code, number, source, left.pop(0))

    if fresh and len(left) == 1:
        move(code, into, term(0))
    elif fresh:
        code(verb, into, term(0), term(1))
    while left:
        if len(left) > 1 and how in OF_THREE:
            code(OF_THREE[how], into, term(0), term(1), into)
        elif len(left) > PAIRS:
            pairs = [operands.pair(n) for n in range(min(PAIRS, len(left) // 2))]
            for pair in pairs:
                code(verb, pair, term(0), term(1))
            for pair in pairs:
                code(verb, into, pair, into)
        else:
            code(verb, into, term(0), into)
