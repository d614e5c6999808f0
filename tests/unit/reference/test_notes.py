"""Knobs without effect are noted, and only those."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeloom import (
    KernelGeometry,
    Pipeline4Wave,
    ScheduleConfig,
    SchedulingStrategy,
    build_schedule,
    compile_schedule,
    mi355x_double_buffer,
    mi355x_single_buffer,
)
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.notes import reasons

CONFIG = mi355x_double_buffer()


def ineffective_knobs(config: PipelineConfig, knobs: ScheduleConfig) -> tuple[str, ...]:
    return tuple(text for _, text in reasons(config, knobs))


@pytest.mark.parametrize("strategy", list(SchedulingStrategy))
def test_the_default_configuration_has_no_notes(strategy: SchedulingStrategy) -> None:
    assert ineffective_knobs(CONFIG, ScheduleConfig(scheduling=strategy)) == ()


@pytest.mark.parametrize(
    ("knobs", "note"),
    [
        ({"omit_mma_set_prio": True}, "omit_mma_set_prio has no effect without minimal_barriers"),
        ({"max_vgpr": 128}, "max_vgpr=128 has no effect with IDENTITY"),
        (
            {"max_vgpr": 128, "scheduling": SchedulingStrategy.GREEDY},
            "max_vgpr=128 has no effect with GREEDY",
        ),
        ({"lds_contention_penalty": 8}, "lds_contention_penalty=8 does not change the order"),
        ({"auto_drain": True, "auto_waits": False}, "auto_drain has no effect without auto_waits"),
        ({"auto_drain": True, "drain_lgkm_mask": 1}, "drain_lgkm_mask has no effect with auto_"),
        ({"wait_vm_last": 3}, "wait_vm_last=3 has no effect with auto_waits"),
        ({"wait_lgkm_first": 3}, "wait_lgkm_first=3 has no effect with auto_waits"),
        ({"minimal_barriers": True, "lgkm_after_last": True}, "lgkm_after_last has no effect"),
        (
            {"minimal_barriers": True, "sched_barrier_mask": 0xFF},
            "sched_barrier_mask has no effect with minimal_barriers",
        ),
        ({"sched_barrier_mask": 0x100}, "sched_barrier_mask has bits above block 7"),
        ({"drain_lgkm_mask": 0x100}, "drain_lgkm_mask has bits above block 7"),
    ],
)
def test_one_note_each(knobs: dict[str, Any], note: str) -> None:
    notes = ineffective_knobs(CONFIG, ScheduleConfig(**knobs))
    assert len(notes) == 1
    assert notes[0].startswith(note)


@pytest.mark.parametrize(
    "knobs",
    [
        {"omit_mma_set_prio": True, "minimal_barriers": True},
        {"max_vgpr": 128, "scheduling": SchedulingStrategy.CSP},
        {"lds_contention_penalty": 8, "scheduling": SchedulingStrategy.CSP},
        {"auto_drain": True},
        {"wait_vm_last": 3, "wait_lgkm_first": 3, "auto_waits": False},
        {"drain_lgkm_mask": 0xFF, "sched_barrier_mask": 0xFF},
        {"inter_block_lgkm_drain": True},
    ],
)
def test_no_note_where_the_knob_acts(knobs: dict[str, Any]) -> None:
    assert ineffective_knobs(CONFIG, ScheduleConfig(**knobs)) == ()


def test_lgkm_costs_given_twice() -> None:
    config = replace(CONFIG, lgkm_per_load_a=8)
    (note,) = ineffective_knobs(config, ScheduleConfig(lgkm_per_load_a=4))
    assert note.startswith("ScheduleConfig.lgkm_per_load_a yields to PipelineConfig")
    assert ineffective_knobs(config, ScheduleConfig(lgkm_per_load_b=4)) == ()


def test_no_interior_block_to_drain() -> None:
    config = replace(CONFIG, m_mmas=1, n_mmas=2)
    knobs = ScheduleConfig(inter_block_lgkm_drain=True, sched_barrier_mask=0)
    assert "no half has an interior block" in ineffective_knobs(config, knobs)[0]


def test_at_depth_1_every_knob_is_idle() -> None:
    knobs = ScheduleConfig(scheduling=SchedulingStrategy.CSP, auto_waits=False, wait_vm_last=2)
    notes = ineffective_knobs(mi355x_single_buffer(), knobs)
    assert [note.split(" has no effect at depth 1")[0] for note in notes] == [
        "scheduling=CSP",
        "auto_waits=False",
        "wait_vm_last=2",
    ]
    assert ineffective_knobs(mi355x_single_buffer(), ScheduleConfig()) == ()


def test_notes_reach_the_compiled_schedule() -> None:
    compiled = build_schedule("ping_pong", ["omit_mma_set_prio=true"])
    assert compiled.notes == ("omit_mma_set_prio has no effect without minimal_barriers",)


def test_the_four_wave_schedule_notes_what_it_forces_and_ignores() -> None:
    shape = KernelGeometry.four_wave(
        BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2
    )
    knobs = ScheduleConfig(scheduling=SchedulingStrategy.CSP, global_before_frag=True)
    notes = compile_schedule(Pipeline4Wave(shape, knobs)).notes
    assert "scheduling is forced to IDENTITY by the four-wave schedule" in notes
    assert "minimal_barriers is forced to True by the four-wave schedule" in notes
    assert any(n.startswith("global_before_frag has no effect") for n in notes)
    (only,) = compile_schedule(Pipeline4Wave(shape)).notes
    assert only.startswith("the order breaks 6 of the body's own d=0 edges")


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("omit_mma_set_prio", "true"),
        ("max_vgpr", "128"),
        ("auto_drain", "true"),
        ("wait_vm_last", "3"),
        ("sched_barrier_mask", "341"),
    ],
)
def test_what_a_note_calls_idle_is_idle(knob: str, value: str) -> None:
    """The claim of the note itself: the same entries with and without the knob."""
    base = ["scheduling=identity"] + (["auto_waits=false"] if knob == "auto_drain" else [])
    plain = build_schedule("ping_pong", base)
    noted = build_schedule("ping_pong", [*base, f"{knob}={value}"])
    assert len(noted.notes) == len(plain.notes) + 1
    for phase in ("prologue", "kernel", "epilogue"):
        assert getattr(noted, phase) == getattr(plain, phase)
