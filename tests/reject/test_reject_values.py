"""No field of a value type goes unchecked: each is tried with a wrong type and out of range.

The cases follow from the dataclass fields, so a new field without a check fails here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from pipeloom import (
    AMDScheduleHints,
    BarrierStrategy,
    BlockSizing,
    ConfigError,
    DeclarativeSchedule,
    DepEdge,
    FragOrder,
    KernelGeometry,
    LoadStrategy,
    LoopBody,
    LoopCarriedSpec,
    OpCost,
    OpDesc,
    OpRole,
    Pipeline4Wave,
    PipelineBody,
    PipelineProgram,
    ResourceKind,
    ScheduleConfig,
    ScheduleError,
    SingleBufferSchedule,
    TargetCostModel,
    TargetProfile,
    WaitStrategy,
    WarpStaggerRule,
    append_amd_hints,
    mi355x_cost_model,
    mi355x_double_buffer,
    mi355x_single_buffer,
    mi355x_target,
)

SHAPE: dict[str, Any] = {
    "BM": 256,
    "BN": 256,
    "BK": 64,
    "MMA_M": 16,
    "MMA_N": 16,
    "MMA_K": 32,
    "elem_bytes": 2,
}
GEOMETRY = KernelGeometry.ping_pong(**SHAPE)
MMA = OpCost(ResourceKind.MMA_UNIT, 16, OpRole.COMPUTE)
GOOD: list[Any] = [
    OpDesc(1),
    MMA,
    DepEdge(0, 1),
    LoopCarriedSpec.none(),
    BlockSizing.default_2x2(),
    FragOrder.b_first(),
    WarpStaggerRule.auto(),
    mi355x_double_buffer(),
    ScheduleConfig(),
    BarrierStrategy(),
    WaitStrategy(),
    LoadStrategy(),
    mi355x_target(),
    GEOMETRY,
    AMDScheduleHints(),
]


def indexed(schedule: Any) -> Any:
    """A class whose brackets mypy takes for type arguments."""
    return schedule


def bad_values(value: Any) -> Iterator[Any]:
    """Values that no field of this kind may take."""
    if isinstance(value, bool):
        yield from (0, 1, "true", None)
    elif type(value) is int:
        yield from (-2, True, 1.0, "1", None)
    else:
        yield from (-2, "nonsense", None)


def cases() -> Iterator[Any]:
    for good in GOOD:
        for f in fields(good):
            for bad in bad_values(getattr(good, f.name)):
                yield pytest.param(good, f.name, bad, id=f"{type(good).__name__}.{f.name}={bad!r}")


@pytest.mark.parametrize(("good", "name", "bad"), list(cases()))
def test_every_field_names_itself_its_value_and_a_remedy(good: Any, name: str, bad: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        replace(good, **{name: bad})
    error = caught.value
    assert error.message.startswith(f"{type(good).__name__}.{name} is {bad!r}, but must be ")
    assert error.field == f"{type(good).__name__}.{name}"
    assert error.hint


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OpDesc(134), r"OpDesc\.tag is 134, but must be between 0 and 127"),
        (lambda: OpDesc(256), r"OpDesc\.tag is 256, but must be between 0 and 255"),
        (lambda: OpDesc(1, channel=2), r"OpDesc\.channel is 2, but must be between -1 and 1"),
        (lambda: BlockSizing(4, 2, 3), r"max_globals is 3, but must be between 0 and 2"),
        (lambda: BlockSizing(0, 2, 0), r"heavy is 0, but must be at least 1"),
        (lambda: BlockSizing.uniform(0), r"heavy is 0, but must be at least 1"),
        (lambda: WarpStaggerRule.fixed(-1), r"fixed_amount is -1"),
        (lambda: ScheduleConfig(wait_lgkm_first=256), r"wait_lgkm_first is 256.*0 and 255"),
        (lambda: WaitStrategy(wait_lgkm_first=256), r"WaitStrategy\.wait_lgkm_first is 256"),
        (lambda: ScheduleConfig(max_vgpr=0), r"max_vgpr is 0, but must be at least 1"),
        (lambda: mi355x_double_buffer(0), r"vm_per_load_a is 0, but must be at least 1"),
        (
            lambda: replace(mi355x_double_buffer(), ch0_match_field=2),
            r"ch0_match_field is 2, but must be between 0 and 1",
        ),
        (
            lambda: replace(mi355x_single_buffer(), cross_stage_rotation=True),
            r"cross_stage_rotation is True, but depth is 1",
        ),
        (lambda: OpDesc.wait_vm(-1), r"wait_value is -1"),
        (lambda: OpDesc.wait_lgkm(1.0), r"wait_value is 1\.0"),  # type: ignore[arg-type]
        (lambda: OpDesc.set_prio(True), r"wait_value is True"),
        (lambda: OpDesc.sched_group_barrier(-1, 1), r"subtile is -1"),
        (lambda: OpDesc.wait_vm([]), r"wait_value is \[\]"),  # type: ignore[arg-type]
        (lambda: PipelineBody().fan(-1, 1), r"PipelineBody\.fan\.n is -1"),
        (lambda: PipelineBody().grid(-1, 1, 1), r"PipelineBody\.grid\.m is -1"),
        (lambda: PipelineBody().grid(1, "x", 1), r"PipelineBody\.grid\.n is 'x'"),  # type: ignore[arg-type]
        (lambda: PipelineBody().op(200), r"OpDesc\.tag is 200"),
        (lambda: PipelineBody().load(1, ch=5), r"OpDesc\.channel is 5"),
        # groups
        (
            lambda: ScheduleConfig.from_strategies(5),  # type: ignore[arg-type]
            r"from_strategies got 5, which is not a strategy group",
        ),
        (
            lambda: ScheduleConfig.from_strategies(LoadStrategy(), loads=LoadStrategy()),
            r"from_strategies got two LoadStrategy groups",
        ),
        (
            lambda: ScheduleConfig.from_strategies(max_vgrp=3),  # type: ignore[call-arg]
            r"from_strategies has no value named 'max_vgrp'",
        ),
        (
            lambda: ScheduleConfig.from_strategies(x=LoadStrategy()),  # type: ignore[call-arg]
            r"from_strategies has no value named 'x'",
        ),
        (
            lambda: ScheduleConfig.from_strategies(max_vgpr=None),  # type: ignore[arg-type]
            r"ScheduleConfig.max_vgpr is None, but must be an integer",
        ),
        # cost models
        (lambda: TargetCostModel([]), r"TargetCostModel\.costs is \[\]"),  # type: ignore[arg-type]
        (lambda: TargetCostModel({}, 3), r"TargetCostModel\.names is 3"),  # type: ignore[arg-type]
        (lambda: TargetCostModel({128: MMA}), r"tag is 128, but must be between 0 and 127"),
        (lambda: TargetCostModel({1: 2}), r"costs\[1\] is 2, but must be of type OpCost"),  # type: ignore[dict-item]
        (lambda: TargetCostModel({1: MMA}, {1: 2}), r"names\[1\] is 2"),  # type: ignore[dict-item]
        (lambda: TargetCostModel({1: MMA}, {2: "X"}), r"names has tag 2, which has no cost"),
        (
            lambda: TargetCostModel({1: MMA, 2: MMA}, {1: "X", 2: "X"}),
            r"names calls both tag 1 and tag 2 'X'",
        ),
        (lambda: TargetCostModel({1: MMA}).cost(2), r"no entry for op tag 2"),
        (
            lambda: mi355x_cost_model().with_latency({"MAM": 3}),
            r"latency override for unknown op 'MAM'",
        ),
        (lambda: mi355x_cost_model().with_latency({"MMA": -1}), r"latency\.MMA is -1"),
        # graph and program
        (lambda: LoopBody([5]), r"LoopBody\.ops\[0\] is 5"),  # type: ignore[list-item]
        (lambda: LoopBody([], [(0, 1)]), r"LoopBody\.edges\[0\] is \(0, 1\)"),  # type: ignore[list-item]
        (lambda: PipelineProgram((), 0), r"blocks_per_partition is 0, but must be at least 1"),
        (
            lambda: PipelineProgram((), 1, ((OpDesc(1),),)),
            r"explicit_blocks has 1 op lists for 0 blocks",
        ),
        # hints
        (
            lambda: append_amd_hints((), [], AMDScheduleHints()),
            r"the body has no fragment load",
        ),
        (
            lambda: append_amd_hints(
                (), [OpDesc(1, role=OpRole.FRAGMENT_LOAD)], AMDScheduleHints(m_mmas=10**18)
            ),
            r"would append \d+ entries to the kernel, over 100000",
        ),
        # schedules
        (
            lambda: DeclarativeSchedule(target=mi355x_target(), cost_model=mi355x_cost_model()),  # type: ignore[call-overload]
            r"needs either target, or both hw_config and cost_model",
        ),
        (
            lambda: DeclarativeSchedule(hw_config=mi355x_double_buffer()),  # type: ignore[call-overload]
            r"needs either target, or both hw_config and cost_model",
        ),
        (lambda: DeclarativeSchedule(is_fp8=1), r"DeclarativeSchedule\.is_fp8 is 1"),  # type: ignore[call-overload]
        (lambda: DeclarativeSchedule(lgkm_a=-1), r"DeclarativeSchedule\.lgkm_a is -1"),
        (lambda: DeclarativeSchedule(lgkm_b="4"), r"DeclarativeSchedule\.lgkm_b is '4'"),  # type: ignore[call-overload]
        (lambda: DeclarativeSchedule(config=5), r"DeclarativeSchedule\.config is 5"),  # type: ignore[call-overload]
        (lambda: DeclarativeSchedule(target=5), r"DeclarativeSchedule\.target is 5"),  # type: ignore[call-overload]
        (lambda: DeclarativeSchedule(geometry=5), r"DeclarativeSchedule\.geometry is 5"),  # type: ignore[call-overload]
        (
            lambda: DeclarativeSchedule(is_fp8=True, geometry=GEOMETRY),
            r"DeclarativeSchedule\.is_fp8 is set, but its geometry",
        ),
        (lambda: replace(GEOMETRY, is_fp8=True), r"is_fp8 is set, but elem_bytes is 2"),
        (
            lambda: DeclarativeSchedule(False, 8, 4, ScheduleConfig(), mi355x_double_buffer()),  # type: ignore[call-overload]
            r"needs either target, or both hw_config and cost_model",
        ),
        (
            lambda: indexed(DeclarativeSchedule)[False, 8],
            r"DeclarativeSchedule\[\.\.\.\] got 2 parameter\(s\), but takes 3",
        ),
        (
            lambda: indexed(DeclarativeSchedule)[False, 8, 4][False, 8, 4],
            r"DeclarativeSchedule\[False, 8, 4\] has its parameters already",
        ),
        (
            lambda: indexed(DeclarativeSchedule)[False, -1, 4](),
            r"DeclarativeSchedule\.lgkm_a is -1",
        ),
        (
            lambda: indexed(DeclarativeSchedule)[False, [], 4](),
            r"DeclarativeSchedule\.lgkm_a is \[\]",
        ),
        (lambda: indexed(Pipeline4Wave)[5](), r"Pipeline4Wave\.geometry is 5"),
        (lambda: Pipeline4Wave(5), r"Pipeline4Wave\.geometry is 5"),  # type: ignore[arg-type]
        (lambda: Pipeline4Wave(GEOMETRY, 5), r"Pipeline4Wave\.config is 5"),  # type: ignore[arg-type]
        (lambda: Pipeline4Wave(GEOMETRY, target=5), r"Pipeline4Wave\.target is 5"),  # type: ignore[arg-type]
        (
            lambda: Pipeline4Wave(
                GEOMETRY, target=TargetProfile(mi355x_cost_model(), mi355x_single_buffer())
            ),
            r"cross_stage_rotation is True, but depth is 1",
        ),
        (lambda: SingleBufferSchedule(0), r"num_k_tiles is 0, but must be between 1 and 256"),
        (lambda: SingleBufferSchedule(10**9), r"num_k_tiles is 1000000000"),
        (lambda: SingleBufferSchedule(1, 5), r"SingleBufferSchedule\.hints is 5"),  # type: ignore[arg-type]
        (lambda: SingleBufferSchedule(1, None, 5), r"SingleBufferSchedule\.target is 5"),  # type: ignore[arg-type]
    ],
)
def test_single_errors(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as caught:
        make()
    assert caught.value.hint
    assert caught.value.field


def test_a_cached_wait_does_not_hide_a_wrong_type() -> None:
    assert OpDesc.wait_vm(1).wait_value == 1
    for wrong in (True, 1.0):
        with pytest.raises(ConfigError, match="wait_value"):
            OpDesc.wait_vm(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"BM": 0}, r"KernelGeometry\.BM is 0, but must be at least 1"),
        ({"BK": "64"}, r"KernelGeometry\.BK is '64', but must be an integer"),
        ({"lds_limit": "64K"}, r"KernelGeometry\.lds_limit is '64K'"),
        ({"elem_bytes": 3}, r"16-byte load \(16\) is not a positive multiple of elem_bytes \(3\)"),
        ({"elem_bytes": 32}, r"16-byte load \(16\) is not a positive multiple of elem_bytes \(32"),
        ({"BK": 60}, r"BK \(60\) is not a positive multiple of elements per 16-byte load \(8\)"),
        ({"BK": 96}, r"threads \(512\) is not a positive multiple of threads per row \(12\)"),
        ({"BK": 8192}, r"threads \(512\) is not a positive multiple of threads per row \(1024"),
        ({"MMA_M": 1, "MMA_K": 32}, r"MMA_M\*MMA_K \(32\) is not a positive multiple of lanes"),
        ({"MMA_K": 48}, r"BK \(64\) is not a positive multiple of MMA_K \(48\)"),
        ({"MMA_K": 128}, r"BK \(64\) is not a positive multiple of MMA_K \(128\)"),
        ({"BM": 255}, r"BM \(255\) is not a positive multiple of waves along M \(2\)"),
        ({"BN": 250}, r"BN \(250\) is not a positive multiple of waves along N \(4\)"),
        ({"BM": 200}, r"rows of a wave \(100\) is not a positive multiple of MMA_M \(16\)"),
        ({"BN": 200}, r"columns of a wave \(50\) is not a positive multiple of MMA_N \(16\)"),
        ({"BM": 32}, r"WM/MMA_M \(1\) is not a positive multiple of 2 \(2\)"),
        ({"BN": 192}, r"WN/MMA_N \(3\) is not a positive multiple of 2 \(2\)"),
        ({"BN": 512}, r"256x512x64 tile take 196608 bytes of LDS, over the limit of 163840"),
        ({"lds_limit": 65536}, r"take 131072 bytes of LDS, over the limit of 65536"),
    ],
)
def test_shapes_name_the_offending_numbers(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        KernelGeometry.ping_pong(**{**SHAPE, **changes})
    assert caught.value.hint
    assert (caught.value.field or "").startswith("KernelGeometry")
