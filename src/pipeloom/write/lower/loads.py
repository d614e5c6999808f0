"""Global memory to LDS or registers.

Elements that follow each other in a lane and in memory are loaded together, up to 16 bytes at a
time. What may lie before the array, where a launch may have any size, is left out lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.program import Meaning, Node, NodeKind, Work
from pipeloom.program.tiles import Box
from pipeloom.write.addresses import OUT_OF_RANGE
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import LDS_DMA_BY_BYTES, M0, VCC, Register
from pipeloom.write.lower.columns import dealt_tile
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.copy_boxes import (
    axes_of,
    require_same_shape,
    require_same_type,
    shifted,
    words_of,
)
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.global_arrays import Array
from pipeloom.write.lower.linear import LaneNumber, PlannedNumber, Table, lane_number
from pipeloom.write.lower.loop_taps import MappedLoad
from pipeloom.write.lower.paged_arrays import PagedArray
from pipeloom.write.lower.register_tiles import WORD, WORD_BITS, WORDS, RegisterTile

SINGLE = {1: "ubyte", 2: "ushort"}


def _scalar_offset(context: Context, code: Code, array: Array, work: Work) -> Register | int:
    if array.node.kind is not NodeKind.STREAM or work.iteration is None:
        return 0
    return context.clock.offset(code, array, work.iteration)


@dataclass(frozen=True, slots=True)
class _Missing:
    """The lanes' places along the loop's dimension, for loads of what may not be there."""

    planned: tuple[PlannedNumber, ...]
    scratch: str


def _plan_missing(
    context: Context, array: Array, tables: Sequence[Sequence[Table]]
) -> _Missing | None:
    """For the loads of a step, whose coordinates are ``tables``; None where nothing is missing."""
    if not context.memory.placing.ragged or array.node.kind is not NodeKind.STREAM:
        return None
    axis = array.dims.index(array.over)
    what = f"the place of a lane along {array.over}"
    planned = tuple(
        PlannedNumber.of(context.frame, context.group.waves, lane_number(table[axis], what))
        for table in tables
    )
    return _Missing(planned, context.frame.scratch("missing", 4))


class _Addresses(Protocol):
    """Where the loads of a step find their elements, as it is written."""

    def lanes(self, code: Code, number: int) -> Register:
        """The lanes' offsets of load ``number``."""

    def scalar(self, code: Code) -> Register | int:
        """The offset that all of them have in common."""


class _Present:
    """The offsets of a step's loads: out of range in lanes whose element is before the array."""

    def __init__(
        self,
        context: Context,
        code: Code,
        array: Array,
        offsets: Sequence[str],
        missing: _Missing | None,
        work: Work,
    ) -> None:
        self._context, self._array, self._work = context, array, work
        self._offsets = offsets
        self._frame, self._missing = context.frame, missing if context.may_miss else None
        self._known: PlannedNumber | None = None
        self._scalar: Register | int | None = None
        if self._missing is not None:
            self._count = context.clock.missing(code, work.iteration or 0)
            code("v_mov_b32", context.frame[self._missing.scratch].part(3), OUT_OF_RANGE)

    def lanes(self, code: Code, number: int) -> Register:
        """Of load ``number``."""
        missing, frame = self._missing, self._frame
        offset = frame[self._offsets[number]]
        if missing is None:
            return offset
        place, work, result, outside = (frame[missing.scratch].part(i) for i in range(4))
        if self._known != missing.planned[number]:
            self._known = missing.planned[number]
            self._known.write(code, place, work)
        code("v_cmp_le_u32", VCC, self._count, place)
        code("v_cndmask_b32", result, outside, offset, VCC)
        return result

    def scalar(self, code: Code) -> Register | int:
        """The place of the iteration's tile, once."""
        if self._scalar is None:
            self._scalar = _scalar_offset(self._context, code, self._array, self._work)
        return self._scalar


