"""Whether waves store the same because they computed the same, and not because of these data.

Compilers let waves write replicated results to the same bytes of LDS. Equal numbers in one run say
nothing of others: buffers full of zeros make everything equal. But where two waves executed the
same instructions in the same lanes, and what went in is the same for both (constants, arguments,
loads of the same bytes by the same lanes, of the same write), the results are equal whatever the
data are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from pipeloom.judge.check.record import LDS, CellAccess, GroupRecord
from pipeloom.judge.check.register_flow import PathFlow, Taint
from pipeloom.judge.check.static import EXEC_BITS, Static, lanes_of_path, path_statics
from pipeloom.judge.emulate import Effect
from pipeloom.judge.emulate.pending import WaitQueue

_Read = tuple[int, int, bytes]
"""Buffer, bytes lane by lane, and who wrote them."""


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
