"""The five documents of the specification, item by item: names, parameters, defaults, behaviour.

The tables repeat what the documents say, in the documents' order. Template parameters are leading
arguments here. Values in the behavioural tests were worked out by hand from the documents and from
the specification's rules, or are read from the golden data; none was printed by this package first.
"""

from __future__ import annotations

import gzip
import inspect
import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import pipeloom as pl

REQUIRED = inspect.Parameter.empty
IDENTITY, CSP = pl.SchedulingStrategy.IDENTITY, pl.SchedulingStrategy.CSP
K0, K1, K_PREV = pl.KOffsetKind.K0, pl.KOffsetKind.K1, pl.KOffsetKind.K_PREV

SCHEDULE_CONFIG: dict[str, object] = {
    "scheduling": IDENTITY,
    "sched_barrier_mask": 85,
    "auto_waits": True,
    "drain_lgkm_mask": 0,
    "auto_drain": False,
    "lds_contention_penalty": 0,
    "wait_lgkm_first": 8,
    "wait_vm_last": 6,
    "lgkm_per_load_a": 0,
    "lgkm_per_load_b": 0,
    "lgkm_after_last": False,
    "minimal_barriers": False,
    "omit_mma_set_prio": False,
    "max_vgpr": 999999,
    "global_before_frag": False,
    "barrier_before_pre_ops": False,
    "inter_block_lgkm_drain": False,
    "partial_prologue_drain": False,
    "wrap_waits_with_sched_barrier": False,
}
FROM_STRATEGIES: dict[str, object] = {
    "scheduling": IDENTITY,
    "max_vgpr": 999999,
    "lds_contention_penalty": 0,
    "minimal_barriers": False,
    "omit_mma_set_prio": False,
    "sched_barrier_mask": 85,
    "wrap_waits_with_sched_barrier": False,
    "barrier_before_pre_ops": False,
    "auto_waits": True,
    "drain_lgkm_mask": 0,
    "auto_drain": False,
    "wait_lgkm_first": 8,
    "wait_vm_last": 6,
    "lgkm_after_last": False,
    "inter_block_lgkm_drain": False,
    "partial_prologue_drain": False,
    "global_before_frag": False,
    "lgkm_per_load_a": 0,
    "lgkm_per_load_b": 0,
}
PIPELINE_CONFIG: dict[str, object] = {
    "depth": REQUIRED,
    "prefetch": REQUIRED,
    "drain_passes": REQUIRED,
    "prologue_fill": REQUIRED,
    "loop_carried": REQUIRED,
    "block_sizing": REQUIRED,
    "frag_order": REQUIRED,
    "m_mmas": REQUIRED,
    "n_mmas": REQUIRED,
    "num_partitions": REQUIRED,
    "mma_serial": REQUIRED,
    "mma_latency": REQUIRED,
    "vm_per_load_a": REQUIRED,
    "vm_per_load_b": REQUIRED,
    "ch0_match_field": REQUIRED,
    "ch1_match_field": REQUIRED,
    "warp_stagger": REQUIRED,
    "lgkm_per_load_a": 0,
    "lgkm_per_load_b": 0,
    "cross_stage_rotation": False,
}
FIELD_TYPES = {
    "loop_carried": pl.LoopCarriedSpec,
    "block_sizing": pl.BlockSizing,
    "frag_order": pl.FragOrder,
    "warp_stagger": pl.WarpStaggerRule,
    "mma_serial": bool,
    "cross_stage_rotation": bool,
}

