"""Settings that are legal but change nothing, as one-line notes on the result.

A knob without effect is usually a misunderstanding: worth a line, not an error. The tables here say
why a combination makes a knob idle. Whether it does, ``idle_knobs`` tries: the schedule is made
once more with that knob at its default, and a knob that leaves every entry the same is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

from pipeloom.reference.config import LoopCarriedSpec, PipelineConfig
from pipeloom.reference.mi355x import mi355x_double_buffer, mi355x_single_buffer
from pipeloom.reference.ops import OpDesc, OpRole
from pipeloom.reference.schedule_config import UNLIMITED_VGPR, ScheduleConfig, SchedulingStrategy

Reason = tuple[str, str]
"""A field, and the note on it."""

_DEFAULT = ScheduleConfig()
_JUDGED_OTHERWISE = (
    "scheduling",  # decides who orders and what is proved, whatever order comes out
    "lds_contention_penalty",  # the order is searched again, not the entries made again
    "max_vgpr",  # a limit: what it promises is kept
    "lgkm_per_load_a",  # entries that proofs and simulations count
    "lgkm_per_load_b",
)


def idle_knobs(
    config: PipelineConfig,
    knobs: ScheduleConfig,
    same: Callable[[ScheduleConfig], bool],
    said: Sequence[str] = (),
) -> tuple[str, ...]:
    """A note for each knob that changes nothing in this schedule; with the reason, where known.

    Args:
        config: the pipeline.
        knobs: the scheduler's knobs.
        same: whether other knobs give the same entries.
        said: notes of the schedule itself, each of which begins with the knob it is about.
    """
    notes: list[str] = []
    explained = {note.split()[0].partition("=")[0] for note in said if note}
    for name, text in reasons(config, knobs):
        default = getattr(_DEFAULT, name)
        tried = name not in _JUDGED_OTHERWISE and not _is_partial(text)
        if config.depth > 1 and tried and not same(replace(knobs, **{name: default})):
            continue
        notes.append(text)
        explained.add(name)
    if config.depth == 1:
        return tuple(notes)
    for f in fields(ScheduleConfig):
        value, default = getattr(knobs, f.name), getattr(_DEFAULT, f.name)
        if value == default or f.name in explained or f.name in _JUDGED_OTHERWISE:
            continue
        if same(replace(knobs, **{f.name: default})):
            notes.append(f"{f.name}={value} has no effect here: {default} gives the same entries")
    return tuple(notes)


def idle_limits(body: Sequence[OpDesc], knobs: ScheduleConfig) -> Iterator[str]:
    """A note where CSP's register limit cannot bind.

    Args:
        body: the ops of one iteration.
        knobs: the scheduler's knobs.
    """
    most = sum(op.vgpr_def for op in body)
    limited = knobs.max_vgpr != UNLIMITED_VGPR and knobs.scheduling is SchedulingStrategy.CSP
    if limited and knobs.max_vgpr >= most:
        yield (
            f"max_vgpr={knobs.max_vgpr} has no effect here: the ops define {most} registers in all"
        )


def idle_shape(
    config: PipelineConfig, knobs: ScheduleConfig, body: Sequence[OpDesc], own_rules: bool
) -> Iterator[str]:
    """A note for each field of the pipeline that is not the MI355X profile's, and changes nothing.

    Args:
        config: the pipeline.
        knobs: the scheduler's knobs.
        body: the ops of one iteration.
        own_rules: whether the schedule brings dependence rules of its own, which may read a field.
    """
    single = config.depth == 1
    usual = mi355x_single_buffer() if single else mi355x_double_buffer()
    for name, why in _DESCRIPTIVE.items():
        if getattr(config, name) != getattr(usual, name):
            yield f"PipelineConfig.{name}={getattr(config, name)} has no effect: {why}"
    if single:
        for name in _IDLE_AT_DEPTH_1:
            if getattr(config, name) != getattr(usual, name):
                yield f"PipelineConfig.{name} has no effect at depth 1, which has no blocks"
    else:
        yield from _idle_double_buffer(config, usual, body, own_rules)
    if not config.mma_serial and (single or knobs.scheduling is not SchedulingStrategy.CSP):
        yield f"{PARALLEL_MMAS}: only CSP searches with it"


PARALLEL_MMAS = "PipelineConfig.mma_serial=False does not change the order here"

_DESCRIPTIVE = {
    "prefetch": "the k_offset of each load says how far it runs ahead",
    "drain_passes": "the depth says how many K tiles the epilogue computes",
    "prologue_fill": "the body's prefetch loads say what the prologue loads",
    "mma_latency": "the cost model's OpCost.latency of an MMA counts",
}
"""Fields that describe a pipeline to its readers -> what says the same to the framework."""

_IDLE_AT_DEPTH_1 = (
    *("block_sizing", "frag_order", "num_partitions", "vm_per_load_b", "lgkm_per_load_b"),
    *("ch0_match_field", "ch1_match_field", "warp_stagger"),
)


def _idle_double_buffer(
    config: PipelineConfig, usual: PipelineConfig, body: Sequence[OpDesc], own_rules: bool
) -> Iterator[str]:
    if config.loop_carried != LoopCarriedSpec.none() and not own_rules:
        yield (
            "PipelineConfig.loop_carried has no effect at depth 2: its rules carry everything in "
            "the two stages"
        )
    sizing, of_usual = config.block_sizing, usual.block_sizing
    if sizing.max_globals == 1:
        for name in ("heavy", "light"):
            if (value := getattr(sizing, name)) != getattr(of_usual, name):
                yield (
                    f"PipelineConfig.block_sizing.{name}={value} has no effect with max_globals=1, "
                    "which gives every block one load"
                )
    half = len(body) // 2
    crosses = any(
        op.role is OpRole.FRAGMENT_LOAD and op.stage != (0 if at < half else 1)
        for at, op in enumerate(body)
    )
    if config.cross_stage_rotation and not crosses:
        yield (
            "PipelineConfig.cross_stage_rotation has no effect: every fragment reads the stage of "
            "its own half"
        )


def reasons(config: PipelineConfig, knobs: ScheduleConfig) -> Iterator[Reason]:
    """The knobs that this combination makes idle in every schedule.

    Args:
        config: the pipeline.
        knobs: the scheduler's knobs.
    """
    return _single_buffer(config, knobs) if config.depth < 2 else _double_buffer(config, knobs)


def _single_buffer(config: PipelineConfig, knobs: ScheduleConfig) -> Iterator[Reason]:
    for name in ScheduleConfig.__dataclass_fields__:
        if name == "lgkm_per_load_a" and not config.lgkm_per_load_a:
            continue  # what a proof counts for a fragment
        value = getattr(knobs, name)
        if value != getattr(_DEFAULT, name):
            shown = value.name if isinstance(value, SchedulingStrategy) else value
            yield (
                name,
                f"{name}={shown} has no effect at depth 1: blocks and waits are not generated",
            )


def _double_buffer(config: PipelineConfig, knobs: ScheduleConfig) -> Iterator[Reason]:
    strategy = knobs.scheduling
    if knobs.omit_mma_set_prio and not knobs.minimal_barriers:
        yield "omit_mma_set_prio", "omit_mma_set_prio has no effect without minimal_barriers"
    if strategy is not SchedulingStrategy.CSP:
        if knobs.max_vgpr != UNLIMITED_VGPR:
            yield (
                "max_vgpr",
                f"max_vgpr={knobs.max_vgpr} has no effect with {strategy.name}: only CSP enforces "
                "it",
            )
        if knobs.lds_contention_penalty:
            yield "lds_contention_penalty", penalty_note(knobs, f"with {strategy.name}")
    if knobs.auto_drain and not knobs.auto_waits:
        yield "auto_drain", "auto_drain has no effect without auto_waits"
    if knobs.auto_drain and knobs.auto_waits and knobs.drain_lgkm_mask:
        yield (
            "drain_lgkm_mask",
            "drain_lgkm_mask has no effect with auto_drain, which decides every block",
        )
    for name in ("wait_vm_last", "wait_lgkm_first"):
        value = getattr(knobs, name)
        if knobs.auto_waits and value != getattr(_DEFAULT, name):
            yield name, f"{name}={value} has no effect with auto_waits, which derives it"
    if knobs.minimal_barriers:
        yield from _minimal_barriers(knobs)
    for name in ("sched_barrier_mask", "drain_lgkm_mask"):
        if getattr(knobs, name) >> config.total_blocks():
            last = config.total_blocks() - 1
            yield name, f"{name} {_BITS_ABOVE}{last}, which do nothing"
    for side in ("a", "b"):
        name = f"lgkm_per_load_{side}"
        if getattr(knobs, name) and getattr(config, name):
            yield name, f"ScheduleConfig.{name} yields to PipelineConfig.{name} for derived waits"
    if knobs.inter_block_lgkm_drain and config.blocks_per_partition() < 3:
        yield (
            "inter_block_lgkm_drain",
            "inter_block_lgkm_drain has no effect: no half has an interior block",
        )


_BITS_ABOVE = "has bits above block "


def _is_partial(text: str) -> bool:
    """Whether a note is about some bits of a mask, the others of which may act."""
    return _BITS_ABOVE in text


def _minimal_barriers(knobs: ScheduleConfig) -> Iterator[Reason]:
    if knobs.lgkm_after_last:
        yield (
            "lgkm_after_last",
            "lgkm_after_last has no effect with minimal_barriers: there is no barrier to follow",
        )
    if knobs.sched_barrier_mask not in (0, _DEFAULT.sched_barrier_mask):
        yield (
            "sched_barrier_mask",
            "sched_barrier_mask has no effect with minimal_barriers: no barrier ends a block",
        )


def penalty_note(knobs: ScheduleConfig, where: str) -> str:
    """That the penalty was counted, and moved nothing.

    Args:
        knobs: the scheduler's knobs.
        where: in which combination.
    """
    return (
        f"lds_contention_penalty={knobs.lds_contention_penalty} does not change the order {where}, "
        "only its certificate"
    )
