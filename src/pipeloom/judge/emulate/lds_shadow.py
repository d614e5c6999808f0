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

Nearly always all earlier accesses to a block of LDS are over: their numbers are below the first
one that is not. Then the shadow is not looked at, and what would be entered is only noted, to be
entered (``_enter_noted``) before it is looked at next.

Loops come back to the same bytes: a ``Footprint`` is worked out once per content of the address
register, and kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from pipeloom.array_kinds import Flags, Indices, Places, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.pending import WaitQueue

_NEVER = np.iinfo(np.int32).max
_FIRST_ACCESSES = 4096
_MOST_FOOTPRINTS = 8192
_MOST_NOTED = 4096
_BLOCK = 256
"""Bytes of LDS of which it is known, all together, whether some access or poison is left."""
_NOWHERE: Places = np.empty(0, np.int64)

DATA, SOURCE = 1, 2
"""What the recorded values of a write are: its data, or the addresses that they come from."""


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """The LDS bytes of one access per lane: ``size`` bytes at each address.

    ``granules`` has one row per access; ``where`` is the same as one index or, for neighbours, a
    slice. ``words`` are the dwords, one row per register, where all are aligned. ``blocks`` are
    the blocks of LDS that the bytes lie in.
    """

    lanes: Indices
    addresses: Places
    size: int
    granules: Places
    where: Places | slice
    words: Places | None
    blocks: tuple[int, ...]


Values = Callable[[], Words | None]
"""What a write stores, one word per granule; None where that cannot be compared."""


class _Progress:
    """Of the reads, or of the writes: how far they are all over.

    ``numbers`` are theirs, ascending; ``channel`` is 0 for those that are retired.
    """

    def __init__(self, channel: bytearray, blocks: int) -> None:
        self.numbers = deque[int]()
        self._channel = channel
        self._last = [0] * blocks
        self._first_ready: dict[int, int] = {}
        self._last_ready = 0

    def enter(self, blocks: tuple[int, ...], number: int) -> None:
        """An access to these blocks."""
        for block in blocks:
            self._last[block] = number

    def retire(self, number: int, ready: int) -> None:
        """An access that is over from so many barriers on."""
        if number < self._first_ready.get(ready, number + 1):
            self._first_ready[ready] = number
        if ready > self._last_ready:
            self._last_ready = ready

    def over(self, blocks: tuple[int, ...], barriers: int) -> bool:
        """Whether all accesses to these blocks are before what is issued after ``barriers``.

        They are, if the last one is older than the first that is not.
        """
        numbers, channel = self.numbers, self._channel
        while numbers and not channel[numbers[0]]:
            numbers.popleft()
        last = max([self._last[block] for block in blocks], default=0)
        if numbers and last >= numbers[0]:
            return False
        for ready in range(barriers + 1, self._last_ready + 1):
            if last >= self._first_ready.get(ready, last + 1):
                return False
        return True


