"""What ping-pong and four-wave share: LDS-DMA into halves of two stages, a 2 x 2 grid of MMAs.

A load op brings half of a stage: every wave fetches its slice with ``buffer_load_dwordx4 ... lds``,
one instruction per ``rows_at_once`` rows. Such a load writes LDS at m0 + 16 * lane, so m0 is set
before each; nothing else of it depends on stage or tile but the scalar offset.

Which rows of the block a wave's fragments take is read off the kernel model, so that the proof
and the code cannot disagree.
"""

from __future__ import annotations

from pipeloom.emit.chips import Chip
from pipeloom.emit.code import Code
from pipeloom.emit.faults import EmitError
from pipeloom.emit.gemm import scalars as s
from pipeloom.emit.gemm.emitter import WORDS, GemmEmitter
from pipeloom.emit.gemm.setup import SLICE_BYTES
from pipeloom.emit.gemm.tile import GemmTile, OperandShape, matrix_shape, tile_layout
from pipeloom.emit.isa import LDS_DMA, M0
from pipeloom.emit.plan import PlannedStep
from pipeloom.errors import InternalError
from pipeloom.geometry import LOAD_BYTES, WAVE_LANES, KernelGeometry
from pipeloom.graph import describe_op
from pipeloom.kernels import Counter
from pipeloom.kernels.double_buffer import (
    FRAGMENT_TAGS,
    LOAD_TAGS,
    MMA_TAGS,
    DoubleBufferKernel,
)

STAGES = 2
HALVES = 2
QUADRANTS = 2


class DoubleBufferEmitter(GemmEmitter):
    """Emitter of both double-buffered kernels."""

    def bank_registers(self, bank: str) -> int:
        """A fragment: its MFMA tiles times the reads of a row."""
        operand = self.tile.a if bank.startswith("A") else self.tile.b
        return self.tile.subtiles(operand) * self.tile.reads_per_row * WORDS

    def load_count(self, operand: OperandShape) -> int:
        """Both halves."""
        return HALVES * self._loads_per_half(operand)

    def _loads_per_half(self, operand: OperandShape) -> int:
        return self.tile.loads(operand.rows // HALVES, f"half a stage of {operand.name}")

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
        op = step.op
        if op.tag in LOAD_TAGS:
            self._load(code, self._operand(LOAD_TAGS[op.tag]), step)
        elif op.tag in FRAGMENT_TAGS:
            operand = self._operand(FRAGMENT_TAGS[op.tag])
            result = self.places[f"{operand.name}{op.subtile}"]
            reads = range(self.tile.reads_per_row)
            self.read_fragment(code, operand, op.stage, op.subtile, reads, result)
        elif op.tag in MMA_TAGS:
            rows, columns = (
                [quadrant * self.tile.subtiles(operand) + i for i in range(subtiles)]
                for operand, quadrant in ((self.tile.a, op.stage), (self.tile.b, op.subtile))
                for subtiles in (self.tile.subtiles(operand),)
            )
            a, b = self.places[f"A{op.stage}"], self.places[f"B{op.subtile}"]
            self.multiply(code, a, b, rows, columns, self.tile.reads_per_row)
        else:
            raise InternalError(f"no instructions for {describe_op(op)}")

    def _operand(self, name: str) -> OperandShape:
        return self.tile.a if name == "A" else self.tile.b

    def _load(self, code: Code, operand: OperandShape, step: PlannedStep) -> None:
        if step.tile is None:
            raise InternalError(f"{step} brings no K tile")
        tile, op = self.tile, step.op
        half_bytes = tile.stage_bytes(operand) // HALVES
        start = operand.lds_base + op.stage * tile.stage_bytes(operand) + op.subtile * half_bytes
        count = self._loads_per_half(operand)
        for number in range(count):
            code("s_add_u32", M0, s.LDS_SLICE, start + number * tile.waves * SLICE_BYTES)
            if number == 0:
                offset = self.tile_offset(code, step.tile)
            address = self.places[f"load {operand.name}{op.subtile * count + number}"]
            code(LDS_DMA, address, s.BUFFER[operand.name], offset, modifiers=["offen", "lds"])


def double_buffer_tile(
    kernel: DoubleBufferKernel,
    chip: Chip,
    dtype: str,
    out_dtype: str,
    geometry: KernelGeometry,
) -> GemmTile:
    """The tile of a double-buffered kernel, rows of the waves as the kernel model has them."""
    if chip.lds_dma_bytes < 16:
        raise EmitError(
            f"the {kernel.name} kernel loads 16 bytes per lane straight into LDS, but "
            f"{chip.name} can only {chip.lds_dma_bytes}",
            hint="use single_buffer on this target, or target gfx950",
            field="target",
        )
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
    row_bytes = geometry.BK * geometry.elem_bytes
    a = _operand_shape(kernel, "A", geometry.BM, 0)
    b = _operand_shape(kernel, "B", geometry.BN, STAGES * geometry.BM * row_bytes)
    for operand in (a, b):
        if operand.rows_per_fragment < matrix.side or operand.rows_per_fragment % matrix.side:
            raise EmitError(
                f"a fragment of {operand.name} has {operand.rows_per_fragment} rows, which is no "
                f"multiple of the matrix instruction's {matrix.side}",
                hint="choose a larger tile or a smaller matrix instruction",
                field="KernelGeometry",
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


def _operand_shape(kernel: DoubleBufferKernel, name: str, rows: int, base: int) -> OperandShape:
    half_rows = rows // HALVES
    starts: list[list[int]] = []
    parts = set()
    for wave in range(kernel.waves):
        sources = [kernel.fragment_source(name, q, wave) for q in range(QUADRANTS)]
        parts |= {part.of for _, part in sources}
        starts.append(
            [half * half_rows + part.number * (half_rows // part.of) for half, part in sources]
        )
    offsets = {tuple(start - row[0] for start in row) for row in starts}
    if len(parts) != 1 or len(offsets) != 1:
        raise EmitError(
            f"waves of the {kernel.name} kernel cut {name} into fragments of different shapes",
            hint="every wave's fragments must lie alike",
            field="kernel",
        )
    return OperandShape(
        name=name,
        rows=rows,
        lds_base=base,
        wave_rows=tuple(row[0] for row in starts),
        fragment_rows=offsets.pop(),
        rows_per_fragment=half_rows // parts.pop(),
    )
