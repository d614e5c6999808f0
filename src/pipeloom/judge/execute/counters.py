"""When an access retires: the one thing a wave knows about its own memory traffic.

Each counted step adds its entries to a counter at issue; entries leave in issue order. ``wait(n)``
holds the wave until at most n entries are outstanding. That follows from the order of issue alone,
so for each wave it is fixed in advance which step retires which, whatever the latencies:

    load, 4 entries       outstanding 4
    load, 4 entries       outstanding 8
    wait(4)               retires the first load
    wait(3)               retires nothing: one entry of the second load has left, three have not

Latency decides only *when* between its issue and its retirement a step touches memory.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Outstanding(Generic[T]):
    """What one counter of one wave tracks, oldest first.

    A wait of ``limit`` or more is none. With ``stalls``, an issue past the limit waits for room.
    """

    __slots__ = ("_issued", "_limit", "_queue", "_stalls")

    def __init__(self, limit: int, *, stalls: bool = False) -> None:
        self._limit = limit
        self._stalls = stalls
        self._issued = 0
        self._queue: deque[tuple[int, T]] = deque()

    def issue(self, step: T, entries: int) -> tuple[list[T], list[T]]:
        """Track ``step``; gives what a full counter retires before its first entry, and its last.

        A step of one instruction issues only after the stall; one of several has its first out
        before a later one stalls. One larger than the limit retires itself in part, never as a
        whole. One of no entries, which may not issue at all, makes nothing wait.
        """
        stalls = self._stalls and entries > 0
        before = self._retire_to(self._issued + 1 - self._limit) if stalls else []
        self._issued += entries
        self._queue.append((self._issued, step))
        after = self._retire_to(self._issued - self._limit) if stalls else []
        return before, after

    def wait(self, count: int) -> list[T]:
        """What ``wait(count)`` retires."""
        return [] if count >= self._limit else self._retire_to(self._issued - count)

    def left(self) -> list[T]:
        """What nothing has retired so far, oldest first."""
        return [step for _, step in self._queue]

    def _retire_to(self, entry: int) -> list[T]:
        retired: list[T] = []
        while self._queue and self._queue[0][0] <= entry:
            retired.append(self._queue.popleft()[1])
        return retired
