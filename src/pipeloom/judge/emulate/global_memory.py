"""Global memory: the kernel's buffers at made-up addresses, with bounds.

Each buffer lies 4 GiB or more from the next, so an address that strays out of one never falls
into another, not even one that lost a carry. Most buffers straddle a multiple of 4 GiB, at a seeded
place: address arithmetic in 32 bits, or a carry that is dropped, goes astray. All start at a
multiple of 256 bytes, as allocations on a GPU do. Buffers are copied in and out: a kernel cannot
touch the caller's arrays except through a store, and reads past an array's end are noticed even in
the same page.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pipeloom.array_kinds import Indices, Octets, Places, Words

_FIRST_BASE = 0x7E00_0000_0000
_SPACING = 1 << 32
_ALIGNMENT = 256
_MOST_SPREADS = 8192
_NO_ADDRESSES: Places = np.empty(0, np.int64)
_STRADDLING = 0.75
"""Share of the buffers that lie across a multiple of 4 GiB, if they are long enough."""


@dataclass(slots=True, eq=False)
class GlobalBuffer:
    """One allocation. ``octets`` is padded to whole dwords; ``size`` is its true length."""

    name: str
    base: int
    size: int
    octets: Octets
    words: Words


class GlobalMemory:
    """All buffers of a launch."""

    def __init__(self, seed: int = 0) -> None:
        self.buffers: list[GlobalBuffer] = []
        self._next = _FIRST_BASE
        self._places = random.Random(seed)
        self._found: GlobalBuffer | None = None
        self._spreads: dict[tuple[bytes, int], Spread] = {}

    def allocate(self, name: str, content: Octets) -> GlobalBuffer:
        """A new buffer holding a copy of ``content``."""
        return self._add(name, self._place(content.size), content)

    def allocate_rows(self, name: str, content: Octets, pitch: int) -> list[GlobalBuffer]:
        """The rows of a two-dimensional ``content``, ``pitch`` bytes apart, nothing in between."""
        base = self._place((len(content) - 1) * pitch + content.shape[1])
        return [
            self._add(f"row {i} of {name}", base + i * pitch, row) for i, row in enumerate(content)
        ]

    def _add(self, name: str, base: int, content: Octets) -> GlobalBuffer:
        padded = np.zeros((content.size + 3) & ~3, np.uint8)
        padded[: content.size] = content
        buffer = GlobalBuffer(name, base, content.size, padded, padded.view(np.uint32))
        self.buffers.append(buffer)
        return buffer

    def _place(self, size: int) -> int:
        """Where a buffer of this many bytes starts; 4 GiB before and after it are free."""
        boundary = self._next + -(-size // _SPACING) * _SPACING
        inside = (size - 1) // _ALIGNMENT
        straddles = self._places.random() < _STRADDLING and inside > 0
        if straddles:
            # Anywhere, or near the start: among the columns of a matrix's first rows.
            reach = self._places.choice((inside, min(inside, 16)))
            base = boundary - _ALIGNMENT * self._places.randint(1, reach)
        else:
            base = boundary + _ALIGNMENT * self._places.randrange(1 << 16)
        self._next = -(-(base + size) // _SPACING) * _SPACING + _SPACING
        return base

    def find(self, address: int) -> GlobalBuffer | None:
        """The buffer that holds this address."""
        found = self._found
        if found is not None and found.base <= address < found.base + found.size:
            return found
        for buffer in self.buffers:
            if buffer.base <= address < buffer.base + buffer.size:
                self._found = buffer
                return buffer
        return None

    def spread(self, registers: Words, mask: int, active: Callable[[], Indices]) -> Spread:
        """Offsets of 32 bits (one register) or 64 (two), in the lanes of ``mask``; kept."""
        key = (registers.tobytes(), mask)
        known = self._spreads.get(key)
        if known is None:
            lanes = active()
            chosen = registers[:, lanes].astype(np.int64)
            known = Spread(chosen[0] if len(chosen) == 1 else chosen[1] << 32 | chosen[0], lanes)
            if len(self._spreads) >= _MOST_SPREADS:
                self._spreads.clear()
            self._spreads[key] = known
        return known

    def describe(self, address: int) -> str:
        """``0x7e... (6 bytes past the end of arg 0)``: an address in terms of the buffers."""
        if not self.buffers:
            return f"{address:#x} (the launch has no buffers)"
        nearest = min(self.buffers, key=lambda b: min(abs(address - b.base), _past(b, address)))
        past = address - (nearest.base + nearest.size)
        if past >= 0:
            return f"{address:#x} ({past} bytes past the end of {nearest.name})"
        before = nearest.base - address
        if before > 0:
            return f"{address:#x} ({before} bytes before {nearest.name})"
        return f"{address:#x} ({nearest.name} + {address - nearest.base})"

    def reach(self, base: int, spread: Spread, size: int) -> tuple[list[Extent], Places]:
        """``split`` of ``base`` plus each offset: nearly always one buffer takes all."""
        buffer = self.find(base + spread.low)
        if buffer is not None and base + spread.high + size <= buffer.base + buffer.size:
            return [Extent(buffer, spread.every, spread, base - buffer.base)], _NO_ADDRESSES
        return self.split(spread.values + base, size)

    def split(self, addresses: Places, size: int) -> tuple[list[Extent], Places]:
        """Group accesses of ``size`` bytes by buffer; also the addresses that lie in none."""
        extents: list[Extent] = []
        left = np.arange(addresses.size)
        while left.size:
            chosen = addresses[left]
            buffer = self.find(int(chosen[0]))
            if buffer is None:
                inside = np.zeros(left.size, np.bool_)
                for other in self.buffers:
                    inside |= (chosen >= other.base) & (chosen <= other.base + other.size - size)
                outside = chosen[~inside]
                left = left[inside]
                more, _ = self.split(addresses[left], size) if left.size else ([], outside)
                for extent in more:
                    extents.append(replace(extent, where=left[extent.where]))
                return extents, outside
            offsets = chosen - buffer.base
            inside = offsets.view(np.uint64) <= np.uint64(max(buffer.size - size, 0))
            if inside.all() and buffer.size >= size:
                extents.append(Extent(buffer, left, Spread(offsets)))
                break
            if buffer.size < size or not inside[0]:
                rest, outside = self.split(addresses[left[1:]], size)
                for extent in rest:
                    extents.append(replace(extent, where=left[1:][extent.where]))
                return extents, np.append(outside, chosen[:1])
            extents.append(Extent(buffer, left[inside], Spread(offsets[inside])))
            left = left[~inside]
        return extents, _NO_ADDRESSES


class Spread:
    """Byte offsets of several accesses from a common base, with what is asked of them again.

    ``lanes`` are the lanes that make them, where that matters.
    """

    __slots__ = ("_dwords", "_words", "aligned", "every", "high", "lanes", "low", "values")

    def __init__(self, values: Places, lanes: Indices | None = None) -> None:
        self.values = values
        self.every = np.arange(values.size)
        self.lanes = self.every if lanes is None else lanes
        self.low = int(values.min()) if values.size else 0
        self.high = int(values.max()) if values.size else -1
        self.aligned = not int(np.bitwise_or.reduce(values)) & 3
        self._words: dict[int, Places] = {}
        self._dwords: dict[int, Words] = {}

    def words(self, count: int) -> Places:
        """The numbers of ``count`` dwords at each offset, one row each."""
        known = self._words.get(count)
        if known is None:
            known = self._words[count] = (self.values >> 2)[:, None] + np.arange(count)
        return known

    def dwords(self, count: int) -> Words:
        """The offsets of ``count`` dwords at each offset, modulo 2**32, one row each."""
        known = self._dwords.get(count)
        if known is None:
            offsets = self.values[:, None] + 4 * np.arange(count)
            known = self._dwords[count] = offsets.astype(np.uint32)
        return known


@dataclass(slots=True, eq=False)
class Extent:
    """Accesses that fall into one buffer: which of them, and where, from ``shift`` bytes on."""

    buffer: GlobalBuffer
    where: Indices
    spread: Spread
    shift: int = 0

    @property
    def offsets(self) -> Places:
        """Bytes from the buffer's start."""
        return self.spread.values + self.shift

    def words(self, count: int) -> Places | None:
        """The numbers of ``count`` dwords per access; None unless all are aligned."""
        if self.shift & 3 or not self.spread.aligned:
            return None
        return self.spread.words(count) + (self.shift >> 2)

    def gather(self, count: int) -> Words | None:
        """``count`` dwords per access; None unless all are aligned."""
        if self.shift & 3 or not self.spread.aligned:
            return None
        if self.shift < 0:
            return self.buffer.words.take(self.spread.words(count) + (self.shift >> 2))
        return self.buffer.words[self.shift >> 2 :].take(self.spread.words(count))


