"""Ways of ordering one iteration, behind one small interface.

To add a strategy: a file here with a class that fits ``interface.Strategy``, a member of
``SchedulingStrategy`` and a line in ``STRATEGIES``. To use one without registering it, pass it
to ``compile_schedule(schedule, strategy=...)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipeloom.reference.schedule_config import SchedulingStrategy
from pipeloom.reference.strategies.contract import Ordering, OrderLimits, Strategy
from pipeloom.reference.strategies.csp import CspStrategy
from pipeloom.reference.strategies.greedy import GreedyStrategy, IdentityStrategy

STRATEGIES: Mapping[SchedulingStrategy, Strategy] = MappingProxyType(
    {
        SchedulingStrategy.IDENTITY: IdentityStrategy(),
        SchedulingStrategy.GREEDY: GreedyStrategy(),
        SchedulingStrategy.CSP: CspStrategy(),
    }
)


def strategy_for(name: SchedulingStrategy) -> Strategy:
    """The registered strategy of that name."""
    return STRATEGIES[name]


__all__ = ["STRATEGIES", "OrderLimits", "Ordering", "Strategy", "strategy_for"]
