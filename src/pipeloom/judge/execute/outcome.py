"""What an execution shows: the result, and each thing that went wrong on the way.

An ``Execution`` is *correct* if every wave reached its end and every accumulator summed each K
tile exactly once, from defined data. Otherwise it says what a person would look for:

    deadlock          where each wave stands
    poisoned reads    fragment loads that found a slice of LDS in flight, or never loaded
    symptoms          MMAs that took poison, different tiles of A and B, or a tile twice;
                      accumulators that lack a tile
    c, poisoned       with arrays: C with ``POISON_VALUE`` in each undefined element, and which

A poisoned read that no MMA takes (a dead fragment) harms nothing: it is listed, not counted as
wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POISON = -1
"""The tile number that stands for undefined data."""
POISON_VALUE = -(2**63)
"""What an undefined element of C shows."""

Value = int | tuple[int, ...]
"""The K tile that some data belongs to; a tuple where the waves' slices disagree."""


class Access(NamedTuple):
    """A step of a wave: the index is that of ``kernel.walk``."""

    wave: int
    step: int

    def __str__(self) -> str:
        return f"wave {self.wave} step {self.step}"


class Status(Enum):
    """How a run ended."""

    FINISHED = "every wave reached its end"
    DEADLOCK = "waves wait at a barrier that others never reach"


class SymptomKind(Enum):
    """What is wrong with a multiplication, or with a sum."""

    POISON = "took undefined data"
    MIXED = "took different K tiles"
    REPEATED = "took a K tile a second time"
    MISSING = "lacks K tiles"


@dataclass(frozen=True, slots=True)
class PoisonedRead:
    """A fragment load that found undefined LDS; ``causes`` are the loads in flight around it.

    No cause means that nothing was ever loaded there. ``consumed`` tells whether some MMA took it.
    """

    at: Access
    region: str
    causes: tuple[Access, ...]
    consumed: bool = False

    def __str__(self) -> str:
        why = "nothing was loaded there"
        if self.causes:
            why = f"the load of {', '.join(map(str, self.causes))} was in flight"
        dead = "" if self.consumed else " (no MMA takes it)"
        return f"{self.at} read {self.region}: {why}{dead}"


@dataclass(frozen=True, slots=True)
class Symptom:
    """One wrong multiplication, or (``MISSING``) one incomplete sum.

    ``tiles`` is what each operand register held, or the tiles that are missing; ``sources`` are
    the steps that filled those registers.
    """

    kind: SymptomKind
    at: Access
    accumulator: str
    tiles: tuple[Value, ...]
    sources: tuple[Access, ...] = ()

    def __str__(self) -> str:
        tiles = ", ".join(_tile(value) for value in self.tiles)
        if self.kind is SymptomKind.MISSING:
            return f"wave {self.at.wave} {self.accumulator} {self.kind.value}: {tiles}"
        origin = f", filled at step {', '.join(str(s.step) for s in self.sources)}"
        return (
            f"{self.at} mma {self.accumulator} {self.kind.value}: {tiles}"
            f"{origin if self.sources else ''}"
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a wave stood at a deadlock: at its n-th barrier (from 1), or at its end."""

    wave: int
    step: int | None
    barriers_passed: int

    def __str__(self) -> str:
        if self.step is None:
            return f"wave {self.wave} has ended after {self.barriers_passed} barriers"
        return f"wave {self.wave} waits at step {self.step}, its barrier {self.barriers_passed + 1}"


class FlightState(Enum):
    """How far the first access of a pair was when the second issued."""

    NOT_ISSUED = "not issued"
    IN_FLIGHT = "in flight"
    RETIRED = "retired"
    UNREACHED = "the second access is never reached"


@dataclass(frozen=True, slots=True)
class PairReport:
    """What ``provoke`` achieved for two accesses.

    ``state`` is that of ``first`` when ``second`` issued, with ``first``'s wave as far behind as
    barriers allow: ``RETIRED`` means that the pair is ordered and cannot be provoked. ``witnessed``
    means that some wrong result names the pair itself.
    """

    first: Access
    second: Access
    state: FlightState
    witnessed: bool

    @property
    def unordered(self) -> bool:
        """Whether ``second`` issued before ``first`` had retired."""
        return self.state in (FlightState.NOT_ISSUED, FlightState.IN_FLIGHT)


class TraceEvent(NamedTuple):
    """One event in the order in which the whole workgroup executed them."""

    at: Access
    what: str


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """The outcome of one run; see the module's text."""

    status: Status
    symptoms: tuple[Symptom, ...]
    poisoned_reads: tuple[PoisonedRead, ...]
    standing: tuple[Standing, ...]
    trace: tuple[TraceEvent, ...] = ()
    c: NDArray[np.int64] | None = None
    poisoned: NDArray[np.bool_] | None = None
    pair: PairReport | None = None
    unreached: str = ""

    @property
    def correct(self) -> bool:
        """Whether every sum is complete and every value it took was defined."""
        return self.status is Status.FINISHED and not self.symptoms

    @property
    def has_poison(self) -> bool:
        """Whether some MMA took undefined data."""
        return any(symptom.kind is SymptomKind.POISON for symptom in self.symptoms)

    def describe(self, limit: int = 5) -> str:
        """The outcome in words, at most ``limit`` lines of each sort."""
        if self.correct:
            return "correct: every accumulator summed each K tile once, from defined data"
        lines: list[str] = []
        if self.status is Status.DEADLOCK:
            lines += ["deadlock:", *(f"  {standing}" for standing in self.standing)]
        reads = [read for read in self.poisoned_reads if read.consumed]
        for title, items in (("poisoned reads", reads), ("wrong sums", self.symptoms)):
            if items:
                lines += [f"{title}: {len(items)}", *(f"  {item}" for item in items[:limit])]
        return "\n".join(lines)


def _tile(value: Value) -> str:
    if isinstance(value, tuple):
        return "slices of " + "/".join(_tile(v) for v in value)
    return "poison" if value == POISON else f"tile {value}"
