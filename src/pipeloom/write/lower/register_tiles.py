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
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.checks import check_known
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.program import Box, Reduce, Resource, Space
from pipeloom.program.resources import PARTIAL
from pipeloom.write.faults import EmitError
from pipeloom.write.lower.patches import patches

Coordinates = NDArray[Any]
"""By slot, lane, dimension."""
WORD_BITS = 32
WORD = WORD_BITS // 8
WORDS = {1: "dword", 2: "dwordx2", 4: "dwordx4"}
"""What memory instructions call so many registers."""
QUAD = 4
"""Consecutive registers of an MFMA result that are consecutive columns (CDNA3 ISA, 7.1.4.2)."""


@dataclass(frozen=True, eq=False)
class RegisterTile:
    """One copy of a resource in registers."""

    resource: Resource
    coordinates: Coordinates
    bits: int
    """Of an element in a register; truth values take a whole one."""
    run_bytes: int = 0
    """Of K that lie together in a lane, in an input of a matrix product."""

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
        inside: NDArray[np.bool_] = np.all(
            (self.coordinates >= low) & (self.coordinates < high), axis=2
        )
        every = np.all(inside, axis=1)
        if not np.array_equal(every, np.any(inside, axis=1)):
            raise EmitError(
                f"{what}: box {box} of {self.resource.name} holds some lanes of a register and "
                "not others",
                hint="cut tiles where the layout has whole registers",
                field=self.resource.name,
            )
        return [int(slot) for slot in np.flatnonzero(every)]

    def runs(self, slots: Sequence[int], most_bytes: int = LOAD_BYTES) -> Iterator[list[int]]:
        """Slots whose elements follow each other along the last dimension, in whole registers.

        Each run is what one memory instruction moves: 1, 2 or 4 registers, or less than one; of a
        tile with ``spread``, and of a ``grid``, an element (docs/program.md).
        """
        layout = self.resource.layout
        alone = layout is not None and (layout.kind == "grid" or "spread" in dict(layout.numbers))
        most = 1 if alone else most_bytes * 8 // self.bits
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


