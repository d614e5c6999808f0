"""The matmul that stages through registers, at any depth: see ``single_buffer`` for depth one.

load (stage c)                 brings the next K tile to staging registers c
store (stage s, subtile c)     copies staging registers c to LDS buffer s
fragment (stage s, subtile r)  reads K step r mod steps of buffer s into registers r
MMA (subtile r)                multiplies registers r into the share of K step r mod steps
"""

from __future__ import annotations

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
    walk_in_sequence,
)
from pipeloom.reference.ops import OpRole
from pipeloom.reference.tile import SINGLE_BUFFER_GRID

WHOLE = Part(0, 1)


class StagedTileKernel(Kernel):
    """Four waves along M; ``k_steps`` fragments per K tile, ``base + unroll * trips`` tiles."""

    name = "gemm_tile_single_buffer"
    grid = SINGLE_BUFFER_GRID
    waves = grid.waves
    groups = (tuple(range(waves)),)

    def __init__(self, k_steps: int, base: int, unroll: int) -> None:
        self.k_steps = k_steps
        self._base = base
        self._unroll = unroll
        self.min_trips = 0 if base else 1

    @classmethod
    def for_schedule(cls, compiled: CompiledSchedule) -> StagedTileKernel:
        """K steps as the body has fragments per tile, depth from the configuration."""
        config = compiled.config
        fragments = sum(op.role is OpRole.FRAGMENT_LOAD for op in compiled.body)
        if fragments == 0 or fragments % config.num_partitions:
            raise ConfigError(
                f"the body of {compiled.schedule} has {fragments} fragment loads, which "
                f"{config.num_partitions} K tile(s) do not share evenly",
                hint="each K tile has a fragment per K step",
                field="body",
            )
        return cls(fragments // config.num_partitions, config.prologue_fill, config.num_partitions)

    @property
    def tiles_per_iteration(self) -> int:
        """As many as the kernel is unrolled."""
        return self._unroll

    def tiles(self, trips: int) -> int:
        """base + unroll * trips."""
        return self._base + self._unroll * trips

    def accumulators(self) -> tuple[Accumulator, ...]:
        """One share per K step."""
        return tuple(Accumulator(0, t) for t in range(self.k_steps))

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[Step, ...]:
        """Prologue, loop, epilogue; loads take K tiles in sequence."""
        return walk_in_sequence(compiled, trips)

    def effect(self, step: Step, wave: int) -> Effect:
        """Load, store, fragment and MMA by their roles."""
        op = step.op
        if op.is_framework:
            return NO_EFFECT
        if op.role is OpRole.GLOBAL_LOAD:
            staging = (Register("staging", op.stage),)
            return Effect(Counter.VM, max(1, op.vm_cost), tile=step.tile, register_writes=staging)
        if op.role is OpRole.SHARED_STORE:
            regions = tuple(Region("AB", op.stage, t) for t in range(self.k_steps))
            return Effect(
                Counter.LGKM,
                max(1, op.lgkm_cost),
                lds_writes=regions,
                register_reads=(Register("staging", op.subtile),),
            )
        share = op.subtile % self.k_steps
        if op.role is OpRole.FRAGMENT_LOAD:
            return Effect(
                Counter.LGKM,
                max(1, op.lgkm_cost),
                lds_reads=(LdsRead(Region("AB", op.stage, share), WHOLE),),
                register_writes=(Register("AB", op.subtile),),
            )
        if op.role is OpRole.COMPUTE:
            registers = (Register("AB", op.subtile),)
            return Effect(register_reads=registers, accumulator=Accumulator(0, share))
        raise ConfigError(
            f"the {self.name} kernel does not know {describe_op(op)}",
            hint="roles: GLOBAL_LOAD, SHARED_STORE, FRAGMENT_LOAD, COMPUTE",
            field="OpDesc.role",
        )
