"""Which iteration every step of a run works for, and which piece of LDS it fills or reads.

A step says its iteration itself. LDS is shown in lanes: one per copy and box that is written as a
whole, or one per copy where there are many boxes; a step touches every lane that it overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeloom.program import Access, Box, Program, Space, Work
from pipeloom.program.tiles import describe_box, overlap
from pipeloom.show.step_rows import trip_counts

MOST_BOXES = 4
"""Lanes of one copy."""

StepKey = tuple[str, int, int]
"""Section, slot, trip: one step of a wave's run."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A piece of LDS: a box of a copy of a resource."""

    resource: str
    copy: int
    box: Box
    name: str


@dataclass(frozen=True, slots=True)
class LdsUse:
    """The iteration of one step, and the lanes of LDS that it fills or reads, by number."""

    iteration: int | None
    writes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()


def lds_lanes(program: Program) -> tuple[Lane, ...]:
    """All of LDS."""
    lanes = []
    for resource in program.resources:
        if resource.space is not Space.LDS:
            continue
        whole = resource.type.whole
        written = {
            box
            for group in program.groups
            for _, _, step in group.steps()
            if isinstance(step, Work)
            for access in step.writes
            if access.resource == resource.name
            for box in access.boxes or (whole,)
        }
        boxes = sorted(written) if len(written) <= MOST_BOXES else [whole]
        for copy in range(resource.copies):
            for box in boxes:
                name = resource.name.removeprefix("LDS ").removeprefix("lds ")
                name += f" copy {copy}" if resource.copies > 1 else ""
                cut = [n for n, (a, b) in enumerate(zip(box, whole, strict=True)) if a != b]
                dims = [resource.type.dims[n] for n in cut]
                if cut:
                    name += f" {describe_box(tuple(box[n] for n in cut), dims)}"
                lanes.append(Lane(resource.name, copy, box, name))
    return tuple(lanes)


def touches(
    program: Program, lanes: tuple[Lane, ...], wave: int, trips: int
) -> Mapping[StepKey, LdsUse]:
    """What every step of one wave touches, in a run with ``trips`` trips of the main loop."""
    group = next(group for group in program.groups if wave in group.waves)
    member, counts = group.waves.index(wave), trip_counts(program, trips)

    def touched(accesses: Iterable[Access]) -> tuple[int, ...]:
        found = set()
        for access in accesses:
            box = access.box(member)
            for number, lane in enumerate(lanes):
                same = (lane.resource, lane.copy) == (access.resource, access.copy)
                if same and (box is None or overlap(box, lane.box) is not None):
                    found.add(number)
        return tuple(sorted(found))

    places = {
        (section.name, slot): (touched(step.writes), touched(step.reads))
        for section, slot, step in group.steps()
        if isinstance(step, Work)
    }
    found: dict[StepKey, LdsUse] = {}
    for section in group.sections:
        for trip, base in section.passes(counts):
            for slot, step in enumerate(section.steps):
                if isinstance(step, Work):
                    iteration = None if step.iteration is None else base + step.iteration
                    place = section.name, slot
                    found[*place, trip or 0] = LdsUse(iteration, *places[place])
    return found
