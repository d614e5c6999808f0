"""Waits of drafts: as synchronize finds them for the same barriers, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeloom.errors import OrderError
from pipeloom.judge.verify import verify
from pipeloom.program import Barrier, Program, Section, Step, Wait
from pipeloom.sync import REPAIRED, synchronize
from pipeloom.sync.draft import with_waits


def changed(program: Program, change: Callable[[Section], list[Step]]) -> Program:
    """With other steps in every section."""
    groups = tuple(
        replace(g, sections=tuple(replace(s, steps=tuple(change(s))) for s in g.sections))
        for g in program.groups
    )
    return replace(program, groups=groups)


def without_waits(section: Section) -> list[Step]:
    return [step for step in section.steps if not isinstance(step, Wait)]


def counts(program: Program) -> list[list[tuple[str, int]]]:
    """The waits of each section, whatever the place of those that stand at a barrier."""
    return [
        sorted((step.counter, step.count) for step in s.steps if isinstance(step, Wait))
        for g in program.groups
        for s in g.sections
    ]


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("kind", ["gemm", "specialised"])
def test_a_draft_gets_the_waits_that_synchronize_finds(
    programs: Any, kind: str, copies: int
) -> None:
    whole = synchronize(getattr(programs, kind)(copies))
    draft = changed(whole, without_waits)
    assert not any(counts(draft)[0])
    made = with_waits(draft)
    assert verify(made).proved
    assert counts(made) == counts(synchronize(draft, method=REPAIRED))


def test_a_barrier_that_nothing_needs_goes_unless_it_is_a_loops(programs: Any) -> None:
    whole = synchronize(programs.gemm(2))
    more = changed(whole, lambda s: [Barrier(), *without_waits(s)])
    made = with_waits(more)
    assert verify(made).proved
    for was, now in zip(whole.groups[0].sections, made.groups[0].sections, strict=True):
        before, after = (sum(isinstance(x, Barrier) for x in s.steps) for s in (was, now))
        assert after == before + (was.trips is not None)


def test_too_few_barriers_are_refused_by_name(programs: Any) -> None:
    whole = synchronize(programs.gemm(2))
    none = changed(whole, lambda s: [x for x in without_waits(s) if not isinstance(x, Barrier)])
    with pytest.raises(OrderError, match="no barrier stands between load") as caught:
        with_waits(none)
    assert caught.value.hint == "more barriers, or an earlier start"
