"""Loops of a recorded run, and whether its verdict holds for other trip counts.

A trip of a loop *repeats* trip i - p when it executes the same instructions, but for arithmetic
that a branch may jump over (``drift.py``), and touches the same bytes of LDS. Let trips from s
on repeat with period p, let every operation of a trip retire within r trips, and let there be p + r
+ 1 of them or more. Then the pairs of n + p trips are those of n trips, some of them shifted: two
accesses further apart than r + 1 trips are ordered by any barrier of a trip, pairs with what comes
before the loop reach as far as that, and so do pairs with what comes behind it, which by the
repetition finds LDS as it did. So the verdict of n trips is that of n + p, n + 2p, ..., and of
every such number down to s + p + r + 1. Kernels by hand leave unrolled loops in their midst: a last
trip unlike the others counts as what comes behind the loop, so the verdict is for trip counts that
end in such a trip (``unlike``).

That argument needs that waves run the loop equally often with equally many barriers, that it
touches no buffer which the kernel writes (other trips touch other bytes), that neither a branch nor
an LDS address depends on data but for sizes that were loaded before the loop, and that trips which
did not run, and what comes behind them, are like those that did (``drift.py``). Where it does not
apply, the verdict is for the launch. Nothing else of the launch is varied: what comes before the
loop is as it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeloom.array_kinds import Places
from pipeloom.judge.check.drift import Watched, drifts, plain_skips
from pipeloom.judge.check.record import LDS, CellAccess, GroupRecord
from pipeloom.judge.check.register_flow import PathFlow
from pipeloom.judge.check.retirement import NEVER, Retirement, SyncPlan
from pipeloom.judge.check.static import statics
from pipeloom.judge.emulate import Effect
from pipeloom.judge.emulate.step import MicroOp

MOST_PERIOD = 8
"""Longer periods (more LDS buffers in turn) are not looked for."""


@dataclass(frozen=True, slots=True)
class LoopClaim:
    """For which trip counts of one loop a verdict holds, beside those that ran.

    ``head`` is the position of its first instruction; the verdict holds for ``least``,
    ``least + period``, ... trips. ``reason`` says why only the launch was judged, where it was.
    """

    head: int
    trips: tuple[int, ...]
    least: int = 0
    period: int = 0
    reason: str = ""
    unlike: bool = False


@dataclass(frozen=True, slots=True)
class LoopRun:
    """One time that a wave goes through a loop: when each trip starts, and the end of the last."""

    head: int
    starts: tuple[int, ...]
    end: int

    def trip(self, number: int) -> slice:
        stop = self.starts[number + 1] if number + 1 < len(self.starts) else self.end
        return slice(self.starts[number], stop)


def claims(
    program: Sequence[MicroOp],
    group: GroupRecord,
    timelines: Sequence[Retirement],
    flows: Sequence[PathFlow],
    sync: SyncPlan,
    written: Mapping[int, str],
) -> tuple[LoopClaim, ...]:
    """One claim per loop that some wave runs more than once.

    ``written`` names the buffers that some workgroup writes.
    """
    runs = [loop_runs(line.path) for line in timelines]
    heads = sorted({run.head for one in runs for run in one})
    if not heads:
        return ()
    why = _against(flows)
    touched = _touched(group)
    retired = [line.retired(sync) for line in timelines]
    barriers = [line.barrier_times(sync) for line in timelines]
    # Waves may have loops of their own (producers and consumers), as long as they keep in step.
    in_step = not _uneven(runs, barriers)
    optional = _optional(program)
    found = []
    for head in heads:
        mine = [[run for run in one if run.head == head] for one in runs]
        trips = tuple(sorted({len(run.starts) for one in mine for run in one}))
        reason = (
            why or _shares(group, mine, written) or ("" if in_step else _uneven(mine, barriers))
        )
        least, period, unlike = 0, 0, False
        if not reason:
            steady = [
                _standing(run, timelines[wave].path, optional, touched[wave], retired[wave])
                for wave, one in enumerate(mine)
                for run in one
            ]
            known = [s for s in steady if s is not None]
            if len(known) < len(steady):
                reason = "the trips that ran do not repeat often enough"
            else:
                period = int(np.lcm.reduce([p for _, p, _ in known]))
                reason = _drifts(program, group, flows, mine, period, written, retired)
            if reason:
                period = 0
            else:
                least = max(low for low, _, _ in known)
                unlike = any(last for _, _, last in known)
        found.append(LoopClaim(head, trips, least, period, reason, unlike))
    return tuple(found)


def _drifts(
    program: Sequence[MicroOp],
    group: GroupRecord,
    flows: Sequence[PathFlow],
    runs: Sequence[Sequence[LoopRun]],
    period: int,
    written: Mapping[int, str],
    retired: Sequence[Places],
) -> str:
    each = statics(program)
    shared = _touching(group, written)
    for wave, one in enumerate(runs):
        if not one:
            continue
        run = max(one, key=lambda run: run.end)
        apart = frozenset(time for times in flows[wave].apart for time in times)
        behind = min(run.end for run in one)
        watched = Watched(apart, shared[wave], behind, retired[wave], flows[wave].dead)
        trace = group.waves[wave]
        reason = drifts(program, each, trace, run.starts, run.end, period, watched)
        if reason:
            return reason
    return ""


def _touching(group: GroupRecord, written: Mapping[int, str]) -> list[frozenset[int]]:
    """Per wave, the times at which it touches a buffer that is written."""
    times: list[set[int]] = [set() for _ in group.waves]
    for access in group.accesses:
        if access.buffer in written:
            times[access.wave].add(access.time)
    return [frozenset(one) for one in times]


def _against(flows: Sequence[PathFlow]) -> str:
    for wave, flow in enumerate(flows):
        for _, what in flow.beyond_sizes:
            return f"{what} of wave {wave} depends on loaded data"
    return ""


def loop_runs(path: Places) -> list[LoopRun]:
    """Every time that the path goes through a loop, innermost ones included, in order of time."""
    back = np.flatnonzero(path[1:] <= path[:-1])
    tails: dict[int, int] = {}
    for time in back.tolist():
        head = int(path[time + 1])
        tails[head] = max(tails.get(head, 0), int(path[time]))
    found = []
    for head, tail in tails.items():
        starts = np.flatnonzero(path == head)
        outside = np.flatnonzero((path < head) | (path > tail))
        ends = np.append(outside, len(path))[np.searchsorted(outside, starts)]
        for end in np.unique(ends).tolist():
            members = starts[ends == end]
            if members.size > 1:
                found.append(LoopRun(head, tuple(members.tolist()), end))
    return sorted(found, key=lambda run: run.starts[0])


def _touched(group: GroupRecord) -> list[dict[int, list[CellAccess]]]:
    """Per wave, the LDS accesses of every time."""
    table: list[defaultdict[int, list[CellAccess]]] = [defaultdict(list) for _ in group.waves]
    for access in group.accesses:
        if access.buffer == LDS:
            table[access.wave][access.time].append(access)
    return [dict(one) for one in table]


def _shares(
    group: GroupRecord, runs: Sequence[Sequence[LoopRun]], written: Mapping[int, str]
) -> str:
    spans = [[(run.starts[0], run.end) for run in one] for one in runs]
    for access in group.accesses:
        if access.buffer not in written:
            continue
        if any(start <= access.time < end for start, end in spans[access.wave]):
            if access.effect is not Effect.READ:
                return "the loop writes global memory"
            return f"the loop reads {written[access.buffer]}, which the kernel writes"
    return ""


def _uneven(runs: Sequence[Sequence[LoopRun]], barriers: Sequence[Places]) -> str:
    """Waves must go through loops alike: equally often, with as many barriers in each trip."""
    shapes = set()
    for wave, one in enumerate(runs):
        shape = []
        for run in one:
            counts = [
                int(np.searchsorted(barriers[wave], 2 * cut.stop))
                - int(np.searchsorted(barriers[wave], 2 * cut.start))
                for cut in (run.trip(number) for number in range(len(run.starts)))
            ]
            shape.append((len(run.starts), tuple(counts)))
        shapes.add(tuple(shape))
    return "" if len(shapes) == 1 else "waves do not run their loops in step"


def _optional(program: Sequence[MicroOp]) -> Places:
    """Positions that some branch jumps over without a difference to what is in flight."""
    skips = plain_skips(program, statics(program))
    inside = {one for at, skip in skips.items() for one in range(at + 1, skip.join)}
    return np.array(sorted(inside), np.int64)


def _standing(
    run: LoopRun,
    path: Places,
    optional: Places,
    touched: dict[int, list[CellAccess]],
    retired: Places,
) -> tuple[int, int, bool] | None:
    """(least trip count, period, whether the last trip is unlike the others), or None."""
    found = _steady(run, path, optional, touched, retired)
    if found is not None:
        return *found, False
    whole = LoopRun(run.head, run.starts[:-1], run.starts[-1])
    found = _steady(whole, path, optional, touched, retired)
    return None if found is None else (found[0] + 1, found[1], True)


def _steady(
    run: LoopRun,
    path: Places,
    optional: Places,
    touched: dict[int, list[CellAccess]],
    retired: Places,
) -> tuple[int, int] | None:
    """(least trip count, period) for which the trips of a run stand, or None."""
    names: dict[tuple[bytes, tuple[tuple[int, str, int], ...]], int] = {}
    marks = []
    for number in range(len(run.starts)):
        cut = run.trip(number)
        kept = path[cut][~np.isin(path[cut], optional)]
        bytes_ = tuple(
            (int(path[time]), one.effect.value, one.key)
            for time in range(cut.start, cut.stop)
            for one in touched.get(time, ())
        )
        marks.append(names.setdefault((kept.tobytes(), bytes_), len(names)))
    count = len(marks)
    for period in range(1, min(MOST_PERIOD, count - 1) + 1):
        first = count
        while first > period and marks[first - 1] == marks[first - 1 - period]:
            first -= 1
        first -= period
        lag = _lag(run, first, retired)
        least = first + period + lag + 1
        if count - first > period and count >= least:
            return least, period
    return None


def _lag(run: LoopRun, first: int, retired: Places) -> int:
    """In how many trips after its own an operation of a steady trip retires, at most."""
    lag = 0
    edges = 2 * np.array([*run.starts, run.end], np.int64)
    for number in range(first, len(run.starts)):
        cut = run.trip(number)
        ends = retired[cut]
        ends = ends[ends != NEVER]
        if ends.size:
            # What retires behind the loop would have retired within as many trips more.
            at = int(np.searchsorted(edges, ends.max(), side="right")) - 1
            lag = max(lag, min(at, len(run.starts) - 1) - number)
    return lag
