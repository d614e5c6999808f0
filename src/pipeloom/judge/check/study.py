"""A recorded run made ready for questions: the pairs of every workgroup, under any synchronisation.

Workgroups whose waves executed the same and touched the same bytes of LDS are studied once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeloom.judge.check.conflicts import memory_pairs
from pipeloom.judge.check.flow import Flow, FlowReader
from pipeloom.judge.check.loops import LoopClaim, claims
from pipeloom.judge.check.order import Order, Sync, Timeline
from pipeloom.judge.check.pairs import Pairs
from pipeloom.judge.check.record import LDS, GroupRecord, Recorder
from pipeloom.judge.emulate import Effect
from pipeloom.judge.emulate.step import Step

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class GroupStudy:
    """One workgroup, standing for all like it."""

    record: GroupRecord
    flows: tuple[Flow, ...]
    order: Order

    @property
    def pairs(self) -> Pairs:
        return self.order.pairs


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """All that a judge, a search for needless waits and a repair ask of a run."""

    program: Sequence[Step]
    arch: str
    groups: tuple[GroupStudy, ...]
    every: tuple[GroupRecord, ...]
    sync: Sync
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

    def unordered(self, sync: Sync | None = None) -> tuple[Mask, ...]:
        """Per group, which pairs nothing orders."""
        return tuple(group.order.unordered(sync or self.sync) for group in self.groups)

    def claims(self, sync: Sync | None = None) -> tuple[LoopClaim, ...]:
        """Per loop, for which trip counts the verdict holds in every workgroup."""
        found: dict[int, LoopClaim] = {}
        written = frozenset(
            one.buffer
            for record in self.every
            for one in record.accesses
            if one.buffer != LDS and one.effect is not Effect.READ
        )
        for group in self.groups:
            lines, flows = group.order.timelines, group.flows
            under = sync or self.sync
            for claim in claims(self.program, group.record, lines, flows, under, written):
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


def study(recorder: Recorder) -> Study:
    """Make a run's record ready."""
    reader = FlowReader(recorder.program)
    groups: list[GroupStudy] = []
    known: dict[object, bool] = {}
    executed: set[int] = set()
    for record in recorder.groups:
        flows = tuple(reader.read(wave) for wave in record.waves)
        name = _signature(record)
        alike = name in known
        # Where waves may write one place because they write the same, every workgroup counts.
        local = known.get(name, True)
        pairs, replicated = memory_pairs(record, [flow.dead for flow in flows], local=local)
        known.setdefault(name, replicated)
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
    return Study(
        recorder.program,
        recorder.kernel.arch,
        tuple(groups),
        tuple(recorder.groups),
        Sync.of(recorder.program),
        tuple(recorder.buffers),
        frozenset(executed),
        recorder.granules,
    )


def _timelines(record: GroupRecord) -> list[Timeline]:
    """One per wave; waves that executed the same share theirs."""
    known: dict[tuple[bytes, ...], Timeline] = {}
    found = []
    for wave in record.waves:
        key = wave.path().tobytes(), *(bytes(str(times), "ascii") for times in wave.queues.values())
        found.append(known.setdefault(key, Timeline(wave)))
    return found


def _signature(record: GroupRecord) -> object:
    local = sorted(
        (one.wave, one.time, one.effect.value, one.key)
        for one in record.accesses
        if one.buffer == LDS
    )
    waves = tuple((wave.path().tobytes(), tuple(wave.masks)) for wave in record.waves)
    return waves, tuple(local)
