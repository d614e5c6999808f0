"""What the kernels share that stage through registers: global memory, registers, LDS, fragments.

Loads go to a set of staging registers (``buffer_load_dwordx4``), a store writes a set to a buffer
in LDS (``ds_write_b128``), so it runs where LDS-DMA is only 4 bytes wide (gfx942). A fragment is
one K step of A and of B, and all K steps add to the same accumulators.

Which staging set, LDS buffer, K step and fragment registers an op means is read off the kernel
model's effect, so that the proof and the code cannot disagree. A buffer holds A and B; in LDS all
buffers of A lie together, then those of B.
"""

from __future__ import annotations

from typing import Protocol

from pipeloom.errors import InternalError
from pipeloom.machine.target import LOAD_BYTES, WAVE_LANES
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import describe_op
from pipeloom.reference.ops import OpRole
from pipeloom.write.addresses import LDS_WINDOW
from pipeloom.write.allocate import SETUP, Value
from pipeloom.write.chips import Chip
from pipeloom.write.code import Code
from pipeloom.write.entry import EmitRequest
from pipeloom.write.faults import EmitError
from pipeloom.write.gemm import scalars as s
from pipeloom.write.gemm.emitter import WORDS, GemmEmitter
from pipeloom.write.gemm.tile import GemmTile, OperandShape, matrix_shape, tile_layout
from pipeloom.write.isa import Bank, Register
from pipeloom.write.layout import dealt_rows
from pipeloom.write.plan import Plan, PlannedStep


class StagedModel(Protocol):
    """What is asked of a kernel model beyond its effects."""

    waves: int
    k_steps: int


class StagedEmitter(GemmEmitter):
    """Emitter of a kernel whose loads go to registers first; ``k_steps`` fragments per K tile."""

    def __init__(self, tile: GemmTile, request: EmitRequest, k_steps: int) -> None:
        self.k_steps = k_steps
        super().__init__(tile, request.plan, request.compiled, request.accumulators, request.name)

    @property
    def reads_per_step(self) -> int:
        """16-byte reads of a row in one K step."""
        return self.tile.reads_per_row // self.k_steps

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
        effect = self.plan.effect(step)
        match step.op.role:
            case OpRole.GLOBAL_LOAD:
                self._load(code, step, self.places[str(effect.register_writes[0])])
            case OpRole.SHARED_STORE:
                staging = self.places[str(effect.register_reads[0])]
                self._store(code, staging, effect.lds_writes[0].stage)
            case OpRole.FRAGMENT_LOAD:
                source = effect.lds_reads[0].region
                first = source.half * self.reads_per_step
                reads = range(first, first + self.reads_per_step)
                fragment = self._fragment(str(effect.register_writes[0]))
                for operand, part in zip(self.tile.operands, fragment, strict=True):
                    self.read_fragment(code, operand, source.stage, 0, reads, part)
            case OpRole.COMPUTE:
                a, b = self._fragment(str(effect.register_reads[0]))
                rows, columns = (range(self.tile.subtiles(o)) for o in self.tile.operands)
                self.multiply(code, a, b, rows, columns, self.reads_per_step)
            case _:
                raise InternalError(f"no instructions for {describe_op(step.op)}")

    def _fragment(self, bank: str) -> tuple[Register, Register]:
        both = self.places[bank]
        words = self._fragment_words(self.tile.a)
        return both.part(0, words), both.part(words, both.count - words)

    def _load(self, code: Code, step: PlannedStep, staging: Register) -> None:
        if step.tile is None:
            raise InternalError(f"{step} brings no K tile")
        offset = self.tile_offset(code, step.tile)
        at = 0
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

    def _store(self, code: Code, staging: Register, stage: int) -> None:
        at = 0
        for operand in self.tile.operands:
            start = operand.lds_base + stage * self.tile.stage_bytes(operand)
            for number in range(self.load_count(operand)):
                run = number * self.tile.waves * self.tile.slice_bytes
                window, offset = divmod(start + run, LDS_WINDOW)
                address = self.places[f"write {window}"]
                code("ds_write_b128", address, staging.part(at, WORDS), offset=offset)
                at += WORDS


def staged_tile(
    request: EmitRequest, model: StagedModel, geometry: KernelGeometry, grid: tuple[int, int]
) -> GemmTile:
    """The tile of a staged kernel: ``grid`` waves along M and N, each with a run of whole rows."""
    chip = request.chip
    matrix = matrix_shape(chip, request.dtype, geometry)
    row_bytes = geometry.BK * geometry.elem_bytes
    stages = _buffers(request.plan)
    along_m, along_n = grid
    rows = tuple(wave // along_n for wave in range(model.waves))
    columns = tuple(wave % along_n for wave in range(model.waves))
    tile = GemmTile(
        chip=chip,
        dtype=request.dtype,
        out_dtype=request.out_dtype,
        geometry=geometry,
        matrix=matrix,
        layout=tile_layout(chip, geometry, matrix),
        waves=model.waves,
        stages=stages,
        a=_operand("A", geometry.BM, 0, chip, matrix.side, row_bytes, along_m, rows),
        b=_operand(
            "B",
            geometry.BN,
            stages * geometry.BM * row_bytes,
            chip,
            matrix.side,
            row_bytes,
            along_n,
            columns,
        ),
    )
    _require_even_steps(model.k_steps, geometry, matrix.lane_blocks * LOAD_BYTES)
    return tile


def _require_even_steps(k_steps: int, geometry: KernelGeometry, read_bytes: int) -> None:
    row_bytes = geometry.BK * geometry.elem_bytes
    wanted = max(read_bytes, geometry.MMA_K * geometry.elem_bytes)
    if row_bytes % k_steps or row_bytes // k_steps % wanted:
        raise EmitError(
            f"BK = {geometry.BK} in {k_steps} K steps is {row_bytes / k_steps:g} "
            f"bytes a step, which is no multiple of {wanted}",
            hint=f"BK must be a multiple of {k_steps * wanted // geometry.elem_bytes}",
            field="KernelGeometry.BK",
        )


def _buffers(plan: Plan) -> int:
    """How many LDS buffers the stores fill."""
    return 1 + max(
        (region.stage for step in plan.steps() for region in plan.effect(step).lds_writes),
        default=0,
    )


def _operand(
    name: str,
    rows: int,
    base: int,
    chip: Chip,
    side: int,
    row_bytes: int,
    along: int,
    places: tuple[int, ...],
) -> OperandShape:
    """``along`` waves share the rows; ``places`` is which share, by wave.

    Each ``ds_write`` brings rows of every share, as the proof assumes.
    """
    share = rows // along
    if rows % along or share % side or not share:
        raise EmitError(
            f"B{'M' if name == 'A' else 'N'} = {rows} does not give each of {along} waves a "
            f"multiple of {side} rows",
            hint=f"choose a multiple of {along * side}",
            field="KernelGeometry",
        )
    return OperandShape(
        name=name,
        rows=rows,
        lds_base=base,
        wave_rows=tuple(place * share for place in places),
        fragment_rows=(0,),
        rows_per_fragment=share,
        order=dealt_rows(chip, row_bytes, rows, along, len(places) * WAVE_LANES * LOAD_BYTES),
    )
