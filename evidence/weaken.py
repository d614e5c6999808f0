"""Every way to weaken a schedule by one step: a wait loosened or gone, a barrier gone.

For testing what watches over schedules. A proved schedule from ``synchronize`` has nothing to
spare, so nearly every weakening is a bug, and whoever claims to notice bugs must notice it:

    for weakened in weakenings(compiled):
        assert verify(weakened.compiled).status is not Status.PROVED, weakened.what
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import OpDesc, OpTag, Phase

_WAITS = {
    OpTag.WAIT_VM: ("wait_vm", OpDesc.wait_vm),
    OpTag.WAIT_LGKM: ("wait_lgkm", OpDesc.wait_lgkm),
}


@dataclass(frozen=True, slots=True)
class Weakened:
    """A schedule with one piece of synchronisation less, and what was done to it."""

    compiled: CompiledSchedule
    what: str


def weakenings(compiled: CompiledSchedule) -> Iterator[Weakened]:
    """Each wait looser by one entry, and absent; each barrier absent; in the order of entries."""
    for phase in Phase:
        for slot, entry in enumerate(compiled.phase(phase)):
            place = f"{phase.name.lower()}[{slot}]"
            op = entry.op
            if op.tag == OpTag.BARRIER:
                yield Weakened(compiled.without_entry(phase, slot), f"{place} barrier deleted")
            elif op.tag in _WAITS:
                name, make = _WAITS[OpTag(op.tag)]
                entries = list(compiled.phase(phase))
                entries[slot] = replace(entry, op=make(op.wait_value + 1))
                yield Weakened(
                    compiled.with_entries(phase, entries),
                    f"{place} {name}({op.wait_value}) loosened to {op.wait_value + 1}",
                )
                yield Weakened(
                    compiled.without_entry(phase, slot), f"{place} {name}({op.wait_value}) deleted"
                )
