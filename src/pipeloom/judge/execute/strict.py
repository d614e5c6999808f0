"""Schedules that synchronise everything: slow, and right whenever their order can be right at all.

``fully_synchronized`` keeps the data ops of a schedule in order and throws its waits and barriers
away. Before every data op it drains both counters and passes two barriers, so that each op has
retired in every wave before the next one issues in any (two, because a staggered group is one
barrier behind):

    load A        ->  wait_vm(0), wait_lgkm(0), barrier, barrier, load A
    fragment A        wait_vm(0), wait_lgkm(0), barrier, barrier, fragment A

It is a yardstick: what is wrong even so is wrong in its order, and no synchronisation can save
it. ``thinned`` drops waits and barriers as long as a check passes; with ``classify`` as the check
it gives schedules in which each wait and barrier matters.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.ops import OpDesc, OpTag, Phase

SYNC_TAGS = frozenset({int(OpTag.BARRIER), int(OpTag.WAIT_VM), int(OpTag.WAIT_LGKM)})
_BEFORE_EACH = (OpDesc.wait_vm(0), OpDesc.wait_lgkm(0), OpDesc.barrier(), OpDesc.barrier())


def fully_synchronized(compiled: CompiledSchedule) -> CompiledSchedule:
    """The same data ops in the same order, each alone between barriers."""
    strict = compiled
    staggered = compiled.warp_stagger_index <= len(compiled.prologue)
    stagger = compiled.warp_stagger_index
    for phase in Phase:
        entries: list[ScheduleEntry] = []
        for slot, entry in enumerate(compiled.phase(phase)):
            if phase is Phase.PROLOGUE and slot == compiled.warp_stagger_index:
                stagger = len(entries)
            if entry.op.tag not in SYNC_TAGS:
                if not entry.op.is_framework:
                    entries += [ScheduleEntry(op, 0, phase) for op in _BEFORE_EACH]
                entries.append(entry)
        if phase is Phase.PROLOGUE:
            if compiled.warp_stagger_index == len(compiled.prologue):
                stagger = len(entries)
            stagger = stagger if staggered else len(entries) + 1
        strict = strict.with_entries(phase, entries, stagger)
    return strict


def thinned(
    compiled: CompiledSchedule, is_right: Callable[[CompiledSchedule], bool]
) -> CompiledSchedule:
    """``compiled`` without the waits and barriers that ``is_right`` can do without.

    Goes over the entries once, last to first, and drops each for which the rest is still right.
    """
    for phase in reversed(Phase):
        for slot in reversed(range(len(compiled.phase(phase)))):
            if compiled.phase(phase)[slot].op.tag in SYNC_TAGS:
                candidate = compiled.without_entry(phase, slot)
                if is_right(candidate):
                    compiled = candidate
    return compiled
