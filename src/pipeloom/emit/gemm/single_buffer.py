"""The single-buffer GEMM in machine code: registers as the second buffer, one LDS stage.

Loads go to staging registers (``buffer_load_dwordx4``), a store writes them to LDS
(``ds_write_b128``), so it runs where LDS-DMA is only 4 bytes wide (gfx942). Four waves, 2 by 2.
The kernel model leaves the rows of a wave to us; fragment t holds K step t of A and of B, and all
K steps add to the same accumulators.

Its entries count once for A and B together, and a store once for all its ``ds_write``; the
instructions emitted may be more, which only makes waits stricter (see ``lower_bounds``).
"""

from __future__ import annotations

from pipeloom.emit.allocate import SETUP, Value
from pipeloom.emit.chips import Chip
from pipeloom.emit.code import Code
from pipeloom.emit.entry import EmitRequest
from pipeloom.emit.faults import EmitError
from pipeloom.emit.gemm import scalars as s
from pipeloom.emit.gemm.emitter import WORDS, GemmEmitter
from pipeloom.emit.gemm.setup import LDS_WINDOW, SLICE_BYTES
from pipeloom.emit.gemm.tile import (
    ELEMENT_BYTES,
    GemmTile,
    OperandShape,
    matrix_shape,
    tile_layout,
)
from pipeloom.emit.isa import Bank, Register
from pipeloom.emit.plan import PlannedStep
from pipeloom.errors import InternalError
from pipeloom.geometry import LOAD_BYTES, WAVE_LANES, KernelGeometry
from pipeloom.graph import describe_op
from pipeloom.kernels import Counter, SingleBufferKernel
from pipeloom.ops import OpRole

GRID = 2
"""Waves along M and along N."""


