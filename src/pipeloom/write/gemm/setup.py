"""What a GEMM kernel computes once, before the first entry of its schedule.

Buffer descriptors start at the block's first row, and ``num_records`` ends after the matrix's last
row: rows past M or N read as zero, and the hardware does the masking (an LDS-DMA lane that is out
of range writes zeros; ROCm/rocm-systems pull request 10928 says so of gfx950. Nothing rests on it:
what lies there reaches only rows and columns of C that are not stored). The row of a load
stands in its vector offset and the K tile in its scalar offset, so a row past the end is out of
range whether or not the chip counts the scalar offset in its check.

Addresses of the loop are complete here: inside it only scalar adds remain.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.machine.target import LOAD_BYTES
from pipeloom.write.addresses import LDS_WINDOW, RAW_BUFFER, advance_base
from pipeloom.write.code import Code
from pipeloom.write.gemm import scalars as s
from pipeloom.write.gemm.tile import GemmTile, OperandShape, bit_weights
from pipeloom.write.isa import Register
from pipeloom.write.layout import RowOrder, Swizzle


@dataclass(frozen=True, slots=True)
class SetupScratch:
    """Vector registers that only the setup uses."""

    row: Register
    place: Register
    swizzled: Register
    base: Register


def load_arguments(code: Code, thread: Register, scratch: Register) -> None:
    """Start to load the arguments; thread and wave number meanwhile."""
    code.comment("arguments: " + ", ".join(a.name for a in s.ARGUMENTS))
    for name in ("A", "B", "C"):
        offset = next(a.offset for a in s.ARGUMENTS if a.name == name)
        code("s_load_dwordx2", s.BUFFER[name].part(0, 2), s.ARGUMENT_POINTER, offset)
    code("s_load_dwordx4", s.SIZES, s.ARGUMENT_POINTER, 24)
    code("s_load_dwordx2", s.LAST_STRIDES, s.ARGUMENT_POINTER, 40)
    code("v_and_b32", thread, 0x3FF, thread)
    code("v_lshrrev_b32", scratch, 6, thread)
    code("v_readfirstlane_b32", s.WAVE, scratch)


def await_arguments(code: Code, tile: GemmTile) -> None:
    """The arguments are there; strides become bytes."""
    code.comment("the arguments are needed from here on")
    code.wait(lgkm=0)
    for name, size in (("A", tile.elem_bytes), ("B", tile.elem_bytes), ("C", tile.out_bytes)):
        if size > 1:
            code("s_lshl_b32", s.STRIDE[name], s.STRIDE[name], _log2(size))


def describe_buffers(code: Code, tile: GemmTile) -> None:
    """Descriptors of A, B and C for this block."""
    for operand, group, size in ((tile.a, s.GROUP_M, s.M), (tile.b, s.GROUP_N, s.N)):
        name, buffer = operand.name, s.BUFFER[operand.name]
        code.comment(f"buffer {name}: from this block's first row to the last of the matrix")
        code("s_mul_i32", s.SCRATCH, group, operand.rows)
        code("s_sub_u32", s.LEFT[name], size, s.SCRATCH)
        advance_base(code, buffer, s.SCRATCH, s.STRIDE[name], s.WIDE_SCRATCH)
        code("s_min_u32", s.SCRATCH, s.LEFT[name], operand.rows)
        code("s_mul_i32", buffer.part(2), s.SCRATCH, s.STRIDE[name])
        code("s_mov_b32", buffer.part(3), RAW_BUFFER)
    buffer = s.BUFFER["C"]
    code.comment("buffer C: this block, up to the last element of the matrix")
    code("s_mul_i32", s.SCRATCH, s.GROUP_M, tile.a.rows)
    advance_base(code, buffer, s.SCRATCH, s.STRIDE["C"], s.WIDE_SCRATCH)
    code("s_mul_i32", s.SCRATCH, s.GROUP_N, tile.b.rows * tile.out_bytes)
    code("s_add_u32", buffer.part(0), buffer.part(0), s.SCRATCH)
    code("s_addc_u32", buffer.part(1), buffer.part(1), 0)
    code("s_min_u32", s.SCRATCH, s.LEFT["A"], tile.a.rows)
    code("s_sub_u32", s.SCRATCH, s.SCRATCH, 1)
    code("s_mul_i32", buffer.part(2), s.SCRATCH, s.STRIDE["C"])
    code("s_min_u32", s.SCRATCH, s.LEFT["B"], tile.b.rows)
    code("s_mul_i32", s.SCRATCH, s.SCRATCH, tile.out_bytes)
    code("s_add_u32", buffer.part(2), buffer.part(2), s.SCRATCH)
    code("s_mov_b32", buffer.part(3), RAW_BUFFER)


def place_wave(code: Code, tile: GemmTile, groups: tuple[int, ...]) -> None:
    """Where this wave stands; ``groups`` is the group by wave. Needs no argument."""
    code.comment("this wave's place in the block")
    code("s_mul_i32", s.LDS_SLICE, s.WAVE, tile.slice_bytes)
    sum_over_bits(code, s.WAVE_GROUP, groups, "wave group")
    for operand in tile.operands:
        sum_over_bits(code, s.FIRST_ROW[operand.name], operand.wave_rows, "first row")


def start_loop(code: Code, tile: GemmTile, first_tiles: int) -> None:
    """Loop bounds in bytes of K."""
    code.comment("the loop, in bytes along K")
    code("s_mov_b32", s.LOOP_OFFSET, 0)
    code("s_mul_i32", s.LOOP_END, s.K, tile.elem_bytes)
    code("s_sub_u32", s.LOOP_END, s.LOOP_END, first_tiles * tile.row_bytes)


def sum_over_bits(code: Code, result: Register, values: tuple[int, ...], what: str) -> None:
    """``result`` = values[wave], where that is a sum over the bits of the wave number."""
    terms = [(bit, weight) for bit, weight in enumerate(bit_weights(values, what)) if weight]
    if not terms:
        code("s_mov_b32", result, 0)
    for number, (bit, weight) in enumerate(terms):
        term = s.SCRATCH if number else result
        code("s_bfe_u32", term, s.WAVE, bit | 1 << 16)
        code("s_mul_i32", term, term, weight)
        if number:
            code("s_add_u32", result, result, term)


def load_offsets(
    code: Code,
    tile: GemmTile,
    operand: OperandShape,
    thread: Register,
    results: list[Register],
    scratch: SetupScratch,
) -> None:
    """Byte offset in global memory of what this lane brings with the i-th load of the block.

    Thread t fills position t of a run of places in LDS; the layout says which chunk of which row
    belongs there. Where a lane brings less than a chunk, as many neighbours share one. The next
    load of a piece is the same some rows down, unless the swizzle is another there.
    """
    code.comment(f"global offsets of {operand.name}: row * stride + 16 * swizzled chunk")
    stride, order = s.STRIDE[operand.name], operand.order
    step = tile.rows_at_once // order.ways
    fresh = max(1, tile.layout.swizzle.period // step)
    per_piece = order.run // step if order.ways > 1 else len(results)
    for number, result in enumerate(results):
        piece, load = divmod(number, per_piece)
        if piece == 0 and load < fresh:
            _load_offset(code, tile, operand, thread, load * step, result, scratch)
        else:
            down = piece * order.run * order.ways + load // fresh * fresh * step
            code("s_mul_i32", s.SCRATCH, stride, down)
            code("v_add_u32", result, s.SCRATCH, results[load % fresh])


def _load_offset(
    code: Code,
    tile: GemmTile,
    operand: OperandShape,
    thread: Register,
    down: int,
    result: Register,
    scratch: SetupScratch,
) -> None:
    """The offset of a thread, ``down`` rows below that of the block's first load."""
    chunks, sharers = tile.layout.chunks, LOAD_BYTES // tile.load_bytes
    _row_at(code, scratch, _log2(chunks * sharers), thread, operand.order)
    if down:
        code("v_add_u32", scratch.row, down, scratch.row)
    if sharers == 1:
        code("v_and_b32", scratch.place, chunks - 1, thread)
    else:
        code("v_bfe_u32", scratch.place, thread, _log2(sharers), _log2(chunks))
    row_swizzle(code, scratch.swizzled, scratch.row, tile.layout.swizzle, scratch.base)
    code("v_xor_b32", scratch.place, scratch.place, scratch.swizzled)
    code("v_mul_lo_u32", scratch.base, scratch.row, s.STRIDE[operand.name])
    code("v_lshl_add_u32", result, scratch.place, _log2(LOAD_BYTES), scratch.base)
    if sharers > 1:
        code("v_and_b32", scratch.place, sharers - 1, thread)
        code("v_lshl_add_u32", result, scratch.place, _log2(tile.load_bytes), result)