class _Elsewhere:
    """The offsets of loads from an array that has dimensions of its own."""

    def __init__(self, context: Context, loads: Sequence[MappedLoad], iteration: int) -> None:
        self._context, self._loads, self._iteration = context, loads, iteration
        self._scalar: Register | int = 0

    def lanes(self, code: Code, number: int) -> Register:
        """Of load ``number``."""
        lanes, self._scalar = self._loads[number].address(
            code, self._context.clock, self._iteration
        )
        return lanes

    def scalar(self, code: Code) -> Register | int:
        """The tap's place, where all lanes have one."""
        return self._scalar


def _plan_addresses(
    context: Context, work: Work, array: Array, tables: Sequence[Sequence[Table]]
) -> Callable[[Code], _Addresses]:
    """Of a step's loads, whose coordinates are ``tables``."""
    members, memory = context.group.waves, context.memory
    source = memory.mapped.get(array.name)
    if isinstance(source, PagedArray):
        paged = source.plan(tables, members, context.clock)
        return lambda code: paged.begin(code, work.iteration or 0)
    if source is not None:
        loads = [source.plan(table, members, context.clock) for table in tables]
        return lambda code: _Elsewhere(context, loads, work.iteration or 0)
    if array.node.kind is NodeKind.STREAM:
        context.clock.follow(array)
    offsets = [memory.offset(array, table, members) for table in tables]
    missing = _plan_missing(context, array, tables)
    return lambda code: _Present(context, code, array, offsets, missing, work)


def plan_lds_dma(context: Context, work: Work) -> Write:
    """Straight into LDS: 64 lanes write a run at m0, so each fetches what belongs there."""
    read, write = work.reads[0], work.writes[0]
    members, frame, target = context.group.waves, context.frame, context.target
    array, tile = context.memory.arrays[read.resource], context.lds[write.resource]
    sources, targets = context.boxes(read, work.parts), context.boxes(write)
    require_same_shape(work, sources, targets)
    if len(members) > 1 and (not write.shared or len(set(targets)) > 1):
        raise EmitError(
            f"{work.label}: waves load into LDS each by itself",
            hint="make the access shared: all waves of the group load the box together",
            field=work.label,
        )
    rows = tile.rows_of(targets[0])
    width = target.lds_load_bytes(array.node.align) if tile.row_bytes % LOAD_BYTES == 0 else WORD
    runs = tile.runs_of(targets[0])
    total = sum(stop - start for start, stop in runs)
    if total % (len(members) * WAVE_LANES * width):
        width = WORD  # a small tile, which narrow loads share evenly
    run = len(members) * WAVE_LANES * width
    order = tile.layout.order if tile.layout else None
    piece = order.run * order.ways if order and order.ways > 1 else 1
    if tile.bytes == total < tile.loaded and run % total == 0:
        runs, total = [(0, run)], run  # the same elements again and again
    whole = all((stop - start) % (WAVE_LANES * width) == 0 for start, stop in runs)
    even = runs and whole and not total % run and not tile.row_bytes % width
    if not even or rows.start % piece or len(rows) % piece:
        raise EmitError(
            f"{work.label} brings {total} bytes of whole rows to LDS, but {len(members)} waves "
            f"bring {run} at once",
            hint="load whole rows, as many as the waves of the group bring together",
            field=work.label,
        )
    context.require_pitch(array, width)
    once = array.elements_of(width)
    if array.dims[-1] != array.over:
        context.require_multiple(array.dims[-1], _at_a_time(context, array, once))
    elif context.memory.placing.ragged:
        context.require_multiple(array.dims[-1], once)
    elif _ends_anywhere(context):
        context.require_multiple(array.dims[-1], _at_a_time(context, array, once))
    lane = np.arange(WAVE_LANES)[None, :]
    filled = np.concatenate([np.arange(*each, WAVE_LANES * width) for each in runs])
    begins = filled.reshape(-1, len(members))
    tables = [
        axes_of(
            shifted(tile.source((begin[:, None] + lane * width) % tile.bytes), targets, sources)
        )
        for begin in begins
    ]
    addresses = _plan_addresses(context, work, array, tables)
    copy = tile.base + write.copy * tile.copy_bytes
    starts = []
    for begin in begins:
        places = {w: int(at - begin[0]) for w, at in zip(members, begin, strict=True)}
        apart = frame.by_wave([places.get(w, 0) for w in range(frame.waves)])
        starts.append((apart, copy + int(begin[0])))
    load = LDS_DMA_BY_BYTES[width]
    buffer = f"buffer {array.name}"

    def emit(code: Code) -> None:
        found = addresses(code)
        for number, (slice_start, place) in enumerate(starts):
            where = found.lanes(code, number)
            if isinstance(slice_start, int):
                code("s_mov_b32", M0, slice_start + place)
            else:
                code("s_add_u32", M0, frame[slice_start], place)
            offset = found.scalar(code)
            code(load, where, frame[buffer], offset, modifiers=["offen", "lds"])

    return emit


