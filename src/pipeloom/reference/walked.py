"""What a schedule's walks show: which operands there are, and which part of them lies where.

A kernel model says, step by step and wave by wave, what is touched; read over a few trips, that
tells the streams apart, the rows that each register holds and the block that each MMA computes.

Rows are those of the schedule's tile. Of a schedule that has none, or whose tile is not cut evenly
by what its steps touch, they are units: as many as tell the fragments of a piece apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm

from pipeloom.errors import ConfigError
from pipeloom.program import Box
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import describe_op
from pipeloom.reference.instruction_counts import disagreement
from pipeloom.reference.kernels import Accumulator, EntryRun, Kernel, OpEffect, RegisterSet

SAMPLE_TRIPS = 2
"""Trips walked to see how far K advances; the least number more than ``min_trips`` allows."""
LENGTHWISE = ("m", "n")


@dataclass(frozen=True, slots=True)
class Operand:
    """One stream: its pieces, how many rows each has, the dimension they lie along."""

    name: str
    dim: str
    pieces: int
    rows: int

    @property
    def size(self) -> int:
        """Rows of all pieces."""
        return self.pieces * self.rows


@dataclass
class Walked:
    """One schedule and its kernel, read into tables."""

    compiled: CompiledSchedule
    kernel: Kernel
    tile: KernelGeometry | None
    """The tile to count rows of; without one they are units."""

    @cached_property
    def trips(self) -> int:
        """How many are walked."""
        return self.kernel.min_trips + SAMPLE_TRIPS

    @cached_property
    def effects(self) -> list[tuple[int, EntryRun, OpEffect]]:
        """Everything every wave does in a run of a few trips."""
        return [
            (wave, step, self.kernel.effect(step, wave))
            for members in self.kernel.groups
            for walk in (self.kernel.walk(self.compiled, members[0], self.trips),)
            for wave in members
            for step in walk
            if not step.op.is_framework
        ]

    @cached_property
    def stream_of(self) -> dict[str, str]:
        """Register bank -> the operand it holds: of its own name, or what it is stored to."""
        found: dict[str, str] = {}
        for _, _, effect in self.effects:
            for register in effect.register_writes:
                operand = effect.lds_reads[0].region.operand if effect.lds_reads else register.bank
                found.setdefault(register.bank, operand)
        for _, _, effect in self.effects:
            for region in effect.lds_writes:
                for register in effect.register_reads:
                    found[register.bank] = region.operand
            if effect.accumulator is not None:
                for register in effect.register_reads:
                    found.setdefault(register.bank, register.bank)
        return found

    @cached_property
    def units(self) -> dict[str, Operand]:
        """The streams by name, with as few rows as tell their fragments apart."""
        parts: dict[str, list[int]] = {}
        pieces: dict[str, int] = {}
        for _, _, effect in self.effects:
            for read in effect.lds_reads:
                parts.setdefault(read.region.operand, []).append(read.part.of)
            for region in [*effect.lds_writes, *(r.region for r in effect.lds_reads)]:
                pieces[region.operand] = max(pieces.get(region.operand, 1), region.half + 1)
        multiplied: dict[str, None] = {}
        for _, _, effect in self.effects:
            if effect.accumulator is not None:
                multiplied |= dict.fromkeys(self.stream_of[r.bank] for r in effect.register_reads)
        names = list(dict.fromkeys([*multiplied, *pieces]))
        if not 1 <= len(names) <= len(LENGTHWISE):
            raise ConfigError(
                f"kernel {self.kernel.name} multiplies {len(names)} operands: {', '.join(names)}",
                hint="a kernel model has one operand or two; declare others as a pipeloom.Loop",
                field="Kernel.effect",
            )
        dims = LENGTHWISE if len(names) == len(LENGTHWISE) else ("k",)
        return {
            name: Operand(name, dim, pieces.get(name, 1), lcm(*parts.get(name, [1])))
            for name, dim in zip(names, dims, strict=True)
        }

    @cached_property
    def geometry(self) -> KernelGeometry | None:
        """The tile that rows are counted in; None where they are units.

        Each unit must be whole rows, of which every group of waves brings the same number. What
        counts other instructions than its tile is judged in units, by what it counts.
        """
        shape, units = self.tile, self.units
        if shape is None or disagreement(self.compiled) is not None:
            return None
        groups = len(self.kernel.groups)
        even = all(shape.tile[o.dim] % (o.size * groups) == 0 for o in units.values())
        return shape if even and len(units) == len(LENGTHWISE) else None

    @cached_property
    def depth(self) -> int:
        """Elements of K in a tile; 1 where rows are units."""
        return 1 if self.geometry is None else self.geometry.BK

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """The streams, by name."""
        shape = self.geometry
        if shape is None:
            return self.units
        return {
            name: replace(one, rows=shape.tile[one.dim] // one.pieces)
            for name, one in self.units.items()
        }

    @cached_property
    def held(self) -> dict[tuple[int, RegisterSet], tuple[int, int]]:
        """(wave, register) -> the rows of its operand that loads bring to it."""
        found: dict[tuple[int, RegisterSet], tuple[int, int]] = {}
        for wave, step, effect in self.effects:
            for register in effect.register_writes:
                operand = self.operands[self.stream_of[register.bank]]
                rows = (0, operand.size)
                if effect.lds_reads:
                    if len(effect.lds_reads) > 1:
                        raise self.no_lift(step, "reads several regions of LDS")
                    read = effect.lds_reads[0]
                    start = read.region.half * operand.rows
                    length = operand.rows // read.part.of
                    start += read.part.number * length
                    rows = (start, start + length)
                if found.setdefault((wave, register), rows) != rows:
                    raise self.no_lift(step, f"brings {register} other rows than before")
        return found

    def rows(self, wave: int, register: RegisterSet) -> tuple[int, int]:
        """Rows of a register; one that nothing ever loads counts as the first fragment's."""
        found = self.held.get((wave, register))
        if found is not None:
            return found
        operand = self.operands[self.stream_of[register.bank]]
        length = self.fragment(operand.name)
        start = register.number * length % operand.size
        return start, start + length

    def fragment(self, operand: str) -> int:
        """Rows of one fragment of an operand."""
        lengths = [
            stop - start
            for (_, register), (start, stop) in self.held.items()
            if self.stream_of[register.bank] == operand and register.bank == operand
        ]
        return min(lengths, default=1)

    @cached_property
    def summed(self) -> dict[tuple[int, Accumulator], Box]:
        """(wave, accumulator) -> the part of C.next's domain that an MMA of it computes."""
        found: dict[tuple[int, Accumulator], Box] = {}
        for wave, _, effect in self.effects:
            if effect.accumulator is None or (wave, effect.accumulator) in found:
                continue
            rows = tuple(self.rows(wave, register) for register in effect.register_reads)
            found[wave, effect.accumulator] = (*rows, (0, self.depth)) if len(rows) > 1 else rows
        return found

    def no_lift(self, step: EntryRun, what: str) -> ConfigError:
        """Why a step is none of a program's."""
        return ConfigError(
            f"kernel {self.kernel.name}: {describe_op(step.op)} {what}, which no program step does",
            hint="a step copies one place to another, or adds one product to an accumulator",
            field="Kernel.effect",
        )
