"""The workgroup: waves that run as far as barriers let them, in whatever order one asks for.

A wave never waits for anything but barriers: its own memory accesses happen when its timeline says.
So the state is small: how far each wave is, and how many barriers have been released. Barrier n
releases when every wave has arrived at its n-th, and until then no wave gets past it:

    machine.run(4, 100)      wave 4 runs to event 100, or to its barrier if that comes first
    machine.finish(order)    segment by segment, the waves in that order, to the end
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pipeloom.judge.execute.access_times import Timeline, What
from pipeloom.judge.execute.outcome import Standing, TraceEvent
from pipeloom.judge.execute.unrolled import WaveWalk
from pipeloom.judge.execute.workgroup_memory import GroupMemory

MAX_BURST = 6
"""How many events a wave runs at most before a random order switches to another."""
WORDS = {What.ISSUE: "issues", What.READ: "reads", What.WRITE: "writes"}


class Interpreter:
    """Runs the timelines of all waves on a memory."""

    def __init__(
        self,
        walks: Sequence[WaveWalk],
        timelines: Sequence[Timeline],
        memory: GroupMemory,
        *,
        trace: bool = False,
    ) -> None:
        self._walks = walks
        self._timelines = timelines
        self._memory = memory
        self._trace: list[TraceEvent] | None = [] if trace else None
        self._released = 0
        self._barriers = min(len(timeline.ends) for timeline in timelines) - 1
        self.position = [0] * len(timelines)

    @property
    def trace(self) -> tuple[TraceEvent, ...]:
        """What happened so far, if asked for."""
        return tuple(self._trace or ())

    def limit(self, wave: int) -> int:
        """How far ``wave`` can run before another barrier is released."""
        ends = self._timelines[wave].ends
        return ends[min(self._released, len(ends) - 1)]

    def run(self, wave: int, until: int) -> None:
        """Run ``wave`` to event ``until``, or as far as it gets."""
        stop = min(until, self.limit(wave))
        if stop > self.position[wave]:
            self._do(wave, stop)

    def _do(self, wave: int, stop: int) -> None:
        start = self.position[wave]
        self.position[wave] = stop
        memory = self._memory
        events = self._timelines[wave].events[start:stop]
        if self._trace is not None:
            self._trace += [TraceEvent(line.place, WORDS[what]) for what, line in events]
        for what, line in events:
            if what is What.ISSUE:
                memory.issue(line)
            elif what is What.WRITE:
                memory.write(line)
            else:
                memory.read(line)

    def release(self) -> bool:
        """Release the next barrier if every wave stands at it."""
        number = self._released
        if number >= self._barriers:
            return False
        for wave, timeline in enumerate(self._timelines):
            if self.position[wave] < timeline.ends[number]:
                return False
        self._released += 1
        if self._trace is not None:
            self._trace += [
                TraceEvent(walk.lines[walk.barriers[number]].place, "leaves the barrier")
                for walk in self._walks
            ]
        return True

    def advance(self, wave: int, until: int) -> bool:
        """Bring ``wave`` to event ``until``; the others run only as far as its barriers need."""
        self.run(wave, until)
        while self.position[wave] < until:
            for other in range(len(self.position)):
                self.run(other, self.limit(other))
            if not self.release():
                return False
            self.run(wave, until)
        return True

    def finish(self, order: Sequence[int]) -> bool:
        """Run to the end: in each segment the waves in ``order``. False if they hang."""
        while True:
            for wave in order:
                self.run(wave, self.limit(wave))
            if not self.release():
                return self._ended()

    def finish_at_random(self, rng: Random) -> bool:
        """Run to the end, switching between waves at random points. False if they hang."""
        waves = range(len(self.position))
        while True:
            ready = [wave for wave in waves if self.position[wave] < self.limit(wave)]
            while ready:
                wave = ready[int(rng.random() * len(ready))]
                burst = self.limit(wave)
                if rng.random() < 0.75:
                    burst = self.position[wave] + 1 + int(rng.random() * MAX_BURST)
                self.run(wave, burst)
                if self.position[wave] >= self.limit(wave):
                    ready.remove(wave)
            if not self.release():
                return self._ended()

    def standing(self) -> tuple[Standing, ...]:
        """Where each wave stands."""
        found = []
        for wave, walk in enumerate(self._walks):
            passed = min(self._released, len(walk.barriers))
            waits = passed < len(walk.barriers)
            at = walk.lines[walk.barriers[passed]].place if waits else None
            found.append(Standing(wave, at, passed))
        return tuple(found)

    def _ended(self) -> bool:
        return all(self._released >= len(walk.barriers) for walk in self._walks)
