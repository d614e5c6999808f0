"""The one declaration of a GEMM K tile, for every wave grid and machine.

Ops, for m x n quadrants: one load per piece of A and B, one fragment per quadrant row of A and
column of B, one MMA per quadrant. Dependences:

    load (x, p)      -> fragment (x, q)   where some wave's fragment q reads piece p
    fragment (A, i)  -> MMA (i, j) <- fragment (B, j)
    MMA (i, j)       -> MMA (i, j)        of the next tile: the accumulator
"""

from __future__ import annotations

from dataclasses import replace

from pipeloom.errors import ConfigError
from pipeloom.machine.registers import DIRECT_VGPRS, RESERVED_VGPRS, VGPRS_PER_SIMD_LANE
from pipeloom.machine.target import Target
from pipeloom.order.modulo import Budget
from pipeloom.reference.graph import DepEdge
from pipeloom.reference.mi355x import MatmulTag
from pipeloom.reference.ops import OpDesc, OpRole, ResourceKind
from pipeloom.reference.pipelining.costs import TileCosts
from pipeloom.reference.pipelining.loop import (
    OpCycles,
    RotatingBuffer,
    RotatingRegisters,
    Rotation,
    TileLoop,
    TileOp,
)
from pipeloom.reference.tile import GemmTile

LOAD_TAG = {"A": MatmulTag.LOAD_A, "B": MatmulTag.LOAD_B}
FRAGMENT_TAG = {"A": MatmulTag.MMA_LOAD_A, "B": MatmulTag.MMA_LOAD_B}
CHANNEL = {"A": 0, "B": 1}
USUAL_LOADS = 16
"""Loads per K tile whose addresses ``RESERVED_VGPRS`` has room for."""


