"""Steps behind the loop that compute what nobody reads: left out.

The last iteration states the next value of all that is carried, also of what no output wants by
then: the state behind the last chunk of a linear attention. No proof asks for its operands, so
nothing waits for them, and a run would find it computing with what has not landed. What only
computes is in no queue, so waits mean the same without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeloom.program.program import Group, Program, Section
from pipeloom.program.resources import Space
from pipeloom.program.steps import Step, Work


def without_unused(program: Program) -> Program:
    """The program without them; as it is, where there are none."""
    spaces = {resource.name: resource.space for resource in program.resources}
    groups = tuple(_kept(group, spaces) for group in program.groups)
    return program if groups == program.groups else replace(program, groups=groups)


def _kept(group: Group, spaces: Mapping[str, Space]) -> Group:
    """From the last step back to the last loop: a step is used if a later one reads its result."""
    read = set[tuple[str, int]]()
    asked = set[str]()
    found: list[Section] = []
    for number, section in enumerate(reversed(group.sections)):
        if section.trips is not None:
            found += reversed(group.sections[: len(group.sections) - number])
            break
        steps: list[Step] = []
        for step in reversed(section.steps):
            if isinstance(step, Work):
                if _unused(step, spaces, read, asked):
                    continue
                read |= {(a.resource, a.copy) for a in (*step.reads, *step.accumulates)}
                asked |= set() if step.when is None else {step.when}
            steps.append(step)
        found.append(replace(section, steps=tuple(reversed(steps))))
    return replace(group, sections=tuple(reversed(found)))


def _unused(
    step: Work, spaces: Mapping[str, Space], read: set[tuple[str, int]], asked: set[str]
) -> bool:
    return (
        step.counter is None
        and step.node not in asked
        and all(
            spaces.get(a.resource) is Space.REGISTER and (a.resource, a.copy) not in read
            for a in (*step.writes, *step.accumulates)
        )
    )