def plan_load(context: Context, work: Work) -> Write:
    """To registers, up to four at a time."""
    read, write = work.reads[0], work.writes[0]
    members, frame = context.group.waves, context.frame
    array, tile = context.memory.arrays[read.resource], context.tile(write, work)
    box = context.register_box(write, work)
    sources, targets = context.boxes(read, work.parts), [box] * len(members)
    require_same_shape(work, sources, targets)
    require_same_type(context, work)
    if array.node.type.dtype.covers > 1:
        context.require_multiple(array.dims[-1], array.node.type.dtype.covers)
    loads, tables = [], []
    if tile.bits > array.node.type.dtype.bits and len(array.dims) == 2 and work.iteration is None:
        return _plan_single_loads(context, work, array, tile, box, sources)
    single = tile.bits == WORD_BITS and array.element < WORD
    slots = tile.slots_in(box, work.label)
    lying = _lying(context, array, tile, targets[0], sources[0])
    for run in [[slot] for slot in slots] if single else lying.runs(slots):
        words = words_of(tile, run, work)
        table = np.repeat(tile.coordinates[run[0]][None], len(members), axis=0)
        tables.append(axes_of(shifted(table, targets, sources)))
        whole = single or not array.dims
        whole |= array.dims[-1:] == (array.over,) and not _ends_anywhere(context)
        if not whole:
            context.require_multiple(array.dims[-1], _at_a_time(context, array, len(run)))
        context.require_pitch(array, array.element if single else WORD)
        loads.append((run[0] // tile.pack, words))
    buffer = f"buffer {array.name}"
    addresses = _plan_addresses(context, work, array, tables)

    def emit(code: Code) -> None:
        found = addresses(code)
        for number, (first, words) in enumerate(loads):
            result = context.registers(write).part(first, words)
            load = f"buffer_load_{SINGLE[array.element] if single else WORDS[words]}"
            where = found.lanes(code, number)
            offset = found.scalar(code)
            code(load, result, where, frame[buffer], offset, modifiers=["offen"])

    return emit


def _lying(
    context: Context, array: Array, tile: RegisterTile, here: Box, there: Box
) -> RegisterTile:
    """A register tile with coordinates as memory has them, so that its runs are memory's."""
    if array.blocks is None:
        return dealt_tile(tile, array.dims, context.memory.dealt)
    dtype = array.node.type.dtype
    places = array.blocks.place(*axes_of(shifted(tile.coordinates, [here], [there])))
    codes = np.stack([places[0], places[1] // dtype.covers], axis=-1)
    return replace(tile, coordinates=codes)


def _plan_single_loads(
    context: Context,
    work: Work,
    array: Array,
    tile: RegisterTile,
    box: Box,
    sources: Sequence[Box],
) -> Write:
    """Element by element beside a result, once: offsets are made as they are needed.

    An element's place is the lanes' pattern, which all have in common, and a constant.
    """
    write, frame, memory = work.writes[0], context.frame, context.memory
    members = context.group.waves
    kinds: dict[tuple[LaneNumber, ...], list[tuple[int, int, int]]] = {}
    for slot in tile.slots_in(box, work.label):
        table = np.repeat(tile.coordinates[slot][None], len(members), axis=0)
        axes = memory.places(array, axes_of(shifted(table, [box] * len(members), sources)))
        row, column = (int(axis.min()) for axis in axes)
        what = f"the place of a lane in {array.name}"
        numbers = (lane_number(axes[0] - row, what), lane_number(axes[1] - column, what))
        kinds.setdefault(numbers, []).append((column, row, slot))
    context.require_pitch(array, array.element)
    covers = array.node.type.dtype.covers
    planned = {n: [PlannedNumber.of(frame, members, number) for number in n] for n in kinds}
    scratch = frame.scratch("single loads", 6)
    frame.scalar("scratch")

    def emit(code: Code) -> None:
        pattern, across, place, spare, outside, offset = (frame[scratch].part(i) for i in range(6))
        rows = frame[f"stride {array.name}.0"]
        code("v_mov_b32", outside, OUT_OF_RANGE)
        for numbers, elements in kinds.items():
            planned[numbers][0].write(code, pattern, spare)
            code("v_mul_lo_u32", pattern, pattern, rows)
            planned[numbers][1].write(code, across, spare)
            codes = across
            if covers > 1:
                codes = spare
                code("v_lshrrev_b32", codes, covers.bit_length() - 1, across)
            code("v_lshl_add_u32", pattern, codes, array.element.bit_length() - 1, pattern)
            known: int | None = None
            for column, row, slot in sorted(elements):
                if column != known:
                    known = column
                    code("v_add_u32", place, column, across)
                    code("v_cmp_gt_u32", VCC, memory.bound(array.dims[1]), place)
                code("s_mul_i32", frame["scratch"], rows, row)
                begin = column // covers * array.element
                code("s_add_u32", frame["scratch"], frame["scratch"], begin)
                code("v_add_u32", offset, frame["scratch"], pattern)
                code("v_cndmask_b32", offset, outside, offset, VCC)
                into = context.registers(write).part(slot)
                load = f"buffer_load_{SINGLE[array.element]}"
                code(load, into, offset, frame[f"buffer {array.name}"], 0, modifiers=["offen"])

    return emit


def _ends_anywhere(context: Context) -> bool:
    """Whether arrays may end within a tile of the loop's dimension."""
    placing = context.memory.placing
    return placing.ragged or placing.past_ends(context.program.meaning)


def _at_a_time(context: Context, array: Array, count: int) -> int:
    """Of what number rows must be multiples, for loads of so many elements.

    Elements past the end of a row may be anything, where no sum gets to them; past that of an array
    of one dimension they are zeros. A load reaches past the last row's end too; a descriptor clips
    raw buffers word by word (CDNA3 ISA, "Buffer addressing"), and rows that follow others are whole
    words apart.
    """
    if len(array.dims) > 1 and not _harmless_past_rows(context, array):
        return count
    return 1 if array.has_pitch else WORD // min(array.element, WORD) if array.element else count


def _harmless_past_rows(context: Context, array: Array) -> bool:
    """Whether elements past the end of a row may be anything: no sum gets to them."""
    meaning, dim = context.program.meaning, array.dims[-1]
    reached = {array.name}
    for node in meaning.nodes:
        if node.kind is NodeKind.VIEW and reached & set(node.operands):
            return False
        if node.kind is NodeKind.OP and reached & set(node.operands):
            if dim in meaning.domain(node).dims and dim not in node.type.dims:
                return False
            if reached & set(_past_end(meaning, node, dim)):
                reached.add(node.name)
    return True


def _past_end(meaning: Meaning, node: Node, dim: str) -> list[str]:
    """Operands of which something is left in a node past the end of a dimension."""
    found = [*node.operands]
    truths = node.op == "mul" and meaning[node.uses[0]].type.dtype.is_bool
    if meaning.ends(node, dim) or (truths and _is_inside(meaning, node.uses[1], dim)):
        found.remove(node.uses[0])
    if node.op == "select" and _is_inside(meaning, node.uses[0], dim):
        found.remove(node.uses[1])
    return found


def _is_inside(meaning: Meaning, name: str, dim: str) -> bool:
    """Whether a value is the truth that something is left along a dimension."""
    node = meaning[name]
    if node.op != "ge" or node.when is not None or not meaning.is_left(node.uses[0], dim):
        return False
    least = meaning[node.uses[1]]
    return least.kind is NodeKind.CONSTANT and least.start == 1
