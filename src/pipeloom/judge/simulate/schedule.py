"""A compiled schedule on the machine: each entry becomes the instructions it stands for.

The kernel model says which waves walk which entries and what an entry touches; the tile shape says
how many instructions that takes (KERNELS.md section 3 of the specification):

    load      one LDS-DMA per vmcnt entry, each after a write of m0; 16 bytes per lane, or 4
              where the machine has no more and the counts say so; a load to registers is one
              instruction per entry
    store     one ds_write per load that filled the staging registers
    fragment  one ds_read per lgkmcnt entry
    MMA       a quadrant: (BK / MMA_K) steps of its m x n matrix instructions
    loop      two scalar instructions and the branch back

Waves go to the SIMDs in turn, so that waves w and w + 4 share one: in the ping-pong one of each
group.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.engine import simulate_programs
from pipeloom.judge.simulate.instruction import Instruction, WaveProgram
from pipeloom.judge.simulate.trace import Trace
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import MatrixOp, Target
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.config import PipelineConfig, ScheduleConfig
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import Effect, Kernel, SingleBufferKernel, Step, kernel_for
from pipeloom.reference.ops import OpRole, OpTag, Phase

LOAD_BYTES = 16
_VERBS = {
    OpRole.GLOBAL_LOAD: "load",
    OpRole.SHARED_STORE: "store",
    OpRole.FRAGMENT_LOAD: "frag",
}


def simulate(
    compiled: CompiledSchedule,
    machine: Target | None = None,
    kernel: Kernel | None = None,
    k_tiles: int = 32,
    *,
    jitter: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Run one workgroup over ``k_tiles`` K tiles on one compute unit (gfx950 by default)."""
    chosen = target_for("gfx950") if machine is None else machine
    model = kernel_for(compiled) if kernel is None else kernel
    trips = trips_for(model, k_tiles)
    programs = schedule_programs(compiled, chosen, model)
    return simulate_programs(programs, chosen, trips, jitter=jitter, seed=seed)


def trips_for(kernel: Kernel, k_tiles: int) -> int:
    """The trip count at which ``kernel`` sums ``k_tiles`` tiles."""
    extra, step = kernel.tiles(0), kernel.tiles_per_iteration
    trips, rest = divmod(k_tiles - extra, step)
    if rest or trips < kernel.min_trips:
        least = kernel.tiles(kernel.min_trips)
        raise ConfigError(
            f"the {kernel.name} kernel cannot sum {k_tiles} K tiles",
            hint=f"use {least}, {least + step}, {least + 2 * step}, ...",
            field="k_tiles",
        )
    return trips


def schedule_programs(
    compiled: CompiledSchedule, machine: Target, kernel: Kernel
) -> tuple[WaveProgram, ...]:
    """One program per wave of the workgroup."""
    lowering = _Lowering(compiled, machine, kernel)
    simds = machine.simds.value
    return tuple(
        WaveProgram(
            simd=wave % simds,
            group=kernel.group_of(wave),
            prologue=lowering.part(wave, Phase.PROLOGUE),
            loop=lowering.part(wave, Phase.KERNEL),
            epilogue=lowering.part(wave, Phase.EPILOGUE),
        )
        for wave in range(kernel.waves)
    )


