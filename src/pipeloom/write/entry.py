"""What a kernel must say to become machine code: the interface of its ops.

An ``EntryEmitter`` says what the data ops of a kernel are as instructions. Everything else is the
same for all kernels (see ``program``): waits, barriers and priorities become one instruction each,
fences none; the loop is a counter and a branch; steps of one group are branched around.

    class MyEmitter(EntryEmitter):
        def setup(self, code): ...           # arguments, addresses; not counted by any proof
        def entry(self, code, step): ...     # the ops of the schedule, one to one
        def finish(self, code): ...          # store the result

``entry`` may add scalar arithmetic, but no wait, no barrier and no memory access beyond the op
itself: the proof is about exactly the instructions of the entries. A whole one is
``tests/unit/write/entry_kernel.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.kernels import Counter
from pipeloom.write.allocate import Allocation, Resources
from pipeloom.write.chips import Chip
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank, Register
from pipeloom.write.plan import Plan, PlannedStep


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument and its place in the argument segment."""

    name: str
    offset: int
    size: int
    is_pointer: bool


@dataclass(frozen=True, slots=True)
class LoopRegisters:
    """Scalar registers of the program: byte offset of the loop's tile, its end, the wave's group.

    The loop runs while ``offset < end``; each trip adds ``advance``.
    """

    offset: Register
    end: Register
    group: Register
    advance: int


class EntryEmitter(ABC):
    """What a kernel's ops are in machine code.

    The loader fills s[0:1] with the address of the arguments, s2 and s3 with the workgroup ids
    along x and y, and v0 with the work-item id.
    """

    arguments: tuple[Argument, ...]
    loop: LoopRegisters
    resources: Resources
    allocation: Allocation
    geometry: KernelGeometry | None = None

    @abstractmethod
    def setup(self, code: Code) -> None:
        """Everything before the first entry; must set the loop's registers."""

    @abstractmethod
    def entry(self, code: Code, step: PlannedStep) -> None:
        """The instructions of one data op."""

    @abstractmethod
    def finish(self, code: Code) -> None:
        """Everything after the last entry, up to but without ``s_endpgm``."""

    @property
    def lower_bounds(self) -> frozenset[Counter]:
        """Counters whose modelled entries may be fewer than the instructions emitted.

        That is safe and only makes waits stricter: wait(n) retires an op if at least n entries
        were issued after it, and more instructions than modelled make that true earlier.
        """
        return frozenset()


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