def register_budget(tile: GemmTile, machine: Target) -> int:
    """Registers per lane left for fragments: the wave's share, less accumulators and addresses.

    Accumulators may lie in AGPRs, fragments and addresses lie in the VGPRs that can be named. Each
    load of a K tile has an address, and narrow loads are many.
    """
    waves_per_simd = -(-tile.grid.waves // machine.simds.value)
    share = VGPRS_PER_SIMD_LANE.value // waves_per_simd
    reserved = RESERVED_VGPRS.value + max(0, tile.tile_loads - USUAL_LOADS)
    left = min(share - tile.accumulator_registers, DIRECT_VGPRS.value) - reserved
    if left < 1:
        raise ConfigError(
            f"a {tile.BM}x{tile.BN} tile on {tile.grid.waves} waves needs "
            f"{tile.accumulator_registers} of {share} registers for accumulators, "
            f"and {reserved} are reserved: none are left for fragments",
            hint="make BM or BN smaller, or use more waves",
            field="GemmTile",
        )
    return left


def tile_limits(tile: GemmTile, machine: Target, budget: Budget | None) -> Budget:
    """``budget`` with the machine's own limits where it has none."""
    given = Budget() if budget is None else budget
    return Budget(
        registers=register_budget(tile, machine) if given.registers is None else given.registers,
        lds_bytes=machine.lds_kib.value * 1024 if given.lds_bytes is None else given.lds_bytes,
        stages=given.stages,
    )


def gemm_tile_loop(
    tile: GemmTile,
    machine: Target,
    budget: Budget | None = None,
    global_latency: int | None = None,
) -> TileLoop:
    """One K tile of ``tile`` on ``machine``; limits not in ``budget`` are the machine's."""
    costs = TileCosts(tile, machine, global_latency)
    limits = tile_limits(tile, machine, budget)
    build = _Builder(tile, costs)
    for operand in "AB":
        build.loads(operand)
    for operand in "AB":
        build.fragments(operand)
    build.mmas()
    copies = _copies_each(tile, limits)
    return TileLoop(
        name=f"gemm_tile {tile.grid.name} {tile.BM}x{tile.BN}x{tile.BK}",
        units=costs.units,
        ops=tuple(build.ops),
        edges=tuple(build.edges),
        buffers=tuple(build.buffers),
        registers=tuple(replace(item, most=copies) for item in build.registers),
        rotations=tuple(build.rotations),
        budget=limits,
        publish=costs.publish,
        quantum=costs.quantum,
    )


def _copies_each(tile: GemmTile, limits: Budget) -> int:
    """How many copies of every fragment the registers hold: rotation without moves needs whole
    copies, and a common limit keeps the count independent of the schedule."""
    assert limits.registers is not None
    one = sum(tile.quadrants(x) * tile.fragment_registers(x) for x in "AB")
    copies = limits.registers // one
    if copies < 1:
        raise ConfigError(
            f"the fragments of one K tile take {one} registers per lane, but the budget is "
            f"{limits.registers}",
            hint="make BK smaller, or use more waves; registers are counted per lane",
            field="budget.registers",
        )
    return copies


class _Builder:
    """Collects ops, edges and what rotates, in declaration order."""

    def __init__(self, tile: GemmTile, costs: TileCosts) -> None:
        self._tile = tile
        self._costs = costs
        self.ops: list[TileOp] = []
        self.edges: list[DepEdge] = []
        self.buffers: list[RotatingBuffer] = []
        self.registers: list[RotatingRegisters] = []
        self.rotations: list[Rotation] = []
        self._loads: dict[str, list[int]] = {}
        self._fragments: dict[str, list[int]] = {}

    def loads(self, operand: str) -> None:
        """One per piece."""
        entries = self._tile.load_entries(operand)
        cycles = self._costs.load(operand)
        self._loads[operand] = [
            self._op(
                f"load {operand}{piece}",
                OpDesc(
                    int(LOAD_TAG[operand]),
                    subtile=piece,
                    vm_cost=entries,
                    resource=ResourceKind.GLOBAL_MEM,
                    latency=cycles.latency,
                    role=OpRole.GLOBAL_LOAD,
                    channel=CHANNEL[operand],
                ),
                cycles,
            )
            for piece in range(self._tile.pieces(operand))
        ]

    def fragments(self, operand: str) -> None:
        """One per quadrant row or column, and the LDS buffers they read.

        Interleaved, fragment q reads piece q alone, so each piece rotates by itself. Blocked, the
        waves of one fragment read different halves, so the whole operand rotates together.
        """
        tile, cycles = self._tile, self._costs.fragment(operand)
        loads = self._loads[operand]
        numbers = []
        for quadrant in range(tile.quadrants(operand)):
            desc = OpDesc(
                int(FRAGMENT_TAG[operand]),
                subtile=quadrant,
                lgkm_cost=tile.fragment_reads(operand),
                resource=ResourceKind.LDS,
                latency=cycles.latency,
                role=OpRole.FRAGMENT_LOAD,
                channel=CHANNEL[operand],
                vgpr_def=tile.fragment_registers(operand),
            )
            number = self._op(f"frag {operand}{quadrant}", desc, cycles)
            numbers.append(number)
            sources = [loads[quadrant]] if tile.grid.interleaved else loads
            self.edges += [DepEdge(load, number) for load in sources]
        self._fragments[operand] = numbers
        size = tile.piece_bytes(operand)
        if tile.grid.interleaved:
            for piece, (load, fragment) in enumerate(zip(loads, numbers, strict=True)):
                self._buffer(f"LDS {operand}{piece}", size, (load,), (fragment,))
        else:
            self._buffer(f"LDS {operand}", size * len(loads), tuple(loads), tuple(numbers))

    def mmas(self) -> None:
        """The m x n grid, row by row; copy c of fragment q is register c * m + q (or n)."""
        tile, cycles = self._tile, self._costs.mma()
        grid: dict[tuple[int, int], int] = {}
        for row in range(tile.m):
            for column in range(tile.n):
                desc = OpDesc(
                    int(MatmulTag.MMA),
                    stage=row,
                    subtile=column,
                    resource=ResourceKind.MMA_UNIT,
                    latency=cycles.latency,
                    role=OpRole.COMPUTE,
                )
                number = grid[row, column] = self._op(f"mma {row}{column}", desc, cycles)
                self.edges += [
                    DepEdge(self._fragments["A"][row], number),
                    DepEdge(self._fragments["B"][column], number),
                    DepEdge(number, number, loop_distance=1),
                ]
        for operand, axis in (("A", 0), ("B", 1)):
            stride = tile.quadrants(operand)
            for quadrant, fragment in enumerate(self._fragments[operand]):
                readers = tuple(mma for at, mma in grid.items() if at[axis] == quadrant)
                name = f"frag {operand}{quadrant}"
                size = tile.fragment_registers(operand)
                self.registers.append(RotatingRegisters(name, size, fragment, readers))
                self.rotations.append(Rotation(fragment, "subtile", name, stride))
                self.rotations += [
                    Rotation(mma, "stage" if axis == 0 else "subtile", name, stride)
                    for mma in readers
                ]

    def _op(self, name: str, desc: OpDesc, cycles: OpCycles) -> int:
        self.ops.append(TileOp(name, desc, cycles))
        return len(self.ops) - 1

    def _buffer(
        self, name: str, size: int, fills: tuple[int, ...], readers: tuple[int, ...]
    ) -> None:
        self.buffers.append(RotatingBuffer(name, size, fills, readers))
        self.rotations += [Rotation(op, "stage", name) for op in (*fills, *readers)]
