"""A schedule without its synchronisation: data ops in order, and the gaps between them.

Gap g of a phase stands before its data op g; the prologue has one more, at its end. Into a gap
``assemble`` puts, in this order,

    waits that must be over before the barrier | the stagger, if it stands here | barriers |
    waits that the next op needs

Fences (set_prio, schedule_barrier, sched_group_barrier) keep their places among the data ops; in a
gap that had synchronisation before, the new one takes the place of the old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.kernels.interface import Counter
from pipeloom.reference.ops import OpDesc, OpTag, Phase

SYNC_TAGS = frozenset({int(OpTag.BARRIER), int(OpTag.WAIT_VM), int(OpTag.WAIT_LGKM)})

Slot = tuple[Phase, int, bool]
"""Where a wait may stand: phase, gap, and whether before the barrier (True) or after it."""

Gap = tuple[Phase, int]

Listing = list[OpDesc | ScheduleEntry]
"""A phase in the making: old entries and new ops."""


@dataclass(frozen=True, slots=True)
class GapFences:
    """The fences of one gap, before and after the place of its synchronisation."""

    before: tuple[ScheduleEntry, ...] = ()
    after: tuple[ScheduleEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Skeleton:
    """Data ops and fences of each phase; ``stagger_gap`` is ``None`` without a stagger."""

    compiled: CompiledSchedule
    data: dict[Phase, tuple[ScheduleEntry, ...]]
    fences: dict[Phase, tuple[GapFences, ...]]
    stagger_gap: int | None

    @classmethod
    def of(cls, compiled: CompiledSchedule) -> Skeleton:
        """Strip waits and barriers."""
        data, fences = {}, {}
        for phase in Phase:
            data[phase], fences[phase] = _split(compiled.phase(phase))
        at = compiled.warp_stagger_index
        stagger = None
        if at <= len(compiled.prologue):
            stagger = sum(not e.op.is_framework for e in compiled.prologue[:at])
        return cls(compiled, data, fences, stagger)

    def gaps(self, phase: Phase) -> int:
        """How many gaps a phase has that synchronisation may use."""
        return len(self.data[phase]) + (phase is Phase.PROLOGUE)

    def with_order(self, phase: Phase, order: list[int]) -> Skeleton:
        """The data ops of one phase in another order.

        A fence moves with the op that it stands at: those before a gap's synchronisation with the
        op before the gap, those after it with the op after.
        """
        data, fences = dict(self.data), dict(self.fences)
        old = self.fences[phase]
        data[phase] = tuple(self.data[phase][i] for i in order)
        before = [old[0].before, *(old[i + 1].before for i in order)]
        after = [*(old[i].after for i in order), old[-1].after]
        fences[phase] = tuple(GapFences(b, a) for b, a in zip(before, after, strict=True))
        return replace(self, data=data, fences=fences)


@dataclass(slots=True)
class Synchronisation:
    """The waits and barriers of a schedule, by place."""

    barriers: dict[Gap, int] = field(default_factory=dict)
    waits: dict[Slot, dict[Counter, int]] = field(default_factory=dict)


def _split(
    entries: tuple[ScheduleEntry, ...],
) -> tuple[tuple[ScheduleEntry, ...], tuple[GapFences, ...]]:
    data: list[ScheduleEntry] = []
    gaps: list[GapFences] = []
    before: list[ScheduleEntry] = []
    after: list[ScheduleEntry] | None = None
    for entry in entries:
        if entry.op.tag in SYNC_TAGS:
            after = [] if after is None else after
        elif entry.op.is_framework:
            (before if after is None else after).append(entry)
        else:
            data.append(entry)
            gaps.append(GapFences(tuple(before), tuple(after or ())))
            before, after = [], None
    gaps.append(GapFences(tuple(before), tuple(after or ())))
    return tuple(data), tuple(gaps)


def assemble(skeleton: Skeleton, sync: Synchronisation) -> CompiledSchedule:
    """The schedule with the given synchronisation; block and dependence tables are dropped.

    ``program`` and ``kernel_deps`` describe the entries of the original and would be wrong here.
    """
    phases: dict[Phase, Listing] = {phase: [] for phase in Phase}
    stagger_at = None
    for phase in Phase:
        out = phases[phase]
        for gap, fences in enumerate(skeleton.fences[phase]):
            out.extend(fences.before)
            out.extend(waits_at(sync, (phase, gap, True)))
            if phase is Phase.PROLOGUE and gap == skeleton.stagger_gap:
                stagger_at = len(out)
            out.extend([OpDesc.barrier()] * sync.barriers.get((phase, gap), 0))
            out.extend(waits_at(sync, (phase, gap, False)))
            out.extend(fences.after)
            if gap < len(skeleton.data[phase]):
                out.append(skeleton.data[phase][gap])
    return listed(skeleton.compiled, phases, stagger_at)


def listed(
    compiled: CompiledSchedule, phases: Mapping[Phase, Listing], stagger_at: int | None
) -> CompiledSchedule:
    """``compiled`` with other entries, numbered; without a stagger if ``stagger_at`` is None."""
    entries = {phase: _number(out, phase) for phase, out in phases.items()}
    prologue = entries[Phase.PROLOGUE]
    return replace(
        compiled,
        prologue=prologue,
        kernel=entries[Phase.KERNEL],
        epilogue=entries[Phase.EPILOGUE],
        warp_stagger_index=len(prologue) + 1 if stagger_at is None else stagger_at,
        program=None,
        kernel_deps=(),
    )


def waits_at(sync: Synchronisation, slot: Slot) -> list[OpDesc]:
    """The waits of one slot as ops, vm first."""
    found = sync.waits.get(slot, {})
    make = {Counter.VM: OpDesc.wait_vm, Counter.LGKM: OpDesc.wait_lgkm}
    return [make[counter](found[counter]) for counter in Counter if counter in found]


def _number(out: Listing, phase: Phase) -> tuple[ScheduleEntry, ...]:
    return tuple(
        ScheduleEntry(item, slot, phase)
        if isinstance(item, OpDesc)
        else replace(item, time_slot=slot)
        for slot, item in enumerate(out)
    )
