"""What the executor refuses, and in which words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.random_programs.mutate import sample_mutants
from pipeloom import ConfigError, StructureError, build_schedule
from pipeloom.judge.execute import execute, provoke
from pipeloom.machine.target import BarrierKind
from pipeloom.program import Access, Barrier, Program, Step, Work
from pipeloom.reference.lift import lift_in_units


@pytest.fixture(scope="module")
def program() -> Program:
    return lift_in_units(build_schedule("four_wave"))


def _with_first(program: Program, step: Step) -> Program:
    group = program.groups[0]
    section = group.sections[0]
    changed = replace(section, steps=(step, *section.steps[1:]))
    groups = (replace(group, sections=(changed, *group.sections[1:])), *program.groups[1:])
    return program.with_groups(groups, program.provenance)


def _first(program: Program) -> Work:
    step = program.groups[0].sections[0].steps[0]
    assert isinstance(step, Work)
    return step


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trips": -1}, r"execute\.trips\.T is -1, but must be at least 0"),
        ({"trips": {"T": 1.0}}, r"execute\.trips\.T is 1\.0, but must be an integer"),
        ({"trips": True}, r"execute\.trips\.T is True, but must be an integer"),
        ({"trips": {}}, r"trips names nothing, but four_wave counts T"),
        ({"trips": {"T": 1, "U": 2}}, r"trips names T, U, but four_wave counts T"),
        ({"policy": "lat"}, r"unknown timing 'lat'(?s:.)*did you mean 'late'\?"),
        ({"policy": None}, "unknown timing None"),
        ({"order": "backward"}, r"unknown order 'backward'(?s:.)*valid|did you mean"),
        ({"order": (0, 1, 2)}, r"order \(0, 1, 2\) is not a permutation of the waves 0 to 3"),
        ({"order": (0, 1, 2, 2)}, r"order \(0, 1, 2, 2\) is not a permutation"),
        ({"seed": -3}, r"execute\.seed is -3, but must be at least 0"),
        ({"arrays": {}}, r"arrays lacks 'A', an input of four_wave"),
        (
            {"arrays": {"A": np.zeros((1, 2)), "B": np.zeros((1, 2))}},
            r"arrays\['A'\] has shape \(1, 2\), but must have tiles of",
        ),
    ],
)
def test_arguments_of_a_run(program: Program, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        execute(program, **{"trips": 1, **arguments})


def test_something_that_is_not_a_program() -> None:
    wrong: Any = "four_wave"
    with pytest.raises(ConfigError, match=r"execute\.program is 'four_wave'"):
        execute(wrong, trips=0)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((0, "loop", 900, 0), "is not executed at trips 1"),
        ((9, "loop", 0, 0), "is not executed at trips 1"),
        ((0, "loop", 6, 5), r"wave 0, loop\[6\], trip 5 is not executed"),
        ((0, "prologue", 4, None), "is a wait, a barrier or a fence"),
    ],
)
def test_places_that_are_no_data_steps(
    program: Program, place: tuple[Any, ...], message: str
) -> None:
    sync = next(
        n
        for n, step in enumerate(program.groups[0].sections[0].steps)
        if not isinstance(step, Work)
    )
    wanted = (place[0], place[1], sync, None) if "wait" in message else place
    with pytest.raises(ConfigError, match=message):
        provoke(program, trips=1, first=(0, "prologue", 0, None), second=wanted)


def test_steps_that_do_not_fit_together(program: Program) -> None:
    first = _first(program)
    two = replace(first, reads=first.reads * 2)
    with pytest.raises(StructureError, match="reads 2 places, but needs A"):
        execute(_with_first(program, two), trips=1)
    whole = tuple(replace(read, shared=False) for read in first.reads)
    nowhere = replace(first, reads=whole, writes=())
    with pytest.raises(StructureError, match="writes 0 places"):
        execute(_with_first(program, nowhere), trips=1)
    resource = first.writes[0].resource
    small = replace(first, reads=whole, writes=(Access(resource, (((0, 1), (0, 1)),)),))
    with pytest.raises(StructureError, match="writes as much as it reads"):
        execute(_with_first(program, small), trips=1)
    stream = replace(first, reads=whole, is_copy=False)
    with pytest.raises(StructureError, match="computes 'A', which no op computes"):
        execute(_with_first(program, stream), trips=1)


def test_barriers_with_phases(program: Program) -> None:
    kinds = (*program.target.barriers, BarrierKind("mbarrier", phases=2))
    program = replace(program, target=replace(program.target, barriers=kinds))
    with pytest.raises(ConfigError, match="with phases, which cannot be executed"):
        execute(_with_first(program, Barrier("mbarrier", phase=0, arrivals=4)), trips=1)


def test_a_sample_of_minus_one(program: Program) -> None:
    with pytest.raises(ConfigError, match=r"sample_mutants\.count is -1"):
        sample_mutants(program, -1)
