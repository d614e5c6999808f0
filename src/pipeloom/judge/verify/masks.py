"""A loop without masks before the same loop with them: proved as one loop that masks in every trip.

    straight    loop T, no masks    loop M    straight       the program
    straight        loop T + M, masks         straight       is proved instead

Why that is enough. A mask that is left out has the value of what it masks (``Program.plain``),
reads and writes one place at once, and has no entry on any counter. So whatever happens in a run of
the program happens in a run of the other too, with the masks put in where they stood: what was
ordered stays ordered, and waits and barriers find the same. A read that saw a mask's write sees,
without it, what the mask itself saw: nothing else wrote there in between. That is the same number,
because where an output depends on the mask, the other's proof says that it found what it should.
Priorities may differ: they decide who goes first, and a proof is of every order.

One loop has one row of trip counts to look at where two have a square of them.
"""

from __future__ import annotations

from dataclasses import replace

from pipeloom.program import (
    Affine,
    Group,
    Meaning,
    Priority,
    Program,
    Section,
    Step,
    TripCount,
    Work,
)


def masked_throughout(program: Program) -> Program | None:
    """``program`` with the masks that its first loop leaves out; None where it is not like that."""
    if len(program.plain.factors) != 1:
        return None
    first, advance = program.plain.factors[0]
    if advance < 1:
        return None
    behind = [
        group.sections[at + 1].trips
        for group in program.groups
        for at, section in enumerate(group.sections[:-1])
        if section.trips == first
    ]
    second = behind[0] if behind else None
    if second is None or second == first or not _counts_alike(program.iterations, first, second):
        return None
    groups = []
    for group in program.groups:
        sections = _joined(program, group, (first, second), advance)
        if sections is None:
            return None
        groups.append(Group(group.waves, sections))
    least = program.min_trips[first] + program.min_trips[second]
    return replace(
        program,
        groups=tuple(groups),
        trips=tuple(
            TripCount(first, least) if count.name == first else count
            for count in program.trips
            if count.name != second
        ),
        iterations=_without(program.iterations, second),
        plain=Affine(),
    )


def _joined(
    program: Program, group: Group, names: tuple[str, str], advance: int
) -> tuple[Section, ...] | None:
    """The sections of a group with its two loops as one."""
    first, second = names
    places = [at for at, section in enumerate(group.sections) if section.trips in names]
    if len(places) != 2 or places[1] != places[0] + 1:
        return None
    plain, masked = (group.sections[at] for at in places)
    follows = Affine(plain.first.constant, ((first, advance),))
    if (
        (plain.trips, masked.trips) != names
        or plain.first.factors
        or masked.first != follows
        or not plain.advance == masked.advance == advance
        or not _leaves_out_masks(program, plain, masked)
    ):
        return None
    found = []
    for section in group.sections:
        if section is plain:
            found.append(replace(plain, steps=masked.steps))
        elif section is not masked:
            serves = any(isinstance(s, Work) and s.iteration is not None for s in section.steps)
            if serves and not _counts_alike(section.first, first, second):
                return None
            found.append(replace(section, first=_without(section.first, second)))
    return tuple(found)


def _leaves_out_masks(program: Program, plain: Section, masked: Section) -> bool:
    """Whether ``plain`` is ``masked`` without masks, which change nothing in any of its trips."""
    # in its last trip, and so in all; ``plain`` and the iterations of that trip count T alike
    end = program.plain.constant - (plain.first.constant - plain.advance)
    kept = [step for step in plain.steps if not isinstance(step, Priority)]
    for step in reversed([step for step in masked.steps if not isinstance(step, Priority)]):
        if kept and kept[-1] == step:
            kept.pop()
        elif not _is_mask_in_place(program.meaning, step, end):
            return False
    return not kept


def _is_mask_in_place(meaning: Meaning, step: Step, end: int) -> bool:
    """Whether a step puts the value of a mask, of an iteration before ``end``, in place at once."""
    if not isinstance(step, Work) or step.node not in meaning.masks or step.is_copy:
        return False
    if step.counter is not None or step.when is not None or len(step.writes) != 1:
        return False
    if step.iteration is None or step.iteration >= end:
        return False
    node, read, written = meaning[step.node], step.reads[0], step.writes[0]
    return (
        meaning[node.uses[0]].type == node.type
        and (read.resource, read.copy, read.boxes)
        == (written.resource, written.copy, written.boxes)
        and not read.shared
        and not written.shared
    )


def _counts_alike(count: Affine, first: str, second: str) -> bool:
    factors = dict(count.factors)
    return factors.get(first, 0) == factors.get(second, 0)


def _without(count: Affine, name: str) -> Affine:
    return Affine(count.constant, tuple(item for item in count.factors if item[0] != name))
