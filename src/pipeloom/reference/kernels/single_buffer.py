"""The single-buffer matmul: global memory to registers, registers to one LDS stage, to fragments.

Unlike the other kernels it does not load into LDS directly: a load brings a K tile of A and B to
*staging* registers (vmcnt), a store copies them to LDS (``ds_write``, lgkmcnt), a fragment load
reads K step t of the tile. The n-th load of a wave brings K tile n. With T trips of the loop the
kernel sums T + 2 tiles; the epilogue drains the last two.

A region is one K step of the tile: ``LdsRegion("AB", 0, t)``; a store fills them all. The
accumulator is split likewise: ``Accumulator(0, t)`` is the share of K step t, so that each share
must sum every K tile exactly once.

``ds_write`` takes its data at issue. (Only Southern Islands needed a counter for that: LLVM
SIInsertWaitcnts, vmemWriteNeedsExpWaitcnt.)
"""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels.grid import OperandCosts
from pipeloom.reference.kernels.mapping import (
    NO_EFFECT,
    Accumulator,
    EntryRun,
    Kernel,
    LdsRead,
    LdsRegion,
    OpEffect,
    Part,
    RegisterSet,
    WaitCounter,
    walk_in_sequence,
)
from pipeloom.reference.ops import OpRole

STAGING = RegisterSet("staging", 0)
WHOLE = Part(0, 1)


class SingleBufferKernel(Kernel):
    """Four waves, one LDS stage, staging registers; ``k_steps`` fragments per K tile."""

    waves = 4
    groups = ((0, 1, 2, 3),)

    def __init__(self, costs: OperandCosts, k_steps: int, name: str = "single_buffer") -> None:
        self.name = name
        self.costs = costs
        self.k_steps = k_steps

    @classmethod
    def for_schedule(cls, compiled: CompiledSchedule) -> SingleBufferKernel:
        """The kernel with as many K steps as the body has fragment loads.

        Args:
            compiled: the schedule.
        """
        fragments = [op.subtile for op in compiled.body if op.role is OpRole.FRAGMENT_LOAD]
        return cls(OperandCosts.of(compiled), max(fragments, default=0) + 1, compiled.schedule)

    @property
    def tiles_per_iteration(self) -> int:
        """One."""
        return 1

    def tiles(self, trips: int) -> int:
        """trips + 2."""
        return trips + 2

    def accumulators(self) -> tuple[Accumulator, ...]:
        """One share per K step."""
        return tuple(Accumulator(0, t) for t in range(self.k_steps))

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[EntryRun, ...]:
        """Prologue, loop, epilogue; loads take K tiles in sequence."""
        return walk_in_sequence(compiled, trips)

    def effect(self, step: EntryRun, wave: int) -> OpEffect:
        """Load, store, fragment and MMA by their roles."""
        op = step.op
        if op.is_framework:
            return NO_EFFECT
        if op.subtile >= self.k_steps:
            raise ConfigError(
                f"the {self.name} kernel has no place for {describe_op(op)}",
                hint=f"its K steps count 0 to {self.k_steps - 1}",
                field="OpDesc.subtile",
            )
        share = RegisterSet("AB", op.subtile)
        if op.role is OpRole.GLOBAL_LOAD:
            entries = op.vm_cost or self.costs.vm[0]
            return OpEffect(WaitCounter.VM, entries, tile=step.tile, register_writes=(STAGING,))
        if op.role is OpRole.SHARED_STORE:
            regions = tuple(LdsRegion("AB", 0, t) for t in range(self.k_steps))
            return OpEffect(WaitCounter.LGKM, 1, lds_writes=regions, register_reads=(STAGING,))
        if op.role is OpRole.FRAGMENT_LOAD:
            reads = (LdsRead(LdsRegion("AB", 0, op.subtile), WHOLE),)
            entries = op.lgkm_cost or self.costs.lgkm[0]
            return OpEffect(WaitCounter.LGKM, entries, lds_reads=reads, register_writes=(share,))
        if op.role is OpRole.COMPUTE:
            return OpEffect(register_reads=(share,), accumulator=Accumulator(0, op.subtile))
        raise ConfigError(
            f"the {self.name} kernel does not know {describe_op(op)}",
            hint="roles: GLOBAL_LOAD, SHARED_STORE, FRAGMENT_LOAD, COMPUTE",
            field="OpDesc.role",
        )
