"""What ``import pipeloom`` offers: every name of the specification, and only immutable values."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import pipeloom

REFERENCE = [
    "OpDesc",
    "OpRole",
    "ResourceKind",
    "KOffsetKind",
    "Phase",
    "DepKind",
    "DepEdge",
    "OpCost",
    "TargetCostModel",
    "annotate_ops",
    "PipelineBody",
    "ScheduleEntry",
    "PipelineConfig",
    "LoopCarriedSpec",
    "BlockSizing",
    "FragOrder",
    "WarpStaggerRule",
    "SchedulingStrategy",
    "ScheduleConfig",
    "BarrierStrategy",
    "WaitStrategy",
    "LoadStrategy",
    "TargetProfile",
    "KernelGeometry",
    "mi355x_target",
    "mi355x_double_buffer",
    "mi355x_single_buffer",
    "mi355x_single_buffer_target",
    "DeclarativeSchedule",
    "Pipeline4Wave",
    "SingleBufferSchedule",
    "PipelineSchedule",
    "compile_schedule",
    "build_schedule",
    "LoopBody",
    "CompiledSchedule",
    "load_spec",
    "MMABlockSpec",
    "PipelineProgram",
    "emit_minimal_barrier_block",
    "double_buffer_reorder",
    "mma_block_interleave",
    "single_buffer_reorder",
    "optimize_within_barriers",
    "derive_edges_from_ops",
    "double_buffer_edge_rules",
    "single_buffer_edge_rules",
    "EdgeRule",
    "derive_cross_stage_rotation_edges",
    "filter_spurious_cross_stage_flow",
    "greedy_schedule",
    "optimal_schedule",
    "optimal_schedule_with_halves",
    "derive_waits_from_blocks",
    "derive_drain_mask",
    "derive_safe_max_globals",
    "verify_schedule",
    "build_kernel_program",
    "derive_prologue_from_program",
    "derive_epilogue_from_program",
    "mi355x_cost_model",
    "mi355x_single_buffer_cost_model",
    "AMDScheduleHints",
    "append_amd_hints",
    "ScheduleError",
]


@pytest.mark.parametrize("name", REFERENCE)
def test_every_name_of_the_specification_is_public(name: str) -> None:
    assert name in pipeloom.__all__
    assert hasattr(pipeloom, name)


VALUES = [getattr(pipeloom, name) for name in pipeloom.__all__]
DATACLASSES = [v for v in VALUES if isinstance(v, type) and is_dataclass(v)]


@pytest.mark.parametrize("kind", DATACLASSES, ids=lambda k: k.__name__)
def test_every_value_type_is_frozen(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert fields(kind)
