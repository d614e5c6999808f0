"""The within-iteration cost model, and a bound below every order.

A deliberately simple machine: an op starts when its d=0 predecessors have finished and its
serial unit is free, and finishes ``latency`` cycles later. The MMA unit and the VALU are serial
and independent of each other; with a contention penalty, LDS and global ops share a port that
each holds for ``penalty`` cycles. It ranks orders of one iteration; it is not a simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.reference.graph import LoopBody
from pipeloom.reference.ops import ResourceKind

PORT_RESOURCES = (ResourceKind.LDS, ResourceKind.GLOBAL_MEM)


@dataclass(frozen=True, slots=True, order=True)
class OrderCost:
    """The cost of one order; smaller compares as better."""

    makespan: int
    """Cycles of one iteration."""
    vgpr_peak: int
    """The most registers per lane live at once."""


def order_cost(
    body: LoopBody,
    order: Sequence[int],
    *,
    lds_contention_penalty: int = 0,
    mma_serial: bool = True,
) -> OrderCost:
    """Cycles and registers of one iteration in this order.

    A predecessor that comes later in ``order`` contributes nothing: declared bodies may break
    their own edges, and still have a cost.

    Args:
        body: The graph of one iteration.
        order: Its op indices in order.
        lds_contention_penalty: Cycles that each LDS or global op holds the port they share; 0 for
            none.
        mma_serial: Whether MMAs run one after the other.
    """
    ops, predecessors = body.ops, body.predecessors
    finish = [0] * len(ops)
    mma_free = valu_free = port_free = makespan = live = peak = 0
    for index in order:
        op = ops[index]
        start = 0
        for producer in predecessors[index]:
            if finish[producer] > start:
                start = finish[producer]
        resource = op.resource
        if resource is ResourceKind.MMA_UNIT and mma_serial:
            start = max(start, mma_free)
            mma_free = start + op.latency
        elif resource is ResourceKind.VALU:
            start = max(start, valu_free)
            valu_free = start + op.latency
        elif lds_contention_penalty and resource in PORT_RESOURCES:
            start = max(start, port_free)
            port_free = start + lds_contention_penalty
        finish[index] = start + op.latency
        makespan = max(makespan, finish[index])
        live += op.vgpr_def
        peak = max(peak, live)
        live -= op.vgpr_kill
    return OrderCost(makespan, peak)


def lower_bound(body: LoopBody, *, lds_contention_penalty: int = 0, mma_serial: bool = True) -> int:
    """No order that respects the edges is shorter.

    max of: the longest path; for each serial unit, the earliest start of its ops plus the sum of
    their latencies; for N ops on the port, penalty*(N-1) + the least of their latencies.

    Args:
        body: The graph of one iteration.
        lds_contention_penalty: Cycles that each LDS or global op holds the port they share; 0 for
            none.
        mma_serial: Whether MMAs run one after the other.
    """
    bounds = [body.longest_path]
    serial = [ResourceKind.VALU] + ([ResourceKind.MMA_UNIT] if mma_serial else [])
    for unit in serial:
        held = [i for i, op in enumerate(body.ops) if op.resource is unit]
        if held:
            work = sum(body.ops[i].latency for i in held)
            bounds.append(min(body.asap[i] for i in held) + work)
    if lds_contention_penalty:
        latencies = [op.latency for op in body.ops if op.resource in PORT_RESOURCES]
        if latencies:
            bounds.append(lds_contention_penalty * (len(latencies) - 1) + min(latencies))
    return max(bounds)
