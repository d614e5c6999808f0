"""Random modulo problems of a given size, the same for the same seed on every machine.

Tests and benchmarks use these where the published loops are not at hand, and to reach what those
do not contain: several units per op, offsets, long occupancies, lifetimes and budgets.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from pipeloom.order.modulo import (
    Budget,
    Channel,
    Edge,
    MachineUnit,
    ModuloProblem,
    Op,
    Reader,
    Reservation,
    Value,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What kind of body to draw; the defaults suit exhaustive search."""

    ops: int = 6
    units: int = 2
    longest_hold: int = 3
    longest_latency: int = 4
    second_use: float = 0.2
    edges_per_op: float = 1.2
    carried: float = 0.25
    lifetimes: bool = False
    tightness: float = 0.5


def random_problem(seed: int, shape: Shape) -> ModuloProblem:
    """A valid problem; with ``lifetimes``, one with values, channels and some budgets."""
    rng = random.Random(f"{seed} {shape}")
    units = tuple(MachineUnit(f"u{i}", rng.choice((1, 1, 2))) for i in range(shape.units))
    ops: list[Op] = []
    for i in range(shape.ops):
        uses: list[Reservation] = []
        if rng.random() < 0.8:
            uses.append(_reservation(rng, units, shape.longest_hold))
            if rng.random() < shape.second_use:
                second = _reservation(rng, units, shape.longest_hold)
                if second.unit == uses[0].unit:
                    second = replace(second, offset=uses[0].offset + uses[0].occupancy)
                uses.append(second)
        ops.append(
            Op(f"op{i}", rng.randint(0, shape.longest_latency), tuple(uses), rng.random() < 0.3)
        )
    edges = _edges(rng, ops, shape)
    values: tuple[Value, ...] = ()
    channels: tuple[Channel, ...] = ()
    budget = Budget()
    if shape.lifetimes:
        values, channels = _lifetimes(rng, ops, edges)
        budget = _budget(rng, values, channels, shape.tightness)
    return ModuloProblem(f"random-{seed}", units, tuple(ops), edges, values, channels, budget)


def _reservation(rng: random.Random, units: tuple[MachineUnit, ...], longest: int) -> Reservation:
    offset = rng.choice((0, 0, 0, 1, 2))
    return Reservation(rng.choice(units).name, rng.randint(1, longest), offset)


def _edges(rng: random.Random, ops: list[Op], shape: Shape) -> tuple[Edge, ...]:
    edges: dict[tuple[int, int, int], Edge] = {}
    for _ in range(round(shape.edges_per_op * len(ops))):
        a, b = rng.randrange(len(ops)), rng.randrange(len(ops))
        if rng.random() < shape.carried:
            distance = rng.choice((1, 1, 2))
        elif a == b:
            continue
        else:
            a, b, distance = min(a, b), max(a, b), 0
        latency = rng.choice((ops[a].latency, rng.randint(0, shape.longest_latency)))
        edges[a, b, distance] = Edge(a, b, latency, distance)
    return tuple(edges.values())


def _lifetimes(
    rng: random.Random, ops: list[Op], edges: tuple[Edge, ...]
) -> tuple[tuple[Value, ...], tuple[Channel, ...]]:
    values: list[Value] = []
    channels: list[Channel] = []
    for i in range(len(ops)):
        readers = tuple(
            Reader(edge.dst, edge.distance, rng.choice((0, 0, 1, 2)))
            for edge in edges
            if edge.src == i and edge.dst != i
        )
        if not readers:
            continue
        if rng.random() < 0.6:
            values.append(Value(f"v{i}", i, rng.choice((1, 2, 4)), readers, rng.choice((0, 0, 1))))
        elif rng.random() < 0.7:
            channels.append(
                Channel(f"c{i}", rng.choice((16, 32)), (i,), readers, rng.choice((None, None, 2)))
            )
    return tuple(values), tuple(channels)


def _budget(
    rng: random.Random,
    values: tuple[Value, ...],
    channels: tuple[Channel, ...],
    tightness: float,
) -> Budget:
    registers = lds = stages = None
    if values and rng.random() < tightness + 0.2:
        widest = max(value.registers for value in values)
        registers = rng.randint(widest, max(widest, sum(value.registers for value in values) + 2))
    if channels and rng.random() < tightness + 0.2:
        least = sum(channel.bytes for channel in channels)
        lds = least + rng.choice((0, 0, 16, 32, 64))
    if rng.random() < tightness:
        stages = rng.randint(1, 3)
    return Budget(registers, lds, stages)
