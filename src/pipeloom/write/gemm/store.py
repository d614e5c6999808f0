"""The end of a GEMM kernel: accumulators to C, converted and masked.

Four consecutive accumulators of a lane are four consecutive columns of one row (see ``tile``), so
they are stored together where N and the stride of C are multiples of 4, else one by one; a scalar
branch decides. Rows past M fall behind ``num_records`` of C's buffer; columns past N get an offset
that does. Nothing is written outside the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeloom.write.addresses import OUT_OF_RANGE
from pipeloom.write.code import Code
from pipeloom.write.convert import ConvertScratch, packed_words, prepare
from pipeloom.write.gemm import scalars as s
from pipeloom.write.gemm.tile import GemmTile
from pipeloom.write.isa import VCC, Bank, Register

RINGS = 2
NAN, OUTSIDE = 2, 3
WORK = 4
GROUP = 4
"""Consecutive accumulators of a lane that are consecutive columns."""


@dataclass(frozen=True, slots=True)
class StoreScratch:
    """Vector registers of the store."""

    rows: Register
    """One per row of MFMA tiles: byte offset of the lane's row."""
    column: Register
    offset: Register
    data: Register
    """``RINGS`` times four, so that a conversion need not wait for the store before it."""
    work: Register
    """``WORK``: two for conversion and address, the NaN of bf16, an offset out of range."""


Accumulators = Callable[[int, int], Register]
"""The registers of the MFMA tile at (row, column) of the wave's tile."""


def store_tile(
    code: Code,
    tile: GemmTile,
    thread: Register,
    accumulators: Accumulators,
    scratch: StoreScratch,
    name: str,
) -> None:
    """Store every accumulator of the wave."""
    side, log_side = tile.matrix.side, tile.matrix.side.bit_length() - 1
    row_starts, column_starts = subtile_starts(tile)
    code.comment("store C; nothing may be in flight to registers or LDS that are reused")
    code.wait(vm=0, lgkm=0)
    prepare(code, tile.chip, tile.out_dtype, _conversion(scratch.work))
    code("v_mov_b32", scratch.work.part(OUTSIDE), OUT_OF_RANGE)
    row = scratch.work.part(0)
    code("v_and_b32", row, side - 1, thread)
    code("v_add_u32", row, s.FIRST_ROW["A"], row)
    code("v_mul_lo_u32", scratch.rows.part(0), row, s.STRIDE["C"])
    for number, start in enumerate(row_starts[1:], start=1):
        code("s_mul_i32", s.SCRATCH, s.STRIDE["C"], start)
        code("v_add_u32", scratch.rows.part(number), s.SCRATCH, scratch.rows.part(0))
    code("v_bfe_u32", scratch.column, thread, log_side, 6 - log_side)
    code("v_lshlrev_b32", scratch.column, 2, scratch.column)
    code("v_add_u32", scratch.column, s.FIRST_ROW["B"], scratch.column)

    single, done = f".L{name}_store_single", f".L{name}_stored"
    # The stride is in bytes by now.
    code("s_lshr_b32", s.WIDE_SCRATCH.part(0), s.STRIDE["C"], tile.out_bytes.bit_length() - 1)
    code("s_or_b32", s.SCRATCH, s.N, s.WIDE_SCRATCH.part(0))
    code("s_and_b32", s.SCRATCH, s.SCRATCH, GROUP - 1)
    code("s_cbranch_scc1", single)
    for together in (True, False):
        code.comment(f"four columns at a time: {'yes' if together else 'no'}")
        ring = 0
        for column, start in enumerate(column_starts):
            for group in range(tile.matrix.accumulator_registers // GROUP):
                _store_columns(
                    code,
                    tile,
                    start + 8 * group,
                    [
                        accumulators(row, column).part(GROUP * group, GROUP)
                        for row in range(len(row_starts))
                    ],
                    scratch,
                    together,
                    ring,
                )
                ring += len(row_starts)
        if together:
            code("s_branch", done)
            code.label(single)
    code.label(done)


def subtile_starts(tile: GemmTile) -> tuple[list[int], list[int]]:
    """First row (column) of each MFMA tile of a wave, from the wave's first row (column)."""
    rows, columns = (
        [
            first + subtile * tile.matrix.side
            for first in operand.fragment_rows
            for subtile in range(tile.subtiles(operand))
        ]
        for operand in tile.operands
    )
    return rows, columns


def _store_columns(
    code: Code,
    tile: GemmTile,
    start: int,
    quads: Sequence[Register],
    scratch: StoreScratch,
    together: bool,
    ring: int,
) -> None:
    """Four columns of every row tile; ``quads`` are their accumulators."""
    count = 1 if together else GROUP
    for element in range(count):
        offset = scratch.offset.part(element)
        code("v_add_u32", offset, start + element, scratch.column)
        code("v_cmp_gt_u32", VCC, s.LEFT["B"], offset)
        code("v_lshlrev_b32", offset, tile.out_bytes.bit_length() - 1, offset)
        code("v_cndmask_b32", offset, scratch.work.part(OUTSIDE), offset, VCC)
    for row, quad in enumerate(quads):
        data = scratch.data.part(GROUP * ((ring + row) % RINGS), GROUP)
        words = _converted(code, tile, quad, data, scratch.work)
        work = scratch.work.part(0)
        for element in range(count):
            code("v_add_u32", work, scratch.rows.part(row), scratch.offset.part(element))
            _store(code, tile, words, element, work, together)


def _store(
    code: Code, tile: GemmTile, words: Register, element: int, at: Register, together: bool
) -> None:
    buffer = s.BUFFER["C"]
    if together:
        name = {1: "dword", 2: "dwordx2", 4: "dwordx4"}[words.count]
        code(f"buffer_store_{name}", words, at, buffer, 0, modifiers=["offen"])
    elif tile.out_bytes == 4:
        code("buffer_store_dword", words.part(element), at, buffer, 0, modifiers=["offen"])
    else:
        half = "_d16_hi" if element % 2 else ""
        code(
            f"buffer_store_short{half}",
            words.part(element // 2),
            at,
            buffer,
            0,
            modifiers=["offen"],
        )


def _converted(
    code: Code, tile: GemmTile, quad: Register, data: Register, work: Register
) -> Register:
    """Four f32 accumulators as words of C's type."""
    if tile.out_dtype == "f32":
        return quad
    if quad.bank is Bank.ACCUMULATOR:
        for i in range(GROUP):
            code("v_accvgpr_read_b32", data.part(i), quad.part(i))
        quad = data
    sources = [quad.part(i) for i in range(GROUP)]
    return packed_words(code, tile.chip, tile.out_dtype, sources, data, _conversion(work))


def _conversion(work: Register) -> ConvertScratch:
    return ConvertScratch(work.part(0, 2), work.part(NAN), s.ROUND, s.PACK)
