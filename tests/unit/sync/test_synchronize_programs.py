"""Waits and barriers of programs: sound by another checker, with nothing to spare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pipeloom.program import Barrier, Program, SyncMethod, Wait, Work
from pipeloom.sync import REPAIRED, synchronize


def words(program: Program, group: int = 0) -> dict[str, str]:
    def word(step: object) -> str:
        if isinstance(step, Wait):
            return f"{step.counter.removesuffix('cnt')}{step.count}"
        return "bar" if isinstance(step, Barrier) else getattr(step, "label", "?")

    return {s.name: ", ".join(map(word, s.steps)) for s in program.groups[group].sections}


def weakened(program: Program) -> Iterator[tuple[str, Program]]:
    """Every program with one wait looser by an entry, or one barrier less in every group."""
    for g, group in enumerate(program.groups):
        for s, section in enumerate(group.sections):
            for at, step in enumerate(section.steps):
                if isinstance(step, Wait):
                    steps = list(section.steps)
                    steps[at] = replace(step, count=step.count + 1)
                    sections = list(group.sections)
                    sections[s] = replace(section, steps=tuple(steps))
                    groups = list(program.groups)
                    groups[g] = replace(group, sections=tuple(sections))
                    what = f"{section.name}[{at}] {step}"
                    yield what, replace(program, groups=tuple(groups))


def bare(program: Program) -> list[list[Work]]:
    return [[s for _, _, s in g.steps() if isinstance(s, Work)] for g in program.groups]


CASES = {
    "gemm 1": ("gemm", (1,)),
    "gemm 2": ("gemm", (2,)),
    "gemm 3": ("gemm", (3,)),
    "gemm 2, one wave": ("gemm", (2, 1)),
    "specialised 1": ("specialised", (1,)),
    "specialised 2": ("specialised", (2,)),
    "specialised 3": ("specialised", (3, 4, 2)),
    "row sum": ("row_sum", ()),
}


@pytest.mark.parametrize("name", CASES)
def test_sound_and_nothing_to_spare(programs: Any, name: str) -> None:
    builder, arguments = CASES[name]
    program: Program = getattr(programs, builder)(*arguments)
    assert programs.troubles(program)
    fixed = synchronize(program)
    assert not programs.troubles(fixed)
    assert bare(fixed) == bare(program)
    assert fixed.provenance.synchronised is SyncMethod.PROVEN
    candidates = list(weakened(fixed))
    assert candidates
    for what, weaker in candidates:
        assert programs.troubles(weaker), what
    assert synchronize(fixed) == fixed
    kept = synchronize(fixed, method=REPAIRED)
    assert kept.groups == fixed.groups


def test_single_buffer_by_hand(programs: Any) -> None:
    assert words(synchronize(programs.gemm(1)))["loop"] == ""


def test_no_barrier_for_registers(programs: Any) -> None:
    assert words(synchronize(programs.row_sum()))["loop"] == "load X, vm3, add, load X, vm3, add"


def test_producer_and_consumer_meet_equally_often(programs: Any) -> None:
    fixed = synchronize(programs.specialised(2))
    assert words(fixed, 0) == {}
    assert words(fixed, 1) == {}
