"""Copies between spaces: global memory, LDS and registers.

Which instructions a copy takes follows from the tables of its tiles: elements that follow each
other in a lane and in memory move together, up to 16 bytes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES, Target
from pipeloom.program import Access, NodeKind, Space, Work
from pipeloom.program.tiles import Box
from pipeloom.write.addresses import LDS_WINDOW, OUT_OF_RANGE
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import LDS_DMA_BY_BYTES, M0, VCC, Bank, Register
from pipeloom.write.lower.columns import dealt_tile
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.elementwise import plan_move
from pipeloom.write.lower.frame import Frame, Write
from pipeloom.write.lower.lds import LdsTile
from pipeloom.write.lower.linear import (
    LaneNumber,
    Table,
    lane_number,
    wave_part,
    write_number,
)
from pipeloom.write.lower.memory import Array
from pipeloom.write.lower.register_tiles import WORD_BITS, RegisterTile, k_axis, row_axis
from pipeloom.write.lower.stores import plan_store
from pipeloom.write.lower.templates import float_bits

WORD = 4
WORDS = {1: "dword", 2: "dwordx2", 4: "dwordx4"}
SINGLE = {1: "ubyte", 2: "ushort"}
TRANSPOSED_READ = "ds_read_b64_tr_b"
TRANSPOSED_LANES, TRANSPOSED_BITS = 16, 64
"""Lanes that exchange what they read, 64 bits each, in rows of 16 elements (CDNA4 ISA)."""


def plan_copy(context: Context, work: Work) -> Write:
    """The lowering of a copy, by where it reads and writes."""
    read, write = work.reads[0], work.writes[0]
    source, target = context.memory_node(read), context.memory_node(write)
    if target is not None:
        return plan_store(context, work)
    if source is not None and source.kind in (NodeKind.SCALAR, NodeKind.CONSTANT):
        return _plan_fill(context, work)
    space = context.program.resource(write.resource).space
    if source is not None:
        return _plan_lds_dma(context, work) if space is Space.LDS else _plan_load(context, work)
    origin = context.program.resource(read.resource).space
    if origin is Space.LDS and space is Space.LDS:
        raise EmitError(
            f"{work.label} copies from LDS to LDS",
            hint="go through registers",
            field=work.label,
        )
    if Space.LDS in (origin, space):
        return _plan_lds(context, work)
    return plan_move(context, work)


def _shifted(coordinates: Table, here: Sequence[Box], there: Sequence[Box]) -> Table:
    """By wave: coordinates of one box as those of the same elements in another."""
    moves = np.array(
        [[q[0] - p[0] for p, q in zip(a, b, strict=True)] for a, b in zip(here, there, strict=True)]
    )
    return np.asarray(coordinates + moves[:, None, :])


def _axes(table: Table) -> list[Table]:
    """By dimension."""
    return list(np.moveaxis(table, -1, 0))


def _same_shape(work: Work, a: Sequence[Box], b: Sequence[Box]) -> None:
    for here, there in zip(a, b, strict=True):
        if [q - p for p, q in here] != [q - p for p, q in there]:
            raise EmitError(
                f"{work.label} copies {here} to {there}, which has another shape",
                hint="a copy moves a box to a box of its shape, dimensions in the same order",
                field=work.label,
            )


# --- from global memory ---------------------------------------------------------------------------


def _scalar_offset(context: Context, code: Code, array: Array, work: Work) -> Register | int:
    if array.node.kind is not NodeKind.STREAM or work.iteration is None:
        return 0
    return context.clock.offset(code, array, work.iteration)


@dataclass(frozen=True, slots=True)
class _Missing:
    """The lanes' places along the loop's dimension, for loads of what may not be there."""

    numbers: tuple[LaneNumber, ...]
    waves: tuple[str | int, ...]
    scratch: str


def _plan_missing(
    context: Context, array: Array, tables: Sequence[Sequence[Table]]
) -> _Missing | None:
    """For the loads of a step, whose coordinates are ``tables``; None where nothing is missing."""
    if not context.memory.placing.ragged or array.node.kind is not NodeKind.STREAM:
        return None
    axis = array.dims.index(array.over)
    what = f"the place of a lane along {array.over}"
    numbers = tuple(lane_number(table[axis], what) for table in tables)
    waves = tuple(wave_part(context.frame, context.group.waves, number) for number in numbers)
    return _Missing(numbers, waves, context.frame.scratch("missing", 4))


class _Present:
    """The offsets of a step's loads: out of range in lanes whose element is before the array."""

    def __init__(self, context: Context, code: Code, missing: _Missing | None, work: Work) -> None:
        self._frame, self._missing = context.frame, missing if context.may_miss else None
        self._known: LaneNumber | None = None
        if self._missing is not None:
            self._count = context.clock.missing(code, work.iteration or 0)
            code("v_mov_b32", context.frame[self._missing.scratch].part(3), OUT_OF_RANGE)

    def offset(self, code: Code, number: int, name: str) -> Register:
        """Of load ``number``, whose offsets ``name`` holds."""
        missing, frame = self._missing, self._frame
        if missing is None:
            return frame[name]
        place, work, result, outside = (frame[missing.scratch].part(i) for i in range(4))
        if self._known != missing.numbers[number]:
            self._known = missing.numbers[number]
            write_number(code, frame, place, self._known, missing.waves[number], work)
        code("v_cmp_le_u32", VCC, self._count, place)
        code("v_cndmask_b32", result, outside, frame[name], VCC)
        return result


