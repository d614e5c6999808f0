"""How much a search may spend: nodes, which are reproducible, and seconds, which are not."""

from __future__ import annotations

import time
from dataclasses import dataclass

_CLOCK_EVERY = 64


class LimitReached(Exception):  # noqa: N818 - control flow, never seen by a user
    """The node or time limit ran out."""


class GaveUp(Exception):  # noqa: N818 - control flow, never seen by a user
    """One question cost more than it was given; others may still be asked."""


@dataclass(slots=True)
class NodeBudget:
    """Nodes explored so far, and when to stop."""

    node_limit: int | None = None
    deadline: float | None = None
    nodes: int = 0

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
