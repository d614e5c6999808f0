"""What vector instructions read and write: operands as f32, results in their registers.

An op's lowering is for one 32-bit register. An operand is a slot of a tile (or a scalar, a number,
what is left along a dimension); elements of 16 bits are unpacked to f32 before and packed again
after; accumulation registers are read and written through scratch, because vector instructions
cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeloom.checks import check_known
from pipeloom.machine.dtypes import BF16, E8M0, I32
from pipeloom.program import Access, Node, NodeKind, Reduce, Space, Work
from pipeloom.program.nan_payloads import short_nans
from pipeloom.program.tiles import Box
from pipeloom.write.code import Code
from pipeloom.write.convert import (
    STORED_BITS,
    ConvertScratch,
    is_encoded,
    needs_constants,
    pack,
    prepare,
    unpack,
    whole_number,
)
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import VCC, Bank, Operand, Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import rounding_constants
from pipeloom.write.lower.lanes import LaneExchange, sharing_lanes
from pipeloom.write.lower.left import Left
from pipeloom.write.lower.register_tiles import WORD_BITS, Coordinates, RegisterTile, partial
from pipeloom.write.lower.templates import INLINE, Template, float_bits

COMBINE = {
    Reduce.ADD: "v_add_f32",
    Reduce.MAX: "v_max_f32",
    Reduce.MIN: "v_min_f32",
    Reduce.ANY: "v_or_b32",
}
PAIRS = 2
"""Of terms that are summed side by side."""
NOWHERE = Register(Bank.VECTOR, 0, 1 << 10)
"""Stands for registers that nothing takes."""
BESIDE = 8
"""Elements in registers of their own while they are unpacked, computed and packed: their
instructions need not wait for each other."""


@dataclass(frozen=True, slots=True)
class OperandSource:
    """One operand: a tile's access, or a scalar by the frame's name, or an immediate."""

    access: Access | None
    tile: RegisterTile | None
    box: Box
    dims: tuple[str, ...]
    """Names of its dimensions, as the node has them."""
    scalar: str | int = 0
    left: Left | None = None
    join: LaneExchange | None = None
    """What makes a whole of the parts that lanes hold, where the result is whole."""

    @classmethod
    def of(
        cls, context: Context, work: Work, access: Access, node: Node, *, integer: bool = False
    ) -> OperandSource:
        """What ``access`` reads of ``node``, for an op of f32, or of bits (``integer``)."""
        memory = context.memory_node(access)
        if memory is None:
            tile = context.tile(access, work)
            if integer and tile.resource.type.dtype != I32:
                raise EmitError(
                    f"{work.label} takes the bits of {access.resource}, which is "
                    f"{tile.resource.type}",
                    hint="let i32 lie there; a constant is read where it is",
                    field=access.resource,
                )
            return cls(access, tile, context.register_box(access, work), node.type.dims)
        if memory.kind is NodeKind.LEFT:
            left = Left(context, work, access, memory)
            return cls(access, None, (), memory.type.dims, left=left)
        if memory.along is not None:
            return cls(None, None, (), (), context.memory.count(memory.along))
        if memory.kind is NodeKind.SCALAR:
            return cls(None, None, (), (), f"argument {memory.name}")
        if memory.kind is NodeKind.CONSTANT:
            number = float(memory.start or 0.0)
            bits = int(number) & 0xFFFFFFFF if integer else float_bits(number)
            inline = bits in INLINE
            return cls(None, None, (), (), bits if inline else context.frame.constant(bits))
        raise EmitError(
            f"{work.label} computes on {access.resource} in global memory",
            hint="copy it to registers first",
            field=access.resource,
        )

    def joined(self, context: Context) -> OperandSource:
        """The same, made a whole of lanes' parts where it is in parts."""
        how = None if self.tile is None else partial(self.tile.resource)
        if self.tile is None or how is None:
            return self
        bits = sharing_lanes(self.tile.coordinates[0])
        return replace(self, join=LaneExchange.plan(context.frame, COMBINE[how], bits, 1))

    def slot(self, work: Work, relative: Coordinates, dims: Sequence[str]) -> int | None:
        """Its slot for a slot of the result; None for a scalar.

        ``relative`` are the coordinates of the result's elements, along ``dims``.
        """
        if self.left is not None:
            return self.left.slot(relative[:, dims.index(self.dims[0])])
        if self.tile is None:
            return None
        corner = np.array([p for p, _ in self.box], np.int64)
        wanted = relative[:, [dims.index(dim) for dim in self.dims]] + corner
        covers = self.tile.resource.type.dtype.covers
        wanted[:, -1:] -= wanted[:, -1:] % covers
        found = self.tile.slot_of(wanted)
        if found is None:
            raise EmitError(
                f"{work.label}: lanes do not hold the elements of {self.tile.resource.name} "
                f"({self.tile.kind}) that their elements of the result need",
                hint="give both tiles the same layout, or go through LDS",
                field=work.label,
            )
        return found


