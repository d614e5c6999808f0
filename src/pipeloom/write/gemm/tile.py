"""The shape of a GEMM kernel: block tile, wave tile, matrix instruction, LDS.

C[M, N] = A[M, K] B[N, K]^T. Both operands are rows of K, so both are treated alike: an operand is
a block of rows, of which a wave's fragments take some. The matrix instruction gets B as its first
operand and A as its second: its result is then the transposed tile, in which four consecutive
registers of a lane are four consecutive columns of C, and a store writes them together.

The order of K inside a tile is free as long as A and B agree. So a fragment is always read as
16-byte runs, whatever the instruction takes: 16 bytes feed one MFMA of 16-bit 16x16x32, two of
16x16x16 and half of an fp8 16x16x128.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeloom.errors import InternalError
from pipeloom.machine.target import LOAD_BYTES, WAVE_LANES
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.write.chips import Chip, MatrixShape
from pipeloom.write.faults import EmitError
from pipeloom.write.layout import IN_ORDER, RowOrder, TileLayout, layout_for

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1}
OUTPUT_BYTES = {"bf16": 2, "fp16": 2, "f32": 4}


@dataclass(frozen=True, slots=True)
class OperandShape:
    """One operand of the block: its rows, where it lies in LDS, and which rows a wave reads.

    Fragment q of wave w starts at row ``wave_rows[w] + fragment_rows[q]`` of the block. ``order``
    says where that lies in LDS; it must be a sum of the same two parts.
    """

    name: str
    rows: int
    lds_base: int
    wave_rows: tuple[int, ...]
    fragment_rows: tuple[int, ...]
    rows_per_fragment: int
    order: RowOrder = IN_ORDER

    def __post_init__(self) -> None:
        bit_weights(self.wave_rows, f"rows of {self.name}")
        bit_weights(self.wave_places, f"places of {self.name}")
        place = self.order.place
        for first in self.wave_rows:
            for row in self.fragment_rows:
                if place(first + row) != place(first) + place(row):
                    raise InternalError(f"{self}: row {first} + {row} lies at no sum of places")

    @property
    def wave_places(self) -> tuple[int, ...]:
        """Where each wave's first row lies in LDS, in rows."""
        return tuple(self.order.place(row) for row in self.wave_rows)


@dataclass(frozen=True, slots=True)
class GemmTile:
    """Everything that the code generator derives from geometry, dtype and target."""

    chip: Chip
    dtype: str
    out_dtype: str
    geometry: KernelGeometry
    matrix: MatrixShape
    layout: TileLayout
    waves: int
    stages: int
    a: OperandShape
    b: OperandShape
    load_bytes: int = LOAD_BYTES
    """What a lane brings with one load."""

    @property
    def operands(self) -> tuple[OperandShape, OperandShape]:
        """A and B."""
        return self.a, self.b

    @property
    def elem_bytes(self) -> int:
        """Of A and B."""
        return self.geometry.elem_bytes

    @property
    def out_bytes(self) -> int:
        """Of an element of C."""
        return OUTPUT_BYTES[self.out_dtype]

    @property
    def row_bytes(self) -> int:
        """One row of a K tile."""
        return self.geometry.BK * self.elem_bytes

    @property
    def lds_bytes(self) -> int:
        """Of the workgroup."""
        return sum(self.operand_bytes(operand) for operand in self.operands)

    @property
    def reads_per_row(self) -> int:
        """16-byte reads per lane that cover a row of the K tile."""
        return self.row_bytes // (self.matrix.lane_blocks * LOAD_BYTES)

    @property
    def fragment_registers(self) -> int:
        """Registers of A or B that one MFMA takes."""
        return self.matrix.side * self.matrix.depth * self.elem_bytes // WAVE_LANES // 4

    @property
    def rows_at_once(self) -> int:
        """Rows that all waves bring with one load per lane."""
        return self.waves * self.slice_bytes // self.row_bytes

    @property
    def slice_bytes(self) -> int:
        """What one load instruction of one wave brings."""
        return WAVE_LANES * self.load_bytes

    def subtiles(self, operand: OperandShape) -> int:
        """MFMA tiles in a fragment."""
        return operand.rows_per_fragment // self.matrix.side

    def stage_bytes(self, operand: OperandShape) -> int:
        """One stage of one operand."""
        return operand.rows * self.row_bytes

    def operand_bytes(self, operand: OperandShape) -> int:
        """All stages of one operand; they lie together."""
        return self.stages * self.stage_bytes(operand)

    def fragment_start(self, operand: OperandShape, stage: int, fragment: int) -> int:
        """Where a fragment starts in LDS, from the operand's base and the wave's first row."""
        place = operand.order.place(operand.fragment_rows[fragment])
        return stage * self.stage_bytes(operand) + place * self.row_bytes

    def layout_of(self, operand: OperandShape) -> TileLayout:
        """The layout with this operand's order of rows."""
        return replace(self.layout, order=operand.order)

    def loads(self, rows: int, what: str) -> int:
        """Load instructions per wave that bring ``rows`` rows."""
        if not self.rows_at_once or rows % self.rows_at_once:
            raise EmitError(
                f"{what} has {rows} rows, but {self.waves} waves bring {self.rows_at_once} rows "
                f"of {self.row_bytes} bytes at once: some waves would have nothing to load",
                hint=f"choose a tile in which {self.rows_at_once} divides it, or a larger BK",
                field="KernelGeometry",
            )
        return rows // self.rows_at_once


