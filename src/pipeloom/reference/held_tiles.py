"""What a lifted schedule holds: its values, what they mean, and the tiles of LDS and registers.

Sizes are those of the schedule's tile, or units where it has none (``walked``). Of a tile of 256
rows of A in halves, with two stages:

    LDS A     m 256, k 64, two copies
    A0        the rows of a wave's fragment, as the matrix instruction wants them
    sums      a wave's accumulators, side by side
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pipeloom.machine.dtypes import BF16, F32, DType
from pipeloom.machine.target import Target
from pipeloom.program import Box, Layout, Meaning, Node, NodeKind, Resource, Space, TileType
from pipeloom.reference.kernels import Accumulator
from pipeloom.reference.staged import SUMS, matrix_layout, summed_meaning
from pipeloom.reference.walked import LENGTHWISE, Operand, Walked


def lds_name(operand: str) -> str:
    return f"LDS {operand}"


@dataclass
class HeldTiles(Walked):
    """The storage of one schedule on a chip, with the types of its operands and of C."""

    target: Target
    dtype: DType
    out: DType

    @cached_property
    def meaning(self) -> Meaning:
        """Two operands: C += A x B^T. One: C += its sum."""
        operands = tuple(self.operands.values())
        streams = [
            Node(name=o.name, kind=NodeKind.STREAM, type=self.tile_of(o, o.size)) for o in operands
        ]
        dims = tuple(o.dim for o in operands) if len(operands) > 1 else ()
        c = TileType(dims, tuple(o.size for o in operands) if dims else (), F32)
        return summed_meaning(self.compiled.schedule, streams, c, self.stored)

    @property
    def stored(self) -> DType:
        """The type of C in memory; that of the sums where rows are units, which nobody stores."""
        return F32 if self.geometry is None else self.out

    def tile_of(self, operand: Operand, size: int) -> TileType:
        if operand.dim == "k":
            return TileType(("k",), (size,), BF16)
        dtype = BF16 if self.geometry is None else self.dtype
        return TileType((operand.dim, "k"), (size, self.depth), dtype)

    def layout(self, *, sums: bool = False) -> Layout | None:
        """How a register tile lies; open without a tile, which has the matrix instruction."""
        return None if self.geometry is None else matrix_layout(self.geometry, sums=sums)

    def resources(self) -> Iterable[Resource]:
        stages: dict[str, int] = {}
        for _, _, effect in self.effects:
            for region in [*effect.lds_writes, *(r.region for r in effect.lds_reads)]:
                stages[region.operand] = max(stages.get(region.operand, 1), region.stage + 1)
        for name, count in sorted(stages.items()):
            operand = self.operands[name]
            tile = self.tile_of(operand, operand.size)
            yield Resource(name=lds_name(name), space=Space.LDS, type=tile, copies=count)
        registers = {r for _, _, e in self.effects for r in (*e.register_reads, *e.register_writes)}
        for register in sorted(registers):
            operand = self.operands[self.stream_of[register.bank]]
            lengths = {b - a for (_, r), (a, b) in self.held.items() if r == register}
            size = max(lengths, default=self.fragment(operand.name))
            yield Resource(
                name=str(register),
                space=Space.REGISTER,
                type=self.tile_of(operand, size),
                layout=self.layout(),
            )
        yield Resource(
            name=SUMS,
            space=Space.REGISTER,
            type=self.sums,
            start=0.0,
            layout=self.layout(sums=True),
        )

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """Those the model names, and those its MMAs touch."""
        touched = {e.accumulator for _, _, e in self.effects if e.accumulator is not None}
        return tuple(sorted({*self.kernel.accumulators(), *touched}))

    @cached_property
    def sums(self) -> TileType:
        operands = tuple(self.operands.values())
        if len(operands) == 1:
            return TileType((), (), F32)
        counts = (
            1 + max(a.row for a in self.accumulators),
            1 + max(a.column for a in self.accumulators),
        )
        sizes = (n * self.fragment(o.name) for n, o in zip(counts, operands, strict=True))
        return TileType(LENGTHWISE, tuple(sizes), F32)

    def place(self, accumulator: Accumulator) -> tuple[Box, ...]:
        """Where a wave keeps an accumulator."""
        operands = tuple(self.operands.values())
        if len(operands) == 1:
            return ()
        lengths = [self.fragment(o.name) for o in operands]
        rows, columns = lengths
        i, j = accumulator.row, accumulator.column
        return (((i * rows, (i + 1) * rows), (j * columns, (j + 1) * columns)),)
