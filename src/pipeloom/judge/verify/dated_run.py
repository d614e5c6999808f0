"""One run of a program with fixed trip counts: every step of every group, dated.

Which wait retires which access depends on the program alone, not on data or speed. So each step of
a wave has two exact dates,

    issue    where the wave issues it
    retire   the wait (or the stalled issue) of the same wave after which it is surely done

each as a position in the wave's own walk and as an *epoch*, the number of barriers that the wave
has executed before. In between, what it does to memory may happen at any time. For X in wave v, Y
in wave w:

    X happens before Y  iff  retire position of X <= issue position of Y        (v == w)
                             retire epoch of X   <  issue epoch of Y            (v != w)

The second line is the barrier rule: X retired before v's n-th barrier and Y was issued after w's.

    position    0        2            4        6             8
    program     load X   wait_vm(0)   barrier  fragment Y    barrier
    epoch       0        0            0        1             1

X has retire epoch 0, Y issue epoch 1: X in wave 0 happens before Y in wave 1. Exchange positions 2
and 4, and the retire epoch of X is 1: nothing orders the two.

A step under a condition may be skipped, so its entries count for no wait: fewer entries behind an
access only make it retire later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeloom.program import Barrier, Group, Program, Section, Step, Wait, Work

NEVER = 1 << 60
"""The retire date of a step that nothing in the program waits for."""


@dataclass(slots=True, eq=False)
class Moment:
    """A step as the waves of one group execute it. Positions are twice the step's number.

    ``iteration`` is the iteration of the meaning that it serves. A retirement forced half-way
    through the issue of a later step of several entries has an odd position.
    """

    group: int
    index: int
    section: int
    slot: int
    trip: int | None
    step: Step
    iteration: int | None
    issue: int
    issue_epoch: int
    retire: int
    retire_epoch: int
    base: int = 0
    """What iterations in its section and trip are relative to."""

    @property
    def never_retires(self) -> bool:
        """Whether the program ends with it possibly still in flight."""
        return self.retire == NEVER


def happens_before(first: Moment, second: Moment, same_wave: bool) -> bool:
    """Whether ``first`` is surely done when ``second`` is issued."""
    if same_wave:
        return first.retire <= second.issue
    return first.retire_epoch < second.issue_epoch


@dataclass(slots=True)
class GroupWalk:
    """What one group executes; ``barriers`` are indices into ``moments``."""

    group: Group
    moments: list[Moment] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)

    def section(self, moment: Moment) -> Section:
        """The section that a moment stands in."""
        return self.group.sections[moment.section]


class CounterQueue:
    """The steps in flight on one counter, oldest first.

    After a wait for ``c`` at most the youngest ``c`` entries are outstanding: a step has retired
    when at least ``c`` entries are surely younger than all of its own.
    """

    __slots__ = ("_limit", "_queue", "_stalls", "total")

    def __init__(self, limit: int, stalls: bool) -> None:
        self._limit = limit
        self._stalls = stalls
        self._queue: deque[tuple[Moment, int]] = deque()
        self.total = 0

    def wait(self, count: int, position: int, epoch: int) -> None:
        """``Wait``; a count that the instruction cannot hold, or that says nothing, is none."""
        if count < self._limit:
            self._drain(count, position, epoch)

    def issue(self, moment: Moment, entries: int) -> None:
        """Add a step; where a full counter stalls, the oldest must be done first."""
        at, epoch = moment.issue, moment.issue_epoch
        if self._stalls and entries:
            self._drain(self._limit - 1, at, epoch)
        self._queue.append((moment, entries))
        self.total += entries
        if self._stalls:
            self._drain(self._limit, at + 1, epoch)

    def _drain(self, allowed: int, position: int, epoch: int) -> None:
        while self._queue:
            moment, entries = self._queue[0]
            if self.total - entries < allowed:
                return
            self._queue.popleft()
            self.total -= entries
            moment.retire, moment.retire_epoch = position, epoch


def walk_group(
    program: Program, number: int, trips: Mapping[str, int], counter_stall: bool | None
) -> GroupWalk:
    """Every step of a group in order, with its dates."""
    group = program.groups[number]
    walk = GroupWalk(group)
    queues = {
        c.name: CounterQueue(
            c.limit.value, c.stalls_when_full if counter_stall is None else counter_stall
        )
        for c in program.target.counters
    }
    epoch = 0
    for place, section in enumerate(group.sections):
        for trip, base in section.passes(trips):
            for slot, step in enumerate(section.steps):
                index = len(walk.moments)
                iteration = None
                if isinstance(step, Work) and step.iteration is not None:
                    iteration = base + step.iteration
                moment = Moment(
                    number,
                    index,
                    place,
                    slot,
                    trip,
                    step,
                    iteration,
                    2 * index,
                    epoch,
                    2 * index,
                    epoch,
                    base,
                )
                walk.moments.append(moment)
                if isinstance(step, Work):
                    if step.counter is not None:
                        moment.retire = moment.retire_epoch = NEVER
                        queues[step.counter].issue(moment, step.sure_entries)
                elif isinstance(step, Wait):
                    queues[step.counter].wait(step.count, 2 * index, epoch)
                elif isinstance(step, Barrier):
                    walk.barriers.append(index)
                    epoch += 1
    return walk
