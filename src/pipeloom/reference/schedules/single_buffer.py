"""The single-buffered matmul: one LDS stage, registers as the second buffer.

Global loads land in registers while the MMAs run; between two barriers the tile is stored to
LDS; fragment 0 of the next tile is read before the iteration ends.

With a tile shape the counter costs follow from it: a load op counts what A and B take together, a
fragment the reads of one K step. Example, bf16 128x128x64 in two K steps::

    SingleBufferSpec(geometry=SingleBufferGeometrySpec(BK=64, MMA_K=32, elem_bytes=2))
    # 4 waves x 64 lanes x 16 bytes bring 32 rows at once: 4 + 4 loads
    # a wave reads (64 + 64) / 16 row groups, one ds_read_b128 each per K step: 8 reads
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from pipeloom.checks import check_instance, check_int
from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.reference.compiled import ScheduleEntry
from pipeloom.reference.config import PipelineConfig, TargetProfile
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.geometry import SINGLE_BUFFER_GRID as WAVE_GRID
from pipeloom.reference.geometry import KernelGeometry, divide
from pipeloom.reference.hints import AMDScheduleHints, append_amd_hints
from pipeloom.reference.mi355x import SingleBufferTag, mi355x_single_buffer_target
from pipeloom.reference.ops import OpDesc, PipelineBody
from pipeloom.reference.reorder import optimize_within_barriers, single_buffer_reorder
from pipeloom.reference.schedules.spec_parts import SingleBufferGeometrySpec, SingleBufferTargetSpec
from pipeloom.reference.tag_costs import annotate_ops

MAX_K_TILES = 256
"""Far beyond what fits in LDS; keeps a slip from becoming a body of millions of ops."""


class SingleBufferSchedule(PipelineSchedule):
    """Default matmul with ``num_k_tiles`` fragments and MMA groups per iteration.

    With ``geometry`` the target's counter costs are replaced by those of the tile.

    Args:
        num_k_tiles: K steps of one tile, each a fragment load and an MMA group.
        hints: instruction counts for the compiler hints that follow the kernel.
        target: the machine; by default the MI355X profile of a single buffer.
        geometry: the tile, where the schedule is for one; simulating and emitting need it.
    """

    def __init__(
        self,
        num_k_tiles: int = 2,
        hints: AMDScheduleHints | None = None,
        target: TargetProfile | None = None,
        *,
        geometry: KernelGeometry | None = None,
    ) -> None:
        check_int("SingleBufferSchedule", "num_k_tiles", num_k_tiles, 1, MAX_K_TILES)
        self.num_k_tiles = num_k_tiles
        self.hints = AMDScheduleHints() if hints is None else hints
        self._target = mi355x_single_buffer_target() if target is None else target
        check_instance("SingleBufferSchedule", "hints", self.hints, AMDScheduleHints)
        check_instance("SingleBufferSchedule", "target", self._target, TargetProfile)
        self._geometry = geometry
        if geometry is not None:
            check_instance("SingleBufferSchedule", "geometry", geometry, KernelGeometry)
            reads = geometry.lgkm_per_load_a + geometry.lgkm_per_load_b
            self._target = self._target.with_pipeline(
                vm_per_load_a=geometry.vm_per_load_a + geometry.vm_per_load_b,
                lgkm_per_load_a=reads or _fragment_reads(geometry, num_k_tiles),
            )

    @property
    def name(self) -> str:
        """``single_buffer``."""
        return "single_buffer"

    def config(self) -> PipelineConfig:
        """The target's pipeline."""
        return self._target.pipeline

    def geometry(self) -> KernelGeometry | None:
        """The tile shape, where one was given."""
        return self._geometry

    def declare_ops(self) -> list[OpDesc]:
        """Load, store, barrier, fragments, MMAs."""
        tag = SingleBufferTag
        body = PipelineBody()
        body.load(tag.LOAD_DRAM, ch=0).store(tag.STORE_SMEM, ch=0).barrier()
        body.fan(self.num_k_tiles, tag.LOAD_FRAG, ch=0)
        body.fan(self.num_k_tiles, tag.COMPUTE)
        return body.done()

    def build_body(self) -> list[OpDesc]:
        """Annotated, arranged around the two barriers, optimal between them."""
        annotated = annotate_ops(self.declare_ops(), self._target.cost_model)
        arranged = single_buffer_reorder(annotated, self.config())
        return optimize_within_barriers(arranged, self.config())

    def transform_kernel(
        self, ker: list[ScheduleEntry], body: list[OpDesc]
    ) -> tuple[ScheduleEntry, ...]:
        """The kernel, then the AMD instruction-group hints.

        Args:
            ker: the body's entries.
            body: the body itself, whose fragments the hints count.
        """
        return append_amd_hints(ker, body, self.hints, self.config().loop_carried.selector)


