"""Element by element: ops of the vocabulary on register tiles, sums within a lane, moves.

An op's lowering is for one 32-bit register. Which registers it runs on follows from the tiles'
tables: for each slot of the result, the slot of every operand in which each lane has the element it
needs. Elements of 16 bits are unpacked to f32 before and packed again after; accumulation registers
are read and written through scratch, because vector instructions cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from pipeloom.program import VOCABULARY, Access, Node, NodeKind, OpDef, Reduce, Work
from pipeloom.program.tiles import Box
from pipeloom.write.code import Code
from pipeloom.write.convert import (
    STORED_BITS,
    ConvertScratch,
    needs_constants,
    pack,
    prepare,
    unpack,
)
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank, Operand, Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Frame, Write
from pipeloom.write.lower.lanes import combine_lanes, plan_exchange, sharing_lanes
from pipeloom.write.lower.left import Left
from pipeloom.write.lower.mask import Masked, plan_mask
from pipeloom.write.lower.region import mask_names
from pipeloom.write.lower.register_tiles import WORD_BITS, Coordinates, RegisterTile, partial
from pipeloom.write.lower.templates import INLINE, Template, float_bits, templates_of

__all__ = ["float_bits", "plan_elementwise", "plan_move"]

COMBINE = {
    Reduce.ADD: "v_add_f32",
    Reduce.MAX: "v_max_f32",
    Reduce.MIN: "v_min_f32",
    Reduce.ANY: "v_or_b32",
}
PAIRS = 2
"""Of terms that are summed side by side."""
OF_THREE = {Reduce.MAX: "v_max3_f32", Reduce.MIN: "v_min3_f32"}
"""What combines two more operands at once."""
_MOVE = OpDef("copy", 1, lambda a: a, lowering=("v_mov_b32 {d}, {0}",))


@dataclass(frozen=True, slots=True)
class _Join:
    """How lanes' parts of an operand are combined on the way to an instruction."""

    verb: str
    bits: tuple[int, ...]
    other: str
    half: str | None


@dataclass(frozen=True, slots=True)
class _Source:
    """One operand: a tile's access, or a scalar by the frame's name, or an immediate."""

    access: Access | None
    tile: RegisterTile | None
    box: Box
    dims: tuple[str, ...]
    """Names of its dimensions, as the node has them."""
    scalar: str | int = 0
    left: Left | None = None
    join: _Join | None = None
    """What makes a whole of the parts that lanes hold, where the result is whole."""


def plan_move(context: Context, work: Work) -> Write:
    """A copy from registers to registers of the same wave."""
    read = work.reads[0]
    dims = context.type_of(read).dims
    box = context.register_box(read, work)
    source = _Source(read, context.tile(read, work), box, dims)
    return _plan(context, work, work.writes[0], dims, [source], _MOVE, None)


def plan_elementwise(context: Context, work: Work, op: OpDef) -> Write:
    """An op whose operands lie, lane by lane, where its result does."""
    node = context.program.meaning[work.node]
    meaning = context.program.meaning
    names = list(node.uses)
    if node.init is not None and not work.accumulates:
        names.append(node.init)
    extra = 0 if work.when is None else 1 + (node.otherwise is not None)
    if len(work.reads) not in (len(names) + extra, len(names) + min(extra, 1)):
        raise EmitError(
            f"{work.label} reads {len(work.reads)} places for {len(names)} operands",
            hint="read every operand, in the order of the node's uses",
            field=work.label,
        )
    sources = [
        _source(context, work, access, meaning[name])
        for access, name in zip(work.reads[: len(names)], names, strict=True)
    ]
    target = work.accumulates[0] if work.accumulates else work.writes[0]
    _check_floats(op, [meaning[name] for name in names] + [node])
    _check_truths(op, meaning[node.uses[0]])
    start: _Source | None = None
    if work.accumulates:
        start = _source(context, work, target, node)
    elif node.init is not None:
        start = sources.pop()
    return _plan(context, work, target, node.type.dims, sources, op, start)


def _check_floats(op: OpDef, nodes: Sequence[Node]) -> None:
    """The instructions of shipped ops are those of f32."""
    for node in nodes:
        if op.name in VOCABULARY and node.type.dtype.is_integer:
            raise EmitError(
                f"{op.name} computes in f32, but {node.name!r} is {node.type}",
                hint="use an op of your own with a lowering for integers",
                field=node.name,
            )


