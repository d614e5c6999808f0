"""MODULO: the order of a pipelined loop is found together with its depth, not before it.

The other strategies order one iteration whose buffers are already named. A modulo schedule also
decides how many iterations overlap and how many buffers that takes, so it needs a declaration that
leaves both open (``PipelineSchedule.pipelining``); ``pipelining.derive`` does the work. For a body
with named buffers there is nothing left to derive, and ``order`` says so.
"""

from __future__ import annotations

from pipeloom.errors import OrderError
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.strategies.interface import Ordering, OrderLimits


class ModuloStrategy:
    """Pipelines a tile loop to the smallest II; cannot order a body with fixed buffers."""

    name = "modulo"
    summary = "smallest initiation interval, proved; derives depth and buffers (gemm_tile)"

    def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
        """Always an error: see the module's words."""
        raise OrderError(
            f"strategy 'modulo' derives the depth of a loop, but this body of {len(body)} ops "
            "has its buffers fixed",
            hint="use gemm_tile, or a schedule of your own that implements pipelining(); "
            "identity, greedy and csp order bodies like this one",
            field="ScheduleConfig.scheduling",
        )