class _Lowering:
    """Turns the steps of a wave into instructions."""

    def __init__(self, compiled: CompiledSchedule, machine: Target, kernel: Kernel) -> None:
        geometry = compiled.geometry
        if geometry is None:
            raise ConfigError(
                f"{compiled.schedule} has no tile shape, so its ops have no instruction counts",
                hint="give it a geometry; in a spec file: [geometry] BK, MMA_K, elem_bytes",
                field="geometry",
            )
        _check_agreement(compiled.config, compiled.schedule_config, geometry)
        self.kernel = kernel
        self.compiled = compiled
        self.matrix_op = _matrix_op(geometry, machine)
        self.mmas = _mmas_per_op(geometry, kernel, compiled)
        self.fragment_bytes = _fragment_bytes(geometry, kernel)
        self.load_bytes = _load_bytes(geometry, machine, kernel, compiled)
        self.staged = max(
            (
                kernel.effect(step, 0).entries
                for step in kernel.walk(compiled, 0, 1)
                if step.op.role is OpRole.GLOBAL_LOAD
            ),
            default=0,
        )

    def part(self, wave: int, phase: Phase) -> tuple[Instruction, ...]:
        steps = [s for s in self.kernel.walk(self.compiled, wave, 1) if s.phase is phase]
        instructions = [i for step in steps for i in self._instructions(step, wave)]
        if phase is Phase.KERNEL:
            instructions += [
                Instruction.salu(label="k += step"),
                Instruction.salu(label="k < K?"),
                Instruction.branch(),
            ]
        return tuple(instructions)

    def _instructions(self, step: Step, wave: int) -> Iterable[Instruction]:
        op, slot = step.op, step.slot if step.slot >= 0 else None
        if op.is_framework:
            return _sync(step, slot)
        effect = self.kernel.effect(step, wave)
        label = _label(step, effect)
        if op.role is OpRole.GLOBAL_LOAD and not effect.lds_writes:
            load = Instruction.global_load(LOAD_BYTES, to_lds=False, label=label, entry=slot)
            return (
                Instruction.salu(label=f"offset for {label}", entry=slot),
                *(load,) * effect.entries,
            )
        if op.role is OpRole.GLOBAL_LOAD:
            pair = (
                Instruction.salu(label=f"m0 for {label}", entry=slot),
                Instruction.global_load(self.load_bytes, to_lds=True, label=label, entry=slot),
            )
            return pair * effect.entries
        if op.role is OpRole.SHARED_STORE:
            write = Instruction.lds_write(LOAD_BYTES, label=label, entry=slot)
            return (write,) * self.staged
        if op.role is OpRole.FRAGMENT_LOAD:
            read = Instruction.lds_read(self.fragment_bytes, label=label, entry=slot)
            return (read,) * effect.entries
        if op.role is OpRole.COMPUTE:
            return (Instruction.mfma(self.matrix_op, label=label, entry=slot),) * self.mmas
        raise ConfigError(
            f"{describe_op(op)} has role {op.role.name}, which the simulator cannot lower",
            hint="simulate takes loads, stores, fragments, MMAs, waits, barriers and priorities",
            field="OpDesc.role",
        )


