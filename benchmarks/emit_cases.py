"""The kernels that the evidence for the emitter is about.

A kernel is a schedule, a target, a type and a tile. To add one, add a line to ``KERNELS``; a kernel
that the emitter refuses is listed as refused until it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pipeloom import compile_schedule
from pipeloom.errors import OrderError
from pipeloom.judge.verify.schedules import verify
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.mi355x import mi355x_single_buffer_target
from pipeloom.reference.schedules.four_wave import FourWaveSpec
from pipeloom.reference.schedules.gemm_tile import GemmTileSpec, TileSpec
from pipeloom.reference.schedules.ping_pong import PingPongSpec
from pipeloom.reference.schedules.single_buffer import SingleBufferSchedule
from pipeloom.reference.schedules.spec_parts import GeometrySpec
from pipeloom.write import (
    EmittedKernel,
    chip_for,
    emit_kernel,
    single_buffer_costs,
    single_buffer_geometry,
)
from pipeloom.write.gate import Judge

K_STEPS = 2
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1}
OUT_DTYPES = ("bf16", "fp16", "f32")
MODULO = {
    "gemm_tile": "four_wave",
    "gemm_tile_ping_pong": "ping_pong",
    "gemm_tile_single_buffer": "single_buffer",
}
"""Schedule -> the wave grid it is for."""
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
    accumulators: str = "agpr"

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
        return " ".join((*self.cells, self.accumulators))

    def geometry(self) -> KernelGeometry | None:
        """The tile of a schedule that is compiled without one."""
        if self.schedule != "single_buffer":
            return None
        bm, bn, bk, side, _ = self.shape
        return single_buffer_geometry(
            chip_for(self.target), self.dtype, BM=bm, BN=bn, BK=bk, side=side
        )

    def proved(self) -> CompiledSchedule:
        """The schedule with all the synchronisation it needs."""
        if self.schedule == "single_buffer":
            geometry = self.geometry()
            assert geometry is not None
            return _single_buffer(geometry)
        return _proved(self.schedule, self.target, self.shape, ELEMENT_BYTES[self.dtype])

    def emit(
        self, compiled: CompiledSchedule | None = None, judge: Judge = verify
    ) -> EmittedKernel:
        """The kernel, of the proved schedule or of another one for the same tile."""
        return emit_kernel(
            compiled or self.proved(),
            target=self.target,
            dtype=self.dtype,
            out_dtype=self.out_dtype,
            geometry=self.geometry(),
            accumulators=self.accumulators,
            judge=judge,
        )


@cache
def _single_buffer(geometry: KernelGeometry) -> CompiledSchedule:
    costs = single_buffer_costs(geometry, k_steps=K_STEPS)
    target = mi355x_single_buffer_target().with_pipeline(**costs)
    return _shipped(SingleBufferSchedule(K_STEPS, target=target))


@cache
def _proved(schedule: str, target: str, shape: Shape, elem_bytes: int) -> CompiledSchedule:
    """bf16 and fp16 share it. A modulo schedule is synchronised when it is compiled."""
    bm, bn, bk, side, depth = shape
    if schedule in MODULO:
        modulo = TileSpec(
            BM=bm, BN=bn, BK=bk, MMA_M=side, MMA_N=side, MMA_K=depth, elem_bytes=elem_bytes
        )
        return compile_schedule(
            GemmTileSpec(kernel=MODULO[schedule], arch=target, geometry=modulo).build()
        )
    tile = GeometrySpec(
        BM=bm, BN=bn, BK=bk, MMA_M=side, MMA_N=side, MMA_K=depth, elem_bytes=elem_bytes
    )
    made = PingPongSpec if schedule == "ping_pong" else FourWaveSpec
    return _shipped(made(geometry=tile).build())


def _shipped(schedule: PipelineSchedule) -> CompiledSchedule:
    """As ``pipeloom emit`` has it: barriers kept and loads moved, else barriers derived too."""
    try:
        return compile_schedule(schedule, sync="repaired", reorder=True)
    except OrderError:
        return compile_schedule(schedule, sync="proven")


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
STAGED_942 = REGISTERS_942 | {
    "fp8": [(64, 64, 128, 16, 32), (128, 64, 128, 32, 16), (128, 128, 128, 16, 32)]
}
"""Four waves along M, so 32 x 32 instructions need 128 rows."""
STAGED_950 = REGISTERS_950 | {
    "fp8": [(64, 64, 256, 16, 128), (128, 64, 256, 32, 64), (128, 128, 256, 16, 128)]
}
FOUR_WAVE_942 = _by_type(
    [(64, 64, 32, 16, 16), (128, 64, 32, 16, 16), (128, 128, 32, 32, 8)],
    [(64, 64, 64, 16, 32), (128, 64, 64, 16, 32), (128, 128, 64, 32, 16)],
)
PING_PONG_942 = _by_type(
    [(64, 128, 32, 16, 16), (128, 128, 32, 16, 16), (128, 256, 32, 32, 8)],
    [(64, 128, 64, 16, 32), (128, 128, 64, 16, 32), (128, 256, 64, 32, 16)],
)
KERNELS: Sequence[tuple[str, str, Mapping[str, Sequence[Shape]]]] = (
    ("ping_pong", "gfx950", LDS_DMA_950),
    ("four_wave", "gfx950", LDS_DMA_950),
    ("single_buffer", "gfx942", REGISTERS_942),
    ("single_buffer", "gfx950", REGISTERS_950),
    ("gemm_tile", "gfx942", FOUR_WAVE_942),
    ("gemm_tile", "gfx950", LDS_DMA_950),
    ("gemm_tile_ping_pong", "gfx942", PING_PONG_942),
    ("gemm_tile_ping_pong", "gfx950", LDS_DMA_950),
    ("gemm_tile_single_buffer", "gfx942", STAGED_942),
    ("gemm_tile_single_buffer", "gfx950", STAGED_950),
)


def cases() -> Iterator[Case]:
    """Every tile of every kernel."""
    for schedule, target, shapes in KERNELS:
        for dtype, choice in shapes.items():
            for shape in choice:
                yield Case(schedule, target, dtype, shape)


def output_cases() -> Iterator[Case]:
    """On the smallest tile of each kernel: every type of C; accumulators in VGPRs."""
    for schedule, target, shapes in KERNELS:
        for dtype, choice in shapes.items():
            case = Case(schedule, target, dtype, choice[0])
            for out in OUT_DTYPES:
                yield replace(case, out=out)
            yield replace(case, accumulators="vgpr")


def weakened_cases() -> Iterator[Case]:
    """Kernels that are weakened entry by entry: each type, small tiles and large."""
    for schedule, target, shapes in KERNELS:
        yield Case(schedule, target, "bf16", shapes["bf16"][0])
        yield Case(schedule, target, "fp16", shapes["fp16"][2])
        yield Case(schedule, target, "fp8", shapes["fp8"][-1])
        if len(shapes["bf16"]) > 3:
            yield Case(schedule, target, "bf16", shapes["bf16"][3])
