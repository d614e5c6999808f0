"""The workgroup: waves that run as far as barriers let them, in whatever order one asks for.

A wave never waits for anything but barriers: its own memory ops land when its timeline says. So
the state is small: how far each wave is, and how many barriers have been released. Barrier n
releases when every wave has arrived at its n-th, and until then no wave gets past it:

    machine.run(4, 100)      wave 4 runs to event 100, or to its barrier if that comes first
    machine.finish(order)    segment by segment, the waves in that order, to the end
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

from pipeloom.judge.execute.outcome import Access, Standing, Status, TraceEvent
from pipeloom.judge.execute.program import Op, Program
from pipeloom.judge.execute.timing import Timeline

MAX_BURST = 6
"""How many events a wave runs at most before a random order switches to another."""


class Memory(Protocol):
    """What the events act on."""

    def issue(self, op: Op) -> None:
        """The op issues."""

    def land(self, op: Op) -> None:
        """The op touches memory."""


class Target:
    """Runs the timelines of all waves on a memory."""

    def __init__(
        self,
        program: Program,
        timelines: Sequence[Timeline],
        memory: Memory,
        *,
        trace: bool = False,
    ) -> None:
        self._program = program
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
        issue, land = self._memory.issue, self._memory.land
        events = self._timelines[wave].events[start:stop]
        if self._trace is not None:
            self._trace += [
                TraceEvent(Access(wave, op.step), "lands" if lands else "issues")
                for lands, op in events
            ]
        for lands, op in events:
            if lands:
                land(op)
            else:
                issue(op)

    def release(self) -> bool:
        """Release the next barrier if every wave stands at it."""
        number, position = self._released, self.position
        if number >= self._barriers:
            return False
        for wave, timeline in enumerate(self._timelines):
            if position[wave] < timeline.ends[number]:
                return False
        self._released += 1
        if self._trace is not None:
            for wave, program in enumerate(self._program.waves):
                at = Access(wave, program.barrier_steps[number])
                self._trace.append(TraceEvent(at, "leaves the barrier"))
        return True

    def advance(self, wave: int, until: int, holds: dict[int, int] | None = None) -> bool:
        """Bring ``wave`` to event ``until``; the others run only as far as its barriers need.

        ``holds`` maps waves to events that they may not reach. Returns whether it got there.
        """
        held = holds or {}
        if until > held.get(wave, until):
            return False
        self.run(wave, until)
        while self.position[wave] < until:
            for other in range(len(self.position)):
                arrival = self.limit(other)
                if arrival > held.get(other, arrival):
                    return False
                self.run(other, arrival)
            if not self.release():
                return False
            self.run(wave, until)
        return True

    def finish(self, order: Sequence[int]) -> Status:
        """Run to the end: in each segment the waves in ``order``."""
        position, ends = self.position, [timeline.ends for timeline in self._timelines]
        while True:
            number = self._released
            for wave in order:
                stop = ends[wave][min(number, len(ends[wave]) - 1)]
                if position[wave] < stop:
                    self._do(wave, stop)
            if not self.release():
                return self._status()

    def finish_at_random(self, rng: Random) -> Status:
        """Run to the end, switching between waves at random points."""
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
                return self._status()

    def standing(self) -> tuple[Standing, ...]:
        """Where each wave stands."""
        return tuple(self._stand(wave) for wave in range(len(self.position)))

    def _stand(self, wave: int) -> Standing:
        barriers = self._program.waves[wave].barrier_steps
        passed = min(self._released, len(barriers))
        step = barriers[passed] if passed < len(barriers) else None
        return Standing(wave, step, passed)

    def _status(self) -> Status:
        ended = all(
            self._released >= len(timeline.ends) - 1 and position == timeline.ends[-1]
            for timeline, position in zip(self._timelines, self.position, strict=True)
        )
        return Status.FINISHED if ended else Status.DEADLOCK
