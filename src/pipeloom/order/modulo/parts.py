"""What a modulo problem is made of: units, ops, edges, values, channels, budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class MachineUnit:
    """A machine resource that ops hold."""

    name: str
    """What reservations call it."""
    capacity: int | None = 1
    """How many ops may hold it at once; None means any number."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A unit held for some cycles by an op."""

    unit: str
    """The unit by name."""
    occupancy: int = 1
    """For how many cycles."""
    offset: int = 0
    """From how many cycles after the op starts."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of the body."""

    name: str
    """Its name, unique in the problem."""
    latency: int = 0
    """Cycles from its start to its result."""
    uses: tuple[Reservation, ...] = ()
    """The units it holds."""
    load: bool = False
    """Whether the EARLY_LOADS objective moves it up."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependence: ``S[dst] >= S[src] + latency - distance * II``."""

    src: int
    """The op that comes first, by index."""
    dst: int
    """The op that waits, by index."""
    latency: int
    """Cycles that must lie between their starts."""
    distance: int = 0
    """How many iterations later the second one runs."""


@dataclass(frozen=True, slots=True)
class Reader:
    """An op that reads a value or buffer."""

    op: int
    """The op by index."""
    distance: int = 0
    """How many iterations later it reads."""
    hold: int = 0
    """Until how many cycles after its start it reads."""


@dataclass(frozen=True, slots=True)
class Value:
    """Registers that an op defines."""

    name: str
    """Its name, unique in the problem."""
    op: int
    """The op that defines it, by index."""
    registers: int
    """How many registers it takes."""
    readers: tuple[Reader, ...]
    """Who reads it; it is live until the last lets go."""
    delay: int = 0
    """From how many cycles after the op's start it takes them. 0 is what a load in flight needs:
    its destination is taken at issue."""

    @property
    def fills(self) -> tuple[int, ...]:
        """The op that defines it, as a channel has those that fill it."""
        return (self.op,)


@dataclass(frozen=True, slots=True)
class Channel:
    """A rotating set of LDS buffers."""

    name: str
    """Its name, unique in the problem."""
    bytes: int
    """Bytes of one buffer; 0 rotates without counting against LDS."""
    fills: tuple[int, ...]
    """The ops that fill a buffer, by index."""
    readers: tuple[Reader, ...]
    """Who reads it; a buffer is free when the last lets go."""
    max_buffers: int | None = None
    """The most buffers; None is no limit."""
    delay: ClassVar[int] = 0
    """A buffer is taken when the first op that fills it starts."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on what a schedule may use; None is no limit."""

    registers: int | None = None
    """The most registers live in one cycle."""
    lds_bytes: int | None = None
    """The most bytes of all buffers."""
    stages: int | None = None
    """The most iterations that overlap."""
