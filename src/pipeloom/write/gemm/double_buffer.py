"""What ping-pong and four-wave share: LDS-DMA into halves of two stages, a 2 x 2 grid of MMAs.

A load op brings half of a stage (see ``lds_dma``).
"""

from __future__ import annotations

from pipeloom.errors import InternalError
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import Counter
from pipeloom.reference.kernels.double_buffer import (
    FRAGMENT_TAGS,
    LOAD_TAGS,
    MMA_TAGS,
    DoubleBufferKernel,
)
from pipeloom.write.chips import Chip
from pipeloom.write.code import Code
from pipeloom.write.gemm.lds_dma import LdsDmaEmitter, lds_dma_matrix, operand_shape
from pipeloom.write.gemm.tile import GemmTile, OperandShape, tile_layout
from pipeloom.write.plan import PlannedStep

STAGES = 2
HALVES = 2
QUADRANTS = 2


class DoubleBufferEmitter(LdsDmaEmitter):
    """Emitter of both double-buffered kernels."""

    def pieces(self, operand: OperandShape) -> int:
        """Halves."""
        return HALVES

    @property
    def lower_bounds(self) -> frozenset[Counter]:
        """lgkmcnt, where the schedule leaves it unset and a proof takes one entry."""
        config, knobs = self.compiled.config, self.compiled.schedule_config
        unset = not (config.lgkm_per_load_a or knobs.lgkm_per_load_a) or not (
            config.lgkm_per_load_b or knobs.lgkm_per_load_b
        )
        return frozenset({Counter.LGKM}) if unset else frozenset()

    def entry(self, code: Code, step: PlannedStep) -> None:
        """Load, fragment or MMA, by tag."""
        tile, op = self.tile, step.op
        if op.tag in LOAD_TAGS:
            operand = self.operand(LOAD_TAGS[op.tag])
            half_bytes = tile.stage_bytes(operand) // HALVES
            start = operand.lds_base + (op.stage * HALVES + op.subtile) * half_bytes
            self.load_piece(code, operand, op.subtile, start, step)
        elif op.tag in FRAGMENT_TAGS:
            operand = self.operand(FRAGMENT_TAGS[op.tag])
            result = self.places[f"{operand.name}{op.subtile}"]
            reads = range(tile.reads_per_row)
            self.read_fragment(code, operand, op.stage, op.subtile, reads, result)
        elif op.tag in MMA_TAGS:
            rows = self.fragment_tiles(tile.a, op.stage)
            columns = self.fragment_tiles(tile.b, op.subtile)
            a, b = self.places[f"A{op.stage}"], self.places[f"B{op.subtile}"]
            self.multiply(code, a, b, rows, columns, tile.reads_per_row)
        else:
            raise InternalError(f"no instructions for {describe_op(op)}")


def double_buffer_tile(
    kernel: DoubleBufferKernel,
    chip: Chip,
    dtype: str,
    out_dtype: str,
    geometry: KernelGeometry,
) -> GemmTile:
    """The tile of a double-buffered kernel, rows of the waves as the kernel model has them."""
    matrix = lds_dma_matrix(kernel, chip, dtype, geometry)
    row_bytes = geometry.BK * geometry.elem_bytes
    a, b = (
        operand_shape(
            kernel,
            chip,
            matrix,
            name,
            rows=rows,
            row_bytes=row_bytes,
            lds_base=base,
            pieces=HALVES,
            quadrants=QUADRANTS,
        )
        for name, rows, base in (
            ("A", geometry.BM, 0),
            ("B", geometry.BN, STAGES * geometry.BM * row_bytes),
        )
    )
    return GemmTile(
        chip=chip,
        dtype=dtype,
        out_dtype=out_dtype,
        geometry=geometry,
        matrix=matrix,
        layout=tile_layout(chip, geometry, matrix),
        waves=kernel.waves,
        stages=STAGES,
        a=a,
        b=b,
    )
