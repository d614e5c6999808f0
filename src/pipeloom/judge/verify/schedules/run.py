"""One run of the whole kernel with a fixed trip count, as tables of dated accesses.

Waves that touch the same regions and walk the same steps are interchangeable, so a run keeps one
``WaveClass`` for each kind of wave (four in the ping-pong kernel: M row x half of B) and asks
separately what such a wave sees of its own slices and of another wave's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeloom.errors import ConfigError
from pipeloom.judge.verify.schedules.model import Access, Timeline, build_timeline, happens_before
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels.interface import Accumulator, Effect, Kernel, Region, Register, Step


@dataclass(slots=True, eq=False)
class Write:
    """A wave's slice of a region, filled with K tile ``tile`` (``None``: with undefined data)."""

    access: Access
    region: Region
    tile: int | None


@dataclass(slots=True, eq=False)
class Read:
    """A load into registers: of LDS ``regions``, or (without any) of K tile ``tile`` itself.

    ``rivals`` are earlier loads of the same registers, on another counter, that are still in
    flight when this one is issued: nothing says which of the two lands last.
    """

    access: Access
    registers: tuple[Register, ...]
    regions: tuple[Region, ...]
    tile: int | None
    uses: list[Use] = field(default_factory=list)
    rivals: list[tuple[Register, Read]] = field(default_factory=list)

    @property
    def is_dead(self) -> bool:
        """Whether nothing reads the registers before they are loaded again."""
        return not self.uses


@dataclass(slots=True, eq=False)
class Use:
    """An op that reads registers: an MMA, or a store to LDS.

    ``operands`` pairs each register with the load that filled it last, in program order.
    ``ordinal`` counts the MMAs of the same accumulator from 0: the tile it should sum.
    """

    access: Access
    operands: tuple[tuple[Register, Read | None], ...]
    accumulator: Accumulator | None
    ordinal: int = 0


@dataclass(slots=True, eq=False)
class WaveClass:
    """Interchangeable waves: same group, same regions, same registers."""

    number: int
    group: int
    waves: tuple[int, ...]
    timeline: Timeline
    reads: list[Read] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    writes: dict[Region, list[Write]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Run:
    """All waves at one trip count."""

    kernel: Kernel
    trips: int
    timelines: list[Timeline]
    classes: list[WaveClass]


def build_run(kernel: Kernel, compiled: CompiledSchedule, trips: int) -> Run:
    """Walk every group, date its accesses, and tell its kinds of waves apart."""
    run = Run(kernel, trips, [], [])
    for group, members in enumerate(kernel.groups):
        steps = kernel.walk(compiled, members[0], trips)
        data = [step for step in steps if not step.op.is_framework]
        by_kind: dict[tuple[object, ...], list[int]] = {}
        effects_of: dict[int, list[Effect]] = {}
        for wave in members:
            effects = [kernel.effect(step, wave) for step in data]
            effects_of[wave] = effects
            key = tuple(
                (e.tile, e.lds_writes, tuple(r.region for r in e.lds_reads)) for e in effects
            )
            by_kind.setdefault(key, []).append(wave)
        leader = effects_of[members[0]]
        for wave in members:
            _check_in_step(data, leader, effects_of[wave], wave)
        timeline = build_timeline(steps, leader)
        run.timelines.append(timeline)
        for waves in by_kind.values():
            kind = WaveClass(len(run.classes), group, tuple(waves), timeline)
            _fill(kind, timeline, effects_of[waves[0]])
            run.classes.append(kind)
    return run


def _check_in_step(
    data: Sequence[Step], leader: Sequence[Effect], effects: Sequence[Effect], wave: int
) -> None:
    for step, first, effect in zip(data, leader, effects, strict=True):
        same = (first.counter, first.entries) == (effect.counter, effect.entries)
        if not same or (effect.counter is not None and effect.entries < 1):
            raise ConfigError(
                f"kernel model: {describe_op(step.op)} takes {effect.entries} entries of "
                f"{effect.counter} in wave {wave}",
                hint="waves of one group must agree, and a counted op takes at least one entry",
                field="Effect.entries",
            )


def _fill(kind: WaveClass, timeline: Timeline, effects: Sequence[Effect]) -> None:
    held: dict[Register, Read] = {}
    flying: dict[Register, list[Read]] = {}
    ordinals: dict[Accumulator, int] = {}
    for access, effect in zip(timeline.accesses, effects, strict=True):
        tile = effect.tile
        if effect.register_reads:
            operands = tuple((reg, held.get(reg)) for reg in effect.register_reads)
            use = Use(access, operands, effect.accumulator)
            if effect.accumulator is not None:
                use.ordinal = ordinals.get(effect.accumulator, 0)
                ordinals[effect.accumulator] = use.ordinal + 1
            kind.uses.append(use)
            for _, read in operands:
                if read is not None:
                    read.uses.append(use)
        if effect.lds_writes:
            if tile is None:
                tile = _stored_tile(access, effect, held)
            for region in effect.lds_writes:
                kind.writes.setdefault(region, []).append(Write(access, region, tile))
        if effect.register_writes:
            regions = tuple(r.region for r in effect.lds_reads)
            read = Read(access, effect.register_writes, regions, effect.tile)
            kind.reads.append(read)
            for register in effect.register_writes:
                pending = [
                    older
                    for older in flying.get(register, ())
                    if not happens_before(older.access, access, same_wave=True)
                ]
                read.rivals.extend(
                    (register, older) for older in pending if older.access.counter != access.counter
                )
                flying[register] = [*pending, read]
                held[register] = read


def _stored_tile(access: Access, effect: Effect, held: dict[Register, Read]) -> int | None:
    """The K tile in the registers that a store copies to LDS; ``None`` if nothing loaded them."""
    sources = [held.get(register) for register in effect.register_reads]
    if not sources or any(read is not None and read.regions for read in sources):
        raise ConfigError(
            f"kernel model: {describe_op(access.step.op)} writes LDS, but its data is not a K tile "
            "of global memory",
            hint="a store must copy registers that a global load fills",
            field="Effect.register_reads",
        )
    tiles = {None if read is None else read.tile for read in sources}
    return tiles.pop() if len(tiles) == 1 else None