def _row_at(
    code: Code, scratch: SetupScratch, shift: int, thread: Register, order: RowOrder
) -> None:
    """``scratch.row`` = order.row_at(thread >> shift), in the first piece."""
    if order.ways == 1:
        code("v_lshrrev_b32", scratch.row, shift, thread)
        return
    place, work, row = scratch.base, scratch.swizzled, scratch.row
    group, ways = _log2(order.group), _log2(order.ways)
    code("v_lshrrev_b32", place, shift, thread)
    code("v_bfe_u32", row, place, group, ways)
    if order.run & (order.run - 1):
        code("s_mov_b32", s.SCRATCH, order.run)
        code("v_mul_lo_u32", row, row, s.SCRATCH)
    else:
        code("v_lshlrev_b32", row, _log2(order.run), row)
    code("v_lshrrev_b32", work, group + ways, place)
    code("v_lshl_add_u32", row, work, group, row)
    if group:
        code("v_and_b32", work, order.group - 1, place)
        code("v_add_u32", row, work, row)


def read_lanes(code: Code, tile: GemmTile, thread: Register, scratch: SetupScratch) -> None:
    """What A and B share: ``scratch.row`` is the lane's row, ``scratch.swizzled`` its chunk."""
    code.comment("rows and chunks of fragments by lane")
    side, blocks = tile.matrix.side, tile.matrix.lane_blocks
    code("v_and_b32", scratch.row, side - 1, thread)
    row_swizzle(code, scratch.swizzled, scratch.row, tile.layout.swizzle, scratch.base)
    code("v_bfe_u32", scratch.place, thread, _log2(side), _log2(blocks))
    code("v_xor_b32", scratch.swizzled, scratch.swizzled, scratch.place)


