"""What an emitter is made from: the schedule's plan, the target, the types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeloom.compiled import CompiledSchedule
from pipeloom.emit.chips import Chip
from pipeloom.emit.faults import EmitError
from pipeloom.emit.gemm.interface import EntryEmitter
from pipeloom.emit.isa import Bank
from pipeloom.emit.plan import Plan
from pipeloom.geometry import KernelGeometry


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitRequest:
    """One kernel to emit; ``geometry`` is None where neither schedule nor caller gave one."""

    compiled: CompiledSchedule
    plan: Plan
    chip: Chip
    dtype: str
    out_dtype: str
    geometry: KernelGeometry | None
    accumulators: Bank
    name: str

    def need_geometry(self) -> KernelGeometry:
        """The tile shape; raises ``EmitError`` where there is none."""
        if self.geometry is None:
            raise EmitError(
                f"the {self.compiled.schedule} schedule was compiled without a tile shape, so its "
                "wait counts fit no particular kernel",
                hint="compile it with a geometry, for example geometry: {BM: 256, BN: 256, BK: 64, "
                "MMA_M: 16, MMA_N: 16, MMA_K: 32, elem_bytes: 2}",
                field="geometry",
            )
        return self.geometry


MakeEmitter = Callable[[EmitRequest], EntryEmitter]
"""Makes the emitter of one kernel; what a kernel of your own passes to ``emit_kernel``."""
