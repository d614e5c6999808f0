"""A recorded run made ready for questions: the pairs of every workgroup, under any synchronisation.

Workgroups whose waves executed the same and touched the same bytes of LDS are studied once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeloom.judge.check.conflicts import memory_pairs
from pipeloom.judge.check.pairs import Pairs
from pipeloom.judge.check.record import LDS, CellAccess, GroupRecord, Recorder
from pipeloom.judge.check.register_flow import FlowReader, PathFlow
from pipeloom.judge.check.retirement import Order, Retirement, SyncPlan
from pipeloom.judge.check.store_sources import Sources
from pipeloom.judge.check.trip_counts import LoopClaim, claims
from pipeloom.judge.emulate import Effect
from pipeloom.judge.emulate.pending import WaitQueue
from pipeloom.judge.emulate.step import MicroOp

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class GroupStudy:
    """One workgroup, standing for all like it."""

    record: GroupRecord
    flows: tuple[PathFlow, ...]
    order: Order

    @property
    def pairs(self) -> Pairs:
        return self.order.pairs


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """All that a judge, a search for needless waits and a repair ask of a run."""

    program: Sequence[MicroOp]
    arch: str
    groups: tuple[GroupStudy, ...]
    every: tuple[GroupRecord, ...]
    flows: tuple[tuple[PathFlow, ...], ...]
    """Of the waves of every workgroup."""
    sync: SyncPlan
    buffers: tuple[str, ...]
    executed: frozenset[int]
    """Positions that some wave executed."""
    granules: tuple[int, int]
    """Bytes of a cell: of global memory, of LDS."""

    def place(self, buffer: int, cell: int) -> str:
        """A cell of LDS or of a buffer, in bytes."""
        granule = self.granules[buffer == LDS]
        name = "LDS" if buffer == LDS else self.buffers[buffer]
        return (
            f"{name} byte {cell * granule}"
            if granule == 1
            else f"{name} bytes {cell * 4}..{cell * 4 + 3}"
        )

    def written(self) -> dict[int, str]:
        """The buffers that some workgroup writes, by name."""
        return {
            one.buffer: self.buffers[one.buffer]
            for group in self.every
            for one in group.accesses
            if one.buffer != LDS and one.effect is not Effect.READ
        }

    def unordered(self, sync: SyncPlan | None = None) -> tuple[Mask, ...]:
        """Per group, which pairs nothing orders."""
        return tuple(group.order.unordered(sync or self.sync) for group in self.groups)

    def claims(self, sync: SyncPlan | None = None) -> tuple[LoopClaim, ...]:
        """Per loop, for which trip counts the verdict holds in every workgroup."""
        found: dict[int, LoopClaim] = {}
        under, written = sync or self.sync, self.written()
        for group in self.groups:
            lines = group.order.timelines
            each = claims(self.program, group.record, lines, group.flows, under, written)
            for claim in each:
                old = found.get(claim.head)
                found[claim.head] = claim if old is None else _both(old, claim)
        return tuple(found[head] for head in sorted(found))


def _both(one: LoopClaim, other: LoopClaim) -> LoopClaim:
    period = int(np.lcm(one.period, other.period)) if one.period and other.period else 0
    return LoopClaim(
        one.head,
        tuple(sorted({*one.trips, *other.trips})),
        max(one.least, other.least),
        period,
        one.reason or other.reason,
        one.unlike or other.unlike,
    )


def study(recorder: Recorder) -> Prepared:
    """Make a run's record ready."""
    reader = FlowReader(recorder.program)
    groups: list[GroupStudy] = []
    known: set[object] = set()
    executed: set[int] = set()
    sizes = _sizes(recorder.groups)
    every = tuple(
        tuple(reader.read(wave, times) for wave, times in zip(one.waves, mine, strict=True))
        for one, mine in zip(recorder.groups, sizes, strict=True)
    )
    for record, flows in zip(recorder.groups, every, strict=True):
        name = _signature(record, flows)
        alike = name in known
        known.add(name)
        sources = Sources(record, reader.statics, flows)
        dead = [flow.dead for flow in flows]
        pairs = memory_pairs(record, dead, sources.agree, local=not alike)
        if alike and not len(pairs):
            continue
        if not alike:
            needs = Pairs.of(
                (wave, first, wave, second, kind, LDS, register)
                for wave, flow in enumerate(flows)
                for first, second, kind, register in flow.needs
            )
            pairs = Pairs.join([pairs, needs])
        for wave in record.waves:
            executed.update(wave.steps)
        groups.append(GroupStudy(record, flows, Order(_timelines(record), pairs)))
    return Prepared(
        recorder.program,
        recorder.kernel.arch,
        tuple(groups),
        tuple(recorder.groups),
        every,
        SyncPlan.of(recorder.program),
        tuple(recorder.buffers),
        frozenset(executed),
        recorder.granules,
    )


def _sizes(groups: Sequence[GroupRecord]) -> list[list[frozenset[int]]]:
    """Per wave of every workgroup, the times of scalar loads from buffers that nobody writes."""
    accesses = [access for group in groups for access in group.accesses]
    written = {one.buffer for one in accesses if one.effect is not Effect.READ}
    found: list[list[set[int]]] = [[set() for _ in group.waves] for group in groups]
    for group, times in zip(groups, found, strict=True):
        for one in group.accesses:
            if one.queue is WaitQueue.SMEM and one.buffer not in written:
                times[one.wave].add(one.time)
    return [[frozenset(one) for one in times] for times in found]


def _timelines(record: GroupRecord) -> list[Retirement]:
    """One per wave; waves that executed the same share theirs."""
    known: dict[tuple[bytes, ...], Retirement] = {}
    found = []
    for wave in record.waves:
        key = wave.path().tobytes(), *(bytes(str(times), "ascii") for times in wave.queues.values())
        found.append(known.setdefault(key, Retirement(wave)))
    return found


def _signature(record: GroupRecord, flows: Sequence[PathFlow]) -> object:
    """Equal for workgroups with the same pairs in LDS and in registers, whatever the data."""
    copies: dict[bytes, int] = {}

    def stored(access: CellAccess) -> bytes | int:
        """What a write stores, where no data decide it; of a copy, which others copy the same."""
        if access.values is None or access.time in flows[access.wave].derived:
            return -1
        values = access.values.tobytes()
        copied = access.queue is WaitQueue.VM
        return copies.setdefault(values, len(copies)) if copied else values

    return (
        tuple(
            (wave.path().tobytes(), tuple(wave.masks), tuple(map(id, wave.moved.values())))
            for wave in record.waves
        ),
        tuple(
            (one.wave, one.time, one.effect, one.key, stored(one))
            for one in sorted(record.accesses, key=lambda one: (one.wave, one.time))
            if one.buffer == LDS
        ),
    )
