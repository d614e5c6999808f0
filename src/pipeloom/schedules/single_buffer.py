"""The single-buffered matmul: one LDS stage, registers as the second buffer.

Global loads land in registers while the MMAs run; between two barriers the tile is stored to
LDS; fragment 0 of the next tile is read before the iteration ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeloom.checks import check_instance, check_int
from pipeloom.compiled import ScheduleEntry
from pipeloom.config import PipelineConfig, TargetProfile
from pipeloom.costs import annotate_ops
from pipeloom.declare import PipelineSchedule
from pipeloom.hints import AMDScheduleHints, append_amd_hints
from pipeloom.ops import OpDesc, PipelineBody
from pipeloom.reorder import optimize_within_barriers, single_buffer_reorder
from pipeloom.schedules.spec_parts import SingleBufferTargetSpec
from pipeloom.targets.mi355x import SingleBufferTag, mi355x_single_buffer_target

MAX_K_TILES = 256
"""Far beyond what fits in LDS; keeps a slip from becoming a body of millions of ops."""


class SingleBufferSchedule(PipelineSchedule):
    """Default matmul with ``num_k_tiles`` fragments and MMA groups per iteration."""

    def __init__(
        self,
        num_k_tiles: int = 2,
        hints: AMDScheduleHints | None = None,
        target: TargetProfile | None = None,
    ) -> None:
        check_int("SingleBufferSchedule", "num_k_tiles", num_k_tiles, 1, MAX_K_TILES)
        self.num_k_tiles = num_k_tiles
        self.hints = AMDScheduleHints() if hints is None else hints
        self._target = mi355x_single_buffer_target() if target is None else target
        check_instance("SingleBufferSchedule", "hints", self.hints, AMDScheduleHints)
        check_instance("SingleBufferSchedule", "target", self._target, TargetProfile)

    @property
    def name(self) -> str:
        """``single_buffer``."""
        return "single_buffer"

    def config(self) -> PipelineConfig:
        """The target's pipeline."""
        return self._target.pipeline

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
        self, entries: tuple[ScheduleEntry, ...], body: Sequence[OpDesc]
    ) -> tuple[ScheduleEntry, ...]:
        """The kernel, then the AMD instruction-group hints."""
        return append_amd_hints(entries, body, self.hints, self.config().loop_carried.selector)


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleBufferSpec:
    """Single-buffered matmul: one LDS stage, registers as the second buffer."""

    num_k_tiles: int = 2
    hints: AMDScheduleHints = field(default_factory=AMDScheduleHints)
    target: SingleBufferTargetSpec = field(default_factory=SingleBufferTargetSpec)

    def build(self) -> SingleBufferSchedule:
        """The schedule it describes."""
        return SingleBufferSchedule(self.num_k_tiles, self.hints, self.target.build())
