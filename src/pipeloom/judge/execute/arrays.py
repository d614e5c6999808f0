"""Memory that holds numbers: LDS, registers and accumulators as arrays, NaN where undefined.

Integers up to 2**53 are exact in float64, and NaN spreads through products and sums by itself,
which is what poison must do. So data is float64 inside and int64 outside; ``check_operands``
rejects operands whose sums could leave the exact range.

Each wave brings the K columns c with c % waves == wave of what it loads, so that every row of a
region holds something of every wave: whichever slice is missing, whichever rows are read, it
shows. Real layouts deal slices out by rows; a proof may not rely on either.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.errors import ConfigError
from pipeloom.judge.execute.outcome import POISON_VALUE
from pipeloom.judge.execute.program import Op, Program
from pipeloom.judge.execute.tokens import TokenMemory
from pipeloom.reference.kernels import Part, Region

Numbers = NDArray[np.float64]
EXACT = 2**53
"""Below this float64 holds every integer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which rows and K columns of A and B the regions hold.

    Kernels with operands A and B cut rows: region half h of ``halves`` is a run of rows. Kernels
    with one operand AB cut K: region half t of ``k_steps`` is a run of columns of both, and wave w
    of W multiplies the w-th run of A's rows by all of B.
    """

    waves: int
    halves: dict[str, int]
    row_multiple: dict[str, int]
    k_steps: int

    @property
    def joint(self) -> bool:
        """Whether a region holds A and B together."""
        return self.k_steps > 0

    @property
    def column_multiple(self) -> int:
        """What BK must be a multiple of, for every wave to have a share of every region."""
        return self.waves * max(1, self.k_steps)


def layout_of(program: Program) -> Layout:
    """The layout of the program's kernel, told by its regions; an error if it is neither sort."""
    operands = {region.operand for region in program.regions}
    waves = len(program.waves)
    parts: dict[str, int] = {}
    for wave in range(waves):
        for op in program.ops(wave):
            for region, part in zip(op.reads, op.parts, strict=True):
                operand = program.regions[region].operand
                parts[operand] = lcm(parts.get(operand, 1), part.of)
    halves = {
        operand: 1 + max(r.half for r in program.regions if r.operand == operand)
        for operand in sorted(operands)
    }
    if operands == {"AB"} and _is_shaped(program, takes=1):
        return Layout(waves, {"A": 1, "B": 1}, {"A": waves, "B": 1}, halves["AB"])
    if operands == {"A", "B"} and _is_shaped(program, takes=2):
        multiple = {operand: halves[operand] * parts.get(operand, 1) for operand in halves}
        return Layout(waves, halves, multiple, 0)
    raise ConfigError(
        f"cannot run kernel {program.kernel.name!r} on arrays: its regions name operands "
        f"{', '.join(sorted(operands)) or 'none'}",
        hint="arrays need regions of A and B with MMAs that take one register of each, or regions "
        "of AB with MMAs that take one register; dry_run needs neither",
        field="execute.kernel",
    )


def _is_shaped(program: Program, takes: int) -> bool:
    """Whether MMAs take that many registers, and fragments read one region each."""
    ops = [op for wave in range(len(program.waves)) for op in program.ops(wave)]
    return all(len(op.takes) == takes for op in ops if op.accumulator is not None) and (
        all(len(op.reads) == 1 or (takes == 1 and not op.reads) for op in ops if op.fills)
    )


def check_operands(a: object, b: object, program: Program, layout: Layout) -> int:
    """Check that A is [M, K] and B is [N, K] with whole tiles, and return BK."""
    for name, operand in (("a", a), ("b", b)):
        if not isinstance(operand, np.ndarray) or operand.dtype.kind not in "iu":
            kind = getattr(operand, "dtype", type(operand).__name__)
            raise ConfigError(
                f"execute.{name} is {kind}, but must be an integer NumPy array",
                hint="pass for example rng.integers(-8, 8, (rows, K))",
                field=f"execute.{name}",
            )
        if operand.ndim != 2:
            raise ConfigError(
                f"execute.{name} has shape {operand.shape}, but must have two dimensions",
                hint="A is [M, K] and B is [N, K]",
                field=f"execute.{name}",
            )
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    if a.shape[1] != b.shape[1]:
        raise ConfigError(
            f"a has K = {a.shape[1]}, but b has K = {b.shape[1]}",
            hint="A is [M, K] and B is [N, K]: C = A @ B.T",
            field="execute.b",
        )
    step = program.tiles * layout.column_multiple
    if a.shape[1] == 0 or a.shape[1] % step:
        raise ConfigError(
            f"K = {a.shape[1]} is not {program.tiles} tiles (trips = {program.trips}) of a "
            f"multiple of {layout.column_multiple} columns",
            hint=f"choose K a multiple of {step}, or other trips",
            field="execute.a",
        )
    for name, operand in (("a", a), ("b", b)):
        multiple = layout.row_multiple[name.upper()]
        if operand.shape[0] == 0 or operand.shape[0] % multiple:
            raise ConfigError(
                f"{name} has {operand.shape[0]} rows, but the {program.kernel.name} kernel cuts "
                f"them into {multiple} equal runs",
                hint=f"choose a multiple of {multiple}",
                field=f"execute.{name}",
            )
    largest = _magnitude(a) * _magnitude(b) * a.shape[1] * 2
    if largest >= EXACT:
        raise ConfigError(
            f"sums of these operands can reach {largest // 2}, past what is exact",
            hint="use smaller integers: max|a| * max|b| * K must stay below 2**52",
            field="execute.a",
        )
    return int(a.shape[1]) // program.tiles


