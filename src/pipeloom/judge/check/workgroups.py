"""Workgroups of one grid share global memory, and nothing orders them but atomics.

Two workgroups that touch the same bytes, one of them writing, race. Equal values are no race, and
neither are atomics among themselves. A kernel whose workgroups also read what others update
atomically may order itself that way (flags, the last one to arrive): that is not judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeloom.judge.check.record import LDS, Access, GroupRecord
from pipeloom.judge.emulate import Effect

_EFFECTS = {Effect.READ: 0, Effect.WRITE: 1, Effect.UPDATE: 2}


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two workgroups at the same cell of a buffer."""

    buffer: int
    cell: int
    first_group: int
    first: Access
    second_group: int
    second: Access


def meetings(groups: Sequence[GroupRecord]) -> tuple[tuple[Meeting, ...], bool]:
    """One meeting per buffer, and whether atomics may be what orders them."""
    table: defaultdict[int, list[tuple[int, Access]]] = defaultdict(list)
    updates = False
    for number, group in enumerate(groups):
        for access in group.accesses:
            if access.buffer != LDS:
                table[access.buffer].append((number, access))
                updates |= access.effect is Effect.UPDATE
    if len(groups) < 2:
        return (), False
    found = []
    for buffer, accesses in sorted(table.items()):
        if any(one.effect is not Effect.READ for _, one in accesses):
            meeting = _meet(buffer, accesses)
            if meeting is not None:
                found.append(meeting)
    return tuple(found), updates


def _meet(buffer: int, accesses: list[tuple[int, Access]]) -> Meeting | None:
    sizes = [one.cells.size for _, one in accesses]
    cells = np.concatenate([one.cells for _, one in accesses])
    number = np.repeat(np.arange(len(accesses)), sizes)
    group = np.repeat([g for g, _ in accesses], sizes)
    effect = np.repeat([_EFFECTS[one.effect] for _, one in accesses], sizes)
    value = np.concatenate(
        [
            np.full(one.cells.size, -1, np.int64) if one.values is None else one.values
            for _, one in accesses
        ]
    ).astype(np.int64)
    order = np.lexsort((effect, cells))
    cells, number, group = cells[order], number[order], group[order]
    effect, value = effect[order], value[order]
    starts = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
    mixed = _spread(group, starts) > 0
    written = np.maximum.reduceat(effect == 1, starts)
    plain = np.minimum.reduceat(effect, starts) != np.maximum.reduceat(effect, starts)
    differ = (
        _spread(np.where(effect == 1, value, _first_written(value, effect, starts)), starts) > 0
    )
    unknown = np.maximum.reduceat((effect == 1) & (value < 0), starts)
    # Written and read (or updated) by two groups, or written by two with other values.
    clash = mixed & (
        (plain & (written | (np.maximum.reduceat(effect, starts) == 2)))
        | (written & (differ | unknown))
    )
    for place in np.flatnonzero(clash).tolist():
        end = starts[place + 1] if place + 1 < starts.size else cells.size
        members = range(starts[place], end)
        writers = [i for i in members if effect[i]]
        for i in writers:
            for j in members:
                if group[i] == group[j] or (effect[i] == 2 and effect[j] == 2):
                    continue
                if effect[i] == effect[j] == 1 and value[i] == value[j] >= 0:
                    continue
                a, b = sorted((i, j), key=lambda k: int(group[k]))
                return Meeting(
                    buffer,
                    int(cells[i]),
                    int(group[a]),
                    accesses[number[a]][1],
                    int(group[b]),
                    accesses[number[b]][1],
                )
    return None


def _spread(column: npt.NDArray[np.int64], starts: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    highest: npt.NDArray[np.int64] = np.maximum.reduceat(column, starts)
    return highest - np.minimum.reduceat(column, starts)


def _first_written(
    value: npt.NDArray[np.int64], effect: npt.NDArray[np.int64], starts: npt.NDArray[np.intp]
) -> npt.NDArray[np.int64]:
    """Per row, the largest value written to its cell: a filler that makes no difference."""
    highest = np.maximum.reduceat(np.where(effect == 1, value, -1), starts)
    counts = np.diff(np.append(starts, value.size))
    return np.repeat(highest, counts)
