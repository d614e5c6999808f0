"""Would nominal latencies hide a hazard? RACE or TIMING, and by how many cycles.

The nominal run is that of ``happens_before.nominal_clock``. Every wave has its own issue port (one
instruction per cycle; a step takes as many as it has counter entries) and its own matrix unit (busy
for the step's latency). No wait counts on the entries of a step under a condition, though the run
takes it. Whether a full counter stalls an issue is not known, and either way can be the tighter
one: where the proof does not take it to stall, the margin is the smaller of that with the stall and
that without.

A step's latency is its own, or the target's for global memory or LDS; a matrix step's, that of its
instructions.
"""

from __future__ import annotations

from collections import deque

from pipeloom.judge.happens_before.nominal_clock import NominalClock, Window, margin, play
from pipeloom.judge.verify.dated_run import GroupWalk, Moment
from pipeloom.judge.verify.run_tables import RunTables
from pipeloom.program import Barrier, Program, Wait, Work

STEADY_AFTER = 4
"""Times that a step must fill its counter before the laps around it are all alike."""


class NominalTiming:
    """The nominal run of all wave groups, computed once per trip count."""

    def __init__(self, run: RunTables, stalls: bool) -> None:
        self._windows: dict[int, Window] = {}
        program = run.program
        latencies = {
            id(step): program.latency(step)
            for group in program.groups
            for _, _, step in group.steps()
            if isinstance(step, Work)
        }
        play([GroupClock(program, walk, self._windows, latencies, stalls) for walk in run.walks])

    def margin(self, first: Moment, second: Moment, *, second_writes: bool) -> int:
        """Cycles from the end of the first to the read or the landing of the second."""
        windows = self._windows
        return margin(windows[id(first)], windows[id(second)], second_writes=second_writes)


class GroupClock(NominalClock[str]):
    """Plays one wave of a group from barrier to barrier."""

    def __init__(
        self,
        program: Program,
        walk: GroupWalk,
        windows: dict[int, Window],
        latencies: dict[int, int],
        stalls: bool,
    ) -> None:
        self._limits = {c.name: c.limit.value for c in program.target.counters}
        super().__init__(self._limits)
        self._stalls = stalls
        self._moments = iter(walk.moments)
        self._windows = windows
        self._latencies = latencies
        self._matrix_free = 0

    def advance(self) -> None:
        """Run to the next barrier, or the end."""
        for moment in self._moments:
            step = moment.step
            if isinstance(step, Work):
                self._issue(moment, step)
                continue
            self.now += 1
            if isinstance(step, Wait):
                if step.count < self._limits[step.counter]:
                    self.wait(step.counter, step.count)
            elif isinstance(step, Barrier):
                return
        self.ended = True

    def _issue(self, moment: Moment, step: Work) -> None:
        latency = self._latencies[id(step)]
        if step.counter is None:
            if not step.is_copy:
                self.now = max(self.now, self._matrix_free)
                self._matrix_free = self.now + latency
            self._windows[id(moment)] = Window(self.now, self.now, self.now)
            self.now += 1
            return
        counter, limit = step.counter, self._limits[step.counter]
        if not step.sure_entries:
            self._windows[id(moment)] = self._pass(counter, latency, step.entries)
            return
        first, first_done = self._entry(counter, latency)
        rest = step.entries - 1
        laps = (rest - STEADY_AFTER * limit) // limit
        if laps > 0 and not self._stalls:  # no wait asks for any but the youngest
            self.now += laps * limit
            rest -= laps * limit
            laps = 0
        if laps > 0:
            for _ in range(rest - laps * limit):
                self._entry(counter, latency)
            self._skip(counter, laps * max(latency, limit))
        else:
            for _ in range(rest):
                self._entry(counter, latency)
        self._windows[id(moment)] = Window(first, first_done, self.last_done[counter])

    def _entry(self, counter: str, latency: int) -> tuple[int, int]:
        """Issue one entry, when there is room for it; the cycles of issue and completion."""
        if self._stalls:
            self.wait(counter, self._limits[counter] - 1)
        elif self.sure[counter] >= self._limits[counter]:
            self.retire(counter)
        issue, done = self.now, self.enter(counter, latency)
        self.now += 1
        return issue, done

    def _pass(self, counter: str, latency: int, entries: int) -> Window:
        """Issue the entries of a step that other waves may jump over: none is counted on.

        As they complete in order, the last stands for all.
        """
        issue = self.now
        first_done = max(issue + latency, self.last_done[counter])
        self.now += entries - 1
        done = self.enter(counter, latency, sure=0)
        self.now += 1
        return Window(issue, first_done, done)

    def _skip(self, counter: str, cycles: int) -> None:
        """Let ``cycles`` pass in which as many entries complete as are issued.

        Once the counter is full of entries of one step, entry i issues at
        ``t(i) = max(t(i-1) + 1, t(i-limit) + latency)``, and within ``limit`` entries that becomes
        ``t(i) = t(i-limit) + max(latency, limit)``: each lap around the counter takes as long.
        """
        self.now += cycles
        self.last_done[counter] += cycles
        self.pending[counter] = deque((done + cycles, sure) for done, sure in self.pending[counter])
