"""Which part of a tile each entry of a table brings, as boxes: reads, packs, MFMAs.

A value of an operand has four dimensions: its rows, ``k`` (in 8 pieces per K step, the registers of
a fragment), ``s`` and ``q``. No table says how the lanes share a tile out among its loads, so each
load brings a slice of ``s`` and every read needs all of it: every load must be there before any
read. ``q`` tells the three products of tf32 apart, ordered so that high and low parts are ranges:
A is high in 0:2 and low in 2:3, B low in 0:1 and high in 1:3. Rows of a set are numbered so that
the tiles of one wide read lie together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import lcm

from pipeloom.cms.table import Table
from pipeloom.errors import SpecError
from pipeloom.program.tiles import Box, Range

PIECES = 8
FIRST, SECOND = 0, 1  # the register sets: read an iteration ahead, and read in the iteration


@dataclass(frozen=True, slots=True)
class Pack:
    """What a pack does: copy ``box`` from registers to registers; no box, it only takes time."""

    source: str
    target: str
    box: Box | None


@dataclass(frozen=True)
class FragmentMap:
    """A or B of a table: where each entry's part lies in the wave's registers."""

    table: Table
    name: str

    @property
    def axis(self) -> int:
        """0 for A, 1 for B."""
        return "AB".index(self.name)

    @property
    def dim(self) -> str:
        """Its own dimension."""
        return "mn"[self.axis]

    @property
    def tiles(self) -> int:
        """MFMA tiles of a wave along it."""
        return self.table.wave_tile[self.axis]

    @property
    def side(self) -> int:
        """Rows of an MFMA tile."""
        return self.table.mi[self.axis]

    @property
    def k_contiguous(self) -> bool:
        """T for A, N for B: a lane's run of memory goes along K."""
        return self.table.layout[self.axis] == "TN"[self.axis]

    @property
    def loads(self) -> int:
        """Global loads per iteration; each has an entry for m0 as well."""
        return len(self.table.slots(self.table.loads(self.name), 0)) // 2

    @cached_property
    def products(self) -> int:
        """3 where each value is split in two."""
        return 3 if self.table.splits else 1

    def key(self, kind: str, half: int) -> str:
        """The table's kind for a register set: 0 is the second one, 1 or 3 the first."""
        if half == SECOND:
            return f"{kind}{self.name}0"
        return next(
            (k for k in (f"{kind}{self.name}{d}" for d in "13") if k in self.table.schedule),
            f"{kind}{self.name}1",
        )

    def count(self, kind: str, half: int) -> int:
        """Entries of ``LR`` or ``Pack`` for a set."""
        return len(self.table.slots(self.key(kind, half), 0))

    @property
    def packed(self) -> bool:
        """Whether what is read must be packed before it is multiplied."""
        return self.count("Pack", SECOND) > 0

    def tiles_of(self, half: int) -> tuple[range, int]:
        """The tiles of a register set, and its first piece along K."""
        if self.table.k_steps == 2:
            return range(self.tiles), PIECES * half
        middle = self.tiles // 2
        return (range(middle, self.tiles) if half == SECOND else range(middle)), 0

    def place(self, tile: int, half: int) -> int:
        """Where a tile's rows stand in its set's numbering."""
        tiles, _ = self.tiles_of(half)
        groups = self._groups(half)
        inside = tile - tiles.start
        return tiles.start + inside % groups * (len(tiles) // groups) + inside // groups

    def read(self, half: int, entry: int, slices: int) -> Box:
        """What one ``ds_read`` brings, in the wave's rows."""
        tiles, base = self.tiles_of(half)
        count, held = self.count("LR", half), len(tiles)
        every = (0, slices), (0, self.products)
        if self.packed and not self.table.splits:
            group, piece = divmod(entry, PIECES)
            share = held // self._groups(half)
            rows = self._rows(tiles.start + group * share, share)
            return (rows, self._depth(base + piece, 1), *every)
        if self.table.splits and not self.k_contiguous:
            wide = held * PIECES // count
            group, piece = divmod(entry, PIECES)
            rows = self._rows(tiles.start + group * wide, wide)
            return (rows, self._depth(base + piece, 1), *every)
        each = count // held
        tile, part = divmod(entry, each)
        start = base + part * (PIECES // each)
        rows = self._rows(tiles.start + tile, 1)
        return (rows, self._depth(start, PIECES // each), *every)

    def read_bytes(self, half: int) -> int:
        """Bytes per lane of one ``ds_read``."""
        if self.k_contiguous:
            return 16
        held, count = len(self.tiles_of(half)[0]), self.count("LR", half)
        if self.table.splits:
            return 4 * held * PIECES // count
        return 2 * held * PIECES // count if self.packed else 8

    def pack(self, half: int, entry: int, slices: int) -> Pack:
        """What one pack does."""
        tiles, base = self.tiles_of(half)
        total = self.count("Pack", half)
        raw, done, rest = f"{self.name} raw", self.name, f"{self.name} rest"
        if not self.table.splits:
            tile, step = divmod(entry, total // len(tiles))
            box = self._piece(tiles.start + tile, half, base, (2 * step, 2 * step + 2), slices)
            return Pack(raw, done, (*box, (0, 1)))
        size = 10 if "UseMFMAF32XEmulation" in self.table.flags else 24
        swaps = total - size * len(tiles)
        if entry < swaps:
            return Pack(raw, raw, None)
        tile, step = divmod(entry - swaps, size)
        high, low = ((0, 2), (2, 3)) if self.name == "A" else ((1, 3), (0, 1))
        moves: dict[int, tuple[str, str, Range, Range]] = {
            j: (raw, done, (2 * j, 2 * j + 2), high) for j in range(4)
        }
        if size == 10:
            moves |= {4: (raw, rest, (0, 4), low), 5: (raw, rest, (4, 8), low)}
            ends = (6, 7, 8, 9), (4, 6, 0, 2)
        else:
            moves |= {5 + 2 * j: (raw, rest, (j, j + 1), low) for j in range(8)}
            ends = (20, 21, 22, 23), (0, 2, 4, 6)
        moves |= {at: (rest, done, (p, p + 2), low) for at, p in zip(*ends, strict=True)}
        if step not in moves:
            return Pack(raw, raw, None)
        source, target, pieces, parts = moves[step]
        box = self._piece(tiles.start + tile, half, base, pieces, slices)
        return Pack(source, target, (*box, parts))

    def fragment(self, tile: int, half: int, product: int, slices: int) -> Box:
        """What an MFMA multiplies."""
        box = self._piece(tile, half, self.tiles_of(half)[1], (0, PIECES), slices)
        return (*box, (product, product + 1))

    def check(self) -> None:
        """Raise where the entries do not make up the operand."""
        for half in (FIRST, SECOND):
            tiles, _ = self.tiles_of(half)
            count, packs = self.count("LR", half), self.count("Pack", half)
            wide = self.packed and not self.k_contiguous and PIECES * len(tiles) % max(count, 1)
            if not count or not tiles or wide or (not self.packed and count % len(tiles)):
                raise self._broken("LR", half, f"{count} reads for {len(tiles)} tiles")
            size = 10 if "UseMFMAF32XEmulation" in self.table.flags else 24
            least = (size if self.table.splits else PIECES // 2) * len(tiles)
            if bool(packs) != self.packed or (packs and packs < least):
                raise self._broken("Pack", half, f"{packs} packs for {len(tiles)} tiles")

    def _broken(self, kind: str, half: int, what: str) -> SpecError:
        key = self.key(kind, half)
        return SpecError(
            f"table {self.table.id}: {key} has {what}",
            hint="give the instructions that fill the fragments of the set",
            field=key,
        )

    def _groups(self, half: int) -> int:
        """How many sets of tiles the reads that bring several of them fall into (16 bit)."""
        if not self.packed or self.table.splits or self.k_contiguous:
            return 1
        return max(1, self.count("LR", half) // PIECES)

    def _rows(self, first: int, count: int) -> Range:
        return first * self.side, (first + count) * self.side

    def _depth(self, first: int, count: int) -> Range:
        size = self.table.mi[2] // PIECES
        return first * size, (first + count) * size

    def _piece(
        self, tile: int, half: int, base: int, pieces: Range, slices: int
    ) -> tuple[Range, Range, Range]:
        rows = self._rows(self.place(tile, half), 1)
        return rows, self._depth(base + pieces[0], pieces[1] - pieces[0]), (0, slices)


def slices_of(a: FragmentMap, b: FragmentMap) -> int:
    """Size of ``s``: fine enough for the loads of both."""
    return lcm(a.loads, b.loads)


def number_of(table: Table, a: int, b: int, half: int) -> int:
    """The number of the MFMA of two tiles and a K half where none is moved: see ``products``."""
    rows, columns = table.wave_tile
    if table.k_steps == 2:
        return (half * columns + b) * rows + a
    a_half, across = divmod(a, rows // 2)
    b_half, along = divmod(b, columns // 2)
    return ((2 * b_half + a_half) * (columns // 2) + along) * (rows // 2) + across


def products(table: Table) -> Iterator[tuple[int, int, int, int, int]]:
    """(tile of A, its set, tile of B, its set, product) of each MFMA as it is issued."""
    rows, columns = table.wave_tile
    each = 3 if table.splits else 1
    for number in range(table.num_mfma):
        unit, kind = divmod(table.mfma_reorder[number] if table.mfma_reorder else number, each)
        # hi * hi is the middle of q, lo(A) * hi(B) its end, hi(A) * lo(B) its beginning.
        product = (1, 2, 0)[kind] if table.splits else 0
        if table.k_steps == 2:
            half, place = divmod(unit, rows * columns)
            yield place % rows, half, place // rows, half, product
        else:
            quarter, place = divmod(unit, rows * columns // 4)
            a_half, b_half = quarter % 2, quarter // 2
            a = a_half * rows // 2 + place % (rows // 2)
            yield a, a_half, b_half * columns // 2 + place // (rows // 2), b_half, product
