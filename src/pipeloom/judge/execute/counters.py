"""When an op retires: the one thing a wave knows about its own memory traffic.

A wave has two counters. Each counted op adds its entries at issue; entries leave in issue order.
``wait(n)`` holds the wave until at most n entries are outstanding; an n that the field cannot tell
from "no wait" (the limit, and more) holds for nothing. That follows from the order of issue alone,
so for each wave it is fixed in advance which step retires which op, whatever the latencies:

    load, 4 entries       outstanding 4
    load, 4 entries       outstanding 8
    wait_vm(4)            retires the first load
    wait_vm(3)            retires nothing: one entry of the second load has left, three have not

Latency decides only *when* between its issue and its retirement an op touches memory.

More entries than the limit may be outstanding. On a machine of which that is known, or assumed, an
issue past the limit stalls until there is room, and what left to make room is retired as well.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class OutstandingOps(Generic[T]):
    """The ops that one counter of one wave tracks, oldest first; it may stall when full."""

    __slots__ = ("_issued", "_left", "_limit", "_queue", "_stalls")

    def __init__(self, limit: int, stalls: bool = False) -> None:
        self._limit = limit
        self._stalls = stalls
        self._issued = 0
        self._left = 0
        self._queue: deque[tuple[int, T]] = deque()

    def issue(self, op: T, entries: int) -> tuple[list[T], list[T]]:
        """Track ``op``; gives what back-pressure retires before its first entry, and before its
        last.

        An op that is a single instruction issues only after the stall; one of several has its
        first instruction out before a later one stalls. An op larger than the limit can retire
        itself in part, never as a whole.
        """
        before = self._retire_to(self._issued + 1 - self._limit) if self._stalls else []
        self._issued += entries
        self._queue.append((self._issued, op))
        return before, self._retire_to(self._issued - self._limit) if self._stalls else []

    def wait(self, count: int) -> list[T]:
        """What ``wait(count)`` retires. A count from the limit on holds for nothing."""
        return self._retire_to(self._issued - count) if count < self._limit else []

    def left(self) -> list[T]:
        """What no step has retired so far, oldest first."""
        return [op for _, op in self._queue]

    def _retire_to(self, entry: int) -> list[T]:
        retired: list[T] = []
        self._left = max(self._left, entry)
        while self._queue and self._queue[0][0] <= self._left:
            retired.append(self._queue.popleft()[1])
        return retired
