"""The ping-pong matmul: eight waves in two groups that alternate between memory and MMA.

Each half of the body computes one K tile from one LDS stage while loading the other. The load
A(other stage, sub 1) comes a whole half late (the "completion" load): that half of A is read
only by the lagging wave group.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, overload

from pipeloom.checks import check_bool, check_instance, check_int
from pipeloom.errors import ConfigError
from pipeloom.reference.config import PipelineConfig, TargetProfile
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.mi355x import MatmulTag, mi355x_target
from pipeloom.reference.ops import KOffsetKind, OpDesc, PipelineBody
from pipeloom.reference.reorder import double_buffer_reorder
from pipeloom.reference.schedule_config import ScheduleConfig, SchedulingStrategy
from pipeloom.reference.schedules.spec_parts import GeometrySpec, TargetSpec
from pipeloom.reference.schedules.template import with_parameters
from pipeloom.reference.tag_costs import TargetCostModel, annotate_ops

DEFAULT_CONFIG = ScheduleConfig(scheduling=SchedulingStrategy.CSP)
DEFAULT_TARGET = mi355x_target()
_PARAMETERS = ("is_fp8", "lgkm_a", "lgkm_b")


class DeclarativeSchedule(PipelineSchedule):
    """Ping-pong matmul for a 2x2 MMA grid: the ops are declared, the target says what they cost.

    The machine comes as one profile, or as its two parts; the three leading parameters may stand in
    brackets:

        DeclarativeSchedule(False, 8, 4, config, target)
        DeclarativeSchedule(False, 8, 4, config, hw_config, cost_model)
        DeclarativeSchedule[False, 8, 4](config, target)

    Args:
        is_fp8: whether the elements are fp8. Nothing in the order depends on it; a ``geometry``
            must agree.
        lgkm_a: lgkmcnt entries of one fragment load of A; takes the place of the configuration's.
        lgkm_b: lgkmcnt entries of one fragment load of B; takes the place of the configuration's.
        config: the scheduler's knobs.
        target: the machine; or the pipeline's shape, where ``cost_model`` follows.
        cost_model: what ops cost, together with a pipeline's shape.
        hw_config: the pipeline's shape, by name.
        geometry: the tile, where the schedule is for one; its waits must count the tile's
            instructions. Simulating and emitting the ping-pong need one.
    """

    @overload
    def __init__(
        self,
        is_fp8: bool = ...,
        lgkm_a: int = ...,
        lgkm_b: int = ...,
        config: ScheduleConfig = ...,
        target: TargetProfile = ...,
        *,
        geometry: KernelGeometry | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        is_fp8: bool = ...,
        lgkm_a: int = ...,
        lgkm_b: int = ...,
        config: ScheduleConfig = ...,
        *,
        hw_config: PipelineConfig,
        cost_model: TargetCostModel,
        geometry: KernelGeometry | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        is_fp8: bool,
        lgkm_a: int,
        lgkm_b: int,
        config: ScheduleConfig,
        target: PipelineConfig,
        cost_model: TargetCostModel,
        *,
        geometry: KernelGeometry | None = ...,
    ) -> None: ...
    def __init__(
        self,
        is_fp8: bool = False,
        lgkm_a: int = 0,
        lgkm_b: int = 0,
        config: ScheduleConfig = DEFAULT_CONFIG,
        target: TargetProfile | PipelineConfig = DEFAULT_TARGET,
        cost_model: TargetCostModel | None = None,
        *,
        hw_config: PipelineConfig | None = None,
        geometry: KernelGeometry | None = None,
    ) -> None:
        if isinstance(target, PipelineConfig) and hw_config is None:
            hw_config = target
            target = DEFAULT_TARGET
        if hw_config is not None or cost_model is not None:
            if hw_config is None or cost_model is None or target is not DEFAULT_TARGET:
                raise ConfigError(
                    "DeclarativeSchedule needs either target, or both hw_config and cost_model",
                    hint="pass target=mi355x_target(...), or hw_config=... and cost_model=...",
                    field="DeclarativeSchedule.target",
                )
            target = TargetProfile(cost_model, hw_config)
        if isinstance(is_fp8, ScheduleConfig):
            raise ConfigError(
                "DeclarativeSchedule.is_fp8 is a ScheduleConfig, but must be True or False",
                hint="is_fp8, lgkm_a and lgkm_b come first: DeclarativeSchedule(False, 8, 4, "
                "config, target); or pass config=... and target=... by name",
                field="DeclarativeSchedule.is_fp8",
            )
        check_bool("DeclarativeSchedule", "is_fp8", is_fp8)
        check_int("DeclarativeSchedule", "lgkm_a", lgkm_a, 0)
        check_int("DeclarativeSchedule", "lgkm_b", lgkm_b, 0)
        check_instance("DeclarativeSchedule", "config", config, ScheduleConfig)
        if not isinstance(target, TargetProfile):
            raise ConfigError(
                f"DeclarativeSchedule.target is {target!r}, but must be of type TargetProfile",
                hint="pass a TargetProfile, or a PipelineConfig followed by a TargetCostModel",
                field="DeclarativeSchedule.target",
            )
        if geometry is not None:
            check_instance("DeclarativeSchedule", "geometry", geometry, KernelGeometry)
            if is_fp8 and not geometry.is_fp8:
                raise ConfigError(
                    "DeclarativeSchedule.is_fp8 is set, but its geometry has elements of "
                    f"{geometry.elem_bytes} bytes",
                    hint="drop is_fp8, which follows from the geometry, or give that elem_bytes 1",
                    field="DeclarativeSchedule.is_fp8",
                )
        self.is_fp8 = is_fp8
        self._target = target
        self._geometry = geometry
        self._given = config
        self._knobs = replace(config, lgkm_per_load_a=lgkm_a, lgkm_per_load_b=lgkm_b)

    def __class_getitem__(cls, parameters: object) -> Any:
        """``DeclarativeSchedule[is_fp8, lgkm_a, lgkm_b]``: the class with these filled in."""
        return with_parameters(cls, _PARAMETERS, parameters)

    @property
    def name(self) -> str:
        """``ping_pong``."""
        return "ping_pong"

    def config(self) -> PipelineConfig:
        """The target's pipeline."""
        return self._target.pipeline

    def schedule_config(self) -> ScheduleConfig:
        """The given knobs, with this kernel's lgkm costs."""
        return self._knobs

    def geometry(self) -> KernelGeometry | None:
        """The tile shape, if one was given."""
        return self._geometry

    def declare_ops(self) -> list[OpDesc]:
        """24 logical ops: per half four loads, four fragments and the 2x2 grid."""
        body = PipelineBody()
        for stage in (0, 1):
            other = 1 - stage
            k_off = KOffsetKind.K1 if stage else KOffsetKind.K0
            completion = KOffsetKind.K0 if stage else KOffsetKind.K_PREV
            body.load(MatmulTag.LOAD_A, ch=0, stage=other, sub=1, k=completion)
            body.load(MatmulTag.LOAD_A, ch=0, stage=stage, sub=0, k=k_off)
            body.load(MatmulTag.LOAD_B, ch=1, stage=stage, sub=0, k=k_off)
            body.load(MatmulTag.LOAD_B, ch=1, stage=stage, sub=1, k=k_off)
            body.fan(2, MatmulTag.MMA_LOAD_A, ch=0, stage=stage)
            body.fan(2, MatmulTag.MMA_LOAD_B, ch=1, stage=stage)
            body.grid(2, 2, MatmulTag.MMA)
        return body.done()

    def build_body(self) -> list[OpDesc]:
        """Annotated and interleaved around the MMAs."""
        annotated = annotate_ops(self.declare_ops(), self._target.cost_model)
        return double_buffer_reorder(annotated, self.config())

    def notes(self) -> tuple[str, ...]:
        """Counts of the given knobs that the schedule's own replace."""
        return tuple(
            f"ScheduleConfig.lgkm_per_load_{side}={said} has no effect: lgkm_{side}={used} of "
            "DeclarativeSchedule takes its place"
            for side in "ab"
            for name in (f"lgkm_per_load_{side}",)
            for said, used in ((getattr(self._given, name), getattr(self._knobs, name)),)
            if said not in (0, used)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PingPongSpec:
    """Ping-pong matmul: eight waves in two staggered groups, two LDS stages.

    With ``geometry`` the counter costs follow from the tile shape where they are not given.
    """

    is_fp8: bool | None = None
    """Whether elements are fp8; the tile's unless given."""
    lgkm_a: int | None = None
    """``lgkmcnt`` entries of one fragment load of A."""
    lgkm_b: int | None = None
    """``lgkmcnt`` entries of one fragment load of B."""
    schedule_config: ScheduleConfig = DEFAULT_CONFIG
    """The scheduler's knobs."""
    target: TargetSpec = field(default_factory=TargetSpec)
    """The machine, with overrides."""
    geometry: GeometrySpec | None = None
    """The tile shape."""

    def build(self) -> DeclarativeSchedule:
        """The schedule it describes."""
        shape = None if self.geometry is None else self.geometry.build(KernelGeometry.ping_pong)
        knobs, is_fp8, lgkm_a, lgkm_b = self.schedule_config, self.is_fp8, self.lgkm_a, self.lgkm_b
        if is_fp8 is None:
            is_fp8 = False if shape is None else shape.is_fp8
        if lgkm_a is None:
            lgkm_a = knobs.lgkm_per_load_a if shape is None else shape.lgkm_per_load_a
        if lgkm_b is None:
            lgkm_b = knobs.lgkm_per_load_b if shape is None else shape.lgkm_per_load_b
        target = self.target.build(shape)
        return DeclarativeSchedule(is_fp8, lgkm_a, lgkm_b, knobs, target, geometry=shape)
