"""A loop cut in two, the first without masks, is proved as one; what is not like that is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from pipeloom.declare.kernels import attention
from pipeloom.judge.execute import execute
from pipeloom.judge.verify import proves, verify
from pipeloom.judge.verify.masks import masked_throughout
from pipeloom.judge.verify.prove import _FoundWrongError, _plans, _TripSearch
from pipeloom.machine.facts import Fact, FactKind
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Counter
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.order.peel import MASKED, peel
from pipeloom.program import Affine, Barrier, Priority, Program, Section, Step, Wait, Work
from pipeloom.sync import synchronize


@cache
def whole() -> Program:
    arranged = arrange(attention(32, 32, 32), GFX950, 2, strategy=in_order)
    return synchronize(arranged.program, barrier_gaps=arranged.barrier_gaps)


def edited(program: Program, change: Callable[[Section], Section]) -> Program:
    (group,) = program.groups
    return replace(program, groups=(replace(group, sections=tuple(map(change, group.sections))),))


def in_loops(change: Callable[[tuple[Step, ...]], tuple[Step, ...]]) -> Program:
    """The peeled program with its two loops changed alike."""
    return edited(peel(whole()), lambda s: replace(s, steps=change(s.steps)) if s.trips else s)


def explored(program: Program) -> bool:
    """Whether it is proved trip count by trip count of both loops."""
    try:
        return _TripSearch(_plans(program), None, to_first=True).explore().repeats_from is not None
    except _FoundWrongError:
        return False


def mutants() -> dict[str, Program]:
    """Both loops changed alike, so that they still are one loop with and without masks."""

    def lacks(kind: type[Step]) -> Program:
        return in_loops(lambda steps: tuple(s for s in steps if not isinstance(s, kind)))

    def later(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        first = next(s for s in steps if isinstance(s, Work) and s.node == "V")
        return tuple(replace(first, iteration=7) if s is first else s for s in steps)

    def looser(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(replace(s, count=s.count + 1) if isinstance(s, Wait) else s for s in steps)

    return {
        "as it is": peel(whole()),
        "no waits": lacks(Wait),
        "no barriers": lacks(Barrier),
        "another tile": in_loops(later),
        "looser waits": in_loops(looser),
    }


@pytest.mark.parametrize("name", list(mutants()))
def test_it_says_what_all_pairs_of_trip_counts_say(name: str) -> None:
    program = mutants()[name]
    assert masked_throughout(program) is not None
    assert proves(program) is explored(program) is (name == "as it is")


def test_the_loop_that_is_proved_is_the_one_that_was_cut() -> None:
    assert masked_throughout(peel(whole())) == whole()
    assert masked_throughout(whole()) is None
    assert verify(peel(whole())).coverage.plain == "T"


def test_an_execution_shows_a_mask_that_is_missing_past_the_end() -> None:
    def without(section: str) -> Program:
        def change(s: Section) -> Section:
            steps = (x for x in s.steps if not (isinstance(x, Work) and x.node == "keep"))
            return replace(s, steps=tuple(steps)) if s.name == section else s

        return edited(peel(whole()), change)

    trips = {"T": 1, MASKED: 1}
    assert execute(peel(whole()), trips=trips).correct
    for section in (MASKED, "epilogue"):
        assert not verify(without(section)).proved
    assert [execute(without(s), trips=trips).correct for s in ("loop", MASKED, "epilogue")] == [
        True,
        True,
        False,
    ]


def test_priorities_may_differ_between_the_two() -> None:
    first = (Priority(1),)
    raised = edited(
        peel(whole()), lambda s: replace(s, steps=first + s.steps) if s.name == MASKED else s
    )
    assert masked_throughout(raised) is not None


def shifted(section: Section, name: str, by: int) -> Section:
    if section.name != name:
        return section
    return replace(section, first=replace(section.first, constant=section.first.constant + by))


def lacking(section: Section, node: str) -> Section:
    if section.name != "loop":
        return section
    at = next(n for n, s in enumerate(section.steps) if isinstance(s, Work) and s.node == node)
    return replace(section, steps=section.steps[:at] + section.steps[at + 1 :])


def promised(program: Program, more: int) -> Program:
    return replace(program, plain=replace(program.plain, constant=program.plain.constant + more))


def test_what_is_no_such_pair_of_loops_is_left_alone() -> None:
    program = peel(whole())
    masked = next(s.steps for s in program.groups[0].sections if s.name == MASKED)
    more = Counter("othercnt", Fact(7, "entries", FactKind.ASSUMED, "made up"))
    counting = replace(program, target=replace(GFX950, counters=(*GFX950.counters, more)))
    counted = tuple(
        replace(s, counter=more.name, entries=1) if isinstance(s, Work) and s.node == "keep" else s
        for s in masked
    )
    others = {
        "another step left out": edited(program, lambda s: lacking(s, "P")),
        "fewer plain iterations": promised(program, -1),
        "none": replace(program, plain=Affine()),
        "iterations skipped": edited(program, lambda s: shifted(s, MASKED, 1)),
        "more iterations": replace(program, iterations=Affine(1, (("T", 2), (MASKED, 1)))),
        "a mask with a counter": edited(
            counting, lambda s: replace(s, steps=counted) if s.name == MASKED else s
        ),
    }
    for name, other in others.items():
        assert masked_throughout(other) is None, name
    assert masked_throughout(promised(program, 1)) == whole()