CSP_DEFAULT = pl.ScheduleConfig(**{**SCHEDULE_CONFIG, "scheduling": CSP})  # type: ignore[arg-type]
FOUR_WAVE_DEFAULT = pl.ScheduleConfig(
    scheduling=IDENTITY,
    auto_waits=True,
    minimal_barriers=True,
    omit_mma_set_prio=True,
    inter_block_lgkm_drain=True,
    partial_prologue_drain=True,
)
METHODS: list[tuple[type[Any], str, dict[str, object]]] = [
    (
        pl.DeclarativeSchedule,
        "__init__",
        {"config": CSP_DEFAULT, "target": pl.mi355x_target(4, 4, 1)},
    ),
    (pl.DeclarativeSchedule, "config", {}),
    (pl.DeclarativeSchedule, "declare_ops", {}),
    (pl.DeclarativeSchedule, "build_body", {}),
    (pl.DeclarativeSchedule, "schedule_config", {}),
    (pl.PipelineSchedule, "config", {}),
    (pl.PipelineSchedule, "build_body", {}),
    (pl.PipelineSchedule, "derive_edges", {"body": REQUIRED}),
    (pl.PipelineSchedule, "schedule_config", {}),
    (pl.PipelineSchedule, "transform_kernel", {"ker": REQUIRED, "body": REQUIRED}),
    (pl.PipelineSchedule, "build_explicit_blocks", {"body": REQUIRED, "program": REQUIRED}),
    (pl.PipelineSchedule, "bootstrap_frags", {}),
    (pl.ScheduleConfig, "__init__", SCHEDULE_CONFIG),
    (pl.ScheduleConfig, "from_strategies", FROM_STRATEGIES),
    (
        pl.Pipeline4Wave,
        "__init__",
        {"config": FOUR_WAVE_DEFAULT, "target": pl.mi355x_target(4, 4, 1)},
    ),
    (pl.Pipeline4Wave, "config", {}),
    (pl.Pipeline4Wave, "declare_ops", {}),
    (pl.Pipeline4Wave, "build_body", {}),
    (pl.Pipeline4Wave, "bootstrap_frags", {}),
    (pl.Pipeline4Wave, "derive_edges", {"body": REQUIRED}),
    (pl.Pipeline4Wave, "schedule_config", {}),
    (pl.Pipeline4Wave, "build_explicit_blocks", {"body": REQUIRED, "program": REQUIRED}),
    (pl.PipelineConfig, "__init__", PIPELINE_CONFIG),
    *(
        (pl.PipelineConfig, name, {})
        for name in (
            *("mmas_per_partition", "globals_per_partition", "frags_per_partition"),
            *("ops_per_partition", "total_ops", "blocks_per_partition", "total_blocks"),
            "total_edges",
        )
    ),
    (pl.PipelineConfig, "compute_match_key", {"compute_op": REQUIRED, "channel": REQUIRED}),
    (pl.PipelineConfig, "vm_per_channel", {"channel": REQUIRED}),
    (pl.PipelineConfig, "lgkm_per_channel", {"channel": REQUIRED}),
]
TEMPLATES: dict[type[Any], tuple[str, ...]] = {
    pl.DeclarativeSchedule: ("is_fp8", "lgkm_a", "lgkm_b"),
    pl.Pipeline4Wave: ("geometry",),
}
OTHER_NAMES = [
    *("SchedulingStrategy", "TargetProfile", "TargetCostModel", "OpDesc", "DepEdge"),
    *("ScheduleEntry", "PipelineProgram", "MMABlockSpec", "KernelGeometry", "LoopCarriedSpec"),
    *("BlockSizing", "FragOrder", "WarpStaggerRule", "BarrierStrategy", "build_schedule"),
    *("annotate_ops", "double_buffer_reorder", "optimal_schedule_with_halves"),
    *("mi355x_target", "mi355x_double_buffer", "emit_minimal_barrier_block"),
    *("derive_waits_from_blocks", "single_buffer_reorder", "greedy_schedule"),
]
"""What the documents mention beside their own classes, and REFERENCE.md section 11 keeps."""

TILE = pl.KernelGeometry.four_wave(
    BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2
)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_mentioned_name_is_public(name: str) -> None:
    assert name in pl.__all__


def test_the_page_for_newcomers_has_every_documented_name() -> None:
    page = Path(__file__).parents[2] / "docs" / "coming-from-modular.md"
    text = page.read_text(encoding="utf-8")
    names = {name for kind, method, _ in METHODS for name in (kind.__name__, method)}
    assert not [name for name in sorted({*names, *OTHER_NAMES}) if name not in text]


