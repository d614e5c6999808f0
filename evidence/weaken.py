"""Every way to weaken a program by one step: a wait loosened or gone, a barrier gone.

For testing what watches over programs. One from ``synchronize`` has nothing to spare, so nearly
every weakening is a bug, and whoever claims to notice bugs must notice it:

    for weakened in weakenings(program):
        assert not proves(weakened.program), weakened.what
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pipeloom.program import Barrier, Program, Step, Wait

Place = tuple[int, int]
"""A group, and a section of it."""


@dataclass(frozen=True, slots=True)
class Weakened:
    """A program with one piece of synchronisation less, and what was done to it."""

    program: Program
    what: str


def weakenings(program: Program) -> Iterator[Weakened]:
    """Each wait looser by one entry, and absent; each barrier absent.

    Groups share a schedule: what stands in all of them, as the same one of its kind in sections of
    one name, is weakened in all; what a group has for itself (a stagger), there.
    """
    found: dict[tuple[str, Wait | Barrier, int], dict[Place, int]] = {}
    for g, group in enumerate(program.groups):
        for s, section in enumerate(group.sections):
            seen = Counter[Wait | Barrier]()
            for slot, step in enumerate(section.steps):
                if isinstance(step, Wait | Barrier):
                    found.setdefault((section.name, step, seen[step]), {})[g, s] = slot
                    seen[step] += 1
    for (name, step, _), places in found.items():
        slots = " and ".join(dict.fromkeys(str(slot) for slot in places.values()))
        if isinstance(step, Wait):
            said, looser = f"{name}[{slots}] {step.counter}({step.count})", step.count + 1
            weaker = _changed(program, places, replace(step, count=looser))
            yield Weakened(weaker, f"{said} loosened to {looser}")
        else:
            said = " ".join(filter(None, (f"{name}[{slots}]", step.label, "barrier")))
        yield Weakened(_changed(program, places), f"{said} deleted")


def _changed(program: Program, slots: Mapping[Place, int], *instead: Step) -> Program:
    """With other steps in place of one in each of some sections."""
    groups = list(program.groups)
    for (g, s), slot in slots.items():
        sections = list(groups[g].sections)
        steps = sections[s].steps
        sections[s] = replace(sections[s], steps=(*steps[:slot], *instead, *steps[slot + 1 :]))
        groups[g] = replace(groups[g], sections=tuple(sections))
    return replace(program, groups=tuple(groups))
