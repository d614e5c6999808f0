"""pipeloom: declare one loop iteration and a machine, get its software pipeline.

from pipeloom import DeclarativeSchedule, compile_schedule
compiled = compile_schedule(DeclarativeSchedule(lgkm_a=8, lgkm_b=4))

Names are imported when first used, so that ``import pipeloom`` and ``pipeloom --help`` are quick.
``_HOMES`` says which there are and where they live; the imports below it tell type checkers
the same, and a test holds the two together.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "pipeloom.drive.comparing": ("CompareJob", "compare"),
    "pipeloom.drive.emitting": ("EmitJob", "emit"),
    "pipeloom.drive.fixing": ("FixJob", "fix"),
    "pipeloom.drive.reporting": ("ReportJob", "report"),
    "pipeloom.drive.running": ("RunJob", "run"),
    "pipeloom.drive.simulating": ("SimulateJob",),
    "pipeloom.drive.sources": ("Source",),
    "pipeloom.errors": (
        "ConfigError",
        "GraphError",
        "InternalError",
        "OrderError",
        "ScheduleError",
        "SpecError",
        "StructureError",
    ),
    "pipeloom.declare": ("Loop",),
    "pipeloom.drive.pipeline": ("pipeline",),
    "pipeloom.drive.programs": ("as_program", "simulate"),
    "pipeloom.judge.emulate": ("load_code_object", "run_kernel"),
    "pipeloom.judge.execute": ("execute",),
    "pipeloom.judge.simulate": ("simulate_stream",),
    "pipeloom.judge.verify": ("Verdict",),
    "pipeloom.lift": ("simulate_emitted",),
    "pipeloom.order.modulo": ("ModuloProblem", "solve_modulo"),
    "pipeloom.order.roles": ("Consumer", "Producer"),
    "pipeloom.reference.block_program": ("build_kernel_program",),
    "pipeloom.reference.blocks": ("MMABlockSpec", "PipelineProgram", "emit_minimal_barrier_block"),
    "pipeloom.reference.compiled": ("Certificate", "CompiledSchedule", "ScheduleEntry"),
    "pipeloom.reference.compiler": ("compile_schedule",),
    "pipeloom.reference.config": (
        "BarrierStrategy",
        "BlockSizing",
        "FragOrder",
        "LoadStrategy",
        "LoopCarriedSpec",
        "PipelineConfig",
        "ScheduleConfig",
        "SchedulingStrategy",
        "TargetProfile",
        "WaitStrategy",
        "WarpStaggerRule",
    ),
    "pipeloom.reference.costs": ("OpCost", "TargetCostModel", "annotate_ops"),
    "pipeloom.reference.declaration": ("PipelineSchedule",),
    "pipeloom.reference.edges": (
        "EdgeRule",
        "derive_cross_stage_rotation_edges",
        "derive_edges_from_ops",
        "double_buffer_edge_rules",
        "filter_spurious_cross_stage_flow",
        "single_buffer_edge_rules",
    ),
    "pipeloom.reference.geometry": ("KernelGeometry", "derive_safe_max_globals"),
    "pipeloom.reference.graph": ("DepEdge", "DepKind", "LoopBody"),
    "pipeloom.reference.hints": ("AMDScheduleHints", "append_amd_hints"),
    "pipeloom.reference.mi355x": (
        "MatmulTag",
        "SingleBufferTag",
        "mi355x_cost_model",
        "mi355x_double_buffer",
        "mi355x_single_buffer",
        "mi355x_single_buffer_cost_model",
        "mi355x_single_buffer_target",
        "mi355x_target",
    ),
    "pipeloom.reference.ops": (
        "KOffsetKind",
        "OpDesc",
        "OpRole",
        "OpTag",
        "Phase",
        "PipelineBody",
        "ResourceKind",
    ),
    "pipeloom.reference.phases": ("derive_epilogue_from_program", "derive_prologue_from_program"),
    "pipeloom.reference.reorder": (
        "double_buffer_reorder",
        "mma_block_interleave",
        "optimize_within_barriers",
        "single_buffer_reorder",
    ),
    "pipeloom.reference.schedules.four_wave": ("Pipeline4Wave",),
    "pipeloom.reference.schedules.gemm_tile": ("GemmTileSchedule",),
    "pipeloom.reference.schedules.ping_pong": ("DeclarativeSchedule",),
    "pipeloom.reference.schedules.single_buffer": ("SingleBufferSchedule",),
    "pipeloom.reference.spec": ("build_schedule", "load_spec"),
    "pipeloom.reference.strategies": ("OrderLimits", "Ordering", "Strategy"),
    "pipeloom.reference.strategies.cost": ("Evaluation", "evaluate", "lower_bound"),
    "pipeloom.reference.strategies.csp": (
        "CspStrategy",
        "optimal_schedule",
        "optimal_schedule_with_halves",
    ),
    "pipeloom.reference.strategies.greedy": ("greedy_schedule", "simple_greedy"),
    "pipeloom.reference.structure": ("verify_schedule",),
    "pipeloom.reference.verdict": ("verify",),
    "pipeloom.reference.tile": ("GemmTile",),
    "pipeloom.reference.waits": ("derive_drain_mask", "derive_waits_from_blocks"),
    "pipeloom.reference.resync": ("synchronize",),
    "pipeloom.write": ("assemble", "emit_kernel"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

if TYPE_CHECKING:
    # isort: off
    from pipeloom.drive.comparing import CompareJob as CompareJob, compare as compare
    from pipeloom.drive.emitting import EmitJob as EmitJob, emit as emit
    from pipeloom.drive.fixing import FixJob as FixJob, fix as fix
    from pipeloom.drive.reporting import ReportJob as ReportJob, report as report
    from pipeloom.drive.running import RunJob as RunJob, run as run
    from pipeloom.drive.simulating import SimulateJob as SimulateJob
    from pipeloom.drive.sources import Source as Source
    from pipeloom.errors import (
        ConfigError as ConfigError,
        GraphError as GraphError,
        InternalError as InternalError,
        OrderError as OrderError,
        ScheduleError as ScheduleError,
        SpecError as SpecError,
        StructureError as StructureError,
    )
    from pipeloom.declare import Loop as Loop
    from pipeloom.drive.pipeline import pipeline as pipeline
    from pipeloom.drive.programs import as_program as as_program, simulate as simulate
    from pipeloom.judge.emulate import (
        load_code_object as load_code_object,
        run_kernel as run_kernel,
    )
    from pipeloom.judge.execute import execute as execute
    from pipeloom.judge.simulate import simulate_stream as simulate_stream
    from pipeloom.judge.verify import Verdict as Verdict
    from pipeloom.lift import simulate_emitted as simulate_emitted
    from pipeloom.order.modulo import ModuloProblem as ModuloProblem, solve_modulo as solve_modulo
    from pipeloom.order.roles import Consumer as Consumer, Producer as Producer
    from pipeloom.reference.block_program import build_kernel_program as build_kernel_program
    from pipeloom.reference.blocks import (
        MMABlockSpec as MMABlockSpec,
        PipelineProgram as PipelineProgram,
        emit_minimal_barrier_block as emit_minimal_barrier_block,
    )
    from pipeloom.reference.compiled import (
        Certificate as Certificate,
        CompiledSchedule as CompiledSchedule,
        ScheduleEntry as ScheduleEntry,
    )
    from pipeloom.reference.compiler import compile_schedule as compile_schedule
    from pipeloom.reference.config import (
        BarrierStrategy as BarrierStrategy,
        BlockSizing as BlockSizing,
        FragOrder as FragOrder,
        LoadStrategy as LoadStrategy,
        LoopCarriedSpec as LoopCarriedSpec,
        PipelineConfig as PipelineConfig,
        ScheduleConfig as ScheduleConfig,
        SchedulingStrategy as SchedulingStrategy,
        TargetProfile as TargetProfile,
        WaitStrategy as WaitStrategy,
        WarpStaggerRule as WarpStaggerRule,
    )
    from pipeloom.reference.costs import (
        OpCost as OpCost,
        TargetCostModel as TargetCostModel,
        annotate_ops as annotate_ops,
    )
    from pipeloom.reference.declaration import PipelineSchedule as PipelineSchedule
    from pipeloom.reference.edges import (
        EdgeRule as EdgeRule,
        derive_cross_stage_rotation_edges as derive_cross_stage_rotation_edges,
        derive_edges_from_ops as derive_edges_from_ops,
        double_buffer_edge_rules as double_buffer_edge_rules,
        filter_spurious_cross_stage_flow as filter_spurious_cross_stage_flow,
        single_buffer_edge_rules as single_buffer_edge_rules,
    )
    from pipeloom.reference.geometry import (
        KernelGeometry as KernelGeometry,
        derive_safe_max_globals as derive_safe_max_globals,
    )
    from pipeloom.reference.graph import (
        DepEdge as DepEdge,
        DepKind as DepKind,
        LoopBody as LoopBody,
    )
    from pipeloom.reference.hints import (
        AMDScheduleHints as AMDScheduleHints,
        append_amd_hints as append_amd_hints,
    )
    from pipeloom.reference.mi355x import (
        MatmulTag as MatmulTag,
        SingleBufferTag as SingleBufferTag,
        mi355x_cost_model as mi355x_cost_model,
        mi355x_double_buffer as mi355x_double_buffer,
        mi355x_single_buffer as mi355x_single_buffer,
        mi355x_single_buffer_cost_model as mi355x_single_buffer_cost_model,
        mi355x_single_buffer_target as mi355x_single_buffer_target,
        mi355x_target as mi355x_target,
    )
    from pipeloom.reference.ops import (
        KOffsetKind as KOffsetKind,
        OpDesc as OpDesc,
        OpRole as OpRole,
        OpTag as OpTag,
        Phase as Phase,
        PipelineBody as PipelineBody,
        ResourceKind as ResourceKind,
    )
    from pipeloom.reference.phases import (
        derive_epilogue_from_program as derive_epilogue_from_program,
        derive_prologue_from_program as derive_prologue_from_program,
    )
    from pipeloom.reference.reorder import (
        double_buffer_reorder as double_buffer_reorder,
        mma_block_interleave as mma_block_interleave,
        optimize_within_barriers as optimize_within_barriers,
        single_buffer_reorder as single_buffer_reorder,
    )
    from pipeloom.reference.schedules.four_wave import Pipeline4Wave as Pipeline4Wave
    from pipeloom.reference.schedules.gemm_tile import GemmTileSchedule as GemmTileSchedule
    from pipeloom.reference.schedules.ping_pong import DeclarativeSchedule as DeclarativeSchedule
    from pipeloom.reference.schedules.single_buffer import (
        SingleBufferSchedule as SingleBufferSchedule,
    )
    from pipeloom.reference.spec import build_schedule as build_schedule, load_spec as load_spec
    from pipeloom.reference.strategies import (
        Ordering as Ordering,
        OrderLimits as OrderLimits,
        Strategy as Strategy,
    )
    from pipeloom.reference.strategies.cost import (
        Evaluation as Evaluation,
        evaluate as evaluate,
        lower_bound as lower_bound,
    )
    from pipeloom.reference.strategies.csp import (
        CspStrategy as CspStrategy,
        optimal_schedule as optimal_schedule,
        optimal_schedule_with_halves as optimal_schedule_with_halves,
    )
    from pipeloom.reference.strategies.greedy import (
        greedy_schedule as greedy_schedule,
        simple_greedy as simple_greedy,
    )
    from pipeloom.reference.structure import verify_schedule as verify_schedule
    from pipeloom.reference.verdict import verify as verify
    from pipeloom.reference.tile import GemmTile as GemmTile
    from pipeloom.reference.waits import (
        derive_drain_mask as derive_drain_mask,
        derive_waits_from_blocks as derive_waits_from_blocks,
    )
    from pipeloom.reference.resync import synchronize as synchronize
    from pipeloom.write import assemble as assemble, emit_kernel as emit_kernel


def __getattr__(name: str) -> object:
    """A public name on its first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
