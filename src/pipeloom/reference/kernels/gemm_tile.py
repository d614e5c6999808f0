"""The matmuls whose depth is derived: any number of LDS buffers and of fragment copies.

C[M,N] = A[M,K] x B[N,K]^T. The waves and their shares are those of the specification's kernels
(KERNELS.md section 2), the depth is the schedule's:

    load (stage s, subtile p)      fills piece p of buffer s with the next K tile of that piece
    fragment (stage s, subtile r)  reads buffer s into register r, which is row r mod m
    MMA (stage r, subtile c)       multiplies registers A r and B c into quadrant (r mod m, c mod n)

There is one group of waves, without stagger. With T trips the kernel sums base + unroll * T tiles;
the pipeline configuration carries both numbers (``prologue_fill``, ``num_partitions``).
"""

from __future__ import annotations

from functools import lru_cache

from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels.interface import (
    NO_EFFECT,
    Accumulator,
    Counter,
    Effect,
    Kernel,
    LdsRead,
    Part,
    Region,
    Register,
    Step,
    WalkBuilder,
)
from pipeloom.reference.ops import OpDesc, OpRole
from pipeloom.reference.tile import FOUR_WAVE_GRID, HALVES, PING_PONG_GRID, WaveGrid

OPERANDS = ("A", "B")


class GemmTileKernel(Kernel):
    """One matmul of the family: a wave grid, m x n quadrants, ``depth`` buffers at most."""

    def __init__(
        self, grid: WaveGrid, quadrants: tuple[int, int], depth: int, base: int, unroll: int
    ) -> None:
        self.name = f"gemm_tile_{grid.name}"
        self.grid = grid
        self.waves = grid.waves
        self.groups = (tuple(range(grid.waves)),)
        self.quadrants = quadrants
        self.depth = depth
        self._base = base
        self._unroll = unroll
        self.min_trips = 0 if base else 1
        self._known = lru_cache(maxsize=None)(self._effect)

    @classmethod
    def four_wave(cls, compiled: CompiledSchedule) -> GemmTileKernel:
        """Four waves, 2 by 2."""
        return cls._of(FOUR_WAVE_GRID, compiled)

    @classmethod
    def ping_pong(cls, compiled: CompiledSchedule) -> GemmTileKernel:
        """Eight waves, 2 by 4, two per SIMD."""
        return cls._of(PING_PONG_GRID, compiled)

    @classmethod
    def _of(cls, grid: WaveGrid, compiled: CompiledSchedule) -> GemmTileKernel:
        config = compiled.config
        return cls(
            grid,
            (config.m_mmas, config.n_mmas),
            config.depth,
            config.prologue_fill,
            config.num_partitions,
        )

    @property
    def tiles_per_iteration(self) -> int:
        """As many as the kernel is unrolled."""
        return self._unroll

    def tiles(self, trips: int) -> int:
        """base + unroll * trips."""
        return self._base + self._unroll * trips

    def accumulators(self) -> tuple[Accumulator, ...]:
        """The m x n quadrants."""
        m, n = self.quadrants
        return tuple(Accumulator(i, j) for i in range(m) for j in range(n))

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[Step, ...]:
        """Prologue, loop, epilogue; each piece's loads take the K tiles in sequence."""
        walk = WalkBuilder()
        loaded: dict[tuple[int, int], int] = {}
        loop = [(compiled.kernel, i, self.tiles(i)) for i in range(trips)]
        ends = (compiled.prologue, None, 0), (compiled.epilogue, None, self.tiles(trips))
        for entries, trip, k_base in [ends[0], *loop, ends[1]]:
            for slot, entry in enumerate(entries):
                tile = None
                if entry.op.role is OpRole.GLOBAL_LOAD:
                    piece = (entry.op.channel, entry.op.subtile)
                    tile = loaded.get(piece, 0)
                    loaded[piece] = tile + 1
                walk.entry(entry, slot, k_base, tile, trip)
        return walk.done()

    def effect(self, step: Step, wave: int) -> Effect:
        """Loads fill pieces, fragments read them, MMAs read fragments."""
        if step.op.is_framework:
            return NO_EFFECT
        return self._known(step.op, step.tile, wave)

    def _effect(self, op: OpDesc, tile: int | None, wave: int) -> Effect:
        if op.role is OpRole.COMPUTE:
            m, n = self.quadrants
            return Effect(
                register_reads=(Register("A", op.stage), Register("B", op.subtile)),
                accumulator=Accumulator(op.stage % m, op.subtile % n),
            )
        if op.channel not in (0, 1) or op.stage >= self.depth:
            raise self._no_place(op)
        operand = OPERANDS[op.channel]
        if op.role is OpRole.GLOBAL_LOAD:
            if op.subtile >= self._pieces(op.channel):
                raise self._no_place(op)
            region = Region(operand, op.stage, op.subtile)
            return Effect(Counter.VM, max(1, op.vm_cost), tile=tile, lds_writes=(region,))
        if op.role is OpRole.FRAGMENT_LOAD:
            piece, part = self.fragment_source(operand, op.subtile, wave)
            return Effect(
                Counter.LGKM,
                max(1, op.lgkm_cost),
                lds_reads=(LdsRead(Region(operand, op.stage, piece), part),),
                register_writes=(Register(operand, op.subtile),),
            )
        raise self._no_place(op)

    def fragment_source(self, operand: str, register: int, wave: int) -> tuple[int, Part]:
        """Which piece, and which of its rows, a fragment of ``wave`` reads into ``register``."""
        grid, count = self.grid, self.quadrants[OPERANDS.index(operand)]
        quadrant = register % count
        row, column = divmod(wave, grid.along_n)
        place = row if operand == "A" else column
        if grid.interleaved:
            return quadrant, Part(place, grid.along(operand))
        per_half = grid.along(operand) // HALVES
        half, within = divmod(place, per_half)
        return half, Part(within * count + quadrant, per_half * count)

    def _pieces(self, channel: int) -> int:
        return self.quadrants[channel] if self.grid.interleaved else HALVES

    def _no_place(self, op: OpDesc) -> ConfigError:
        return ConfigError(
            f"the {self.name} kernel has no place for {describe_op(op)}",
            hint=f"it has {self.depth} LDS buffer(s) and loads, fragments and MMAs of A and B",
            field="OpDesc",
        )
