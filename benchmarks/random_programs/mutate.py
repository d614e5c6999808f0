"""Broken on purpose: programs that differ from a given one by a single slip.

These are the slips that people make and that tools must catch: a wait dropped, loosened or
tightened by the entries of one step, a barrier dropped or moved by one step, two neighbours
swapped, the stagger forgotten; a step dropped, one that names another copy, iteration, box or
operand, exchanges two, or takes a number that is one off (the bound of a mask); a resource with
another start or a copy too few. Some leave a program right (a redundant barrier, two loads
swapped); ``classify`` tells which.

    for mutant in mutants(program):
        print(mutant.name, classify(mutant.program).correct)

    loosen wait, loop[12]: vmcnt(8) -> vmcnt(12)

A slip in a section that several groups have alike is made in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from random import Random

from pipeloom.checks import check_int
from pipeloom.program import (
    Access,
    Barrier,
    Box,
    Group,
    Node,
    NodeKind,
    Program,
    Resource,
    Step,
    Wait,
    Work,
)


class MutationKind(Enum):
    """Sorts of slips."""

    DROP_WAIT = "drop wait"
    LOOSEN_WAIT = "loosen wait"
    TIGHTEN_WAIT = "tighten wait"
    DROP_BARRIER = "drop barrier"
    MOVE_BARRIER = "move barrier"
    SWAP_NEIGHBOURS = "swap neighbours"
    DROP_STAGGER = "drop stagger"
    DROP_STEP = "drop step"
    WRONG_COPY = "wrong copy"
    WRONG_ITERATION = "wrong iteration"
    WRONG_BOX = "wrong box"
    WRONG_START = "wrong start"
    FEWER_COPIES = "fewer copies"
    WRONG_OPERAND = "wrong operand"
    SWAPPED_OPERANDS = "swapped operands"
    WRONG_NUMBER = "wrong number"


SYNCHRONISATION = frozenset(list(MutationKind)[:7])
"""Slips in waits, barriers and order; the others are in the data."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one slip, and the slip in words."""

    kind: MutationKind
    name: str
    program: Program


Edit = Callable[[list[Step], int], object]
Slip = tuple[MutationKind, str, Callable[[], Program]]


def mutants(program: Program, kinds: frozenset[MutationKind] | None = None) -> Iterator[Mutant]:
    """Every mutant of these kinds (without: all), step by step; the order is always the same."""
    for kind, name, make in _slips(program):
        if kinds is None or kind in kinds:
            yield Mutant(kind, name, make())


def sample_mutants(
    program: Program, count: int, seed: int = 0, kinds: frozenset[MutationKind] | None = None
) -> tuple[Mutant, ...]:
    """``count`` of the mutants (all, if there are fewer), drawn evenly over the kinds."""
    check_int("sample_mutants", "count", count, 0)
    by_kind: dict[MutationKind, list[Slip]] = {}
    for slip in _slips(program):
        if kinds is None or slip[0] in kinds:
            by_kind.setdefault(slip[0], []).append(slip)
    rng = Random(seed)
    order = list(by_kind.values())
    rng.shuffle(order)
    for members in order:
        rng.shuffle(members)
    drawn: list[Mutant] = []
    while len(drawn) < count and any(order):
        for members in order:
            if members and len(drawn) < count:
                kind, name, make = members.pop()
                drawn.append(Mutant(kind, name, make()))
    return tuple(drawn)


def edited(program: Program, group: int, section: int, slot: int, edit: Edit) -> Program:
    """``program`` with ``edit(steps, at)`` done to that step, in all groups that have it too."""
    steps = program.groups[group].sections[section].steps
    at = _unlabelled(steps).index(slot) if slot in _unlabelled(steps) else None
    groups: list[Group] = []
    for number, other in enumerate(program.groups):
        place: int | None = slot if number == group else None
        if number != group and at is not None and section < len(other.sections):
            own = other.sections[section].steps
            if [own[i] for i in _unlabelled(own)] == [steps[i] for i in _unlabelled(steps)]:
                place = _unlabelled(own)[at]
        if place is not None:
            sections = list(other.sections)
            changed = list(sections[section].steps)
            edit(changed, place)
            sections[section] = replace(sections[section], steps=tuple(changed))
            other = replace(other, sections=tuple(sections))
        groups.append(other)
    return program.with_groups(tuple(groups), program.provenance)


def _unlabelled(steps: tuple[Step, ...]) -> list[int]:
    """Slots of the steps that the maker of the program wrote, without barriers of the kernel's."""
    return [i for i, s in enumerate(steps) if not (isinstance(s, Barrier) and s.label)]