def _past(buffer: GlobalBuffer, address: int) -> int:
    return abs(address - (buffer.base + buffer.size))


def load_words(extents: list[Extent], lanes: int, words: int) -> Words:
    """``words`` dwords for each of ``lanes`` accesses; lanes that fell in no buffer get ones."""
    if len(extents) == 1 and extents[0].where.size == lanes:
        return _gather_words(extents[0], words)
    result = np.full((lanes, words), 0xFFFFFFFF, np.uint32)
    for extent in extents:
        result[extent.where] = _gather_words(extent, words)
    return result


def _gather_words(extent: Extent, words: int) -> Words:
    found = extent.gather(words)
    if found is None:
        octets = extent.buffer.octets[extent.offsets[:, None] + np.arange(4 * words)]
        return np.ascontiguousarray(octets).view(np.uint32)
    return found


def store_words(extents: list[Extent], values: Words) -> None:
    """Write one row of dwords per access."""
    for extent in extents:
        rows = values if extent.where.size == len(values) else values[extent.where]
        places = extent.words(rows.shape[1])
        if places is None:
            octets = np.ascontiguousarray(rows).view(np.uint8)
            extent.buffer.octets[extent.offsets[:, None] + np.arange(octets.shape[1])] = octets
        else:
            extent.buffer.words[places] = rows


def load_octets(extents: list[Extent], lanes: int, size: int) -> Words:
    """1- or 2-byte loads, zero-extended."""
    result = np.full(lanes, (1 << 8 * size) - 1, np.uint32)
    for extent in extents:
        value = extent.buffer.octets[extent.offsets].astype(np.uint32)
        if size == 2:
            value |= extent.buffer.octets[extent.offsets + 1].astype(np.uint32) << 8
        result[extent.where] = value
    return result


def store_octets(extents: list[Extent], values: Words, size: int) -> None:
    """1- or 2-byte stores of the low bits."""
    for extent in extents:
        chosen = values[extent.where]
        extent.buffer.octets[extent.offsets] = chosen.astype(np.uint8)
        if size == 2:
            extent.buffer.octets[extent.offsets + 1] = (chosen >> 8).astype(np.uint8)