def _check_agreement(
    config: PipelineConfig, knobs: ScheduleConfig, geometry: KernelGeometry
) -> None:
    """Refuse a pipeline whose counts are not those of its tile: its cycles would be of neither.

    A count of 0 is not known. A body of depth 1 may load both operands with one op, and may read
    fragments in pieces of its own.
    """
    for counter in ("vm", "lgkm"):
        names = [f"{counter}_per_load_{operand}" for operand in "ab"]
        counts = [getattr(geometry, name) for name in names]
        for name, count in zip(names, counts, strict=True):
            said = getattr(config, name) or getattr(knobs, name, 0)
            known = {count} if config.depth > 1 else {count, sum(counts)}
            own = config.depth == 1 and name != "vm_per_load_a"
            if said and count and not own and said not in known:
                raise ConfigError(
                    f"PipelineConfig.{name} is {said}, but KernelGeometry.{name} is {count}: the "
                    "waits count other instructions than the tile has",
                    hint=f"make both {count}, as the tile asks, or compile without a geometry",
                    field=f"PipelineConfig.{name}",
                )
    for axis, blocks, count in (
        ("M", geometry.BM // geometry.MMA_M, config.m_mmas),
        ("N", geometry.BN // geometry.MMA_N, config.n_mmas),
    ):
        if blocks % count:
            raise ConfigError(
                f"PipelineConfig.{axis.lower()}_mmas is {count}, which does not divide the "
                f"{blocks} blocks of KernelGeometry.MMA_{axis} along KernelGeometry.B{axis}",
                hint=f"choose {axis.lower()}_mmas or B{axis} so that all MMA ops are of one size",
                field=f"PipelineConfig.{axis.lower()}_mmas",
            )


def _sync(step: Step, slot: int | None) -> Iterable[Instruction]:
    op = step.op
    if op.tag == OpTag.BARRIER:
        return (Instruction.barrier(label=step.origin or "barrier", entry=slot),)
    if op.tag == OpTag.WAIT_VM:
        return (Instruction.wait(vm=op.wait_value, entry=slot),)
    if op.tag == OpTag.WAIT_LGKM:
        return (Instruction.wait(lgkm=op.wait_value, entry=slot),)
    if op.tag == OpTag.SET_PRIO:
        return (Instruction.set_prio(op.wait_value, entry=slot),)
    return ()


def _label(step: Step, effect: Effect) -> str:
    """As the other tables have it: ``load A[1,0]``, ``frag B[0,1]``, ``mma (0,1)``.

    A load to registers names them: ``load staging0``.
    """
    op = step.op
    if op.role is OpRole.COMPUTE:
        return f"mma ({op.stage},{op.subtile})"
    if op.role is OpRole.GLOBAL_LOAD and not effect.lds_writes:
        return f"load {effect.register_writes[0]}" if effect.register_writes else "load"
    regions = [*effect.lds_writes, *(read.region for read in effect.lds_reads)]
    operand = regions[0].operand if regions else ""
    return f"{_VERBS.get(op.role, 'op')} {operand}[{op.stage},{op.subtile}]"


def _matrix_op(geometry: KernelGeometry, machine: Target) -> MatrixOp:
    dtype = "fp8" if geometry.is_fp8 else "f16"
    return machine.matrix_op(f"{geometry.MMA_M}x{geometry.MMA_N}x{geometry.MMA_K}_{dtype}")


def _mmas_per_op(geometry: KernelGeometry, kernel: Kernel, compiled: CompiledSchedule) -> int:
    """Matrix instructions of one MMA op and wave: its share of the tile."""
    ops = sum(op.role is OpRole.COMPUTE for op in compiled.body)
    tiles = kernel.tiles_per_iteration
    whole = (geometry.BM // geometry.MMA_M) * (geometry.BN // geometry.MMA_N) * geometry.k_mmas
    share, rest = divmod(whole * tiles, ops * kernel.waves)
    if rest or not share:
        raise ConfigError(
            f"the body has {ops} MMA ops for {kernel.waves} waves, but a tile of KernelGeometry.BM "
            f"{geometry.BM}, BN {geometry.BN} and BK {geometry.BK} has {whole * tiles} matrix "
            "instructions, which they cannot share evenly",
            hint="make PipelineConfig.m_mmas and n_mmas divide the tile, or change the tile",
            field="PipelineConfig.m_mmas",
        )
    return share


def _load_bytes(
    geometry: KernelGeometry, machine: Target, kernel: Kernel, compiled: CompiledSchedule
) -> int:
    """Bytes per lane of a load: 16, or what the machine can where the counts were made for that."""
    pieces = {
        op.subtile for op in compiled.body if op.role is OpRole.GLOBAL_LOAD and op.channel == 0
    }
    lanes = len(pieces) * kernel.waves * 64 * geometry.vm_per_load_a
    narrow = machine.dma_max_bytes_per_lane.value
    whole = geometry.BM * geometry.BK * geometry.elem_bytes
    return min(LOAD_BYTES, narrow) if lanes and whole <= lanes * narrow else LOAD_BYTES


def _fragment_bytes(geometry: KernelGeometry, kernel: Kernel) -> int:
    """Bytes per lane of a read; the single-buffer kernel reads 16, for two shallow MMAs at once."""
    if isinstance(kernel, SingleBufferKernel):
        return LOAD_BYTES
    lane = geometry.MMA_M * geometry.MMA_K // 64 * geometry.elem_bytes
    return min(lane, LOAD_BYTES)
