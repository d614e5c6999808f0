"""Whether every wave gets to its end: the only thing a wave can wait for in vain is a barrier.

Counters drain by themselves, so a wait is always met in the end. The n-th barrier of a wave needs
the n-th of every other; how many each wave executes is a sum over its sections, so that all
trip counts are decided at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeloom.errors import StructureError
from pipeloom.program import Affine, Barrier, Group, Program


def check_barriers_known(program: Program) -> None:
    """One kind of barrier, without phases: what the order of events is defined for."""
    names = set()
    for group in program.groups:
        for section, slot, step in group.steps():
            if isinstance(step, Barrier):
                names.add(step.name)
                if program.target.barrier(step.name).phases:
                    raise StructureError(
                        f"cannot decide program {program.name!r}: {section.name}[{slot}] is a "
                        "barrier with phases",
                        hint="only barriers that all waves of the workgroup meet at are modelled",
                        field=section.name,
                    )
    if len(names) > 1:
        raise StructureError(
            f"cannot decide program {program.name!r}: it uses several barriers, "
            f"{', '.join(sorted(names))}",
            hint="only one barrier of the workgroup is modelled",
            field="barriers",
        )


def barrier_count(group: Group) -> Affine:
    """How many barriers a wave of the group executes."""
    constant, factors = 0, dict[str, int]()
    for section in group.sections:
        count = sum(isinstance(step, Barrier) for step in section.steps)
        if section.trips is None:
            constant += count
        elif count:
            factors[section.trips] = factors.get(section.trips, 0) + count
    return Affine(constant, tuple(sorted(factors.items())))


def hanging_trips(program: Program) -> Mapping[str, int] | None:
    """The least trip counts at which waves execute different numbers of barriers, if any."""
    counts = [barrier_count(group) for group in program.groups]
    least = program.min_trips
    tries = [least, *({**least, name: low + 1} for name, low in least.items())]
    for trips in tries:
        if len({count.at(trips) for count in counts}) > 1:
            return trips
    return None