def single_buffer_shape(
    num_k_tiles: int = 2,
    *,
    BM: int = 128,
    BN: int = 128,
    BK: int,
    MMA_M: int = 16,
    MMA_N: int = 16,
    MMA_K: int,
    elem_bytes: int,
    lds_limit: int = GFX950.lds_bytes,
) -> KernelGeometry:
    """The tile of four waves, 2 by 2, with what one load and one fragment count for A and for B.

    A load is 16 bytes per lane to registers, a fragment read ``ds_read_b128`` whatever the depth of
    the matrix instruction: two shallow ones share it.
    """
    shape = {"BM": BM, "BN": BN, "BK": BK, "MMA_M": MMA_M, "MMA_N": MMA_N, "MMA_K": MMA_K}
    for name, value in (*shape.items(), ("elem_bytes", elem_bytes), ("lds_limit", lds_limit)):
        check_int("KernelGeometry", name, value, 1)
    check_int("SingleBufferSchedule", "num_k_tiles", num_k_tiles, 1, MAX_K_TILES)
    check_int("KernelGeometry", "MMA_M", MMA_M, 1, WAVE_LANES)
    row_bytes = BK * elem_bytes
    for what, value, by, by_what in (
        ("16-byte load", LOAD_BYTES, elem_bytes, "elem_bytes"),
        ("BM", BM, WAVE_GRID[0] * MMA_M, "2 waves * MMA_M"),
        ("BN", BN, WAVE_GRID[1] * MMA_N, "2 waves * MMA_N"),
        ("BK", BK, num_k_tiles * MMA_K, "num_k_tiles * MMA_K"),
        (
            "bytes of a K step in a row",
            row_bytes // num_k_tiles,
            WAVE_LANES // MMA_M * LOAD_BYTES,
            "a ds_read_b128 of the wave",
        ),
    ):
        divide(value, by, what, by_what)
    if (BM + BN) * row_bytes > lds_limit:
        raise ConfigError(
            f"KernelGeometry: one stage of a {BM}x{BN}x{BK} tile takes {(BM + BN) * row_bytes} "
            f"bytes of LDS, over the limit of {lds_limit}",
            hint="make BM, BN or BK smaller, or target a chip with more LDS",
            field="KernelGeometry.lds_bytes",
        )
    at_once = WAVE_GRID[0] * WAVE_GRID[1] * WAVE_LANES * LOAD_BYTES
    reads = MMA_M * row_bytes // (WAVE_LANES * LOAD_BYTES) // num_k_tiles
    return KernelGeometry(
        **shape,
        elem_bytes=elem_bytes,
        simd_width=LOAD_BYTES // elem_bytes,
        is_fp8=elem_bytes == 1,
        vm_per_load_a=-(-BM * row_bytes // at_once),
        vm_per_load_b=-(-BN * row_bytes // at_once),
        lgkm_per_load_a=BM // WAVE_GRID[0] // MMA_M * reads,
        lgkm_per_load_b=BN // WAVE_GRID[1] // MMA_N * reads,
    )


def _fragment_reads(geometry: KernelGeometry, num_k_tiles: int) -> int:
    """Reads of one K step of A and B, for a geometry that leaves them open."""
    shape = {name: getattr(geometry, name) for name in ("BM", "BN", "BK", "MMA_M", "MMA_N")}
    derived = single_buffer_shape(
        num_k_tiles, **shape, MMA_K=geometry.MMA_K, elem_bytes=geometry.elem_bytes
    )
    return derived.lgkm_per_load_a + derived.lgkm_per_load_b


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleBufferSpec:
    """Single-buffered matmul: one LDS stage, registers as the second buffer.

    With ``geometry`` the counter costs follow from the tile shape where they are not given.
    """

    num_k_tiles: int = 2
    """K steps of one tile."""
    hints: AMDScheduleHints = field(default_factory=AMDScheduleHints)
    """Instruction counts for the compiler hints."""
    target: SingleBufferTargetSpec = field(default_factory=SingleBufferTargetSpec)
    """The machine, with overrides."""
    geometry: SingleBufferGeometrySpec | None = None
    """The tile shape."""

    def build(self) -> SingleBufferSchedule:
        """The schedule it describes."""
        shape = None
        if self.geometry is not None:
            shape = self.geometry.build(partial(single_buffer_shape, self.num_k_tiles))
        return SingleBufferSchedule(
            self.num_k_tiles, self.hints, self.target.build(), geometry=shape
        )
