"""What the kernels that load straight into LDS share, whatever their depth.

A load op brings a *piece*, a run of rows of one operand: every wave fetches its slice with
``buffer_load_dwordx4 ... lds``, one instruction per ``rows_at_once`` rows. Such a load writes LDS
at m0 + 16 * lane, so m0 is set before each; nothing else of it depends on stage or tile but the
scalar offset. Where the chip moves 4 bytes per lane only (gfx942), ``buffer_load_dword ... lds``
takes its place, four times as often.

Which rows of the block a wave's fragments take is read off the kernel model, so that the proof
and the code cannot disagree.
"""

from __future__ import annotations

from typing import Protocol

from pipeloom.errors import InternalError
from pipeloom.machine.target import LOAD_BYTES, WAVE_LANES
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.kernels.interface import Part
from pipeloom.write.chips import Chip, MatrixShape
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.gemm import scalars as s
from pipeloom.write.gemm.emitter import WORDS, GemmEmitter
from pipeloom.write.gemm.tile import OperandShape, matrix_shape
from pipeloom.write.isa import LDS_DMA_BY_BYTES, M0
from pipeloom.write.layout import dealt_rows
from pipeloom.write.plan import PlannedStep


class FragmentModel(Protocol):
    """What is asked of a kernel model: where the fragments of a wave come from."""

    name: str
    waves: int

    def fragment_source(self, operand: str, quadrant: int, wave: int, /) -> tuple[int, Part]:
        """The piece, and which of its rows."""
        ...


class LdsDmaEmitter(GemmEmitter):
    """Emitter of kernels whose loads go to LDS; an operand is loaded in equal pieces."""

    def pieces(self, operand: OperandShape) -> int:
        """Load ops per K tile of an operand."""
        raise NotImplementedError

    def bank_registers(self, bank: str) -> int:
        """A fragment: its MFMA tiles times the reads of a row."""
        operand = self.operand("A" if bank.startswith("A") else "B")
        return self.tile.subtiles(operand) * self.tile.reads_per_row * WORDS

    def load_count(self, operand: OperandShape) -> int:
        """All pieces."""
        return self.pieces(operand) * self.loads_per_piece(operand)

    def loads_per_piece(self, operand: OperandShape) -> int:
        """Load instructions per wave of one load op."""
        pieces = self.pieces(operand)
        return self.tile.loads(operand.rows // pieces, f"1/{pieces} of a stage of {operand.name}")

    def operand(self, name: str) -> OperandShape:
        """A or B."""
        return self.tile.a if name == "A" else self.tile.b

    def load_piece(
        self, code: Code, operand: OperandShape, piece: int, start: int, step: PlannedStep
    ) -> None:
        """Bring a piece of the step's K tile to ``start`` in LDS."""
        if step.tile is None:
            raise InternalError(f"{step} brings no K tile")
        count = self.loads_per_piece(operand)
        run = self.tile.waves * self.tile.slice_bytes
        load = LDS_DMA_BY_BYTES[self.tile.load_bytes]
        for number in range(count):
            code("s_add_u32", M0, s.LDS_SLICE, start + number * run)
            if number == 0:
                offset = self.tile_offset(code, step.tile)
            address = self.places[f"load {operand.name}{piece * count + number}"]
            code(load, address, s.BUFFER[operand.name], offset, modifiers=["offen", "lds"])

    def fragment_tiles(self, operand: OperandShape, quadrant: int) -> list[int]:
        """The rows (columns) of MFMA tiles of a quadrant, counted over the wave's tile."""
        subtiles = self.tile.subtiles(operand)
        return [quadrant * subtiles + i for i in range(subtiles)]


def require_lds_dma(kernel: str, chip: Chip) -> None:
    """Raise ``EmitError`` unless the chip loads 16 bytes per lane straight into LDS."""
    if chip.lds_dma_bytes < LOAD_BYTES:
        raise EmitError(
            f"the {kernel} kernel loads 16 bytes per lane straight into LDS, but "
            f"{chip.name} can only {chip.lds_dma_bytes}",
            hint="use single_buffer or gemm_tile on this target, or target gfx950",
            field="target",
        )


def lds_dma_matrix(
    kernel: FragmentModel, chip: Chip, dtype: str, geometry: KernelGeometry
) -> MatrixShape:
    """The MFMA, where the chip has wide LDS-DMA and the MFMA takes at least 16 bytes per lane."""
    require_lds_dma(kernel.name, chip)
    matrix = matrix_shape(chip, dtype, geometry)
    fragment = matrix.side * matrix.depth * geometry.elem_bytes // WAVE_LANES
    if fragment < LOAD_BYTES:
        deep = [
            f"{m}x{n}x{k}"
            for kind, m, n, k in chip.matrix
            if kind == dtype and m * k * geometry.elem_bytes >= WAVE_LANES * LOAD_BYTES
        ]
        raise EmitError(
            f"a {matrix.side}x{matrix.side}x{matrix.depth} matrix instruction takes {fragment} "
            f"bytes per lane, but the {kernel.name} kernel reads fragments 16 bytes at a time",
            hint=f"use one of: {', '.join(deep)}",
            field="KernelGeometry.MMA_K",
        )
    return matrix


def operand_shape(
    kernel: FragmentModel,
    chip: Chip,
    matrix: MatrixShape,
    name: str,
    *,
    rows: int,
    row_bytes: int,
    lds_base: int,
    pieces: int,
    quadrants: int,
) -> OperandShape:
    """The rows of an operand that each wave's fragments take, as the kernel model has them.

    They are dealt over LDS so that each load instruction brings some of every fragment of its
    piece: that is what the proof assumes.
    """
    piece_rows = rows // pieces
    starts: list[list[int]] = []
    parts = set()
    for wave in range(kernel.waves):
        sources = [kernel.fragment_source(name, q, wave) for q in range(quadrants)]
        parts |= {part.of for _, part in sources}
        starts.append(
            [piece * piece_rows + part.number * (piece_rows // part.of) for piece, part in sources]
        )
    offsets = {tuple(start - row[0] for start in row) for row in starts}
    if len(parts) != 1 or len(offsets) != 1:
        raise EmitError(
            f"waves of the {kernel.name} kernel cut {name} into fragments of different shapes",
            hint="every wave's fragments must lie alike",
            field="kernel",
        )
    fragments = parts.pop()
    per_fragment = piece_rows // fragments
    if per_fragment < matrix.side or per_fragment % matrix.side:
        raise EmitError(
            f"a fragment of {name} has {per_fragment} rows, which is no "
            f"multiple of the matrix instruction's {matrix.side}",
            hint="choose a larger tile or a smaller matrix instruction",
            field="KernelGeometry",
        )
    at_once = kernel.waves * WAVE_LANES * chip.lds_dma_bytes
    return OperandShape(
        name=name,
        rows=rows,
        lds_base=lds_base,
        wave_rows=tuple(row[0] for row in starts),
        fragment_rows=offsets.pop(),
        rows_per_fragment=per_fragment,
        order=dealt_rows(chip, row_bytes, piece_rows, fragments, at_once),
    )
