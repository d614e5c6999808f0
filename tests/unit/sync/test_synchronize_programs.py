"""Waits and barriers of programs: sound by another checker, with nothing to spare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pipeloom.judge.verify import verify
from pipeloom.program import Barrier, Program, Step, SyncMethod, Wait, Work
from pipeloom.sync import REPAIRED, synchronize


def words(program: Program, group: int = 0) -> dict[str, str]:
    def word(step: object) -> str:
        if isinstance(step, Wait):
            return f"{step.counter.removesuffix('cnt')}{step.count}"
        return "bar" if isinstance(step, Barrier) else getattr(step, "label", "?")

    return {s.name: ", ".join(map(word, s.steps)) for s in program.groups[group].sections}


def with_steps(program: Program, changed: dict[tuple[int, int], list[Step]]) -> Program:
    """With the steps of some sections (group, section) replaced."""
    groups = tuple(
        replace(
            group,
            sections=tuple(
                replace(section, steps=tuple(changed.get((g, s), section.steps)))
                for s, section in enumerate(group.sections)
            ),
        )
        for g, group in enumerate(program.groups)
    )
    return replace(program, groups=groups)


def weakened(program: Program) -> Iterator[tuple[str, Program]]:
    """Every program with one wait looser by an entry, or one barrier less in every group."""
    meetings: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    for g, group in enumerate(program.groups):
        for s, section in enumerate(group.sections):
            stage = sum(x.trips is not None for x in group.sections[: s + 1])
            stage = 2 * stage - (section.trips is not None)
            for at, step in enumerate(section.steps):
                if isinstance(step, Wait):
                    steps = list(section.steps)
                    steps[at] = replace(step, count=step.count + 1)
                    yield f"{section.name}[{at}] {step}", with_steps(program, {(g, s): steps})
                elif isinstance(step, Barrier):
                    number = sum(isinstance(x, Barrier) for x in section.steps[:at])
                    meetings.setdefault((stage, number), {})[g, s] = at
    for meeting, places in meetings.items():
        changed = {}
        for (g, s), at in places.items():
            steps = list(program.groups[g].sections[s].steps)
            changed[g, s] = steps[:at] + steps[at + 1 :]
        yield f"barrier {meeting}", with_steps(program, changed)


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
    assert verify(fixed).proved
    assert not programs.troubles(fixed)
    assert bare(fixed) == bare(program)
    assert fixed.provenance.synchronised is SyncMethod.PROVEN
    candidates = list(weakened(fixed))
    assert candidates
    for what, weaker in candidates:
        assert programs.troubles(weaker), what
        assert not verify(weaker).proved, what
    assert synchronize(fixed) == fixed
    kept = synchronize(fixed, method=REPAIRED)
    assert kept.groups == fixed.groups


def test_single_buffer_by_hand(programs: Any) -> None:
    """One barrier publishes the loads, one protects the reads."""
    loop = words(synchronize(programs.gemm(1)))["loop"]
    assert loop == "bar, load A, load B, vm0, bar, read A, read B, lgkm0, mma"


def test_no_barrier_for_registers(programs: Any) -> None:
    assert words(synchronize(programs.row_sum()))["loop"] == "load X, vm3, add, load X, vm3, add"


def test_one_wave_needs_no_barrier(programs: Any) -> None:
    fixed = synchronize(programs.gemm(2, 1))
    assert not [s for _, _, s in fixed.groups[0].steps() if isinstance(s, Barrier)]


def test_producer_and_consumer_meet_equally_often(programs: Any) -> None:
    """While the consumer multiplies one iteration, the producer loads the next."""
    fixed = synchronize(programs.specialised(2))
    assert words(fixed, 0) == {
        "fill": "load A, load B, vm0, bar",
        "loads": "load A, load B, vm0, bar, load A, load B, vm0, bar",
    }
    assert list(words(fixed, 1).values()) == [
        "bar",
        "read A, read B, lgkm0, mma, bar, read A, read B, lgkm0, mma, bar",
        "read A, read B, lgkm0, mma, store C",
    ]


def test_sections_are_added_where_a_group_has_none(programs: Any) -> None:
    fixed = synchronize(programs.specialised(2))
    assert [s.trips for s in fixed.groups[1].sections] == [None, "T", None]


def test_barriers_follow_a_proposal_that_waits_can_make_sound(programs: Any) -> None:
    program = programs.gemm(1)
    fixed = synchronize(program, barrier_gaps={"loop": (0, 2)})
    assert words(fixed)["loop"] == "bar, load A, load B, vm0, bar, read A, read B, lgkm0, mma"
    assert synchronize(program, barrier_gaps={"loop": (1,)}) == synchronize(program)
