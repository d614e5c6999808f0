"""From a declaration to a ``CompiledSchedule``: a flat list of passes.

    declare   build_body, derive_edges            what there is, and what must precede what
    order     a strategy                          IDENTITY, GREEDY, CSP
    program   build_kernel_program                blocks, waits, structural verification
    phases    prologue, kernel, epilogue          with explicit blocks and bootstrap fragments
    account   every declared op exactly once      or an error, never a silent loss
    sync      "proven": waits, barriers derived   "repaired": waits derived; both with a proof

The accounting comes after the phases because a schedule's own hooks (explicit blocks,
transform_kernel) run after the structural checks; checking earlier would check the wrong thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar, get_args

from pipeloom.checks import check_instance, check_known
from pipeloom.errors import ConfigError, StructureError
from pipeloom.reference.block_program import build_kernel_program
from pipeloom.reference.blocks import PipelineProgram
from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.edges import default_edge_rules
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import DepEdge, LoopBody, describe_op
from pipeloom.reference.kernels import KERNELS, Kernel, reading
from pipeloom.reference.notes import (
    PARALLEL_MMAS,
    idle_knobs,
    idle_limits,
    idle_shape,
    penalty_note,
)
from pipeloom.reference.ops import OpDesc, OpRole, Phase
from pipeloom.reference.phases import (
    EntryLists,
    derive_double_buffer_phases,
    derive_kernel_deps,
    derive_single_buffer_phases,
    derive_warp_stagger_index,
)
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedule_config import ScheduleConfig, SchedulingStrategy
from pipeloom.reference.strategies import Ordering, OrderLimits, Strategy, strategy_for

T = TypeVar("T")

DOUBLE_BUFFER = 2
"""The depth that blocks, waits and phases are written for."""

BROKEN_EDGES = "the order breaks "
"""How the note on an order that its own edges forbid begins."""

_INTERRUPTED = "the search was interrupted: the best so far is kept, not proved best"

Sync = Literal["reference", "proven", "repaired"]
"""Whose waits and barriers: the specification's (``reference``), those that follow from the
dependences (``proven``), or the specification's barriers with waits that follow (``repaired``)."""


def compile_schedule(
    schedule: PipelineSchedule,
    *,
    strategy: Strategy | None = None,
    sync: Sync = "reference",
    reorder: bool = False,
) -> CompiledSchedule:
    """Derive the software pipeline of a schedule.

    Raises ``ScheduleError`` (with a hint) where the declaration cannot become a pipeline that keeps
    every op.

    Args:
        schedule: The schedule.
        strategy: Overrides the strategy that its ``schedule_config`` names, for one of your own.
        sync: Whose waits and barriers. ``reference`` has the specification's. ``proven`` derives
            them from the dependences alone, and the result is proved free of races for every trip
            count. ``repaired`` keeps the barriers, which in a ping-pong also set the pace, derives
            the waits only, and is proved as well.
        reorder: Whether the fewest ops may move where no such synchronisation can save the order.
    """
    check_instance("compile_schedule", "schedule", schedule, PipelineSchedule)
    known = get_args(Sync)
    said = f"compile_schedule.sync is {sync!r}, but must be one of {', '.join(known)}"
    check_known(sync, known, said, "compile_schedule.sync")
    _check_strategy(strategy)
    config, knobs = schedule.config(), schedule.schedule_config()
    check_instance(schedule.name, "config()", config, PipelineConfig)
    check_instance(schedule.name, "schedule_config()", knobs, ScheduleConfig)
    if config.depth > DOUBLE_BUFFER:
        raise ConfigError(
            f"PipelineConfig.depth is {config.depth}, but a declared body has at most "
            f"{DOUBLE_BUFFER} stages",
            hint="use depth 1 or 2; for more declare a Loop, whose depth pipeline() finds",
            field="PipelineConfig.depth",
        )
    body = _returned("build_body()", schedule.build_body(), OpDesc)
    if not body:
        raise StructureError(
            "build_body() returned no ops", hint="declare at least one MMA", field="body"
        )
    edges = _returned("derive_edges()", schedule.derive_edges(list(body)), DepEdge)
    graph = LoopBody(body, edges)
    ordering = _order(graph, config, knobs, strategy)
    program: PipelineProgram | None = None
    if config.depth >= 2:
        program, phases = _double_buffer(schedule, body, ordering, config, knobs)
    else:
        phases = derive_single_buffer_phases(body, config)
    kernel = _transformed(schedule, phases.kernel, body)
    _account_for_ops(body, kernel)
    deps = edges
    if config.depth >= 2:
        deps = tuple(derive_kernel_deps(kernel, config.num_partitions))
    compiled = CompiledSchedule(
        schedule=schedule.name,
        config=config,
        schedule_config=knobs,
        body=body,
        edges=edges,
        order=tuple(ordering.order),
        certificate=ordering.certificate,
        program=program,
        prologue=phases.prologue,
        kernel=kernel,
        epilogue=phases.epilogue,
        kernel_deps=deps,
        warp_stagger_index=derive_warp_stagger_index(config, body, len(phases.prologue)),
        geometry=_geometry(schedule),
        arch=schedule.arch(),
        interrupted=ordering.interrupted,
        notes=(
            *schedule.notes(),
            *_idle(schedule, graph, ordering, strategy, (*phases.all(), kernel)),
            *_broken_edges(graph, ordering),
            *([_INTERRUPTED] if ordering.interrupted else []),
        ),
    )
    model = _kernel(schedule, compiled)
    if model is not None:
        compiled = replace(compiled, own_kernel=True)
    elif schedule.name not in KERNELS:
        compiled = replace(compiled, notes=(*compiled.notes, reading(config)))
    if sync == "reference":
        return compiled
    return synchronize(compiled, model, reorder, keep_barriers=sync == "repaired")


