"""A recorded run made ready for questions: the pairs of every workgroup, under any synchronisation.

Workgroups whose waves executed the same and touched the same bytes of LDS are studied once.

Whether waves store the same because they computed the same, and not because of these data.

Compilers let waves write replicated results to the same bytes of LDS. Equal numbers in one run say
nothing of others: buffers full of zeros make everything equal. But where two waves executed the
same instructions in the same lanes, and what went in is the same for both (constants, arguments,
loads of the same bytes by the same lanes, of the same write), the results are equal whatever the
data are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeloom.array_kinds import Flags
from pipeloom.judge.check.conflicts import memory_pairs
from pipeloom.judge.check.pairs import Pairs
from pipeloom.judge.check.record import LDS, CellAccess, GroupRecord, Recorder
from pipeloom.judge.check.register_flow import FlowReader, PathFlow, Taint
from pipeloom.judge.check.retirement import Order, Retirement, SyncPlan
from pipeloom.judge.check.static import EXEC_BITS, Static, lanes_of_path, path_statics
from pipeloom.judge.check.trip_counts import LoopClaim, claims
from pipeloom.judge.emulate import Effect
from pipeloom.judge.emulate.pending import WaitQueue
from pipeloom.judge.emulate.step import MicroOp

_Read = tuple[int, int, bytes]
"""Buffer, bytes lane by lane, and who wrote them."""


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

    def unordered(self, sync: SyncPlan | None = None) -> tuple[Flags, ...]:
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


class Sources:
    """What the waves of one workgroup stored, compared two by two."""

    def __init__(
        self, group: GroupRecord, statics: Sequence[Static], flows: Sequence[PathFlow]
    ) -> None:
        self._group, self._statics, self._flows = group, statics, flows
        self._reads: list[dict[int, list[_Read]]] | None = None
        self._known: dict[tuple[int, int], frozenset[int]] = {}

    def agree(self, first: CellAccess, second: CellAccess) -> bool:
        """Whether equal values of two writes to the same bytes are equal whatever the data."""
        derived = [one.time in self._flows[one.wave].derived for one in (first, second)]
        if not any(derived):
            # Of a copy into LDS the values say where from: all of it or nothing.
            copies = first.buffer == LDS and first.queue is WaitQueue.VM
            return not copies or _equal(first, second)
        same = first.time == second.time and first.lanewise == second.lanewise
        return same and first.wave != second.wave and first.time in self._alike(first, second)

    def _alike(self, first: CellAccess, second: CellAccess) -> frozenset[int]:
        """Times at which two waves store the same, as far as they run alike."""
        a, b = sorted((first.wave, second.wave))
        found = self._known.get((a, b))
        if found is None:
            found = self._known[a, b] = self._compare(a, b)
        return found

    def _compare(self, a: int, b: int) -> frozenset[int]:
        if self._reads is None:
            self._reads = _reads(self._group)
        one, other = self._group.waves[a], self._group.waves[b]
        assert one.start is not None
        assert other.start is not None
        reads, theirs = self._reads[a], self._reads[b]
        flow = self._flows[a]
        by_data = {time for time, _ in flow.by_data} | flow.scattered

        def differ(time: int, asked: bool) -> bool:
            return reads.get(time) != theirs.get(time) or (asked and time in by_data)

        lanes, others = lanes_of_path(one), lanes_of_path(other)
        start = np.flatnonzero(one.start != other.start).tolist()
        held = sum(1 << register for register in start)
        taint = Taint(one, path_statics(one, self._statics), lanes, differ, held)
        same = set()
        for time, (mine, position) in enumerate(zip(lanes, one.steps, strict=True)):
            if time >= len(others) or mine != others[time] or position != other.steps[time]:
                break
            if one.moved.get(time) is not other.moved.get(time):
                break
            step = taint.step(time)
            if step.stored and not (step.stored | EXEC_BITS) & taint.held:
                same.add(time)
            taint.advance(time)
        return frozenset(same)


def _equal(first: CellAccess, second: CellAccess) -> bool:
    if first.values is None or second.values is None:
        return False
    return np.array_equal(first.values, second.values)


def _reads(group: GroupRecord) -> list[dict[int, list[_Read]]]:
    """Per wave and time, what is read and which write it is of, in the order of issue."""
    table: list[defaultdict[int, list[_Read]]] = [defaultdict(list) for _ in group.waves]
    sizes: defaultdict[int, int] = defaultdict(int)
    for access in group.accesses:
        sizes[access.buffer] = max(sizes[access.buffer], int(access.cells[-1]) + 1)
    written = {one.buffer for one in group.accesses if one.effect is not Effect.READ}
    writer = {buffer: np.zeros(sizes[buffer], np.int64) for buffer in written | {LDS}}
    for number, access in enumerate(group.accesses, start=1):
        if access.effect is not Effect.WRITE:
            known = writer.get(access.buffer)
            version = b"" if known is None else known[access.cells].tobytes()
            table[access.wave][access.time].append((access.buffer, access.lanewise, version))
        if access.effect is not Effect.READ:
            writer[access.buffer][access.cells] = number
    return [dict(one) for one in table]
