"""Sums in parts: of several steps, and of several lanes.

A row of a matrix result lies in several lanes. Each sums its own part, step by step; only the last
step of a sum joins the lanes, so nobody else may touch what is not complete. A place whose layout
says ``partial`` is not joined even then, and what a step may do with it is little
(``check_parts``).
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeloom.program import Access, Program, Reduce, Resource, Space, Work
from pipeloom.program.tiles import Box, overlap
from pipeloom.program.vocabulary import PRODUCTS, Vocabulary
from pipeloom.write.faults import EmitError
from pipeloom.write.lower.register_tiles import partial

Position = tuple[int, int, int]
"""Group, section, slot."""
_Sum = tuple[int, str, int | None, str, int, tuple[Box, ...]]
"""Group, node, iteration; resource, copy, boxes by wave."""
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
    found: dict[_Sum, list[Position]] = {}
    for number, group in enumerate(program.groups):
        waves, going_on = range(len(group.waves)), dict[_Sum, Access]()
        for at, section in enumerate(group.sections):
            for trip in range(trips[section.trips] if section.trips else 1):
                first = section.first.at(trips) + trip * section.advance
                for slot, step in enumerate(section.steps):
                    if not isinstance(step, Work):
                        continue
                    key: _Sum | None = None
                    if _in_parts(program, step):
                        place = (*step.accumulates, *step.writes)[0]
                        iteration = None if step.iteration is None else first + step.iteration
                        boxes = tuple(_box(program, place, wave) for wave in waves)
                        key = (number, step.node, iteration, place.resource, place.copy, boxes)
                        if step.accumulates and key not in going_on:
                            raise _touched(step)
                        found.setdefault(key, []).append((number, at, slot))
                        going_on[key] = place
                    for other, access in [*going_on.items()]:
                        if other != key and any(
                            _meet(program, access, t, waves) for t in step.accesses
                        ):
                            del going_on[other]
    return list(found.values())


def _touched(step: Work) -> EmitError:
    return EmitError(
        f"{step.label} adds to part of a sum that is elsewhere, or was touched meanwhile",
        hint="write the first part of a sum, add the others to it, and read it when it is complete",
        field=step.label,
    )


def _box(program: Program, access: Access, wave: int) -> Box:
    return access.box(wave) or program.resource(access.resource).type.whole


def _meet(program: Program, a: Access, b: Access, waves: Iterable[int]) -> bool:
    """Whether two accesses have storage in common."""
    same = (a.resource, a.copy) == (b.resource, b.copy)
    return same and any(overlap(_box(program, a, w), _box(program, b, w)) for w in waves)


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


def check_start(resource: Resource) -> None:
    """Raise for a sum in parts that would begin with as many numbers as lanes have parts of it."""
    if resource.start and partial(resource) is Reduce.ADD:
        raise EmitError(
            f"{resource.name} holds parts of a sum and starts at {resource.start} in each lane",
            hint="let sums in parts start at 0",
            field=resource.name,
        )


def check_parts(program: Program, ops: Vocabulary, work: Work) -> None:
    """Raise where lanes' parts, joined in the end, would be something else than the value.

    Parts of a sum may be moved, multiplied with a number and added to; of a maximum each may be
    compared with a bound, and some lane's answer is the answer. A value that all lanes have is as
    good as the parts of a maximum, a minimum or an answer. Whatever else reads parts joins them.
    """
    registers = {r.name: r for r in program.resources if r.space is not Space.LDS}

    def parts(access: Access) -> Reduce | None:
        found = registers.get(access.resource)
        return None if found is None else partial(found)

    node = program.meaning[work.node]
    into = {parts(access) for access in (*work.writes, *work.accumulates)}
    begins = node.init is not None and not work.accumulates
    count = 1 if work.is_copy else len(node.uses) + begins
    reads = [parts(access) for access in work.reads[:count]]
    condition = None if work.when is None else parts(work.reads[-1])
    if not any((*into, *reads, condition)):
        return
    (how, *others) = into
    first, rest = (reads[0], reads[1:]) if reads else (None, [])
    reduce = None if work.is_copy else ops[node.op].reduce
    if work.is_copy:
        local = all(a.resource in registers for a in (work.reads[0], work.writes[0]))
        fits = local and (how in (None, first) or (first is None and how is not Reduce.ADD))
    elif reduce is not None:
        same = {*rest} <= {how}
        fits = first is None and same and (how is not Reduce.ADD or reduce is how)
    elif how is Reduce.ADD:
        fits = node.op == "mul" and first is how and not any(rest)
    elif how is Reduce.ANY and node.op in ("gt", "ge"):
        fits = first in (None, Reduce.MAX) and not any(rest)
    else:
        fits = how is None or not any(reads)
    if others or not fits or condition not in (None, Reduce.ANY):
        raise EmitError(
            f"{work.label} would take lanes' parts for the value, or the value for a part",
            hint="keep in parts what is summed, or compared as a maximum, and nothing else",
            field=work.label,
        )
