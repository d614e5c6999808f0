"""The grid kernel: what ops touch, by role and operand; proofs agree with the executor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.random_programs.classify import classify
from pipeloom import (
    BlockSizing,
    CompiledSchedule,
    ConfigError,
    DeclarativeSchedule,
    KOffsetKind,
    OpDesc,
    OpRole,
    Phase,
    PipelineBody,
    PipelineConfig,
    PipelineSchedule,
    ScheduleConfig,
    SchedulingStrategy,
    annotate_ops,
    build_schedule,
    compile_schedule,
    double_buffer_reorder,
    mi355x_cost_model,
    mi355x_double_buffer,
    verify,
)
from pipeloom.judge.execute import execute
from pipeloom.reference.compiler import Sync
from pipeloom.reference.kernels import (
    Accumulator,
    EntryRun,
    Kernel,
    LdsRegion,
    Part,
    RegisterSet,
    kernel_for,
)
from pipeloom.reference.kernels.grid import GridKernel, OperandCosts
from pipeloom.reference.lift import lift

FRAGMENT = OpRole.FRAGMENT_LOAD
K0, K1, K_PREV = KOffsetKind.K0, KOffsetKind.K1, KOffsetKind.K_PREV


class Grid(PipelineSchedule):
    """An m x n grid; which kernel it has is a parameter."""

    def __init__(self, rows: int, columns: int, kernel: Any = GridKernel.for_schedule) -> None:
        self._grid = (rows, columns)
        self._kernel = kernel

    def config(self) -> PipelineConfig:
        rows, columns = self._grid
        base = mi355x_double_buffer(2, 3)
        return replace(
            base, m_mmas=rows, n_mmas=columns, block_sizing=BlockSizing(4, 3, max_globals=1)
        )

    def schedule_config(self) -> ScheduleConfig:
        return ScheduleConfig(scheduling=SchedulingStrategy.IDENTITY, auto_drain=True)

    def build_body(self) -> list[OpDesc]:
        rows, columns = self._grid
        body = PipelineBody()
        for stage in (0, 1):
            k, late = (K1, K0) if stage else (K0, K_PREV)
            body.load(0, ch=0, stage=1 - stage, sub=rows - 1, k=late)
            body.fan(rows - 1, 0, ch=0, stage=stage, k=k)
            body.fan(columns, 1, ch=1, stage=stage, k=k)
            body.fan(rows, 3, ch=0, stage=stage).fan(columns, 4, ch=1, stage=stage)
            body.grid(rows, columns, 5)
        return double_buffer_reorder(annotate_ops(body.done(), mi355x_cost_model()), self.config())

    def kernel(self, compiled: CompiledSchedule) -> Kernel | None:
        model: Kernel | None = self._kernel(compiled)
        return model


def step(op: OpDesc, tile: int | None = None) -> EntryRun:
    return EntryRun(0, op, Phase.KERNEL, 0, 0, 2, tile)


def grid_kernel(**options: Any) -> GridKernel:
    costs = OperandCosts(vm=(2, 3), lgkm=(4, 5))
    return GridKernel(2, 3, channels={7: 0}, costs=costs, **options)


def test_a_load_fills_its_region() -> None:
    load = OpDesc(9, 1, 2, K0, role=OpRole.GLOBAL_LOAD, channel=1)
    effect = grid_kernel().effect(step(load, tile=6), wave=3)
    assert effect.lds_writes == (LdsRegion("B", 1, 2),)
    assert (effect.tile, effect.entries) == (6, 3)


def test_a_load_without_a_channel_goes_by_its_tag() -> None:
    load = OpDesc(7, role=OpRole.GLOBAL_LOAD, k_offset=K0)
    assert grid_kernel().effect(step(load, tile=0), wave=0).lds_writes == (LdsRegion("A", 0, 0),)


@pytest.mark.parametrize("schedule", ["ping_pong", "four_wave"])
def test_shipped_ops_without_a_channel_go_by_their_tags(schedule: str) -> None:
    compiled = build_schedule(schedule)
    kernel = kernel_for(compiled)
    for op in {e.op for e in compiled.kernel if e.op.role in (OpRole.GLOBAL_LOAD, FRAGMENT)}:
        known = kernel.effect(step(op, tile=0), wave=1)
        assert kernel.effect(step(replace(op, channel=-1), tile=0), wave=1) == known


@pytest.mark.parametrize("wave", range(8))
def test_a_fragment_reads_the_waves_slice_of_its_region(wave: int) -> None:
    kernel = grid_kernel(waves=(2, 4))
    for channel, operand, part in ((0, "A", Part(wave // 4, 2)), (1, "B", Part(wave % 4, 4))):
        fragment = OpDesc(9, 1, 1, role=OpRole.FRAGMENT_LOAD, channel=channel)
        effect = kernel.effect(step(fragment), wave)
        assert effect.lds_reads == ((LdsRegion(operand, 1, 1), part),)
        assert effect.register_writes == (RegisterSet(operand, 1),)
        assert effect.entries == 4 + channel


def test_an_mma_reads_its_row_and_its_column() -> None:
    effect = grid_kernel().effect(step(OpDesc(9, 1, 2, role=OpRole.COMPUTE)), wave=0)
    assert effect.register_reads == (RegisterSet("A", 1), RegisterSet("B", 2))
    assert effect.accumulator == Accumulator(1, 2)
    assert len(grid_kernel().accumulators()) == 6


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (OpDesc(9, 2, 0, role=OpRole.COMPUTE), r"no place for COMPUTE.*grid is 2x3"),
        (OpDesc(9, 0, 3, role=OpRole.COMPUTE), r"no place for COMPUTE.*grid is 2x3"),
        (OpDesc(9, 2, role=OpRole.FRAGMENT_LOAD, channel=0), r"there are 2 LDS stages"),
        (OpDesc(9, 0, 2, role=OpRole.FRAGMENT_LOAD, channel=0), r"A has 2 regions"),
        (OpDesc(9, 0, 3, role=OpRole.FRAGMENT_LOAD, channel=1), r"B has 3 regions"),
        (OpDesc(9, role=OpRole.FRAGMENT_LOAD), r"cannot tell whether .* is of A or of B"),
        (OpDesc(9, role=OpRole.GLOBAL_LOAD, channel=0), r"cannot tell which K tile"),
        (OpDesc(9, role=OpRole.VALU_COMPUTE), r"of role VALU_COMPUTE touches"),
    ],
)
def test_ops_it_has_no_place_for(op: OpDesc, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        grid_kernel().effect(step(op), wave=0)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"waves": 4}, r"waves is 4, but must be two counts"),
        ({"waves": (0, 4)}, r"waves\[0\] is 0"),
        ({"waves": (1, 3), "staggered": True}, r"1x3 waves make no two equal groups"),
        ({"staggered": 1}, r"staggered is 1"),
    ],
)
def test_impossible_kernels(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        grid_kernel(**options)


def test_one_tag_for_both_operands_is_ambiguous() -> None:
    compiled = compile_schedule(DeclarativeSchedule())
    body = tuple(replace(op, tag=1) if op.tag == 0 else op for op in compiled.body)
    with pytest.raises(ConfigError, match="op tag 1 stands for both A and B"):
        GridKernel.for_schedule(replace(compiled, body=body))


@pytest.mark.parametrize("grid", [(2, 2), (2, 3), (3, 2), (3, 3)])
@pytest.mark.parametrize("staggered", [False, True])
@pytest.mark.parametrize("sync", ["proven", "repaired"])
def test_what_is_proved_computes_right(grid: tuple[int, int], staggered: bool, sync: Sync) -> None:
    def kernel(compiled: CompiledSchedule) -> GridKernel:
        return GridKernel.for_schedule(compiled, staggered=staggered)

    compiled = compile_schedule(Grid(*grid, kernel), sync=sync, reorder=True)
    model = kernel(compiled)
    assert verify(compiled, model).proved
    program = lift(compiled, model)
    for trips in range(4):
        assert execute(program, trips=trips, order="reverse").correct


def test_real_numbers_come_out_right() -> None:
    compiled = compile_schedule(Grid(2, 3), sync="proven")
    model = GridKernel.for_schedule(compiled)
    assert execute(lift(compiled, model), trips=2, policy="late").correct


def test_a_wait_less_is_neither_proved_nor_right() -> None:
    """The model is strict: every wait of the proven loop is needed."""
    compiled = compile_schedule(Grid(2, 3), sync="proven")
    model = GridKernel.for_schedule(compiled)
    waits = [e for e in compiled.kernel if e.op.tag in (129, 130)]
    assert waits
    for dropped in waits:
        left = [e for e in compiled.kernel if e is not dropped]
        kernel = tuple(replace(e, time_slot=n) for n, e in enumerate(left))
        broken = replace(compiled, kernel=kernel)
        assert not verify(broken, model).proved
        assert not classify(lift(broken, model)).correct


def test_the_hook_is_what_compile_uses() -> None:
    compiled = compile_schedule(Grid(2, 3))
    assert compiled.own_kernel
    with pytest.raises(ConfigError, match=r"Grid says itself what its ops touch"):
        verify(compiled)
    with pytest.raises(ConfigError, match=r"Grid\.kernel\(\) is 3"):
        compile_schedule(Grid(2, 3, lambda compiled: 3), sync="proven")
    assert compile_schedule(Grid(2, 3, lambda compiled: None)).schedule == "Grid"


def test_the_four_wave_kernel_is_the_2x2_case() -> None:
    compiled = build_schedule("four_wave")
    shipped, own = kernel_for(compiled), GridKernel.for_schedule(compiled)
    for wave in range(4):
        steps = shipped.walk(compiled, wave, trips=2)
        assert own.walk(compiled, wave, trips=2) == steps
        assert [own.effect(s, wave) for s in steps] == [shipped.effect(s, wave) for s in steps]


@pytest.mark.parametrize("size", [(0, 3), (2, 0)])
def test_a_grid_has_rows_and_columns(size: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="GridKernel"):
        GridKernel(*size, channels={7: 0}, costs=OperandCosts(vm=(2, 3), lgkm=(4, 5)))
