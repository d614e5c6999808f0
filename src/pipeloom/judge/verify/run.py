"""The tables of one run: what each step touches in each wave, and who writes which place when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeloom.errors import StructureError
from pipeloom.judge.verify.geometry import View, view
from pipeloom.judge.verify.walk import Moment, Walk, walk_group
from pipeloom.judge.verify.wants import Wants
from pipeloom.program import Access, Box, Node, NodeKind, Program, Space, Work
from pipeloom.program.tiles import contains, overlap, project

Key = tuple[str, int]
"""A resource and its copy."""


@dataclass(frozen=True, slots=True)
class Touch:
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
    reads: tuple[tuple[str | None, Touch, Box, View], ...]
    targets: tuple[tuple[Touch, View], ...]
    adds_to: tuple[Touch, View] | None
    condition: tuple[str, View] | None
    domain: tuple[str, ...] = ()
    alike: bool = False
    """Whether it brings the same from memory to the same place whichever wave does it."""

    @property
    def source(self) -> Touch:
        """What a copy reads."""
        return self.reads[0][1]


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A write: the ``which``-th target of a step, with the box of each wave of the group.

    Where several groups make the same shared write, all their waves may make it together, so that
    each wrote a slice only: such sites are ``partners``.
    """

    moment: Moment
    which: int
    shared: bool
    boxes: Mapping[int, Box]
    partners: list[Site] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """One run. Sites of a place are in program order, those of LDS group by group."""

    program: Program
    trips: Mapping[str, int]
    wants: Wants
    walks: list[Walk]
    lds: dict[Key, list[Site]] = field(default_factory=dict)
    registers: dict[tuple[int, Key], list[Site]] = field(default_factory=dict)
    stores: list[Site] = field(default_factory=list)
    deeds: dict[tuple[int, int], dict[int, Deed]] = field(default_factory=dict)
    starts: dict[str, float | None] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All trips of all loops."""
        return sum(self.trips.values())

    def deed(self, moment: Moment, wave: int) -> Deed:
        """What a step does in a wave."""
        return self.deeds[moment.group, id(moment.step)][wave]

    def last(self) -> Moment:
        """The last step of the first group that executes any; its first if none does."""
        for walk in self.walks:
            if walk.moments:
                return walk.moments[-1]
        sections = self.program.groups[0].sections
        at = next(i for i, section in enumerate(sections) if section.steps)
        return Moment(0, 0, at, 0, None, sections[at].steps[0], None, 0, 0, 0, 0)

    def name(self, moment: Moment) -> str:
        """``loop[12]``."""
        return f"{self.walks[moment.group].section(moment).name}[{moment.slot}]"


Deeds = dict[tuple[int, int], dict[int, Deed]]


def all_deeds(program: Program) -> Deeds:
    """What every step does in every wave of its group: the same in all runs."""
    found: Deeds = {}
    for number, group in enumerate(program.groups):
        for section, slot, step in group.steps():
            if isinstance(step, Work) and (number, id(step)) not in found:
                where = f"{section.name}[{slot}] {step.label!r}"
                found[number, id(step)] = {
                    wave: _deed(program, step, place, where)
                    for place, wave in enumerate(group.waves)
                }
    return found


def build_run(
    program: Program, deeds: Deeds, trips: Mapping[str, int], counter_stall: bool | None
) -> Run:
    """Walk every group and note its writes."""
    walks = [walk_group(program, g, trips, counter_stall) for g in range(len(program.groups))]
    run = Run(program, trips, Wants(program.meaning, program.iterations.at(trips)), walks)
    run.deeds = deeds
    run.starts = {r.name: r.start for r in program.resources}
    for number, walk in enumerate(walks):
        for moment in walk.moments:
            if not isinstance(moment.step, Work):
                continue
            mine = deeds[number, id(moment.step)]
            some = next(iter(mine.values()))
            for which, (touch, _) in enumerate(some.targets):
                boxes = {wave: deed.targets[which][0].box for wave, deed in mine.items()}
                site = Site(moment, which, touch.shared, boxes)
                if touch.space is None:
                    run.stores.append(site)
                elif touch.space is Space.LDS:
                    run.lds.setdefault(touch.key, []).append(site)
                else:
                    run.registers.setdefault((number, touch.key), []).append(site)
    if len(walks) > 1:
        for sites in run.lds.values():
            _pair(sites)
    return run


def _pair(sites: list[Site]) -> None:
    """Find the shared writes that several groups make alike: the n-th of one value to one box."""
    alike: dict[tuple[object, ...], list[Site]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for site in sites:
        if site.shared and isinstance(site.moment.step, Work):
            step, moment = site.moment.step, site.moment
            name = (step.node, moment.iteration, step.is_copy, frozenset(site.boxes.values()))
            seen[moment.group, name] += 1
            alike.setdefault((*name, seen[moment.group, name]), []).append(site)
    for group in alike.values():
        for site in group:
            site.partners.extend(other for other in group if other is not site)


def _touch(program: Program, access: Access, place: int) -> Touch:
    given = access.box(place)
    if access.resource in program.meaning:
        node = program.meaning[access.resource]
        if node.kind.is_input or node.kind is NodeKind.OUTPUT:
            box = given or node.type.whole
            return Touch((access.resource, 0), None, node.type.dims, box, access.shared)
    resource = program.resource(access.resource)
    return Touch(
        (access.resource, access.copy),
        resource.space,
        resource.type.dims,
        given or resource.type.whole,
        access.shared,
    )


def _deed(program: Program, step: Work, place: int, where: str) -> Deed:
    meaning = program.meaning
    node = meaning[step.node]
    touches = [_touch(program, access, place) for access in step.reads]
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


def _copy(program: Program, step: Work, place: int, where: str, reads: list[Touch]) -> Deed:
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
    places: list[tuple[str | None, Touch, Box, View]] = [(None, source, source.box, how)]
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


def _view(dims: tuple[str, ...], box: Box, touch: Touch, where: str, what: str) -> View:
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


def holds(site: Site, wave: int, cell: Box) -> bool:
    """Whether a wave's write covers ``cell`` (cells are cut so that it does wholly or not)."""
    box = site.boxes.get(wave)
    return box is not None and contains(box, cell)


def touches(site: Site, cell: Box) -> bool:
    """Whether some wave's write touches ``cell``."""
    return any(overlap(box, cell) is not None for box in site.boxes.values())
