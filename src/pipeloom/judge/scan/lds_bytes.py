"""Which bytes of LDS an access touches in each wave, as sets of bits.

    overlap of two waves:    bytes[0] & bytes[1]

DS instructions address LDS by a vector register and an offset; LDS-DMA writes behind each other, in
the order of lanes, from M0 and the offset on (CDNA3 ISA, "Memory Buffer Load to LDS").
"""

from __future__ import annotations

import numpy as np

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.ds import lds_pieces
from pipeloom.judge.emulate.register_numbers import LANES
from pipeloom.judge.scan.address_paths import Instance
from pipeloom.judge.scan.lane_values import LaneValues, Number
from pipeloom.judge.scan.scanned_code import LdsTouch, ScanStep

_DMA_MASK = 0x3FFFF
"""Bits of M0 that address LDS."""
_DMA_BYTES = {"dwordx4": 16, "dwordx3": 12}

ByteSets = tuple[int, ...]
"""One for each wave."""


class LdsBytes:
    """The bytes of accesses, each worked out once."""

    def __init__(self, values: LaneValues, size: int) -> None:
        self._values, self._size = values, size
        self._known: dict[tuple[Number, Number, Number, int, int, bool], ByteSets] = {}

    def of(self, step: ScanStep, access: Instance) -> ByteSets:
        """What an access touches, wave by wave."""
        one, (_, address, low, high, waves) = step.instruction, access
        dma = step.lds is LdsTouch.DMA
        total: list[int] = [0] * self._values.waves
        for offset, size in _pieces(one, dma):
            key = (address, low, high, offset, size, dma)
            if key not in self._known:
                self._known[key] = self._sets(*key)
            total = [a | b for a, b in zip(total, self._known[key], strict=True)]
        return tuple(bits if waves >> wave & 1 else 0 for wave, bits in enumerate(total))

    def _sets(
        self, address: Number, low: Number, high: Number, offset: int, size: int, dma: bool
    ) -> ByteSets:
        base = self._values.value(address).astype(np.int64)
        if dma:
            starts = (base & _DMA_MASK)[:, None] + offset + size * np.arange(LANES)
        else:
            starts = base + offset & 0xFFFFFFFF
        active = np.ones(starts.shape, np.bool_)
        if low >= 0 and high >= 0:
            active = self._values.active(low, high)
        found = []
        for wave in range(self._values.waves):
            mine = starts[wave][active[wave]]
            mine = mine[(mine >= 0) & (mine <= self._size - size)]
            touched = np.zeros(self._size, np.bool_)
            for byte in range(size):
                touched[mine + byte] = True
            packed = np.packbits(touched, bitorder="little").tobytes()
            found.append(int.from_bytes(packed, "little"))
        return tuple(found)

    def same_wave(self, a: ByteSets, b: ByteSets) -> int:
        """Bytes that both touch in one wave."""
        found = 0
        for one, other in zip(a, b, strict=True):
            found |= one & other
        return found

    def across_waves(self, a: ByteSets, b: ByteSets, of_a: int, of_b: int) -> int:
        """Bytes that both touch in two different waves, of some for each."""
        found = 0
        for at, mine in enumerate(b):
            if of_b >> at & 1:
                for other, theirs in enumerate(a):
                    if other != at and of_a >> other & 1:
                        found |= mine & theirs
        return found


def _pieces(one: Decoded, dma: bool) -> list[tuple[int, int]]:
    """(offset, bytes) of each part of an access."""
    fields, name = one.fields, one.name
    if dma:
        offset = fields["offset"]
        if one.encoding != "MUBUF":
            offset -= offset >> 12 << 13
        return [(offset, _DMA_BYTES.get(name.rpartition("_")[2], 4))]
    pieces = lds_pieces(one)
    return [(offset, pieces.size) for offset in pieces.offsets]


def byte_range(bits: int) -> str:
    """``bytes 1024..2047``: from the first to the last of a set."""
    first = (bits & -bits).bit_length() - 1
    return f"bytes {first}..{bits.bit_length() - 1}"
