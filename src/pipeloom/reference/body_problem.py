"""A declared loop body, buffers already named, as a modulo problem: what its II could be.

For bodies like the ping-pong's the depth is fixed by the anti edges, so there is nothing to derive;
the problem answers how much faster the same dependences could run if iterations overlapped freely.
"""

from __future__ import annotations

from pipeloom.order.modulo import Edge, MachineUnit, ModuloProblem, Op, Reservation
from pipeloom.reference.graph import DepKind, LoopBody, describe_op
from pipeloom.reference.ops import OpRole, ResourceKind

_UNITS = {
    ResourceKind.GLOBAL_MEM: "global",
    ResourceKind.LDS: "lds",
    ResourceKind.MMA_UNIT: "mfma",
    ResourceKind.VALU: "valu",
}
_SERIAL = (ResourceKind.MMA_UNIT, ResourceKind.VALU)


def body_problem(name: str, body: LoopBody) -> ModuloProblem:
    """The body under its own cost model: MMA and VALU ops hold their unit for their latency.

    Memory ops take one cycle of their port. A flow edge waits for the producer's latency, an anti
    or output edge for its issue.
    """
    used = {op.resource for op in body.ops}
    return ModuloProblem(
        name=name,
        units=tuple(MachineUnit(unit) for kind, unit in _UNITS.items() if kind in used),
        ops=tuple(
            Op(
                describe_op(op, index),
                op.latency,
                (
                    (
                        Reservation(
                            _UNITS[op.resource],
                            max(1, op.latency) if op.resource in _SERIAL else 1,
                        ),
                    )
                    if op.resource in _UNITS
                    else ()
                ),
                op.role is OpRole.GLOBAL_LOAD,
            )
            for index, op in enumerate(body.ops)
        ),
        edges=tuple(
            Edge(
                edge.producer,
                edge.consumer,
                body.ops[edge.producer].latency if edge.kind is DepKind.FLOW else 1,
                edge.loop_distance,
            )
            for edge in body.edges
        ),
    )
