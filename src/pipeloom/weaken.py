"""Every way to weaken a schedule by one step: a wait loosened or gone, a barrier gone.

For testing what watches over schedules. A proved schedule from ``synchronize`` has nothing to
spare, so nearly every weakening is a bug, and whoever claims to notice bugs must notice it:

    for weakened in weakenings(compiled):
        assert verify(weakened.compiled).status is not Status.PROVED, weakened.what
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeloom.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.ops import OpDesc, OpTag, Phase

_WAITS = {
    OpTag.WAIT_VM: ("wait_vm", OpDesc.wait_vm),
    OpTag.WAIT_LGKM: ("wait_lgkm", OpDesc.wait_lgkm),
}
_FIELDS = {Phase.PROLOGUE: "prologue", Phase.KERNEL: "kernel", Phase.EPILOGUE: "epilogue"}


@dataclass(frozen=True, slots=True)
class Weakened:
    """A schedule with one piece of synchronisation less, and what was done to it."""

    compiled: CompiledSchedule
    what: str


def weakenings(compiled: CompiledSchedule) -> Iterator[Weakened]:
    """Each wait looser by one entry, and absent; each barrier absent; in the order of entries."""
    for phase in Phase:
        for slot, entry in enumerate(compiled.phase(phase)):
            place = f"{_FIELDS[phase]}[{slot}]"
            op = entry.op
            if op.tag == OpTag.BARRIER:
                yield Weakened(_without(compiled, phase, slot), f"{place} barrier deleted")
            elif op.tag in _WAITS:
                name, make = _WAITS[OpTag(op.tag)]
                looser = make(op.wait_value + 1)
                yield Weakened(
                    _with(compiled, phase, slot, looser),
                    f"{place} {name}({op.wait_value}) loosened to {op.wait_value + 1}",
                )
                yield Weakened(
                    _without(compiled, phase, slot), f"{place} {name}({op.wait_value}) deleted"
                )


def _with(compiled: CompiledSchedule, phase: Phase, slot: int, op: OpDesc) -> CompiledSchedule:
    entries = list(compiled.phase(phase))
    entries[slot] = replace(entries[slot], op=op)
    return _put(compiled, phase, entries)


def _without(compiled: CompiledSchedule, phase: Phase, slot: int) -> CompiledSchedule:
    """The stagger, if any, stays between the same two entries."""
    entries = list(compiled.phase(phase))
    del entries[slot]
    at = compiled.warp_stagger_index
    before = phase is Phase.PROLOGUE and slot < at
    moved = replace(compiled, warp_stagger_index=at - 1 if before else at)
    return _put(moved, phase, entries)


def _put(
    compiled: CompiledSchedule, phase: Phase, entries: list[ScheduleEntry]
) -> CompiledSchedule:
    numbered = tuple(replace(entry, time_slot=i) for i, entry in enumerate(entries))
    match phase:
        case Phase.PROLOGUE:
            return replace(compiled, prologue=numbered)
        case Phase.KERNEL:
            return replace(compiled, kernel=numbered)
        case Phase.EPILOGUE:
            return replace(compiled, epilogue=numbered)
