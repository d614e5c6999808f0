"""When operations retire and which barrier each step comes after, for given waits and barriers.

A ``SyncPlan`` holds the program's waits and barriers, or what they would be: a change is tried by
judging the same record under another ``SyncPlan``. Rules (docs/memory-model.md, docs/emulator.md):
a wait for n retires all but the youngest n of its counter; scalar loads return in any order, so
only lgkmcnt(0) retires them; a count with all bits set waits for nothing; a barrier retires
nothing. X comes before Y in its own wave when it has retired at Y's issue, and in another wave when
it has retired before the n-th barrier of its wave and Y is issued after the n-th of its own.

Times are doubled, so that something inserted before a step has a time of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pipeloom.array_kinds import Flags, Places
from pipeloom.judge.check.pairs import Pairs
from pipeloom.judge.check.record import WaveTrace
from pipeloom.judge.emulate.pending import ALL, WaitCounts, WaitQueue
from pipeloom.judge.emulate.step import MicroOp

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Waits and barriers by position in the program.

    ``added`` stands before the step of its position: a wait, then a barrier if there is one.
    """

    waits: Mapping[int, WaitCounts]
    barriers: frozenset[int]
    added: Mapping[int, tuple[WaitCounts, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Sequence[MicroOp]) -> SyncPlan:
        """What the program itself has."""
        waits, barriers = {}, set()
        for at, step in enumerate(program):
            name = step.instruction.name
            if name == "s_waitcnt":
                waits[at] = WaitCounts.of(step.instruction.fields["simm16"])
            elif name == "s_barrier":
                barriers.add(at)
        return cls(waits, frozenset(barriers))

    def table(self, queue: WaitQueue) -> Places:
        """How many operations of a queue the wait of each position leaves; all of it elsewhere."""
        found = np.full(max(self.waits, default=-1) + 1, ALL, np.int64)
        for at, counts in self.waits.items():
            found[at] = counts.left_of(queue)
        return found

    def with_wait(self, at: int, counts: WaitCounts) -> SyncPlan:
        """Another wait at the position of an existing one."""
        return replace(self, waits={**self.waits, at: counts})

    def without_barrier(self, at: int) -> SyncPlan:
        """One barrier less."""
        return replace(self, barriers=self.barriers - {at})

    def without_added(self, at: int, *, barrier: bool) -> SyncPlan:
        """The added barrier at a position taken out again, or the added wait."""
        counts, had = self.added[at]
        kept = (counts, False) if barrier else (WaitCounts(), had)
        added = {place: one for place, one in self.added.items() if place != at}
        return replace(self, added={**added, at: kept} if kept[0].waits or kept[1] else added)

    def adding(self, at: int, counts: WaitCounts, barrier: bool) -> SyncPlan:
        """A wait, and a barrier if asked for, before the step at ``at``."""
        old, had = self.added.get(at, (WaitCounts(), False))
        return replace(self, added={**self.added, at: (old.tighten(counts), had or barrier)})


class Retirement:
    """One wave's path, indexed so that any ``SyncPlan`` can be laid over it quickly."""

    def __init__(self, trace: WaveTrace) -> None:
        self.path = trace.path()
        self.queues = {c: np.array(times, np.int64) for c, times in trace.queues.items()}
        self._times: dict[int, Places] = {}
        self._own_waits: Places | None = None

    def times_of(self, position: int) -> Places:
        """When the wave executes the step at a position."""
        found = self._times.get(position)
        if found is None:
            found = self._times[position] = np.flatnonzero(self.path == position)
        return found

    def barrier_times(self, sync: SyncPlan) -> Places:
        """Doubled times of the wave's barriers."""
        parts = [2 * self.times_of(at) for at in sync.barriers]
        parts += [2 * self.times_of(at) - 1 for at, (_, bar) in sync.added.items() if bar]
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def retired(self, sync: SyncPlan) -> Places:
        """Per time, the doubled time at which its operation has retired; NEVER at the end.

        A step that puts nothing in flight has retired at once.
        """
        result = 2 * np.arange(len(self.path), dtype=np.int64)
        for queue, issued in self.queues.items():
            if not issued.size:
                continue
            times, counts = self._waits(sync, queue)
            real = counts < ALL
            when, left = times[real], counts[real]
            if not queue.in_order:
                when = np.append(when, NEVER)
                np.maximum.at(result, issued, when[np.searchsorted(when[:-1], 2 * issued)])
                continue
            done = np.maximum.accumulate(np.searchsorted(2 * issued, when) - left)
            at = np.searchsorted(done, np.arange(issued.size), side="right")
            np.maximum.at(result, issued, np.append(when, NEVER)[at])
        return result

    def _waits(self, sync: SyncPlan, queue: WaitQueue) -> tuple[Places, Places]:
        """Doubled times of the wave's waits in order, and how much of a queue each leaves."""
        if self._own_waits is None:
            self._own_waits = np.flatnonzero(np.isin(self.path, list(sync.waits)))
        times = self._own_waits
        rows = [(2 * times, sync.table(queue)[self.path[times]])]
        for at, (counts, _) in sync.added.items():
            when = 2 * self.times_of(at) - 1
            rows.append((when, np.full(when.size, counts.left_of(queue))))
        if len(rows) == 1:
            return rows[0]
        when, left = (np.concatenate(column) for column in zip(*rows, strict=True))
        order = np.argsort(when, kind="stable")
        return when[order], left[order]


class Order:
    """The pairs of one workgroup, to be judged under any synchronisation."""

    def __init__(self, timelines: Sequence[Retirement], pairs: Pairs) -> None:
        self.timelines = timelines
        self.pairs = pairs
        waves = range(len(timelines))
        self._firsts = [np.flatnonzero(pairs.first_wave == wave) for wave in waves]
        self._seconds = [np.flatnonzero(pairs.second_wave == wave) for wave in waves]
        self._same = pairs.first_wave == pairs.second_wave

    def unordered(self, sync: SyncPlan) -> Flags:
        """Which pairs nothing orders.

        Two waves may come in either order. Under the waits and barriers of the run only the one
        that was recorded is possible; added ones may enforce the other.
        """
        pairs = self.pairs
        distinct = {id(line): line for line in self.timelines}
        over = {key: line.retired(sync) for key, line in distinct.items()}
        past = {key: line.barrier_times(sync) for key, line in distinct.items()}
        retired = [over[id(line)] for line in self.timelines]
        barriers = [past[id(line)] for line in self.timelines]
        done, first = self._over(self._firsts, pairs.first_time, retired, barriers)
        second = self._epochs(self._seconds, pairs.second_time, barriers)
        late = np.where(self._same, done >= 2 * pairs.second_time, first >= second)
        if sync.added and (late & ~self._same).any():
            _, last = self._over(self._seconds, pairs.second_time, retired, barriers)
            late &= self._same | (last >= self._epochs(self._firsts, pairs.first_time, barriers))
        return np.asarray(late, np.bool_)

    def _over(
        self,
        members: list[Places],
        times: Places,
        retired: list[Places],
        barriers: list[Places],
    ) -> tuple[Places, Places]:
        """When the operations at these times have retired, and after how many barriers."""
        done, epoch = np.zeros(len(times), np.int64), np.zeros(len(times), np.int64)
        for wave, mine in enumerate(members):
            ends = retired[wave][times[mine]]
            done[mine] = ends
            epoch[mine] = np.where(ends == NEVER, NEVER, np.searchsorted(barriers[wave], ends))
        return done, epoch

    def _epochs(self, members: list[Places], times: Places, barriers: list[Places]) -> Places:
        """After how many barriers of its wave each of these times comes."""
        epoch = np.zeros(len(times), np.int64)
        for wave, mine in enumerate(members):
            epoch[mine] = np.searchsorted(barriers[wave], 2 * times[mine])
        return epoch

    def barriers_met(self, sync: SyncPlan) -> bool:
        """Whether all waves execute equally many barriers."""
        return len({line.barrier_times(sync).size for line in self.timelines}) <= 1
