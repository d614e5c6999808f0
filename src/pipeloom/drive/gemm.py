"""``gemm_kernel``: a whole matrix product, C = op(A) @ op(B), from what a caller wants of it.

    made = gemm_kernel(GemmSpec(arch="gfx950", dtype="bf16", BM=256, BN=256))
    made.kernel.text, made.program           # assembly, and the proved program it is written from
    made.contract()                          # what k.json says: sizes, alignment, grid, arguments
    made.kernel.launch.check({"m": 1000, "n": 77, "k": 200})

Matrices are row-major. ``layout`` has a letter each for A and B: A is M x K (N) or stored as K x M
(T), B is K x N (N) or stored as N x K (T). Everything is declared as a ``Loop``, ordered by
``derive`` and proved; what a launch adds (any K, batches) is the writer's (``write.placing``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeloom.checks import check_int
from pipeloom.declare.loop import Loop
from pipeloom.declare.products import LAYOUTS, product, slices_sum
from pipeloom.drive.deriving import derive
from pipeloom.drive.loops import ROW_BYTES, ROWS, element_type
from pipeloom.drive.pipeline import pipeline
from pipeloom.errors import ConfigError, InternalError, OrderError
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import F32, DType, dtype_for
from pipeloom.machine.target import Target
from pipeloom.order.lower import lower
from pipeloom.order.patterns import structures, woven
from pipeloom.program.program import Program

if TYPE_CHECKING:
    from pipeloom.write import EmittedKernel


SUM_TILE = (16, 128)
SUM_WAVES = 4
"""Of the kernel that adds up slices: 8 elements of a lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmSpec:
    """One kernel of a family: the block of a workgroup, its waves, and what launches may ask.

    ``splits`` cuts K into so many slices, each with workgroups of its own, whose sums go to a
    workspace; a second kernel adds them up in order. ``BK`` is what two tiles leave room for in
    LDS, unless given. ``any_k`` takes every K (of whole 16 bytes, 4 on gfx942; see ``multiples``),
    else only whole trips. With ``search`` the order is the fastest that ``derive`` finds, else the
    first that fits, which is proved all the same.
    """

    arch: str = "gfx950"
    dtype: str = "bf16"
    out: str | None = None
    layout: str = "NT"
    BM: int = 256
    BN: int = 256
    BK: int | None = None
    waves_m: int = 2
    waves_n: int = 4
    alpha: bool = False
    beta: bool = False
    splits: int = 1
    any_k: bool = True
    batched: bool = False
    search: bool = True

    def __post_init__(self) -> None:
        for name in ("BM", "BN", "waves_m", "waves_n", "splits"):
            check_int("gemm", name, getattr(self, name), 1)
        if self.BK is not None:
            check_int("gemm", "BK", self.BK, 1)
        if self.layout not in LAYOUTS:
            raise ConfigError(
                f"gemm.layout is {self.layout!r}",
                hint=f"one of: {', '.join(LAYOUTS)}",
                field="layout",
            )

    @property
    def target(self) -> Target:
        """The chip."""
        return target_for(self.arch)

    @property
    def element(self) -> DType:
        """Of A and B."""
        return element_type(self.dtype, self.target)

    @property
    def out_element(self) -> DType:
        """Of C."""
        return dtype_for(self.out or ("f32" if self.element.bits == 8 else self.dtype))

    @property
    def depth(self) -> int:
        """K of a tile."""
        return self.BK or min(ROW_BYTES, self.target.lds_bytes // (2 * ROWS)) * 8 // (
            self.element.bits
        )

    def loop(self) -> Loop:
        """What one K tile means; of a slice, the sum alone."""
        whole = self.splits == 1
        return product(
            self.BM,
            self.BN,
            self.depth,
            self.element,
            self.out_element if whole else F32,
            layout=self.layout,
            alpha=self.alpha and whole,
            beta=self.beta and whole,
        )

    def rest(self) -> Loop:
        """What the second kernel does with the sums of the slices."""
        return slices_sum(*SUM_TILE, self.out_element, alpha=self.alpha, beta=self.beta)


@dataclass(frozen=True, slots=True)
class Gemm:
    """A kernel and the proved program that it is written from; with slices, a second one."""

    spec: GemmSpec
    program: Program
    kernel: EmittedKernel
    then: EmittedKernel | None = None

    def workspace(self, m: int, n: int, batches: int = 1) -> int:
        """Bytes that the first kernel writes (``out``) and the second reads (``P``)."""
        return 0 if self.then is None else 4 * self.spec.splits * batches * m * n

    def contract(self) -> dict[str, Any]:
        """All that a caller must know, as plain data."""
        from pipeloom.write import launch_record

        record = {**launch_record(self.kernel), "layout": self.spec.layout}
        if self.then is not None:
            record["workspace"] = f"4 * {self.spec.splits} * batches * m * n"
            record["then"] = launch_record(self.then)
        return record


def gemm_kernel(spec: GemmSpec) -> Gemm:
    """The kernel of a spec; raises ``ConfigError``, ``OrderError`` or ``EmitError`` by name."""
    from pipeloom.write import Placing, emit_program

    program = gemm_program(spec)
    name, whole = kernel_name(spec), spec.splits == 1
    alone: list[tuple[str, str]] = [("C", "beta")] if spec.beta else []
    operands = [("A", "alpha"), ("B", "alpha")] if spec.alpha and whole else []
    placing = Placing(
        ragged=spec.any_k or not whole,
        batched=spec.batched,
        slices=spec.splits,
        unless=(*operands, *(alone if whole else ())),
    )
    kernel = emit_program(program, name=name, placing=placing)
    if whole:
        return Gemm(spec, program, kernel)
    rest = pipeline(spec.rest(), spec.target, {"m": SUM_WAVES}, k_tiles=spec.splits)
    placing = Placing(batched=True, unless=tuple(alone))
    return Gemm(spec, program, kernel, emit_program(rest, name=f"{name}_sum", placing=placing))


def gemm_program(spec: GemmSpec) -> Program:
    """Ordered and proved."""
    loop, waves = spec.loop(), {"m": spec.waves_m, "n": spec.waves_n}
    if spec.search:
        derived = derive(loop, spec.target, waves)
        if derived is not None:
            return derived.program
    return first_program(loop, spec.target, waves)


def first_program(loop: Loop, target: Target, waves: dict[str, int]) -> Program:
    """The first order that fits; seconds, where the search for the fastest takes minutes."""
    lowered = lower(loop.meaning, target, loop.ops, loop.staged, waves)
    fault: OrderError | None = None
    for pattern in structures(lowered):
        try:
            program = woven(lowered, pattern)
        except OrderError as error:
            fault = fault or error
            continue
        verdict = verify(program)
        if not verdict.proved:
            raise InternalError(f"{pattern} gives a wrong program: {verdict.summary()}")
        return program
    raise fault or OrderError(f"{loop.name} has no order", hint="use other waves")


def kernel_name(spec: GemmSpec) -> str:
    """The kernel's symbol: what tells two kernels of one library apart."""
    spec = replace(spec, search=True)
    parts = [
        "gemm",
        spec.layout.lower(),
        spec.element.name,
        spec.out_element.name,
        f"{spec.BM}x{spec.BN}x{spec.depth}",
        f"w{spec.waves_m}x{spec.waves_n}",
    ]
    parts += [name for name in ("alpha", "beta") if getattr(spec, name)]
    parts += [f"k{spec.splits}"] if spec.splits > 1 else []
    parts += ["anyk"] if spec.any_k else []
    parts += ["batched"] if spec.batched else []
    return "_".join(parts)