@pytest.mark.parametrize(
    ("owner", "name", "parameters"), METHODS, ids=[f"{m[0].__name__}.{m[1]}" for m in METHODS]
)
def test_a_method_has_its_parameters_and_defaults(
    owner: type[Any], name: str, parameters: dict[str, object]
) -> None:
    found = dict(inspect.signature(getattr(owner, name)).parameters)
    found.pop("self", None)
    template = TEMPLATES.get(owner, ()) if name == "__init__" else ()
    given = [p.name for p in found.values() if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    if owner is not pl.ScheduleConfig:  # whose parameters are by name, beside whole groups
        wanted = [*template, *parameters]
        assert given[: len(wanted)] == wanted
    for parameter, default in parameters.items():
        assert found[parameter].default == default, parameter
    if not parameters and not template:
        assert not given


def test_what_must_be_named_is_named() -> None:
    for kind, table in ((pl.ScheduleConfig, SCHEDULE_CONFIG), (pl.PipelineConfig, PIPELINE_CONFIG)):
        parameters = inspect.signature(kind).parameters
        assert set(parameters) == set(table)
        assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_fields_are_the_documented_ones_in_their_order() -> None:
    assert [f.name for f in fields(pl.ScheduleConfig)] == list(SCHEDULE_CONFIG)
    assert {f.name for f in fields(pl.PipelineConfig)} == set(PIPELINE_CONFIG)
    config = pl.mi355x_double_buffer()
    for name in PIPELINE_CONFIG:
        assert type(getattr(config, name)) is FIELD_TYPES.get(name, int), name
    knobs = pl.ScheduleConfig()
    for name, default in SCHEDULE_CONFIG.items():
        assert type(getattr(knobs, name)) is type(default), name


def test_the_trait_has_two_required_methods_and_five_provided_ones() -> None:
    assert pl.PipelineSchedule.__abstractmethods__ == {"config", "build_body"}
    for schedule in (pl.DeclarativeSchedule, pl.Pipeline4Wave):
        assert issubclass(schedule, pl.PipelineSchedule)
    assert pl.Pipeline4Wave._default_schedule_config() == FOUR_WAVE_DEFAULT


# --- PipelineConfig ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "square", "wide"),
    [  # 2x2 in 2 partitions; 2x3 in 2 partitions
        ("mmas_per_partition", 4, 6),
        ("globals_per_partition", 4, 5),
        ("frags_per_partition", 4, 5),
        ("ops_per_partition", 12, 16),
        ("total_ops", 24, 32),
        ("blocks_per_partition", 4, 6),
        ("total_blocks", 8, 12),
        ("total_edges", 16 + 8 + 16 + 14, 24 + 12 + 20 + 18),
    ],
)
def test_counts(method: str, square: int, wide: int) -> None:
    config = pl.mi355x_double_buffer()
    assert getattr(config, method)() == square
    assert getattr(replace(config, n_mmas=3), method)() == wide


def test_what_depends_on_the_channel() -> None:
    config = replace(pl.mi355x_double_buffer(3, 5), lgkm_per_load_a=7)
    mma = pl.OpDesc(5, stage=1, subtile=0)
    assert config.compute_match_key(compute_op=mma, channel=0) == 1
    assert config.compute_match_key(mma, 1) == 0
    assert [config.vm_per_channel(channel) for channel in (0, 1, 2)] == [3, 5, 5]
    assert [config.lgkm_per_channel(channel=channel) for channel in (0, 1)] == [7, 0]


# --- ScheduleConfig ------------------------------------------------------------------------------


def test_groups_spread_into_the_constructor() -> None:
    config = pl.ScheduleConfig.from_strategies(
        scheduling=CSP,
        **pl.BarrierStrategy.minimal_no_set_prio(),
        **pl.WaitStrategy.auto_with_inter_block_drain(partial_prologue_drain=True),
        **pl.LoadStrategy.default(),
    )
    assert config == replace(FOUR_WAVE_DEFAULT, scheduling=CSP, sched_barrier_mask=0)
    assert pl.ScheduleConfig.from_strategies(**FROM_STRATEGIES) == pl.ScheduleConfig()  # type: ignore[arg-type]


# --- DeclarativeSchedule -------------------------------------------------------------------------


def ops(found: list[pl.OpDesc]) -> list[tuple[int, int, int, int, pl.KOffsetKind]]:
    return [(int(op.tag), op.channel, op.stage, op.subtile, op.k_offset) for op in found]


def half(h: int) -> list[tuple[int, int, int, int, pl.KOffsetKind]]:
    """The table of the ping-pong, from REFERENCE.md section 3: tags of loads, fragments, MMA."""
    none = pl.KOffsetKind.NONE
    k, special = (K1, K0) if h else (K0, K_PREV)
    return [
        (0, 0, 1 - h, 1, special),
        (0, 0, h, 0, k),
        (1, 1, h, 0, k),
        (1, 1, h, 1, k),
        *((3, 0, h, sub, none) for sub in (0, 1)),
        *((4, 1, h, sub, none) for sub in (0, 1)),
        *((5, -1, row, column, none) for row in (0, 1) for column in (0, 1)),
    ]


