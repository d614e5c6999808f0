"""Which accesses of one workgroup touch the same bytes, at least one of them writing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Sequence

import numpy as np

from pipeloom.array_kinds import Flags, Places
from pipeloom.judge.check.pairs import Conflict, Pairs
from pipeloom.judge.check.record import LDS, CellAccess, GroupRecord
from pipeloom.judge.emulate import Effect
from pipeloom.judge.emulate.pending import WaitQueue

Agree = Callable[[CellAccess, CellAccess], bool]


def memory_pairs(
    group: GroupRecord, dead: Sequence[Container[int]], agree: Agree, *, local: bool = True
) -> Pairs:
    """Adjacent conflicting accesses, in LDS and in every buffer that some wave writes.

    ``dead`` has, per wave, the times of loads whose result reaches nothing: what they read does
    not matter. ``local=False`` leaves LDS out. Waves that write equal values to the same bytes by
    the same instruction do not conflict (compilers let waves store replicated results), if the
    values ``agree`` whatever the data are.
    """
    by_buffer: defaultdict[int, list[CellAccess]] = defaultdict(list)
    for access in group.accesses:
        if access.effect is Effect.READ and access.time in dead[access.wave]:
            continue
        if access.buffer == LDS and not local:
            continue
        by_buffer[access.buffer].append(access)
    return Pairs.join(
        _of_buffer(number, accesses, group, agree)
        for number, accesses in sorted(by_buffer.items())
        if any(one.effect is not Effect.READ for one in accesses)
    )


def _of_buffer(buffer: int, accesses: list[CellAccess], group: GroupRecord, agree: Agree) -> Pairs:
    shared = _shared_cells(accesses)
    if not shared.size:
        return Pairs.of([])
    positions = np.array([-1, *(group.waves[a.wave].steps[a.time] for a in accesses)], np.int64)
    shadow = _Shadow(len(group.waves), shared, accesses, positions, agree)
    for number, access in enumerate(accesses, start=1):
        shadow.enter(number, access)
    rows = []
    for (first, second), (kind, cell) in shadow.found.items():
        x, y = accesses[first - 1], accesses[second - 1]
        rows.append((x.wave, x.time, y.wave, y.time, kind, buffer, int(shared[cell])))
    return Pairs.of(rows)


def _shared_cells(accesses: list[CellAccess]) -> Places:
    """Cells that are written and touched more than once; the rest cannot conflict."""
    distinct: dict[tuple[int, bool], list[CellAccess]] = {}
    for access in accesses:
        distinct.setdefault((access.key, access.effect is Effect.READ), []).append(access)
    every, written = [], []
    for (_, reads), members in distinct.items():
        cells = members[0].cells
        every += [cells] * min(len(members), 2)
        if not reads:
            written.append(cells)
    cells, counts = np.unique(np.concatenate(every), return_counts=True)
    shared = cells[counts > 1]
    return shared[np.isin(shared, np.concatenate(written))]


def _line(access: CellAccess) -> tuple[int, WaitQueue]:
    return access.wave, access.queue


class _Shadow:
    """Per cell: the last write, each wave's last write, and its last read and update since it
    changed, by each counter: nothing orders what one wave reads by two."""

    def __init__(
        self,
        waves: int,
        shared: Places,
        accesses: list[CellAccess],
        positions: Places,
        agree: Agree,
    ) -> None:
        size = shared.size
        self._accesses, self._agree = accesses, agree
        self._shared = shared
        self._positions = positions
        self._writer = np.zeros(size, np.int64)
        self._wrote = np.zeros((waves, size), np.int64)
        order = {WaitQueue.VM: 1, WaitQueue.LGKM: 2, WaitQueue.SMEM: 0}
        self._lines = {line: n for n, line in enumerate(dict.fromkeys(map(_line, accesses)))}
        self._read = np.zeros((len(self._lines), size), np.int64)
        self._updated = np.zeros((len(self._lines), size), np.int64)
        self._has_updates = False
        self._value = np.zeros(size, np.uint32)
        self._known = np.zeros(size, np.bool_)
        self._owner = np.array([-1, *(a.wave for a in accesses)], np.int64)
        self._queue = np.array([0, *(order[a.queue] for a in accesses)], np.int64)
        self._places: dict[int, tuple[Places, Flags]] = {}
        self.found: dict[tuple[int, int], tuple[int, int]] = {}

    def enter(self, number: int, access: CellAccess) -> None:
        """Enter the next access, in the order of issue."""
        places, kept = self._placed(access)
        if not places.size:
            return
        if access.effect is Effect.READ:
            # Of waves that wrote the same values, the reader's own write will do.
            mine = self._wrote[access.wave, places]
            writer = np.where(mine > 0, mine, self._writer[places])
            self._pair(number, writer[None], places, Conflict.RAW)
            if self._has_updates:
                self._pair(number, self._updated[:, places], places, Conflict.RAW)
            self._read[self._lines[_line(access)], places] = number
        elif access.effect is Effect.UPDATE:
            self._has_updates = True
            self._pair(number, self._wrote[:, places], places, Conflict.RAW)
            self._pair(number, self._read[:, places], places, Conflict.WAR)
            self._updated[self._lines[_line(access)], places] = number
            self._known[places] = False
        else:
            self._write(number, access, places, kept)

    def _write(self, number: int, access: CellAccess, places: Places, kept: Flags) -> None:
        changed = places
        values = None if access.values is None else access.values[kept]
        if values is not None:
            equal = self._known[places] & (self._value[places] == values)
            equal &= self._positions[self._writer[places]] == self._positions[number]
            for earlier in np.unique(self._writer[places[equal]]).tolist():
                if not self._agree(self._accesses[earlier - 1], access):
                    equal &= self._writer[places] != earlier
            changed = places[~equal]
        self._pair(number, self._read[:, places], places, Conflict.WAR)
        self._read[:, places] = 0
        if changed.size:
            self._pair(number, self._wrote[:, changed], changed, Conflict.WAW)
            self._wrote[:, changed] = 0
            if self._has_updates:
                self._pair(number, self._updated[:, changed], changed, Conflict.WAW)
                self._updated[:, changed] = 0
        self._wrote[access.wave, places] = number
        self._writer[places] = number
        self._known[places] = values is not None
        if values is not None:
            self._value[places] = values

    def _placed(self, access: CellAccess) -> tuple[Places, Flags]:
        found = self._places.get(access.key)
        if found is None:
            at = np.searchsorted(self._shared, access.cells)
            at = np.minimum(at, self._shared.size - 1)
            kept = self._shared[at] == access.cells
            found = self._places[access.key] = at[kept], kept
        return found

    def _pair(self, number: int, earlier: Places, places: Places, kind: Conflict) -> None:
        """Pairs with these earlier accesses, but for those that one queue keeps in order."""
        for row in earlier:
            firsts, at = np.unique(row, return_index=True)
            for first, place in zip(firsts.tolist(), at.tolist(), strict=True):
                if first and not self._in_order(first, number):
                    self.found.setdefault((first, number), (int(kind), int(places[place])))

    def _in_order(self, first: int, second: int) -> bool:
        """Operations of one wave in one queue take effect in the order of issue; ``first`` may
        also be the second's own access (a load into LDS reads and writes)."""
        if self._owner[first] != self._owner[second]:
            return False
        return bool(self._queue[first] and self._queue[first] == self._queue[second])