def read_addresses(
    code: Code,
    tile: GemmTile,
    operand: OperandShape,
    results: list[list[Register]],
    scratch: SetupScratch,
) -> None:
    """LDS address of this lane for the r-th read of a row; ``results`` by window, then by read.

    After ``read_lanes``, with the same scratch.
    """
    code.comment(f"LDS addresses of {operand.name} fragments")
    blocks = tile.matrix.lane_blocks
    first = s.WIDE_SCRATCH.part(0)
    if operand.wave_places == operand.wave_rows:
        code("s_mul_i32", first, s.FIRST_ROW[operand.name], tile.row_bytes)
    else:
        places = tuple(place * tile.row_bytes for place in operand.wave_places)
        sum_over_bits(code, first, places, f"first place of {operand.name}")
    if operand.lds_base:
        code("s_add_u32", first, first, operand.lds_base)
    _lane_base(code, scratch, tile.row_bytes, operand.order)
    code("v_add_u32", scratch.base, first, scratch.base)
    for read, result in enumerate(results[0]):
        code("v_xor_b32", scratch.place, read * blocks, scratch.swizzled)
        code("v_lshl_add_u32", result, scratch.place, 4, scratch.base)
    for window, others in enumerate(results[1:], start=1):
        for first_window, result in zip(results[0], others, strict=True):
            code("v_add_u32", result, window * LDS_WINDOW, first_window)


def _lane_base(code: Code, scratch: SetupScratch, row_bytes: int, order: RowOrder) -> None:
    """``scratch.base`` = row_bytes * order.place(scratch.row), for a row of the first run."""
    group, ways, size = _log2(order.group), _log2(order.ways), _log2(row_bytes)
    if order.ways == 1 or not group:
        code("v_lshlrev_b32", scratch.base, ways + size, scratch.row)
    else:
        code("v_lshrrev_b32", scratch.base, group, scratch.row)
        code("v_lshlrev_b32", scratch.base, group + ways + size, scratch.base)
        code("v_and_b32", scratch.place, order.group - 1, scratch.row)
        code("v_lshl_add_u32", scratch.base, scratch.place, size, scratch.base)


def row_swizzle(
    code: Code, result: Register, row: Register, swizzle: Swizzle, scratch: Register
) -> None:
    """``result`` = f(row) of the layout."""
    code("v_lshrrev_b32", result, swizzle.row_shift, row)
    if swizzle.gray:
        code("v_lshlrev_b32", scratch, 1, result)
        code("v_xor_b32", result, result, scratch)
    code("v_and_b32", result, swizzle.mask, result)


def _log2(value: int) -> int:
    return value.bit_length() - 1
