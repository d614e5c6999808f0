"""Waits and barriers that are missing: the record judged with some added, until all is ordered.

A load that is used too early gets a wait before its use. A pair of two waves gets a wait before the
barrier that already lies between them or, where there is none, a barrier before the second access;
the barrier must be one that all waves execute equally often.
"""

from __future__ import annotations

import numpy as np

from pipeloom.judge.check.prepared import GroupStudy, Prepared
from pipeloom.judge.check.retirement import NO_LGKM, NO_VM, SyncPlan, WaitCounts
from pipeloom.judge.emulate.pending import WaitQueue

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
        if queue is WaitQueue.SMEM:
            counts = counts.tighten(WaitCounts(lgkm=0))
            continue
        issued = line.queues[queue]
        younger = int(np.searchsorted(2 * issued, when)) - int(np.searchsorted(issued, first)) - 1
        if queue is WaitQueue.VM:
            counts = counts.tighten(WaitCounts(vm=min(max(younger, 0), NO_VM - 1)))
        else:
            counts = counts.tighten(WaitCounts(lgkm=min(max(younger, 0), NO_LGKM - 1)))
    return counts