def _idle(
    schedule: PipelineSchedule,
    graph: LoopBody,
    ordering: Ordering,
    strategy: Strategy | None,
    made: tuple[tuple[ScheduleEntry, ...], ...],
) -> tuple[str, ...]:
    """Notes on settings that change nothing here; knobs are tried at their defaults for it."""
    config, knobs, body = schedule.config(), schedule.schedule_config(), graph.ops

    def same(other: ScheduleConfig) -> bool:
        try:
            _, phases = _double_buffer(schedule, body, ordering, config, other)
            return (*phases.all(), _transformed(schedule, phases.kernel, body)) == made
        except Exception:  # a hook of the user's, or a rule, that needs the knob as it is
            return False

    own_rules = schedule.edge_rules() != default_edge_rules(config)
    notes = [
        *idle_knobs(config, knobs, same, schedule.notes()),
        *idle_limits(body, knobs),
        *idle_shape(config, knobs, body, own_rules),
    ]
    searched = strategy is None and knobs.scheduling is SchedulingStrategy.CSP and config.depth > 1
    if not searched or ordering.interrupted:
        return tuple(notes)
    if knobs.lds_contention_penalty:
        free = _order(graph, config, replace(knobs, lds_contention_penalty=0), None)
        if free.order == ordering.order:
            notes.append(penalty_note(knobs, "here"))
    if not config.mma_serial:
        serial = _order(graph, replace(config, mma_serial=True), knobs, None)
        if serial.order == ordering.order:
            notes.append(PARALLEL_MMAS)
    return tuple(notes)


def _kernel(schedule: PipelineSchedule, compiled: CompiledSchedule) -> Kernel | None:
    """The schedule's own kernel model; ``None`` leaves it to what its ops say."""
    model = schedule.kernel(compiled)
    if model is not None:
        check_instance(schedule.name, "kernel()", model, Kernel)
    return model


def _geometry(schedule: PipelineSchedule) -> KernelGeometry | None:
    """The schedule's own tile; ``None`` is no tile."""
    tile = schedule.geometry()
    if tile is not None:
        check_instance(schedule.name, "geometry()", tile, KernelGeometry)
    return tile