def test_declare_ops_says_what_and_nothing_about_cost() -> None:
    declared = pl.DeclarativeSchedule(False, 8, 4).declare_ops()
    assert ops(declared) == [*half(0), *half(1)]
    logical = [pl.OpDesc.logical(op.tag, *op_key(op)) for op in declared]
    assert declared == logical


def op_key(op: pl.OpDesc) -> tuple[int, int, int, pl.KOffsetKind]:
    return op.channel, op.stage, op.subtile, op.k_offset


def test_build_body_annotates_and_interleaves() -> None:
    """MMA (0,0) of a half brings B0 and A0, (0,1) B1, (1,0) A1; each block gets a load."""
    body = pl.DeclarativeSchedule(False, 8, 4).build_body()
    tags = [int(op.tag) for op in body]
    assert tags[:12] == [4, 3, 0, 5, 4, 0, 5, 3, 1, 5, 1, 5]
    assert tags[12:] == tags[:12]
    assert {op.latency for op in body if op.role is pl.OpRole.GLOBAL_LOAD} == {200}
    assert {op.latency for op in body if op.role is pl.OpRole.FRAGMENT_LOAD} == {20}
    assert {op.latency for op in body if op.role is pl.OpRole.COMPUTE} == {16}


def test_schedule_config_has_the_counts_of_the_type_parameters() -> None:
    config = pl.ScheduleConfig(auto_drain=True)
    found = pl.DeclarativeSchedule(True, 8, 4, config).schedule_config()
    assert found == replace(config, lgkm_per_load_a=8, lgkm_per_load_b=4)


def bracketed(kind: Any, *parameters: object) -> Any:
    return kind[parameters if len(parameters) > 1 else parameters[0]]


def test_every_way_to_construct_it() -> None:
    config, target = pl.ScheduleConfig(wait_vm_last=2), pl.mi355x_target(2, 3, 1)
    parts = (target.pipeline, target.cost_model)
    ways: list[Callable[[], pl.PipelineSchedule]] = [
        lambda: pl.DeclarativeSchedule(False, 8, 4, config, target),
        lambda: pl.DeclarativeSchedule(False, 8, 4, config=config, target=target),
        lambda: pl.DeclarativeSchedule(False, 8, 4, config, *parts),
        lambda: pl.DeclarativeSchedule(
            False, 8, 4, config, hw_config=parts[0], cost_model=parts[1]
        ),
        lambda: bracketed(pl.DeclarativeSchedule, False, 8, 4)(config, target),
        lambda: bracketed(pl.DeclarativeSchedule, False, 8, 4)(config, *parts),
        lambda: bracketed(pl.DeclarativeSchedule, False, 8, 4)(config=config, target=target),
    ]
    for way in ways:
        made = way()
        assert isinstance(made, pl.DeclarativeSchedule)
        assert made.config() == target.pipeline
        knobs = made.schedule_config()
        assert (knobs.wait_vm_last, knobs.lgkm_per_load_a, knobs.lgkm_per_load_b) == (2, 8, 4)
        assert {op.latency for op in made.build_body()} == {200, 20, 16}
    assert bracketed(pl.DeclarativeSchedule, False, 8, 4)().config() == pl.mi355x_double_buffer()


CASES = {
    f"canonical/ping_pong/{number}": counts
    for number, counts in {
        "005": (0, 0),
        "011": (8, 8),
        "017": (4, 8),
        "023": (16, 8),
        "029": (2, 2),
        "035": (12, 6),
    }.items()
}
"""Golden cases in which everything but the type parameters is as by default, and those."""


def test_build_schedule_takes_the_type_parameters() -> None:
    """The usage line of the document gives what the original computes for these parameters."""
    with gzip.open(Path(__file__).with_name("schedules.jsonl.gz"), "rt", encoding="utf-8") as file:
        found = {case["case"]: case for case in map(json.loads, file) if case["case"] in CASES}
    for name, (lgkm_a, lgkm_b) in CASES.items():
        compiled = pl.build_schedule(False, lgkm_a, lgkm_b)
        assert compiled == pl.build_schedule(is_fp8=False, lgkm_a=lgkm_a, lgkm_b=lgkm_b)
        for phase in ("prologue", "kernel", "epilogue"):
            rows = [row[2] for row in found[name]["result"][phase]]
            entries = [e.op for e in getattr(compiled, phase)]
            assert [(op.tag, op.wait_value) for op in entries] == [(r[0], r[6]) for r in rows]