def _slips(program: Program) -> Iterator[Slip]:
    costs: dict[str, int] = {}
    for group in program.groups:
        for _, _, step in group.steps():
            if isinstance(step, Work) and step.counter is not None:
                costs.setdefault(step.counter, step.entries)
    seen: list[tuple[int, list[Step]]] = []
    for number, group in enumerate(program.groups):
        for at, section in enumerate(group.sections):
            kept = [section.steps[i] for i in _unlabelled(section.steps)]
            alike = (at, kept) in seen
            seen.append((at, kept))
            for slot, step in enumerate(section.steps):
                label = isinstance(step, Barrier) and step.label
                if label or not alike:
                    where = f"{section.name}[{slot}]" + f" of group {number}" * (number > 0)
                    yield from _step_slips(program, (number, at, slot), step, where, costs)
    for resource in program.resources:
        yield from _resource_slips(program, resource)


def _step_slips(
    program: Program, at: tuple[int, int, int], step: Step, where: str, costs: dict[str, int]
) -> Iterator[Slip]:
    number, section, slot = at
    steps = program.groups[number].sections[section].steps

    def slip(kind: MutationKind, what: str, edit: Edit) -> Slip:
        name = f"{kind.value}, {where}: {what}"
        return kind, name, lambda: edited(program, number, section, slot, edit)

    def swap(some: list[Step], i: int) -> None:
        if i + 1 < len(some):
            some[i], some[i + 1] = some[i + 1], some[i]

    def put(other: Step) -> Edit:
        return lambda some, i: some.__setitem__(i, other)

    if isinstance(step, Wait):
        yield slip(MutationKind.DROP_WAIT, _words(step), lambda some, i: some.pop(i))
        cost = costs.get(step.counter, 1)
        for kind, count in (
            (MutationKind.LOOSEN_WAIT, step.count + cost),
            (MutationKind.TIGHTEN_WAIT, max(0, step.count - cost)),
        ):
            if count != step.count:
                other = replace(step, count=count)
                yield slip(kind, f"{_words(step)} -> {_words(other)}", put(other))
    elif isinstance(step, Barrier):
        kind = MutationKind.DROP_STAGGER if step.label else MutationKind.DROP_BARRIER
        yield slip(kind, _words(step), lambda some, i: some.pop(i))
    elif isinstance(step, Work):
        yield slip(MutationKind.DROP_STEP, _words(step), lambda some, i: some.pop(i))
        for kind, what, changed in _work_slips(program, step):
            yield slip(kind, f"{_words(step)}: {what}", put(changed))
        for i, access in enumerate(step.reads):
            node = next((n for n in program.meaning.nodes if n.name == access.resource), None)
            if node is not None and node.kind is NodeKind.CONSTANT and node.start is not None:
                off = replace(node, name=f"{node.name} + 1", start=node.start + 1)
                reads = (*step.reads[:i], replace(access, resource=off.name), *step.reads[i + 1 :])
                edit = put(replace(step, reads=reads))
                yield (
                    MutationKind.WRONG_NUMBER,
                    f"{MutationKind.WRONG_NUMBER.value}, {where}: {_words(step)}: {off.name}",
                    partial(_with_number, program, node, off, (number, section, slot), edit),
                )
    following = steps[slot + 1] if slot + 1 < len(steps) else None
    if following is not None and following != step:
        moves = isinstance(step, Barrier) or isinstance(following, Barrier)
        kind = MutationKind.MOVE_BARRIER if moves else MutationKind.SWAP_NEIGHBOURS
        yield slip(kind, f"{_words(step)} <-> {_words(following)}", swap)


def _work_slips(program: Program, step: Work) -> Iterator[tuple[MutationKind, str, Work]]:
    if step.iteration is not None:
        for by in (-1, 1):
            other = replace(step, iteration=step.iteration + by)
            yield MutationKind.WRONG_ITERATION, f"iteration {by:+d}", other
    resources = {resource.name: resource for resource in program.resources}
    for i, access in enumerate(step.reads):
        other_name = _other_operand(program, access)
        if other_name is not None:
            copies = resources[other_name].copies if other_name in resources else 1
            operand = replace(access, resource=other_name, copy=access.copy % copies)
            yield (
                MutationKind.WRONG_OPERAND,
                f"{other_name} for {access.resource}",
                replace(step, reads=(*step.reads[:i], operand, *step.reads[i + 1 :])),
            )
    if not step.is_copy and len(step.reads) > 1:
        first, second = step.reads[:2]
        if first != second and _extent(program, first) == _extent(program, second):
            yield (
                MutationKind.SWAPPED_OPERANDS,
                f"{first.resource} <-> {second.resource}",
                replace(step, reads=(second, first, *step.reads[2:])),
            )
    for name in ("reads", "writes", "accumulates"):
        accesses: tuple[Access, ...] = getattr(step, name)
        for i, access in enumerate(accesses):
            resource = resources.get(access.resource)
            if resource is None:
                continue
            others: list[tuple[MutationKind, str, Access]] = []
            if resource.copies > 1:
                copy = (access.copy + 1) % resource.copies
                others.append((MutationKind.WRONG_COPY, f"copy {copy}", replace(access, copy=copy)))
            boxes = _other_boxes(access, resource)
            if boxes is not None:
                moved = replace(access, boxes=boxes)
                others.append((MutationKind.WRONG_BOX, f"box {boxes}", moved))
            for kind, what, other_access in others:
                changed = (*accesses[:i], other_access, *accesses[i + 1 :])
                yield (
                    kind,
                    f"{name} {access.resource} {what}",
                    replace(step, **{name: changed}),  # type: ignore[arg-type]
                )