def _check_strategy(strategy: object) -> None:
    """A strategy is anything with a name and an ``order``; ``None`` is the configured one."""
    if strategy is None:
        return
    if not (isinstance(getattr(strategy, "name", None), str) and hasattr(strategy, "order")):
        member = isinstance(strategy, SchedulingStrategy)
        raise ConfigError(
            f"compile_schedule.strategy is {strategy!r}, but must be a Strategy",
            hint="name a SchedulingStrategy in schedule_config() instead"
            if member
            else "pass an object with name, summary and order(body, limits), like CspStrategy()",
            field="compile_schedule.strategy",
        )


def _returned(hook: str, values: object, kind: type[T]) -> tuple[T, ...]:
    """What a hook of the user's returned, as a tuple; anything else is an error that names it."""
    if not isinstance(values, Iterable):
        raise ConfigError(
            f"{hook} returned {values!r}, but must return a list of {kind.__name__}",
            hint="end it with a return statement that gives a list",
            field=hook,
        )
    items = tuple(values)
    for index, item in enumerate(items):
        if not isinstance(item, kind):
            raise ConfigError(
                f"{hook}[{index}] is {item!r}, but must be a {kind.__name__}",
                hint=f"return a list of {kind.__name__} values",
                field=hook,
            )
    return items


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
) -> tuple[PipelineProgram, EntryLists]:
    ordered = [body[i] for i in ordering.order]
    program = build_kernel_program(ordered, config, knobs)
    lists = schedule.build_explicit_blocks(list(body), program)
    if lists:
        explicit = tuple(
            _returned(f"build_explicit_blocks()[{number}]", ops, OpDesc)
            for number, ops in enumerate(_returned("build_explicit_blocks()", lists, object))
        )
        program = replace(program, explicit_blocks=explicit)
    bootstrap = _returned("bootstrap_frags()", schedule.bootstrap_frags(), OpDesc)
    for index, op in enumerate(bootstrap):
        if op.role is not OpRole.FRAGMENT_LOAD:
            raise StructureError(
                f"bootstrap_frags()[{index}] is {describe_op(op)}, not a FRAGMENT_LOAD",
                hint="return annotated fragment loads only: a prologue does not multiply",
                field="bootstrap_frags",
            )
    return program, derive_double_buffer_phases(program, config, knobs, bootstrap)


def _transformed(
    schedule: PipelineSchedule, kernel: tuple[ScheduleEntry, ...], body: tuple[OpDesc, ...]
) -> tuple[ScheduleEntry, ...]:
    """The kernel as the schedule's hook leaves it, its time slots counted anew."""
    entries = _returned(
        "transform_kernel()", schedule.transform_kernel(list(kernel), list(body)), ScheduleEntry
    )
    for slot, entry in enumerate(entries):
        if entry.phase is not Phase.KERNEL:
            raise StructureError(
                f"transform_kernel()[{slot}] has phase {entry.phase!r}",
                hint="it changes the loop only: give every entry Phase.KERNEL",
                field="transform_kernel",
            )
    return tuple(replace(entry, time_slot=slot) for slot, entry in enumerate(entries))


def _broken_edges(graph: LoopBody, ordering: Ordering) -> tuple[str, ...]:
    """IDENTITY may break the body's own edges: the certificate's makespan then means little."""
    broken = len(graph.violations(ordering.order))
    if not broken:
        return ()
    return (
        f"{BROKEN_EDGES}{broken} of the body's own d=0 edges, so its makespan may lie below "
        "the lower bound; verify tells whether it is safe",
    )


def _account_for_ops(body: Sequence[OpDesc], kernel: Sequence[ScheduleEntry]) -> None:
    """Every op of the author's is in the kernel exactly as often as it was declared."""
    declared = Counter(op for op in body if not op.is_framework)
    emitted = Counter(e.op for e in kernel if not e.op.is_framework)
    for op in [*declared, *emitted]:
        if declared[op] != emitted[op]:
            raise StructureError(
                f"{describe_op(op)} is declared {declared[op]} time(s), but the kernel has it "
                f"{emitted[op]} time(s)",
                hint="explicit blocks and transform_kernel must keep every op exactly once",
                field="kernel",
            )