# --- Pipeline4Wave -------------------------------------------------------------------------------


def four_wave(config: pl.ScheduleConfig = FOUR_WAVE_DEFAULT) -> pl.Pipeline4Wave:
    return pl.Pipeline4Wave(TILE, config)


def test_the_four_wave_body_is_in_mini_iterations() -> None:
    declared = four_wave().declare_ops()
    assert len(declared) == 24
    none = pl.KOffsetKind.NONE
    for p in (0, 1):
        k, other = (K1, 0) if p else (K0, 1)
        minis = [
            ((0, 0, p, 0, k), (4, 1, p, 1, none), (5, -1, 0, 0, none)),
            ((1, 1, p, 0, k), (3, 0, p, 1, none), (5, -1, 0, 1, none)),
            ((1, 1, p, 1, k), (3, 0, other, 0, none), (5, -1, 1, 0, none)),
            ((0, 0, p, 1, k), (4, 1, other, 0, none), (5, -1, 1, 1, none)),
        ]
        assert ops(declared[12 * p : 12 * (p + 1)]) == [op for mini in minis for op in mini]


def test_the_four_wave_body_keeps_that_order() -> None:
    schedule = four_wave()
    assert ops(schedule.build_body()) == ops(schedule.declare_ops())
    compiled = pl.compile_schedule(schedule)
    assert compiled.order == tuple(range(24))


def test_its_invariants_hold_whatever_is_passed() -> None:
    loose = pl.ScheduleConfig(scheduling=CSP, wait_vm_last=3)
    knobs = four_wave(loose).schedule_config()
    assert knobs == replace(FOUR_WAVE_DEFAULT, wait_vm_last=3)
    config = four_wave(loose).config()
    assert config.cross_stage_rotation
    assert not config.warp_stagger.enabled
    counts = (TILE.lgkm_per_load_a, TILE.lgkm_per_load_b)
    assert (config.lgkm_per_load_a, config.lgkm_per_load_b) == counts


def test_two_bootstrap_fragments_leave_six_prefetches_in_flight() -> None:
    schedule = four_wave()
    frags = schedule.bootstrap_frags()
    assert [(int(f.tag), f.channel, f.stage, f.subtile) for f in frags] == [
        (3, 0, 0, 0),
        (4, 1, 0, 0),
    ]
    prologue = [entry.op for entry in pl.compile_schedule(schedule).prologue]
    assert len(prologue) == 8 + 2 * 3
    waits = [op.wait_value for op in prologue if op.tag == pl.OpTag.WAIT_VM]
    assert waits == [4 * 7, 4 * 6]  # four entries per load, eight loads


def test_derive_edges_corrects_for_the_rotation() -> None:
    """A fragment of the other stage feeds the other partition, and follows its own one's MMAs."""
    schedule = four_wave()
    body = schedule.build_body()
    edges = schedule.derive_edges(body=body)
    flow = {(e.producer, e.consumer, e.loop_distance) for e in edges if e.kind is pl.DepKind.FLOW}
    anti = {(e.producer, e.consumer) for e in edges if e.kind is pl.DepKind.ANTI}
    # op 7 is fragment A0 of stage 1 in partition 0; MMAs of row 0 are ops 2, 5 and 14, 17
    assert {(7, 14, 0), (7, 17, 0)} <= flow
    assert not {(7, 2, 0), (7, 5, 0)} & flow
    assert {(2, 7), (5, 7)} <= anti
    # op 19 is the same of stage 0 in partition 1: its MMAs come an iteration later
    assert {(19, 2, 1), (19, 5, 1)} <= flow


def test_build_explicit_blocks_gives_one_list_per_block() -> None:
    schedule = four_wave()
    compiled = pl.compile_schedule(schedule)
    assert compiled.program is not None
    blocks = schedule.build_explicit_blocks(body=list(compiled.body), program=compiled.program)
    assert len(blocks) == 8
    for block, spec in zip(blocks, compiled.program.blocks, strict=True):
        assert block == pl.emit_minimal_barrier_block(spec)
        assert block[-1].role is pl.OpRole.COMPUTE
        assert sum(op.role is pl.OpRole.COMPUTE for op in block) == 1


