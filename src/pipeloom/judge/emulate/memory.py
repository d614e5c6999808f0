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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Addresses = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Octets = npt.NDArray[np.uint8]

_FIRST_BASE = 0x7E00_0000_0000
_SPACING = 1 << 32
_ALIGNMENT = 256
_STRADDLING = 0.75
"""Share of the buffers that lie across a multiple of 4 GiB, if they are long enough."""


@dataclass(slots=True, eq=False)
class Buffer:
    """One allocation. ``octets`` is padded to whole dwords; ``size`` is its true length."""

    name: str
    base: int
    size: int
    octets: Octets
    words: Words


class GlobalMemory:
    """All buffers of a launch."""

    def __init__(self, seed: int = 0) -> None:
        self.buffers: list[Buffer] = []
        self._next = _FIRST_BASE
        self._places = random.Random(seed)

    def allocate(self, name: str, content: Octets) -> Buffer:
        """A new buffer holding a copy of ``content``."""
        return self._add(name, self._place(content.size), content)

    def allocate_rows(self, name: str, content: Octets, pitch: int) -> list[Buffer]:
        """The rows of a two-dimensional ``content``, ``pitch`` bytes apart, nothing in between."""
        base = self._place((len(content) - 1) * pitch + content.shape[1])
        return [
            self._add(f"row {i} of {name}", base + i * pitch, row) for i, row in enumerate(content)
        ]

    def _add(self, name: str, base: int, content: Octets) -> Buffer:
        padded = np.zeros((content.size + 3) & ~3, np.uint8)
        padded[: content.size] = content
        buffer = Buffer(name, base, content.size, padded, padded.view(np.uint32))
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

    def find(self, address: int) -> Buffer | None:
        """The buffer that holds this address."""
        for buffer in self.buffers:
            if buffer.base <= address < buffer.base + buffer.size:
                return buffer
        return None

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

    def split(self, addresses: Addresses, size: int) -> tuple[list[Extent], Addresses]:
        """Group accesses of ``size`` bytes by buffer; also the addresses that lie in none.

        Nearly always one buffer takes all, so the common case is a single comparison.
        """
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
                    extents.append(Extent(extent.buffer, left[extent.where], extent.offsets))
                return extents, outside
            offsets = chosen - buffer.base
            inside = offsets.view(np.uint64) <= np.uint64(max(buffer.size - size, 0))
            if inside.all() and buffer.size >= size:
                extents.append(Extent(buffer, left, offsets))
                break
            if buffer.size < size or not inside[0]:
                rest, outside = self.split(addresses[left[1:]], size)
                for extent in rest:
                    extents.append(Extent(extent.buffer, left[1:][extent.where], extent.offsets))
                return extents, np.append(outside, chosen[:1])
            extents.append(Extent(buffer, left[inside], offsets[inside]))
            left = left[~inside]
        return extents, np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class Extent:
    """Accesses that fall into one buffer: which of the lanes, and their byte offsets."""

    buffer: Buffer
    where: npt.NDArray[np.intp]
    offsets: Addresses


def _past(buffer: Buffer, address: int) -> int:
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
    offsets = extent.offsets
    if (offsets & 3).any():
        octets = extent.buffer.octets[offsets[:, None] + np.arange(4 * words)]
        return np.ascontiguousarray(octets).view(np.uint32)
    if words == 1:
        return extent.buffer.words.take(offsets >> 2)[:, None]
    return extent.buffer.words.take((offsets >> 2)[:, None] + np.arange(words))


def store_words(extents: list[Extent], values: Words) -> None:
    """Write one row of dwords per access."""
    for extent in extents:
        rows = values if extent.where.size == len(values) else values[extent.where]
        offsets = extent.offsets
        if (offsets & 3).any():
            octets = np.ascontiguousarray(rows).view(np.uint8)
            extent.buffer.octets[offsets[:, None] + np.arange(octets.shape[1])] = octets
        else:
            extent.buffer.words[(offsets >> 2)[:, None] + np.arange(rows.shape[1])] = rows


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
