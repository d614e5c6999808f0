"""Element by element: ops of the vocabulary on register tiles, sums within a lane, moves.

An op's lowering is for one 32-bit register. Which registers it runs on follows from the tiles'
tables: for each slot of the result, the slot of every operand in which each lane has the element it
needs. Elements of 16 bits are unpacked to f32 before and packed again after; accumulation registers
are read and written through scratch, because vector instructions cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from pipeloom.program import Access, Node, NodeKind, OpDef, Reduce, Work
from pipeloom.program.tiles import Box
from pipeloom.write.code import Code
from pipeloom.write.convert import ConvertScratch, needs_constants, pack_halves, prepare, unpack
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank, Operand, Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Frame, Write
from pipeloom.write.lower.templates import INLINE, Template, float_bits, templates_of
from pipeloom.write.lower.tiles import Coordinates, RegisterTile

__all__ = ["float_bits", "plan_elementwise", "plan_move"]

COMBINE = {
    Reduce.ADD: "v_add_f32",
    Reduce.MAX: "v_max_f32",
    Reduce.MIN: "v_min_f32",
    Reduce.ANY: "v_or_b32",
}
_MOVE = OpDef("copy", 1, lambda a: a, lowering=("v_mov_b32 {d}, {0}",))


@dataclass(frozen=True, slots=True)
class _Source:
    """One operand: a tile's access, or a scalar by the frame's name, or an immediate."""

    access: Access | None
    tile: RegisterTile | None
    box: Box
    dims: tuple[str, ...]
    """Names of its dimensions, as the node has them."""
    scalar: str | int = 0


def plan_move(context: Context, work: Work) -> Write:
    """A copy from registers to registers of the same wave."""
    node = context.program.meaning[work.node]
    source = _source(context, work, work.reads[0], node)
    return _plan(context, work, work.writes[0], node.type.dims, [source], _MOVE, None)


def plan_elementwise(context: Context, work: Work, op: OpDef) -> Write:
    """An op whose operands lie, lane by lane, where its result does."""
    node = context.program.meaning[work.node]
    meaning = context.program.meaning
    names = list(node.uses)
    if node.init is not None and not work.accumulates:
        names.append(node.init)
    if len(work.reads) != len(names):
        raise EmitError(
            f"{work.label} reads {len(work.reads)} places for {len(names)} operands",
            hint="read every operand, in the order of the node's uses",
            field=work.label,
        )
    sources = [
        _source(context, work, access, meaning[name])
        for access, name in zip(work.reads, names, strict=True)
    ]
    target = work.accumulates[0] if work.accumulates else work.writes[0]
    start: _Source | None = None
    if work.accumulates:
        start = _source(context, work, target, node)
    elif node.init is not None:
        start = sources.pop()
    return _plan(context, work, target, node.type.dims, sources, op, start)


def _source(context: Context, work: Work, access: Access, node: Node) -> _Source:
    memory = context.memory_node(access)
    if memory is None:
        tile = context.tile(access, work)
        return _Source(access, tile, context.register_box(access, work), node.type.dims)
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
    if bool(reduced) and op.reduce is None:
        raise EmitError(
            f"{work.label}: op {op.name!r} reduces nothing, but its operands have "
            f"{', '.join(reduced)} and its result has not",
            hint="use an op with a reduction",
            field=work.label,
        )
    lines = () if op.reduce is not None else templates_of(op)
    corner = np.array([p for p, _ in box], np.int64)
    jobs: list[tuple[int, list[list[int | None]], int | None]] = []
    for slot in slots:
        relative = tile.coordinates[slot] - corner
        terms = [
            [_slot(work, s, relative, dims, dict(zip(reduced, at, strict=True))) for s in sources]
            for at in product(*(range(size) for size in reduced.values()))
        ]
        first = None if start is None else _slot(work, start, relative, dims, {})
        jobs.append((slot, terms, first))
    scratch = _Scratch(context, tile, sources, lines)

    def emit(code: Code) -> None:
        scratch.prepare(code)
        result = context.registers(target)
        for at in range(0, len(jobs), tile.pack):
            group = jobs[at : at + tile.pack]
            place = result.part(group[0][0] // tile.pack)
            direct = tile.pack == 1 and place.bank is Bank.VECTOR
            made = []
            for number, (_, terms, first) in enumerate(group):
                into = place if direct else scratch.result(number)
                if op.reduce is not None:
                    _reduce(code, context, scratch, op, into, terms, sources, start, first)
                else:
                    _apply(code, context, scratch, lines, into, terms[0], sources, tile.pack == 1)
                made.append(into)
            _finish(code, context, scratch, tile, place, made, direct)

    return emit


def _reduced(sources: Sequence[_Source], dims: Sequence[str]) -> dict[str, int]:
    """Dimensions of operands that the result lacks, with the extent of the part."""
    found: dict[str, int] = {}
    for source in sources:
        for dim, (p, q) in zip(source.dims, source.box, strict=True):
            if dim not in dims:
                found[dim] = q - p
    return found


def _slot(
    work: Work, source: _Source, relative: Coordinates, dims: Sequence[str], at: dict[str, int]
) -> int | None:
    """The operand's slot for a slot of the result; None for a scalar."""
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
        self,
        context: Context,
        tile: RegisterTile,
        sources: Sequence[_Source],
        lines: Sequence[Template],
    ) -> None:
        self._context = context
        frame = context.frame
        self._operands = frame.scratch("operands", max(len(sources), 1))
        self._results = frame.scratch("results", max(tile.pack, 2))
        self._temporary = frame.scratch("temporary")
        self._dtype = tile.resource.type.dtype.name
        self._convert: tuple[str, str] | None = None
        if tile.pack > 1:
            self._convert = (frame.scratch("conversion", 2, 2), frame.scratch("nan"))
            frame.scalar("round")
            frame.scalar("pack")
            if tile.pack != 2 or self._dtype not in ("bf16", "fp16"):
                raise EmitError(
                    f"no conversion from f32 to {self._dtype} in registers is known",
                    hint="compute in f32, bf16 or fp16",
                    field=tile.resource.name,
                )

    @property
    def _frame(self) -> Frame:
        return self._context.frame

    def operand(self, number: int) -> Register:
        return self._frame[self._operands].part(number)

    def result(self, number: int) -> Register:
        return self._frame[self._results].part(number)

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
        if self._convert and needs_constants(self._context.chip, self._dtype):
            prepare(code, self._context.chip, self._dtype, self.conversion)


