"""What the ops of a GEMM tile cost a machine, from its facts; the whole workgroup at once.

Waves of a workgroup run the same ops at about the same time, so an op is priced as all its waves
together see it. With w waves, s SIMDs (4), per wave n instructions:

    mfma     MMA        n * (w / s) * cycles of the matrix instruction     per SIMD, one at a time
    lds      fragment   w * n * bytes / LDS bytes per cycle                one port per CU
             load       bytes / LDS bytes per cycle, when the data arrives
    vmem     load       w * n * max(8, bytes / 64)                         one texture path per CU
    memory   load       bytes / 45                                         the CU's share of L2/HBM

    issue    all        a wave issues in order, so loads and fragments start between two MMAs
                        or with one, never in the middle: MMAs hold all slots but their first
                        step

A load's data is there after the plain latency plus its time in memory; a fragment's after the LDS
latency plus its time at the port. What this leaves out is the issue cycles of the memory
instructions themselves: below the op, the emitter interleaves them with the MFMAs of the same
entry, which leave 8 of 16 cycles free. The simulator prices them; this model assumes them hidden.
"""

from __future__ import annotations

from math import ceil

from pipeloom.machine.target import WAVE_LANES, MatrixOp, Target
from pipeloom.order.modulo import Reservation, Unit
from pipeloom.reference.pipelining.loop import OpCycles
from pipeloom.reference.tile import GemmTile

MFMA, LDS, VMEM, MEMORY, ISSUE = "mfma", "lds", "vmem", "memory", "issue"


class TileCosts:
    """Cycles of the ops of ``tile`` on ``machine``.

    ``global_latency`` replaces the machine's plain latency, to plan for slower memory.
    """

    def __init__(self, tile: GemmTile, machine: Target, global_latency: int | None = None) -> None:
        self._tile = tile
        self._machine = machine
        self._waves = tile.grid.waves
        latency = machine.global_latency.value
        self.global_latency = latency if global_latency is None else global_latency

    @property
    def issue_slots(self) -> int:
        """Memory ops that may stand between two MMAs: as many as it takes to place them all."""
        tile = self._tile
        memory_ops = sum(tile.pieces(x) + tile.quadrants(x) for x in "AB")
        return max(2, -(-memory_ops // (tile.m * tile.n)))

    @property
    def units(self) -> tuple[Unit, ...]:
        """The shared resources of a workgroup."""
        return (
            Unit(MFMA),
            Unit(LDS),
            Unit(VMEM),
            Unit(MEMORY),
            Unit(ISSUE, self.issue_slots),
        )

    @property
    def matrix_op(self) -> MatrixOp:
        """The matrix instruction of the tile; an error if the machine has none of that shape."""
        tile = self._tile
        dtype = {1: "fp8", 2: "f16", 4: "f32"}.get(tile.elem_bytes, "?")
        return self._machine.matrix_op(f"{tile.MMA_M}x{tile.MMA_N}x{tile.MMA_K}_{dtype}")

    @property
    def publish(self) -> int:
        """Cycles of a barrier: dear where a SIMD has no second wave to run meanwhile."""
        machine = self._machine
        alone = self._waves <= machine.simds.value
        fact = machine.barrier_alone_cycles if alone else machine.barrier_shared_cycles
        return fact.value

    @property
    def quantum(self) -> int:
        """Time goes in matrix instructions: that is how finely an emitter can interleave."""
        return self.matrix_op.cycles.value

    def mma(self) -> OpCycles:
        """One quadrant of every wave. Its operands are read until the last instruction issues.

        Nothing else issues between its instructions; a single one has no between.
        """
        per_simd = -(-self._waves // self._machine.simds.value)
        cycles = self._tile.mmas_per_op * per_simd * self.matrix_op.cycles.value
        step = self.quantum
        between = (Reservation(ISSUE, cycles - step, step),) if cycles > step else ()
        whole = between * self.issue_slots
        return OpCycles(cycles, cycles, (Reservation(MFMA, cycles), *whole))

    def fragment(self, operand: str) -> OpCycles:
        """One row or column of quadrants of every wave; LDS is read until the data is there."""
        tile, machine = self._tile, self._machine
        moved = self._waves * tile.fragment_reads(operand) * WAVE_LANES * tile.read_bytes
        busy = ceil(moved / machine.lds_bytes_per_clk.value)
        latency = machine.lds_latency.value + busy
        return OpCycles(latency, latency, (Reservation(LDS, busy), Reservation(ISSUE)))

    def load(self, operand: str) -> OpCycles:
        """One piece of an operand, by all waves."""
        tile, machine = self._tile, self._machine
        size = tile.piece_bytes(operand)
        moved = WAVE_LANES * tile.load_bytes
        each = max(machine.vmem_min_cycles.value, ceil(moved / machine.vmem_bytes_per_clk.value))
        texture = self._waves * tile.load_entries(operand) * each
        memory = ceil(size / machine.global_bytes_per_clk.value)
        written = ceil(size / machine.lds_bytes_per_clk.value)
        latency = self.global_latency + max(memory, texture)
        return OpCycles(
            latency,
            0,
            (
                Reservation(VMEM, texture),
                Reservation(MEMORY, memory),
                Reservation(LDS, written, max(0, latency - written)),
                Reservation(ISSUE),
            ),
        )

    @property
    def mfma_bound(self) -> int:
        """Cycles per K tile with all MMA quadrants back to back: no schedule can be faster."""
        return self._tile.m * self._tile.n * self.mma().latency
