"""A tile loop as a modulo scheduling problem.

    flow edge of distance d     consumer starts when the producer's result is there, plus the
                                barrier's cycles where the data crosses waves through LDS
    rotating buffer             a channel: taken when its first fill starts, returned when its last
                                reader has retired and a barrier has said so
    rotating registers          a value, for the peak, and a channel of no bytes, for the number of
                                copies: rotation without moves needs whole copies
    anti dependences            none are written down; the channels imply them at every depth

Times are in steps of ``loop.quantum`` cycles, rounded up: a schedule of the problem is one of the
loop, and an II that a unit's exact busy time forces is the least for both.
"""

from __future__ import annotations

from dataclasses import replace

from pipeloom.order.modulo import (
    Budget,
    Channel,
    Edge,
    ModuloProblem,
    Op,
    Reader,
    Reservation,
    Value,
)
from pipeloom.reference.graph import DepKind
from pipeloom.reference.ops import OpRole
from pipeloom.reference.pipelining.loop import TileLoop


def modulo_problem(loop: TileLoop) -> ModuloProblem:
    """The problem whose op i is op i of ``loop``."""
    steps = loop.steps
    ops = tuple(
        Op(
            op.name,
            steps(op.cycles.latency),
            tuple(_in_steps(loop, use) for use in op.cycles.uses),
            op.desc.role is OpRole.GLOBAL_LOAD,
        )
        for op in loop.ops
    )
    published = {
        (fill, reader)
        for buffer in loop.buffers
        for fill in buffer.fills
        for reader in buffer.readers
    }
    edges = tuple(
        Edge(
            edge.producer,
            edge.consumer,
            steps(
                loop.ops[edge.producer].cycles.latency
                + (loop.publish if (edge.producer, edge.consumer) in published else 0)
            ),
            edge.loop_distance,
        )
        for edge in loop.edges
        if edge.kind is DepKind.FLOW
    )

    def readers(numbers: tuple[int, ...], extra: int = 0) -> tuple[Reader, ...]:
        return tuple(Reader(op, 0, steps(loop.ops[op].cycles.hold + extra)) for op in numbers)

    return ModuloProblem(
        name=loop.name,
        units=loop.units,
        ops=ops,
        edges=edges,
        values=tuple(
            Value(item.name, item.fill, item.registers, readers(item.readers))
            for item in loop.registers
        ),
        channels=(
            *(
                Channel(b.name, b.bytes, b.fills, readers(b.readers, loop.publish), b.most)
                for b in loop.buffers
            ),
            *(Channel(r.name, 0, (r.fill,), readers(r.readers), r.most) for r in loop.registers),
        ),
        budget=_budget(loop),
        time_unit="cycle" if loop.quantum == 1 else "step",
    )


def _budget(loop: TileLoop) -> Budget:
    """The loop's limits, without that on registers where the limits on copies imply it."""
    limit = loop.budget.registers
    if limit is None or any(item.most is None for item in loop.registers):
        return loop.budget
    most = sum(item.registers * (item.most or 0) for item in loop.registers)
    return replace(loop.budget, registers=None) if most <= limit else loop.budget


def _in_steps(loop: TileLoop, use: Reservation) -> Reservation:
    """The steps that a hold touches."""
    first = use.offset // loop.quantum
    return Reservation(use.unit, loop.steps(use.offset + use.occupancy) - first, first)
