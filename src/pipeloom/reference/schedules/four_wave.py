"""The four-wave matmul: one wave per SIMD, fragments rotated through registers across stages.

Every MMA comes with one load and one fragment. The last two fragments of a partition read the
*other* stage: the first MMAs of the next partition find their operands already in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pipeloom.checks import check_instance
from pipeloom.reference.blocks import PipelineProgram, emit_minimal_barrier_block
from pipeloom.reference.config import PipelineConfig, TargetProfile, WarpStaggerRule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.edges import (
    derive_cross_stage_rotation_edges,
    filter_spurious_cross_stage_flow,
)
from pipeloom.reference.geometry import FOUR_WAVE_GRID, KernelGeometry
from pipeloom.reference.graph import DepEdge
from pipeloom.reference.mi355x import MatmulTag, mi355x_target
from pipeloom.reference.ops import KOffsetKind, OpDesc, OpRole, PipelineBody
from pipeloom.reference.schedule_config import ScheduleConfig, SchedulingStrategy
from pipeloom.reference.schedules.spec_parts import GeometrySpec, TargetSpec
from pipeloom.reference.schedules.template import with_parameters
from pipeloom.reference.tag_costs import annotate_ops

_FORCED: dict[str, Any] = {
    "scheduling": SchedulingStrategy.IDENTITY,
    "minimal_barriers": True,
    "omit_mma_set_prio": True,
    "inter_block_lgkm_drain": True,
    "partial_prologue_drain": True,
}
DEFAULT_CONFIG = ScheduleConfig(**_FORCED)
DEFAULT_TARGET = mi355x_target()
FP8_TILE = GeometrySpec(BK=128, MMA_K=128, elem_bytes=1)
_IGNORED_BY_EMITTER = ("global_before_frag", "drain_lgkm_mask", "auto_drain")


def four_wave_config(geometry: KernelGeometry) -> ScheduleConfig:
    """The knobs that suit a shape: 16-bit tiles of 128 rows or more fence every block and wait."""
    fenced = geometry.elem_bytes == 2 and geometry.BM >= 128
    return replace(
        DEFAULT_CONFIG,
        sched_barrier_mask=0xFF if fenced else 0,
        wrap_waits_with_sched_barrier=fenced,
    )


class Pipeline4Wave(PipelineSchedule):
    """Four-wave matmul. Knobs that define the schedule are forced, and noted if they differ.

    The geometry may stand in brackets: ``Pipeline4Wave[geometry](config, target)``.

    Args:
        geometry: the tile; what its fragment loads count takes the place of the configuration's.
        config: the scheduler's knobs.
        target: the machine. Its pipeline gets rotation and loses the stagger.
    """

    def __init__(
        self,
        geometry: KernelGeometry,
        config: ScheduleConfig = DEFAULT_CONFIG,
        target: TargetProfile = DEFAULT_TARGET,
    ) -> None:
        check_instance("Pipeline4Wave", "geometry", geometry, KernelGeometry)
        check_instance("Pipeline4Wave", "config", config, ScheduleConfig)
        check_instance("Pipeline4Wave", "target", target, TargetProfile)
        self._given = config
        self._knobs = replace(config, **_FORCED)
        self._geometry = geometry
        self._given_pipeline = target.pipeline
        self._target = target.with_pipeline(
            warp_stagger=WarpStaggerRule.none(),
            lgkm_per_load_a=geometry.lgkm_per_load_a,
            lgkm_per_load_b=geometry.lgkm_per_load_b,
            cross_stage_rotation=True,
        )

    def __class_getitem__(cls, parameters: object) -> Any:
        """``Pipeline4Wave[geometry]``: the class with its tile filled in."""
        return with_parameters(cls, ("geometry",), parameters)

    @staticmethod
    def _default_schedule_config() -> ScheduleConfig:
        """The knobs that define the schedule, and defaults."""
        return DEFAULT_CONFIG

    @property
    def name(self) -> str:
        """``four_wave``."""
        return "four_wave"

    def config(self) -> PipelineConfig:
        """The target's pipeline with rotation, without stagger."""
        return self._target.pipeline

    def schedule_config(self) -> ScheduleConfig:
        """The given knobs, with the five that define this schedule forced."""
        return self._knobs

    def geometry(self) -> KernelGeometry:
        """The tile shape."""
        return self._geometry

    def declare_ops(self) -> list[OpDesc]:
        """Per partition four mini-iterations of load, fragment, MMA."""
        tag, body = MatmulTag, PipelineBody()
        for p in (0, 1):
            other, k = 1 - p, KOffsetKind.K1 if p else KOffsetKind.K0
            body.load(tag.LOAD_A, ch=0, stage=p, sub=0, k=k)
            body.frag(tag.MMA_LOAD_B, ch=1, stage=p, sub=1)
            body.compute(tag.MMA, stage=0, sub=0)
            body.load(tag.LOAD_B, ch=1, stage=p, sub=0, k=k)
            body.frag(tag.MMA_LOAD_A, ch=0, stage=p, sub=1)
            body.compute(tag.MMA, stage=0, sub=1)
            body.load(tag.LOAD_B, ch=1, stage=p, sub=1, k=k)
            body.frag(tag.MMA_LOAD_A, ch=0, stage=other, sub=0)
            body.compute(tag.MMA, stage=1, sub=0)
            body.load(tag.LOAD_A, ch=0, stage=p, sub=1, k=k)
            body.frag(tag.MMA_LOAD_B, ch=1, stage=other, sub=0)
            body.compute(tag.MMA, stage=1, sub=1)
        return body.done()

    def build_body(self) -> list[OpDesc]:
        """Annotated; the declared order is the schedule."""
        return annotate_ops(self.declare_ops(), self._target.cost_model)

    def derive_edges(self, body: list[OpDesc]) -> list[DepEdge]:
        """The default edges, corrected for fragments that belong to the other partition.

        Args:
            body: what ``build_body`` returned.
        """
        edges = filter_spurious_cross_stage_flow(body, super().derive_edges(body))
        return edges + derive_cross_stage_rotation_edges(body)

    def bootstrap_frags(self) -> list[OpDesc]:
        """Fragments A0 and B0 of stage 0, which the first MMA expects in registers."""
        role = OpRole.FRAGMENT_LOAD
        return [
            OpDesc(int(MatmulTag.MMA_LOAD_A), channel=0, role=role),
            OpDesc(int(MatmulTag.MMA_LOAD_B), channel=1, role=role),
        ]

    def build_explicit_blocks(
        self, body: list[OpDesc], program: PipelineProgram
    ) -> list[list[OpDesc]]:
        """Every block by the minimal-barrier emitter.

        Args:
            body: what ``build_body`` returned; not read, the blocks hold its ops.
            program: the blocks with their waits and flags.
        """
        return [emit_minimal_barrier_block(block) for block in program.blocks]

    def notes(self) -> tuple[str, ...]:
        """Knobs that this schedule overrides or never reads."""
        default = ScheduleConfig()
        forced = tuple(
            f"{name} is forced to {value.name if isinstance(value, SchedulingStrategy) else value} "
            "by the four-wave schedule"
            for name, value in _FORCED.items()
            if getattr(self._given, name) != value
        )
        ignored = tuple(
            f"{name} has no effect: the four-wave schedule emits its own blocks"
            for name in _IGNORED_BY_EMITTER
            if getattr(self._given, name) != getattr(default, name)
        )
        return forced + ignored + tuple(self._idle_shape())

    def _idle_shape(self) -> Iterator[str]:
        """Fields of the given target's pipeline that this schedule replaces, or never reads."""
        given, usual = self._given_pipeline, DEFAULT_TARGET.pipeline
        for name in ("lgkm_per_load_a", "lgkm_per_load_b"):
            said, used = getattr(given, name), getattr(self._geometry, name)
            if said not in (0, used):
                yield (
                    f"PipelineConfig.{name}={said} has no effect: the geometry's {used} takes its "
                    "place"
                )
        if given.frag_order != usual.frag_order:
            yield "PipelineConfig.frag_order has no effect: the four-wave body is ordered as it is"
        sizing, of_usual = given.block_sizing, usual.block_sizing
        reshaped = (sizing.heavy, sizing.light) != (of_usual.heavy, of_usual.light)
        if reshaped and sizing.max_globals != 1:
            yield (
                "PipelineConfig.block_sizing.heavy and light have no effect: the four-wave body is "
                "ordered as it is"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FourWaveSpec:
    """Four-wave matmul: one wave per SIMD, register rotation across stages."""

    geometry: GeometrySpec = FP8_TILE
    """The tile shape."""
    schedule_config: ScheduleConfig = DEFAULT_CONFIG
    """The scheduler's knobs."""
    target: TargetSpec = field(default_factory=TargetSpec)
    """The machine, with overrides."""

    def build(self) -> Pipeline4Wave:
        """The schedule it describes."""
        shape = self.geometry.build(KernelGeometry.four_wave)
        return Pipeline4Wave(shape, self.schedule_config, self.target.build(shape, FOUR_WAVE_GRID))
