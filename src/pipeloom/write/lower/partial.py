"""Which steps leave a sum unfinished: others add their parts of the same iteration to it.

A row of a matrix result lies in several lanes. Each sums its own part, step by step; only the last
step of a sum joins the lanes, because nobody reads what is not complete.
"""

from __future__ import annotations

from pipeloom.program import Program, Work
from pipeloom.program.vocabulary import PRODUCTS
from pipeloom.write.faults import EmitError

Position = tuple[int, int, int]
"""Group, section, slot."""
TRIPS = 4


def unfinished_sums(program: Program) -> frozenset[Position]:
    """Steps of reductions that are not the last of their value, whatever the trip count."""
    last: set[Position] = set()
    others: set[Position] = set()
    for trips in range(TRIPS):
        for found in _sums(program, trips):
            last.add(found[-1])
            others |= set(found[:-1])
    mixed = sorted(last & others)
    if mixed:
        group, section, slot = mixed[0]
        step = program.groups[group].sections[section].steps[slot]
        assert isinstance(step, Work)
        raise EmitError(
            f"{step.label} is the last part of its sum at some trip counts only",
            hint="let the parts of a sum have one order",
            field=step.label,
        )
    return frozenset(others)


def _sums(program: Program, more: int) -> list[list[Position]]:
    """The steps of every value that is summed in several, in order, in one run."""
    trips = {name: least + more for name, least in program.min_trips.items()}
    found: dict[tuple[int, str, int | None, str, int, object], list[Position]] = {}
    for number, group in enumerate(program.groups):
        for at, section in enumerate(group.sections):
            first = section.first.at(trips)
            for trip in range(trips[section.trips] if section.trips else 1):
                for slot, step in enumerate(section.steps):
                    if not isinstance(step, Work) or not _in_parts(program, step):
                        continue
                    iteration = step.iteration
                    if iteration is not None:
                        iteration += first + trip * section.advance
                    access = (*step.accumulates, *step.writes)[0]
                    place = (access.resource, access.copy, access.boxes)
                    key = (number, step.node, iteration, *place)
                    found.setdefault(key, []).append((number, at, slot))
    return list(found.values())


def _in_parts(program: Program, step: Work) -> bool:
    """Whether a step computes part of a reduction that starts from nothing."""
    if step.is_copy or not step.parts:
        return False
    node = program.meaning[step.node]
    domain = program.meaning.domain(node)
    if node.init is not None or node.op in PRODUCTS or len(domain.dims) == len(node.type.dims):
        return False
    sizes = domain.sizes
    box = dict(zip(domain.dims, step.parts[0], strict=True))
    return any(box[d] != (0, sizes[d]) for d in domain.dims if d not in node.type.dims)
