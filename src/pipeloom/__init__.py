"""pipeloom: declare one loop iteration and a machine, get its software pipeline.

import pipeloom as pl
program = pl.pipeline(pl.kernels.gemm(64, 64, 64), pl.target_for("gfx950"), waves=4)
pl.verify(program).proved, pl.simulate(program), pl.emit(program).text

Names are imported when first used, so that ``import pipeloom`` and ``pipeloom --help`` are quick.
``_HOMES`` says which there are and where they live; the imports below it tell type checkers
the same, and a test holds the two together.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "pipeloom.drive.checking": ("Checked", "check"),
    "pipeloom.drive.correcting": ("Corrected", "correct"),
    "pipeloom.drive.comparing": ("CompareJob", "compare"),
    "pipeloom.drive.deriving": ("Derived", "derive"),
    "pipeloom.drive.emitting": ("EmitJob",),
    "pipeloom.drive.fixing": ("FixJob", "fix"),
    "pipeloom.drive.reporting": ("ReportJob",),
    "pipeloom.drive.running": ("RunJob",),
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
    "pipeloom.declare": ("Loop", "Tensor", "exp2", "kernels", "maximum", "minimum", "where"),
    "pipeloom.drive.pipeline": ("pipeline",),
    "pipeloom.drive.programs": (
        "as_program",
        "emit",
        "execute",
        "report",
        "run",
        "simulate",
        "synchronize",
        "verify",
    ),
    "pipeloom.drive.trial": ("Data", "Trial"),
    "pipeloom.drive.triton_kernels": ("check_triton",),
    "pipeloom.judge.check.verdict": ("CheckStatus", "CheckVerdict"),
    "pipeloom.judge.emulate": ("load_code_object", "run_kernel"),
    "pipeloom.judge.execute": ("Outcome",),
    "pipeloom.judge.simulate": ("Trace", "simulate_stream"),
    "pipeloom.judge.verify": ("Status", "Verdict"),
    "pipeloom.lift": ("simulate_emitted",),
    "pipeloom.machine.chips": ("target_for",),
    "pipeloom.machine.dtypes": (
        "BF8",
        "BF8_FNUZ",
        "BF16",
        "BOOL",
        "F32",
        "F64",
        "FP4",
        "FP6",
        "FP8",
        "FP8_FNUZ",
        "FP16",
        "I8",
        "I32",
        "MXFP4",
        "MXFP6",
        "MXFP8",
        "BlockScale",
        "DType",
        "Specials",
        "dtype_for",
    ),
    "pipeloom.machine.target": (
        "BarrierKind",
        "Counter",
        "Fact",
        "FactKind",
        "MatrixOp",
        "Target",
        "Traffic",
    ),
    "pipeloom.order.modulo": ("ModuloProblem", "solve_modulo"),
    "pipeloom.order.roles": ("Consumer", "Producer"),
    "pipeloom.order.strategy": ("Exact", "Timetable"),
    "pipeloom.program": (
        "VOCABULARY",
        "Access",
        "Affine",
        "Barrier",
        "Fence",
        "Group",
        "Issue",
        "Layout",
        "Meaning",
        "Node",
        "NodeKind",
        "OpDef",
        "Priority",
        "Program",
        "Reduce",
        "Region",
        "Resource",
        "Section",
        "Space",
        "Step",
        "TileType",
        "TripCount",
        "Unit",
        "Vocabulary",
        "Wait",
        "Work",
    ),
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
    "pipeloom.reference.waits": ("derive_drain_mask", "derive_waits_from_blocks"),
    "pipeloom.show.chrome_trace": ("chrome_trace",),
    "pipeloom.write": ("EmitError", "EmittedKernel", "assemble"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

if TYPE_CHECKING:
    # isort: off
    from pipeloom.drive.checking import Checked as Checked, check as check
    from pipeloom.drive.correcting import Corrected as Corrected, correct as correct
    from pipeloom.drive.comparing import CompareJob as CompareJob, compare as compare
    from pipeloom.drive.deriving import Derived as Derived, derive as derive
    from pipeloom.drive.emitting import EmitJob as EmitJob
    from pipeloom.drive.fixing import FixJob as FixJob, fix as fix
    from pipeloom.drive.reporting import ReportJob as ReportJob
    from pipeloom.drive.running import RunJob as RunJob
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
    from pipeloom.declare import (
        Loop as Loop,
        Tensor as Tensor,
        exp2 as exp2,
        kernels as kernels,
        maximum as maximum,
        minimum as minimum,
        where as where,
    )
    from pipeloom.drive.pipeline import pipeline as pipeline
    from pipeloom.drive.programs import (
        as_program as as_program,
        emit as emit,
        execute as execute,
        report as report,
        run as run,
        simulate as simulate,
        synchronize as synchronize,
        verify as verify,
    )
    from pipeloom.drive.trial import Data as Data, Trial as Trial
    from pipeloom.drive.triton_kernels import check_triton as check_triton
    from pipeloom.judge.check.verdict import (
        CheckStatus as CheckStatus,
        CheckVerdict as CheckVerdict,
    )
    from pipeloom.judge.emulate import (
        load_code_object as load_code_object,
        run_kernel as run_kernel,
    )
    from pipeloom.judge.execute import Outcome as Outcome
    from pipeloom.judge.simulate import Trace as Trace, simulate_stream as simulate_stream
    from pipeloom.judge.verify import Status as Status, Verdict as Verdict
    from pipeloom.lift import simulate_emitted as simulate_emitted
    from pipeloom.machine.chips import target_for as target_for
    from pipeloom.machine.dtypes import (
        BF8 as BF8,
        BF8_FNUZ as BF8_FNUZ,
        BF16 as BF16,
        BOOL as BOOL,
        F32 as F32,
        F64 as F64,
        FP4 as FP4,
        FP6 as FP6,
        FP8 as FP8,
        FP8_FNUZ as FP8_FNUZ,
        FP16 as FP16,
        I8 as I8,
        I32 as I32,
        MXFP4 as MXFP4,
        MXFP6 as MXFP6,
        MXFP8 as MXFP8,
        BlockScale as BlockScale,
        DType as DType,
        Specials as Specials,
        dtype_for as dtype_for,
    )
    from pipeloom.machine.target import (
        BarrierKind as BarrierKind,
        Counter as Counter,
        Fact as Fact,
        FactKind as FactKind,
        MatrixOp as MatrixOp,
        Target as Target,
        Traffic as Traffic,
    )
    from pipeloom.order.modulo import ModuloProblem as ModuloProblem, solve_modulo as solve_modulo
    from pipeloom.order.roles import Consumer as Consumer, Producer as Producer
    from pipeloom.order.strategy import Exact as Exact, Timetable as Timetable
    from pipeloom.program import (
        VOCABULARY as VOCABULARY,
        Access as Access,
        Affine as Affine,
        Barrier as Barrier,
        Fence as Fence,
        Group as Group,
        Issue as Issue,
        Layout as Layout,
        Meaning as Meaning,
        Node as Node,
        NodeKind as NodeKind,
        OpDef as OpDef,
        Priority as Priority,
        Program as Program,
        Reduce as Reduce,
        Region as Region,
        Resource as Resource,
        Section as Section,
        Space as Space,
        Step as Step,
        TileType as TileType,
        TripCount as TripCount,
        Unit as Unit,
        Vocabulary as Vocabulary,
        Wait as Wait,
        Work as Work,
    )
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
    from pipeloom.reference.schedules.ping_pong import DeclarativeSchedule as DeclarativeSchedule
    from pipeloom.reference.schedules.single_buffer import (
        SingleBufferSchedule as SingleBufferSchedule,
    )
    from pipeloom.reference.spec import build_schedule as build_schedule, load_spec as load_spec
    from pipeloom.reference.strategies import (
        OrderLimits as OrderLimits,
        Ordering as Ordering,
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
    from pipeloom.reference.waits import (
        derive_drain_mask as derive_drain_mask,
        derive_waits_from_blocks as derive_waits_from_blocks,
    )
    from pipeloom.show.chrome_trace import chrome_trace as chrome_trace
    from pipeloom.write import (
        EmitError as EmitError,
        EmittedKernel as EmittedKernel,
        assemble as assemble,
    )


def __getattr__(name: str) -> object:
    """A public name on its first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
