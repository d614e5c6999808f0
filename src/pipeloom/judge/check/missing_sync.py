"""Waits and barriers that are missing: the record judged with some added, until all is ordered.

A load that is used too early gets a wait before its use. A pair of two waves gets a wait before the
barrier that already lies between them or, where there is none, a barrier before the second access;
the barrier must be one that all waves execute equally often. What was put in early may be covered
by what came later, and a barrier of the kernel's own by one that was put in: both go again
(``pruned``), so that nothing is added that is not needed.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pipeloom.judge.check.prepared import GroupStudy, Prepared
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.emulate.pending import COUNTER_LIMIT, WaitCounts, WaitQueue

MOST_ROUNDS = 200


def repair(study: Prepared) -> SyncPlan | None:
    """A synchronisation under which every pair is ordered; None where none was found."""
    sync = study.sync
    for _ in range(MOST_ROUNDS):
        broken = False
        for group, late in zip(study.groups, study.unordered(sync), strict=True):
            if not late.any():
                continue
            broken = True
            rows = group.pairs.take(late).oriented().rows()
            row = rows[np.lexsort((rows[:, 1], rows[:, 3]))[0]].tolist()
            better = _order(study, group, sync, row)
            if better is None or better == sync:
                return None
            sync = better
            break
        if not broken:
            return sync
    return None


def pruned(before: Prepared, sync: SyncPlan, after: Prepared, nops: Collection[int]) -> SyncPlan:
    """The repair without what its other parts, or the kernel's own waits, make needless.

    ``after`` is the repaired kernel as it ran, with ``nops`` put in before these positions too:
    only there it is known which accesses follow each other. What goes is added waits and barriers,
    and barriers of the kernel's own that were needed before.
    """
    base = before.unordered()
    plan = after.sync

    def holds(less: SyncPlan) -> bool:
        return all(
            one.order.barriers_met(less) and not one.order.unordered(less).any()
            for one in after.groups
        )

    def needed(at: int) -> bool:
        now = before.unordered(before.sync.without_barrier(at))
        return any((late & ~was).any() for late, was in zip(now, base, strict=True))

    place = 0
    for at in range(len(before.program)):
        counts, barrier = sync.added.get(at, (WaitCounts(), False))
        wait, place = place, place + bool(counts.waits)
        if barrier:
            if holds(less := plan.without_barrier(place)):
                plan, sync = less, sync.without_added(at, barrier=True)
            place += 1
        if counts.waits and holds(less := plan.with_wait(wait, WaitCounts())):
            plan, sync = less, sync.without_added(at, barrier=False)
        place += at in nops
        own = at in before.sync.barriers and at in before.executed
        if own and holds(less := plan.without_barrier(place)) and needed(at):
            plan, sync = less, sync.without_barrier(at)
        place += 1
    return sync


def _order(study: Prepared, group: GroupStudy, sync: SyncPlan, row: list[int]) -> SyncPlan | None:
    """One step towards ordering a pair."""
    v, first, w, second = row[:4]
    lines = group.order.timelines
    if v == w:
        at = int(lines[w].path[second])
        return sync.adding(at, _counts(group, v, first, 2 * second - 1), barrier=False)
    own, other = lines[v].barrier_times(sync), lines[w].barrier_times(sync)
    needed = int(np.searchsorted(other, 2 * second))
    if int(np.searchsorted(own, 2 * first)) < needed:
        # A barrier lies between; the first has to be over before it.
        when = int(own[needed - 1])
        at = int(lines[v].path[(when + 1) // 2])
        return sync.adding(at, _counts(group, v, first, when), barrier=False)
    since = int(other[needed - 1]) // 2 + 1 if needed else 0
    for time in range(second, since - 1, -1):
        at = int(lines[w].path[time])
        changed = sync.adding(at, WaitCounts(), barrier=True)
        if all(one.order.barriers_met(changed) for one in study.groups):
            return changed
    return None


def _counts(group: GroupStudy, wave: int, first: int, when: int) -> WaitCounts:
    """The wait that has retired the operation of ``first`` at (doubled) time ``when``."""
    trace, line = group.record.waves[wave], group.order.timelines[wave]
    counts = WaitCounts()
    for queue in WaitQueue:
        if first not in trace.queues[queue]:
            continue
        younger = 0
        if queue.in_order:
            issued = line.queues[queue]
            before = int(np.searchsorted(issued, first))
            younger = int(np.searchsorted(2 * issued, when)) - before - 1
            younger = min(max(younger, 0), COUNTER_LIMIT[queue] - 1)
        counts = counts.tighten(WaitCounts.for_(queue, younger))
    return counts
