"""``emit_kernel``: from a compiled schedule to the text of a complete kernel.

    compiled = synchronize(compile_schedule(PingPongSpec(geometry=...).build()))
    emitted = emit_kernel(compiled, target="gfx950", dtype="bf16")
    print(emitted.resources)       # 168 VGPRs, 128 AGPRs, ..., 2 wave(s) per SIMD on gfx950
    code = assemble(emitted)       # bytes for hipModuleLoadData, or for the emulator
    emitted.grid(M, N), emitted.block

The passes: gate, plan, instructions, wait states, text. Each is a module of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pipeloom.checks import nearest
from pipeloom.judge.verify.schedules import Status, verify
from pipeloom.machine.target import WAVE_LANES
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.kernels import Kernel, kernel_for
from pipeloom.reference.ops import Phase
from pipeloom.write.allocate import Allocation, Resources
from pipeloom.write.chips import chip_for
from pipeloom.write.code import Code
from pipeloom.write.entry import Argument, EmitRequest, MakeEmitter
from pipeloom.write.faults import EmitError
from pipeloom.write.gate import Judge, pass_gate
from pipeloom.write.gemm import EMITTERS
from pipeloom.write.gemm.tile import OUTPUT_BYTES, check_out_dtype
from pipeloom.write.hazard_check import require_no_hazards
from pipeloom.write.hazards import insert_wait_states
from pipeloom.write.isa import Bank, Instruction, Line
from pipeloom.write.launch import Launch
from pipeloom.write.plan import plan_kernel
from pipeloom.write.problem import Problem, check_problem
from pipeloom.write.program import emit_program
from pipeloom.write.text import kernel_text

ACCUMULATOR_BANKS = {"agpr": Bank.ACCUMULATOR, "vgpr": Bank.VECTOR}


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an instruction comes from: the line of the text, and the schedule entry it serves."""

    line: int
    text: str
    entry: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedKernel:
    """A kernel as text, with what a launcher and a reader need to know of it."""

    name: str
    target: str
    dtype: str
    out_dtype: str
    geometry: KernelGeometry | None
    status: Status
    text: str
    line_map: Mapping[int, SourceLine]
    """Line number (from 1) -> the instruction on it."""
    lines: tuple[Line, ...]
    resources: Resources
    allocation: Allocation
    waves: int
    k_step: int
    k_min: int
    arguments: tuple[Argument, ...]
    launch: Launch | None = None
    """Of a program's kernel, which knows its own dimensions."""

    def __repr__(self) -> str:
        size = f"{len(self.line_map)} instructions"
        return f"<EmittedKernel {self.name} for {self.target}: {self.status.name}, {size}>"

    @property
    def block(self) -> tuple[int, int, int]:
        """Work-items of a workgroup."""
        return self.waves * WAVE_LANES, 1, 1

    def grid(self, M: int, N: int) -> tuple[int, int, int]:
        """Workgroups for an M x N result: along N, then along M."""
        shape = self._shape()
        return -(-N // shape.BN), -(-M // shape.BM), 1

    def _shape(self) -> KernelGeometry:
        if self.geometry is None:
            raise EmitError(
                f"kernel {self.name} has no tile shape to derive its launch from",
                hint="a kernel of your own knows its grid and sizes itself",
                field="geometry",
            )
        return self.geometry

    def check_problem(
        self,
        M: int,
        N: int,
        K: int,
        *,
        lda: int | None = None,
        ldb: int | None = None,
        ldc: int | None = None,
    ) -> None:
        """Raise ``EmitError`` for a size that this kernel cannot compute.

        Leading dimensions count elements and are K, K and N where left out. See ``problem``.
        """
        check_problem(
            Problem(M, N, K, lda=lda, ldb=ldb, ldc=ldc),
            self._shape(),
            out_bytes=OUTPUT_BYTES[self.out_dtype],
            k_min=self.k_min,
            k_step=self.k_step,
        )


def emit_kernel(
    compiled: CompiledSchedule,
    *,
    target: str = "gfx950",
    dtype: str = "bf16",
    out_dtype: str | None = None,
    geometry: KernelGeometry | None = None,
    accumulators: str = "agpr",
    allow_timing: bool = False,
    kernel: Kernel | None = None,
    emitter: MakeEmitter | None = None,
    judge: Judge = verify,
) -> EmittedKernel:
    """The kernel of a schedule whose verdict allows it.

    ``geometry`` is the schedule's own unless given; the counter costs that the schedule was
    compiled with must be those of the tile. ``out_dtype`` is ``dtype``, or f32 for fp8. A kernel of
    your own passes its model as ``kernel`` and its instructions as ``emitter``.
    """
    chip = chip_for(target)
    _require_arch(compiled, chip.name)
    out = out_dtype or ("f32" if dtype == "fp8" else dtype)
    check_out_dtype(out)
    if accumulators not in ACCUMULATOR_BANKS:
        raise EmitError(
            f"accumulators is {accumulators!r}",
            hint=f"one of: {', '.join(ACCUMULATOR_BANKS)}",
            field="accumulators",
        )
    make = emitter or EMITTERS.get(compiled.schedule)
    if make is None:
        raise EmitError(
            f"no emitter is known for schedule {compiled.schedule!r}",
            hint=f"pass emitter=, one of your own; {nearest(compiled.schedule, EMITTERS)}",
            field="emitter",
        )
    model = kernel_for(compiled) if kernel is None else kernel
    status = pass_gate(compiled, model, allow_timing=allow_timing, judge=judge)
    plan = plan_kernel(model, compiled)
    request = EmitRequest(
        compiled=compiled,
        plan=plan,
        chip=chip,
        dtype=dtype,
        out_dtype=out,
        geometry=geometry or compiled.geometry,
        accumulators=ACCUMULATOR_BANKS[accumulators],
        name=f"{compiled.schedule}_{dtype}_{out}",
    )
    made = make(request)
    code = Code()
    emit_program(made, plan, code, request.name)
    lines = tuple(insert_wait_states(code.lines, chip.name))
    shape = made.geometry
    bk = 1 if shape is None else shape.BK
    title = f"{compiled.schedule} on {chip.name}, {dtype} to {out}, {status.name}"
    if shape is not None:
        title += f"; block {shape.BM}x{shape.BN}x{shape.BK}"
    title += f"; {compiled.counts(Phase.KERNEL).barriers} barriers per iteration"
    text, numbers = kernel_text(
        request.name, chip.name, lines, made.resources, made.arguments, title
    )
    require_no_hazards(text, chip.name)
    return EmittedKernel(
        name=request.name,
        target=chip.name,
        dtype=dtype,
        out_dtype=out,
        geometry=shape,
        status=status,
        text=text,
        line_map=line_map(lines, numbers),
        lines=lines,
        resources=made.resources,
        allocation=made.allocation,
        waves=model.waves,
        k_step=plan.tiles_per_iteration * bk,
        k_min=model.tiles(model.min_trips) * bk,
        arguments=made.arguments,
    )


def _require_arch(compiled: CompiledSchedule, target: str) -> None:
    """A schedule made of one chip's costs and counts is not emitted for another."""
    if compiled.arch not in (None, target):
        raise EmitError(
            f"the {compiled.schedule} schedule was compiled for {compiled.arch}, but the target is "
            f"{target}: its instruction counts, waits and depth are those of {compiled.arch}",
            hint=f"compile it with arch={target} (--set arch={target}), or emit it for "
            f"{compiled.arch} (--target {compiled.arch})",
            field="target",
        )


def line_map(lines: tuple[Line, ...], numbers: list[int]) -> Mapping[int, SourceLine]:
    """Line of the text -> its instruction."""
    return MappingProxyType(
        {
            number: SourceLine(
                number, str(line), None if line.provenance is None else str(line.provenance)
            )
            for line, number in zip(lines, numbers, strict=True)
            if isinstance(line, Instruction)
        }
    )
