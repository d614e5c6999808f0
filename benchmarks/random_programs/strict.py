"""Programs that synchronise everything: slow, and right whenever their order can be right at all.

``fully_synchronized`` keeps the data steps in order and throws waits and barriers away. Before
every data step it drains all counters and passes barriers, so that each step has retired in every
wave before the next one issues in any. Groups that run different steps are kept apart only
within their own order; ``Barrier``s with a label (a stagger) stay.

``thinned`` drops waits and barriers as long as a check passes; with ``classify`` as the check it
gives programs in which each wait and barrier matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.random_programs.mutate import edited

from pipeloom.program import Barrier, Program, Step, Wait, Work


def fully_synchronized(program: Program, barriers: int = 2) -> Program:
    """The same data steps in the same order, each alone between barriers.

    Two by default, because a staggered group is one barrier behind.
    """
    drain: list[Step] = [Wait(counter.name, 0) for counter in program.target.counters]
    drain += [Barrier()] * barriers
    groups = []
    for group in program.groups:
        sections = []
        for section in group.sections:
            steps: list[Step] = []
            for step in section.steps:
                if isinstance(step, Work):
                    steps += drain
                if not isinstance(step, Wait) and not (
                    isinstance(step, Barrier) and not step.label
                ):
                    steps.append(step)
            sections.append(replace(section, steps=tuple(steps)))
        groups.append(replace(group, sections=tuple(sections)))
    return program.with_groups(tuple(groups), program.provenance)


def thinned(program: Program, is_right: Callable[[Program], bool]) -> Program:
    """``program`` without the waits and barriers that ``is_right`` can do without.

    Goes over the steps once, last to first, and drops each for which the rest is still right.
    """
    for number in reversed(range(len(program.groups[0].sections))):
        for slot in reversed(range(len(program.groups[0].sections[number].steps))):
            step = program.groups[0].sections[number].steps[slot]
            if isinstance(step, Wait) or (isinstance(step, Barrier) and not step.label):
                candidate = edited(program, 0, number, slot, lambda steps, at: steps.pop(at))
                if is_right(candidate):
                    program = candidate
    return program