class LocalMemory:
    """``size`` bytes, uninitialised. ``granule`` (1 or 4) is the shadow's resolution in bytes."""

    def __init__(
        self,
        size: int,
        waves: int,
        granule: int,
        check_races: bool = True,
        leftover: int = 0xFFFFFFFF,
    ) -> None:
        self.size = size
        self.check_races = check_races
        self.granule = granule
        padded = (size + 3) & ~3
        self.words = np.full(padded // 4, leftover, np.uint32)
        self.octets = self.words.view(np.uint8)
        self.poisoned = np.ones(padded // granule, np.bool_)
        self._unclean = bytearray(b"\1") * (-(-padded // _BLOCK) + 1)
        self.last_write = np.zeros(padded // granule, np.int32)
        self.last_read = np.zeros((waves, padded // granule), np.int32)
        self.last_atomic: npt.NDArray[np.int32] | None = None
        self.issued = np.zeros(padded // granule, np.uint32)
        self.footprints: dict[tuple[bytes | int, int, int, int], Footprint] = {}
        # Access 0 stands for "none": ordered before everything.
        self.instructions: list[Decoded | None] = [None]
        self.ready = np.full(_FIRST_ACCESSES, _NEVER, np.int32)
        self.ready[0] = 0
        self.owner, self.channel, self.known = bytearray(1), bytearray(1), bytearray(1)
        blocks = len(self._unclean)
        self._reads, self._writes = _Progress(self.channel, blocks), _Progress(self.channel, blocks)
        self._is_write = bytearray(1)
        self._noted_reads: list[dict[Footprint, int]] = [{} for _ in range(waves)]
        self._noted_writes: dict[Footprint, tuple[int, Values | None, int]] = {}

    def footprint(
        self,
        addresses: Places,
        lanes: Indices,
        size: int,
        key: tuple[bytes | int, int, int, int] | None = None,
    ) -> Footprint:
        """The bytes at these addresses, all within LDS; to be found again under ``key``."""
        granules = self.granules(addresses, size)
        flat = granules.ravel()
        where: Places | slice = flat
        if flat.size and (flat[1:] == flat[:-1] + 1).all():
            where = slice(int(flat[0]), int(flat[-1]) + 1)
        words = None
        if size >= 4 and not (addresses & 3).any():
            words = (addresses >> 2) + np.arange(size >> 2)[:, None]
        blocks = tuple(np.unique(flat // (_BLOCK // self.granule)).tolist())
        made = Footprint(lanes, addresses, size, granules, where, words, blocks)
        if key is not None:
            if len(self.footprints) >= _MOST_FOOTPRINTS:
                self.footprints.clear()
            self.footprints[key] = made
        return made

    def granules(self, addresses: Places, size: int) -> Places:
        """Granule numbers covered by accesses of ``size`` bytes, one row per access."""
        first, count = addresses, size
        if self.granule == 4:
            first, count = addresses >> 2, (size + 3) >> 2
            if (addresses & 3).any():
                spread = first[:, None] + np.arange(count + 1)
                clipped: Places = np.minimum(spread, self.poisoned.size - 1)
                return clipped
        covered: Places = first[:, None] + np.arange(count)
        return covered

    def begin(self, wave: int, counter: WaitQueue, instruction: Decoded, *, writes: bool) -> int:
        """Number a new access, to be entered next."""
        number = len(self.instructions)
        self.instructions.append(instruction)
        if number >= self.ready.size:
            self.ready = np.append(self.ready, np.full(number, _NEVER, np.int32))
        self.owner.append(wave)
        self.channel.append(1 if counter is WaitQueue.VM else 2)
        self.known.append(0)
        self._is_write.append(writes)
        (self._writes if writes else self._reads).numbers.append(number)
        return number

    def retire(self, number: int, barriers: int) -> None:
        """The access's own wave knows, after ``barriers`` barriers, that it is complete."""
        self.ready[number] = barriers + 1
        self.channel[number] = 0
        (self._writes if self._is_write[number] else self._reads).retire(number, barriers + 1)

    def _enter_noted(self) -> None:
        """Bring the shadow up to date."""
        for row, noted in zip(self.last_read, self._noted_reads, strict=True):
            for piece, number in sorted(noted.items(), key=itemgetter(1)):
                row[piece.where] = number
            noted.clear()
        for piece, (number, values, what) in sorted(
            self._noted_writes.items(), key=lambda one: one[1][0]
        ):
            self.last_write[piece.where] = number
            self._enter_values(number, piece, None if values is None else values(), what)
        self._noted_writes.clear()

    def _enter_values(self, number: int, piece: Footprint, values: Words | None, what: int) -> None:
        if values is not None:
            self.issued[piece.where] = values
            self.known[number] = what

    def _unordered(self, number: int, barriers: int, earlier: npt.NDArray[np.int32]) -> Places:
        """Positions in ``earlier`` (access numbers) that are not before access ``number``."""
        ready = self.ready.take(earlier)
        if not ready.size or ready.max() <= barriers:
            return _NOWHERE
        own = np.frombuffer(self.owner, np.uint8)[earlier] == self.owner[number]
        channel = np.frombuffer(self.channel, np.uint8)[earlier]
        late = (ready > barriers) & (~own | ((channel != 0) & (channel != self.channel[number])))
        return np.flatnonzero(late)

    def record_read(self, number: int, barriers: int, piece: Footprint) -> int:
        """Enter a read. Returns the number of a write it races with, or 0."""
        if not self.check_races:
            return 0
        wave = self.owner[number]
        noted = self._noted_reads[wave]
        noted[piece] = number
        over = self._writes.over(piece.blocks, barriers)
        self._reads.enter(piece.blocks, number)
        if over and self.last_atomic is None:
            if len(noted) > _MOST_NOTED:
                self._enter_noted()
            return 0
        self._enter_noted()
        writes = self.last_write[piece.where]
        racing = self._unordered(number, barriers, writes)
        if racing.size:
            return int(writes[racing[0]])
        if self.last_atomic is not None:
            atomics = self.last_atomic[:, piece.where].ravel()
            late = self._unordered(number, barriers, atomics)
            if late.size:
                return int(atomics[late[0]])
        return 0

    def record_write(
        self,
        number: int,
        barriers: int,
        piece: Footprint,
        values: Values | None = None,
        what: int = DATA,
    ) -> int:
        """Enter a write. Returns the number of an access it races with, or 0.

        ``values`` say what is written, one per granule: the ``DATA``, or the ``SOURCE`` that it is
        copied from. Waves that write the same bytes with the same values do not race: compilers
        let waves store replicated results, and kernels let waves copy the same rows.
        """
        if not self.check_races:
            return 0
        blocks = piece.blocks
        over = self._writes.over(blocks, barriers) and self._reads.over(blocks, barriers)
        self._writes.enter(blocks, number)
        if over and self.last_atomic is None:
            self._noted_writes[piece] = number, values, what
            if len(self._noted_writes) > _MOST_NOTED:
                self._enter_noted()
            return 0
        self._enter_noted()
        return self._enter_write(
            number, barriers, piece, None if values is None else values(), what
        )

    def _enter_write(
        self, number: int, barriers: int, piece: Footprint, values: Words | None, what: int
    ) -> int:
        where = piece.where
        writes = self.last_write[where]
        racing = self._unordered(number, barriers, writes)
        if racing.size:
            writes = writes[racing]
            if values is not None:
                same = self.issued[where][racing] == values[racing]
                writes = writes[~(same & (np.frombuffer(self.known, np.uint8)[writes] == what))]
        self.last_write[where] = number
        if racing.size and writes.size:
            return int(writes[0])
        self._enter_values(number, piece, values, what)
        for row in self.last_read:
            reads = row[where]
            racing = self._unordered(number, barriers, reads)
            if racing.size:
                return int(reads[racing[0]])
        if self.last_atomic is None:
            return 0
        atomics = self.last_atomic[:, where].ravel()
        racing = self._unordered(number, barriers, atomics)
        return int(atomics[racing[0]]) if racing.size else 0

    def record_atomic(self, number: int, barriers: int, piece: Footprint) -> int:
        """Enter an atomic update. Returns a plain access that it races with, or 0."""
        if not self.check_races:
            return 0
        self._enter_noted()
        where = piece.where
        if self.last_atomic is None:
            self.last_atomic = np.zeros_like(self.last_read)
        self.last_atomic[self.owner[number]][where] = number
        plain = np.concatenate([self.last_write[where], self.last_read[:, where].ravel()])
        racing = self._unordered(number, barriers, plain)
        return int(plain[racing[0]]) if racing.size else 0

    def per_granule(self, footprint: Footprint, values: Words) -> Words | None:
        """Store data laid out like ``where``; None where an access is misaligned."""
        if self.granule == 4:
            return values.ravel() if footprint.words is not None else None
        octets = np.ascontiguousarray(values).view(np.uint8)[:, : footprint.size]
        return octets.astype(np.uint32).ravel()

    def may_be_poisoned(self, footprint: Footprint) -> bool:
        """Whether some byte near these may be poison."""
        unclean = self._unclean
        return any(unclean[block] for block in footprint.blocks)

    def settle(self, footprint: Footprint, bad: Flags | None) -> None:
        """Written bytes are no longer poison, unless the data was, word by word."""
        if bad is None:
            if self.may_be_poisoned(footprint):
                self.poisoned[footprint.where] = False
                each = _BLOCK // self.granule
                for block in footprint.blocks:
                    left = self.poisoned[block * each : (block + 1) * each]
                    self._unclean[block] = bool(left.any())
            return
        granules = footprint.granules
        if self.granule == 4 and granules.shape[1] > bad.shape[1]:
            # A word that is not aligned lies in two granules; behind an aligned one is another's.
            across = (footprint.addresses & 3).astype(bool)[:, None]
            spread = np.zeros(granules.shape, np.bool_)
            spread[:, :-1] = bad
            spread[:, 1:] |= bad & across
            spread[:, -1:] |= ~across & self.poisoned[granules[:, -1:]]
        else:
            times = granules.shape[1] // bad.shape[1] if bad.shape[1] else 1
            spread = np.repeat(bad, max(times, 1), axis=1)[:, : granules.shape[1]]
        self.poisoned[granules] = spread
        for block in footprint.blocks:
            self._unclean[block] = 1

    def load_into(self, footprint: Footprint, registers: Words) -> None:
        """Whole dwords from LDS into the registers of all lanes."""
        if footprint.words is not None:
            self.words.take(footprint.words, out=registers, mode="clip")
        else:
            registers[:] = self.load(footprint)

    def load(self, footprint: Footprint) -> Words:
        """Whole dwords from LDS, one row per register."""
        if footprint.words is not None:
            return self.words.take(footprint.words)
        octets = self.octets[footprint.addresses[:, None] + np.arange(footprint.size)]
        return np.ascontiguousarray(octets).view(np.uint32).T

    def store(self, footprint: Footprint, values: Words) -> None:
        """Whole dwords into LDS, one row per access; of smaller accesses the low bits."""
        if footprint.words is None:
            octets = np.ascontiguousarray(values).view(np.uint8)[:, : footprint.size]
            self.octets[footprint.addresses[:, None] + np.arange(footprint.size)] = octets
        elif self.granule == 4:
            self.words[footprint.where] = values.ravel()
        else:
            self.words[np.ascontiguousarray(footprint.words.T)] = values
