"""Pairs of accesses that some wait or barrier must order, as columns.

Only *adjacent* pairs are kept: a read with the last write of its bytes, a write with the last write
and the reads since. Before is transitive (what is retired before a barrier stays retired), so if
every adjacent pair is ordered every pair is. The pairs do not depend on waits or barriers, only on
what the waves executed: one list serves every change of synchronisation that is tried on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np

from pipeloom.array_kinds import Flags, Places


class Conflict(IntEnum):
    """What goes wrong when the second does not come after the first."""

    RAW = 0
    """Bytes are read before the write has landed."""
    WAR = 1
    """Bytes are overwritten before an earlier read has taken them."""
    WAW = 2
    """An earlier write may land on top of a later one."""
    REGISTER_READ = 3
    """A register is read whose load may not have landed."""
    REGISTER_WRITE = 4
    """A register is written while a load into it is in flight: the load may win."""


class Pairs:
    """``first`` of wave and time must have retired when ``second`` is issued.

    ``where`` is a cell of ``buffer`` that both touch, or the register of a register pair.
    """

    def __init__(self, columns: Places) -> None:
        self._columns = columns
        self.first_wave, self.first_time, self.second_wave, self.second_time = columns[:4]
        self.kind, self.buffer, self.where = columns[4:]

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of(cls, rows: Iterable[tuple[int, ...]]) -> Pairs:
        """From rows (first wave, first time, second wave, second time, kind, buffer, where)."""
        return cls(np.ascontiguousarray(np.array(list(rows), np.int64).reshape(-1, 7).T))

    def rows(self) -> Places:
        """All columns side by side."""
        return self._columns.T

    def take(self, which: Flags | Places) -> Pairs:
        """Some of them."""
        return Pairs(self._columns[:, which])

    def oriented(self) -> Pairs:
        """Each pair of two waves with that access first which lies earlier in its wave's path.

        Which came first in the run that was recorded means nothing where nothing orders the two.
        """
        turn = (self.first_wave != self.second_wave) & (self.first_time > self.second_time)
        kind = np.where(self.kind == Conflict.RAW, Conflict.WAR, Conflict.RAW)
        kind = np.where(self.kind == Conflict.WAW, Conflict.WAW, kind)
        turned = self._columns[[2, 3, 0, 1, 4, 5, 6]]
        turned[4] = kind
        return Pairs(np.where(turn, turned, self._columns))

    @classmethod
    def join(cls, parts: Iterable[Pairs]) -> Pairs:
        """Several lists as one."""
        return cls(np.concatenate([cls.of(()).rows().T, *(p.rows().T for p in parts)], axis=1))
