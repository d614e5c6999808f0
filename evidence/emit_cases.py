"""The kernels that the evidence for the emitter is about.

Of the matrix: a schedule, a target, a type and a tile. To add one, add a line to ``KERNELS``; one
that the emitter refuses is listed as refused until it does not. Those that are weakened are of
every family.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from pipeloom import compile_schedule, load_spec, target_for
from pipeloom.declare.gemm_problem import Finish
from pipeloom.drive.gemm import Gemm, GemmSpec, gemm_kernel
from pipeloom.drive.loops import (
    AttentionSpec,
    BlockSpec,
    GemmBiasSpec,
    GemmGateSpec,
    GemmScaledSpec,
    GemmTileSpec,
    RmsNormSpec,
    SoftmaxSpec,
)
from pipeloom.errors import OrderError
from pipeloom.judge.verify import verify
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.lift import lift
from pipeloom.write import EmittedKernel, Placing, emit_program
from pipeloom.write.launch import Launch
from pipeloom.write.lower.emit import ProgramJudge

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1}
OUT_DTYPES = ("bf16", "fp16", "f32")
LOOPS = {"gemm_tile": "four_wave", "gemm_tile_ping_pong": "ping_pong"}
"""What is declared, not scheduled -> the wave grid it is for."""
FUSED = {"gemm_bias": GemmBiasSpec, "gemm_gate": GemmGateSpec, "gemm_scaled": GemmScaledSpec}
ROWS = {"softmax": SoftmaxSpec, "rms_norm": RmsNormSpec}
Shape = tuple[int, int, int, int, int]
"""BM, BN, BK, side of the matrix instruction, its depth."""


class Subject(Protocol):
    """A kernel that can be weakened, emitted all the same, and run."""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """How a row of a page names it."""
        ...

    def program(self) -> Program:
        """Proved."""
        ...

    def emit(self, program: Program | None = None, judge: ProgramJudge = verify) -> EmittedKernel:
        """The kernel of its program, or of another one."""
        ...

    @property
    def scalars(self) -> Mapping[str, float]:
        """Of a run, where it is not the usual ones that show most."""
        ...

    def sizes(self, launch: Launch, trips: int, ragged: bool = False) -> dict[str, int]:
        """Of a run with so many trips, of which the last is not a whole one if that may be."""
        ...


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

    def program(self) -> Program:
        """With all the synchronisation it needs."""
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
        made = _proved(self.schedule, self.shape, ELEMENT_BYTES[self.dtype])
        assert made.geometry is not None
        chip = target_for(self.target)
        return lift(made, target=chip, dtype=self.dtype, out=self.out_dtype)

    def emit(self, program: Program | None = None, judge: ProgramJudge = verify) -> EmittedKernel:
        """The kernel of its program, or of another one."""
        return emit_program(program or self.program(), judge=judge, name=self.symbol)

    @property
    def scalars(self) -> Mapping[str, float]:
        """None."""
        return {}

    def sizes(self, launch: Launch, trips: int, ragged: bool = False) -> dict[str, int]:
        """The whole tile."""
        bm, bn, *_ = self.shape
        return {"m": bm, "n": bn, "k": launch.least + trips * launch.step}


@dataclass(frozen=True, slots=True)
class FamilyCase:
    """A kernel of a spec; ``others`` are sizes of a run but that of the loop."""

    family: str
    spec: GemmSpec | GemmTileSpec | AttentionSpec | SoftmaxSpec
    what: str
    others: tuple[tuple[str, int], ...]
    less: int = 0
    """By how much the size of the loop may fall short of whole trips."""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """How a row of a page names it."""
        return self.family, self.spec.arch, self.spec.dtype, self.what

    def __str__(self) -> str:
        return " ".join(self.cells)

    def program(self) -> Program:
        """Proved."""
        if isinstance(self.spec, GemmSpec):
            return _whole(self.spec).program
        return self.spec.build().program()

    def emit(self, program: Program | None = None, judge: ProgramJudge = verify) -> EmittedKernel:
        """The kernel of its program, or of another one."""
        spec = self.spec
        placing = _whole(spec).kernel.launch.placing if isinstance(spec, GemmSpec) else Placing()
        return emit_program(program or self.program(), judge=judge, placing=placing)

    @property
    def scalars(self) -> Mapping[str, float]:
        """Scores that hardly differ: a rescale, which waits by itself, is jumped over."""
        if isinstance(self.spec, AttentionSpec):
            return {"scale": 1e-4}
        return {"beta": 1.0} if isinstance(self.spec, GemmSpec) and self.spec.finish.beta else {}

    def sizes(self, launch: Launch, trips: int, ragged: bool = False) -> dict[str, int]:
        """As given, and so many trips."""
        whole = launch.least + trips * launch.step
        return dict(self.others) | {launch.meaning.over: whole - ragged * self.less}


@cache
def _whole(spec: GemmSpec) -> Gemm:
    return gemm_kernel(spec)


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
                if out != case.out_dtype:
                    yield replace(case, out=out)


def weakened_cases() -> Iterator[Subject]:
    """Programs that are weakened step by step: of every family, on both chips."""
    for schedule, target, shapes in KERNELS:
        yield Case(schedule, target, "bf16", shapes["bf16"][0])
        if schedule not in LOOPS:
            yield Case(schedule, target, "fp8", shapes["fp8"][0])
    block, square = BlockSpec(BM=64, BN=64), (("m", 64), ("n", 64))
    small = GemmSpec(BM=64, BN=64, waves_m=2, waves_n=2, search=False)
    for dtype in ("mxfp8", "mxfp4"):
        yield FamilyCase("gemm", replace(small, dtype=dtype), "64x64, block scales", square)
    rows = (("b", 1), ("n", 256))
    for arch in ("gfx942", "gfx950"):
        for layout in ("NT", "TN"):
            whole = replace(small, arch=arch, layout=layout, finish=Finish(beta=True))
            yield FamilyCase("gemm", whole, f"64x64, {layout}, beta", square)
        for family, fused in FUSED.items():
            yield FamilyCase(family, fused(arch=arch, geometry=block), "64x64", square)
        heads = (("q", 64), ("d", 64), ("v", 64), ("batch", 1), ("heads", 1), ("group", 1))
        spec = AttentionSpec(arch=arch, d=64, causal=True, waves=2, keys=32)
        yield FamilyCase("attention", spec, "d 64, causal, 2 waves", heads, 7)
        for family, narrow in ROWS.items():
            yield FamilyCase(family, narrow(arch=arch, columns=256), "256 columns", rows)
