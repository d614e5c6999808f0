"""pipeloom: declare one loop iteration and a machine, get its software pipeline.

from pipeloom import DeclarativeSchedule, compile_schedule
compiled = compile_schedule(DeclarativeSchedule(lgkm_a=8, lgkm_b=4))

Names are imported when first used, so that ``import pipeloom`` and ``pipeloom --help`` are quick.
``synchronize`` and ``verify`` come at once: they are also the names of packages, and importing one
of these later would put the package where the function belongs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pipeloom.synchronize import synchronize
from pipeloom.verify import verify

if TYPE_CHECKING:
    from pipeloom.blocks import MMABlockSpec, PipelineProgram, emit_minimal_barrier_block
    from pipeloom.compiled import Certificate, CompiledSchedule, ScheduleEntry
    from pipeloom.compiler import compile_schedule
    from pipeloom.config import (
        BarrierStrategy,
        BlockSizing,
        FragOrder,
        LoadStrategy,
        LoopCarriedSpec,
        PipelineConfig,
        ScheduleConfig,
        SchedulingStrategy,
        TargetProfile,
        WaitStrategy,
        WarpStaggerRule,
    )
    from pipeloom.costs import OpCost, TargetCostModel, annotate_ops
    from pipeloom.declare import PipelineSchedule
    from pipeloom.edges import (
        EdgeRule,
        derive_cross_stage_rotation_edges,
        derive_edges_from_ops,
        double_buffer_edge_rules,
        filter_spurious_cross_stage_flow,
        single_buffer_edge_rules,
    )
    from pipeloom.emitted_stream import simulate_emitted
    from pipeloom.errors import (
        ConfigError,
        GraphError,
        InternalError,
        OrderError,
        ScheduleError,
        SpecError,
        StructureError,
    )
    from pipeloom.geometry import KernelGeometry, derive_safe_max_globals
    from pipeloom.graph import DepEdge, DepKind, LoopBody
    from pipeloom.hints import AMDScheduleHints, append_amd_hints
    from pipeloom.ops import (
        KOffsetKind,
        OpDesc,
        OpRole,
        OpTag,
        Phase,
        PipelineBody,
        ResourceKind,
    )
    from pipeloom.phases import derive_epilogue_from_program, derive_prologue_from_program
    from pipeloom.program import build_kernel_program
    from pipeloom.reorder import (
        double_buffer_reorder,
        mma_block_interleave,
        optimize_within_barriers,
        single_buffer_reorder,
    )
    from pipeloom.schedules.four_wave import Pipeline4Wave
    from pipeloom.schedules.gemm_tile import GemmTileSchedule
    from pipeloom.schedules.ping_pong import DeclarativeSchedule
    from pipeloom.schedules.single_buffer import SingleBufferSchedule
    from pipeloom.spec import build_schedule, load_spec
    from pipeloom.strategies import Ordering, OrderLimits, Strategy
    from pipeloom.strategies.cost import Evaluation, evaluate, lower_bound
    from pipeloom.strategies.csp import (
        CspStrategy,
        optimal_schedule,
        optimal_schedule_with_halves,
    )
    from pipeloom.strategies.greedy import greedy_schedule, simple_greedy
    from pipeloom.structure import verify_schedule
    from pipeloom.targets.mi355x import (
        MatmulTag,
        SingleBufferTag,
        mi355x_cost_model,
        mi355x_double_buffer,
        mi355x_single_buffer,
        mi355x_single_buffer_cost_model,
        mi355x_single_buffer_target,
        mi355x_target,
    )
    from pipeloom.tile import GemmTile
    from pipeloom.verify import Verdict
    from pipeloom.waits import derive_drain_mask, derive_waits_from_blocks

_HOMES = {
    "pipeloom.blocks": ("MMABlockSpec", "PipelineProgram", "emit_minimal_barrier_block"),
    "pipeloom.compiled": ("Certificate", "CompiledSchedule", "ScheduleEntry"),
    "pipeloom.compiler": ("compile_schedule",),
    "pipeloom.config": (
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
    "pipeloom.costs": ("OpCost", "TargetCostModel", "annotate_ops"),
    "pipeloom.declare": ("PipelineSchedule",),
    "pipeloom.edges": (
        "EdgeRule",
        "derive_cross_stage_rotation_edges",
        "derive_edges_from_ops",
        "double_buffer_edge_rules",
        "filter_spurious_cross_stage_flow",
        "single_buffer_edge_rules",
    ),
    "pipeloom.emitted_stream": ("simulate_emitted",),
    "pipeloom.errors": (
        "ConfigError",
        "GraphError",
        "InternalError",
        "OrderError",
        "ScheduleError",
        "SpecError",
        "StructureError",
    ),
    "pipeloom.geometry": ("KernelGeometry", "derive_safe_max_globals"),
    "pipeloom.graph": ("DepEdge", "DepKind", "LoopBody"),
    "pipeloom.hints": ("AMDScheduleHints", "append_amd_hints"),
    "pipeloom.ops": (
        "KOffsetKind",
        "OpDesc",
        "OpRole",
        "OpTag",
        "Phase",
        "PipelineBody",
        "ResourceKind",
    ),
    "pipeloom.phases": ("derive_epilogue_from_program", "derive_prologue_from_program"),
    "pipeloom.program": ("build_kernel_program",),
    "pipeloom.reorder": (
        "double_buffer_reorder",
        "mma_block_interleave",
        "optimize_within_barriers",
        "single_buffer_reorder",
    ),
    "pipeloom.schedules.four_wave": ("Pipeline4Wave",),
    "pipeloom.schedules.gemm_tile": ("GemmTileSchedule",),
    "pipeloom.tile": ("GemmTile",),
    "pipeloom.schedules.ping_pong": ("DeclarativeSchedule",),
    "pipeloom.schedules.single_buffer": ("SingleBufferSchedule",),
    "pipeloom.spec": ("build_schedule", "load_spec"),
    "pipeloom.strategies": ("Ordering", "OrderLimits", "Strategy"),
    "pipeloom.strategies.cost": ("Evaluation", "evaluate", "lower_bound"),
    "pipeloom.strategies.csp": ("CspStrategy", "optimal_schedule", "optimal_schedule_with_halves"),
    "pipeloom.strategies.greedy": ("greedy_schedule", "simple_greedy"),
    "pipeloom.structure": ("verify_schedule",),
    "pipeloom.targets.mi355x": (
        "MatmulTag",
        "SingleBufferTag",
        "mi355x_cost_model",
        "mi355x_double_buffer",
        "mi355x_single_buffer",
        "mi355x_single_buffer_cost_model",
        "mi355x_single_buffer_target",
        "mi355x_target",
    ),
    "pipeloom.verify": ("Verdict",),
    "pipeloom.waits": ("derive_drain_mask", "derive_waits_from_blocks"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__version__ = "0.1.0"

__all__ = [
    "AMDScheduleHints",
    "BarrierStrategy",
    "BlockSizing",
    "Certificate",
    "CompiledSchedule",
    "ConfigError",
    "CspStrategy",
    "DeclarativeSchedule",
    "DepEdge",
    "DepKind",
    "EdgeRule",
    "Evaluation",
    "FragOrder",
    "GemmTile",
    "GemmTileSchedule",
    "GraphError",
    "InternalError",
    "KOffsetKind",
    "KernelGeometry",
    "LoadStrategy",
    "LoopBody",
    "LoopCarriedSpec",
    "MMABlockSpec",
    "MatmulTag",
    "OpCost",
    "OpDesc",
    "OpRole",
    "OpTag",
    "OrderError",
    "OrderLimits",
    "Ordering",
    "Phase",
    "Pipeline4Wave",
    "PipelineBody",
    "PipelineConfig",
    "PipelineProgram",
    "PipelineSchedule",
    "ResourceKind",
    "ScheduleConfig",
    "ScheduleEntry",
    "ScheduleError",
    "SchedulingStrategy",
    "SingleBufferSchedule",
    "SingleBufferTag",
    "SpecError",
    "Strategy",
    "StructureError",
    "TargetCostModel",
    "TargetProfile",
    "Verdict",
    "WaitStrategy",
    "WarpStaggerRule",
    "annotate_ops",
    "append_amd_hints",
    "build_kernel_program",
    "build_schedule",
    "compile_schedule",
    "derive_cross_stage_rotation_edges",
    "derive_drain_mask",
    "derive_edges_from_ops",
    "derive_epilogue_from_program",
    "derive_prologue_from_program",
    "derive_safe_max_globals",
    "derive_waits_from_blocks",
    "double_buffer_edge_rules",
    "double_buffer_reorder",
    "emit_minimal_barrier_block",
    "evaluate",
    "filter_spurious_cross_stage_flow",
    "greedy_schedule",
    "load_spec",
    "lower_bound",
    "mi355x_cost_model",
    "mi355x_double_buffer",
    "mi355x_single_buffer",
    "mi355x_single_buffer_cost_model",
    "mi355x_single_buffer_target",
    "mi355x_target",
    "mma_block_interleave",
    "optimal_schedule",
    "optimal_schedule_with_halves",
    "optimize_within_barriers",
    "simple_greedy",
    "simulate_emitted",
    "single_buffer_edge_rules",
    "single_buffer_reorder",
    "synchronize",
    "verify",
    "verify_schedule",
]


def __getattr__(name: str) -> object:
    """A public name on its first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
