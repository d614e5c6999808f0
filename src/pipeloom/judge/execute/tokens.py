"""Memory that holds tile numbers instead of data: exact, and fast enough for thousands of runs.

Data moves only in whole slices (what one wave brings of one half), so it is enough to know which
K tile each slice belongs to. LDS holds one tile number per slice, a register the number that its
fragment load found, or a tuple if the slices disagreed. Undefined data is ``POISON``. An MMA is
right if its operands are one and the same defined tile, which its accumulator does not have yet:

    A0 = 4, B1 = 4           tile 4 is added to the sum
    A0 = 4, B1 = 2           MIXED: A of tile 4 times B of tile 2
    A0 = poison, B1 = 4      POISON

``arrays.ArrayMemory`` moves real numbers by the same events; the tests hold the two together.
"""

from __future__ import annotations

from pipeloom.judge.execute.outcome import (
    POISON,
    Access,
    PoisonedRead,
    Symptom,
    SymptomKind,
    Value,
)
from pipeloom.judge.execute.program import Op, Program


class TokenMemory:
    """LDS, registers and accumulators of one workgroup, in tile numbers.

    With ``poison`` a place is undefined from the issue of an op that writes it to the landing;
    without, it keeps its old content. With ``whole_flight`` (and ``poison``) a read is defined
    only if no load of its region was in flight at any point between its issue and its landing,
    and a slice stays undefined if two loads of it were in flight together.
    """

    def __init__(self, program: Program, *, poison: bool, whole_flight: bool) -> None:
        waves = len(program.waves)
        self._program = program
        self._poison = poison
        self._whole_flight = whole_flight
        self._waves = waves
        self._tiles = program.tiles
        regions, registers = len(program.regions), len(program.registers)
        self._lds = [[POISON] * waves for _ in range(regions)]
        self._lds_pending = [[0] * waves for _ in range(regions)]
        self._loads: list[list[Op]] = [[] for _ in range(regions)]
        self._tangled: list[list[list[Op]]] = [[[]] * waves for _ in range(regions)]
        self._registers: list[list[Value]] = [[POISON] * registers for _ in range(waves)]
        self._register_pending = [[0] * registers for _ in range(waves)]
        self._filled_by: list[list[Op | None]] = [[None] * registers for _ in range(waves)]
        self._sums = [[0] * len(program.accumulators) for _ in range(waves)]
        self._held: dict[int, Value] = {}
        self._opened: dict[int, list[tuple[int, list[Op] | None]]] = {}
        self._undefined: dict[int, PoisonedRead] = {}
        self._consumed: set[int] = set()
        self._symptoms: list[Symptom] = []

    def issue(self, op: Op) -> None:
        """The op issues: it takes its registers, and its destinations become undefined."""
        wave = op.wave
        if op.takes:
            registers = self._registers[wave]
            if op.accumulator is not None:
                self._multiply(op, [registers[register] for register in op.takes])
                return
            values = [registers[register] for register in op.takes]
            self._held[op.uid] = values[0] if len(values) == 1 else _join(values)
        for region in op.writes:
            pending = self._lds_pending[region]
            if self._whole_flight:
                tangled = self._tangled[region]
                tangled[wave] = (
                    [*tangled[wave], self._latest(region, wave)] if pending[wave] else []
                )
            self._loads[region].append(op)
            pending[wave] += 1
            if self._poison:
                self._lds[region][wave] = POISON
        for register in op.fills:
            self._register_pending[wave][register] += 1
            self._filled_by[wave][register] = op
            if self._poison:
                self._registers[wave][register] = POISON
        if op.reads and self._whole_flight:
            self._opened[op.uid] = [
                (len(self._loads[region]), self._causes(region)) for region in op.reads
            ]

    def land(self, op: Op) -> None:
        """The op touches memory: it reads its source and writes its destinations."""
        wave = op.wave
        value: Value
        if op.reads:
            value = self._read(op)
        elif op.tile is not None:
            value = op.tile if 0 <= op.tile < self._tiles else POISON
        else:
            value = self._held.pop(op.uid, POISON)
        for region in op.writes:
            pending = self._lds_pending[region]
            pending[wave] -= 1
            if not (self._poison and pending[wave]) and not self._tangled[region][wave]:
                self._lds[region][wave] = value if isinstance(value, int) else POISON
        for register in op.fills:
            waiting = self._register_pending[wave]
            waiting[register] -= 1
            if not (self._poison and waiting[register]):
                self._registers[wave][register] = value

    def symptoms(self) -> tuple[Symptom, ...]:
        """Every wrong multiplication in order, then every incomplete sum."""
        return (*self._symptoms, *self._missing())

    def poisoned_reads(self) -> tuple[PoisonedRead, ...]:
        """Every fragment load that found undefined LDS, in order."""
        return tuple(
            PoisonedRead(read.at, read.region, read.causes, uid in self._consumed)
            for uid, read in self._undefined.items()
        )

    def _look(self, region: int) -> Value:
        slices = self._lds[region]
        first = slices[0]
        return first if slices.count(first) == self._waves else tuple(slices)

    def _read(self, op: Op) -> Value:
        if self._whole_flight:
            opened = self._opened.pop(op.uid)
            for region, (loads, causes) in zip(op.reads, opened, strict=True):
                overtaken = self._loads[region][loads:]
                if overtaken or causes is not None:
                    self._note(op, region, [*(causes or ()), *overtaken])
                    return POISON
        values = [self._look(region) for region in op.reads]
        for region in op.reads:
            causes = self._causes(region)
            if causes is not None:
                self._note(op, region, causes)
        return values[0] if len(values) == 1 else _join(values)

    def _causes(self, region: int) -> list[Op] | None:
        """``None`` if the region is defined; else the loads that make it undefined.

        These are the latest load of each undefined slice, and those that it overtook.
        """
        slices = self._lds[region]
        if POISON not in slices:
            return None
        latest = {load.wave: load for load in self._loads[region]}
        return [
            load
            for wave, tile in enumerate(slices)
            if tile == POISON and wave in latest
            for load in (*self._tangled[region][wave], latest[wave])
        ]

    def _latest(self, region: int, wave: int) -> Op:
        return next(load for load in reversed(self._loads[region]) if load.wave == wave)

    def _note(self, op: Op, region: int, causes: list[Op]) -> None:
        accesses = dict.fromkeys(Access(load.wave, load.step) for load in causes)
        name = str(self._program.regions[region])
        self._undefined[op.uid] = PoisonedRead(Access(op.wave, op.step), name, tuple(accesses))

    def _multiply(self, op: Op, values: list[Value]) -> None:
        assert op.accumulator is not None
        tile = values[0]
        sums = self._sums[op.wave]
        if isinstance(tile, int) and tile >= 0 and values.count(tile) == len(values):
            bit = 1 << tile
            if not sums[op.accumulator] & bit:
                sums[op.accumulator] |= bit
                return
            kind = SymptomKind.REPEATED
        elif any(_has_poison(value) for value in values):
            kind = SymptomKind.POISON
        else:
            kind = SymptomKind.MIXED
        fillers = [self._filled_by[op.wave][register] for register in op.takes]
        self._consumed.update(filler.uid for filler in fillers if filler is not None)
        self._symptoms.append(
            Symptom(
                kind,
                Access(op.wave, op.step),
                str(self._program.accumulators[op.accumulator]),
                tuple(values),
                tuple(Access(f.wave, f.step) for f in fillers if f is not None),
            )
        )

    def _missing(self) -> list[Symptom]:
        whole = (1 << self._tiles) - 1
        return [
            Symptom(
                SymptomKind.MISSING,
                Access(wave, len(self._program.waves[wave].steps)),
                str(accumulator),
                tuple(tile for tile in range(self._tiles) if not sums[n] >> tile & 1),
            )
            for wave, sums in enumerate(self._sums)
            for n, accumulator in enumerate(self._program.accumulators)
            if sums[n] != whole
        ]


def _has_poison(value: Value) -> bool:
    return POISON in value if isinstance(value, tuple) else value == POISON


def _join(values: list[Value]) -> Value:
    """One value for data from several places: theirs if they agree."""
    if all(value == values[0] for value in values):
        return values[0]
    flat: list[int] = []
    for value in values:
        flat += value if isinstance(value, tuple) else [value]
    return tuple(flat)
