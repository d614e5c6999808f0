"""How many instructions an op of the specification's kernels takes, and of which kind.

The kernel model says what an entry touches; the tile shape says how many instructions that takes
(KERNELS.md section 3 of the specification):

    load      one LDS-DMA per vmcnt entry, each after a write of m0; 16 bytes per lane, or 4
              where the machine has no more and the counts say so; a load to registers is one
              instruction per entry
    store     one ds_write per load that filled the staging registers
    fragment  one ds_read per lgkmcnt entry
    MMA       a quadrant: (BK / MMA_K) steps of its m x n matrix instructions

A schedule of your own without a tile shape has what its counters say: loads and reads of 16 bytes
per lane, one for each entry, and for an MMA op as many matrix instructions as its declared latency
has room for. A shipped one is given a tile. A schedule whose waits count other instructions than
its tile has no counts: it is neither judged nor simulated.
"""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.machine.target import LOAD_BYTES, Target
from pipeloom.program import Issue, Unit
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import KERNELS, Kernel, OpEffect, SingleBufferKernel
from pipeloom.reference.ops import OpDesc, OpRole


class InstructionCounts:
    """The instructions of each op of one schedule on one machine."""

    def __init__(self, compiled: CompiledSchedule, machine: Target, kernel: Kernel) -> None:
        geometry = compiled.geometry
        self.fault = disagreement(compiled)
        own = geometry is None and compiled.schedule not in KERNELS
        self.is_known = own or (geometry is not None and self.fault is None)
        if not self.is_known:
            return
        self._staged = max(
            (
                kernel.effect(step, 0).entries
                for step in kernel.walk(compiled, 0, 1)
                if step.op.role is OpRole.GLOBAL_LOAD
            ),
            default=0,
        )
        if geometry is None:
            self._matrix, self._mmas = _matrix_of_latency(compiled, machine)
            self._fragment_bytes = self._load_bytes = LOAD_BYTES
            return
        self._matrix = machine.matrix_op(geometry.mma_name).name
        self._mmas = _mmas_per_op(geometry, kernel, compiled)
        self._fragment_bytes = _fragment_bytes(geometry, kernel)
        self._load_bytes = _load_bytes(geometry, machine, kernel, compiled)

    def issues(self, op: OpDesc, effect: OpEffect) -> tuple[Issue, ...]:
        """What ``op`` issues in one wave; nothing where that is not known."""
        if not self.is_known:
            return ()
        match op.role:
            case OpRole.GLOBAL_LOAD if not effect.lds_writes:
                return Issue(Unit.SCALAR), Issue(Unit.LOAD, effect.entries, bytes=LOAD_BYTES)
            case OpRole.GLOBAL_LOAD:
                pair = (Issue(Unit.SCALAR), Issue(Unit.LOAD_LDS, bytes=self._load_bytes))
                return pair * effect.entries
            case OpRole.SHARED_STORE:
                return (Issue(Unit.LDS_WRITE, self._staged, bytes=LOAD_BYTES),)
            case OpRole.FRAGMENT_LOAD:
                return (Issue(Unit.LDS_READ, effect.entries, bytes=self._fragment_bytes),)
            case OpRole.COMPUTE:
                return (Issue(Unit.MATRIX, self._mmas, shape=self._matrix),)
        raise ConfigError(
            f"{describe_op(op)} has role {op.role.name}, which has no instructions",
            hint="programs take loads, stores, fragments, MMAs, waits, barriers and priorities",
            field="OpDesc.role",
        )


def check_agreement(compiled: CompiledSchedule) -> None:
    """Refuse a pipeline whose counts are not those of its tile: its cycles would be of neither."""
    if (fault := disagreement(compiled)) is not None:
        raise fault


def disagreement(compiled: CompiledSchedule) -> ConfigError | None:
    """What a schedule counts otherwise than its tile, if it has one.

    A count of 0 is not known. A body of depth 1 may load both operands with one op, and may read
    fragments in pieces of its own.
    """
    config, knobs, geometry = compiled.config, compiled.schedule_config, compiled.geometry
    if geometry is None:
        return None
    for counter in ("vm", "lgkm"):
        names = [f"{counter}_per_load_{operand}" for operand in "ab"]
        counts = [getattr(geometry, name) for name in names]
        for name, count in zip(names, counts, strict=True):
            said = getattr(config, name) or getattr(knobs, name, 0)
            known = {count} if config.depth > 1 else {count, sum(counts)}
            own = config.depth == 1 and name != "vm_per_load_a"
            if said and count and not own and said not in known:
                return ConfigError(
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
            return ConfigError(
                f"PipelineConfig.{axis.lower()}_mmas is {count}, which does not divide the "
                f"{blocks} blocks of KernelGeometry.MMA_{axis} along KernelGeometry.B{axis}",
                hint=f"choose {axis.lower()}_mmas or B{axis} so that all MMA ops are of one size",
                field=f"PipelineConfig.{axis.lower()}_mmas",
            )
    return None


def _matrix_of_latency(compiled: CompiledSchedule, machine: Target) -> tuple[str, int]:
    """The deepest 16x16 instruction of 16-bit elements, and how many an MMA op's latency holds."""
    shape = max(
        (op for op in machine.matrix_ops if (op.m, op.n, op.dtype) == (16, 16, "f16")),
        key=lambda op: op.k,
    )
    latency = max((op.latency for op in compiled.body if op.role is OpRole.COMPUTE), default=0)
    return shape.name, max(round(latency / shape.cycles.value), 1)


def _mmas_per_op(geometry: KernelGeometry, kernel: Kernel, compiled: CompiledSchedule) -> int:
    """Matrix instructions of one MMA op and wave: its share of the tile.

    A schedule whose body is not known has the same ops in its loop; without any, nobody asks.
    """
    body = compiled.body or [entry.op for entry in compiled.kernel]
    ops = sum(op.role is OpRole.COMPUTE for op in body) or 1
    tiles = kernel.tiles_per_iteration
    whole = (geometry.BM // geometry.MMA_M) * (geometry.BN // geometry.MMA_N) * geometry.k_mmas
    return whole * tiles // (ops * kernel.waves)


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
