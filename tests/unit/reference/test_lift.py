"""Schedules as programs: every entry once, in order, with what its kernel says it touches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeloom import ConfigError, OpRole, build_schedule
from pipeloom.machine.chips import target_for
from pipeloom.program import Barrier, Program, Wait, Work
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import (
    EntryRun,
    GridKernel,
    Kernel,
    OpEffect,
    RegisterSet,
    kernel_for,
)
from pipeloom.reference.lift import SECTIONS, check_sized, lift, lift_in_units

SHIPPED = [
    ("ping_pong", ()),
    ("four_wave", ()),
    ("single_buffer", ()),
]


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda p: "-".join([p[0], *p[1]]))
def compiled(request: pytest.FixtureRequest) -> CompiledSchedule:
    name, settings = request.param
    return build_schedule(name, settings)


def test_every_entry_is_one_step_in_order(compiled: CompiledSchedule) -> None:
    program = lift(compiled)
    for group in program.groups:
        for phase, name in SECTIONS.items():
            (section,) = [s for s in group.sections if s.name == name]
            own = [s for s in section.steps if isinstance(s, Barrier) and s.label]
            steps = [step for step in section.steps if step not in own]
            for step, entry in zip(steps, compiled.phase(phase), strict=True):
                assert isinstance(step, Work) != entry.op.is_framework


def test_a_program_survives_json(compiled: CompiledSchedule) -> None:
    program = lift(compiled)
    again = Program.from_json(program.to_json())
    assert again == program
    assert again.to_json() == program.to_json()
    assert again.content_hash == program.content_hash


def test_counters_iterations_and_waves_are_the_kernels(compiled: CompiledSchedule) -> None:
    program, kernel = lift(compiled), kernel_for(compiled)
    assert program.waves == kernel.waves
    for trips in (kernel.min_trips, 3, 7):
        assert program.iterations.at({"T": trips}) == kernel.tiles(trips)
    step = kernel.walk(compiled, 0, kernel.min_trips)
    entries = [kernel.effect(s, 0).entries for s in step if not s.op.is_framework]
    straight = [
        s.entries
        for section in program.groups[0].sections
        if section.name in ("prologue", "epilogue")
        for s in section.steps
        if isinstance(s, Work)
    ]
    if kernel.min_trips == 0:
        assert straight == entries


def test_the_stagger_is_the_kernels_own_barrier() -> None:
    program = lift(build_schedule("ping_pong"))
    own = [
        [s.label for _, _, s in group.steps() if isinstance(s, Barrier) and s.label]
        for group in program.groups
    ]
    assert own == [["after the prologue", "closing"], ["stagger", "after the prologue"]]


def test_the_hash_leaves_labels_and_provenance_out() -> None:
    program = lift(build_schedule("four_wave"))
    group = program.groups[0]

    def renamed(step: object) -> object:
        return replace(step, label="x") if isinstance(step, Work) else step

    sections = tuple(
        replace(s, name=f"{s.name}!", steps=tuple(map(renamed, s.steps)))  # type: ignore[arg-type]
        for s in group.sections
    )
    other = replace(program, name="other", groups=(replace(group, sections=sections),))
    assert other != program
    assert other.content_hash == program.content_hash
    waits = [i for i, s in enumerate(sections[1].steps) if isinstance(s, Wait)]
    fewer = list(sections[1].steps)
    del fewer[waits[0]]
    weaker = replace(group, sections=(sections[0], replace(sections[1], steps=tuple(fewer))))
    assert replace(program, groups=(weaker,)).content_hash != program.content_hash


class _TwoRegisters(GridKernel):
    """A model whose fragments fill two registers at once: no step of a program does."""

    def effect(self, step: EntryRun, wave: int) -> OpEffect:
        effect = super().effect(step, wave)
        if step.op.role is OpRole.FRAGMENT_LOAD:
            more = (*effect.register_writes, RegisterSet("A", 7))
            return replace(effect, register_writes=more)
        return effect


class _Silent(GridKernel):
    """A model whose loads write nothing."""

    def effect(self, step: EntryRun, wave: int) -> OpEffect:
        effect = super().effect(step, wave)
        return replace(effect, lds_writes=()) if effect.tile is not None else effect


@pytest.mark.parametrize("model", [_TwoRegisters, _Silent])
def test_models_that_no_program_can_say_are_refused(model: type[GridKernel]) -> None:
    compiled = build_schedule("four_wave")
    kernel: Kernel = model.for_schedule(compiled)
    with pytest.raises(ConfigError, match="no program step does"):
        lift(compiled, kernel)


TILE = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}


def tiled(name: str) -> CompiledSchedule:
    """On its bf16 tile."""
    return build_schedule({"schedule": name, "geometry": TILE})


@pytest.mark.parametrize(("name", "side"), [("ping_pong", 256), ("single_buffer", 128)])
def test_sizes_are_those_of_the_tile(name: str, side: int) -> None:
    compiled = tiled(name)
    program = lift(compiled)
    assert program.meaning.tile == {"m": side, "n": side, "k": 64}
    assert all(resource.layout for resource in program.resources if "LDS" not in resource.name)
    assert compiled.geometry is not None
    check_sized(program, compiled.geometry)


def test_types_are_those_asked_for_or_of_the_tiles_size() -> None:
    def types(*given: str) -> list[str]:
        meaning = lift(tiled("ping_pong"), None, None, *given).meaning
        return [str(node.type.dtype) for node in (*meaning.inputs, *meaning.outputs)]

    assert types() == ["bf16", "bf16", "bf16"]
    assert types("fp16", "f32") == ["fp16", "fp16", "f32"]


@pytest.mark.parametrize(
    "change",
    [{"BM": 260}, {"vm_per_load_a": 3}],
    ids=["no whole rows per unit", "other counts than the schedule's"],
)
def test_a_tile_that_the_schedule_does_not_count_leaves_units(change: dict[str, Any]) -> None:
    """It can be judged, not written."""
    compiled = tiled("ping_pong")
    assert compiled.geometry is not None
    shape = replace(compiled.geometry, **change)
    program = lift(replace(compiled, geometry=shape))
    assert program.meaning.tile == {"m": 4, "n": 8, "k": 1}
    with pytest.raises(ConfigError) as caught:
        check_sized(program, shape)
    assert caught.value.field == "geometry"


@pytest.mark.parametrize(
    "change",
    [{"BK": 63}, {"BM": 130}, {"lgkm_per_load_b": 0}],
    ids=["K steps", "rows of a wave", "reads that nobody counted"],
)
def test_a_staged_tile_that_is_not_cut_evenly_leaves_units(change: dict[str, Any]) -> None:
    compiled = tiled("single_buffer")
    assert compiled.geometry is not None
    program = lift(replace(compiled, geometry=replace(compiled.geometry, **change)))
    assert [node.name for node in program.meaning.inputs] == ["AB"]


def test_an_op_for_both_operands_is_a_step_for_each_on_a_tile() -> None:
    compiled = tiled("single_buffer")

    def labels(program: Program) -> list[str]:
        return [s.label for _, _, s in program.groups[0].steps() if isinstance(s, Work)]

    whole = labels(lift_in_units(compiled))
    apart = labels(lift(compiled))
    assert whole[:2] == ["load staging0", "store AB[0,0]"]
    assert apart[:4] == ["load staging0 A", "load staging0 B", "store A[0,0]", "store B[0,0]"]


def test_a_target_can_be_chosen() -> None:
    program = lift(build_schedule("single_buffer"), target=target_for("gfx942"))
    assert program.target.arch == "gfx942"


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_a_schedule_without_its_body_is_the_same_program(name: str) -> None:
    compiled = build_schedule(name)
    bare = replace(compiled, body=(), order=(), edges=(), kernel_deps=())
    again = lift(bare)
    issues = [[s.issues for _, _, s in g.steps() if isinstance(s, Work)] for g in again.groups]
    assert issues == [
        [s.issues for _, _, s in g.steps() if isinstance(s, Work)] for g in lift(compiled).groups
    ]
    empty = replace(bare, prologue=(), kernel=(), epilogue=())
    with pytest.raises(ConfigError, match="multiplies 0 operands"):
        lift(empty)
