"""The memory model: when an access is issued, when it has retired, and what that orders.

Synchronisation in these schedules is static: which wait retires which access depends on the
program alone, not on data or speed. So every access of a wave gets two exact dates,

    issue    where the wave issues it
    retire   the wait (or the stalled issue) in the same wave after which it is surely done

each as a position in the wave's own program and as an *epoch*, the number of barriers the wave has
executed before. In between, the access may happen at any time. Then, for X in wave v, Y in wave w:

    X happens before Y  iff  retire position of X <= issue position of Y        (v == w)
                             retire epoch of X   <  issue epoch of Y            (v != w)

The second line is the barrier rule: X retired before v's n-th barrier and Y issued after w's n-th
barrier, for some n. Worked example, two waves running the same program:

    position    0        1            2        3             4
    program     load X   wait_vm(0)   barrier  fragment Y    barrier
    epoch       0        0            0        1             1

X: issue epoch 0, retire epoch 0. Y: issue epoch 1. So X in wave 0 happens before Y in wave 1.
Exchange positions 1 and 2 and the retire epoch of X becomes 1: nothing orders the two.

Counters retire in issue order and hold at most 63 (vmcnt) or 15 (lgkmcnt) entries: an issue that
would exceed the limit stalls until the oldest entries are done, which is a retirement like any
other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeloom.reference.kernels.interface import Counter, Effect, Step
from pipeloom.reference.ops import OpTag

NEVER = 1 << 60
"""The retire date of an access that nothing in the program waits for."""

WAITS = {int(OpTag.WAIT_VM): Counter.VM, int(OpTag.WAIT_LGKM): Counter.LGKM}


@dataclass(slots=True, eq=False)
class Access:
    """One op at one step of a wave group. Positions are twice the step index.

    A retirement forced half-way through the issue of a later multi-entry op has an odd position.
    """

    step: Step
    entries: int
    counter: Counter | None
    issue: int
    issue_epoch: int
    retire: int = NEVER
    retire_epoch: int = NEVER

    @property
    def never_retires(self) -> bool:
        """Whether the program ends with the access possibly still in flight."""
        return self.retire == NEVER


def happens_before(first: Access, second: Access, same_wave: bool) -> bool:
    """Whether ``first`` is surely done when ``second`` is issued."""
    if same_wave:
        return first.retire <= second.issue
    return first.retire_epoch < second.issue_epoch


@dataclass(slots=True)
class Timeline:
    """What one wave group executes, with the dates of every data op.

    ``barriers`` holds the positions of the barriers, ``outstanding[i]`` the entries (vm, lgkm) in
    flight before step i.
    """

    steps: tuple[Step, ...]
    accesses: list[Access] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    outstanding: list[tuple[int, int]] = field(default_factory=list)


class CounterQueue:
    """The entries in flight on one counter, oldest first."""

    __slots__ = ("_limit", "_queue", "total")

    def __init__(self, counter: Counter) -> None:
        self._limit = counter.limit
        self._queue: deque[list[Access | int]] = deque()
        self.total = 0

    def drain(self, allowed: int, position: int, epoch: int) -> None:
        """Retire the oldest entries until at most ``allowed`` are outstanding."""
        excess = self.total - allowed
        while excess > 0:
            head = self._queue[0]
            access, left = head
            assert isinstance(access, Access)
            assert isinstance(left, int)
            if left > excess:
                head[1] = left - excess
                self.total -= excess
                return
            self._queue.popleft()
            self.total -= left
            excess -= left
            access.retire, access.retire_epoch = position, epoch

    def issue(self, access: Access) -> None:
        """Add an access entry by entry; past the limit the oldest must be done first."""
        at, epoch = access.issue, access.issue_epoch
        self.drain(self._limit - 1, at, epoch)
        self._queue.append([access, access.entries])
        self.total += access.entries
        self.drain(self._limit, at + 1, epoch)


def build_timeline(steps: tuple[Step, ...], effects: Sequence[Effect]) -> Timeline:
    """Date every access of a walk; ``effects`` has one entry per data op (not per step)."""
    timeline = Timeline(steps)
    queues = {counter: CounterQueue(counter) for counter in Counter}
    vm, lgkm = queues[Counter.VM], queues[Counter.LGKM]
    remaining = iter(effects)
    epoch = 0
    for index, step in enumerate(steps):
        position = 2 * index
        tag = step.op.tag
        timeline.outstanding.append((vm.total, lgkm.total))
        if not step.op.is_framework:
            effect = next(remaining)
            access = Access(step, effect.entries, effect.counter, position, epoch)
            if effect.counter is None:
                access.retire, access.retire_epoch = position, epoch
            else:
                queues[effect.counter].issue(access)
            timeline.accesses.append(access)
        elif tag == OpTag.BARRIER:
            timeline.barriers.append(position)
            epoch += 1
        elif tag in WAITS:
            queues[WAITS[tag]].drain(step.op.wait_value, position, epoch)
    return timeline