def _check_truths(op: OpDef, operand: Node) -> None:
    """Whether any is true is found by the bits of 1.0 and 0, which those of numbers are not."""
    truths = op.bool_result if op.lowered() else operand.type.dtype.is_bool
    if op.reduce is Reduce.ANY and not truths:
        raise EmitError(
            f"{op.name} asks whether any of {operand.name!r} is true, which is {operand.type}",
            hint="compare it first: x > 0; or give the op a lowering, and bool_result",
            field=op.name,
        )


def _source(context: Context, work: Work, access: Access, node: Node) -> _Source:
    memory = context.memory_node(access)
    if memory is None:
        tile = context.tile(access, work)
        return _Source(access, tile, context.register_box(access, work), node.type.dims)
    if memory.kind is NodeKind.LEFT:
        return _Source(access, None, (), memory.type.dims, left=Left(context, work, access, memory))
    if memory.kind is NodeKind.SCALAR:
        return _Source(None, None, (), (), f"argument {memory.name}")
    if memory.kind is NodeKind.CONSTANT:
        bits = float_bits(float(memory.start or 0.0))
        inline = bits in INLINE
        return _Source(None, None, (), (), bits if inline else context.frame.constant(bits))
    raise EmitError(
        f"{work.label} computes on {access.resource} in global memory",
        hint="copy it to registers first",
        field=access.resource,
    )


def _joined(context: Context, source: _Source) -> _Source:
    how = None if source.tile is None else partial(source.tile.resource)
    if source.tile is None or how is None:
        return source
    bits = sharing_lanes(source.tile.coordinates[0])
    other = context.frame.scratch("exchanged")
    half = plan_exchange(context.frame, context.target, bits)
    return replace(source, join=_Join(COMBINE[how], bits, other, half))


