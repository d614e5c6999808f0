"""What a way of ordering must offer: a graph and limits in, an order and its certificate out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pipeloom.reference.compiled import Certificate
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.schedule_config import UNLIMITED_VGPR


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLimits:
    """What an order must respect, beyond the d=0 edges, and the cost model's parameters.

    ``halves``: ops below n//2 fill the first n//2 positions, and the order must become blocks
    (at most two fragment loads and two global loads between COMPUTEs, each half ending in one).
    ``max_globals`` > 0 caps the global loads since the last COMPUTE of the half.

    ``node_limit`` and ``time_limit`` (seconds) bound the effort of a strategy that searches.
    With neither, the strategy applies a node limit of its own, so that every call ends and the
    same input always gives the same answer; a time limit alone trades that for wall time.
    """

    halves: bool = False
    max_globals: int = 0
    max_vgpr: int = UNLIMITED_VGPR
    lds_contention_penalty: int = 0
    mma_serial: bool = True
    time_limit: float | None = None
    node_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Ordering:
    """A permutation of the body's op indices, and what is claimed about it.

    ``interrupted`` says that Ctrl-C ended the search that found it.
    """

    order: tuple[int, ...]
    certificate: Certificate
    interrupted: bool = False


class Strategy(Protocol):
    """A way of ordering one iteration."""

    @property
    def name(self) -> str:
        """As the command line and certificates spell it."""
        ...

    @property
    def summary(self) -> str:
        """One line for ``pipeloom list``."""
        ...

    def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
        """Order the body, or raise ``OrderError`` where no order meets the limits."""
        ...
