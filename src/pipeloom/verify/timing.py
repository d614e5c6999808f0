"""Would the cost model's latencies hide a hazard? RACE or TIMING, and by how many cycles.

This is a classification, not a proof: it plays one nominal run. Every wave has its own issue port
(one instruction per cycle; an op takes as many as it has counter entries) and its own MMA unit
(busy for the MMA's latency). Loads and fragments complete ``latency`` cycles after they issue, in
order; waits and barriers block as in the memory model. Then each access has a window

    load      may write LDS   from  first issue + latency  to  last issue + latency
    fragment  may read LDS    from  first issue            to  last issue + latency

and the margin of a hazard is from the end of the window that should come first to the start of
the other. Positive: TIMING, the latencies keep them apart. Otherwise RACE.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pipeloom.kernels.interface import Counter
from pipeloom.ops import OpRole, OpTag
from pipeloom.verify.model import WAITS, Access, Timeline
from pipeloom.verify.run import Run


@dataclass(frozen=True, slots=True)
class Window:
    """Cycles: first issue, first completion, last completion."""

    issue: int
    first_done: int
    last_done: int


class NominalTiming:
    """The nominal run of all wave groups, computed once per trip count."""

    def __init__(self, run: Run) -> None:
        self._windows: dict[int, Window] = {}
        groups = [_GroupClock(timeline, self._windows) for timeline in run.timelines]
        barriers = min(len(t.barriers) for t in run.timelines)
        for _ in range(barriers):
            release = max(group.advance() for group in groups)
            for group in groups:
                group.now = release
        for group in groups:
            group.advance()

    def window(self, access: Access) -> Window:
        """When ``access`` happens in the nominal run."""
        return self._windows[id(access)]

    def read_after_write(self, write: Access, read: Access) -> int:
        """Cycles from the write's last arrival to the first read."""
        return self.window(read).issue - self.window(write).last_done

    def write_after_read(self, read: Access, write: Access) -> int:
        """Cycles from the end of the read to the write's first arrival."""
        return self.window(write).first_done - self.window(read).last_done

    def write_after_write(self, first: Access, second: Access) -> int:
        """Cycles from the last arrival of one to the first of the other."""
        return self.window(second).first_done - self.window(first).last_done


class _GroupClock:
    """Plays one wave of a group from barrier to barrier."""

    def __init__(self, timeline: Timeline, windows: dict[int, Window]) -> None:
        self.now = 0
        self._steps = iter(timeline.steps)
        self._accesses = iter(timeline.accesses)
        self._windows = windows
        self._done: dict[Counter, deque[int]] = {counter: deque() for counter in Counter}
        self._last_done = dict.fromkeys(Counter, 0)
        self._mma_free = 0

    def advance(self) -> int:
        """Run to the next barrier (or the end); the cycle of arrival."""
        for step in self._steps:
            tag = step.op.tag
            if not step.op.is_framework:
                self._issue(next(self._accesses))
                continue
            self.now += 1
            if tag in WAITS:
                self._drain(WAITS[tag], step.op.wait_value)
            elif tag == OpTag.BARRIER:
                break
        return self.now

    def _drain(self, counter: Counter, allowed: int) -> None:
        queue = self._done[counter]
        while len(queue) > allowed:
            self.now = max(self.now, queue.popleft())

    def _issue(self, access: Access) -> None:
        latency = access.step.op.latency
        if access.counter is None:
            if access.step.op.role is OpRole.COMPUTE:
                self.now = max(self.now, self._mma_free)
                self._mma_free = self.now + latency
            self._windows[id(access)] = Window(self.now, self.now, self.now)
            self.now += 1
            return
        first = first_done = done = -1
        for _ in range(access.entries):
            self._drain(access.counter, access.counter.limit - 1)
            done = max(self.now + latency, self._last_done[access.counter])
            self._last_done[access.counter] = done
            self._done[access.counter].append(done)
            if first < 0:
                first, first_done = self.now, done
            self.now += 1
        self._windows[id(access)] = Window(first, first_done, done)
