"""What a way of ordering must offer: a graph and limits in, an order and its certificate out.

How much a search may spend: nodes, which are reproducible, and seconds, which are not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, TypedDict

from pipeloom.reference.compiled import Certificate
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.schedule_config import UNLIMITED_VGPR

_CLOCK_EVERY = 64


class CostParameters(TypedDict):
    """What ``order_cost`` and ``lower_bound`` ask besides the body."""

    lds_contention_penalty: int
    mma_serial: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLimits:
    """What an order must respect, beyond the d=0 edges, and the cost model's parameters.

    Without ``time_limit`` and ``node_limit`` a strategy applies a node limit of its own, so that
    every call ends and the same input always gives the same answer; a time limit alone trades that
    for wall time.
    """

    halves: bool = False
    """Whether ops below n//2 fill the first n//2 positions, and the order must become blocks (at
    most two fragment loads and two global loads between COMPUTEs, each half ending in one)."""
    max_globals: int = 0
    """The most global loads since the last COMPUTE of the half; 0 for no cap."""
    max_vgpr: int = UNLIMITED_VGPR
    """The most registers per lane live at once."""
    lds_contention_penalty: int = 0
    """Cycles that each LDS or global op holds the port they share; 0 for none."""
    mma_serial: bool = True
    """Whether MMAs run one after the other."""
    time_limit: float | None = None
    """Seconds that a search may take."""
    node_limit: int | None = None
    """Nodes that a search may visit."""

    @property
    def model(self) -> CostParameters:
        """The cost model's parameters."""
        return {
            "lds_contention_penalty": self.lds_contention_penalty,
            "mma_serial": self.mma_serial,
        }


@dataclass(frozen=True, slots=True)
class Ordering:
    """An order of the body, and what is claimed about it."""

    order: tuple[int, ...]
    """The body's op indices in order."""
    certificate: Certificate
    """What is claimed."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search that found it."""


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
        """Order the body, or raise ``OrderError`` where no order meets the limits.

        Args:
            body: The graph of one iteration.
            limits: What the order must respect.
        """
        ...


class LimitReached(Exception):  # noqa: N818 - control flow, never seen by a user
    """The node or time limit ran out."""


class GaveUp(Exception):  # noqa: N818 - control flow, never seen by a user
    """One question cost more than it was given; others may still be asked."""


@dataclass(slots=True)
class NodeBudget:
    """Nodes explored so far, and when to stop."""

    node_limit: int | None = None
    """The most that may be explored; None for any number."""
    deadline: float | None = None
    """When to stop, as ``time.monotonic`` counts; None for never."""
    nodes: int = 0
    """Explored so far."""

    def spend(self) -> None:
        """Count one node; raises ``LimitReached``."""
        if self.node_limit is not None and self.nodes >= self.node_limit:
            raise LimitReached
        self.nodes += 1
        if (
            self.deadline is not None
            and self.nodes % _CLOCK_EVERY == 0
            and time.monotonic() > self.deadline
        ):
            raise LimitReached
