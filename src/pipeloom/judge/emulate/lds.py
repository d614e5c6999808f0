"""LDS of one workgroup: bytes, poison, and a shadow that orders accesses.

The shadow is a happens-before race detector after KERNELS.md's memory model: access X is before
access Y when X was retired (s_waitcnt) in its wave before that wave's n-th barrier and Y is issued
after the n-th barrier of its own wave; within a wave, when X was retired before Y issues, or both
are in the same in-order queue. Two accesses to the same bytes, one of them a write, with neither
before the other, are a race. Because the rule does not look at when data moved, one run finds the
race whatever its timing; only the control flow taken matters.

Each access gets a number; per granule of LDS the shadow keeps the number of the last write and,
per wave, of the last read. ``ready[access]`` is the barrier count from which other waves are
ordered after it, so retiring an access is one store, however many bytes it covers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.decode import Instruction
from pipeloom.judge.emulate.pending import Counter

Index = npt.NDArray[np.int64]

_NEVER = np.iinfo(np.int32).max
_GROWTH = 4096
_COUNT = np.arange(16)

DATA, SOURCE = 1, 2
"""What the recorded values of a write are: its data, or the addresses that they come from."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who accessed: for the message of a race."""

    wave: int
    instruction: Instruction


class LocalMemory:
    """``size`` bytes, uninitialised. ``granule`` (1 or 4) is the shadow's resolution in bytes."""

    def __init__(self, size: int, waves: int, granule: int, check_races: bool = True) -> None:
        self.size = size
        self.check_races = check_races
        self.granule = granule
        padded = (size + 3) & ~3
        self.octets = np.full(padded, 0xFF, np.uint8)
        self.words = self.octets.view(np.uint32)
        self.poisoned = np.ones(padded // granule, np.bool_)
        self.poison_left = True
        self.last_write = np.zeros(padded // granule, np.int32)
        self.last_read = np.zeros((waves, padded // granule), np.int32)
        self.last_atomic: npt.NDArray[np.int32] | None = None
        self.issued = np.zeros(padded // granule, np.uint32)
        # Access 0 stands for "none": ordered before everything.
        self.accesses: list[Access | None] = [None]
        self.ready = np.full(_GROWTH, _NEVER, np.int32)
        self.owner = np.full(_GROWTH, -1, np.int16)
        self.channel = np.zeros(_GROWTH, np.int8)
        self.known = np.zeros(_GROWTH, np.uint8)
        self.ready[0] = 0

    def granules(self, addresses: Index, size: int) -> Index:
        """Granule numbers covered by accesses of ``size`` bytes, one row per access."""
        first, count = addresses, size
        if self.granule == 4:
            first, count = addresses >> 2, (size + 3) >> 2
            if (addresses & 3).any():
                spread = first[:, None] + np.arange(count + 1)
                clipped: Index = np.minimum(spread, self.poisoned.size - 1)
                return clipped
        covered: Index = first[:, None] + _COUNT[:count]
        return covered

    def begin(self, wave: int, counter: Counter, instruction: Instruction) -> int:
        """Number a new access."""
        number = len(self.accesses)
        self.accesses.append(Access(wave, instruction))
        if number >= self.ready.size:
            self.ready = np.concatenate([self.ready, np.full(_GROWTH, _NEVER, np.int32)])
            self.owner = np.concatenate([self.owner, np.full(_GROWTH, -1, np.int16)])
            self.channel = np.concatenate([self.channel, np.zeros(_GROWTH, np.int8)])
            self.known = np.concatenate([self.known, np.zeros(_GROWTH, np.uint8)])
        self.owner[number] = wave
        self.channel[number] = 1 if counter is Counter.VM else 2
        return number

    def retire(self, number: int, barriers: int) -> None:
        """The access's own wave knows, after ``barriers`` barriers, that it is complete."""
        self.ready[number] = barriers + 1
        self.channel[number] = 0

    def _unordered(self, number: int, barriers: int, earlier: npt.NDArray[np.int32]) -> Index:
        """Positions in ``earlier`` (access numbers) that are not before access ``number``."""
        late = self.ready[earlier] > barriers
        if not late.any():
            return np.empty(0, np.int64)
        own = self.owner[earlier] == self.owner[number]
        channel = self.channel[earlier]
        late &= ~own | ((channel != 0) & (channel != self.channel[number]))
        return np.flatnonzero(late)

    def record_read(self, number: int, barriers: int, granules: Index) -> tuple[Index, int]:
        """Enter a read. Returns the positions that race with a write, and that write's number."""
        if not self.check_races:
            return np.empty(0, np.int64), 0
        writes = self.last_write[granules].ravel()
        self.last_read[self.owner[number], granules] = number
        racing = self._unordered(number, barriers, writes)
        if not racing.size and self.last_atomic is not None:
            atomics = self.last_atomic[:, granules].ravel()
            late = self._unordered(number, barriers, atomics)
            if late.size:
                return late % granules.size, int(atomics[late[0]])
        return racing, int(writes[racing[0]]) if racing.size else 0

    def record_write(
        self,
        number: int,
        barriers: int,
        granules: Index,
        values: npt.NDArray[np.uint32] | None = None,
        what: int = DATA,
    ) -> int:
        """Enter a write. Returns the number of an access it races with, or 0.

        ``values`` say what is written, one row per access: the ``DATA``, or the ``SOURCE`` that it
        is copied from. Waves that write the same bytes with the same values do not race: compilers
        let waves store replicated results, and kernels let waves copy the same rows.
        """
        if not self.check_races:
            return 0
        writes = self.last_write[granules].ravel()
        self.last_write[granules] = number
        racing = self._unordered(number, barriers, writes)
        data = None if values is None else self._per_granule(values, granules)
        if racing.size:
            if data is not None:
                same = self.issued[granules].ravel()[racing] == data.ravel()[racing]
                racing = racing[~(same & (self.known[writes[racing]] == what))]
            if racing.size:
                return int(writes[racing[0]])
        if data is not None:
            self.issued[granules] = data
            self.known[number] = what
        reads = self.last_read[:, granules].ravel()
        if self.last_atomic is not None:
            reads = np.concatenate([reads, self.last_atomic[:, granules].ravel()])
        racing = self._unordered(number, barriers, reads)
        return int(reads[racing[0]]) if racing.size else 0

    def record_atomic(self, number: int, barriers: int, granules: Index) -> int:
        """Enter an atomic update. Returns a plain access that it races with, or 0."""
        if not self.check_races:
            return 0
        if self.last_atomic is None:
            self.last_atomic = np.zeros_like(self.last_read)
        self.last_atomic[self.owner[number], granules] = number
        plain = np.concatenate(
            [self.last_write[granules].ravel(), self.last_read[:, granules].ravel()]
        )
        racing = self._unordered(number, barriers, plain)
        return int(plain[racing[0]]) if racing.size else 0

    def _per_granule(
        self, values: npt.NDArray[np.uint32], granules: Index
    ) -> npt.NDArray[np.uint32] | None:
        """Store data laid out like ``granules``; None where an access is misaligned."""
        if self.granule == 4:
            return values if values.shape == granules.shape else None
        octets = np.ascontiguousarray(values).view(np.uint8)[:, : granules.shape[1]]
        return octets.astype(np.uint32)

    def load(self, addresses: Index, size: int) -> npt.NDArray[np.uint32]:
        """Whole dwords from LDS, one row per address."""
        if (addresses & 3).any():
            octets = self.octets[addresses[:, None] + np.arange(size)]
            return np.ascontiguousarray(octets).view(np.uint32)
        if size == 4:
            return self.words.take(addresses >> 2)[:, None]
        return self.words.take((addresses >> 2)[:, None] + np.arange(size >> 2))

    def store(self, addresses: Index, values: npt.NDArray[np.uint32]) -> None:
        """Whole dwords into LDS, one row per address."""
        if (addresses & 3).any():
            octets = np.ascontiguousarray(values).view(np.uint8)
            self.octets[addresses[:, None] + np.arange(octets.shape[1])] = octets
        else:
            self.words[(addresses >> 2)[:, None] + np.arange(values.shape[1])] = values

    def store_octets(self, addresses: Index, values: npt.NDArray[np.uint32], size: int) -> None:
        """1- or 2-byte stores of the low bits."""
        self.octets[addresses] = values.astype(np.uint8)
        if size == 2:
            self.octets[addresses + 1] = (values >> 8).astype(np.uint8)
