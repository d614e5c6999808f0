"""Priorities in a loop of products and vector ops: who is next at the matrix unit goes first.

While a wave's product is in the matrix unit, the other wave of its SIMD has as long as that to be
ready with its own. Both want the vector port; the one that has just issued its product can wait. So
a wave steps back behind each product, ahead when it has done a part of what stands before the next,
and further ahead for the product itself: no vector instruction is worth keeping that waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pipeloom.program.program import Group, Program, Section
from pipeloom.program.steps import Barrier, Priority, Step, Unit, Wait, Work

SLOW = 2
"""What a transcendental instruction takes, in others."""
SHARE = 0.25
"""Of what stands between two products: done, it is time to step ahead."""

PARTS = 32
AHEAD = ((0, 19), (24, 29))
"""Parts of the way from one barrier to the next. Waves get even where one ends; behind the last, to
meet. Of those tried, the fastest masked loop of attention (full and causal, d = 128, 8 waves)."""


def in_turns(program: Program) -> Program:
    """``program`` with priorities in its loops."""
    return _with_loops(program, _raised)


def _with_loops(program: Program, make: Callable[[Section], Iterator[Step]]) -> Program:
    groups = tuple(
        Group(
            group.waves,
            tuple(
                section if section.trips is None else replace(section, steps=tuple(make(section)))
                for section in group.sections
            ),
        )
        for group in program.groups
    )
    return program.with_groups(groups, program.provenance)


def by_turn(program: Program) -> Program:
    """``program`` with priorities in its loops, whose groups of waves take turns at the matrix
    unit: who has the turn goes first."""
    return _with_loops(program, _first_in_turn)


def in_step(steps: Sequence[Step]) -> tuple[Step, ...]:
    """A loop's ``steps`` with priorities by which the waves of a SIMD stay side by side.

    Where the vector port has more to do than the matrix unit, taking turns is not enough: the older
    wave wins every tie and stands waiting at the next barrier. So a wave on an earlier part of the
    way (``AHEAD``) goes before one that has left it.
    """
    products = sum(map(_is_product, steps))
    barriers = [n for n, step in enumerate(steps) if isinstance(step, Barrier)]
    if not barriers or products < len(barriers):
        return tuple(steps)
    way = products // len(barriers)
    done = sum(map(_is_product, steps[barriers[-1] :]))
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Barrier):
            done = 0
        done += _is_product(step)
        part = (done - 1) * PARTS // way
        if isinstance(step, Priority) and any(first <= part < last for first, last in AHEAD):
            found.append(Priority(step.level + 1))
        else:
            found.append(step)
    return tuple(found)


def _first_in_turn(section: Section) -> Iterator[Step]:
    """Up before the first product behind a barrier, down behind the last before the next one."""
    steps = section.steps
    marks = [n for n, step in enumerate(steps) if isinstance(step, Barrier) or _is_product(step)]
    begins, ends = set[int](), set[int]()
    for before, at in zip([marks[-1], *marks[:-1]], marks, strict=True):
        if isinstance(steps[before], Barrier) and _is_product(steps[at]):
            begins.add(at)
        if _is_product(steps[before]) and isinstance(steps[at], Barrier):
            ends.add(before)
    for n, step in enumerate(steps):
        if n in begins:
            yield Priority(1)
        yield step
        if n in ends:
            yield Priority(0)


def _raised(section: Section) -> Iterator[Step]:
    steps = section.steps
    matrix = [n for n, step in enumerate(steps) if _is_product(step)]
    yield from steps[: matrix[0] if matrix else len(steps)]
    for first, last in zip(matrix, [*matrix[1:], len(steps)], strict=True):
        yield steps[first]
        if last - first > 1:
            yield Priority(0)
            yield from _ahead(steps[first + 1 : last])


def _ahead(steps: Sequence[Step]) -> Iterator[Step]:
    """What stands between two products, but not within a region, which would be two then."""
    waits = len(steps)
    while waits and isinstance(steps[waits - 1], Wait):
        waits -= 1
    total = sum(_issues(step) for step in steps)
    done, raised = 0, False
    before: Step | None = None
    for step in steps[:waits]:
        together = isinstance(step, Work) and step.goes_on(before)
        if not raised and done >= SHARE * total and not together:
            raised = True
            yield Priority(1)
        yield step
        done += _issues(step)
        before = step
    yield Priority(2)
    yield from steps[waits:]


def _is_product(step: Step) -> bool:
    return isinstance(step, Work) and any(i.unit is Unit.MATRIX for i in step.issues)


def _issues(step: Step) -> int:
    if not isinstance(step, Work) or step.when is not None:
        return SLOW
    return sum(i.count * (SLOW if i.unit is Unit.TRANS else 1) for i in step.issues)