def bit_weights(values: Sequence[int], what: str) -> tuple[int, ...]:
    """Weights w with values[n] = sum of w[i] over the set bits i of n.

    A wave's position in the block is a sum over the bits of its number, which scalar code can
    compute; a kernel model with another pattern is refused.
    """
    bits = (len(values) - 1).bit_length()
    weights = tuple(values[1 << i] for i in range(bits))
    for wave, value in enumerate(values):
        if value != sum(weights[i] for i in range(bits) if wave >> i & 1):
            raise EmitError(
                f"{what} by wave are {list(values)}, which is no sum over the bits of the wave "
                "number",
                hint="place waves in a grid of powers of two",
                field="kernel",
            )
    return weights


def matrix_shape(chip: Chip, dtype: str, geometry: KernelGeometry) -> MatrixShape:
    """The MFMA of this geometry; raises ``EmitError`` listing what the chip has."""
    if dtype not in ELEMENT_BYTES:
        raise EmitError(
            f"dtype {dtype!r} is not known to the emitter",
            hint=f"one of: {', '.join(ELEMENT_BYTES)}",
            field="dtype",
        )
    if ELEMENT_BYTES[dtype] != geometry.elem_bytes:
        raise EmitError(
            f"the geometry is for elements of {geometry.elem_bytes} byte(s), but {dtype} has "
            f"{ELEMENT_BYTES[dtype]}",
            hint="compile the schedule with the geometry of the dtype that you emit",
            field="dtype",
        )
    key = (dtype, geometry.MMA_M, geometry.MMA_N, geometry.MMA_K)
    if key not in chip.matrix:
        known = ", ".join(f"{m}x{n}x{k}" for kind, m, n, k in chip.matrix if kind == dtype)
        raise EmitError(
            f"{chip.name} has no {geometry.MMA_M}x{geometry.MMA_N}x{geometry.MMA_K} matrix "
            f"instruction for {dtype}",
            hint=f"it has: {known}",
            field="KernelGeometry.MMA_M",
        )
    return chip.matrix[key]


def check_out_dtype(out_dtype: str) -> None:
    """Raise ``EmitError`` unless C can be stored as this type."""
    if out_dtype not in OUTPUT_BYTES:
        raise EmitError(
            f"out_dtype {out_dtype!r} is not known to the emitter",
            hint=f"one of: {', '.join(OUTPUT_BYTES)}",
            field="out_dtype",
        )


def tile_layout(chip: Chip, geometry: KernelGeometry, matrix: MatrixShape) -> TileLayout:
    """The LDS layout of both operands."""
    return layout_for(chip, geometry.BK * geometry.elem_bytes, matrix.side)
