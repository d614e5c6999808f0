"""What the ops of a GEMM tile cost a machine, from its facts; the whole workgroup at once.

Waves of a workgroup run the same ops at about the same time, so an op is priced as all its waves
together see it. With w waves, s SIMDs (4), per wave n instructions:

    mfma     MMA        n * (w / s) * cycles of the matrix instruction     per SIMD, one at a time
    lds      fragment   w * n * bytes / LDS bytes per cycle                one port per CU
             load       bytes / LDS bytes per cycle, when the data arrives
    vmem     load       w * n * max(8, bytes / 64)                         one texture path per CU
    memory   load       bytes / 45                                         the CU's share of L2/HBM

A load's data is there after the plain latency plus its time in memory; a fragment's after the LDS
latency plus its time at the port. What this leaves out: the issue slots of a wave. Below the op,
the emitter interleaves memory instructions with MFMAs, which leave 8 of 16 cycles free; the
simulator prices that, this model assumes it.
"""

from __future__ import annotations

from math import ceil

from pipeloom.geometry import WAVE_LANES
from pipeloom.modulo import Reservation, Unit
from pipeloom.pipelining.loop import OpCycles
from pipeloom.targets.machine import Machine, MatrixOp
from pipeloom.tile import GemmTile

MFMA, LDS, VMEM, MEMORY = "mfma", "lds", "vmem", "memory"
UNITS = (Unit(MFMA), Unit(LDS), Unit(VMEM), Unit(MEMORY))


class TileCosts:
    """Cycles of the ops of ``tile`` on ``machine``.

    ``global_latency`` replaces the machine's plain latency, to plan for slower memory.
    """

    def __init__(
        self, tile: GemmTile, machine: Machine, global_latency: int | None = None
    ) -> None:
        self._tile = tile
        self._machine = machine
        self._waves = tile.grid.waves
        latency = machine.global_latency.value
        self.global_latency = latency if global_latency is None else global_latency

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

    def mma(self) -> OpCycles:
        """One quadrant of every wave. Its operands are read until the last instruction issues."""
        per_simd = -(-self._waves // self._machine.simds.value)
        cycles = self._tile.mmas_per_op * per_simd * self.matrix_op.cycles.value
        return OpCycles(cycles, cycles, (Reservation(MFMA, cycles),))

    def fragment(self, operand: str) -> OpCycles:
        """One row or column of quadrants of every wave; LDS is read until the data is there."""
        tile, machine = self._tile, self._machine
        moved = self._waves * tile.fragment_reads(operand) * WAVE_LANES * tile.read_bytes
        busy = ceil(moved / machine.lds_bytes_per_clk.value)
        latency = machine.lds_latency.value + busy
        return OpCycles(latency, latency, (Reservation(LDS, busy),))

    def load(self, operand: str) -> OpCycles:
        """One piece of an operand, by all waves."""
        tile, machine = self._tile, self._machine
        size = tile.piece_bytes(operand)
        moved = WAVE_LANES * tile.dma_bytes
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
            ),
        )

    @property
    def mfma_bound(self) -> int:
        """Cycles per K tile with all MMA quadrants back to back: no schedule can be faster."""
        return self._tile.m * self._tile.n * self.mma().latency