def register_tile(resource: Resource, *, single: bool = False) -> RegisterTile:
    """The tile of a resource; raises ``EmitError`` naming a layout that is not known.

    ``single``: every element in a register of its own.
    """
    layout = resource.layout
    kind = "uniform" if layout is None else layout.kind
    numbers = {} if layout is None else dict(layout.numbers)
    group, covers = numbers.get("group", 0), resource.type.dtype.covers > 1
    apart = kind == "uniform" and covers if kind != "scales" else "rows" not in numbers
    whole = single or resource.type.dtype.is_bool or apart or group
    bits = WORD_BITS if whole else resource.type.dtype.bits
    shared = covers and not (kind == "scales" or group or apart)
    odd = shared or resource.type.dtype.scale is not None
    odd |= single and resource.type.dtype.bits < 8
    if odd or bits not in (4 if kind in ("operand", "lanes") else 8, 8, 16, 32):
        raise EmitError(
            f"registers {resource.name} hold {resource.type.dtype}, of {bits} bits an element",
            hint="hold 8, 16 or 32 bits; of 4 whole words: larger tiles, or fewer waves",
            field=resource.name,
        )
    if layout is None and resource.space is not Space.SCALAR:
        raise EmitError(
            f"{resource.name!r} has no layout, which says what each lane's registers hold",
            hint=f"give one of: {', '.join(_KINDS)}; a program of a table has none, and is judged "
            "and simulated only",
            field=resource.name,
        )
    if resource.space is Space.SCALAR and kind != "uniform":
        raise EmitError(
            f"scalars {resource.name} have layout {kind!r}: a scalar is one number for all lanes",
            hint="keep what differs from lane to lane in registers, or say uniform",
            field=resource.name,
        )
    said = f"registers {resource.name} have layout {kind!r}, which no writer knows"
    check_known(kind, _KINDS, said, resource.name, EmitError)
    _check_partial(resource)
    run_bytes = 0
    if kind == "lanes":
        table = _lanes(resource)
    elif kind == "uniform":
        table = _uniform(resource)
    elif kind == "grid":
        table = _grid(resource)
    elif kind == "accumulator":
        table = _accumulator(resource)
        run_bytes = QUAD * resource.type.dtype.bits // 8
    elif kind == "scales":
        table = _scales(resource)
    else:
        table, run_bytes = _operand(resource)
    if group and (kind in ("lanes", "grid") or "flip" in numbers):
        table = _once_each(table, table[..., -1:] // group * group)
    return RegisterTile(resource, table.astype(np.int64), bits, run_bytes)


def repeats(tile: RegisterTile) -> bool:
    """Whether an element is in more than one lane, or slot."""
    held = tile.coordinates.reshape(-1, tile.coordinates.shape[-1])
    return len(np.unique(held, axis=0)) < len(held)


def partial(resource: Resource) -> Reduce | None:
    """How the parts that lanes hold of an element combine; None where each holds all of it."""
    number = dict(resource.layout.numbers).get("partial", 0) if resource.layout else 0
    return next((how for how, known in PARTIAL.items() if known == number), None)


def _check_partial(resource: Resource) -> None:
    """Lanes hold parts of rows only: what reads such a tile joins the lanes of a row."""
    layout = resource.layout
    numbers = {} if layout is None else dict(layout.numbers)
    how = numbers.get("partial", 0)
    rows = layout is not None and layout.kind == "accumulator" and numbers.get("only") == 0
    if how and (how not in PARTIAL.values() or not rows):
        raise EmitError(
            f"{resource.name} holds parts of kind {how} in layout {layout}",
            hint="partial is for accumulator tiles with only = 0, and one of: "
            + ", ".join(f"{n} ({r.value})" for r, n in PARTIAL.items()),
            field=resource.name,
        )


_KINDS = ("operand", "accumulator", "lanes", "uniform", "scales", "grid")


def _number(resource: Resource, name: str, default: int | None = None) -> int:
    assert resource.layout is not None
    found = dict(resource.layout.numbers).get(name, default)
    if found is None:
        raise EmitError(
            f"layout {resource.layout.kind!r} of {resource.name} lacks its number {name!r}",
            hint=f"give {name} in the layout's numbers",
            field=resource.name,
        )
    least = 1 if name in ("depth", "vector", "spread") else 0
    most = len(resource.type.shape) - 1 if name == "axis" else found
    if found != default and not least <= found <= most:
        raise EmitError(
            f"layout {resource.layout.kind!r} of {resource.name} has {name} = {found}",
            hint=f"give a number from {least}" + (f" to {most}" if name == "axis" else ""),
            field=resource.name,
        )
    return found


def _lanes(resource: Resource) -> Coordinates:
    """Row-major, ``vector`` at a time; with ``spread``, in all lanes of so many elements."""
    vector, spread = _number(resource, "vector", 1), _number(resource, "spread", 1)
    elements = resource.type.elements * spread
    held = max(vector // spread, 1)
    if (
        elements % vector
        or (vector % spread and spread % vector)
        or (elements % (WAVE_LANES * vector) and WAVE_LANES * vector % elements)
    ):
        raise EmitError(
            f"{resource.name} has {elements} elements, which {WAVE_LANES} lanes with {vector} each "
            "do not share evenly",
            hint=f"use a multiple of {WAVE_LANES * vector} elements, or a smaller vector",
            field=resource.name,
        )
    groups = max(elements // (WAVE_LANES * vector), 1)
    slot, lane = np.meshgrid(np.arange(groups * held), np.arange(WAVE_LANES), indexing="ij")
    if high := _number(resource, "rows", 0):
        return patches(resource, vector, high, slot, lane)
    first = (slot // held * WAVE_LANES + lane) * vector + slot % held * spread
    # Fewer elements than lanes: the lanes begin again, and hold the same elements.
    flat = first % elements // spread
    return np.stack(np.unravel_index(flat, resource.type.shape), axis=-1)


def _grid(resource: Resource) -> Coordinates:
    """Each dimension has ``lanes`` (with its axis), of which neighbours are ``step`` apart."""
    shape = resource.type.shape
    lanes = [_number(resource, f"lanes{axis}") for axis in range(len(shape))]
    steps = [_number(resource, f"step{axis}") for axis in range(len(shape))]
    if any(not n or not s or size % n for n, s, size in zip(lanes, steps, shape, strict=True)):
        raise EmitError(
            f"{resource.name} is {resource.type}, of lanes {lanes} that are {steps} apart",
            hint="give each dimension a number of lanes that divides it",
            field=resource.name,
        )
    held = [size // count for size, count in zip(shape, lanes, strict=True)]
    slots = np.stack(np.unravel_index(np.arange(prod(held)), held), axis=-1)[:, None, :]
    lane = np.arange(WAVE_LANES)[:, None] // np.array(steps) % np.array(lanes)
    return np.asarray(slots * np.array(lanes) + lane[None])


def _uniform(resource: Resource) -> Coordinates:
    flat = np.arange(1 if resource.type.dtype.covers > 1 else resource.type.elements)
    place = np.stack(np.unravel_index(flat, resource.type.shape or (1,)), axis=-1)
    place = place[:, : len(resource.type.shape)]
    return np.repeat(place[:, None, :], WAVE_LANES, axis=1)


def _accumulator(resource: Resource) -> Coordinates:
    """``side`` x ``side`` blocks: a lane has a row, and columns in runs of four.

    With ``flip`` rows and columns change places. A tile of one dimension holds what lanes need of
    it beside a tile of two: by row (``only`` 0) or by column (``only`` 1), of which there may be as
    few as fill a register run in all lanes.
    """
    side, only = _side(resource), _number(resource, "only", -1)
    shape = resource.type.shape
    lane = np.arange(WAVE_LANES)
    register = np.arange(side * side // WAVE_LANES)
    columns = (
        register[:, None] // QUAD * (QUAD * WAVE_LANES // side)
        + lane // side * QUAD
        + register[:, None] % QUAD
    )
    rows = np.broadcast_to(lane % side, columns.shape)
    leading = len(shape) - (2 if only < 0 else 1)
    if leading < 0 or prod(shape[:leading]) != 1:
        raise EmitError(
            f"{resource.name} is {resource.type}, but an accumulator tile has rows and columns",
            hint="keep other dimensions at 1; say only = 0 or 1 for a vector",
            field=resource.name,
        )
    nothing = [np.zeros_like(rows)] * leading
    if only >= 0:
        held = columns if only else rows[:1]
        table = [
            np.stack([*(z[: len(held)] for z in nothing), side * block + held], axis=-1)
            for block in range(-(-shape[-1] // side))
        ]
        return np.concatenate(table)[: shape[-1] * len(held) // side]
    flip, group = _number(resource, "flip", 0), _number(resource, "group", 0)
    if group and not flip:  # each number once, in all lanes of its row
        table = [
            np.stack([*(z[:1] for z in nothing), side * i + rows[:1], 0 * rows[:1] + j], axis=-1)
            for i in range(shape[-2] // side)
            for j in range(0, shape[-1], group)
        ]
        return np.concatenate(table)
    across, along = (shape[-1], shape[-2]) if flip else (shape[-2], shape[-1])
    table = []
    for i in range(across // side):
        for j in range(along // side):
            pair = [side * i + rows, side * j + columns]
            table.append(np.stack([*nothing, *(reversed(pair) if flip else pair)], axis=-1))
    return np.concatenate(table)


def _side(resource: Resource) -> int:
    """The side of a block; every dimension that is cut into blocks must be whole ones."""
    side = _number(resource, "side")
    shape = resource.type.shape
    assert resource.layout is not None
    if resource.layout.kind in ("operand", "scales"):
        cut = [size for axis, size in enumerate(shape) if axis != k_axis(resource)][-1:]
    else:
        cut = list(shape[-1:] if "only" in dict(resource.layout.numbers) else shape[-2:])
    alone = resource.layout.kind == "operand" and "only" in dict(resource.layout.numbers)
    whole = side
    if resource.layout.kind == "accumulator" and _number(resource, "only", 0) == 1 and side:
        whole = min(side, QUAD * WAVE_LANES // side)
    if side not in (16, 32) or not (cut or alone) or any(size % whole for size in cut):
        raise EmitError(
            f"{resource.name} is {resource.type} in blocks of {side}",
            hint="blocks are of 16 or 32 rows, and tiles whole blocks",
            field=resource.name,
        )
    return side


def k_axis(resource: Resource) -> int:
    """The dimension along which a matrix product sums over this input."""
    last = len(resource.type.shape) - 1
    assert resource.layout is not None
    if resource.layout.kind == "operand":
        return _number(resource, "axis", last)
    return last - _number(resource, "flip", 0)


def row_axis(resource: Resource) -> int:
    """The other one, by which lanes go."""
    return next(
        axis for axis in reversed(range(len(resource.type.shape))) if axis != k_axis(resource)
    )


def _operand(resource: Resource) -> tuple[Coordinates, int]:
    """Runs of 16 bytes where K has room for them, whatever the instruction takes at once.

    The order of K inside a tile is free as long as both operands agree: 16 bytes feed one MFMA of
    16-bit 16x16x32, two of 16x16x16 and half of an fp8 16x16x128. ``permuted`` says that the other
    operand is a matrix result, which has K in runs of four; ``short``, that each instruction has a
    box of K of its own; ``run``, how many elements lie together; ``only``, that it has K alone.
    """
    side, depth = _side(resource), _number(resource, "depth")
    shape, bits = resource.type.shape, resource.type.dtype.bits
    deep = k_axis(resource)
    across = None if _number(resource, "only", 0) else row_axis(resource)
    rows, length = 1 if across is None else shape[across], shape[deep]
    blocks = WAVE_LANES // side
    run = QUAD if _number(resource, "permuted", 0) else LOAD_BYTES * 8 // bits
    run = _number(resource, "run", 0) or run
    if _number(resource, "short", 0) or length % (blocks * run):
        run = depth // blocks
    if prod(shape) != rows * length or not run or length % depth or length % (blocks * run):
        raise EmitError(
            f"{resource.name} is {resource.type}, which is no rows of K in blocks of {depth}",
            hint="an operand has rows and K, which is a multiple of the depth",
            field=resource.name,
        )
    lane = np.arange(WAVE_LANES)
    slot = np.arange(length // blocks)
    along = (slot[:, None] // run * blocks + lane // side) * run + slot[:, None] % run
    along = _codes(resource, along)
    table = np.zeros((max(rows // side, 1), *along.shape, len(shape)), np.int64)
    table[..., deep] = along
    if across is not None:
        table[..., across] = side * np.arange(rows // side)[:, None, None] + lane % side
    return table.reshape(-1, WAVE_LANES, len(shape)), run * bits // 8


def _codes(resource: Resource, along: Coordinates) -> Coordinates:
    """Of codes that cover ``group`` elements of K, the first element, each once in a lane."""
    group = _number(resource, "group", 0)
    if not group:
        return along
    return _once_each(along // group * group)


def _once_each(table: Coordinates, columns: Coordinates | None = None) -> Coordinates:
    """Slots without those that all lanes have already, with other columns if some are given."""
    if columns is not None:
        table = np.concatenate([table[..., :-1], columns], axis=-1)
    return np.stack(list({held.tobytes(): held for held in table}.values()))


def _scales(resource: Resource) -> Coordinates:
    """By block of rows and step of K, the scale of its row and block in each lane: in a register
    of its own, or those of ``rows`` blocks and ``steps`` steps in one, blocks first.

    Lane l of the matrix unit has that of row l % side and of elements from 32 * (l // side) on
    (CDNA4 ISA, "Matrix operations with block scales").
    """
    side, depth = _side(resource), _number(resource, "depth")
    rows, length = resource.type.shape
    covers = resource.type.dtype.covers
    if length % depth or depth * side != covers * WAVE_LANES:
        raise EmitError(
            f"{resource.name} is {resource.type}, which is no rows of scales for steps of {depth}",
            hint=f"a step has {WAVE_LANES} scales of {covers} elements",
            field=resource.name,
        )
    lane = np.arange(WAVE_LANES)
    high, deep = _number(resource, "rows", 1), _number(resource, "steps", 1)
    if rows % (side * high) or length % (depth * deep):
        raise EmitError(
            f"{resource.name} is {resource.type}, which is no scales of {high} blocks of {side} "
            f"rows and {deep} steps of {depth} to a register",
            hint="cut it at whole registers",
            field=resource.name,
        )
    counts = (rows // side // high, length // depth // deep, deep, high)
    far, away, step, block = np.indices(counts).reshape(len(counts), -1, 1)
    row = side * (far * high + block) + lane % side
    along = depth * (away * deep + step) + covers * (lane // side)
    return np.stack([row, along], axis=-1)
