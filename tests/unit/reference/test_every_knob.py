"""Every setting either changes what is compiled, or a note says that it does not, and why.

The oracle is the result itself: compiled with and without one setting, in combinations that make
settings idle. What is the same must be noted, and what is noted as idle must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.reference.lift import lift

CSP, GREEDY = pl.SchedulingStrategy.CSP, pl.SchedulingStrategy.GREEDY
TILE = pl.KernelGeometry.four_wave(
    BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2
)

KNOBS: dict[str, tuple[Any, ...]] = {
    "scheduling": (CSP, GREEDY),
    "sched_barrier_mask": (0, 0xFF, 0x1FF),
    "auto_waits": (False,),
    "drain_lgkm_mask": (0xFF, 0x100, 1 << 5),
    "auto_drain": (True,),
    "lds_contention_penalty": (2, 50),
    "wait_lgkm_first": (0, 255),
    "wait_vm_last": (0, 40),
    "lgkm_per_load_a": (8,),
    "lgkm_per_load_b": (4,),
    "lgkm_after_last": (True,),
    "minimal_barriers": (True,),
    "omit_mma_set_prio": (True,),
    "max_vgpr": (97, 500),
    "global_before_frag": (True,),
    "barrier_before_pre_ops": (True,),
    "inter_block_lgkm_drain": (True,),
    "partial_prologue_drain": (True,),
    "wrap_waits_with_sched_barrier": (True,),
}
COMBINATIONS: tuple[dict[str, Any], ...] = (
    {},
    {"scheduling": CSP},
    {"auto_waits": False},
    {"minimal_barriers": True},
    {"auto_drain": True, "wait_lgkm_first": 255},
    {"inter_block_lgkm_drain": True, "barrier_before_pre_ops": True},
)


def ping_pong(knobs: pl.ScheduleConfig) -> pl.PipelineSchedule:
    counts = (knobs.lgkm_per_load_a, knobs.lgkm_per_load_b)
    return pl.DeclarativeSchedule(False, *counts, knobs)


def four_wave(knobs: pl.ScheduleConfig) -> pl.PipelineSchedule:
    return pl.Pipeline4Wave(TILE, knobs)


class Single(pl.SingleBufferSchedule):
    knobs = pl.ScheduleConfig()

    def schedule_config(self) -> pl.ScheduleConfig:
        return self.knobs


def single_buffer(knobs: pl.ScheduleConfig) -> pl.PipelineSchedule:
    schedule = Single()
    schedule.knobs = knobs
    return schedule


MAKERS = {"ping_pong": ping_pong, "four_wave": four_wave, "single_buffer": single_buffer}


def entries(compiled: pl.CompiledSchedule) -> tuple[Any, ...]:
    """All that a judge or a writer reads: entries, stagger, and what each op counts."""
    steps = tuple(step for group in lift(compiled).groups for _, _, step in group.steps())
    return compiled.prologue, compiled.kernel, compiled.epilogue, steps


@cache
def made(schedule: str, knobs: pl.ScheduleConfig) -> tuple[pl.CompiledSchedule, tuple[Any, ...]]:
    """A schedule with these knobs, and its entries."""
    compiled = pl.compile_schedule(MAKERS[schedule](knobs))
    return compiled, entries(compiled)


def noted(compiled: pl.CompiledSchedule, field: str) -> list[str]:
    """Notes that begin with the setting: that it is idle, forced, or outranked."""
    starts = (field, f"ScheduleConfig.{field}", f"PipelineConfig.{field}")
    words = [(note, note.split()[0].partition("=")[0]) for note in compiled.notes if note]
    return [note for note, word in words if word in starts]


def cases() -> Iterator[Any]:
    for schedule in MAKERS:
        for number, base in enumerate(COMBINATIONS):
            for name in KNOBS:
                if name not in base:
                    yield pytest.param(schedule, base, name, id=f"{schedule}-{number}-{name}")


def test_the_table_has_every_knob() -> None:
    assert list(KNOBS) == [f.name for f in fields(pl.ScheduleConfig)]


@pytest.mark.parametrize(("schedule", "base", "name"), list(cases()))
def test_a_knob_acts_or_is_noted(schedule: str, base: dict[str, Any], name: str) -> None:
    plain, before = made(schedule, pl.ScheduleConfig(**base))
    for value in KNOBS[name]:
        compiled, after = made(schedule, pl.ScheduleConfig(**base, **{name: value}))
        acts = after != before
        notes = noted(compiled, name)
        claims = compiled.certificate != plain.certificate
        if acts:
            assert not [n for n in notes if "has no effect" in n or "does not change" in n]
        else:
            outranked = noted(plain, name)  # already at its default
            assert notes or outranked or (name == "scheduling" and claims), (value, compiled.notes)


SHAPES: dict[str, tuple[Any, ...]] = {
    "depth": (1,),
    "prefetch": (2,),
    "drain_passes": (1,),
    "prologue_fill": (3,),
    "loop_carried": (pl.LoopCarriedSpec.fragment_zero(), pl.LoopCarriedSpec.none()),
    "block_sizing": (pl.BlockSizing(5, 3, 1), pl.BlockSizing(5, 5, 2)),
    "frag_order": (pl.FragOrder.a_first(),),
    "m_mmas": (3,),
    "n_mmas": (3,),
    "num_partitions": (1,),
    "mma_serial": (False,),
    "mma_latency": (32,),
    "vm_per_load_a": (2,),
    "vm_per_load_b": (2,),
    "ch0_match_field": (1,),
    "ch1_match_field": (0,),
    "warp_stagger": (pl.WarpStaggerRule.none(), pl.WarpStaggerRule.fixed(2)),
    "lgkm_per_load_a": (8,),
    "lgkm_per_load_b": (8,),
    "cross_stage_rotation": (True,),
}
"""Values other than the profiles', one for each field that a pipeline has."""

