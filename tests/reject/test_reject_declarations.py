"""Declarations that cannot become a pipeline: reorders, blocks, phases and hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeloom import (
    BlockSizing,
    Certificate,
    ConfigError,
    DeclarativeSchedule,
    DepEdge,
    GraphError,
    KOffsetKind,
    LoopBody,
    LoopCarriedSpec,
    OpDesc,
    OpRole,
    OrderError,
    Ordering,
    OrderLimits,
    Phase,
    PipelineConfig,
    ScheduleConfig,
    ScheduleEntry,
    ScheduleError,
    SchedulingStrategy,
    SingleBufferSchedule,
    SpecError,
    StructureError,
    TargetProfile,
    build_kernel_program,
    build_schedule,
    compile_schedule,
    double_buffer_reorder,
    mi355x_cost_model,
    mi355x_double_buffer,
    mi355x_single_buffer,
    mi355x_single_buffer_cost_model,
    single_buffer_reorder,
)

K0 = KOffsetKind.K0
MMA = OpDesc(5, role=OpRole.COMPUTE)
FRAG = OpDesc(3, role=OpRole.FRAGMENT_LOAD, channel=0)
FRAG_B = replace(FRAG, tag=4, channel=1)
LOAD = OpDesc(0, k_offset=K0, role=OpRole.GLOBAL_LOAD, channel=0)
STORE = OpDesc(1, role=OpRole.SHARED_STORE)
VALU = OpDesc(6, role=OpRole.VALU_COMPUTE)
DOUBLE, SINGLE = mi355x_double_buffer(), mi355x_single_buffer()


def sized(heavy: int, light: int, max_globals: int) -> PipelineConfig:
    return replace(DOUBLE, block_sizing=BlockSizing(heavy, light, max_globals))


def program(ops: list[OpDesc], config: PipelineConfig = DOUBLE) -> object:
    return build_kernel_program(ops, config, ScheduleConfig())


def carried(role: OpRole, selector: int = 0) -> PipelineConfig:
    return replace(SINGLE, loop_carried=LoopCarriedSpec(role, selector))


SINGLE_BODY = [LOAD, STORE, OpDesc.barrier(), FRAG, MMA]
ONE_PARTITION = replace(DOUBLE, num_partitions=1, m_mmas=1, n_mmas=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        # reorders never lose an op
        (
            lambda: double_buffer_reorder([LOAD, LOAD, MMA, LOAD, LOAD, MMA], sized(2, 2, 0)),
            r"heavy 2, light 2, max_globals 0\) leaves 1 of 2 global loads unplaced in a half",
        ),
        (
            lambda: double_buffer_reorder([replace(FRAG, subtile=9), MMA] * 2, DOUBLE),
            r"FRAGMENT_LOAD A\(stage 0, sub 9\) has no place around the MMAs of its half",
        ),
        (
            lambda: double_buffer_reorder([VALU, MMA] * 2, DOUBLE),
            r"VALU_COMPUTE\(stage 0, sub 0\) has no place around the MMAs",
        ),
        (
            lambda: single_buffer_reorder(SINGLE_BODY, carried(OpRole.NONE)),
            r"FRAGMENT_LOAD A\(stage 0, sub 0\) has no place .* loop_carried = \(NONE, 0\)",
        ),
        (
            lambda: single_buffer_reorder(SINGLE_BODY, carried(OpRole.GLOBAL_LOAD)),
            r"GLOBAL_LOAD A\(stage 0, sub 0\) has two places .* \(GLOBAL_LOAD, 0\)",
        ),
        (
            lambda: single_buffer_reorder(SINGLE_BODY, carried(OpRole.COMPUTE)),
            r"FRAGMENT_LOAD A\(stage 0, sub 0\) has no place .* \(COMPUTE, 0\)",
        ),
        (
            lambda: single_buffer_reorder([*SINGLE_BODY, VALU], SINGLE),
            r"VALU_COMPUTE\(stage 0, sub 0\) has no place in a single-buffered loop",
        ),
        (
            lambda: single_buffer_reorder([*SINGLE_BODY, OpDesc.wait_vm(0)], SINGLE),
            r"wait_vm\(0\) has no place in a single-buffered loop",
        ),
        # blocks
        (
            lambda: program([VALU, MMA], ONE_PARTITION),
            r"VALU_COMPUTE\(stage 0, sub 0\) has role VALU_COMPUTE, which no block can hold",
        ),
        (lambda: program([STORE, MMA], ONE_PARTITION), r"role SHARED_STORE, which no block"),
        (lambda: program([OpDesc.barrier(), MMA], ONE_PARTITION), r"barrier has role SYNC"),
        (
            lambda: program([MMA, LOAD, FRAG], ONE_PARTITION),
            r"2 op\(s\) follow the last COMPUTE, from FRAGMENT_LOAD A",
        ),
        (
            lambda: program([MMA] * 7),
            r"has 7 MMAs, but the configuration asks for 2 partitions of 2x2 = 8",
        ),
        (
            lambda: program([FRAG, FRAG, FRAG, MMA], ONE_PARTITION),
            r"block 0 holds 3 fragment loads, but has room for 2",
        ),
        (
            lambda: program([MMA, LOAD, LOAD, LOAD, MMA], ONE_PARTITION),
            r"block 1 holds 3 global loads, but has room for 2",
        ),
        (
            lambda: program(
                [LOAD, LOAD, MMA], replace(ONE_PARTITION, block_sizing=BlockSizing(4, 2, 1))
            ),
            r"max_globals 1 leaves 1 global load\(s\) without a block, from GLOBAL_LOAD A",
        ),
        # phases
        (
            lambda: compile_schedule(Own(body=[replace(LOAD, stage=2), FRAG, FRAG_B, MMA])),
            r"prefetches into stage 2, but the prologue fills only stages 0 and 1",
        ),
        (
            lambda: compile_schedule(Own(config=SINGLE, body=[LOAD, LOAD, STORE, FRAG, MMA])),
            r"needs exactly one global load, but has 2",
        ),
        (
            lambda: compile_schedule(Own(config=SINGLE, body=[LOAD, FRAG, MMA])),
            r"needs exactly one shared store, but has 0",
        ),
        (
            lambda: compile_schedule(
                Own(config=SINGLE, body=[LOAD, STORE, replace(FRAG, subtile=1), MMA])
            ),
            r"needs exactly one carried fragment, but has 0",
        ),
        (
            lambda: compile_schedule(Own(config=SINGLE, body=[LOAD, STORE, FRAG, MMA, VALU])),
            r"VALU_COMPUTE\(stage 0, sub 0\) has role VALU_COMPUTE, which the drain passes",
        ),
        # hooks
        (lambda: compile_schedule(5), r"compile_schedule\.schedule is 5"),  # type: ignore[arg-type]
        (lambda: compile_schedule(Own(config=5)), r"Own\.config\(\) is 5"),
        (lambda: compile_schedule(Own(knobs=5)), r"Own\.schedule_config\(\) is 5"),
        (lambda: compile_schedule(Own(body=None)), r"build_body\(\) returned None"),
        (lambda: compile_schedule(Own(body=[])), r"build_body\(\) returned no ops"),
        (lambda: compile_schedule(Own(body=[MMA, 5])), r"build_body\(\)\[1\] is 5"),
        (lambda: compile_schedule(Own(edges=None)), r"derive_edges\(\) returned None"),
        (lambda: compile_schedule(Own(edges=[(0, 1)])), r"derive_edges\(\)\[0\] is \(0, 1\)"),
        (lambda: compile_schedule(Own(blocks=5)), r"build_explicit_blocks\(\) returned 5"),
        (
            lambda: compile_schedule(Own(blocks=[5])),
            r"build_explicit_blocks\(\)\[0\] returned 5",
        ),
        (
            lambda: compile_schedule(Own(blocks=[[5]])),
            r"build_explicit_blocks\(\)\[0\]\[0\] is 5",
        ),
        (
            lambda: compile_schedule(Own(blocks=[[MMA], [MMA]])),
            r"explicit_blocks has 2 op lists for 1 blocks",
        ),
        (
            lambda: compile_schedule(Own(blocks=[[MMA]])),
            r"GLOBAL_LOAD A.* is declared 1 time\(s\), but the kernel has it 0 time\(s\)",
        ),
        (
            lambda: compile_schedule(Own(blocks=[[LOAD, FRAG, FRAG_B, MMA, MMA]])),
            r"COMPUTE.* is declared 1 time\(s\), but the kernel has it 2 time\(s\)",
        ),
        (lambda: compile_schedule(Own(bootstrap=None)), r"bootstrap_frags\(\) returned None"),
        (lambda: compile_schedule(Own(bootstrap=[5])), r"bootstrap_frags\(\)\[0\] is 5"),
        (
            lambda: compile_schedule(Own(bootstrap=[FRAG, MMA])),
            r"bootstrap_frags\(\)\[1\] is COMPUTE.*, not a FRAGMENT_LOAD",
        ),
        (lambda: compile_schedule(Own(kernel=None)), r"transform_kernel\(\) returned None"),
        (lambda: compile_schedule(Own(kernel=[MMA])), r"transform_kernel\(\)\[0\] is OpDesc"),
        (
            lambda: compile_schedule(Own(kernel=[ScheduleEntry(MMA, 0, Phase.EPILOGUE)])),
            r"transform_kernel\(\)\[0\] has phase <Phase\.EPILOGUE",
        ),
        # depth
        *(
            (
                lambda depth=depth: compile_schedule(Own(config=replace(DOUBLE, depth=depth))),
                rf"PipelineConfig\.depth is {depth}, but a declared body has at most 2 stages",
            )
            for depth in (3, 7)
        ),
        # strategies
        (
            lambda: compile_schedule(Own(), strategy=3),  # type: ignore[arg-type]
            r"compile_schedule\.strategy is 3, but must be a Strategy",
        ),
        (
            lambda: compile_schedule(Own(), strategy=SchedulingStrategy.CSP),  # type: ignore[arg-type]
            r"compile_schedule\.strategy is <SchedulingStrategy\.CSP",
        ),
        (
            lambda: compile_schedule(Own(), strategy=Fixed((0, 0))),
            r"strategy 'fixed' returned \(0, 0\), which is not a permutation of the 4 ops",
        ),
        (
            lambda: compile_schedule(SingleBufferSchedule(), strategy=Fixed((0,))),
            r"strategy 'fixed' cannot reorder a body of depth 1",
        ),
    ],
)
def test_declaration(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as caught:
        make()
    assert caught.value.hint
    assert caught.value.field


class Own(DeclarativeSchedule):
    """One block: a load, two fragments and an MMA; every hook can be made to misbehave."""

    def __init__(self, **hooks: Any) -> None:
        super().__init__()
        self._hooks = hooks

    @property
    def name(self) -> str:
        return "Own"

    def config(self) -> PipelineConfig:
        one = replace(ONE_PARTITION, cross_stage_rotation=True)
        value: PipelineConfig = self._hooks.get("config", one)
        return value

    def schedule_config(self) -> ScheduleConfig:
        value: ScheduleConfig = self._hooks.get("knobs", ScheduleConfig())
        return value

    def build_body(self) -> list[OpDesc]:
        value: list[OpDesc] = self._hooks.get("body", [LOAD, FRAG, FRAG_B, MMA])
        return value

    def derive_edges(self, body: Any) -> list[DepEdge]:
        value: list[DepEdge] = self._hooks.get("edges", [])
        return value

    def build_explicit_blocks(self, body: Any, program: Any) -> list[list[OpDesc]]:
        value: list[list[OpDesc]] = self._hooks.get("blocks", [])
        return value

    def bootstrap_frags(self) -> list[OpDesc]:
        value: list[OpDesc] = self._hooks.get("bootstrap", [])
        return value

    def transform_kernel(self, ker: Any, body: Any) -> tuple[ScheduleEntry, ...]:
        value: tuple[ScheduleEntry, ...] = self._hooks.get("kernel", ker)
        return value


class Fixed:
    """A strategy that returns what it is told."""

    name = summary = "fixed"

    def __init__(self, order: tuple[int, ...]) -> None:
        self._order = order

    def order(self, body: LoopBody, limits: OrderLimits) -> Ordering:
        return Ordering(self._order, Certificate("fixed", 0, 0, 0, False, 0))


def test_the_fixture_itself_compiles() -> None:
    assert len(compile_schedule(Own()).kernel) > 2
    assert compile_schedule(Own(), strategy=Fixed((1, 0, 2, 3))).order == (1, 0, 2, 3)


def test_a_cycle_in_the_declared_edges() -> None:
    with pytest.raises(GraphError, match=r"cycle: #\d .*GLOBAL_LOAD.*COMPUTE|COMPUTE.*GLOBAL_LOAD"):
        compile_schedule(Own(edges=[DepEdge(0, 3), DepEdge(3, 0)]))


def test_greedy_against_an_edge_from_the_second_half() -> None:
    knobs = ScheduleConfig(scheduling=SchedulingStrategy.GREEDY)
    with pytest.raises(OrderError, match=r"#0 GLOBAL_LOAD A.*depends on #3 COMPUTE.*second half"):
        compile_schedule(Own(knobs=knobs, edges=[DepEdge(3, 0)]))


def test_a_cost_model_without_the_kernels_tags() -> None:
    target = TargetProfile(mi355x_single_buffer_cost_model(), DOUBLE)
    with pytest.raises(ConfigError, match="no entry for op tag 4") as caught:
        compile_schedule(DeclarativeSchedule(target=target))
    assert "known tags: 0 LOAD_DRAM" in (caught.value.hint or "")


def test_a_single_buffer_on_a_double_buffer_target() -> None:
    target = TargetProfile(mi355x_cost_model(), DOUBLE)
    with pytest.raises(StructureError, match="has no place in a single-buffered loop"):
        compile_schedule(SingleBufferSchedule(2, None, target))


def test_settings_on_a_schedule_object() -> None:
    with pytest.raises(SpecError, match="settings change a spec, not a schedule object"):
        build_schedule(Own(), ["lgkm_a=3"])
