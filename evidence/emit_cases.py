"""The kernels that the evidence for the emitter is about.

A kernel is a schedule, a target, a type and a tile. To add one, add a line to ``KERNELS``; a kernel
that the emitter refuses is listed as refused until it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pipeloom import compile_schedule, load_spec, target_for
from pipeloom.drive.loops import BlockSpec, GemmTileSpec, element_type
from pipeloom.errors import OrderError
from pipeloom.judge.verify import verify
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.lift import lift
from pipeloom.reference.sized import sized
from pipeloom.write import EmittedKernel, emit_program
from pipeloom.write.lower.emit import ProgramJudge

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1}
OUT_DTYPES = ("bf16", "fp16", "f32")
LOOPS = {"gemm_tile": "four_wave", "gemm_tile_ping_pong": "ping_pong"}
"""What is declared, not scheduled -> the wave grid it is for."""
Shape = tuple[int, int, int, int, int]
"""BM, BN, BK, side of the matrix instruction, its depth."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel: BM x BN x BK with side x side x depth matrix instructions.

    ``out`` is the type of C where it is not the default of A's type.
    """

    schedule: str
    target: str
    dtype: str
    shape: Shape
    out: str | None = None

    @property
    def tile(self) -> str:
        """``256x256x64, 16x16x32``."""
        bm, bn, bk, side, depth = self.shape
        return f"{bm}x{bn}x{bk}, {side}x{side}x{depth}"

    @property
    def out_dtype(self) -> str:
        """Of C."""
        return self.out or ("f32" if self.dtype == "fp8" else self.dtype)

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """How a row of a page names it."""
        return self.schedule, self.target, f"{self.dtype} to {self.out_dtype}", self.tile

    def __str__(self) -> str:
        return " ".join(self.cells)

    @property
    def symbol(self) -> str:
        """What ``pipeloom emit`` calls it."""
        if self.schedule in LOOPS:
            return "gemm_tile"
        return f"{self.schedule}_{self.dtype}_{self.out_dtype}"

    def proved(self) -> CompiledSchedule:
        """The schedule with all the synchronisation it needs."""
        return _proved(self.schedule, self.shape, ELEMENT_BYTES[self.dtype])

    def program(self, compiled: CompiledSchedule | None = None) -> Program:
        """The program, of the proved schedule or of another one for the same tile."""
        bm, bn, bk, *_ = self.shape
        if self.schedule in LOOPS:
            return (
                GemmTileSpec(
                    kernel=LOOPS[self.schedule],
                    arch=self.target,
                    dtype=self.dtype,
                    out=self.out_dtype,
                    geometry=BlockSpec(BM=bm, BN=bn, BK=bk),
                )
                .build()
                .program()
            )
        made = compiled or self.proved()
        assert made.geometry is not None
        chip = target_for(self.target)
        lifted = lift(made, target=chip)
        return sized(lifted, made.geometry, element_type(self.dtype, chip), self.out_dtype)

    def emit(self, program: Program | None = None, judge: ProgramJudge = verify) -> EmittedKernel:
        """The kernel of its program, or of another one."""
        return emit_program(program or self.program(), judge=judge, name=self.symbol)


@cache
def _proved(schedule: str, shape: Shape, elem_bytes: int) -> CompiledSchedule:
    """As ``pipeloom emit`` has it: barriers kept and loads moved, else barriers derived too.

    bf16 and fp16 share it.
    """
    bm, bn, bk, side, depth = shape
    geometry = {"BM": bm, "BN": bn, "BK": bk, "MMA_M": side, "MMA_N": side, "MMA_K": depth}
    spec = {"schedule": schedule, "geometry": {**geometry, "elem_bytes": elem_bytes}}
    declared = load_spec(spec)
    if schedule == "single_buffer":
        return compile_schedule(declared, sync="proven")
    try:
        return compile_schedule(declared, sync="repaired", reorder=True)
    except OrderError:
        return compile_schedule(declared, sync="proven")


def _by_type(halves: list[Shape], octets: list[Shape]) -> dict[str, list[Shape]]:
    return {"bf16": halves, "fp16": halves, "fp8": octets}


LDS_DMA_950 = _by_type(
    [
        (128, 128, 64, 16, 32),
        (256, 128, 64, 16, 32),
        (128, 256, 64, 32, 16),
        (256, 256, 64, 16, 32),
    ],
    [(128, 128, 128, 16, 128), (128, 256, 128, 32, 64), (256, 256, 128, 16, 128)],
)
REGISTERS_942 = _by_type(
    [(64, 64, 64, 16, 16), (128, 64, 64, 32, 8), (128, 128, 64, 16, 16)],
    [(64, 64, 128, 16, 32), (64, 128, 128, 32, 16), (128, 128, 128, 16, 32)],
)
REGISTERS_950 = _by_type(
    [(64, 64, 64, 16, 32), (128, 64, 64, 32, 16), (128, 128, 64, 16, 32)],
    [(64, 64, 256, 16, 128), (64, 128, 256, 32, 64), (128, 128, 256, 16, 128)],
)
DECLARED_950 = _by_type(
    [(64, 64, 64, 16, 32), (128, 128, 64, 16, 32), (256, 256, 64, 16, 32)],
    [(128, 128, 128, 16, 128), (128, 256, 128, 16, 128), (256, 256, 128, 16, 128)],
)
"""A declared loop takes 16 x 16 instructions."""
DECLARED_942 = _by_type(
    [(64, 64, 32, 16, 16), (128, 64, 32, 16, 16), (128, 128, 32, 16, 16)],
    [(64, 64, 64, 16, 32), (128, 64, 64, 16, 32), (128, 128, 64, 16, 32)],
)
KERNELS: Sequence[tuple[str, str, Mapping[str, Sequence[Shape]]]] = (
    ("ping_pong", "gfx950", LDS_DMA_950),
    ("four_wave", "gfx950", LDS_DMA_950),
    ("single_buffer", "gfx942", REGISTERS_942),
    ("single_buffer", "gfx950", REGISTERS_950),
    ("gemm_tile", "gfx942", DECLARED_942),
    ("gemm_tile", "gfx950", DECLARED_950),
    ("gemm_tile_ping_pong", "gfx942", DECLARED_942),
    ("gemm_tile_ping_pong", "gfx950", DECLARED_950),
)


def cases() -> Iterator[Case]:
    """Every tile of every kernel."""
    for schedule, target, shapes in KERNELS:
        for dtype, choice in shapes.items():
            for shape in choice:
                yield Case(schedule, target, dtype, shape)


def output_cases() -> Iterator[Case]:
    """On the smallest tile of each kernel: every type of C."""
    for schedule, target, shapes in KERNELS:
        for dtype, choice in shapes.items():
            case = Case(schedule, target, dtype, choice[0])
            for out in OUT_DTYPES:
                yield replace(case, out=out)


def weakened_cases() -> Iterator[Case]:
    """Schedules that are weakened entry by entry."""
    for schedule, target, shapes in KERNELS:
        if schedule not in LOOPS:
            yield Case(schedule, target, "bf16", shapes["bf16"][0])
            yield Case(schedule, target, "fp8", shapes["fp8"][0])