STRUCTURE = ("depth", "m_mmas", "n_mmas", "num_partitions", "ch0_match_field", "ch1_match_field")
"""Fields that the body of a shipped schedule must agree with: another value is an error there, or
at depth 1 (all but the depth) no more than a check against the tile."""
REPLACED = ("warp_stagger", "lgkm_per_load_a", "lgkm_per_load_b", "cross_stage_rotation")
"""Fields that the four-wave schedule sets itself, as its documentation says."""


def test_the_table_has_every_field_of_the_pipeline() -> None:
    assert sorted(SHAPES) == sorted(f.name for f in fields(pl.PipelineConfig))


@pytest.mark.parametrize("strategy", list(pl.SchedulingStrategy))
@pytest.mark.parametrize("schedule", ["ping_pong", "four_wave"])
@pytest.mark.parametrize("name", [name for name in SHAPES if name not in STRUCTURE])
def test_a_field_of_a_double_buffer_acts_or_is_noted(
    schedule: str, name: str, strategy: pl.SchedulingStrategy
) -> None:
    knobs = pl.ScheduleConfig(scheduling=strategy)
    usual = pl.mi355x_target()

    def on(target: pl.TargetProfile) -> pl.CompiledSchedule:
        if schedule == "four_wave":
            return pl.compile_schedule(pl.Pipeline4Wave(TILE, knobs, target))
        return pl.compile_schedule(pl.DeclarativeSchedule(False, 0, 0, knobs, target))

    plain = on(usual)
    for value in SHAPES[name]:
        compiled = on(usual.with_pipeline(**{name: value}))
        if compiled.config == plain.config:
            assert name in REPLACED or value == getattr(usual.pipeline, name)
            continue
        about = [n for n in compiled.notes if n.startswith(f"PipelineConfig.{name}")]
        if entries(compiled) == entries(plain) and compiled.order == plain.order:
            assert about or compiled.certificate != plain.certificate, compiled.notes
        elif name != "block_sizing":
            assert not about


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "depth"])
def test_a_field_of_a_single_buffer_acts_or_is_noted(name: str) -> None:
    usual = pl.mi355x_single_buffer_target()
    plain = pl.compile_schedule(pl.SingleBufferSchedule(target=usual))
    for value in SHAPES[name]:
        if value == getattr(usual.pipeline, name) or name == "cross_stage_rotation":
            continue  # the profile's own, or an error at depth 1
        target = usual.with_pipeline(**{name: value})
        try:
            compiled = pl.compile_schedule(pl.SingleBufferSchedule(target=target))
        except pl.ScheduleError:
            continue
        about = [n for n in compiled.notes if n.startswith(f"PipelineConfig.{name}")]
        if entries(compiled) == entries(plain):
            assert about or compiled.certificate != plain.certificate or name in STRUCTURE
        else:
            assert not about


def test_a_hook_that_needs_its_knob_does_not_stop_the_trial() -> None:
    class Picky(pl.DeclarativeSchedule):
        def build_explicit_blocks(
            self, body: list[pl.OpDesc], program: pl.PipelineProgram
        ) -> list[list[pl.OpDesc]]:
            assert program.blocks[0].wrap_waits
            return []

    knobs = pl.ScheduleConfig(wrap_waits_with_sched_barrier=True)
    assert not noted(pl.compile_schedule(Picky(False, 0, 0, knobs)), fields(knobs)[-1].name)


def test_counts_that_the_schedule_replaces_are_noted() -> None:
    knobs = pl.ScheduleConfig(lgkm_per_load_a=3)
    (note,) = pl.compile_schedule(pl.DeclarativeSchedule(False, 8, 4, knobs)).notes[:1]
    assert note.startswith("ScheduleConfig.lgkm_per_load_a=3 has no effect")
    target = pl.mi355x_target()
    other = target.with_pipeline(
        lgkm_per_load_b=3,
        frag_order=pl.FragOrder.a_first(),
        block_sizing=replace(target.pipeline.block_sizing, heavy=6, max_globals=0),
    )
    notes = pl.compile_schedule(pl.Pipeline4Wave(TILE, target=other)).notes
    for field in ("lgkm_per_load_b=3", "frag_order", "block_sizing.heavy"):
        assert any(n.startswith(f"PipelineConfig.{field} ") for n in notes), field


def test_a_register_limit_that_can_bind_is_not_noted() -> None:
    """Ops that free what they define: some orders hold fewer registers than others."""
    costs = pl.mi355x_cost_model()
    freed = {
        tag: replace(cost, vgpr_kill=8) if cost.role is pl.OpRole.COMPUTE else cost
        for tag, _, cost in costs.entries
    }
    target = pl.TargetProfile(pl.TargetCostModel(freed), pl.mi355x_double_buffer())
    for limit, idle in ((95, False), (96, True)):
        knobs = pl.ScheduleConfig(scheduling=CSP, max_vgpr=limit)
        notes = pl.compile_schedule(pl.DeclarativeSchedule(False, 0, 0, knobs, target)).notes
        assert any(n.startswith(f"max_vgpr={limit} has no effect") for n in notes) is idle