def _plan_lds_dma(context: Context, work: Work) -> Write:
    """Straight into LDS: 64 lanes write a run at m0, so each fetches what belongs there."""
    read, write = work.reads[0], work.writes[0]
    members, frame, target = context.group.waves, context.frame, context.target
    array, tile = context.memory.arrays[read.resource], context.lds[write.resource]
    sources, targets = context.boxes(read, work.parts), context.boxes(write)
    _same_shape(work, sources, targets)
    if len(members) > 1 and (not write.shared or len(set(targets)) > 1):
        raise EmitError(
            f"{work.label}: waves load into LDS each by itself",
            hint="make the access shared: all waves of the group load the box together",
            field=work.label,
        )
    rows = tile.rows_of(targets[0])
    width = target.lds_load_bytes(array.node.align) if tile.row_bytes % LOAD_BYTES == 0 else WORD
    start, total = rows.start * tile.row_bytes, len(rows) * tile.row_bytes
    if total % (len(members) * WAVE_LANES * width):
        width = WORD  # a small tile, which narrow loads share evenly
    run = len(members) * WAVE_LANES * width
    order = tile.layout.order if tile.layout else None
    piece = order.run * order.ways if order and order.ways > 1 else 1
    if not rows or total % run or tile.row_bytes % width or rows.start % piece or len(rows) % piece:
        raise EmitError(
            f"{work.label} brings {total} bytes of whole rows to LDS, but {len(members)} waves "
            f"bring {run} at once",
            hint="load whole rows, as many as the waves of the group bring together",
            field=work.label,
        )
    context.clock.follow(array) if array.node.kind is NodeKind.STREAM else None
    context.require_pitch(array, width)
    ragged = context.memory.placing.ragged
    if ragged == (array.dims[-1] == array.over) or (ragged and _is_summed(context, array.dims[-1])):
        context.require_multiple(array.dims[-1], array.elements_of(width))
    lane = np.arange(WAVE_LANES)[None, :]
    wave = np.arange(len(members))[:, None]
    tables = []
    for number in range(total // run):
        position = start + number * run + (wave * WAVE_LANES + lane) * width
        tables.append(_axes(_shifted(tile.source(position), targets, sources)))
    offsets = [context.memory.offset(array, table, members) for table in tables]
    missing = _plan_missing(context, array, tables)
    places = {w: i * WAVE_LANES * width for i, w in enumerate(members)}
    slice_start = frame.by_wave([places.get(w, 0) for w in range(frame.waves)])
    base = tile.base + write.copy * tile.copy_bytes + start
    load = LDS_DMA_BY_BYTES[width]
    buffer = f"buffer {array.name}"

    def emit(code: Code) -> None:
        offset: Register | int = 0
        present = _Present(context, code, missing, work)
        for number, name in enumerate(offsets):
            place = base + number * run
            where = present.offset(code, number, name)
            if isinstance(slice_start, int):
                code("s_mov_b32", M0, slice_start + place)
            else:
                code("s_add_u32", M0, frame[slice_start], place)
            if number == 0:
                offset = _scalar_offset(context, code, array, work)
            code(load, where, frame[buffer], offset, modifiers=["offen", "lds"])

    return emit


def _plan_load(context: Context, work: Work) -> Write:
    """To registers, up to four at a time."""
    read, write = work.reads[0], work.writes[0]
    members, frame = context.group.waves, context.frame
    array, tile = context.memory.arrays[read.resource], context.tile(write, work)
    box = context.register_box(write, work)
    sources, targets = context.boxes(read, work.parts), [box] * len(members)
    _same_shape(work, sources, targets)
    _same_type(context, work)
    context.clock.follow(array) if array.node.kind is NodeKind.STREAM else None
    loads, tables = [], []
    if tile.bits > array.node.type.dtype.bits and len(array.dims) == 2 and work.iteration is None:
        return _plan_single_loads(context, work, array, tile, box, sources)
    single = tile.bits == WORD_BITS and array.element < WORD
    slots = tile.slots_in(box, work.label)
    lying = dealt_tile(tile, array.dims, context.memory.dealt)
    for run in [[slot] for slot in slots] if single else lying.runs(slots):
        words = _words(tile, run, work)
        table = np.repeat(tile.coordinates[run[0]][None], len(members), axis=0)
        tables.append(_axes(_shifted(table, targets, sources)))
        name = context.memory.offset(array, tables[-1], members)
        whole = single or (array.dims[-1] == array.over and not context.memory.placing.ragged)
        if not whole and not _harmless_past_rows(context, array):
            context.require_multiple(array.dims[-1], len(run))
        context.require_pitch(array, array.element if single else WORD)
        loads.append((run[0] // tile.pack, words, name))
    if array.node.type.dtype.covers > 1:
        context.require_multiple(array.dims[-1], array.node.type.dtype.covers)
    buffer = f"buffer {array.name}"
    missing = _plan_missing(context, array, tables)

    def emit(code: Code) -> None:
        offset = _scalar_offset(context, code, array, work)
        present = _Present(context, code, missing, work)
        for number, (first, words, name) in enumerate(loads):
            result = context.registers(write).part(first, words)
            load = f"buffer_load_{SINGLE[array.element] if single else WORDS[words]}"
            where = present.offset(code, number, name)
            code(load, result, where, frame[buffer], offset, modifiers=["offen"])

    return emit


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
        axes = memory.places(array, _axes(_shifted(table, [box] * len(members), sources)))
        row, column = (int(axis.min()) for axis in axes)
        what = f"the place of a lane in {array.name}"
        numbers = (lane_number(axes[0] - row, what), lane_number(axes[1] - column, what))
        kinds.setdefault(numbers, []).append((column, row, slot))
    context.require_pitch(array, array.element)
    waves = {n: tuple(wave_part(frame, members, number) for number in n) for n in kinds}
    scratch = frame.scratch("single loads", 6)
    frame.scalar("scratch")

    def emit(code: Code) -> None:
        pattern, across, place, spare, outside, offset = (frame[scratch].part(i) for i in range(6))
        rows = frame[f"stride {array.name}.0"]
        code("v_mov_b32", outside, OUT_OF_RANGE)
        for numbers, elements in kinds.items():
            write_number(code, frame, pattern, numbers[0], waves[numbers][0], spare)
            code("v_mul_lo_u32", pattern, pattern, rows)
            write_number(code, frame, across, numbers[1], waves[numbers][1], spare)
            code("v_lshl_add_u32", pattern, across, array.element.bit_length() - 1, pattern)
            known: int | None = None
            for column, row, slot in sorted(elements):
                if column != known:
                    known = column
                    code("v_add_u32", place, column, across)
                    code("v_cmp_gt_u32", VCC, memory.bound(array.dims[1]), place)
                code("s_mul_i32", frame["scratch"], rows, row)
                code("s_add_u32", frame["scratch"], frame["scratch"], column * array.element)
                code("v_add_u32", offset, frame["scratch"], pattern)
                code("v_cndmask_b32", offset, outside, offset, VCC)
                into = context.registers(write).part(slot)
                load = f"buffer_load_{SINGLE[array.element]}"
                code(load, into, offset, frame[f"buffer {array.name}"], 0, modifiers=["offen"])

    return emit


def _harmless_past_rows(context: Context, array: Array) -> bool:
    """Whether elements past the end of a row may be anything: whole words that no sum gets to.

    A load reaches past the last row's end too; a descriptor clips raw buffers word by word (CDNA3
    ISA, "Buffer addressing"), and rows that follow others are whole words apart.
    """
    meaning, dim = context.program.meaning, array.dims[-1]
    reached = {array.name}
    for node in meaning.nodes:
        if node.kind is NodeKind.OP and reached & set(node.operands):
            if dim in meaning.domain(node).dims and dim not in node.type.dims:
                return False
            if reached & set(node.operands[1:]) or not meaning.ends(node, dim):
                reached.add(node.name)
    return array.element == WORD or array.has_pitch


def _is_summed(context: Context, dim: str) -> bool:
    meaning = context.program.meaning
    return any(dim in meaning.domain(n).dims and dim not in n.type.dims for n in meaning.nodes)


def _words(tile: RegisterTile, run: Sequence[int], work: Work) -> int:
    bits = len(run) * tile.bits
    if bits % WORD_BITS:
        raise EmitError(
            f"{work.label} moves {len(run)} element(s) of {tile.resource.type.dtype} per lane, "
            "less than a register",
            hint="choose a layout in which neighbours of a lane fill a register",
            field=tile.resource.name,
        )
    return bits // WORD_BITS


def _same_type(context: Context, work: Work) -> None:
    there, here = context.type_of(work.reads[0]).dtype, context.type_of(work.writes[0]).dtype
    if there != here:
        raise EmitError(
            f"{work.label} copies {there} to {here}",
            hint="a copy moves bits; conversions are ops (convert)",
            field=work.label,
        )


# --- LDS and registers ----------------------------------------------------------------------------


def _plan_lds(context: Context, work: Work) -> Write:
    """``ds_read`` or ``ds_write``; an address register per pattern of lanes, the rest an offset."""
    read, write = work.reads[0], work.writes[0]
    into = write.resource in context.tiles
    far, near = (read, write) if into else (write, read)
    tile, lds = context.tile(near, work), context.lds[far.resource]
    _same_type(context, work)
    box = context.register_box(near, work)
    members, frame = context.group.waves, context.frame
    theirs, ours = context.boxes(far), [box] * len(members)
    _same_shape(work, theirs, ours)
    if into and k_axis(tile.resource) != len(tile.resource.type.shape) - 1:
        return _plan_transposed(context, work, tile, lds, ours, theirs)
    verb = "ds_read" if into else "ds_write"
    moves = []
    places: list[tuple[list[int], Table]] = []
    for run in tile.runs(tile.slots_in(box, work.label)):
        table = np.repeat(tile.coordinates[run[0]][None], len(members), axis=0)
        _join(places, run, lds.address(_shifted(table, ours, theirs), far.copy), tile)
    for run, addresses in places:
        words = _words(tile, run, work)
        _check_run(lds, run, addresses, tile, work)
        name, offset = _address(frame, addresses, members, far)
        moves.append((run[0] // tile.pack, words, name, offset))

    def emit(code: Code) -> None:
        registers = context.registers(near)
        for first, words, name, offset in moves:
            data = registers.part(first, words)
            operands = (data, frame[name]) if into else (frame[name], data)
            code(f"{verb}_b{WORD_BITS * words}", *operands, offset=offset)

    return emit


def transposed_read(target: Target, bits: int) -> str | None:
    """The instruction that reads elements of so many bits across rows; None where there is none."""
    name = f"{TRANSPOSED_READ}{bits}"
    return name if name in target.extra_instructions else None


def _plan_transposed(
    context: Context,
    work: Work,
    tile: RegisterTile,
    lds: LdsTile,
    ours: Sequence[Box],
    theirs: Sequence[Box],
) -> Write:
    """Rows of LDS are columns of the operand: 16 lanes read four rows and exchange them.

    Where the chip has no such read, element by element, each to a register of its own.
    """
    far, near = work.reads[0], work.writes[0]
    members, frame = context.group.waves, context.frame
    resource = tile.resource
    deep, across = k_axis(resource), row_axis(resource)
    slots = tile.slots_in(ours[0], work.label)
    bits = resource.type.dtype.bits
    verb = transposed_read(context.target, bits)
    if bits not in (8, 16) or across != len(resource.type.shape) - 1:
        raise EmitError(
            f"{work.label} transposes {resource.type}",
            hint="only matrices of 8 or 16-bit elements can be read across their rows",
            field=work.label,
        )
    rows = TRANSPOSED_BITS // bits
    per_row = TRANSPOSED_LANES // rows
    lane = np.arange(WAVE_LANES)
    leader = lane - lane % TRANSPOSED_LANES
    moves = []

    def place(coordinates: Table) -> tuple[str, int]:
        table = np.repeat(coordinates[None], len(members), axis=0)
        return _address(frame, lds.address(_shifted(table, ours, theirs), far.copy), members, far)

    if verb is not None:
        for at in range(0, len(slots), rows):
            run = slots[at : at + rows]
            held = np.stack([tile.coordinates[slot] for slot in run])
            source = held[0, leader].copy()
            wanted = np.repeat(source[None], rows, axis=0)
            wanted[..., deep] += np.arange(rows)[:, None]
            wanted[..., across] += lane % TRANSPOSED_LANES
            if not np.array_equal(held, wanted):
                raise EmitError(
                    f"{work.label}: no transposed read brings the lanes what they hold",
                    hint="use an operand layout in blocks of 16 or 32 rows",
                    field=work.label,
                )
            source[:, deep] += lane % TRANSPOSED_LANES // per_row
            source[:, across] += lane % per_row * rows
            moves.append((verb, run[0] // tile.pack, 2, *place(source)))
    else:
        for slot in slots:
            moves.append((f"ds_read_u{bits}", slot, 1, *place(tile.coordinates[slot])))

    def emit(code: Code) -> None:
        registers = context.registers(near)
        for verb, first, words, name, offset in moves:
            code(verb, registers.part(first, words), frame[name], offset=offset)

    return emit


def _join(
    places: list[tuple[list[int], Table]], run: list[int], at: Table, tile: RegisterTile
) -> None:
    """Add a run and its addresses, to the run before where they follow it there and here."""
    if places:
        before, start = places[-1]
        size = len(before) * tile.bits // 8
        follows = run[0] == before[-1] + 1 and len(run) == len(before) and 2 * size <= LOAD_BYTES
        if follows and np.array_equal(at, start + size) and not (start % (2 * size)).any():
            places[-1] = ([*before, *run], start)
            return
    places.append((run, at))


def _check_run(
    lds: LdsTile, run: Sequence[int], addresses: Table, tile: RegisterTile, work: Work
) -> None:
    size = len(run) * tile.bits // 8
    if (addresses % min(size, LOAD_BYTES)).any():
        raise EmitError(
            f"{work.label} would access {size} bytes of {lds.resource.name} at a time across their "
            "alignment",
            hint="align boxes to 16 bytes of a row",
            field=work.label,
        )


def _address(
    frame: Frame, addresses: Table, members: Sequence[int], access: Access
) -> tuple[str, int]:
    """(prepared register, offset of the instruction) of an LDS access."""
    # Bits that all lanes have in common; what is left is linear wherever the layout is.
    common = int(np.bitwise_and.reduce(addresses, axis=None))
    common &= ~int(np.bitwise_or.reduce(addresses ^ addresses[0, 0], axis=None))
    window, offset = divmod(common, LDS_WINDOW)
    number = lane_number(addresses - common, f"the place of a lane in {access.resource}")
    wave = wave_part(frame, members, number)
    work = frame.work(0)

    def make(code: Code, result: Register) -> None:
        write_number(code, frame, result, number, wave, frame[work])
        if window:
            code("v_add_u32", result, window * LDS_WINDOW, result)

    return frame.prepared(("lds", number, window), "address", make, late=True), offset


# --- scalars --------------------------------------------------------------------------------------


def _plan_fill(context: Context, work: Work) -> Write:
    """A kernel argument or a constant, to every register of a tile."""
    read, write = work.reads[0], work.writes[0]
    node = context.program.meaning[read.resource]
    tile = context.tile(write, work)
    frame = context.frame
    box = context.register_box(write, work)
    places = sorted({slot // tile.pack for slot in tile.slots_in(box, work.label)})
    if tile.pack > 1:
        raise EmitError(
            f"{work.label} fills {tile.resource.type.dtype} registers",
            hint="keep scalars in f32 registers",
            field=work.label,
        )

    def emit(code: Code) -> None:
        if node.kind is NodeKind.SCALAR:
            value: Register | int = frame[f"argument {node.name}"]
        else:
            value = float_bits(float(node.start or 0.0))
        registers = context.registers(write)
        for place in places:
            scalar = registers.bank is Bank.SCALAR
            code("s_mov_b32" if scalar else "v_mov_b32", registers.part(place), value)

    return emit