def _operand(
    code: Code, context: Context, scratch: _Scratch, number: int, source: _Source, slot: int | None
) -> Operand:
    """An operand as vector instructions can read it: f32 in a vector register, or a scalar."""
    if source.tile is None or source.access is None or slot is None:
        value = source.scalar
        return value if isinstance(value, int) else context.frame[value]
    register = context.registers(source.access).part(slot // source.tile.pack)
    if register.bank is Bank.ACCUMULATOR:
        code("v_accvgpr_read_b32", scratch.operand(number), register)
        register = scratch.operand(number)
    if source.tile.pack > 1:
        dtype = source.tile.resource.type.dtype.name
        unpack(code, dtype, scratch.operand(number), register, slot % source.tile.pack)
        return scratch.operand(number)
    return register


def _apply(
    code: Code,
    context: Context,
    scratch: _Scratch,
    lines: Sequence[Template],
    into: Register,
    slots: Sequence[int | None],
    sources: Sequence[_Source],
    whole: bool,
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


def _reduce(
    code: Code,
    context: Context,
    scratch: _Scratch,
    op: OpDef,
    into: Register,
    terms: Sequence[Sequence[int | None]],
    sources: Sequence[_Source],
    start: _Source | None,
    first: int | None,
) -> None:
    """The terms one after the other, onto the start value where there is one."""
    assert op.reduce is not None
    if len(sources) != 1:
        raise EmitError(
            f"op {op.name!r} combines {len(sources)} operands and reduces; only a matrix "
            "instruction does that",
            hint="multiply first, then sum; or use the layouts of matrix instructions",
            field=op.name,
        )
    verb = COMBINE[op.reduce]
    started = start is not None
    if start is not None:
        value = _operand(code, context, scratch, 0, start, first)
        if value != into:
            code("v_mov_b32", into, value)
    for (slot,) in terms:
        value = _operand(code, context, scratch, 0, sources[0], slot)
        if started:
            code(verb, into, value, into)
        else:
            code("v_mov_b32", into, value)
        started = True


def _finish(
    code: Code,
    context: Context,
    scratch: _Scratch,
    tile: RegisterTile,
    place: Register,
    made: Sequence[Register],
    direct: bool,
) -> None:
    """Results that were made in scratch go to their register."""
    if direct:
        return
    dtype = tile.resource.type.dtype.name
    if tile.pack == 1:
        code("v_accvgpr_write_b32", place, made[0])
    elif place.bank is Bank.VECTOR:
        pack_halves(code, context.chip, dtype, place, made[0], made[1], scratch.conversion)
    else:
        pack_halves(code, context.chip, dtype, made[0], made[0], made[1], scratch.conversion)
        code("v_accvgpr_write_b32", place, made[0])
