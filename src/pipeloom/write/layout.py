"""Where a tile lies in LDS, so that fragment reads never collide in a bank.

A tile is rows of K; a row is ``row_bytes`` long and is cut into chunks of 16 bytes. The chunk
c of row r lies at position c ^ f(r) of its row. LDS-DMA writes 64 lanes x 16 bytes in a run, so
the positions are not ours to choose there: instead each lane *fetches* the chunk that belongs to
the position it will fill. A ``ds_write`` does the same, so that it too writes a run.

Example, 64 bf16 of K per row (8 chunks) on gfx950 (64 banks, 256 bytes a cycle): two rows fill a
cycle's worth of banks, so f(r) = (r >> 1) & 7 sends the same chunk of rows 0, 2, 4, ... to
different banks:

    row 0   0 1 2 3 4 5 6 7        row 4   2 3 0 1 6 7 4 5
    row 2   1 0 3 2 5 4 7 6        row 6   3 2 1 0 7 6 5 4

Which f is free of conflicts depends on which lanes access LDS together; ``layout_for`` tries a
few and counts.

Rows do not lie in order either. The proof takes every load instruction of a piece to touch what
every fragment of it reads, so the layout makes that true: the runs of rows that fragments take are
dealt in turn, as many rows at a time as fill all banks. Two fragments of 64 rows, 128 bytes each:

    LDS row    0 1  2  3   4 5  6  7   8 ...      a load instruction writes 8 of them,
    holds row  0 1 64 65   2 3 66 67   4 ...      4 of either fragment

Where two matrix instructions share a read and each has a box of K of its own (``short`` runs of an
operand), a chunk holds 8 bytes for either: with four lanes to a row, bytes 0-7 and 32-39, 8-15 and
40-47, ... That takes loads that are narrower than a chunk.

Rows that are no power of two long (192 columns of a tile that is read across) lie in panels: as
many columns as the largest power of two that divides them, and of those all rows. A load of 64
lanes then fills a part of a panel, and where a lane stands follows from its bits.

A wait that is too loose, or a barrier that is missing, then endangers rows that are being read. Had
each slice rows of one fragment only, it could go unnoticed until the layout or the tile changes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any, TypeVar

from numpy.typing import NDArray

from pipeloom.errors import InternalError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES, Target
from pipeloom.write.faults import EmitError

Rows = TypeVar("Rows", int, NDArray[Any])
"""A row, or an array of them."""
AcrossReads = tuple[tuple[tuple[int, int], ...], ...]
"""Of reads across rows: the row, and the byte of it, at which each lane begins."""
ACROSS_BYTES = 8
"""That a lane of such a read takes."""


@dataclass(frozen=True, slots=True)
class Swizzle:
    """f(r) = (q ^ (q << 1 if gray)) & mask, with q = r >> row_shift."""

    row_shift: int
    mask: int
    gray: bool = False

    def of_row(self, row: Rows) -> Rows:
        """What a row's chunk numbers are xor-ed with; of many rows at once, if it is an array."""
        q = row >> self.row_shift
        return (q ^ (q << 1 if self.gray else 0)) & self.mask

    @property
    def period(self) -> int:
        """f repeats after this many rows."""
        return (self.mask + 1) << self.row_shift


