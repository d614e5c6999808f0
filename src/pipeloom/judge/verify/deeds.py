"""What each step does in each wave: the places it touches, and how its values lie there."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.errors import StructureError
from pipeloom.judge.verify.views import View, view
from pipeloom.program import VOCABULARY, Access, Box, Meaning, Node, NodeKind, Program, Space, Work
from pipeloom.program.tiles import project

FILES = (Space.REGISTER, Space.SCALAR)
Key = tuple[str, int]
"""A resource and its copy."""


@dataclass(frozen=True, slots=True)
class WaveAccess:
    """One access of one wave. ``space`` is None for global memory and numbers."""

    key: Key
    space: Space | None
    dims: tuple[str, ...]
    box: Box
    shared: bool


@dataclass(frozen=True, slots=True, eq=False)
class Deed:
    """A ``Work`` step in one wave: ``out`` is its part of the result, ``reduced`` of the sum.

    ``reads`` pairs each operand (None for a copy's source) with its place and how the operand's
    ``part`` lies there; ``adds_to`` is the place that holds what it adds to. ``condition`` is what
    may skip it and, for each element of its first target, which element of that decides.
    """

    step: Work
    node: Node
    out: Box
    reduced: Box
    reads: tuple[tuple[str | None, WaveAccess, Box, View], ...]
    targets: tuple[tuple[WaveAccess, View], ...]
    adds_to: tuple[WaveAccess, View] | None
    condition: tuple[str, View] | None
    domain: tuple[str, ...] = ()
    alike: bool = False
    """Whether it brings the same from memory to the same place whichever wave does it."""

    @property
    def source(self) -> WaveAccess:
        """What a copy reads."""
        return self.reads[0][1]

    @property
    def of_registers(self) -> list[WaveAccess]:
        """What it reads of registers."""
        touches = [touch for _, touch, _, _ in self.reads]
        if self.adds_to is not None:
            touches.append(self.adds_to[0])
        return [touch for touch in touches if touch.space in FILES]


Deeds = dict[tuple[int, int], dict[int, Deed]]
"""By the number of the group and the step's ``id``, then by wave."""


def all_deeds(program: Program) -> Deeds:
    """What every step does in every wave of its group, one ``Deed`` where waves do the same."""
    found: Deeds = {}
    holds = _holds(program)
    for number, group in enumerate(program.groups):
        for section, slot, step in group.steps():
            if not isinstance(step, Work) or (number, id(step)) in found:
                continue
            where = f"{section.name}[{slot}] {step.label!r}"
            differs = len(step.parts) > 1 or any(len(access.boxes) > 1 for access in step.accesses)
            alike: dict[object, Deed] = {}
            mine = found[number, id(step)] = dict[int, Deed]()
            for place, wave in enumerate(group.waves):
                key = differs and (step.part(place), *(a.box(place) for a in step.accesses))
                if key not in alike:
                    alike[key] = _deed(program, step, place, where, holds)
                mine[wave] = alike[key]
    return found


def _touch(program: Program, access: Access, place: int) -> WaveAccess:
    given = access.box(place)
    if access.resource in program.meaning:
        node = program.meaning[access.resource]
        if node.kind.is_input or node.kind is NodeKind.OUTPUT:
            box = given or node.type.whole
            return WaveAccess((access.resource, 0), None, node.type.dims, box, access.shared)
    resource = program.resource(access.resource)
    return WaveAccess(
        (access.resource, access.copy),
        resource.space,
        resource.type.dims,
        given or resource.type.whole,
        access.shared,
    )


def _holds(program: Program) -> dict[str, set[str]]:
    """Which values steps bring to a resource, in any iteration; memory has its own."""
    found: dict[str, set[str]] = {node.name: {node.name} for node in program.meaning.nodes}
    for group in program.groups:
        for _, _, step in group.steps():
            if isinstance(step, Work):
                for access in (*step.writes, *step.accumulates):
                    found.setdefault(access.resource, set()).add(step.node)
    return found


def _in_order(meaning: Meaning, step: Work, holds: dict[str, set[str]]) -> tuple[Access, ...]:
    """What a step reads, in the order of its operands.

    Where that changes nothing, as in a sum, a step may read them the other way round. Either way is
    proved in full: this only decides which, by what the two places hold.
    """
    node = meaning[step.node]
    commutes = node.op in VOCABULARY and VOCABULARY[node.op].commutes
    alike = len({meaning[name].type.dims for name in node.uses}) == 1
    if step.is_copy or not commutes or not alike or len(step.reads) < 2:
        return step.reads
    first, second = ({name, *_updates(meaning, name)} for name in node.uses)
    one, two = (holds.get(access.resource, set()) for access in step.reads[:2])
    swapped = one & second and two & first and not (one & first or two & second)
    return (step.reads[1], step.reads[0], *step.reads[2:]) if swapped else step.reads


def _updates(meaning: Meaning, name: str) -> tuple[str, ...]:
    return meaning[name].uses if meaning[name].kind is NodeKind.CARRY else ()


def _deed(program: Program, step: Work, place: int, where: str, holds: dict[str, set[str]]) -> Deed:
    meaning = program.meaning
    node = meaning[step.node]
    touches = [_touch(program, access, place) for access in _in_order(meaning, step, holds)]
    if step.is_copy:
        return _copy(program, step, place, where, touches)
    if node.kind is not NodeKind.OP:
        raise _broken(where, f"computes {node.name!r}, which is no op", "mark it as a copy")
    domain = meaning.domain(node)
    part = step.part(place) or domain.whole
    out, reduced = part[: len(node.type.dims)], part[len(node.type.dims) :]
    if node.when is not None and step.when not in (None, node.when):
        raise _broken(
            where,
            f"is skipped by {step.when!r}, but {node.name!r} is chosen by {node.when!r}",
            "skip it by its own condition, or not at all",
        )
    names: list[str] = list(node.uses)
    if node.init is not None and not step.accumulates:
        names.append(node.init)
    if node.otherwise is not None and not (step.when and len(touches) == len(names) + 1):
        names.append(node.otherwise)
    if node.when is not None or step.when is not None:
        names.append(step.when or node.when or "")
    if len(names) != len(touches):
        raise _broken(where, f"has {len(touches)} reads", f"it should read {', '.join(names)}")
    if bool(step.writes) == bool(step.accumulates) or len(step.accumulates) > 1:
        raise _broken(where, "needs writes, or one place that it adds to", "give one of them")
    reads = []
    for name, touch in zip(names, touches, strict=True):
        dims = meaning[name].type.dims
        if not set(dims) <= set(domain.dims):
            raise _broken(where, f"has no dimensions of {name!r}", "conditions are per element")
        box = project(part, domain.dims, dims)
        reads.append((name, touch, box, _view(dims, box, touch, where, name)))
    targets = tuple(
        (touch, _view(node.type.dims, out, touch, where, "its result"))
        for touch in (_touch(program, a, place) for a in (*step.writes, *step.accumulates))
    )
    adds_to = None
    if step.accumulates:
        adds_to = targets[0]
    elif node.init is not None:
        _, touch, box, _ = reads[len(node.uses)]
        adds_to = (touch, _view(node.type.dims, out, touch, where, node.init))
    condition = None
    if step.when is not None:
        condition = _condition(program, step, targets[0][1], where)
    if node.init is not None and not step.accumulates:
        del reads[len(node.uses)]
    return Deed(step, node, out, reduced, tuple(reads), targets, adds_to, condition, domain.dims)


def _copy(program: Program, step: Work, place: int, where: str, reads: list[WaveAccess]) -> Deed:
    meaning = program.meaning
    node = meaning[step.node]
    if len(step.writes) != 1 or len(reads) != 1 + (step.when is not None) or step.accumulates:
        raise _broken(where, "is a copy", "a copy has one read (then its condition) and one write")
    source, target = reads[0], _touch(program, step.writes[0], place)
    how = view(source.dims, source.box, target.dims, target.box)
    if how is None:
        raise _broken(
            where,
            f"copies {source.box} of {source.key[0]} to {target.box} of {target.key[0]}",
            "the two boxes must have one shape",
        )
    places: list[tuple[str | None, WaveAccess, Box, View]] = [(None, source, source.box, how)]
    condition = None
    if step.when is not None:
        part = step.part(place) or node.type.whole
        condition = _condition(
            program, step, _view(node.type.dims, part, target, where, "its part"), where
        )
        dims = meaning[step.when].type.dims
        box = project(part, node.type.dims, dims)
        places.append((step.when, reads[1], box, _view(dims, box, reads[1], where, step.when)))
    boxes = max(len(step.reads[0].boxes), len(step.writes[0].boxes))
    alike = source.space is None and boxes <= 1 and condition is None
    return Deed(step, node, (), (), tuple(places), ((target, how),), None, condition, alike=alike)


def _condition(program: Program, step: Work, laid: View, where: str) -> tuple[str, View]:
    """What skips a step, and how it lies over what the step writes, which is ``laid`` there."""
    assert step.when is not None
    dims, own = program.meaning[step.when].type.dims, program.meaning[step.node].type.dims
    if not set(dims) <= set(own):
        raise _broken(where, f"is skipped by {step.when!r}", "a condition is per element")
    return step.when, tuple(laid[own.index(dim)] for dim in dims)


def _view(dims: tuple[str, ...], box: Box, touch: WaveAccess, where: str, what: str) -> View:
    found = view(dims, box, touch.dims, touch.box)
    if found is None:
        raise _broken(
            where,
            f"has {what} as {box}, but touches {touch.box} of {touch.key[0]}",
            "a part and its place must have one shape",
        )
    return found


def _broken(where: str, what: str, hint: str) -> StructureError:
    return StructureError(f"{where} {what}", hint=hint, field=where)
