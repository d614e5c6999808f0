"""Masks by peeling: a loop that masks nothing, then the same loop with its masks.

A mask compares what is left along the loop's dimension, so in all iterations but the last it keeps
everything (``Meaning.masks``). ``peel`` puts a copy of the loop without those steps before it:

    prologue    loop T, no masks    masked M    epilogue

The launch decides how many iterations are plain (``Program.plain``) and runs as few masked trips as
will do. Masks change a value in place and wait for nothing, so waits and barriers stay as they are;
priorities follow what keeps waves even where there is more to compute (``turns.in_step``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from pipeloom.order.turns import in_step
from pipeloom.program.program import Affine, Group, Program, Section, TripCount
from pipeloom.program.steps import Step, Work

MASKED = "masked"


def peel(program: Program) -> Program:
    """The program with its loop cut in two; as it is, where there is nothing to leave out."""
    found = [(s.steps, s.trips) for g in program.groups for s in g.sections if s.trips is not None]
    masks = [step for steps, _ in found for step in steps if _masks(step, program)]
    trips = {name for _, name in found}
    if not masks or len(trips) != 1 or len(found) != len(program.groups):
        return program
    name = trips.pop()
    factor = dict(program.iterations.factors).get(name, 0)
    ahead = max(step.iteration or 0 for step in masks) - factor + 1
    if not all(_in_place(step) for step in masks) or factor < 1 or ahead < 0:
        return program
    groups = tuple(Group(g.waves, tuple(_peeled(program, g, name, factor))) for g in program.groups)
    return replace(
        program,
        groups=groups,
        trips=(TripCount(MASKED), *program.trips),
        iterations=_more(program.iterations, factor),
        plain=Affine(ahead, ((name, factor),)),
    )


def _masks(step: Step, program: Program) -> TypeGuard[Work]:
    return isinstance(step, Work) and not step.is_copy and step.node in program.meaning.masks


def _in_place(step: Work) -> bool:
    return replace(step.reads[0], generation=None) == replace(step.writes[0], generation=None)


def _more(count: Affine, factor: int) -> Affine:
    return Affine(count.constant, tuple(sorted((*count.factors, (MASKED, factor)))))


def _peeled(program: Program, group: Group, name: str, factor: int) -> list[Section]:
    sections = []
    behind = False
    for section in group.sections:
        if section.trips == name:
            plain = tuple(step for step in section.steps if not _masks(step, program))
            sections.append(replace(section, steps=plain))
            first = Affine(section.first.constant, ((name, factor),))
            steps = in_step(section.steps)
            sections.append(replace(section, name=MASKED, steps=steps, trips=MASKED, first=first))
            behind = True
            continue
        serves = any(isinstance(s, Work) and s.iteration is not None for s in section.steps)
        moved = behind and serves
        sections.append(replace(section, first=_more(section.first, factor)) if moved else section)
    return sections
