"""Would the cost model's latencies hide a hazard? RACE or TIMING, and by how many cycles.

This is a classification, not a proof: it plays one nominal run. Every wave has its own issue port
(one instruction per cycle; an op takes as many as it has counter entries) and its own MMA unit
(busy for the MMA's latency). Loads and fragments complete ``latency`` cycles after they issue, in
order; waits and barriers block as in the memory model. Then each access has a window

    load      may write LDS   from  first issue + latency  to  last issue + latency
    fragment  may read LDS    from  first issue            to  last issue + latency

and the margin of a hazard is from the end of the window that should come first to the start of
the other. Positive: TIMING, the latencies keep them apart. Otherwise RACE.

Bootstrap entries (the fills and first fragments of a prologue) carry latency 0: they were never
annotated by the cost model. They take as long as the body's ops of the same tag. Where the body has
no such op, or disagrees with itself, there is no nominal run, and nothing is excused: RACE.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from pipeloom.judge.verify.schedules.model import WAITS, Access, Timeline
from pipeloom.judge.verify.schedules.run import Run
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels.interface import Counter
from pipeloom.reference.ops import OpRole, OpTag


@dataclass(frozen=True, slots=True)
class Window:
    """Cycles: first issue, first completion, last completion."""

    issue: int
    first_done: int
    last_done: int


def latencies_by_tag(compiled: CompiledSchedule) -> dict[int, int]:
    """The latency of each tag, where all ops of the body that state one agree on it."""
    stated: dict[int, set[int]] = {}
    for op in compiled.body:
        if op.latency > 0:
            stated.setdefault(op.tag, set()).add(op.latency)
    return {tag: min(found) for tag, found in stated.items() if len(found) == 1}


STEADY_AFTER = 4
"""Times that an op must fill its counter before the laps around it are all alike."""


class NominalTiming:
    """The nominal run of all wave groups, computed once per trip count.

    ``by_tag`` gives the latency of ops that state none. If one is still unknown, ``is_known`` is
    False and the windows mean nothing.
    """

    def __init__(self, run: Run, by_tag: Mapping[int, int]) -> None:
        self._windows: dict[int, Window] = {}
        accesses = [access for timeline in run.timelines for access in timeline.accesses]
        self.is_known = all(
            access.counter is None or _latency(access, by_tag) > 0 for access in accesses
        )
        groups = [_GroupClock(timeline, self._windows, by_tag) for timeline in run.timelines]
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


def _latency(access: Access, by_tag: Mapping[int, int]) -> int:
    op = access.step.op
    return op.latency or by_tag.get(op.tag, 0)


class _GroupClock:
    """Plays one wave of a group from barrier to barrier."""

    def __init__(
        self, timeline: Timeline, windows: dict[int, Window], by_tag: Mapping[int, int]
    ) -> None:
        self.now = 0
        self._steps = iter(timeline.steps)
        self._accesses = iter(timeline.accesses)
        self._windows = windows
        self._by_tag = by_tag
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
        latency = _latency(access, self._by_tag)
        if access.counter is None:
            if access.step.op.role is OpRole.COMPUTE:
                self.now = max(self.now, self._mma_free)
                self._mma_free = self.now + latency
            self._windows[id(access)] = Window(self.now, self.now, self.now)
            self.now += 1
            return
        counter = access.counter
        first, first_done = self._enter(counter, latency)
        rest = access.entries - 1
        laps = (rest - STEADY_AFTER * counter.limit) // counter.limit
        if laps > 0:
            for _ in range(rest - laps * counter.limit):
                self._enter(counter, latency)
            self._skip(counter, laps * max(latency, counter.limit))
        else:
            for _ in range(rest):
                self._enter(counter, latency)
        self._windows[id(access)] = Window(first, first_done, self._last_done[counter])

    def _enter(self, counter: Counter, latency: int) -> tuple[int, int]:
        """Issue one entry, when there is room for it; the cycles of issue and completion."""
        self._drain(counter, counter.limit - 1)
        issue = self.now
        done = max(issue + latency, self._last_done[counter])
        self._last_done[counter] = done
        self._done[counter].append(done)
        self.now += 1
        return issue, done

    def _skip(self, counter: Counter, cycles: int) -> None:
        """Let ``cycles`` pass in which as many entries complete as are issued.

        Once the counter is full of entries of one op, entry i issues at
        ``t(i) = max(t(i-1) + 1, t(i-limit) + latency)``, and within ``limit`` entries that becomes
        ``t(i) = t(i-limit) + max(latency, limit)``: each lap around the counter takes as long.
        """
        self.now += cycles
        self._last_done[counter] += cycles
        self._done[counter] = deque(done + cycles for done in self._done[counter])
