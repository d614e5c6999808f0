"""What an s_waitcnt waits for, by the queue that its counters hold up.

    WaitCounts.of(0x0F70).left()        # vmcnt(0): ((WaitQueue.VM, 0),)

Whoever plays, judges or rewrites machine code asks here what a wait leaves in flight. A counter
more is a ``WaitQueue``, its limit, and where its bits stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from pipeloom.judge.emulate.pending import COUNTER_LIMIT, WaitQueue

_BITS: Mapping[WaitQueue, Callable[[int], int]] = {
    WaitQueue.VM: lambda immediate: immediate & 15 | immediate >> 10 & 0x30,
    WaitQueue.LGKM: lambda immediate: immediate >> 8 & 15,
}
"""The counters in the immediate of a gfx9 s_waitcnt, beside expcnt."""
ALL = 1 << 30
NO_COUNTS: Mapping[WaitQueue, int] = MappingProxyType(COUNTER_LIMIT)


@dataclass(frozen=True, slots=True)
class WaitCounts:
    """The counts of one s_waitcnt; the limit waits for nothing."""

    counts: Mapping[WaitQueue, int] = field(default_factory=lambda: NO_COUNTS)

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, immediate: int) -> WaitCounts:
        """Decoded."""
        return cls({queue: bits(immediate) for queue, bits in _BITS.items()})

    @classmethod
    def for_(cls, queue: WaitQueue, count: int = 0) -> WaitCounts:
        """What leaves so many of a queue in flight; of one in any order, none."""
        counter = WaitQueue.LGKM if queue is WaitQueue.SMEM else queue
        return cls({**NO_COUNTS, counter: count})

    @property
    def waits(self) -> bool:
        """Whether it waits for anything."""
        return any(count < COUNTER_LIMIT[queue] for queue, count in self.counts.items())

    def left_of(self, queue: WaitQueue) -> int:
        """How many operations of a queue it leaves in flight; ``ALL`` that it does not wait for.

        Scalar loads return in any order, so only lgkmcnt(0) retires them.
        """
        if queue is WaitQueue.SMEM:
            return ALL if self.counts[WaitQueue.LGKM] else 0
        count = self.counts[queue]
        return count if count < COUNTER_LIMIT[queue] else ALL

    def left(self) -> tuple[tuple[WaitQueue, int], ...]:
        """The same for each queue that it waits for."""
        counts = ((queue, self.left_of(queue)) for queue in WaitQueue)
        return tuple((queue, count) for queue, count in counts if count < ALL)

    def tighten(self, other: WaitCounts) -> WaitCounts:
        """What waits for both."""
        return WaitCounts({q: min(count, other.counts[q]) for q, count in self.counts.items()})

    def text(self) -> str:
        """As in assembly."""
        left = (one for one in self.left() if one[0] is not WaitQueue.SMEM)
        return "s_waitcnt " + " ".join(f"{queue.value}({count})" for queue, count in left)