def small_operands(program: Program, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The smallest operands that fill every region, with entries from -9 to 9 but 0."""
    layout = layout_of(program)
    rng = np.random.default_rng(seed)
    k = program.tiles * layout.column_multiple

    def operand(name: str) -> NDArray[np.int64]:
        size = (layout.row_multiple[name], k)
        magnitude: NDArray[np.int64] = rng.integers(1, 10, size)
        return np.where(rng.random(size) < 0.5, -magnitude, magnitude)

    return operand("A"), operand("B")


class ArrayMemory:
    """LDS, registers and accumulators of one workgroup, in numbers.

    ``poison`` and ``whole_flight`` as in ``TokenMemory``.
    """

    def __init__(
        self,
        program: Program,
        a: NDArray[np.integer[Any]],
        b: NDArray[np.integer[Any]],
        *,
        poison: bool,
        whole_flight: bool,
    ) -> None:
        self._program = program
        self._layout = layout_of(program)
        self._bk = check_operands(a, b, program, self._layout)
        self._global = {"A": a.astype(np.float64), "B": b.astype(np.float64)}
        self._poison = poison
        self._whole_flight = whole_flight
        self._lds = [
            [np.full_like(view, np.nan) for view in self._views(region, self._tile(0))]
            for region in program.regions
        ]
        waves = range(len(program.waves))
        self._lds_pending = [[0 for _ in waves] for _ in program.regions]
        self._tangled = [[False for _ in waves] for _ in program.regions]
        self._issued = [0 for _ in program.regions]
        self._registers: list[dict[int, list[Numbers]]] = [{} for _ in waves]
        self._register_pending = [[0] * len(program.registers) for _ in waves]
        self._held: dict[int, list[Numbers]] = {}
        self._opened: dict[int, tuple[list[int], list[Numbers]]] = {}
        self._sums: list[dict[int, Numbers]] = [{} for _ in waves]
        self._placed = [self._place(wave) for wave in waves]

    def issue(self, op: Op) -> None:
        """As in ``TokenMemory``."""
        if op.accumulator is not None:
            self._multiply(op)
            return
        if op.takes:
            held = self._registers[op.wave].get(op.takes[0])
            self._held[op.uid] = self._undefined_tile() if held is None else held
        for region in op.writes:
            pending = self._lds_pending[region]
            self._tangled[region][op.wave] = self._whole_flight and pending[op.wave] > 0
            self._issued[region] += 1
            pending[op.wave] += 1
            if self._poison:
                for place in self._lds[region]:
                    place[:, op.wave :: self._layout.waves] = np.nan
        for register in op.fills:
            self._register_pending[op.wave][register] += 1
            if self._poison:
                self._registers[op.wave].pop(register, None)
        if op.reads and self._whole_flight:
            versions = [self._issued[region] for region in op.reads]
            self._opened[op.uid] = (versions, self._read(op))

    def land(self, op: Op) -> None:
        """As in ``TokenMemory``."""
        waves = self._layout.waves
        if op.reads:
            value = self._read(op)
            if self._whole_flight:
                versions, value = self._opened.pop(op.uid)
                if any(self._issued[r] != v for r, v in zip(op.reads, versions, strict=True)):
                    value = [np.full_like(piece, np.nan) for piece in value]
        elif op.tile is not None:
            value = self._tile(op.tile)
        else:
            value = self._held.pop(op.uid)
        for region in op.writes:
            pending = self._lds_pending[region]
            pending[op.wave] -= 1
            if not (self._poison and pending[op.wave]) and not self._tangled[region][op.wave]:
                views = self._views(self._program.regions[region], value)
                for place, view in zip(self._lds[region], views, strict=True):
                    place[:, op.wave :: waves] = view[:, op.wave :: waves]
        for register in op.fills:
            waiting = self._register_pending[op.wave]
            waiting[register] -= 1
            if not (self._poison and waiting[register]):
                self._registers[op.wave][register] = value

    def result(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """C, with ``POISON_VALUE`` where it is undefined, and where that is."""
        rows, columns = len(self._global["A"]), len(self._global["B"])
        total = np.full((rows, columns), np.nan)
        for wave, sums in enumerate(self._sums):
            for accumulator, place in self._placed[wave].items():
                block = sums.get(accumulator, 0.0)
                if self._layout.joint and accumulator != min(self._placed[wave]):
                    total[place] += block
                else:
                    total[place] = block
        poisoned = np.isnan(total)
        c = np.where(poisoned, 0.0, total).astype(np.int64)
        c[poisoned] = POISON_VALUE
        return c, poisoned

    def _tile(self, tile: int) -> list[Numbers]:
        """A and B of one K tile, all rows."""
        if not 0 <= tile < self._program.tiles:
            return self._undefined_tile()
        columns = slice(tile * self._bk, (tile + 1) * self._bk)
        return [self._global["A"][:, columns], self._global["B"][:, columns]]

    def _undefined_tile(self) -> list[Numbers]:
        return [np.full((len(self._global[name]), self._bk), np.nan) for name in "AB"]

    def _views(self, region: Region, tile: list[Numbers]) -> list[Numbers]:
        """What a region holds of a whole tile."""
        if self._layout.joint:
            width = self._bk // self._layout.k_steps
            columns = slice(region.half * width, (region.half + 1) * width)
            return [operand[:, columns] for operand in tile]
        rows = self._rows(region, Part(0, 1))
        return [tile["AB".index(region.operand)][rows]]

    def _rows(self, region: Region, part: Part) -> slice:
        half = len(self._global[region.operand]) // self._layout.halves[region.operand]
        run = half // part.of
        start = region.half * half + part.number * run
        return slice(start, start + run)

    def _read(self, op: Op) -> list[Numbers]:
        """A copy of what stands in LDS now."""
        if self._layout.joint:
            return [piece.copy() for piece in self._lds[op.reads[0]]]
        place, part = self._lds[op.reads[0]][0], op.parts[0]
        run = len(place) // part.of
        return [place[part.number * run : (part.number + 1) * run].copy()]

    def _multiply(self, op: Op) -> None:
        assert op.accumulator is not None
        place = self._placed[op.wave].get(op.accumulator)
        if place is None:
            return
        registers = self._registers[op.wave]
        operands = [registers.get(register) for register in op.takes]
        sums = self._sums[op.wave]
        if any(operand is None for operand in operands):
            shape = tuple(part.stop - part.start for part in place)
            product: Numbers = np.full(shape, np.nan)
        elif self._layout.joint:
            assert operands[0] is not None
            left, right = operands[0]
            product = left[place[0]] @ right.T
        else:
            assert operands[0] is not None
            assert operands[1] is not None
            product = operands[0][0] @ operands[1][0].T
        sums[op.accumulator] = sums.get(op.accumulator, 0.0) + product

    def _place(self, wave: int) -> dict[int, tuple[slice, slice]]:
        """Which block of C each accumulator of ``wave`` is: told by what its registers hold."""
        if self._layout.joint:
            run = len(self._global["A"]) // self._layout.waves
            place = (slice(wave * run, (wave + 1) * run), slice(0, len(self._global["B"])))
            return dict.fromkeys(range(len(self._program.accumulators)), place)
        held: dict[int, slice] = {}
        blocks: dict[int, tuple[slice, slice]] = {}
        for op in self._program.ops(wave):
            for register in op.fills:
                region = self._program.regions[op.reads[0]]
                held.setdefault(register, self._rows(region, op.parts[0]))
        for op in self._program.ops(wave):
            if op.accumulator is not None and all(register in held for register in op.takes):
                row, column = op.takes
                blocks.setdefault(op.accumulator, (held[row], held[column]))
        return blocks


class PairedMemory:
    """Two memories that see the same events."""

    def __init__(self, first: TokenMemory, second: ArrayMemory) -> None:
        self._first = first
        self._second = second

    def issue(self, op: Op) -> None:
        """Both."""
        self._first.issue(op)
        self._second.issue(op)

    def land(self, op: Op) -> None:
        """Both."""
        self._first.land(op)
        self._second.land(op)


def _magnitude(operand: NDArray[np.integer[Any]]) -> int:
    return max(abs(int(operand.max())), abs(int(operand.min())), 1)
