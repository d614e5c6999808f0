"""From a declaration to a ``CompiledSchedule``: a flat list of passes.

    declare   build_body, derive_edges            what there is, and what must precede what
    order     a strategy                          IDENTITY, GREEDY, CSP
    program   build_kernel_program                blocks, waits, structural verification
    phases    prologue, kernel, epilogue          with explicit blocks and bootstrap fragments
    account   every declared op exactly once      or an error, never a silent loss

The accounting comes last because a schedule's own hooks (explicit blocks, transform_kernel) run
after the structural checks; checking anything earlier would check the wrong thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pipeloom.blocks import PipelineProgram
from pipeloom.checks import check_instance
from pipeloom.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.config import PipelineConfig, ScheduleConfig, SchedulingStrategy
from pipeloom.declare import PipelineSchedule
from pipeloom.errors import StructureError
from pipeloom.graph import DepEdge, LoopBody, describe_op
from pipeloom.notes import ineffective_knobs
from pipeloom.ops import OpDesc, OpRole
from pipeloom.phases import (
    Phases,
    derive_double_buffer_phases,
    derive_kernel_deps,
    derive_single_buffer_phases,
    derive_warp_stagger_index,
)
from pipeloom.program import build_kernel_program
from pipeloom.strategies import Ordering, OrderLimits, Strategy, strategy_for


def compile_schedule(
    schedule: PipelineSchedule, *, strategy: Strategy | None = None
) -> CompiledSchedule:
    """Derive the software pipeline of ``schedule``.

    ``strategy`` overrides the one its ``schedule_config`` names, for strategies of your own.
    Raises ``ScheduleError`` (with a hint) where the declaration cannot become a pipeline that
    keeps every op.
    """
    check_instance("compile_schedule", "schedule", schedule, PipelineSchedule)
    config, knobs = schedule.config(), schedule.schedule_config()
    body = tuple(schedule.build_body())
    _check_body(body)
    edges = tuple(schedule.derive_edges(body))
    graph = LoopBody(body, edges)
    ordering = _order(graph, config, knobs, strategy)
    program: PipelineProgram | None
    if config.depth >= 2:
        program, phases, deps = _double_buffer(schedule, body, ordering, config, knobs)
    else:
        program, phases, deps = _single_buffer(schedule, body, edges, config)
    _account_for_ops(body, phases.kernel)
    return CompiledSchedule(
        schedule=schedule.name,
        config=config,
        schedule_config=knobs,
        body=body,
        edges=edges,
        order=ordering.order,
        certificate=ordering.certificate,
        program=program,
        prologue=phases.prologue,
        kernel=phases.kernel,
        epilogue=phases.epilogue,
        kernel_deps=deps,
        warp_stagger_index=derive_warp_stagger_index(config, body, len(phases.prologue)),
        geometry=schedule.geometry(),
        notes=schedule.notes() + ineffective_knobs(config, knobs),
    )


def _check_body(body: Sequence[object]) -> None:
    if not body:
        raise StructureError(
            "build_body() returned no ops", hint="declare at least one MMA", field="body"
        )
    for index, op in enumerate(body):
        check_instance("build_body()", f"[{index}]", op, OpDesc)


def _order(
    graph: LoopBody, config: PipelineConfig, knobs: ScheduleConfig, strategy: Strategy | None
) -> Ordering:
    """At depth 1 the body's order is final: its barriers are part of it."""
    if strategy is not None and config.depth < 2:
        raise StructureError(
            f"strategy {strategy.name!r} cannot reorder a body of depth 1",
            hint="order it in build_body(), for example with optimize_within_barriers",
            field="strategy",
        )
    limits = OrderLimits(
        halves=config.depth >= 2,
        max_globals=config.block_sizing.max_globals,
        max_vgpr=knobs.max_vgpr,
        lds_contention_penalty=knobs.lds_contention_penalty,
        mma_serial=config.mma_serial,
    )
    named = knobs.scheduling if config.depth >= 2 else SchedulingStrategy.IDENTITY
    chosen = strategy_for(named) if strategy is None else strategy
    ordering = chosen.order(graph, limits)
    if sorted(ordering.order) != list(range(len(graph))):
        raise StructureError(
            f"strategy {chosen.name!r} returned {ordering.order}, which is not a permutation of "
            f"the {len(graph)} ops",
            hint="a strategy must place every op exactly once",
            field="strategy",
        )
    return ordering


def _double_buffer(
    schedule: PipelineSchedule,
    body: tuple[OpDesc, ...],
    ordering: Ordering,
    config: PipelineConfig,
    knobs: ScheduleConfig,
) -> tuple[PipelineProgram, Phases, tuple[DepEdge, ...]]:
    ordered = [body[i] for i in ordering.order]
    program = build_kernel_program(ordered, config, knobs)
    explicit = schedule.build_explicit_blocks(body, program)
    if explicit:
        program = replace(program, explicit_blocks=tuple(tuple(ops) for ops in explicit))
    phases = derive_double_buffer_phases(program, config, knobs, schedule.bootstrap_frags())
    return program, phases, tuple(derive_kernel_deps(phases.kernel, config.num_partitions))


def _single_buffer(
    schedule: PipelineSchedule,
    body: tuple[OpDesc, ...],
    edges: tuple[DepEdge, ...],
    config: PipelineConfig,
) -> tuple[None, Phases, tuple[DepEdge, ...]]:
    phases = derive_single_buffer_phases(body, config)
    kernel = tuple(schedule.transform_kernel(phases.kernel, body))
    return None, replace(phases, kernel=kernel), edges


def _account_for_ops(body: Sequence[OpDesc], kernel: Sequence[ScheduleEntry]) -> None:
    """Every declared data op is in the kernel exactly as often as it was declared."""
    framework = (OpRole.SYNC, OpRole.FENCE)
    declared = Counter(op for op in body if op.role not in framework)
    emitted = Counter(e.op for e in kernel if e.op.role not in framework)
    for op in [*declared, *emitted]:
        if declared[op] != emitted[op]:
            raise StructureError(
                f"{describe_op(op)} is declared {declared[op]} time(s), but the kernel has it "
                f"{emitted[op]} time(s)",
                hint="explicit blocks and transform_kernel must keep every op exactly once",
                field="kernel",
            )
