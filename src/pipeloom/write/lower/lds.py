"""Where the tiles of a program lie in LDS.

A tile that matrix operands are read from is swizzled, its rows dealt so that each load brings rows
of every fragment (``layout`` says why); any other lies in row-major order. Tiles lie side by side,
each with all its copies.

Reads across the rows of a tile in LDS: what is neighbours there is columns of the operand.

16 lanes read a block of 16 elements by as many rows as 64 bits hold, 64 bits each, and exchange
them (``ds_read_b64_tr_b16``, ``_b8``; CDNA4 ISA): lane l of them has column l, all its rows, which
need not follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES, REGISTER_BYTES, Target
from pipeloom.program import Access, Box, Group, Layout, Program, Resource, Space, Work
from pipeloom.program.across_rows import (
    BITS,
    LANES,
    VERB,
    comes_transposed,
    goes_across,
    turned_tiles,
)
from pipeloom.write.addresses import LDS_WINDOW
from pipeloom.write.faults import EmitError, RegisterLimitError
from pipeloom.write.layout import (
    IN_ORDER,
    AcrossReads,
    RowOrder,
    Swizzle,
    TileLayout,
    dealt_rows,
    layout_across,
    layout_for,
    takes_rows,
)
from pipeloom.write.lower.linear import Table
from pipeloom.write.lower.register_tiles import RegisterTile, row_axis

Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LdsTile:
    """One resource in LDS: where it starts, and how its rows lie."""

    resource: Resource
    base: int
    layout: TileLayout | None
    """None: row-major."""
    turned: bool = False
    """Whether its columns lie as rows: K in a row, of operands whose K is not the last."""
    loaded: int = 0
    """Bytes that the waves of a load bring at least: a row of fewer comes several times."""

    @property
    def bits(self) -> int:
        """Of an element."""
        return self.resource.type.dtype.bits

    @property
    def copy_bytes(self) -> int:
        """Of one copy, with the room for what comes several times."""
        return max(self.bytes, self.loaded)

    @property
    def bytes(self) -> int:
        """Of its elements."""
        return self.resource.type.dtype.bytes(self.resource.type.elements)

    @property
    def row_bytes(self) -> int:
        """Of the last dimension."""
        return int(self.byte_of(self.resource.type.shape[-1]))

    def byte_of(self, column: Any) -> Any:
        """Where elements begin in a row; those that share a code lie where its first one does."""
        return column // self.resource.type.dtype.covers * self.bits // 8

    @property
    def rows(self) -> int:
        """All dimensions but the last."""
        return prod(self.resource.type.shape[:-1])

    def rows_of(self, box: Box | None) -> range:
        """The rows of a box, where they follow each other; else empty."""
        box = box or self.resource.type.whole
        grid = np.arange(self.rows).reshape(self.resource.type.shape[:-1])
        rows = grid[tuple(slice(p, q) for p, q in box[:-1])].ravel()
        found = range(int(rows[0]), int(rows[-1]) + 1)
        return found if len(found) == rows.size else range(0)

    def runs_of(self, box: Box | None) -> list[tuple[int, int]]:
        """Where a box lies in a copy: bytes from the first, one run of them or one per panel.

        Empty where it holds no whole rows, of the tile or of its panels, that follow each other.
        """
        columns = (box or self.resource.type.whole)[-1]
        first, last = (int(self.byte_of(at)) for at in columns)
        rows = self.rows_of(box)
        wide = self.layout.row_bytes if self.layout else self.row_bytes
        if not rows or first % wide or last % wide:
            return []
        runs: list[tuple[int, int]] = []
        for panel in range(first // wide, last // wide):
            start = (panel * self.rows + rows.start) * wide
            stop = start + len(rows) * wide
            if runs and runs[-1][1] == start:
                start = runs.pop()[0]
            runs.append((start, stop))
        return runs

    def address(self, coordinates: Numbers, copy: int) -> Numbers:
        """Byte address of elements; the last axis of ``coordinates`` are the dimensions."""
        shape = self.resource.type.shape
        if self.turned:
            shape, coordinates = shape[::-1], coordinates[..., ::-1]
        row = np.zeros(coordinates.shape[:-1], np.int64)
        for axis, size in enumerate(shape[:-1]):
            row = row * size + coordinates[..., axis]
        byte = self.byte_of(coordinates[..., -1])
        start = self.base + copy * self.copy_bytes
        if self.layout is None:
            return np.asarray(start + row * int(self.byte_of(shape[-1])) + byte)
        chunk, rest = divmod(self.layout.lies(byte), LOAD_BYTES)
        return np.asarray(start + self.layout.address(row, chunk) + rest)

    def source(self, position: Numbers) -> Numbers:
        """Coordinates of the element that lies ``position`` bytes into a copy."""
        layout = self.layout or TileLayout(self.row_bytes, Swizzle(0, 0))
        if self.row_bytes % LOAD_BYTES:
            row, byte = position // self.row_bytes, position % self.row_bytes
        else:
            row, chunk = layout.source(position // LOAD_BYTES)
            byte = layout.byte_at(chunk * LOAD_BYTES + position % LOAD_BYTES)
        shape = self.resource.type.shape
        leading = np.unravel_index(row, shape[:-1]) if len(shape) > 1 else ()
        column = byte * 8 // self.bits * self.resource.type.dtype.covers
        return np.stack([*leading, column], axis=-1)


def lds_tiles(
    program: Program, target: Target, tiles: Mapping[str, RegisterTile], *, dealt: bool = True
) -> tuple[dict[str, LdsTile], int]:
    """Every LDS resource in its place, and the bytes of all; raises where they do not fit.

    ``dealt``: rows are dealt over the fragments of a piece, where that is even.
    """
    found: dict[str, LdsTile] = {}
    base, known = 0, turned_tiles(program)
    for resource in _in_windows([r for r in program.resources if r.space is Space.LDS]):
        if resource.type.dtype.covers > 1 and not resource.type.single:
            raise EmitError(
                f"{resource.name} holds {resource.type.dtype} in LDS, several codes of a row",
                hint="load them straight to registers: leave .staged() off",
                field=resource.name,
            )
        base = -(-base // target.bank_row_bytes) * target.bank_row_bytes
        turned = resource.name in known
        tile = LdsTile(resource, base, None, turned, _brought(program, resource))
        sides = {
            tiles[work.writes[0].resource].resource.layout["side"]  # type: ignore[index]
            for _, work in _readers(program, resource.name)
            if work.writes and _kind(tiles, work.writes[0]) == "operand"
        }
        numbers = {
            name
            for _, work in _readers(program, resource.name)
            if (into := _layout(tiles, work)) is not None
            for name, _ in into.numbers
        }
        if sides and tile.turned:
            tile = replace(tile, layout=_turned_layout(target, tile, min(sides), numbers))
        elif sides:
            layout = _operand_layout(program, tile, tiles, min(sides), numbers)
            tile = replace(tile, layout=layout if dealt else replace(layout, order=IN_ORDER))
        found[resource.name] = tile
        base += resource.copies * tile.copy_bytes
    if base > target.lds_bytes:
        raise RegisterLimitError(
            f"the program takes {base} bytes of LDS, but {target.arch} has {target.lds_bytes} "
            "for a workgroup",
            hint="use smaller tiles or fewer copies",
            field="resources",
        )
    return found, base


def _in_windows(resources: Sequence[Resource]) -> list[Resource]:
    """The large ones first, where all of them take more than the offset of an instruction reaches:
    a tile that lies across takes two registers for each address."""
    sizes = {r.name: r.copies * r.type.dtype.bytes(r.type.elements) for r in resources}
    if sum(sizes.values()) <= LDS_WINDOW:
        return list(resources)
    return sorted(resources, key=lambda r: -sizes[r.name])


def _operand_layout(
    program: Program,
    tile: LdsTile,
    tiles: Mapping[str, RegisterTile],
    side: int,
    numbers: set[str],
) -> TileLayout:
    """Of a tile that matrix operands are read from, in blocks of ``side`` rows at the least."""
    target, panel = program.target, _panel_bytes(program, tile)
    across, plain = "axis" in numbers, takes_rows(tile.row_bytes, side)
    if reads := _reads_across(program, target, tile, tiles):
        layout = layout_across(target, panel, reads)
    elif not plain and (across or "run" in numbers or not takes_rows(panel, side)):
        layout = TileLayout(panel, Swizzle(0, 0))
    else:
        blocks = WAVE_LANES // side if "short" in numbers and not across else 0
        row_bytes = tile.row_bytes if plain else panel
        layout = replace(layout_for(target, row_bytes, side), blocks=blocks)
    if layout.row_bytes != tile.row_bytes:
        return replace(layout, panel_rows=tile.rows)
    return replace(layout, order=_order(program, target, tile))


def _turned_layout(target: Target, tile: LdsTile, side: int, numbers: set[str]) -> TileLayout:
    """Of a tile whose columns lie as rows."""
    row_bytes = tile.resource.type.shape[0] * tile.bits // 8
    if not takes_rows(row_bytes, side):
        return TileLayout(row_bytes, Swizzle(0, 0))
    blocks = WAVE_LANES // side if {"permuted", "short"} & numbers else 0
    return replace(layout_for(target, row_bytes, side), blocks=blocks)


def _brought(program: Program, resource: Resource) -> int:
    """What the waves of a load bring of numbers that are a row or a column, in the narrowest
    loads."""
    if not resource.type.single:
        return 0
    loads = [g for g, _, w in program.works() if w.writes and w.writes[0].resource == resource.name]
    return max((len(g.waves) * WAVE_LANES * REGISTER_BYTES for g in loads), default=0)


def _kind(tiles: Mapping[str, RegisterTile], access: Access) -> str:
    return tiles[access.resource].kind if access.resource in tiles else ""


def _layout(tiles: Mapping[str, RegisterTile], work: Work) -> Layout | None:
    """Of the registers that a step reads LDS to."""
    tile = tiles.get(work.writes[0].resource) if work.writes else None
    return None if tile is None else tile.resource.layout


def _readers(program: Program, name: str) -> list[tuple[Group, Work]]:
    return [(g, w) for g, _, w in program.works() if w.is_copy and w.reads[0].resource == name]


def _order(program: Program, target: Target, tile: LdsTile) -> RowOrder:
    """Rows dealt over the fragments of a piece, where loads and reads cut the tile evenly."""
    name = tile.resource.name
    fragments = {
        tuple(_span(tile, work.reads[0].box(i)))
        for group, work in _readers(program, name)
        for i in range(len(group.waves))
    }
    writers = [(g, w) for g, _, w in program.works() if w.writes and w.writes[0].resource == name]
    pieces = {
        tuple(_span(tile, work.writes[0].box(i)))
        for group, work in writers
        for i in range(len(group.waves))
    }
    sizes = {stop - start for start, stop in pieces}
    parts = {stop - start for start, stop in fragments}
    if len(sizes) != 1 or len(parts) != 1:
        return IN_ORDER
    piece, part = sizes.pop(), parts.pop()
    even = all(start % piece == 0 for start, _ in pieces)
    if not part or piece % part or not even or any(start % part for start, _ in fragments):
        return IN_ORDER
    members = min(len(group.waves) for group, _ in writers)
    arrays = {node.name: node.align for node in program.meaning.inputs}
    align = min(arrays.get(work.reads[0].resource, LOAD_BYTES) for _, work in writers)
    at_once = members * WAVE_LANES * target.lds_load_bytes(align)
    return dealt_rows(target, tile.row_bytes, piece, piece // part, at_once)


def _panel_bytes(program: Program, tile: LdsTile) -> int:
    """The largest power of two that every edge of the tile's loads is a multiple of."""
    edges = [tile.row_bytes]
    for group, _, work in program.works():
        if work.writes and work.writes[0].resource == tile.resource.name:
            boxes = [work.writes[0].box(i) for i in range(len(group.waves))]
            edges += [at * tile.bits // 8 for box in boxes if box is not None for at in box[-1]]
    found = gcd(*edges)
    return found & -found


def _reads_across(
    program: Program, target: Target, tile: LdsTile, tiles: Mapping[str, RegisterTile]
) -> AcrossReads:
    """What the first reads of every kind of fragment take; none where some are of whole rows."""
    found: dict[Layout | None, AcrossReads] = {}
    for _, work in _readers(program, tile.resource.name):
        into = tiles.get(work.writes[0].resource)
        if (
            into is None
            or not goes_across(into.resource.layout)
            or not read_across(target, into.resource)
        ):
            return ()
        if into.resource.layout not in found:
            slots = into.slots_in(None, work.label)
            found[into.resource.layout] = tuple(
                tuple((int(at[0]), int(at[-1]) * tile.bits // 8) for at in source)
                for _, source in across_reads(into, slots, work.label)
            )
    return tuple(read for reads in found.values() for read in reads)


def _span(tile: LdsTile, box: Box | None) -> tuple[int, int]:
    """First and last row that a box touches."""
    shape = tile.resource.type.shape
    box = box or tile.resource.type.whole
    grid = np.arange(tile.rows).reshape(shape[:-1])
    rows = grid[tuple(slice(p, q) for p, q in box[:-1])]
    return int(rows.min()), int(rows.max()) + 1


def read_across(target: Target, resource: Resource) -> str | None:
    """The instruction that brings a tile's elements; None where they come one by one."""
    bits, layout = resource.type.dtype.bits, resource.layout
    return f"{VERB}{bits}" if layout and comes_transposed(layout, bits, target) else None


def across_reads(
    tile: RegisterTile, slots: Sequence[int], what: str
) -> Iterator[tuple[list[int], Table]]:
    """By read: the slots that it fills, and the element at which each lane's 64 bits begin."""
    across = row_axis(tile.resource)
    rows = BITS // tile.resource.type.dtype.bits
    per_row = LANES // rows
    lane = np.arange(WAVE_LANES)
    leader = lane - lane % LANES
    for at in range(0, len(slots), rows):
        run = list(slots[at : at + rows])
        held = np.stack([tile.coordinates[slot] for slot in run])
        wanted = held[:, leader].copy()
        wanted[..., across] += lane % LANES
        if not np.array_equal(held, wanted):
            raise EmitError(
                f"{what}: no transposed read brings the lanes what they hold",
                hint="use an operand layout in blocks of 16 or 32 rows",
                field=what,
            )
        source = held[lane % LANES // per_row, leader]
        source[:, across] += lane % per_row * rows
        yield run, source
