"""Register tiles: which element each lane holds in each of its registers.

A layout becomes a table of coordinates, by slot and lane; a slot is one element of a lane. What a
step may do with tiles follows from the tables alone: two tiles match where, slot for slot, every
lane holds the elements it needs of the other. Broadcasts, moved boxes and sums within a lane are
the same question, so no pair of layouts has code of its own.

    accumulator, side 16      slot 0 of lane l:  row l % 16, column 4 * (l // 16)
    lanes, vector 4           slot 0 of lane l:  element 4 * l of the tile in row-major order
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.machine.target import LOAD_BYTES, WAVE_LANES
from pipeloom.program import Box, Program, Resource, Space
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank

Coordinates = NDArray[Any]
"""By slot, lane, dimension."""
WORD_BITS = 32
QUAD = 4
"""Consecutive registers of an MFMA result that are consecutive columns (CDNA3 ISA, 7.1.4.2)."""


@dataclass(frozen=True, eq=False)
class RegisterTile:
    """One copy of a resource in registers."""

    resource: Resource
    bank: Bank
    coordinates: Coordinates
    bits: int
    """Of an element in a register; truth values take a whole one."""
    run_bytes: int = 0
    """Of K that lie together in a lane of an ``operand``."""
    _slots: dict[bytes, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def kind(self) -> str:
        """Of its layout."""
        return self.resource.layout.kind if self.resource.layout else ""

    @property
    def slots(self) -> int:
        """Elements of a lane."""
        return len(self.coordinates)

    @property
    def pack(self) -> int:
        """Elements of one register."""
        return WORD_BITS // self.bits

    @property
    def registers(self) -> int:
        """Of one copy."""
        return -(-self.slots // self.pack)

    @cached_property
    def _index(self) -> Mapping[bytes, int]:
        return {held.tobytes(): slot for slot, held in enumerate(self.coordinates)}

    def slot_of(self, held: Coordinates) -> int | None:
        """The slot in which every lane has the element ``held[lane]``."""
        return self._index.get(np.ascontiguousarray(held, np.int64).tobytes())

    def slots_in(self, box: Box | None, what: str) -> list[int]:
        """The slots of a box; raises where a slot lies in it for some lanes only."""
        if box is None:
            return list(range(self.slots))
        low, high = np.array([p for p, _ in box]), np.array([q for _, q in box])
        inside = ((self.coordinates >= low) & (self.coordinates < high)).all(axis=2)
        if (inside.any(axis=1) != inside.all(axis=1)).any():
            raise EmitError(
                f"{what}: box {box} of {self.resource.name} holds some lanes of a register and "
                "not others",
                hint="cut tiles where the layout has whole registers",
                field=self.resource.name,
            )
        return [int(slot) for slot in np.flatnonzero(inside.all(axis=1))]

    def runs(self, slots: Sequence[int], most_bytes: int = LOAD_BYTES) -> Iterator[list[int]]:
        """Slots whose elements follow each other along the last dimension, in whole registers.

        Each run is what one memory instruction moves: 1, 2 or 4 registers, or less than one.
        """
        most = most_bytes * 8 // self.bits
        at = 0
        while at < len(slots):
            size = 1
            while 2 * size <= most and self._follow(slots[at : at + 2 * size], 2 * size):
                size *= 2
            yield list(slots[at : at + size])
            at += size

    def _follow(self, slots: Sequence[int], count: int) -> bool:
        if len(slots) < count or slots[0] * self.bits % WORD_BITS or slots[0] % count:
            return False
        first = self.coordinates[slots[0]]
        for step, slot in enumerate(slots):
            wanted = first.copy()
            wanted[:, -1] += step
            if slot != slots[0] + step or not np.array_equal(self.coordinates[slot], wanted):
                return False
        return True


def register_tile(program: Program, resource: Resource, bank: Bank) -> RegisterTile:
    """The tile of a resource; raises ``EmitError`` naming a layout that is not known."""
    layout = resource.layout
    bits = WORD_BITS if resource.type.dtype.is_bool else resource.type.dtype.bits
    if WORD_BITS % bits or bits < 8 or resource.type.dtype.scale is not None:
        raise EmitError(
            f"registers {resource.name} hold {resource.type.dtype}, of {bits} bits an element",
            hint="registers hold elements of 8, 16 or 32 bits",
            field=resource.name,
        )
    if layout is None and resource.space is not Space.SCALAR:
        raise EmitError(
            f"registers {resource.name} have no layout",
            hint=f"give one of: {', '.join(_KINDS)}",
            field=resource.name,
        )
    kind = "uniform" if layout is None else layout.kind
    if kind not in _KINDS:
        raise EmitError(
            f"registers {resource.name} have layout {kind!r}, which no writer knows",
            hint=f"one of: {', '.join(_KINDS)}",
            field=resource.name,
        )
    run_bytes = 0
    if kind == "lanes":
        table = _lanes(resource)
    elif kind == "uniform":
        table = _uniform(resource)
    elif kind == "accumulator":
        table = _accumulator(program, resource)
    else:
        table, run_bytes = _operand(resource)
    return RegisterTile(resource, bank, table.astype(np.int64), bits, run_bytes)


_KINDS = ("operand", "accumulator", "lanes", "uniform")


def _number(resource: Resource, name: str, default: int | None = None) -> int:
    assert resource.layout is not None
    found = dict(resource.layout.numbers).get(name, default)
    if found is None:
        raise EmitError(
            f"layout {resource.layout.kind!r} of {resource.name} lacks its number {name!r}",
            hint=f"give {name} in the layout's numbers",
            field=resource.name,
        )
    return found


def _lanes(resource: Resource) -> Coordinates:
    vector = _number(resource, "vector", 1)
    elements = resource.type.elements
    if elements % (WAVE_LANES * vector):
        raise EmitError(
            f"{resource.name} has {elements} elements, which {WAVE_LANES} lanes with {vector} each "
            "do not share evenly",
            hint=f"use a multiple of {WAVE_LANES * vector} elements, or a smaller vector",
            field=resource.name,
        )
    slot, lane = np.meshgrid(
        np.arange(elements // WAVE_LANES), np.arange(WAVE_LANES), indexing="ij"
    )
    flat = (slot // vector * WAVE_LANES + lane) * vector + slot % vector
    return np.stack(np.unravel_index(flat, resource.type.shape), axis=-1)


def _uniform(resource: Resource) -> Coordinates:
    flat = np.arange(resource.type.elements)
    place = np.stack(np.unravel_index(flat, resource.type.shape or (1,)), axis=-1)
    place = place[:, : len(resource.type.shape)]
    return np.repeat(place[:, None, :], WAVE_LANES, axis=1)


def _accumulator(program: Program, resource: Resource) -> Coordinates:
    """``side`` x ``side`` blocks, the columns of a row in quads; of one dimension, what a lane
    needs of it beside a tile of two."""
    side = _side(resource)
    shape = resource.type.shape
    lane = np.arange(WAVE_LANES)
    count = side * side // WAVE_LANES
    register = np.arange(count)
    columns = (
        register[:, None] // QUAD * (QUAD * WAVE_LANES // side)
        + lane // side * QUAD
        + register[:, None] % QUAD
    )
    rows = np.broadcast_to(lane % side, columns.shape)
    if len(shape) == 1:
        if _axis(program, resource):
            blocks = [side * block + columns for block in range(shape[0] // side)]
        else:
            blocks = [side * block + rows[:1] for block in range(shape[0] // side)]
        return np.concatenate(blocks)[:, :, None]
    leading = len(shape) - 2
    if prod(shape[:leading]) != 1:
        raise EmitError(
            f"{resource.name} is {resource.type}, but an accumulator tile has rows and columns",
            hint="keep other dimensions at 1",
            field=resource.name,
        )
    table = [
        np.stack([*[np.zeros_like(rows)] * leading, side * i + rows, side * j + columns], axis=-1)
        for i in range(shape[-2] // side)
        for j in range(shape[-1] // side)
    ]
    return np.concatenate(table)


def _side(resource: Resource) -> int:
    side = _number(resource, "side")
    rows = (
        resource.type.shape[-2:]
        if resource.layout and resource.layout.kind == "accumulator"
        else resource.type.shape[-2:-1]
    )
    if side not in (16, 32) or not rows or any(size % side for size in rows):
        raise EmitError(
            f"{resource.name} is {resource.type} in blocks of {side}",
            hint="blocks are of 16 or 32 rows, and tiles whole blocks",
            field=resource.name,
        )
    return side


def _axis(program: Program, resource: Resource) -> int:
    """Whether a vector runs along the columns (1) or rows (0) of the accumulators it goes with."""
    assert resource.layout is not None
    given = dict(resource.layout.numbers).get("axis")
    if given is not None:
        return given
    dim = resource.type.dims[0]
    for other in program.resources:
        if other.layout and other.layout.kind == "accumulator" and len(other.type.dims) > 1:
            if other.type.dims[-1] == dim:
                return 1
            if other.type.dims[-2] == dim:
                return 0
    raise EmitError(
        f"{resource.name} has dimension {dim!r}, which no accumulator tile has",
        hint="say axis 0 (rows) or 1 (columns) in its layout",
        field=resource.name,
    )


def _operand(resource: Resource) -> tuple[Coordinates, int]:
    """Runs of 16 bytes where K has room for them, whatever the instruction takes at once.

    The order of K inside a tile is free as long as both operands agree: 16 bytes feed one MFMA of
    16-bit 16x16x32, two of 16x16x16 and half of an fp8 16x16x128.
    """
    side, depth = _side(resource), _number(resource, "depth")
    *leading, rows, length = resource.type.shape
    size = resource.type.dtype.bits // 8
    blocks = WAVE_LANES // side
    run = LOAD_BYTES
    if length * size % (blocks * run):
        run = depth * size // blocks
    if prod(leading) != 1 or not run or length % depth or length * size % (blocks * run):
        raise EmitError(
            f"{resource.name} is {resource.type}, which is no rows of K in blocks of {depth}",
            hint="an operand has rows and K, the last dimension; K is a multiple of the depth",
            field=resource.name,
        )
    per_run = run // size
    lane = np.arange(WAVE_LANES)
    slot = np.arange(length // blocks)
    along = (slot[:, None] // per_run * blocks + lane // side) * per_run + slot[:, None] % per_run
    across = np.broadcast_to(lane % side, along.shape)
    table = [
        np.stack([*[np.zeros_like(along)] * len(leading), side * i + across, along], axis=-1)
        for i in range(rows // side)
    ]
    return np.concatenate(table), run
