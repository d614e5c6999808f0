"""One nominal run of all waves: do the latencies keep an unordered pair apart, and by how much?

A classification, not a proof (docs/verdicts.md). Every wave issues in order; what goes into a
counter's queue completes after its latency, in the order of the queue; waits and barriers block.
Then each access has a window

    write   may write   from  first issue + latency  to  last issue + latency
    read    may read    from  first issue            to  last issue + latency

and the margin of a pair is from the end of the window that should come first to the start of the
other. Positive: TIMING, the latencies keep them apart. Otherwise RACE.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

Queue = TypeVar("Queue", bound=Hashable)
"""What a judge calls a counter."""


class Window(NamedTuple):
    """Cycles: first issue, first completion, last completion."""

    issue: int
    first_done: int
    last_done: int


def margin(first: Window, second: Window, *, second_writes: bool) -> int:
    """Cycles from the end of ``first`` to the start of ``second``; 0 or less where they meet.

    A write lands when it is done, a read may look from its issue on.
    """
    return (second.first_done if second_writes else second.issue) - first.last_done


def unordered(simulated: int | None, nominal: int | None) -> str | None:
    """What is said of a pair that nothing orders: its margin, and where that comes from."""
    if simulated is not None:
        return f"unordered, margin {simulated} cycles in simulation"
    return None if nominal is None else f"unordered, margin {nominal} cycles by nominal latencies"


class NominalClock(Generic[Queue]):
    """One wave: the cycle of its next issue, and when what it has in flight completes."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.now = 0
        self.ended = False
        self.pending: dict[Queue, deque[tuple[int, int]]] = {queue: deque() for queue in queues}
        """Oldest first: the cycle of completion, and 1 if a wait counts on the operation."""
        self.sure = dict.fromkeys(self.pending, 0)
        self.last_done = dict.fromkeys(self.pending, 0)

    def wait(self, queue: Queue, count: int) -> None:
        """Block until at most ``count`` operations are left, by those that are counted on."""
        left = self.pending[queue]
        while left and self.sure[queue] - left[0][1] >= count:
            self.now = max(self.now, self.retire(queue))

    def retire(self, queue: Queue) -> int:
        """Take the oldest operation off the queue; when it completes."""
        done, sure = self.pending[queue].popleft()
        self.sure[queue] -= sure
        return done

    def enter(self, queue: Queue, latency: int, *, in_order: bool = True, sure: int = 1) -> int:
        """Put an operation in flight; the cycle of its completion.

        No wait counts on one that is not ``sure``, though the run takes it.
        """
        done = self.now + latency
        if in_order:
            done = max(done, self.last_done[queue])
        self.last_done[queue] = done
        self.pending[queue].append((done, sure))
        self.sure[queue] += sure
        return done

    def advance(self) -> None:
        """Run to the next barrier, or to the end and say so in ``ended``."""
        raise NotImplementedError


def play(waves: Sequence[NominalClock[Queue]]) -> None:
    """Run all to their ends; who arrives at a barrier waits for all others that still run."""
    running = list(waves)
    while running:
        for wave in running:
            wave.advance()
        running = [wave for wave in running if not wave.ended]
        release = max((wave.now for wave in running), default=0)
        for wave in running:
            wave.now = release