@dataclass(frozen=True, slots=True)
class BitSwizzle:
    """f(r): bit ``b`` of it is bit ``row_bits[b]`` of the row, or 0 where that is None."""

    row_bits: tuple[int | None, ...]

    def of_row(self, row: Rows) -> Rows:
        """What a row's chunk numbers are xor-ed with; of many rows at once, if it is an array."""
        found: Rows = row ^ row
        for bit, of in enumerate(self.row_bits):
            if of is not None:
                found = found | (row >> of & 1) << bit
        return found

    @property
    def period(self) -> int:
        """f repeats after this many rows."""
        return 2 << max((bit for bit in self.row_bits if bit is not None), default=-1)


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Pieces of ``ways`` runs of ``run`` rows, dealt in turn, ``group`` rows at a time.

    Without arguments: rows in order.
    """

    run: int = 1
    ways: int = 1
    group: int = 1

    def __post_init__(self) -> None:
        if self.run % self.group:
            raise InternalError(f"{self}: a run is no whole number of groups")

    def place(self, row: Rows) -> Rows:
        """Where in LDS a row lies, counted in rows."""
        piece, within = divmod(row, self.run * self.ways)
        number, at = divmod(within, self.run)
        turn, rest = divmod(at, self.group)
        start = piece * self.run * self.ways
        found: Rows = start + (turn * self.ways + number) * self.group + rest
        return found

    def row_at(self, place: Rows) -> Rows:
        """The row that lies at a place."""
        piece, within = divmod(place, self.run * self.ways)
        turn, rest = divmod(within, self.group)
        turn, number = divmod(turn, self.ways)
        start = piece * self.run * self.ways
        found: Rows = start + number * self.run + turn * self.group + rest
        return found


IN_ORDER = RowOrder()


def dealt_rows(
    target: Target, row_bytes: int, piece_rows: int, fragments: int, at_once_bytes: int
) -> RowOrder:
    """The order in which a load of a piece meets all its fragments.

    Rows that share a cycle's worth of banks stay neighbours, so fragment reads collide no more
    than in order. One instruction of one wave then meets as many fragments as it has such cycles:
    4 of 16 bytes per lane on gfx950, which is all there are; 2 of the 4-byte LDS-DMA on gfx942,
    where it takes two waves to meet four. ``at_once_bytes`` is what all waves bring together.
    """
    group = max(target.bank_row_bytes // row_bytes, 1)
    room = max(at_once_bytes // (group * row_bytes), 1)
    ways = min(fragments & -fragments, 1 << (room.bit_length() - 1))
    return RowOrder(piece_rows // ways, ways, group) if ways > 1 else IN_ORDER


@dataclass(frozen=True, slots=True)
class TileLayout:
    """Rows of ``row_bytes`` in some order, swizzled."""

    row_bytes: int
    """Of a panel, where there are such."""
    swizzle: Swizzle | BitSwizzle
    order: RowOrder = IN_ORDER
    blocks: int = 0
    """Lanes of a row whose chunks hold two pieces each; 0 where chunks are whole."""
    panel_rows: int = 0
    """Rows of a panel: chunks past ``row_bytes`` lie that many rows on; 0 where rows are whole."""

    def lies(self, byte: Rows) -> Rows:
        """Where a byte of a row lies in it, before the swizzle."""
        if not self.blocks:
            return byte
        unit, piece = LOAD_BYTES * self.blocks, LOAD_BYTES // 2
        half, rest = divmod(byte % unit, unit // 2)
        lane, at = divmod(rest, piece)
        found: Rows = byte - byte % unit + lane * LOAD_BYTES + half * piece + at
        return found

    def byte_at(self, place: Rows) -> Rows:
        """The byte that ``lies`` at a place."""
        if not self.blocks:
            return place
        unit, piece = LOAD_BYTES * self.blocks, LOAD_BYTES // 2
        lane, rest = divmod(place % unit, LOAD_BYTES)
        half, at = divmod(rest, piece)
        found: Rows = place - place % unit + half * (unit // 2) + lane * piece + at
        return found

    @property
    def chunks(self) -> int:
        """Chunks of 16 bytes in a row, of a panel."""
        return self.row_bytes // LOAD_BYTES

    def address(self, row: Rows, chunk: Rows) -> Rows:
        """Byte offset of a chunk from the tile's start."""
        panel, chunk = divmod(chunk, self.chunks)
        start = (panel * self.panel_rows + self.order.place(row)) * self.row_bytes
        found: Rows = start + LOAD_BYTES * (chunk ^ self.swizzle.of_row(row))
        return found

    def source(self, position: Rows) -> tuple[Rows, Rows]:
        """(row, chunk) that belongs at the ``position``-th run of 16 bytes."""
        place, chunk = divmod(position, self.chunks)
        first: Rows = chunk - chunk
        if self.panel_rows:
            panel, place = divmod(place, self.panel_rows)
            first = panel * self.chunks
        row = self.order.row_at(place)
        return row, first + (chunk ^ self.swizzle.of_row(row))

    def fragment_addresses(self, side: int, first_row: int, read: int) -> tuple[int, ...]:
        """Addresses of the 64 lanes of the ``read``-th 16-byte read of a fragment."""
        blocks = WAVE_LANES // side
        return tuple(
            self.address(first_row + lane % side, read * blocks + lane // side)
            for lane in range(WAVE_LANES)
        )


def count_conflicts(addresses: Sequence[int], target: Target) -> int:
    """Extra LDS cycles that a 16-byte access of 64 lanes takes because lanes share a bank."""
    (phases,) = (p for p in target.lds_phases if p.bytes_per_lane == LOAD_BYTES)
    return phases.cycles(addresses, target.lds_banks.value) - len(phases.lanes)


def takes_rows(row_bytes: int, side: int) -> bool:
    """Whether ``layout_for`` knows rows of this length."""
    chunks = row_bytes // LOAD_BYTES
    return not (row_bytes % LOAD_BYTES or chunks & (chunks - 1) or chunks < WAVE_LANES // side)


def layout_for(target: Target, row_bytes: int, side: int) -> TileLayout:
    """The layout whose fragment reads for n x n matrix instructions are free of conflicts."""
    chunks = row_bytes // LOAD_BYTES
    blocks = WAVE_LANES // side
    if not takes_rows(row_bytes, side):
        raise EmitError(
            f"a row of the tile is {row_bytes} bytes of K; the LDS layout needs a power of two of "
            f"at least {blocks * LOAD_BYTES}",
            hint="choose the tile's size along K so that its rows are 64, 128 or 256 bytes",
            field="k",
        )
    bank_row = target.bank_row_bytes
    shift = max(bank_row // row_bytes, 1).bit_length() - 1
    mask = min(chunks, bank_row // LOAD_BYTES) - 1
    for swizzle in (Swizzle(shift, mask), Swizzle(shift, mask, gray=True)):
        layout = TileLayout(row_bytes, swizzle)
        if layout_conflicts(layout, target, side) == 0:
            return layout
    raise EmitError(
        f"no known swizzle makes {side}x{side} fragment reads of {row_bytes}-byte rows free of "
        f"bank conflicts on {target.arch}",
        hint="choose another size of the tile along K",
        field="k",
    )


@lru_cache(maxsize=64)
def layout_across(target: Target, row_bytes: int, reads: AcrossReads) -> TileLayout:
    """Rows that are read across, with as few conflicts as any choice of the rows' bits has."""
    (phases,) = (p for p in target.lds_phases if p.bytes_per_lane == ACROSS_BYTES)
    bits = (row_bytes // LOAD_BYTES).bit_length() - 1
    known = max(row for read in reads for row, _ in read).bit_length()
    some = min(bits, known)
    best, least = TileLayout(row_bytes, BitSwizzle((None,) * bits)), sys.maxsize
    for row_bits in permutations(range(known), some):
        layout = TileLayout(row_bytes, BitSwizzle((*(None,) * (bits - some), *row_bits)))
        found = 0
        for read in reads:
            places = [layout.address(r, b // LOAD_BYTES) + b % LOAD_BYTES for r, b in read]
            found += phases.cycles(places, target.lds_banks.value)
        if found < least:
            best, least = layout, found
        if least == len(reads) * len(phases.lanes):
            break
    return best


def layout_conflicts(layout: TileLayout, target: Target, side: int) -> int:
    """Conflicts over all reads of one period of rows, and of a whole piece."""
    reads = layout.row_bytes * side // (LOAD_BYTES * WAVE_LANES)
    span = max(layout.swizzle.period, side, layout.order.run * layout.order.ways)
    return sum(
        count_conflicts(layout.fragment_addresses(side, row, read), target)
        for row in range(0, span, side)
        for read in range(reads)
    )
