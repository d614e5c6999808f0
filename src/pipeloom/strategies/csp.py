"""CSP: for now the greedy incumbent, proved only where it meets the lower bound.

The exact search replaces this file; until then no order is called optimal that is not.
"""

from __future__ import annotations

from pipeloom.graph import LoopBody
from pipeloom.strategies.greedy import certify, greedy_schedule, simple_greedy
from pipeloom.strategies.interface import Ordering, OrderLimits


def optimal_schedule(body: LoopBody, limits: OrderLimits | None = None) -> Ordering:
    """The best known order without halves."""
    return certify("csp", body, limits or OrderLimits(), simple_greedy(body))


def optimal_schedule_with_halves(body: LoopBody, limits: OrderLimits | None = None) -> Ordering:
    """The best known order, half by half."""
    return certify("csp", body, limits or OrderLimits(halves=True), greedy_schedule(body))


class CspStrategy:
    """CSP: exact search."""

    name = "csp"
    summary = "exact search: the shortest makespan, then the fewest registers, proved"

    def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
        """The best known order under the limits."""
        search = optimal_schedule_with_halves if limits.halves else optimal_schedule
        return search(body, limits)