class SingleBufferEmitter(GemmEmitter):
    """Emitter of the single-buffered kernel."""

    @property
    def k_steps(self) -> int:
        """Fragments per K tile."""
        kernel = self.plan.kernel
        assert isinstance(kernel, SingleBufferKernel)
        return kernel.k_steps

    @property
    def reads_per_step(self) -> int:
        """16-byte reads of a row in one K step."""
        return self.tile.reads_per_row // self.k_steps

    @property
    def lower_bounds(self) -> frozenset[Counter]:
        """Both: the model has one figure for A and B together."""
        return frozenset({Counter.VM, Counter.LGKM})

    def bank_registers(self, bank: str) -> int:
        """Staging: everything a thread loads. A fragment: A's tiles, then B's."""
        if bank.startswith("staging"):
            return WORDS * sum(self.load_count(operand) for operand in self.tile.operands)
        return sum(self._fragment_words(operand) for operand in self.tile.operands)

    def load_count(self, operand: OperandShape) -> int:
        """Loads per wave of a whole tile."""
        return self.tile.loads(operand.rows, f"the tile of {operand.name}")

    def _fragment_words(self, operand: OperandShape) -> int:
        return self.tile.subtiles(operand) * self.reads_per_step * WORDS

    def _write_windows(self) -> int:
        return -(-self.tile.lds_bytes // LDS_WINDOW)

    def more_values(self, steps: frozenset[int]) -> list[Value]:
        """Where the thread writes in LDS; the thread number times 16 fits one register."""
        live = steps | {SETUP}
        return [Value(f"write {w}", Bank.VECTOR, 1, live, 1) for w in range(self._write_windows())]

    def more_setup(self, code: Code, thread: Register) -> None:
        """LDS addresses of the stores."""
        code.comment("LDS addresses of the stores: 16 bytes per thread")
        first = self.places["write 0"]
        code("v_lshlrev_b32", first, LOAD_BYTES.bit_length() - 1, thread)
        for window in range(1, self._write_windows()):
            code("v_add_u32", self.places[f"write {window}"], window * LDS_WINDOW, first)

    def entry(self, code: Code, step: PlannedStep) -> None:
        """Load, store, fragment or compute, by role."""
        op = step.op
        match op.role:
            case OpRole.GLOBAL_LOAD:
                self._load(code, step)
            case OpRole.SHARED_STORE:
                self._store(code)
            case OpRole.FRAGMENT_LOAD:
                first = op.subtile * self.reads_per_step
                reads = range(first, first + self.reads_per_step)
                for operand, part in zip(
                    self.tile.operands, self._fragment(op.subtile), strict=True
                ):
                    self.read_fragment(code, operand, 0, 0, reads, part)
            case OpRole.COMPUTE:
                a, b = self._fragment(op.subtile)
                rows, columns = (range(self.tile.subtiles(o)) for o in self.tile.operands)
                self.multiply(code, a, b, rows, columns, self.reads_per_step)
            case _:
                raise InternalError(f"no instructions for {describe_op(op)}")

    def _fragment(self, k_step: int) -> tuple[Register, Register]:
        both = self.places[f"AB{k_step}"]
        words = self._fragment_words(self.tile.a)
        return both.part(0, words), both.part(words, both.count - words)

    def _load(self, code: Code, step: PlannedStep) -> None:
        if step.tile is None:
            raise InternalError(f"{step} brings no K tile")
        offset = self.tile_offset(code, step.tile)
        staging, at = self.places["staging0"], 0
        for operand in self.tile.operands:
            for number in range(self.load_count(operand)):
                address = self.places[f"load {operand.name}{number}"]
                code(
                    "buffer_load_dwordx4",
                    staging.part(at, WORDS),
                    address,
                    s.BUFFER[operand.name],
                    offset,
                    modifiers=["offen"],
                )
                at += WORDS

    def _store(self, code: Code) -> None:
        staging, at = self.places["staging0"], 0
        for operand in self.tile.operands:
            for number in range(self.load_count(operand)):
                offset = operand.lds_base + number * self.tile.waves * SLICE_BYTES
                window, offset = divmod(offset, LDS_WINDOW)
                address = self.places[f"write {window}"]
                code("ds_write_b128", address, staging.part(at, WORDS), offset=offset)
                at += WORDS


def single_buffer_geometry(
    target: Chip, dtype: str, *, BM: int = 128, BN: int = 128, BK: int | None = None, side: int = 16
) -> KernelGeometry:
    """A tile shape for the single-buffer kernel, with the deepest matrix instruction of the chip.

    BK is 128 bytes by default (256 for the deep fp8 instructions). The vmcnt costs are those of A
    and of B; ``single_buffer_costs`` has what a schedule counts.
    """
    if dtype not in ELEMENT_BYTES:
        raise EmitError(
            f"dtype {dtype!r} is not known to the emitter",
            hint=f"one of: {', '.join(ELEMENT_BYTES)}",
            field="dtype",
        )
    size = ELEMENT_BYTES[dtype]
    depth = max(k for kind, m, _, k in target.matrix if kind == dtype and m == side)
    fragment = side * depth * size // WAVE_LANES
    bk = (256 if fragment > LOAD_BYTES else 128) // size if BK is None else BK
    rows_at_once = GRID * GRID * WAVE_LANES * LOAD_BYTES // (bk * size)
    return KernelGeometry(
        BM=BM,
        BN=BN,
        BK=bk,
        MMA_M=side,
        MMA_N=side,
        MMA_K=depth,
        elem_bytes=size,
        simd_width=LOAD_BYTES // size,
        is_fp8=size == 1,
        vm_per_load_a=max(BM // rows_at_once, 1),
        vm_per_load_b=max(BN // rows_at_once, 1),
        lgkm_per_load_a=0,
        lgkm_per_load_b=0,
    )


def single_buffer_costs(geometry: KernelGeometry, k_steps: int) -> dict[str, int]:
    """What one load and one fragment of this tile count, for ``TargetProfile.with_pipeline``.

    A schedule compiled with these has the loosest waits that are right; one compiled without
    counts fewer entries than there are, and waits for more than it must.
    """
    rows = (geometry.BM + geometry.BN) // GRID // geometry.MMA_M
    reads = geometry.BK * geometry.elem_bytes * geometry.MMA_M // (LOAD_BYTES * WAVE_LANES)
    return {
        "vm_per_load_a": geometry.vm_per_load_a + geometry.vm_per_load_b,
        "lgkm_per_load_a": rows * reads // k_steps,
    }


def single_buffer_emitter(request: EmitRequest) -> SingleBufferEmitter:
    """The emitter of a single-buffer schedule; a schedule without geometry gets the default."""
    kernel = request.plan.kernel
    if not isinstance(kernel, SingleBufferKernel):
        raise InternalError(f"the single-buffer emitter got the kernel model {kernel.name}")
    chip, dtype = request.chip, request.dtype
    geometry = request.geometry or single_buffer_geometry(chip, dtype)
    matrix = matrix_shape(chip, dtype, geometry)
    row_bytes = geometry.BK * geometry.elem_bytes
    tile = GemmTile(
        chip=chip,
        dtype=dtype,
        out_dtype=request.out_dtype,
        geometry=geometry,
        matrix=matrix,
        layout=tile_layout(chip, geometry, matrix),
        waves=kernel.waves,
        stages=1,
        a=_operand(kernel, "A", geometry.BM, 0, matrix.side, 1),
        b=_operand(kernel, "B", geometry.BN, geometry.BM * row_bytes, matrix.side, 0),
    )
    step_bytes = row_bytes // kernel.k_steps
    wanted = max(matrix.lane_blocks * LOAD_BYTES, matrix.depth * geometry.elem_bytes)
    if row_bytes % kernel.k_steps or step_bytes % wanted:
        raise EmitError(
            f"BK = {geometry.BK} in {kernel.k_steps} K steps is {row_bytes / kernel.k_steps:g} "
            f"bytes a step, which is no multiple of {wanted}",
            hint=f"BK must be a multiple of {kernel.k_steps * wanted // geometry.elem_bytes}",
            field="KernelGeometry.BK",
        )
    return SingleBufferEmitter(
        tile, request.plan, request.compiled, request.accumulators, request.name
    )


def _operand(
    kernel: SingleBufferKernel, name: str, rows: int, base: int, side: int, wave_bit: int
) -> OperandShape:
    share = rows // GRID
    if rows % GRID or share % side:
        raise EmitError(
            f"B{'M' if name == 'A' else 'N'} = {rows} does not give each of {GRID} waves a "
            f"multiple of {side} rows",
            hint=f"choose a multiple of {GRID * side}",
            field="KernelGeometry",
        )
    return OperandShape(
        name=name,
        rows=rows,
        lds_base=base,
        wave_rows=tuple((wave >> wave_bit & 1) * share for wave in range(kernel.waves)),
        fragment_rows=(0,),
        rows_per_fragment=share,
    )
