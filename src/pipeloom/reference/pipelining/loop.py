"""One K tile as a loop body that can be pipelined to any depth: ops, costs, and what rotates.

A ``TileLoop`` says what one tile does and nothing about when, how deep, or into which buffer. LDS
buffers and fragment registers are declared as *rotating*: how many of each there must be follows
from the schedule, and tile t then uses number ``t mod count``. A ``Rotation`` tells which field of
an op carries that number.

    a load of piece 1 of A     writes rotating buffer "LDS A1"; its number goes to op.stage
    the MMA of row 0           reads rotating registers "frag A0"; with m rows, copy c of row 0
                               is register c * m + 0, which goes to op.stage: stride m
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pipeloom.errors import ConfigError
from pipeloom.order.modulo import Budget, Reservation, Unit
from pipeloom.reference.graph import DepEdge, LoopBody
from pipeloom.reference.ops import OpDesc

NO_LIMITS = Budget()


@dataclass(frozen=True, slots=True)
class OpCycles:
    """What an op costs the whole workgroup: from its start,

    its result is there after ``latency`` cycles, it reads its inputs for ``hold`` cycles, and it
    keeps ``uses`` busy.
    """

    latency: int
    hold: int
    uses: tuple[Reservation, ...]


@dataclass(frozen=True, slots=True)
class TileOp:
    """One op of the tile, with a name that tables and explanations use."""

    name: str
    desc: OpDesc
    cycles: OpCycles


@dataclass(frozen=True, slots=True)
class RotatingBuffer:
    """LDS that ``fills`` write and ``readers`` read, by op index; ``most`` bounds its copies."""

    name: str
    bytes: int
    fills: tuple[int, ...]
    readers: tuple[int, ...]
    most: int | None = None


@dataclass(frozen=True, slots=True)
class RotatingRegisters:
    """``registers`` per lane that op ``fill`` writes and ``readers`` read."""

    name: str
    registers: int
    fill: int
    readers: tuple[int, ...]
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Rotation:
    """``field`` of op ``op`` grows by ``stride`` times the number of what rotates as ``of``."""

    op: int
    field: Literal["stage", "subtile"]
    of: str
    stride: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLoop:
    """The declaration that strategy MODULO pipelines.

    ``publish`` is the cycles that a barrier adds between waves: from a buffer's fill to its first
    read, and from its last read to its next fill. ``quantum`` is the cycles of one time step of the
    schedule; durations are rounded up to whole steps.
    """

    name: str
    units: tuple[Unit, ...]
    ops: tuple[TileOp, ...]
    edges: tuple[DepEdge, ...]
    buffers: tuple[RotatingBuffer, ...]
    registers: tuple[RotatingRegisters, ...]
    rotations: tuple[Rotation, ...]
    budget: Budget = NO_LIMITS
    publish: int = 0
    quantum: int = 1

    def __post_init__(self) -> None:
        LoopBody((op.desc for op in self.ops), self.edges)
        known = {b.name for b in self.buffers} | {r.name for r in self.registers}
        for rotation in self.rotations:
            if rotation.of not in known:
                raise ConfigError(
                    f"op {self.ops[rotation.op].name!r} rotates with {rotation.of!r}, which is "
                    "neither a buffer nor registers of the loop",
                    hint=f"use one of {', '.join(sorted(known))}",
                    field="TileLoop.rotations",
                )

    def steps(self, cycles: int) -> int:
        """``cycles`` in time steps of the schedule, rounded up."""
        return -(-cycles // self.quantum)

    def placed(self, op: int, tile: int, counts: dict[str, int]) -> OpDesc:
        """Op ``op`` of K tile ``tile``, with the buffers and registers it uses."""
        desc = self.ops[op].desc
        for rotation in self.rotations:
            if rotation.op == op:
                number = tile % counts[rotation.of] * rotation.stride
                if rotation.field == "stage":
                    desc = replace(desc, stage=desc.stage + number)
                else:
                    desc = replace(desc, subtile=desc.subtile + number)
        return desc
