"""Waits and barriers that can go, all of them together, without a new unordered pair.

Barriers are tried first, then waits, each from the first of the program to the last: a barrier goes
altogether, a wait is loosened as far as it may. What is found is maximal: no further barrier can go
and no further wait be loosened by one. Only what the run executed is looked at.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeloom.judge.check.prepared import Prepared
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.check.story import Lines
from pipeloom.judge.check.verdict import Needless
from pipeloom.judge.emulate.disassembly import instruction_text
from pipeloom.judge.emulate.pending import COUNTER_LIMIT, WaitCounts, WaitQueue


def loosen(study: Prepared) -> SyncPlan:
    """The loosest synchronisation of this program's own waits and barriers that is as good."""
    base = study.unordered()
    met = [group.order.barriers_met(study.sync) for group in study.groups]

    def holds(sync: SyncPlan) -> bool:
        for group, before, meets in zip(study.groups, base, met, strict=True):
            if meets and not group.order.barriers_met(sync):
                return False
            if (group.order.unordered(sync) & ~before).any():
                return False
        return True

    found = study.sync
    for at in sorted(study.sync.barriers & study.executed):
        changed = found.without_barrier(at)
        if holds(changed):
            found = changed
    for at in sorted(study.sync.waits.keys() & study.executed):
        for queue, limit in COUNTER_LIMIT.items():
            found = _loosened(found, at, queue, limit, holds)
    return found


def _loosened(
    sync: SyncPlan, at: int, queue: WaitQueue, limit: int, holds: Callable[[SyncPlan], bool]
) -> SyncPlan:
    """The wait at a position with one of its counts as large as may be."""
    counts = sync.waits[at]

    def changed(count: int) -> SyncPlan:
        return sync.with_wait(at, WaitCounts({**counts.counts, queue: count}))

    best = _loosest(counts.counts[queue], limit, lambda count: holds(changed(count)))
    return changed(best)


def _loosest(count: int, limit: int, holds: Callable[[int], bool]) -> int:
    """The largest count that holds; larger ones wait for less."""
    if count >= limit or holds(limit):
        return limit
    if not holds(count + 1):
        return count
    low, high = count + 1, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def needless(study: Prepared, loose: SyncPlan, lines: Lines) -> tuple[Needless, ...]:
    """What ``loosen`` changed, in order of the program."""
    found = []
    for at in sorted({*study.sync.barriers, *study.sync.waits}):
        one = study.program[at].instruction
        if at in study.sync.barriers:
            if at not in loose.barriers:
                found.append(Needless(one.pc, "s_barrier", "", lines.get(one.pc, "")))
            continue
        counts = loose.waits[at]
        if counts != study.sync.waits[at]:
            after = counts.text() if counts.waits else ""
            found.append(Needless(one.pc, instruction_text(one), after, lines.get(one.pc, "")))
    return tuple(found)
