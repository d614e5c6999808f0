"""Workgroups of one grid share global memory, and nothing orders them but atomics.

Two workgroups that touch the same bytes, one of them writing, race. Equal values by the same
instruction are no race, if they were not computed from data, which might make them equal in this
run only; and neither are atomics among themselves. A kernel with atomics may order
its workgroups by them (flags, the last one to arrive): what they share is then not judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeloom.array_kinds import Indices, Places
from pipeloom.judge.check.record import LDS, CellAccess, GroupRecord
from pipeloom.judge.check.register_flow import PathFlow
from pipeloom.judge.emulate import Effect

_EFFECTS = {Effect.READ: 0, Effect.WRITE: 1, Effect.UPDATE: 2}


@dataclass(frozen=True, slots=True)
class Contention:
    """Two workgroups at the same cell of a buffer."""

    buffer: int
    cell: int
    first_group: int
    first: CellAccess
    second_group: int
    second: CellAccess


_Entry = tuple[int, CellAccess, int | None]
"""A workgroup, its access, and the position of the instruction where equal values may excuse it."""


def meetings(
    groups: Sequence[GroupRecord], flows: Sequence[Sequence[PathFlow]]
) -> tuple[tuple[Contention, ...], bool]:
    """One meeting per buffer, and whether atomics may be what orders them."""
    table: defaultdict[int, list[_Entry]] = defaultdict(list)
    updates = False
    if len(groups) < 2:
        return (), False
    for number, group in enumerate(groups):
        for access in group.accesses:
            if access.buffer != LDS:
                derived = access.time in flows[number][access.wave].derived
                position = None if derived else group.waves[access.wave].steps[access.time]
                table[access.buffer].append((number, access, position))
                updates |= access.effect is Effect.UPDATE
    found = [
        _meet(buffer, accesses)
        for buffer, accesses in sorted(table.items())
        if any(one.effect is not Effect.READ for _, one, _ in accesses)
    ]
    return tuple(one for one in found if one is not None), updates


def _meet(buffer: int, accesses: list[_Entry]) -> Contention | None:
    sizes = [one.cells.size for _, one, _ in accesses]
    cells = np.concatenate([one.cells for _, one, _ in accesses])
    order = np.argsort(cells, kind="stable")
    cells = cells[order]
    number = np.repeat(np.arange(len(accesses)), sizes)[order]
    group = np.repeat([g for g, _, _ in accesses], sizes)[order]
    effect = np.repeat([_EFFECTS[one.effect] for _, one, _ in accesses], sizes)[order]
    mark = np.concatenate([_marks(*access) for access in accesses])[order]
    starts = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
    shared = (_spread(group, starts) > 0) & (np.maximum.reduceat(effect, starts) > 0)
    clash = shared & (_spread(mark, starts) > 0)
    for at in np.flatnonzero(clash).tolist():
        members = range(starts[at], starts[at + 1] if at + 1 < starts.size else cells.size)
        for i in members:
            for j in members:
                if effect[i] and group[i] != group[j] and mark[i] != mark[j]:
                    a, b = sorted((i, j), key=lambda k: int(group[k]))
                    return Contention(
                        buffer,
                        int(cells[i]),
                        int(group[a]),
                        accesses[number[a]][1],
                        int(group[b]),
                        accesses[number[b]][1],
                    )
    return None


def _marks(group: int, access: CellAccess, position: int | None) -> Places:
    """Per cell a number; accesses of two workgroups that do not clash there have the same one.

    Atomics do not clash with atomics, reads not with reads, and writes not with those of the same
    instruction that store the same, whatever the data.
    """
    if access.effect is Effect.READ:
        return np.full(access.cells.size, -1, np.int64)
    if access.effect is Effect.UPDATE:
        return np.full(access.cells.size, -2, np.int64)
    if access.values is None or position is None:
        return np.full(access.cells.size, -3 - group, np.int64)
    return access.values.astype(np.int64) | position << 32


def _spread(column: Places, starts: Indices) -> Places:
    highest: Places = np.maximum.reduceat(column, starts)
    return highest - np.minimum.reduceat(column, starts)
