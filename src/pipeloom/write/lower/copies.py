"""Copies between spaces: global memory, LDS and registers.

Which instructions a copy takes follows from the tables of its tiles: elements that follow each
other in a lane and in memory move together, up to 16 bytes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipeloom.machine.target import LOAD_BYTES
from pipeloom.program import Access, NodeKind, Space, Work
from pipeloom.program.tiles import Box
from pipeloom.write.addresses import LDS_WINDOW
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank, Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.copy_boxes import (
    require_same_shape,
    require_same_type,
    shifted,
    words_of,
)
from pipeloom.write.lower.elementwise import plan_move
from pipeloom.write.lower.frame import Frame, Write
from pipeloom.write.lower.lds import LdsTile, across_reads, read_across
from pipeloom.write.lower.linear import PlannedNumber, Table, lane_number
from pipeloom.write.lower.loads import plan_lds_dma, plan_load
from pipeloom.write.lower.patches import HALVES, column_runs, joined
from pipeloom.write.lower.register_tiles import WORD_BITS, RegisterTile, k_axis, row_axis
from pipeloom.write.lower.stores import plan_store
from pipeloom.write.lower.templates import float_bits

ROUND = 2
"""Columns that are joined before they are written."""


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
        return plan_lds_dma(context, work) if space is Space.LDS else plan_load(context, work)
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


# --- LDS and registers ----------------------------------------------------------------------------


def _plan_lds(context: Context, work: Work) -> Write:
    """``ds_read`` or ``ds_write``; an address register per pattern of lanes, the rest an offset."""
    read, write = work.reads[0], work.writes[0]
    into = write.resource in context.tiles
    far, near = (read, write) if into else (write, read)
    tile, lds = context.tile(near, work), context.lds[far.resource]
    require_same_type(context, work)
    box = context.register_box(near, work)
    members, frame = context.group.waves, context.frame
    theirs, ours = context.boxes(far), [box] * len(members)
    require_same_shape(work, theirs, ours)
    if lds.turned and not into:
        return _plan_turned(context, work, tile, lds, ours, theirs)
    if into and not lds.turned and k_axis(tile.resource) != len(tile.resource.type.shape) - 1:
        return _plan_transposed(context, work, tile, lds, ours, theirs)
    verb = "ds_read" if into else "ds_write"
    moves = []
    places: list[tuple[list[int], Table]] = []
    lying = replace(tile, coordinates=tile.coordinates[..., ::-1]) if lds.turned else tile
    for run in lying.runs(tile.slots_in(box, work.label)):
        table = np.repeat(tile.coordinates[run[0]][None], len(members), axis=0)
        _join(places, run, lds.address(shifted(table, ours, theirs), far.copy), tile)
    for run, addresses in places:
        words = words_of(tile, run, work)
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


def _plan_turned(
    context: Context,
    work: Work,
    tile: RegisterTile,
    lds: LdsTile,
    ours: Sequence[Box],
    theirs: Sequence[Box],
) -> Write:
    """Columns of a lane's patches, their elements joined, to where they are rows."""
    far, near = work.writes[0], work.reads[0]
    members, frame = context.group.waves, context.frame
    runs = column_runs(tile.resource, tile.slots)
    moves = []
    for run in runs:
        table = np.repeat(tile.coordinates[run[0]][None], len(members), axis=0)
        addresses = lds.address(shifted(table, ours, theirs), far.copy)
        _check_run(lds, run, addresses, tile, work)
        moves.append((run, *_address(frame, addresses, members, far)))
    words = len(runs[0]) // tile.pack
    scratch = frame.scratch("columns", ROUND * words, align=2)
    halves = [frame.constant(half) for half in HALVES]

    def emit(code: Code) -> None:
        registers = context.registers(near)
        for first in range(0, len(moves), ROUND):
            some = moves[first : first + ROUND]
            parts = [frame[scratch].part(n * words, words) for n in range(len(some))]
            for (run, _, _), into in zip(some, parts, strict=True):
                joined(code, registers, run, into, [frame[half] for half in halves])
            for (_, name, offset), into in zip(some, parts, strict=True):
                code(f"ds_write_b{WORD_BITS * words}", frame[name], into, offset=offset)

    return emit


def _plan_transposed(
    context: Context,
    work: Work,
    tile: RegisterTile,
    lds: LdsTile,
    ours: Sequence[Box],
    theirs: Sequence[Box],
) -> Write:
    """Rows of LDS are columns of the operand (``across_reads``).

    Where the chip has no such read, element by element, each to a register of its own.
    """
    far, near = work.reads[0], work.writes[0]
    members, frame = context.group.waves, context.frame
    resource = tile.resource
    slots = tile.slots_in(ours[0], work.label)
    bits = resource.type.dtype.bits
    verb = read_across(context.target, resource)
    if bits not in (8, 16, WORD_BITS) or row_axis(resource) != len(resource.type.shape) - 1:
        raise EmitError(
            f"{work.label} transposes {resource.type}",
            hint="only matrices of 8, 16 or 32-bit elements can be read across their rows",
            field=work.label,
        )
    moves = []

    def place(coordinates: Table) -> tuple[str, int]:
        table = np.repeat(coordinates[None], len(members), axis=0)
        return _address(frame, lds.address(shifted(table, ours, theirs), far.copy), members, far)

    if verb is not None:
        for run, source in across_reads(tile, slots, work.label):
            moves.append((verb, run[0] // tile.pack, 2, *place(source)))
    else:
        single = f"ds_read_b{bits}" if bits == WORD_BITS else f"ds_read_u{bits}"
        for slot in slots:
            moves.append((single, slot, 1, *place(tile.coordinates[slot])))

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
    planned = PlannedNumber.of(frame, members, number)
    work = frame.work(0)

    def make(code: Code, result: Register) -> None:
        planned.write(code, result, frame[work])
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
