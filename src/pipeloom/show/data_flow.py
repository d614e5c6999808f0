"""Which K tile an op works on, and which wave op fills or reads which piece of LDS.

Only a global load names its K tile. What a fragment reads, and what an MMA sums, follows from the
program order of its wave: the latest load of that LDS region, then the latest fragment in those
registers. That is the tile the author means; whether the hardware agrees is the verifier's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Effect, Kernel, Region, Register, Step
from pipeloom.reference.ops import Phase

StepKey = tuple[Phase, int, int | None]
"""Phase, slot, iteration (``None`` outside the loop): one step of a wave's walk."""


@dataclass(frozen=True, slots=True)
class Touch:
    """The K tile of one step, and the LDS regions it fills or reads."""

    tile: int | None
    writes: tuple[Region, ...] = ()
    reads: tuple[Region, ...] = ()


def touches(
    compiled: CompiledSchedule, kernel: Kernel, wave: int, trips: int
) -> Mapping[StepKey, Touch]:
    """What every data op of one wave touches, by step."""
    held: dict[Region | Register, int | None] = {}
    found: dict[StepKey, Touch] = {}
    for step in kernel.walk(compiled, wave, trips):
        if step.op.is_framework:
            continue
        effect = kernel.effect(step, wave)
        tile = _tile(step, effect, held)
        held.update(dict.fromkeys(effect.lds_writes, tile))
        held.update(dict.fromkeys(effect.register_writes, tile))
        found[step.phase, step.slot, step.iteration] = Touch(
            tile, effect.lds_writes, tuple(read.region for read in effect.lds_reads)
        )
    return found


def _tile(step: Step, effect: Effect, held: Mapping[Region | Register, int | None]) -> int | None:
    if step.tile is not None:
        return step.tile
    sources: list[Region | Register] = [read.region for read in effect.lds_reads]
    sources += effect.register_reads
    return held.get(sources[0]) if sources else None


def regions_of(found: Mapping[StepKey, Touch]) -> tuple[Region, ...]:
    """Every LDS region touched, in order."""
    return tuple(sorted({r for touch in found.values() for r in (*touch.writes, *touch.reads)}))
