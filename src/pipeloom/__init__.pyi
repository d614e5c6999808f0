# The public names: `from .home import name as name`. `__init__.py` reads this file.
__version__: str
__all__: list[str]

from .declare import (
    Loop as Loop,
    Tensor as Tensor,
    abs as abs,
    block_amax as block_amax,
    block_max as block_max,
    ceil as ceil,
    clamp as clamp,
    cos as cos,
    erf as erf,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    floor as floor,
    fma as fma,
    keep as keep,
    kernels as kernels,
    log as log,
    log1p as log1p,
    log2 as log2,
    maximum as maximum,
    minimum as minimum,
    power_below as power_below,
    rcp as rcp,
    round as round,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sqrt as sqrt,
    swapped as swapped,
    tanh as tanh,
    trunc as trunc,
    where as where,
    within as within,
)
from .program.address_maps import (
    AddressMap as AddressMap,
    LoadForm as LoadForm,
)
from .program.index_forms import (
    Digit as Digit,
    IndexEntry as IndexEntry,
    IndexForm as IndexForm,
    digit as digit,
)
from .device.hip_errors import DeviceError as DeviceError
from .device.prepared_kernel import PreparedKernel as PreparedKernel
from .drive.checking import CheckEffort as CheckEffort, Checked as Checked, check as check
from .drive.scanning import ScanReport as ScanReport, scan as scan
from .drive.comparing import CompareJob as CompareJob, compare as compare
from .drive.correcting import Corrected as Corrected, correct as correct
from .drive.certifying import Derived as Derived
from .drive.deriving import derive as derive
from .drive.fixing import FixJob as FixJob, fix as fix
from .drive.launching import launch as launch, prepare as prepare, torch_op as torch_op
from .device.torch_op import TorchOp as TorchOp
from .drive.pipeline import pipeline as pipeline
from .drive.programs import (
    as_program as as_program,
    emit as emit,
    execute as execute,
    report as report,
    run as run,
    simulate as simulate,
    solve as solve,
    synchronize as synchronize,
    verify as verify,
)
from .drive.solving import Solved as Solved
from .drive.sources import Source as Source
from .drive.trial import Data as Data, Trial as Trial
from .drive.triton_gate import TritonGate as TritonGate
from .drive.triton_gate import triton_gate as triton_gate
from .drive.triton_kernels import check_triton as check_triton
from .errors import (
    ConfigError as ConfigError,
    GraphError as GraphError,
    InternalError as InternalError,
    OrderError as OrderError,
    ScheduleError as ScheduleError,
    SpecError as SpecError,
    StructureError as StructureError,
)
from .judge.check.verdict import CheckStatus as CheckStatus, CheckVerdict as CheckVerdict
from .judge.emulate import load_code_object as load_code_object, run_kernel as run_kernel
from .judge.execute import Outcome as Outcome
from .judge.scan import KernelScan as KernelScan, ScanFinding as ScanFinding, ScanKind as ScanKind
from .judge.simulate import Trace as Trace, simulate_stream as simulate_stream
from .judge.verify import Status as Status, Verdict as Verdict
from .machine_code import simulate_emitted as simulate_emitted
from .machine.chips import target_for as target_for
from .machine.dtypes import (
    BF16 as BF16,
    BF6 as BF6,
    BF8 as BF8,
    BF8_FNUZ as BF8_FNUZ,
    BOOL as BOOL,
    BlockScale as BlockScale,
    DType as DType,
    F32 as F32,
    F64 as F64,
    FP16 as FP16,
    FP4 as FP4,
    FP6 as FP6,
    FP8 as FP8,
    FP8_FNUZ as FP8_FNUZ,
    I32 as I32,
    I4 as I4,
    I8 as I8,
    MXFP4 as MXFP4,
    MXFP6 as MXFP6,
    MXFP8 as MXFP8,
    Specials as Specials,
    U4 as U4,
    U8 as U8,
    dtype_for as dtype_for,
)
from .machine.facts import Fact as Fact, FactKind as FactKind
from .machine.matrix_ops import MatrixOp as MatrixOp
from .machine.target import (
    BarrierKind as BarrierKind,
    Counter as Counter,
    Target as Target,
    Traffic as Traffic,
)
from .order.modulo import ModuloProblem as ModuloProblem, solve_modulo as solve_modulo
from .order.roles import Consumer as Consumer, Producer as Producer
from .order.strategy import Exact as Exact, Timetable as Timetable
from .program import (
    Access as Access,
    Affine as Affine,
    Barrier as Barrier,
    Fence as Fence,
    Group as Group,
    Issue as Issue,
    Layout as Layout,
    Lowering as Lowering,
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
    VOCABULARY as VOCABULARY,
    Vocabulary as Vocabulary,
    Wait as Wait,
    Work as Work,
)
from .reference.block_program import build_kernel_program as build_kernel_program
from .reference.blocks import (
    MMABlockSpec as MMABlockSpec,
    PipelineProgram as PipelineProgram,
    emit_minimal_barrier_block as emit_minimal_barrier_block,
)
from .reference.compiled import (
    Certificate as Certificate,
    CompiledSchedule as CompiledSchedule,
    ScheduleEntry as ScheduleEntry,
)
from .reference.compiler import compile_schedule as compile_schedule
from .reference.config import (
    BlockSizing as BlockSizing,
    FragOrder as FragOrder,
    LoopCarriedSpec as LoopCarriedSpec,
    PipelineConfig as PipelineConfig,
    TargetProfile as TargetProfile,
    WarpStaggerRule as WarpStaggerRule,
)
from .reference.schedule_config import (
    BarrierStrategy as BarrierStrategy,
    LoadStrategy as LoadStrategy,
    ScheduleConfig as ScheduleConfig,
    SchedulingStrategy as SchedulingStrategy,
    WaitStrategy as WaitStrategy,
)
from .reference.tag_costs import (
    OpCost as OpCost,
    TargetCostModel as TargetCostModel,
    annotate_ops as annotate_ops,
)
from .reference.declaration import PipelineSchedule as PipelineSchedule
from .reference.edges import (
    EdgeRule as EdgeRule,
    derive_cross_stage_rotation_edges as derive_cross_stage_rotation_edges,
    derive_edges_from_ops as derive_edges_from_ops,
    double_buffer_edge_rules as double_buffer_edge_rules,
    filter_spurious_cross_stage_flow as filter_spurious_cross_stage_flow,
    single_buffer_edge_rules as single_buffer_edge_rules,
)
from .reference.geometry import (
    KernelGeometry as KernelGeometry,
    derive_safe_max_globals as derive_safe_max_globals,
)
from .reference.graph import DepEdge as DepEdge, DepKind as DepKind, LoopBody as LoopBody
from .reference.hints import (
    AMDScheduleHints as AMDScheduleHints,
    append_amd_hints as append_amd_hints,
)
from .reference.kernels.grid import GridKernel as GridKernel
from .reference.mi355x import (
    MatmulTag as MatmulTag,
    SingleBufferTag as SingleBufferTag,
    mi355x_cost_model as mi355x_cost_model,
    mi355x_double_buffer as mi355x_double_buffer,
    mi355x_single_buffer as mi355x_single_buffer,
    mi355x_single_buffer_cost_model as mi355x_single_buffer_cost_model,
    mi355x_single_buffer_target as mi355x_single_buffer_target,
    mi355x_target as mi355x_target,
)
from .reference.ops import (
    KOffsetKind as KOffsetKind,
    OpDesc as OpDesc,
    OpRole as OpRole,
    OpTag as OpTag,
    Phase as Phase,
    PipelineBody as PipelineBody,
    ResourceKind as ResourceKind,
)
from .reference.phases import (
    derive_epilogue_from_program as derive_epilogue_from_program,
    derive_prologue_from_program as derive_prologue_from_program,
)
from .reference.reorder import (
    double_buffer_reorder as double_buffer_reorder,
    mma_block_interleave as mma_block_interleave,
    optimize_within_barriers as optimize_within_barriers,
    single_buffer_reorder as single_buffer_reorder,
)
from .reference.schedules.four_wave import Pipeline4Wave as Pipeline4Wave
from .reference.schedules.ping_pong import DeclarativeSchedule as DeclarativeSchedule
from .reference.schedules.single_buffer import SingleBufferSchedule as SingleBufferSchedule
from .reference.spec import build_schedule as build_schedule, load_spec as load_spec
from .reference.strategies import (
    OrderLimits as OrderLimits,
    Ordering as Ordering,
    Strategy as Strategy,
)
from .reference.strategies.cost import (
    OrderCost as OrderCost,
    order_cost as order_cost,
    lower_bound as lower_bound,
)
from .reference.strategies.csp import (
    CspStrategy as CspStrategy,
    optimal_schedule as optimal_schedule,
    optimal_schedule_with_halves as optimal_schedule_with_halves,
)
from .reference.strategies.greedy import (
    greedy_schedule as greedy_schedule,
    simple_greedy as simple_greedy,
)
from .reference.structure import verify_schedule as verify_schedule
from .reference.waits import (
    derive_drain_mask as derive_drain_mask,
    derive_waits_from_blocks as derive_waits_from_blocks,
)
from .tuning.calls import (
    TunedKernel as TunedKernel,
    TunedLibrary as TunedLibrary,
    gemm as gemm,
    library as library,
    tune as tune,
)
from .tuning.search import Tuned as Tuned
from .show.chrome_trace import chrome_trace as chrome_trace
from .write import EmitError as EmitError, EmittedKernel as EmittedKernel, assemble as assemble
from .write.lower.wave_clocks import TimingRecord as TimingRecord
from .write.timings import WaveTimings as WaveTimings, read_timings as read_timings
