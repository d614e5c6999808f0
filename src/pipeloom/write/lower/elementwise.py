"""Element by element: ops of the vocabulary on register tiles, and moves.

Which registers an op's instructions run on follows from the tiles' tables: for each slot of the
result, the slot of every operand in which each lane has the element it needs (``vector_operands``).
Ops that reduce are ``reductions``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pipeloom.machine.dtypes import BF16, E8M0, F32, I32
from pipeloom.program import VOCABULARY, Access, InBlocks, Node, OpDef, Reduce, Space, Work
from pipeloom.write.code import Code
from pipeloom.write.convert import INTEGER_BITS, STORED_BITS, is_encoded, needs_constants
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank, Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.left import Masked, plan_mask
from pipeloom.write.lower.neighbours import partners, plan_block_max, plan_swapped
from pipeloom.write.lower.reductions import Reduction, plan_reduction, terms_of
from pipeloom.write.lower.region import PredicatedRegion, mask_names
from pipeloom.write.lower.register_tiles import RegisterTile
from pipeloom.write.lower.register_tiles import partial as held_in_parts
from pipeloom.write.lower.templates import templates_of
from pipeloom.write.lower.vector_operands import Operands, OperandSource
from pipeloom.write.lower.widened import plan_widened

_MOVE = OpDef("copy", 1, lambda a: a, lowering=("v_mov_b32 {d}, {0}",))

CLEARS = ("within", "clear")
"""Masks that leave 0 of what they do not keep."""
_EXPONENT = OpDef(
    "exponent",
    1,
    lambda a: a,
    lowering=("v_lshrrev_b32 {d}, 23, {0}", "v_min_u32 {d}, 0xfe, {d}"),
)
"""The code of a power of two as a block scale has it; past the largest, which NaN follows, that."""


def plan_move(context: Context, work: Work) -> Write:
    """A copy from registers to registers of the same wave."""
    read = work.reads[0]
    dims = context.type_of(read).dims
    box = context.register_box(read, work)
    source = OperandSource(read, context.tile(read, work), box, dims)
    return _plan(context, work, work.writes[0], dims, [source], _MOVE, None, None)


def plan_elementwise(
    context: Context, work: Work, op: OpDef, region: PredicatedRegion | None
) -> Write:
    """An op whose operands lie, lane by lane, where its result does; in the ``region`` that its
    condition opened, if it has one."""
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
        OperandSource.of(context, work, access, meaning[name], integer=op.integers)
        for access, name in zip(work.reads[: len(names)], names, strict=True)
    ]
    target = work.accumulates[0] if work.accumulates else work.writes[0]
    if node.within is not None:
        context.require_multiple(node.within.dim, node.within.size)
    _check_floats(op, [meaning[name] for name in names] + [node])
    _check_truths(op, meaning[node.uses[0]])
    start: OperandSource | None = None
    if work.accumulates:
        start = OperandSource.of(context, work, target, node)
    elif node.init is not None:
        start = sources.pop()
    return _plan(context, work, target, node.type.dims, sources, op, start, region)


def _check_floats(op: OpDef, nodes: Sequence[Node]) -> None:
    """The instructions of shipped ops are those of f32; integers are converted before and after."""
    for node in nodes:
        kind = node.type.dtype
        known = kind == I32 or kind.code in (*INTEGER_BITS, *STORED_BITS)
        made = node is nodes[-1] and (kind.code in INTEGER_BITS and kind.code not in STORED_BITS)
        sums = node is nodes[-1] and op.reduce is not None
        if op.name in VOCABULARY and kind.is_integer and (not known or made or sums):
            raise EmitError(
                f"{op.name} computes in f32, but {node.name!r} is {node.type}",
                hint="compute in f32 and convert the result, x.to(pl.I32); or use an op of your "
                "own with a lowering for integers",
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


def _plan(
    context: Context,
    work: Work,
    target: Access,
    dims: Sequence[str],
    sources: Sequence[OperandSource],
    op: OpDef,
    start: OperandSource | None,
    region: PredicatedRegion | None,
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
    if op.reduce is None and held_in_parts(tile.resource) is None:
        sources = [source.joined(context) for source in sources]
    node = None if work.is_copy else context.program.meaning[work.node]
    corner = np.array([p for p, _ in box], np.int64)
    held = [tile.coordinates[slot] - corner for slot in slots]
    first = [None if start is None else start.slot(work, at, dims) for at in held]
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
        terms = [terms_of(work, op, sources[0], at, dims, reduced) for at in held]
        _check_order(
            work,
            target,
            [
                (slot, [(start, begin)], [(sources[0], read) for read in term.slots])
                for slot, begin, term in zip(slots, first, terms, strict=True)
            ],
        )
        goes_on = work.accumulates and context.program.meaning[work.node].init is None
        reduction = Reduction(op, target, tile, slots, terms, sources[0], start, first)
        return plan_reduction(context, reduction, in_parts=bool(goes_on) or context.partial)
    if op.in_blocks is InBlocks.MAX:
        return plan_block_max(context, work, op, target, sources[0], slots)
    lines = templates_of(op)
    if tile.resource.type.dtype.code == E8M0.code:
        lines = templates_of(_EXPONENT)
    unpacks = (
        work.when is None
        and op.lowered() == _MOVE.lowered()
        and sources[0].tile is not None
        and sources[0].tile.pack > 1
        and tile.resource.type.dtype != sources[0].tile.resource.type.dtype
    )
    converts = (
        work.when is None
        and op.lowered() == _MOVE.lowered()
        and tile.pack > 1
        and sources[0].tile is not None
        and sources[0].tile.resource.type.dtype == F32
        and sources[0].join is None
    )
    if op.in_blocks is not None and node is not None and node.within is not None:
        held = [partners(at, dims.index(node.within.dim), node.within.size) for at in held]
        swapped = plan_swapped(context, work, target, sources[0], slots, held)
        if swapped is not None:
            return swapped
    jobs = [
        (slot, [source.slot(work, at, dims) for source in sources])
        for slot, at in zip(slots, held, strict=True)
    ]
    masks: dict[int, int] = {}
    if region is not None and work.when is not None:
        condition = OperandSource.of(
            context, work, work.reads[-1], context.program.meaning[work.when]
        )
        found = [condition.slot(work, at, dims) for at in held]
        masks = {slot: mask or 0 for slot, mask in zip(slots, found, strict=True)}
        jobs.sort(key=lambda job: masks[job[0]])
        if is_encoded(tile.resource.type.dtype):
            raise EmitError(
                f"{work.label} runs only where {work.when!r} holds, on {tile.resource.type.dtype}",
                hint="conditions are for 32-bit registers",
                field=work.label,
            )
    chunks = [jobs[at : at + tile.pack] for at in range(0, len(jobs), tile.pack)]
    for chunk in chunks:
        if [slot % tile.pack for slot, _ in chunk] != list(range(min(tile.pack, tile.slots))):
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
    if masked is not None and region is None:
        return plan_mask(context, masked, jobs)
    words = _masked_words(context, work, target, tile, sources, chunks)
    if words is not None and region is None:
        return plan_mask(context, *words)
    raw = (
        op.name not in VOCABULARY
        or op.integers
        or (
            op.lowered() == _MOVE.lowered()
            and sources[0].tile is not None
            and sources[0].tile.resource.type.dtype == tile.resource.type.dtype
        )
    )
    if work.when is None and op.lowered() == _MOVE.lowered():
        widened = plan_widened(context, work, target, sources[0], jobs)
        if widened is not None:
            return widened
    rounds = tile.resource.type.dtype.is_integer and not raw
    surely = {target.resource} <= context.in_vectors and region is None and work.when is None
    direct = surely and not rounds and target.resource not in context.conditions
    if converts:
        single = tile.resource.type.dtype == BF16 and not needs_constants(context.target, BF16.name)
        direct &= single and _lies_in_vectors(context, sources)
    else:
        plain = (
            tile.resource.type.dtype == F32
            and len(lines) == 1
            and {"t"}.isdisjoint(lines[0].operands)
        )
        direct &= plain and _lies_in_vectors(context, sources)
        scalars = sum(s.tile is None or s.tile.resource.space is Space.SCALAR for s in sources)
        direct &= scalars == 0 or (scalars == 1 and lines[0].takes_scalar)
    operands = Operands(
        context,
        tile,
        len(sources),
        raw=raw,
        node=work.node,
        beside=not converts,
        direct=direct,
    )
    kept = sources if op.lowered() == _MOVE.lowered() else sources[: bool(op.masks)]
    exact = bool(kept) and all(
        source.tile is not None and tile.resource.type.dtype.holds(source.tile.resource.type.dtype)
        for source in kept
    )
    holds: list[str] = []
    if target.resource in context.conditions:
        holds = mask_names(context.frame, target, tile.registers)
        lines = tuple(replace(line, operands=("d", *line.operands[1:])) for line in lines[:1])

    most = operands.beside(lines, sources, target) if region is None else 1

    def element(made: list[Register], number: int, job: _Job, turn: int, code: Code) -> None:
        slot, chosen = job
        if region is not None:
            region.choose(code, masks[slot])
        if unpacks:
            made[number] = operands.read_to(code, made[number], sources[0], chosen[0])
        elif converts:
            made[number] = operands.found(code, made[number], sources[0], chosen[0])
        else:
            operands.apply(code, lines, made[number], chosen, sources, turn)

    def emit(code: Code) -> None:
        operands.prepare(code)
        for source in sources:
            if source.left is not None:
                source.left.begin(code)
        for slot, chosen in jobs if holds else ():
            operands.apply(code, lines, context.frame[holds[slot]], chosen, sources)
        result = context.registers(target)
        made_there = result.bank is Bank.VECTOR and not rounds and not operands.packs
        beside = most if tile.pack > 1 or made_there else 1
        for begin in range(0, 0 if holds else len(chunks), beside):
            groups = chunks[begin : begin + beside]
            made: list[list[Register]] = []
            parts: list[Callable[[Code], None]] = []
            for turn, group in enumerate(groups, begin):
                place = result.part(group[0][0] // tile.pack)
                first = turn * tile.pack
                made.append(
                    [place if made_there else operands.result(first + i) for i in range(len(group))]
                )
                parts += [
                    partial(element, made[-1], number, job, first + number)
                    for number, job in enumerate(group)
                ]
            if beside > 1:
                code.side_by_side(parts)
            else:
                for part in parts:
                    part(code)
            for group, into in zip(groups, made, strict=True):
                place = result.part(group[0][0] // tile.pack)
                operands.finish(code, place, into, exact=exact)

    return emit


def _lies_in_vectors(context: Context, sources: Sequence[OperandSource]) -> bool:
    """Whether instructions take all of them where they are: as f32 in vector registers, or as
    scalars."""
    return all(
        s.left is None
        and s.join is None
        and (s.tile is None or s.tile.resource.type.dtype == F32)
        and (s.access is None or s.access.resource in context.in_vectors or s.tile is None)
        for s in sources
    )


_Job = tuple[int, list[int | None]]
"""A slot of the result, and those of the operands."""
_Reads = Sequence[tuple[OperandSource | None, int | None]]


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


def _masked_words(
    context: Context,
    work: Work,
    target: Access,
    tile: RegisterTile,
    sources: Sequence[OperandSource],
    chunks: Sequence[Sequence[_Job]],
) -> tuple[Masked, list[_Job]] | None:
    """What is masked of packed registers, as whole words: all elements of one are left, or none."""
    meaning = context.program.meaning
    node = None if work.is_copy else meaning[work.node]
    if node is None or node.op not in CLEARS or tile.pack == 1:
        return None
    value, left = sources[0], sources[1].left
    if value.access is None or not {target.resource, value.access.resource} <= context.in_vectors:
        return None
    alike = value.tile is not None and value.tile.resource.type.dtype == tile.resource.type.dtype
    ends = any(meaning.ends(node, dim) for dim in meaning[node.uses[1]].type.dims)
    if not (alike and ends and left is not None and value.access and len(sources) == 2):
        return None
    found: list[_Job] = []
    for chunk in chunks:
        first, at = chunk[0][1][0] or 0, chunk[0][1][1]
        together = [(of or 0) - first for _, (of, _) in chunk] == list(range(len(chunk)))
        places = {(left.pattern(x or 0), left.behind(x or 0)) for _, (_, x) in chunk}
        if first % tile.pack or not together or len(places) > 1:
            return None
        found.append((chunk[0][0] // tile.pack, [first // tile.pack, at, None]))
    return Masked(target, value.access, left, None, clears=True), found


def _masked(
    context: Context, work: Work, target: Access, sources: Sequence[OperandSource]
) -> Masked | None:
    """The operands of a mask of what lies past the end; None for other ops, and for what is no
    f32, of which minus infinity is other bits."""
    if work.is_copy or work.node not in context.program.meaning.masks:
        return None
    value, left, bound = sources
    registers = [value] if bound.tile is None else [value, bound]
    tiles = [context.tile(target, work), *(s.tile for s in registers)]
    plain = all(t is not None and t.resource.type.dtype == F32 for t in tiles)
    plain = plain and all(s.join is None for s in registers)
    if not plain or value.access is None or left.left is None:
        return None
    clears = context.program.meaning[work.node].op == "clear"
    return Masked(target, value.access, left.left, bound.access, clears)


def _reduced(sources: Sequence[OperandSource], dims: Sequence[str]) -> dict[str, int]:
    """Dimensions of operands that the result lacks, with the extent of the part."""
    found: dict[str, int] = {}
    for source in (s for s in sources if s.left is None):
        for dim, (p, q) in zip(source.dims, source.box, strict=True):
            if dim not in dims:
                found[dim] = q - p
    return found
