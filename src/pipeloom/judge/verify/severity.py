"""Would nominal latencies hide a hazard? RACE or TIMING, and by how many cycles.

This is a classification, not a proof: it plays one nominal run. Every wave has its own issue port
(one instruction per cycle; a step takes as many as it has counter entries) and its own matrix unit
(busy for the step's latency). Steps with a counter complete ``latency`` cycles after they issue, in
order; waits and barriers block as in the memory model, so no wait counts on the entries of a step
under a condition, though the run takes it. Then each access has a window

    write   may write   from  first issue + latency  to  last issue + latency
    read    may read    from  first issue            to  last issue + latency

and the margin of a hazard is from the end of the window that should come first to the start of
the other. Positive: TIMING, the latencies keep them apart. Otherwise RACE. Whether a full counter
stalls an issue is not known, and either way can be the tighter one: where the proof does not take
it to stall, the margin is the smaller of that with the stall and that without.

A step's latency is its own, or the target's for global memory or LDS; a matrix step's, that of its
instructions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pipeloom.judge.verify.dated_run import GroupWalk, Moment
from pipeloom.judge.verify.run_tables import RunTables
from pipeloom.program import Barrier, Program, Wait, Work


@dataclass(frozen=True, slots=True)
class Window:
    """Cycles: first issue, first completion, last completion."""

    issue: int
    first_done: int
    last_done: int


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
        groups = [
            _GroupClock(program, walk, self._windows, latencies, stalls) for walk in run.walks
        ]
        for _ in range(min(len(walk.barriers) for walk in run.walks)):
            release = max(group.advance() for group in groups)
            for group in groups:
                group.now = release
        for group in groups:
            group.advance()

    def window(self, moment: Moment) -> Window:
        """When a step happens in the nominal run."""
        return self._windows[id(moment)]

    def read_after_write(self, write: Moment, read: Moment) -> int:
        """Cycles from the write's last arrival to the first read."""
        return self.window(read).issue - self.window(write).last_done

    def write_after_read(self, read: Moment, write: Moment) -> int:
        """Cycles from the end of the read to the write's first arrival."""
        return self.window(write).first_done - self.window(read).last_done

    def write_after_write(self, first: Moment, second: Moment) -> int:
        """Cycles from the last arrival of one to the first of the other."""
        return self.window(second).first_done - self.window(first).last_done


class _GroupClock:
    """Plays one wave of a group from barrier to barrier."""

    def __init__(
        self,
        program: Program,
        walk: GroupWalk,
        windows: dict[int, Window],
        latencies: dict[int, int],
        stalls: bool,
    ) -> None:
        self.now = 0
        self._stalls = stalls
        self._moments = iter(walk.moments)
        self._windows = windows
        self._latencies = latencies
        self._limits = {c.name: c.limit.value for c in program.target.counters}
        self._done: dict[str, deque[tuple[int, int]]] = {name: deque() for name in self._limits}
        """For each counter, oldest first: the cycle of completion, and 1 if a wait counts on it."""
        self._sure = dict.fromkeys(self._limits, 0)
        self._last_done = dict.fromkeys(self._limits, 0)
        self._matrix_free = 0

    def advance(self) -> int:
        """Run to the next barrier (or the end); the cycle of arrival."""
        for moment in self._moments:
            step = moment.step
            if isinstance(step, Work):
                self._issue(moment, step)
                continue
            self.now += 1
            if isinstance(step, Wait):
                if step.count < self._limits[step.counter]:
                    self._drain(step.counter, step.count)
            elif isinstance(step, Barrier):
                break
        return self.now

    def _drain(self, counter: str, allowed: int) -> None:
        while self._done[counter] and self._sure[counter] - self._done[counter][0][1] >= allowed:
            self.now = max(self.now, self._retire(counter))

    def _retire(self, counter: str) -> int:
        """Take the oldest entry off the counter; when it completes."""
        done, sure = self._done[counter].popleft()
        self._sure[counter] -= sure
        return done

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
        first, first_done = self._enter(counter, latency)
        rest = step.entries - 1
        laps = (rest - STEADY_AFTER * limit) // limit
        if laps > 0 and not self._stalls:  # no wait asks for any but the youngest
            self.now += laps * limit
            rest -= laps * limit
            laps = 0
        if laps > 0:
            for _ in range(rest - laps * limit):
                self._enter(counter, latency)
            self._skip(counter, laps * max(latency, limit))
        else:
            for _ in range(rest):
                self._enter(counter, latency)
        self._windows[id(moment)] = Window(first, first_done, self._last_done[counter])

    def _enter(self, counter: str, latency: int) -> tuple[int, int]:
        """Issue one entry, when there is room for it; the cycles of issue and completion."""
        if self._stalls:
            self._drain(counter, self._limits[counter] - 1)
        elif self._sure[counter] >= self._limits[counter]:
            self._retire(counter)
        issue = self.now
        done = max(issue + latency, self._last_done[counter])
        self._last_done[counter] = done
        self._done[counter].append((done, 1))
        self._sure[counter] += 1
        self.now += 1
        return issue, done

    def _pass(self, counter: str, latency: int, entries: int) -> Window:
        """Issue the entries of a step that other waves may jump over: none is counted on.

        As they complete in order, the last stands for all.
        """
        issue = self.now
        first_done = max(issue + latency, self._last_done[counter])
        self.now += entries
        done = max(self.now - 1 + latency, first_done)
        self._last_done[counter] = done
        self._done[counter].append((done, 0))
        return Window(issue, first_done, done)

    def _skip(self, counter: str, cycles: int) -> None:
        """Let ``cycles`` pass in which as many entries complete as are issued.

        Once the counter is full of entries of one step, entry i issues at
        ``t(i) = max(t(i-1) + 1, t(i-limit) + latency)``, and within ``limit`` entries that becomes
        ``t(i) = t(i-limit) + max(latency, limit)``: each lap around the counter takes as long.
        """
        self.now += cycles
        self._last_done[counter] += cycles
        self._done[counter] = deque((done + cycles, sure) for done, sure in self._done[counter])
