"""Memory operations in flight, and when each one takes effect.

An operation is *issued*, it *lands* (its data moves), and it is *retired* (an s_waitcnt tells the
wave so). Hardware may land it anywhere between the other two; a kernel may rely on retirement
only. The emulator therefore lands at a seeded random moment but treats the destination as
unreadable until retirement, so a missing wait shows whatever the seed.

Operations of one counter land and retire in issue order, as on gfx9; scalar loads may return in
any order, so only lgkmcnt(0) retires them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.observe import LaneAccess
from pipeloom.machine.cdna import LGKMCNT_LIMIT, VMCNT_LIMIT


class WaitQueue(Enum):
    """The counter that an operation holds up."""

    VM = "vmcnt"
    LGKM = "lgkmcnt"
    SMEM = "lgkmcnt(0)"


COUNTER_LIMIT = {WaitQueue.VM: VMCNT_LIMIT, WaitQueue.LGKM: LGKMCNT_LIMIT}
"""The count that waits for nothing, and past which issue may stall (``counter_stall``)."""


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
