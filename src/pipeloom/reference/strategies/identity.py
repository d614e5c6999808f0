"""IDENTITY: the order the body was built in, taken as it is."""

from __future__ import annotations

from pipeloom.reference.graph import LoopBody
from pipeloom.reference.strategies.contract import Ordering, OrderLimits
from pipeloom.reference.strategies.greedy import certify


class IdentityStrategy:
    """Keeps the declared order, even where it breaks the body's own d=0 edges.

    The specification's schedules rely on that; the verdict tells whether the result is safe.
    """

    name = "identity"
    summary = "the order the schedule declared, unchanged"

    def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
        """0, 1, 2, ..."""
        return certify(self.name, body, limits, tuple(range(len(body))))
