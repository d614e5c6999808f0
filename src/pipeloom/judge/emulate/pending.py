"""Memory operations in flight, and when each one takes effect.

An operation is *issued*, it *lands* (its data moves), and it is *retired* (an s_waitcnt tells the
wave so). Hardware may land it anywhere between the other two; a kernel may rely on retirement
only. The emulator therefore lands at a seeded random moment but treats the destination as
unreadable until retirement, so a missing wait shows whatever the seed.

Operations of one counter land and retire in issue order, as on gfx9; scalar loads may return in
any order, so only lgkmcnt(0) retires them.

What an s_waitcnt waits for, by the queue that its counters hold up.

    WaitCounts.of(0x0F70).left()        # vmcnt(0): ((WaitQueue.VM, 0),)

Whoever plays, judges or rewrites machine code asks here what a wait leaves in flight. A counter
more is a ``WaitQueue``, its limit, and where its bits stand.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache
from types import MappingProxyType

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.observe import LaneAccess
from pipeloom.machine.cdna import LGKMCNT_LIMIT, VMCNT_LIMIT


class WaitQueue(Enum):
    """Operations that one counter counts, and which retire in order, or all at once."""

    VM = "vmcnt"
    LGKM = "lgkmcnt"
    SMEM = "lgkmcnt(0)"

    @cached_property
    def in_order(self) -> bool:
        """Whether the oldest retires first: a count then says which."""
        return self.counter is self

    @cached_property
    def counter(self) -> WaitQueue:
        """The queue in order whose counter it holds up: its own, or that of another."""
        return WaitQueue.LGKM if self is WaitQueue.SMEM else self


COUNTER_LIMIT = {WaitQueue.VM: VMCNT_LIMIT, WaitQueue.LGKM: LGKMCNT_LIMIT}
"""The count that waits for nothing, and past which issue may stall (``counter_stall``)."""
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
        return cls({**NO_COUNTS, queue.counter: count})

    @property
    def waits(self) -> bool:
        """Whether it waits for anything."""
        return any(count < COUNTER_LIMIT[queue] for queue, count in self.counts.items())

    def left_of(self, queue: WaitQueue) -> int:
        """How many operations of a queue it leaves in flight; ``ALL`` that it does not wait for.

        Scalar loads return in any order, so only lgkmcnt(0) retires them.
        """
        count, limit = self.counts[queue.counter], COUNTER_LIMIT[queue.counter]
        return count if count < (limit if queue.in_order else 1) else ALL

    def left(self) -> tuple[tuple[WaitQueue, int], ...]:
        """The same for each queue that it waits for."""
        counts = ((queue, self.left_of(queue)) for queue in WaitQueue)
        return tuple((queue, count) for queue, count in counts if count < ALL)

    def tighten(self, other: WaitCounts) -> WaitCounts:
        """What waits for both."""
        return WaitCounts({q: min(count, other.counts[q]) for q, count in self.counts.items()})

    def text(self) -> str:
        """As in assembly."""
        left = (one for one in self.left() if one[0].in_order)
        return "s_waitcnt " + " ".join(f"{queue.value}({count})" for queue, count in left)


class Timing(Enum):
    """When operations land between their issue and the wait that retires them."""

    RANDOM = "random"
    LATE = "late"
    EARLY = "early"


@dataclass(frozen=True, slots=True)
class Directed:
    """A timing that sets out to break one order, as far as waits and barriers let it.

    Operations of the instructions at ``held`` (pcs) land when they must, or as soon as some wave
    has executed the instruction at ``release``; all others land at issue. A wave of ``eager`` runs
    whenever it can, one of ``slow`` only when no other can.
    """

    held: frozenset[int]
    eager: tuple[int, ...] = ()
    slow: tuple[int, ...] = ()
    release: int | None = None

    def rank(self, wave: int) -> int:
        """Waves of a lower rank go first."""
        return -1 if wave in self.eager else 1 if wave in self.slow else 0


@dataclass(slots=True, eq=False)
class Pending:
    """One operation in flight. ``registers`` and ``lanes`` are what it will write.

    ``touches`` are the bytes that it reads or writes, for an observer.
    """

    instruction: Decoded
    counter: WaitQueue
    land: Callable[[], None]
    registers: int = 0
    lanes: int = 0
    access: int = -1
    touches: tuple[LaneAccess, ...] = ()
    landed: bool = False
    due: int = 0


@dataclass(slots=True)
class Delays:
    """Draws landing delays, in instructions issued by the whole workgroup.

    A run has one temperament (mostly prompt, mostly slow, or mixed), so that over several seeds
    both extremes occur along with everything between.
    """

    rng: random.Random
    timing: Timing | Directed
    scale: int = 0

    def __post_init__(self) -> None:
        self.scale = self.rng.choice((8, 64, 512, 4096))

    def draw(self, pc: int) -> int | None:
        """Instructions until the operation of ``pc`` lands; None for "not before it must"."""
        if isinstance(self.timing, Directed):
            return None if pc in self.timing.held else 0
        if self.timing is Timing.EARLY:
            return 0
        if self.timing is Timing.LATE or self.rng.random() < 0.15:
            return None
        return int(self.rng.random() * self.scale)
