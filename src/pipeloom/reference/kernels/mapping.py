"""How a kernel consumes a schedule: the one mapping that all consumers share.

A compiled schedule is three lists of entries; it does not say how many waves run them, which bytes
of LDS an entry touches, or where the kernel puts barriers of its own. A ``Kernel`` says that, as
data. The verifier proves with it, the executor runs with it, the emitter writes code from it.

A workgroup has ``waves`` waves in ``groups``. Every wave walks the same entries; waves of one group
walk exactly the same steps, waves of different groups may differ by the kernel's own barriers:

    kernel = kernel_for(compiled)
    for step in kernel.walk(compiled, wave=4, trips=2):
        effect = kernel.effect(step, wave=4)

In the ping-pong kernel the first steps of wave 4 (group 1) read, with K in units of tiles:

    step 0  load B(stage 0, sub 0)  brings K tile 0 to its slice of LDS B, stage 0, half 0
    ...
    step 4  barrier                 the stagger: only group 1 has it
    step 5  wait_vm(0)              blocks this wave until its own loads have landed

An ``OpEffect`` says what an op touches and which hardware counter tracks it:

    fragment A(stage 0, sub 1), wave 4
        reads     LDS A, stage 0, half 1, second half of its rows
        writes    fragment registers A1
        counter   lgkmcnt, 8 entries

A load op is cooperative: each wave brings its own slice of the half, so ``lds_writes`` names the
whole region while the wave writes only its slice of it. How rows map to slices is the emitter's
business. A proof takes any slice to overlap any read of the same region, which is right for every
layout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pipeloom.machine.cdna import LGKMCNT_LIMIT, VMCNT_LIMIT
from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.ops import OpDesc, OpRole, Phase


class WaitCounter(Enum):
    """The hardware counter that tracks an op until it retires; the value is its limit.

    A wait holds a count
    below the limit; the limit itself, all ones, is no wait. What happens at the issue of more
    entries is for the chip to say (``machine.target.Counter.stalls_when_full``).
    """

    VM = VMCNT_LIMIT
    LGKM = LGKMCNT_LIMIT

    @property
    def limit(self) -> int:
        """The largest count that fits the field, which waits for nothing."""
        return self.value

    @property
    def label(self) -> str:
        """``vmcnt`` or ``lgkmcnt``."""
        return f"{self.name.lower()}cnt"


class LdsRegion(NamedTuple):
    """A piece of LDS that is filled as a whole: one half of one stage of one operand."""

    operand: str
    stage: int
    half: int

    def __str__(self) -> str:
        return f"LDS {self.operand}, stage {self.stage}, half {self.half}"


class Part(NamedTuple):
    """The ``number``-th of ``of`` equal runs of rows of a region, from 0."""

    number: int
    of: int


class LdsRead(NamedTuple):
    """What a fragment load reads: some rows of a region, written by every wave of the workgroup."""

    region: LdsRegion
    part: Part


class RegisterSet(NamedTuple):
    """A named set of a wave's registers: fragment ``A0``, or ``staging0`` between two memories."""

    bank: str
    number: int

    def __str__(self) -> str:
        return f"{self.bank}{self.number}"


class Accumulator(NamedTuple):
    """A wave's accumulators of one quadrant of its output tile."""

    row: int
    column: int

    def __str__(self) -> str:
        return f"C({self.row}, {self.column})"


@dataclass(frozen=True, slots=True)
class OpEffect:
    """What one op of one wave reads and writes, and which counter it occupies.

    The data of an op with a ``tile`` is that K tile of global memory; the data of an op with
    ``lds_reads`` is what stands there; otherwise it is what its ``register_reads`` hold. An op
    without a counter retires at issue. Registers are read at issue in every case.

    Waves of one group must agree on ``counter`` and ``entries``: that is what keeps them in step.
    """

    counter: WaitCounter | None = None
    entries: int = 0
    tile: int | None = None
    lds_reads: tuple[LdsRead, ...] = ()
    lds_writes: tuple[LdsRegion, ...] = ()
    register_reads: tuple[RegisterSet, ...] = ()
    register_writes: tuple[RegisterSet, ...] = ()
    accumulator: Accumulator | None = None