def _plan(
    context: Context,
    work: Work,
    target: Access,
    dims: Sequence[str],
    sources: Sequence[_Source],
    op: OpDef,
    start: _Source | None,
) -> Write:
    tile = context.tile(target, work)
    box = context.register_box(target, work)
    slots = tile.slots_in(box, work.label)
    reduced = _reduced(sources, dims)
    if reduced and op.reduce is None:
        raise EmitError(
            f"{work.label}: op {op.name!r} reduces nothing, but its operands have "
            f"{', '.join(reduced)} and its result has not",
            hint="use an op with a reduction",
            field=work.label,
        )
    if op.reduce is None and partial(tile.resource) is None:
        sources = [_joined(context, source) for source in sources]
    corner = np.array([p for p, _ in box], np.int64)
    held = [tile.coordinates[slot] - corner for slot in slots]
    first = [None if start is None else _slot(work, start, at, dims, {}) for at in held]
    if op.reduce is not None:
        if len(sources) != 1:
            raise EmitError(
                f"op {op.name!r} combines {len(sources)} operands and reduces; only a matrix "
                "instruction does that",
                hint="multiply first, then sum; or use the layouts of matrix instructions",
                field=op.name,
            )
        if work.when is not None:
            raise EmitError(
                f"{work.label} reduces only where {work.when!r} holds",
                hint="reduce in any case, and use the result under the condition",
                field=work.label,
            )
        terms = [_terms(work, op, sources[0], at, dims, reduced) for at in held]
        _check_order(
            work,
            target,
            [
                (slot, [(start, begin)], [(sources[0], read) for read in term.slots])
                for slot, begin, term in zip(slots, first, terms, strict=True)
            ],
        )
        goes_on = work.accumulates and context.program.meaning[work.node].init is None
        plan = _plan_partial if goes_on or context.partial else _plan_reduction
        return plan(context, op, target, tile, slots, terms, sources[0], start, first)
    lines = templates_of(op)
    converts = (
        work.when is None
        and op.lowered() == _MOVE.lowered()
        and tile.pack > 1
        and sources[0].tile is not None
        and sources[0].tile.pack == 1
        and sources[0].join is None
    )
    jobs = [
        (slot, [_slot(work, source, at, dims, {}) for source in sources])
        for slot, at in zip(slots, held, strict=True)
    ]
    region = context.region
    masks: dict[int, int] = {}
    if region is not None and work.when is not None:
        condition = _source(context, work, work.reads[-1], context.program.meaning[work.when])
        found = [_slot(work, condition, at, dims, {}) for at in held]
        masks = {slot: mask or 0 for slot, mask in zip(slots, found, strict=True)}
        jobs.sort(key=lambda job: masks[job[0]])
        if tile.pack > 1:
            raise EmitError(
                f"{work.label} runs only where {work.when!r} holds, on {tile.resource.type.dtype}",
                hint="conditions are for 32-bit registers",
                field=work.label,
            )
    chunks = [jobs[at : at + tile.pack] for at in range(0, len(jobs), tile.pack)]
    for chunk in chunks:
        if [slot % tile.pack for slot, _ in chunk] != list(range(tile.pack)):
            raise EmitError(
                f"{work.label} writes a part of a register of {tile.resource.name}",
                hint="cut tiles where whole registers end",
                field=tile.resource.name,
            )
    _check_order(
        work,
        target,
        [
            (
                chunk[0][0] // tile.pack,
                [pair for _, chosen in chunk for pair in zip(sources, chosen, strict=True)],
                [],
            )
            for chunk in chunks
        ],
    )
    masked = _masked(context, work, target, sources)
    if masked is not None and tile.pack == 1 and region is None:
        return plan_mask(context, masked, jobs)
    scratch = _Scratch(context, tile, len(sources))
    holds: list[str] = []
    if target.resource in context.conditions:
        holds = mask_names(context.frame, target, tile.registers)
        lines = tuple(replace(line, operands=("d", *line.operands[1:])) for line in lines[:1])

    def emit(code: Code) -> None:
        scratch.prepare(code)
        for source in sources:
            if source.left is not None:
                source.left.begin(code)
        for slot, chosen in jobs if holds else ():
            _apply(code, context, scratch, lines, context.frame[holds[slot]], chosen, sources)
        result = context.registers(target)
        for group in () if holds else chunks:
            place = result.part(group[0][0] // tile.pack)
            direct = tile.pack == 1 and place.bank is Bank.VECTOR
            made = [place if direct else scratch.result(i) for i in range(len(group))]
            for number, (slot, chosen) in enumerate(group):
                if region is not None:
                    region.choose(code, masks[slot])
                if converts:
                    made[number] = _found(code, context, made[number], sources[0], chosen[0])
                else:
                    _apply(code, context, scratch, lines, made[number], chosen, sources)
            _finish(code, context, scratch, tile, place, made)

    return emit


_Reads = Sequence[tuple[_Source | None, int | None]]


def _check_order(
    work: Work, target: Access, registers: Sequence[tuple[int, _Reads, _Reads]]
) -> None:
    """Raise where a register is read after it was written, though a step reads first.

    Of each register that is written, in that order: what is read before, and what until the next.
    """

    def touched(reads: _Reads) -> set[int]:
        return {
            slot // source.tile.pack
            for source, slot in reads
            if source is not None and source.tile is not None and slot is not None
            if (at := source.access) is not None
            and (at.resource, at.copy) == (target.resource, target.copy)
        }

    written: set[int] = set()
    for register, before, after in registers:
        early = touched(before) & written
        written.add(register)
        if early or touched(after) & written:
            raise EmitError(
                f"{work.label} would overwrite what it still reads of {target.resource}",
                hint="let what it reads lie where it writes, element for element, or elsewhere",
                field=target.resource,
            )


def _masked(
    context: Context, work: Work, target: Access, sources: Sequence[_Source]
) -> Masked | None:
    """The operands of a mask of what lies past the end; None for other ops and packed registers."""
    if work.is_copy or work.node not in context.program.meaning.masks:
        return None
    value, left, bound = sources
    registers = [value] if bound.tile is None else [value, bound]
    plain = all(s.tile is not None and s.tile.pack == 1 and s.join is None for s in registers)
    if not plain or value.access is None or left.left is None:
        return None
    return Masked(target, value.access, left.left, bound.access)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What one result slot sums: slots of its own lane, then lanes that differ in ``bits``."""

    slots: tuple[int | None, ...]
    bits: tuple[int, ...]


def _terms(
    work: Work,
    op: OpDef,
    source: _Source,
    relative: Coordinates,
    dims: Sequence[str],
    reduced: dict[str, int],
) -> _Terms:
    """Where the terms of a result lie: in the lane itself, or shared among lanes that hold it."""
    points = list(product(*(range(size) for size in reduced.values())))
    if source.left is not None:
        raise EmitError(
            f"{work.label} reduces what is left along {source.dims[0]!r}",
            hint="compute it from something that is loaded",
            field=work.label,
        )
    if source.tile is None:
        return _Terms((None,) * len(points), ())
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
                flat = flat * size + here[:, axis]
            counted[np.arange(len(here)), flat] += 1
    lane = np.arange(len(relative))
    bits = sharing_lanes(relative)
    if (counted == 1).all():
        return _Terms(tuple(mine), ())
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
    return _Terms(tuple(mine), bits)


def _plan_reduction(
    context: Context,
    op: OpDef,
    target: Access,
    tile: RegisterTile,
    slots: Sequence[int],
    terms: Sequence[_Terms],
    source: _Source,
    start: _Source | None,
    first: Sequence[int | None],
) -> Write:
    """Sums in lanes, then across them, then onto the start value; all slots side by side."""
    assert op.reduce is not None
    verb = COMBINE[op.reduce]
    bits = terms[0].bits if terms else ()
    if partial(tile.resource) is op.reduce:
        terms, bits = [replace(t, bits=()) for t in terms], ()
    frame = context.frame
    if any(t.bits != bits for t in terms) or tile.pack > 1:
        raise EmitError(
            f"{op.name} sums to {tile.resource.name} ({tile.resource.type.dtype}, {tile.kind})",
            hint="reduce to 32-bit registers whose lanes all share alike",
            field=tile.resource.name,
        )
    most = max((len(term.slots) for term in terms), default=0)
    scratch = _Scratch(context, tile, min(most, 2), pairs=most > PAIRS)
    sums = frame.scratch("sums", len(slots))
    shuffled = frame.scratch("exchanged", len(slots)) if bits else None
    half = plan_exchange(frame, context.target, bits)

    def emit(code: Code) -> None:
        result = context.registers(target)
        places = [result.part(slot) for slot in slots]
        alone = not bits and result.bank is Bank.VECTOR
        values = places if alone else [frame[sums].part(i) for i in range(len(slots))]
        for value, term, begin in zip(values, terms, first, strict=True):
            started = alone and start is not None
            if started and start is not None:
                _move(code, value, _operand(code, context, scratch, 0, start, begin))
            _combine(code, context, scratch, op, value, source, term.slots, not started)
        if shuffled is not None:
            others = [frame[shuffled].part(i) for i in range(len(slots))]
            address = None if half is None else frame[half]
            combine_lanes(code, context.target, verb, bits, values, others, address)
        for value, place, begin in zip(values, places, first, strict=True):
            if not alone and start is not None:
                code(verb, value, _operand(code, context, scratch, 0, start, begin), value)
            _finish(code, context, scratch, tile, place, [value])

    return emit


def _plan_partial(
    context: Context,
    op: OpDef,
    target: Access,
    tile: RegisterTile,
    slots: Sequence[int],
    terms: Sequence[_Terms],
    source: _Source,
    start: _Source | None,
    first: Sequence[int | None],
) -> Write:
    """Part of a sum, in place and lane by lane; the last part joins the lanes."""
    assert op.reduce is not None
    how = op.reduce
    bits = () if context.partial or not terms else terms[0].bits
    if partial(tile.resource) is how:
        bits = ()
    if any(t.bits != terms[0].bits for t in terms) or tile.pack > 1:
        raise EmitError(
            f"{op.name} sums to {tile.resource.name} ({tile.resource.type.dtype}, {tile.kind}) in "
            "parts",
            hint="reduce to 32-bit registers whose lanes all share alike",
            field=tile.resource.name,
        )
    frame = context.frame
    most = max((len(term.slots) for term in terms), default=0)
    scratch = _Scratch(context, tile, min(most, 2), pairs=most > PAIRS)
    shuffled = frame.scratch("exchanged", len(slots)) if bits else None
    half = plan_exchange(frame, context.target, bits)

    def emit(code: Code) -> None:
        places = [context.registers(target).part(slot) for slot in slots]
        for place, term in zip(places, terms, strict=True):
            _combine(code, context, scratch, op, place, source, term.slots, start is None)
        if shuffled is not None:
            others = [frame[shuffled].part(i) for i in range(len(slots))]
            address = None if half is None else frame[half]
            combine_lanes(code, context.target, COMBINE[how], bits, places, others, address)

    return emit


def _combine(
    code: Code,
    context: Context,
    scratch: _Scratch,
    op: OpDef,
    into: Register,
    source: _Source,
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
    if op.lowered() is not None:
        lines = templates_of(op)
        for number, slot in enumerate(left):
            made = into if fresh and number == 0 else scratch.result(1)
            _apply(code, context, scratch, lines, made, [slot], [source])
            if made != into:
                code(verb, into, made, into)
        return

    def term(number: int) -> Operand:
        return _operand(code, context, scratch, number, source, left.pop(0))

    if fresh and len(left) == 1:
        _move(code, into, term(0))
    elif fresh:
        code(verb, into, term(0), term(1))
    while left:
        if len(left) > 1 and how in OF_THREE:
            code(OF_THREE[how], into, term(0), term(1), into)
        elif len(left) > PAIRS:
            pairs = [scratch.pair(n) for n in range(min(PAIRS, len(left) // 2))]
            for pair in pairs:
                code(verb, pair, term(0), term(1))
            for pair in pairs:
                code(verb, into, pair, into)
        else:
            code(verb, into, term(0), into)


def _move(code: Code, into: Register, value: Operand) -> None:
    if value != into:
        code("v_mov_b32", into, value)


def _reduced(sources: Sequence[_Source], dims: Sequence[str]) -> dict[str, int]:
    """Dimensions of operands that the result lacks, with the extent of the part."""
    found: dict[str, int] = {}
    for source in (s for s in sources if s.left is None):
        for dim, (p, q) in zip(source.dims, source.box, strict=True):
            if dim not in dims:
                found[dim] = q - p
    return found


def _slot(
    work: Work, source: _Source, relative: Coordinates, dims: Sequence[str], at: dict[str, int]
) -> int | None:
    """The operand's slot for a slot of the result; None for a scalar."""
    if source.left is not None:
        return source.left.slot(relative[:, dims.index(source.dims[0])])
    if source.tile is None:
        return None
    columns = [
        relative[:, dims.index(dim)] if dim in dims else np.full(len(relative), at[dim])
        for dim in source.dims
    ]
    corner = [p for p, _ in source.box]
    held = (
        np.stack([c + p for c, p in zip(columns, corner, strict=True)], axis=-1)
        if columns
        else np.zeros((len(relative), 0), np.int64)
    )
    found = source.tile.slot_of(held)
    if found is None:
        raise EmitError(
            f"{work.label}: lanes do not hold the elements of {source.tile.resource.name} "
            f"({source.tile.kind}) that their elements of the result need",
            hint="give both tiles the same layout, or go through LDS",
            field=work.label,
        )
    return found


class _Scratch:
    """Vector registers of one step: unpacked operands, results to pack, the template's own."""

    def __init__(
        self, context: Context, tile: RegisterTile, sources: int, *, pairs: bool = False
    ) -> None:
        self._context = context
        frame = context.frame
        self._operands = frame.scratch("operands", max(sources, 1))
        self._results = frame.scratch("results", max(tile.pack, 2))
        self._temporary = frame.scratch("temporary")
        self._pairs = frame.scratch("pairs", PAIRS) if pairs else ""
        self._dtype = tile.resource.type.dtype.name
        self._convert: tuple[str, str] | None = None
        if tile.pack > 1:
            self._convert = (frame.scratch("conversion", 2, 2), frame.scratch("nan"))
            frame.scalar("round")
            frame.scalar("pack")
            if self._dtype not in STORED_BITS:
                raise EmitError(
                    f"no conversion from f32 to {self._dtype} in registers is known",
                    hint=f"compute in one of: {', '.join(STORED_BITS)}",
                    field=tile.resource.name,
                )

    @property
    def _frame(self) -> Frame:
        return self._context.frame

    def operand(self, number: int) -> Register:
        return self._frame[self._operands].part(number)

    def result(self, number: int) -> Register:
        return self._frame[self._results].part(number)

    def pair(self, number: int) -> Register:
        return self._frame[self._pairs].part(number)

    @property
    def temporary(self) -> Register:
        return self._frame[self._temporary]

    @property
    def conversion(self) -> ConvertScratch:
        assert self._convert is not None
        work, nan = self._convert
        frame = self._frame
        return ConvertScratch(frame[work], frame[nan], frame["round"], frame["pack"])

    def prepare(self, code: Code) -> None:
        """Constants of the conversion."""
        if self._convert and needs_constants(self._context.target, self._dtype):
            prepare(code, self._context.target, self._dtype, self.conversion)


def _operand(
    code: Code, context: Context, scratch: _Scratch, number: int, source: _Source, slot: int | None
) -> Operand:
    """An operand as vector instructions can read it: f32 in a vector register, or a scalar."""
    if source.left is not None and slot is not None:
        return source.left.operand(code, slot, scratch.operand(number))
    if source.tile is None or source.access is None or slot is None:
        value = source.scalar
        return value if isinstance(value, int) else context.frame[value]
    register = context.registers(source.access).part(slot // source.tile.pack)
    if register.bank is Bank.ACCUMULATOR:
        code("v_accvgpr_read_b32", scratch.operand(number), register)
        register = scratch.operand(number)
    dtype = source.tile.resource.type.dtype.name
    if source.tile.pack > 1 or STORED_BITS.get(dtype, WORD_BITS) < WORD_BITS:
        unpack(code, dtype, scratch.operand(number), register, slot % source.tile.pack)
        return scratch.operand(number)
    if source.join is not None:
        join, whole = source.join, scratch.operand(number)
        code("v_mov_b32", whole, register)
        half = None if join.half is None else context.frame[join.half]
        others = [context.frame[join.other].part(0)]
        combine_lanes(code, context.target, join.verb, join.bits, [whole], others, half)
        return whole
    return register


def _found(
    code: Code, context: Context, scratch: Register, source: _Source, slot: int | None
) -> Register:
    """A 32-bit operand where it lies, if vector instructions can read it there."""
    assert source.access is not None
    assert slot is not None
    register = context.registers(source.access).part(slot)
    if register.bank is not Bank.ACCUMULATOR:
        return register
    code("v_accvgpr_read_b32", scratch, register)
    return scratch


def _apply(
    code: Code,
    context: Context,
    scratch: _Scratch,
    lines: Sequence[Template],
    into: Register,
    slots: Sequence[int | None],
    sources: Sequence[_Source],
) -> None:
    values = [
        _operand(code, context, scratch, number, source, slot)
        for number, (source, slot) in enumerate(zip(sources, slots, strict=True))
    ]
    scalars = [v for v in values if isinstance(v, Register) and v.bank is Bank.SCALAR]
    if len(scalars) > 1 or (scalars and not all(line.takes_scalar for line in lines)):
        for number, value in enumerate(values):
            if isinstance(value, Register) and value.bank is Bank.SCALAR:
                code("v_mov_b32", scratch.operand(number), value)
                values[number] = scratch.operand(number)
    # A line may write the result before another reads an operand that lies in the same register.
    early = any(line.operands[0] == "d" for line in lines[:-1])
    final = scratch.result(0) if early and into in values else into
    places: dict[str, Operand] = {"d": final, "t": scratch.temporary}
    places |= {str(number): value for number, value in enumerate(values)}
    for line in lines:
        code(line.opcode, *line.filled(places), modifiers=line.modifiers)
    if final is not into:
        code("v_mov_b32", into, final)


def _finish(
    code: Code,
    context: Context,
    scratch: _Scratch,
    tile: RegisterTile,
    place: Register,
    made: Sequence[Register],
) -> None:
    """Results that were made elsewhere go to their register."""
    if made[0] == place:
        return
    value = made[0]
    if tile.pack > 1:
        value = place if place.bank is Bank.VECTOR else made[0]
        dtype = tile.resource.type.dtype.name
        pack(code, context.target, dtype, value, made, scratch.conversion)
    if place.bank is Bank.ACCUMULATOR:
        code("v_accvgpr_write_b32", place, value)
    elif place.bank is Bank.SCALAR:
        code("v_readfirstlane_b32", place, value)
    else:
        _move(code, place, value)