class Operands:
    """The vector registers of one step: unpacked operands, results to pack, the template's own.

    ``raw``: an op of one's own computes on integers as they are; others take and give f32.
    ``beside``: results of several registers may be made side by side. ``direct``: every operand is
    used where it lies, and every result made where it stays.
    """

    def __init__(
        self,
        context: Context,
        tile: RegisterTile,
        sources: int,
        *,
        pairs: bool = False,
        raw: bool = False,
        node: str | None = None,
        beside: bool = True,
        direct: bool = False,
    ) -> None:
        self._raw = raw
        self._context, self._tile = context, tile
        frame = self._frame = context.frame
        self._beside = BESIDE if tile.pack > 1 and beside else 1
        self._sources = max(sources, 1)
        self._operands = self._results = self._temporary = ""
        if not direct:
            self._operands = frame.scratch("operands", self._sources * min(self._beside, PAIRS))
            self._results = frame.scratch("results", max(tile.pack, self._beside, 2))
            self._temporary = frame.scratch("temporary")
        self._pairs = frame.scratch("pairs", PAIRS) if pairs else ""
        self._dtype = tile.resource.type.dtype.code
        self._convert: tuple[str, str | None] | None = None
        if (
            is_encoded(tile.resource.type.dtype) and self._dtype != E8M0.code
        ):  # which an op of its own makes
            short = node is not None and short_nans(context.program.meaning, node)
            spelt = needs_constants(frame.target, self._dtype)
            nan = None if short or not spelt else frame.scratch("nan")
            alone = self._dtype == BF16.name and not spelt  # a single instruction
            work = self._results if alone else frame.scratch("conversion", 2, 2)
            self._convert = (work, nan)
            self._constants = rounding_constants(frame, self._dtype)
            said = f"no conversion from f32 to {self._dtype} in registers is known"
            check_known(self._dtype, STORED_BITS, said, tile.resource.name, EmitError)

    @property
    def packs(self) -> bool:
        """Whether results are made elsewhere and then packed, be it one to a register."""
        return self._convert is not None

    def result(self, number: int) -> Register:
        """Where the ``number``-th result is made, if it goes elsewhere."""
        results = self._frame[self._results] if self._results else NOWHERE
        return results.part(number % max(self._beside, self._tile.pack, 2))

    def pair(self, number: int) -> Register:
        """Where two terms are combined."""
        return self._frame[self._pairs].part(number)

    def beside(
        self, lines: Sequence[Template], sources: Sequence[OperandSource], target: Access
    ) -> int:
        """How many registers of results may be made side by side: those whose elements share no
        scratch register on the way. What is unpacked goes to the result's own register, which no
        other operand may hold."""
        scalars = sum(s.tile is None or s.tile.resource.space is Space.SCALAR for s in sources)
        alone = (
            len(lines) == 1
            and "t" not in lines[0].operands
            and VCC not in lines[0].operands
            and sum(map(self._unpacks, sources)) == 1
            and not any(s.left or s.join for s in sources)
            and all(s.access is None or s.access.resource != target.resource for s in sources)
            and (not scalars or (scalars == 1 and lines[0].takes_scalar))
        )
        return max(1, BESIDE // self._tile.pack) if alone else 1

    @property
    def _conversion(self) -> ConvertScratch:
        assert self._convert is not None
        work, nan = self._convert
        frame = self._frame
        kept = None if nan is None else frame[nan]
        return ConvertScratch(
            frame[work] if work else NOWHERE, kept, *(frame[name] for name in self._constants)
        )

    def prepare(self, code: Code) -> None:
        """Constants of the conversion."""
        if self._convert:
            prepare(code, self._context.target, self._dtype, self._conversion)

    def read_to(
        self, code: Code, into: Register, source: OperandSource, slot: int | None
    ) -> Register:
        """An element of a packed operand as f32, in a register of its own."""
        found = self._read(code, into, source, slot)
        assert isinstance(found, Register)
        return found

    def read(self, code: Code, number: int, source: OperandSource, slot: int | None) -> Operand:
        """An operand as vector instructions can read it: f32 in a vector register, or a scalar."""
        return self._read(code, self._frame[self._operands].part(number), source, slot)

    def _unpacks(self, source: OperandSource) -> bool:
        """Whether an operand is made f32 before it is used."""
        if source.tile is None or source.access is None:
            return False
        kind = source.tile.resource.type.dtype
        whole = kind == I32 and not self._raw
        return source.tile.pack > 1 or whole or is_encoded(kind)

    def _read(
        self, code: Code, scratch: Register, source: OperandSource, slot: int | None
    ) -> Operand:
        context = self._context
        if source.left is not None and slot is not None:
            return source.left.operand(code, slot, scratch)
        if source.tile is None or source.access is None or slot is None:
            value = source.scalar
            return value if isinstance(value, int) else context.frame[value]
        place = context.registers(source.access).part(slot // source.tile.pack)
        register = readable(code, place, scratch)
        if self._unpacks(source):
            dtype = source.tile.resource.type.dtype.code
            unpack(code, context.target, dtype, scratch, register, slot % source.tile.pack)
            return scratch
        if source.join is not None:
            code("v_mov_b32", scratch, register)
            source.join.emit(code, [scratch])
            return scratch
        return register

    def found(
        self, code: Code, scratch: Register, source: OperandSource, slot: int | None
    ) -> Register:
        """A 32-bit operand where it lies, if vector instructions can read it there."""
        assert source.access is not None
        assert slot is not None
        return readable(code, self._context.registers(source.access).part(slot), scratch)

    def apply(
        self,
        code: Code,
        lines: Sequence[Template],
        into: Register,
        slots: Sequence[int | None],
        sources: Sequence[OperandSource],
        turn: int = 0,
    ) -> None:
        """An op's instructions, on these slots of its operands; of results that are made side by
        side, the ``turn``-th. What is unpacked first, is where the result will be."""
        scratch = NOWHERE
        if self._operands:
            scratch = self._frame[self._operands].part(
                turn % min(self._beside, PAIRS) * self._sources, self._sources
            )
        first = next((n for n, source in enumerate(sources) if self._unpacks(source)), None)
        if into.bank is not Bank.VECTOR or len(lines) > 1 or self._holds(into, sources, slots):
            first = None
        values = [
            self._read(code, into if number == first else scratch.part(number), source, slot)
            for number, (source, slot) in enumerate(zip(sources, slots, strict=True))
        ]
        scalars = [v for v in values if isinstance(v, Register) and v.bank is Bank.SCALAR]
        if len(scalars) > 1 or (scalars and not all(line.takes_scalar for line in lines)):
            for number, value in enumerate(values):
                if isinstance(value, Register) and value.bank is Bank.SCALAR:
                    values[number] = scratch.part(number)
                    code("v_mov_b32", values[number], value)
        # A line may write the result before another reads an operand that lies in that register.
        early = any(line.operands[0] == "d" for line in lines[:-1])
        final = self.result(turn + 1) if early and into in values else into
        places: dict[str, Operand] = {"d": final}
        if self._temporary:
            places["t"] = self._frame[self._temporary]
        places |= {str(number): value for number, value in enumerate(values)}
        for line in lines:
            code(line.opcode, *line.filled(places), modifiers=line.modifiers)
        if final is not into:
            code("v_mov_b32", into, final)

    def _holds(
        self, register: Register, sources: Sequence[OperandSource], slots: Sequence[int | None]
    ) -> bool:
        """Whether an operand lies in a register: what overwrites it, reads it first."""
        return any(
            self._context.registers(source.access).part(slot // source.tile.pack) == register
            for source, slot in zip(sources, slots, strict=True)
            if source.access is not None and source.tile is not None and slot is not None
        )

    def squares(
        self,
        code: Code,
        into: Register,
        source: OperandSource,
        slots: Sequence[int | None],
        fresh: bool,
    ) -> bool:
        """Add the squares of pairs that share a register, where an instruction does; whether all
        of the terms are such pairs, and one does."""
        if source.tile is None or source.access is None or source.tile.pack != PAIRS:
            return False
        verb = self._context.target.pair_product(source.tile.resource.type.dtype.name)
        found = [slot for slot in slots if slot is not None]
        pairs = list(zip(found[::PAIRS], found[1::PAIRS], strict=False))
        whole = len(found) % PAIRS == 0 and all(a % PAIRS == 0 and b == a + 1 for a, b in pairs)
        words = self._context.registers(source.access)
        if verb is None or not whole or words.bank is not Bank.VECTOR:
            return False
        for number, (first, _) in enumerate(pairs):
            word = words.part(first // PAIRS)
            code(verb, into, word, word, 0 if fresh and number == 0 else into)
        return True

    def finish(
        self, code: Code, place: Register, made: Sequence[Register], *, exact: bool = False
    ) -> None:
        """Results that were made elsewhere go to their register; ``exact``: nothing is rounded."""
        if made[0] == place:
            return
        value = made[0]
        if self._dtype == I32.name and not self._raw:
            whole_number(code, value, value)
        if self._convert:
            value = place if place.bank is Bank.VECTOR else made[0]
            whole = [*made, *[made[-1]] * (WORD_BITS // STORED_BITS[self._dtype] - len(made))]
            scratch = self._conversion
            pack(code, self._context.target, self._dtype, value, whole, scratch, exact=exact)
        if place.bank is Bank.ACCUMULATOR:
            code("v_accvgpr_write_b32", place, value)
        elif place.bank is Bank.SCALAR:
            code("v_readfirstlane_b32", place, value)
        else:
            move(code, place, value)


def move(code: Code, into: Register, value: Operand) -> None:
    """A value to a vector register, unless it is there."""
    if value != into:
        code("v_mov_b32", into, value)


def readable(code: Code, register: Register, scratch: Register) -> Register:
    """A register itself, or the copy that vector instructions can read."""
    if register.bank is not Bank.ACCUMULATOR:
        return register
    code("v_accvgpr_read_b32", scratch, register)
    return scratch