def test_brackets_and_leading_argument_are_one() -> None:
    bracket = bracketed(pl.Pipeline4Wave, TILE)
    for made in (bracket(), bracket(FOUR_WAVE_DEFAULT, pl.mi355x_target(4, 4, 1))):
        assert pl.compile_schedule(made) == pl.compile_schedule(four_wave())
    assert bracket._default_schedule_config() == FOUR_WAVE_DEFAULT


# --- PipelineSchedule ----------------------------------------------------------------------------


class Rotated(pl.PipelineSchedule):
    """The four-wave ops through the trait alone, with every hook written as documented."""

    def __init__(self, fragments: int = 2) -> None:
        self.fragments = fragments
        self.seen: list[str] = []

    def config(self) -> pl.PipelineConfig:
        return four_wave().config()

    def build_body(self) -> list[pl.OpDesc]:
        return four_wave().build_body()

    def schedule_config(self) -> pl.ScheduleConfig:
        return FOUR_WAVE_DEFAULT

    def derive_edges(self, body: list[pl.OpDesc]) -> list[pl.DepEdge]:
        self.seen.append("derive_edges")
        return four_wave().derive_edges(body)

    def transform_kernel(
        self, ker: list[pl.ScheduleEntry], body: list[pl.OpDesc]
    ) -> list[pl.ScheduleEntry]:
        self.seen.append("transform_kernel")
        assert len(body) == 24
        hint = pl.OpDesc.sched_group_barrier(3, 1)
        return [*ker, pl.ScheduleEntry(hint, len(ker), pl.Phase.KERNEL)]

    def build_explicit_blocks(
        self, body: list[pl.OpDesc], program: pl.PipelineProgram
    ) -> list[list[pl.OpDesc]]:
        """The first block by hand, the rest by the template."""
        self.seen.append("build_explicit_blocks")
        assert len(program.blocks) == 8
        return [pl.emit_minimal_barrier_block(program.blocks[0]), *([] for _ in range(7))]

    def bootstrap_frags(self) -> list[pl.OpDesc]:
        self.seen.append("bootstrap_frags")
        return four_wave().bootstrap_frags()[: self.fragments]


def test_every_hook_is_called_and_counts() -> None:
    schedule = Rotated()
    compiled = pl.compile_schedule(schedule)
    assert set(schedule.seen) == {
        *("derive_edges", "transform_kernel", "build_explicit_blocks", "bootstrap_frags")
    }
    assert compiled.edges == tuple(four_wave().derive_edges(four_wave().build_body()))
    assert compiled.kernel[-1].op.tag == pl.OpTag.SCHED_GROUP_BARRIER
    assert compiled.program is not None
    first = compiled.program.explicit_blocks[0]
    assert [e.op for e in compiled.kernel[: len(first)]] == list(first)
    template = [op for op, _ in compiled.program.expand_block(1)]
    assert template == list(compiled.program.blocks[1].expand())


@pytest.mark.parametrize(("fragments", "waits"), [(0, []), (1, [28]), (2, [28, 24])])
def test_the_ith_bootstrap_fragment_waits_for_the_ith_prefetch(
    fragments: int, waits: list[int]
) -> None:
    prologue = pl.compile_schedule(Rotated(fragments)).prologue
    assert [e.op.wait_value for e in prologue if e.op.tag == pl.OpTag.WAIT_VM] == waits


def test_defaults_of_the_provided_methods() -> None:
    class Two(pl.PipelineSchedule):
        def config(self) -> pl.PipelineConfig:
            return pl.mi355x_double_buffer()

        def build_body(self) -> list[pl.OpDesc]:
            return pl.DeclarativeSchedule().build_body()

    schedule, body = Two(), pl.DeclarativeSchedule().build_body()
    entries = list(pl.compile_schedule(schedule).kernel)
    program = pl.build_kernel_program(body, schedule.config(), schedule.schedule_config())
    assert schedule.schedule_config() == pl.ScheduleConfig()
    assert schedule.derive_edges(body) == pl.derive_edges_from_ops(body, schedule.config())
    assert schedule.transform_kernel(ker=entries, body=body) == entries
    assert schedule.build_explicit_blocks(body=body, program=program) == []
    assert schedule.bootstrap_frags() == []