def _with_number(
    program: Program, node: Node, other: Node, at: tuple[int, int, int], edit: Edit
) -> Program:
    """With one more constant, beside ``node``, and a step that reads it."""
    nodes = program.meaning.nodes
    where = nodes.index(node) + 1
    meaning = replace(program.meaning, nodes=(*nodes[:where], other, *nodes[where:]))
    return edited(replace(program, meaning=meaning), *at, edit)


def _other_operand(program: Program, access: Access) -> str | None:
    """The next place, or input, of the same shape, type and kind; numbers go by numbers."""
    places: dict[str, object] = {
        r.name: (r.space, r.type.shape, r.type.dtype) for r in program.resources
    }
    inputs = {
        n.name: (n.kind.is_number, n.type.shape, n.type.dtype)
        for n in program.meaning.nodes
        if n.kind.is_input
    }
    of = places if access.resource in places else inputs
    alike = [name for name, kind in of.items() if kind == of.get(access.resource)]
    if access.resource not in alike or len(alike) < 2:
        return None
    return alike[(alike.index(access.resource) + 1) % len(alike)]


def _extent(program: Program, access: Access) -> object:
    """The size of what is read, its type, and where it lies."""
    places = {r.name: r for r in program.resources}
    found = places.get(access.resource)
    type_ = program.meaning[access.resource].type if found is None else found.type
    space = None if found is None else found.space
    return space, type_.dtype, [[b - a for a, b in box] for box in access.boxes or (type_.whole,)]


def _other_boxes(access: Access, resource: Resource) -> tuple[Box, ...] | None:
    """Boxes of the same shape: those of other waves, or the next ones along some dimension."""
    if len(access.boxes) > 1:
        turned = (*access.boxes[1:], access.boxes[0])
        return turned if turned != access.boxes else None
    for box in access.boxes:
        for axis, ((start, stop), size) in enumerate(zip(box, resource.type.shape, strict=True)):
            length = stop - start
            if length < size:
                begin = stop if stop + length <= size else 0
                begin = begin if begin != start else size - length
                return ((*box[:axis], (begin, begin + length), *box[axis + 1 :]),)
    return None


def _resource_slips(program: Program, resource: Resource) -> Iterator[Slip]:
    def with_resource(other: Resource) -> Program:
        resources = tuple(other if r.name == other.name else r for r in program.resources)
        groups = tuple(_on_copies(group, other) for group in program.groups)
        return replace(program, resources=resources, groups=groups)

    if resource.start is not None:
        for start in (None, 2 * resource.start + 1):  # further off than rounding
            other = replace(resource, start=start)
            name = f"wrong start, {resource.name}: {start}"
            yield MutationKind.WRONG_START, name, partial(with_resource, other)
    if resource.copies > 1:
        fewer = replace(resource, copies=resource.copies - 1)
        name = f"fewer copies, {resource.name}: {fewer.copies}"
        yield MutationKind.FEWER_COPIES, name, partial(with_resource, fewer)


def _on_copies(group: Group, resource: Resource) -> Group:
    def fit(access: Access) -> Access:
        if access.resource != resource.name:
            return access
        return replace(access, copy=access.copy % resource.copies)

    def fitted(step: Step) -> Step:
        if not isinstance(step, Work):
            return step
        return replace(
            step,
            reads=tuple(map(fit, step.reads)),
            writes=tuple(map(fit, step.writes)),
            accumulates=tuple(map(fit, step.accumulates)),
        )

    sections = tuple(replace(s, steps=tuple(map(fitted, s.steps))) for s in group.sections)
    return replace(group, sections=sections)


def _words(step: Step) -> str:
    match step:
        case Work():
            return step.label
        case Wait():
            return f"{step.counter}({step.count})"
        case Barrier():
            return step.label or "barrier"
    return type(step).__name__.lower()
