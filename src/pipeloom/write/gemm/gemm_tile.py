"""The modulo GEMM in machine code: as many LDS buffers and fragment copies as the schedule has.

The schedule says by itself how deep it is: an op's stage is the buffer of its piece, and a
fragment's subtile is ``copy * m + quadrant`` (see the kernel model). Nothing is moved to rotate
them, because the kernel is unrolled until every number is fixed.

Pieces rotate by themselves where every wave reads a slice of each (four_wave), so each gets its
own run of LDS, of its own length:

    A piece 0: buffers 0, 1 | A piece 1: buffer 0 | B piece 0: ...

Where a wave reads one half only (ping_pong), the halves of an operand rotate together and lie side
by side, as a wave's first row then tells its half.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.errors import InternalError
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import GemmTileKernel
from pipeloom.reference.kernels.gemm_tile import OPERANDS
from pipeloom.reference.ops import OpRole
from pipeloom.reference.tile import HALVES
from pipeloom.write.code import Code
from pipeloom.write.entry import EmitRequest
from pipeloom.write.gemm.lds_dma import LdsDmaEmitter, operand_shape
from pipeloom.write.gemm.tile import GemmTile, OperandShape, matrix_shape, tile_layout
from pipeloom.write.plan import Plan, PlannedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatingTile(GemmTile):
    """A tile with any number of buffers for each piece of an operand."""

    buffers: tuple[tuple[int, ...], tuple[int, ...]]
    """Of each piece of A, of each piece of B."""
    interleaved: bool
    """Whether each piece rotates by itself."""

    def counts(self, operand: OperandShape) -> tuple[int, ...]:
        """Buffers of each piece."""
        return self.buffers[OPERANDS.index(operand.name)]

    def piece_bytes(self, operand: OperandShape) -> int:
        """One buffer of one piece."""
        return self.stage_bytes(operand) // len(self.counts(operand))

    def operand_bytes(self, operand: OperandShape) -> int:
        """All buffers of all pieces."""
        return sum(self.counts(operand)) * self.piece_bytes(operand)

    def piece_start(self, operand: OperandShape, stage: int, piece: int) -> int:
        """Where a buffer of a piece starts, from the operand's base."""
        counts = self.counts(operand)
        before = sum(counts[:piece]) + stage if self.interleaved else stage * len(counts) + piece
        return before * self.piece_bytes(operand)

    def fragment_start(self, operand: OperandShape, stage: int, fragment: int) -> int:
        """The fragment's piece, and its place there."""
        piece_rows = operand.rows // len(self.counts(operand))
        piece, row = divmod(operand.fragment_rows[fragment], piece_rows)
        start = self.piece_start(operand, stage, piece)
        return start + operand.order.place(row) * self.row_bytes


class GemmTileEmitter(LdsDmaEmitter):
    """Emitter of the modulo kernels that load straight into LDS."""

    tile: RotatingTile

    def pieces(self, operand: OperandShape) -> int:
        """As the tile has them."""
        return len(self.tile.counts(operand))

    def entry(self, code: Code, step: PlannedStep) -> None:
        """Load, fragment or MMA, by role."""
        tile, op = self.tile, step.op
        match op.role:
            case OpRole.GLOBAL_LOAD:
                operand = tile.operands[op.channel]
                start = operand.lds_base + tile.piece_start(operand, op.stage, op.subtile)
                self.load_piece(code, operand, op.subtile, start, step)
            case OpRole.FRAGMENT_LOAD:
                operand = tile.operands[op.channel]
                quadrant = op.subtile % len(operand.fragment_rows)
                result = self.places[f"{operand.name}{op.subtile}"]
                reads = range(tile.reads_per_row)
                self.read_fragment(code, operand, op.stage, quadrant, reads, result)
            case OpRole.COMPUTE:
                rows, columns = (
                    self.fragment_tiles(operand, register % len(operand.fragment_rows))
                    for operand, register in zip(tile.operands, (op.stage, op.subtile), strict=True)
                )
                a, b = self.places[f"A{op.stage}"], self.places[f"B{op.subtile}"]
                self.multiply(code, a, b, rows, columns, tile.reads_per_row)
            case _:
                raise InternalError(f"no instructions for {describe_op(op)}")


def gemm_tile_emitter(request: EmitRequest) -> GemmTileEmitter:
    """The emitter of a modulo schedule on the four-wave or the ping-pong grid."""
    kernel = request.plan.kernel
    if not isinstance(kernel, GemmTileKernel):
        raise InternalError(f"the gemm_tile emitter got the kernel model {kernel.name}")
    return GemmTileEmitter(
        _rotating_tile(kernel, request),
        request.plan,
        request.compiled,
        request.accumulators,
        request.name,
    )


def _rotating_tile(kernel: GemmTileKernel, request: EmitRequest) -> RotatingTile:
    geometry = request.need_geometry()
    matrix = matrix_shape(request.chip, request.dtype, geometry)
    buffers = _buffers(kernel, request.plan)
    shapes: list[OperandShape] = []
    base = 0
    for name, rows, counts, quadrants in zip(
        OPERANDS, (geometry.BM, geometry.BN), buffers, kernel.quadrants, strict=True
    ):
        pieces = len(counts)
        shapes.append(
            operand_shape(
                kernel,
                request.chip,
                matrix,
                name,
                rows=rows,
                row_bytes=geometry.BK * geometry.elem_bytes,
                lds_base=base,
                pieces=pieces,
                quadrants=quadrants,
            )
        )
        base += sum(counts) * (rows // pieces) * geometry.BK * geometry.elem_bytes
    return RotatingTile(
        chip=request.chip,
        dtype=request.dtype,
        out_dtype=request.out_dtype,
        geometry=geometry,
        matrix=matrix,
        layout=tile_layout(request.chip, geometry, matrix),
        waves=kernel.waves,
        stages=kernel.depth,
        a=shapes[0],
        b=shapes[1],
        load_bytes=request.chip.lds_dma_bytes,
        buffers=buffers,
        interleaved=kernel.grid.interleaved,
    )


def _buffers(kernel: GemmTileKernel, plan: Plan) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many buffers the loads of each piece fill; halves that rotate together have as many."""
    interleaved = kernel.grid.interleaved
    counts = [[1] * (count if interleaved else HALVES) for count in kernel.quadrants]
    for step in plan.steps():
        op = step.op
        if op.role is OpRole.GLOBAL_LOAD:
            pieces = counts[op.channel]
            pieces[op.subtile] = max(pieces[op.subtile], op.stage + 1)
    if not interleaved:
        counts = [[max(pieces)] * HALVES for pieces in counts]
    return tuple(counts[0]), tuple(counts[1])