NO_EFFECT = OpEffect()
"""The effect of waits, barriers and fences: on data none."""


@dataclass(frozen=True, slots=True)
class EntryRun:
    """One entry as one wave executes it.

    ``iteration`` counts loop trips from 0 and is ``None`` outside the loop. ``k_base`` is the loop
    variable and ``tile`` the K tile that a global load brings, both in K tiles (times BK for
    elements). ``origin`` names a barrier that the kernel adds itself (its ``slot`` is -1), and is
    empty for an entry of the schedule.
    """

    index: int
    op: OpDesc
    phase: Phase
    slot: int
    iteration: int | None
    k_base: int
    tile: int | None = None
    origin: str = ""


class Kernel(ABC):
    """A kernel as the verifier, the executor and the emitter see it.

    ``walk`` and ``effect`` are pure, and a walk is a loop: prologue, so many times the same body
    with only K advancing, epilogue. What an argument over all trip counts takes for granted, a test
    asks of every model here; a kernel of your own is a ``pipeloom.Loop``.
    """

    name: str
    waves: int
    groups: tuple[tuple[int, ...], ...]
    """Partition of the waves; those of one group walk the same steps."""
    min_trips: int = 0

    @abstractmethod
    def tiles(self, trips: int) -> int:
        """How many K tiles the whole kernel must sum when its loop runs ``trips`` times."""

    @property
    @abstractmethod
    def tiles_per_iteration(self) -> int:
        """By how many K tiles one trip of the loop advances."""

    @abstractmethod
    def accumulators(self) -> tuple[Accumulator, ...]:
        """The accumulators of one wave; each must sum every K tile exactly once."""

    @abstractmethod
    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[EntryRun, ...]:
        """Everything ``wave`` executes, in order, from the first load to the store of C."""

    @abstractmethod
    def effect(self, step: EntryRun, wave: int) -> OpEffect:
        """What a step of ``wave`` touches; raises ``ConfigError`` for an op it does not know."""

    def group_of(self, wave: int) -> int:
        """The number of the group that ``wave`` belongs to."""
        return next(n for n, members in enumerate(self.groups) if wave in members)


class WalkBuilder:
    """Collects the steps of one wave, numbering them."""

    def __init__(self) -> None:
        self._steps: list[EntryRun] = []

    def entries(
        self,
        entries: Sequence[ScheduleEntry],
        k_base: int,
        iteration: int | None = None,
        first_slot: int = 0,
    ) -> None:
        """Append schedule entries at a value of the loop variable.

        Slots count from ``first_slot``: an entry is known by its place in its phase.
        """
        for slot, entry in enumerate(entries, first_slot):
            multiple = entry.op.k_offset.multiple
            tile = None if multiple is None else k_base + multiple
            self.entry(entry, slot, k_base, tile, iteration)

    def entry(
        self,
        entry: ScheduleEntry,
        slot: int,
        k_base: int,
        tile: int | None,
        iteration: int | None = None,
    ) -> None:
        """Append one entry, saying which K tile it brings."""
        index = len(self._steps)
        self._steps.append(EntryRun(index, entry.op, entry.phase, slot, iteration, k_base, tile))

    def own_barrier(self, origin: str, phase: Phase, k_base: int) -> None:
        """Append a barrier of the kernel itself, outside of the loop."""
        index = len(self._steps)
        self._steps.append(EntryRun(index, OpDesc.barrier(), phase, -1, None, k_base, None, origin))

    def done(self) -> tuple[EntryRun, ...]:
        """The finished walk."""
        return tuple(self._steps)


def walk_in_sequence(compiled: CompiledSchedule, trips: int) -> tuple[EntryRun, ...]:
    """Prologue, loop, epilogue, where the n-th load of a wave brings K tile n."""
    walk = WalkBuilder()
    loaded = 0
    phases = [(compiled.prologue, None), *((compiled.kernel, i) for i in range(trips))]
    for entries, trip in [*phases, (compiled.epilogue, None)]:
        for slot, entry in enumerate(entries):
            is_load = entry.op.role is OpRole.GLOBAL_LOAD
            walk.entry(entry, slot, loaded, loaded if is_load else None, trip)
            loaded += is_load
    return walk.done()
