"""The waist: one kernel as one immutable, self-contained value.

Everything above makes a ``Program`` (a declaration through ``pipeline``, the specification's
schedules through their lift, a file); everything below takes one and cannot tell how it was made.

    program.meaning      what it computes
    program.target       the machine: its counters, barriers, memories
    program.resources    LDS, registers
    program.groups       which waves execute which steps: sections in order, straight or loops
    program.provenance   how it came about; no judge looks at it

A group of waves runs its sections one after the other. A loop section repeats its steps; the
iteration that a step serves is relative to its section:

    section     straight, first 0       loop T, first 0, advance 1      straight, first T
    step        load A  iteration 0     load A  iteration +1            mma  iteration +0
    serves      iteration 0             1, 2, ..., T                    T

So with T trips this kernel computes ``T + 1`` iterations: ``program.iterations``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeloom.checks import check_int, nearest
from pipeloom.errors import SpecError, StructureError
from pipeloom.machine.target import Target, Traffic
from pipeloom.notebook import fragment
from pipeloom.plain import from_plain, to_plain
from pipeloom.program.meaning import Meaning, NodeKind
from pipeloom.program.provenance import UNKNOWN, Provenance
from pipeloom.program.resources import Resource, Space
from pipeloom.program.steps import Access, Barrier, Step, Unit, Wait, Work
from pipeloom.program.tiles import Box, TileType

FORMAT = 1
"""Of the JSON; a reader refuses any other. It counts published formats: before the first release
a new field with a default does not raise it, afterwards every change does."""


@dataclass(frozen=True, slots=True)
class Affine:
    """``constant + sum of factor * trips``, over the trip counts by name."""

    constant: int = 0
    factors: tuple[tuple[str, int], ...] = ()

    def at(self, trips: Mapping[str, int]) -> int:
        """Its value for given trip counts."""
        return self.constant + sum(factor * trips[name] for name, factor in self.factors)

    def __str__(self) -> str:
        terms = [f"{f} * {n}" if f != 1 else n for n, f in self.factors]
        return " + ".join([str(self.constant)] * (self.constant != 0 or not terms) + terms)


@dataclass(frozen=True, slots=True)
class TripCount:
    """A number that the launch decides, at least ``least``."""

    name: str
    least: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Steps executed once, or, with ``trips``, as often as that trip count says.

    Iterations in its steps count from ``first``, plus ``advance`` per trip.
    """

    name: str
    steps: tuple[Step, ...]
    trips: str | None = None
    first: Affine = Affine()
    advance: int = 0

    def passes(self, trips: Mapping[str, int]) -> Iterator[tuple[int | None, int]]:
        """Every trip (None where it is no loop), and what iterations in it count from."""
        first = self.first.at(trips)
        if self.trips is None:
            yield None, first
            return
        for trip in range(trips[self.trips]):
            yield trip, first + trip * self.advance

    def __repr__(self) -> str:
        times = f", {self.trips} times" if self.trips else ""
        return f"<Section {self.name}: {len(self.steps)} steps{times}>"


@dataclass(frozen=True, slots=True)
class Group:
    """Waves that run the same sections."""

    waves: tuple[int, ...]
    sections: tuple[Section, ...]

    def steps(self) -> Iterator[tuple[Section, int, Step]]:
        """Every step once, with its section and its place there."""
        for section in self.sections:
            for slot, step in enumerate(section.steps):
                yield section, slot, step

    def __repr__(self) -> str:
        names = ", ".join(section.name for section in self.sections)
        return f"<Group of waves {', '.join(map(str, self.waves))}: {names}>"


@dataclass(frozen=True, kw_only=True)
class Program:
    """A kernel; see the module. Validates that every name, box and wave is accounted for."""

    name: str
    meaning: Meaning
    target: Target
    resources: tuple[Resource, ...]
    groups: tuple[Group, ...]
    trips: tuple[TripCount, ...]
    iterations: Affine
    provenance: Provenance = UNKNOWN
    plain: Affine = Affine()
    """Iterations in which the launch sees to it that masks (``Meaning.masks``) change nothing; none
    where no trip that it counts is run."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def waves(self) -> int:
        """Waves of a workgroup."""
        return sum(len(group.waves) for group in self.groups)

    @property
    def min_trips(self) -> dict[str, int]:
        """The least value of each trip count."""
        return {count.name: count.least for count in self.trips}

    def plain_at(self, trips: Mapping[str, int]) -> int:
        """How many iterations have masks that change nothing."""
        runs = any(trips[name] for name, _ in self.plain.factors)
        return self.plain.at(trips) if runs else 0

    @property
    def step(self) -> int:
        """Iterations that one more trip of the last trip count takes."""
        return dict(self.iterations.factors).get(self.trips[-1].name, 0) if self.trips else 0

    def latency(self, step: Work) -> int:
        """Nominal cycles from issue to result: the step's own, or those of the target."""
        if step.latency:
            return step.latency
        target = self.target
        if step.counter is None:
            ops = [i for i in step.issues if i.unit is Unit.MATRIX and i.shape]
            return sum(i.count * target.matrix_op(i.shape).cycles.value for i in ops)
        touched = [a.resource for a in (*step.reads, *step.writes)]
        is_global = any(name in self.meaning for name in touched)
        return target.global_latency.value if is_global else target.lds_latency.value

    def main_loop(self, group: Group) -> Section | None:
        """The loop of a group whose trips a longer run adds to: that of the last trip count.

        A group without that one has its own last loop; None where it has no loop.
        """
        loops = [section for section in group.sections if section.trips is not None]
        counted = [s for s in loops if s.trips == self.trips[-1].name]
        return next(reversed(counted or loops), None)

    def resource(self, name: str) -> Resource:
        """The resource of that name."""
        for item in self.resources:
            if item.name == name:
                return item
        raise StructureError(
            f"program {self.name!r} has no resource {name!r}",
            hint=nearest(name, [r.name for r in self.resources]),
            field=name,
        )

    def with_groups(self, groups: tuple[Group, ...], provenance: Provenance) -> Program:
        """The same kernel with other steps."""
        return replace(self, groups=groups, provenance=provenance)

    @property
    def content_hash(self) -> str:
        """Equal for programs that run alike: labels, names of sections and provenance are out."""
        plain = self.to_dict()
        del plain["provenance"], plain["name"]
        plain["meaning"].pop("name")
        _strip(plain, {"label", "generation"})
        for group in plain["groups"]:
            for section in group["sections"]:
                del section["name"]
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the format's version."""
        return {"format": FORMAT, **to_plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Program:
        """The program that ``to_dict`` described; raises ``SpecError`` naming a bad key."""
        fields = dict(data) if isinstance(data, Mapping) else {}
        version = fields.pop("format", None)
        if version != FORMAT:
            raise SpecError(
                f"this is program format {version!r}, but this pipeloom reads format {FORMAT}",
                hint="write the program again with this version",
                field="format",
            )
        return from_plain(cls, fields)

    def to_json(self) -> str:
        """``to_dict`` as JSON; the same program always gives the same bytes."""
        return json.dumps(self.to_dict(), separators=(",", ":"), sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Program:
        """The program that ``to_json`` wrote."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise SpecError(
                f"not a program: {error}", hint="give JSON that to_json wrote", field="format"
            ) from error
        return cls.from_dict(data)

    def _repr_html_(self) -> str:
        """For notebooks: what each group of waves executes, section by section."""
        rows = [
            (
                ", ".join(map(str, group.waves)),
                section.name,
                section.trips or 1,
                sum(isinstance(step, Work) for step in section.steps),
                sum(isinstance(step, Wait) for step in section.steps),
                sum(isinstance(step, Barrier) for step in section.steps),
            )
            for group in self.groups
            for section in group.sections
        ]
        text = f"on {self.target.arch}, {self.waves} waves; computes {self.iterations} iterations"
        columns = ("waves", "section", "times", "work", "waits", "barriers")
        return fragment(self.name, text, columns, rows)

    def __repr__(self) -> str:
        steps = sum(len(s.steps) for g in self.groups for s in g.sections)
        return (
            f"<Program {self.name}: {self.target.arch}, {self.waves} waves in "
            f"{len(self.groups)} group(s), {steps} steps, {self.content_hash[:12]}>"
        )


def _strip(plain: Any, names: set[str]) -> None:
    if isinstance(plain, dict):
        for name in names & plain.keys():
            del plain[name]
        for value in plain.values():
            _strip(value, names)
    elif isinstance(plain, list):
        for value in plain:
            _strip(value, names)


def _check(program: Program) -> None:
    waves = sorted(w for g in program.groups for w in g.waves)
    if not waves or waves != list(range(len(waves))):
        raise StructureError(
            f"program {program.name!r}: the groups hold waves {waves}",
            hint="every wave from 0 on stands in exactly one group",
            field="groups",
        )
    names = [r.name for r in program.resources]
    taken = [
        n for n in names if names.count(n) > 1 or (n in program.meaning and _is_memory(program, n))
    ]
    if taken:
        raise StructureError(
            f"program {program.name!r}: {taken[0]!r} names two places",
            hint="a resource needs a name of its own, unlike any input or output",
            field=taken[0],
        )
    _check_trips(program)
    for group in program.groups:
        for section, slot, step in group.steps():
            where = f"{section.name}[{slot}]"
            if isinstance(step, Work):
                _check_work(program, group, step, where)
            elif isinstance(step, Wait):
                program.target.counter(step.counter)
                check_int(f"program {program.name}", f"{where}.count", step.count, 0)
            elif isinstance(step, Barrier):
                _check_barrier(program, step, where)


def _check_barrier(program: Program, step: Barrier, where: str) -> None:
    kind, owner = program.target.barrier(step.name), f"program {program.name}"
    if kind.phases:
        check_int(owner, f"{where}.phase", step.phase, 0, kind.phases - 1)
        check_int(owner, f"{where}.arrivals", step.arrivals, 1)
        check_int(owner, f"{where}.copy", step.copy, 0)
    elif step != Barrier(step.name, step.label):
        raise StructureError(
            f"program {program.name!r}: {where} gives a phase, arrivals or a copy to the barrier "
            f"{step.name!r}, which has no phases on {program.target.arch}",
            hint="all waves of the workgroup meet at it; a target's BarrierKind says what has them",
            field=where,
        )


def _check_trips(program: Program) -> None:
    known = [count.name for count in program.trips]
    for count in program.trips:
        check_int(f"program {program.name}", f"trips.{count.name}.least", count.least, 0)
        if known.count(count.name) > 1:
            raise StructureError(
                f"program {program.name!r} declares the trip count {count.name!r} twice",
                hint="name each trip count once",
                field="trips",
            )
    places = [("iterations", program.iterations, None), ("plain", program.plain, None)] + [
        (f"section {section.name!r}", section.first, section.trips)
        for group in program.groups
        for section in group.sections
    ]
    for where, first, trips in places:
        names = [name for name, _ in first.factors]
        strange = {*names, *([] if trips is None else [trips])} - set(known)
        if strange:
            raise StructureError(
                f"program {program.name!r}: {where} counts trips by {', '.join(sorted(strange))}",
                hint=f"declared are: {', '.join(sorted(known)) or 'none'}",
                field=where,
            )
        if len(set(names)) != len(names):
            raise StructureError(
                f"program {program.name!r}: {where} is {first}",
                hint="name each trip count once, with one factor",
                field=where,
            )


def _is_memory(program: Program, name: str) -> bool:
    meaning = program.meaning
    return _is_input(program, name) or (name in meaning and meaning[name].kind is NodeKind.OUTPUT)


def _check_instructions(program: Program, step: Work, where: str) -> None:
    """A product that names its instruction has types which that takes together.

    One that names none may be judged, and is no kernel.
    """
    types = [program.meaning[name].type.dtype.name for name in program.meaning[step.node].uses[:2]]
    for issue in step.issues:
        if issue.unit is not Unit.MATRIX or not issue.shape or len(set(types)) < 2:
            continue
        op = program.target.matrix_op(issue.shape)
        if not op.multiplies(*types, scaled=op.scaled):
            raise StructureError(
                f"program {program.name!r}: {where} {step.label!r} multiplies {types[0]} by "
                f"{types[1]}, which {op.name} does not",
                hint=f"{op.name} takes {' or '.join(op.operands)}, both operands alike"
                if not op.mixes
                else f"{op.name} takes {', '.join(op.operands)}",
                field=where,
            )


def _check_work(program: Program, group: Group, step: Work, where: str) -> None:
    node = program.meaning[step.node]
    domain = node.type if step.is_copy else program.meaning.domain(node)
    for part in step.parts:
        if len(part) != len(domain.dims) or not _is_within(domain, part):
            raise StructureError(
                f"program {program.name!r}: {where} {step.label!r} works on {part}, which is no "
                f"part of {domain}",
                hint="parts are boxes of the node's domain with something in them",
                field=where,
            )
    if len(step.parts) > 1 and len(step.parts) != len(group.waves):
        raise _per_wave(program, where, step.label, len(step.parts), group)
    if not step.is_copy:
        _check_instructions(program, step, where)
    for access in step.accesses:
        _check_access(program, group, access, where, step.label)
    _check_counter(program, step, where)
    for access in (*step.writes, *step.accumulates):
        if _is_input(program, access.resource):
            raise StructureError(
                f"program {program.name!r}: {where} {step.label!r} writes the input "
                f"{access.resource!r}",
                hint="steps write resources and outputs",
                field=where,
            )
    if any(access.shared for access in (*step.reads, *step.accumulates)) and not (
        step.is_copy and any(access.shared for access in step.writes)
    ):
        raise StructureError(
            f"program {program.name!r}: {where} {step.label!r} reads a slice per wave",
            hint="only a copy may read shared, to a place that it writes shared",
            field=where,
        )


_MOVERS = {
    Traffic.GLOBAL: (Unit.LOAD, Unit.LOAD_LDS, Unit.STORE),
    Traffic.LDS: (Unit.LDS_READ, Unit.LDS_WRITE),
}


def _check_counter(program: Program, step: Work, where: str) -> None:
    """The machine counts accesses by what they touch, and one entry per instruction.

    Fewer entries only make waits stricter: a wait for ``n`` retires a step once ``n`` entries
    follow it, which more instructions do earlier.
    """
    touched = _traffic(program, step)
    counter = None if step.counter is None else program.target.counter(step.counter)
    if (None if counter is None else counter.counts) is not touched:
        right = None if touched is None else program.target.counting(touched).name
        raise StructureError(
            f"program {program.name!r}: {where} {step.label!r} is counted by {step.counter}, but "
            f"{program.target.arch} counts it by {right}",
            hint="what touches memory or LDS, and nothing else, is counted as the target says",
            field=where,
        )
    if counter is not None:
        stated = [i.count for i in step.issues if touched and i.unit in _MOVERS[touched]]
        most = sum(stated) if touched and step.issues else None
        check_int(f"program {program.name}", f"{where}.entries", step.entries, 1, most)


def _traffic(program: Program, step: Work) -> Traffic | None:
    """What it touches outside of its wave, by which it is counted."""
    names = {access.resource for access in step.accesses}
    if any(_is_memory(program, n) and not program.meaning[n].kind.is_number for n in names):
        return Traffic.GLOBAL
    in_lds = (r.name in names for r in program.resources if r.space is Space.LDS)
    return Traffic.LDS if any(in_lds) else None


def _is_within(type_: TileType, box: Box) -> bool:
    return all(0 <= a < b <= size for (a, b), size in zip(box, type_.shape, strict=True))


def _is_input(program: Program, name: str) -> bool:
    return name in program.meaning and program.meaning[name].kind.is_input


def _check_access(program: Program, group: Group, access: Access, where: str, label: str) -> None:
    if _is_memory(program, access.resource):
        type_ = program.meaning[access.resource].type
        copies = 1
    else:
        resource = program.resource(access.resource)
        type_, copies = resource.type, resource.copies
        if access.shared and (resource.space is not Space.LDS or len(access.boxes) > 1):
            raise StructureError(
                f"program {program.name!r}: {where} {label!r} shares {access.resource}",
                hint="waves share one box of LDS, or of memory",
                field=where,
            )
    if len(access.boxes) > 1 and len(access.boxes) != len(group.waves):
        raise _per_wave(program, where, label, len(access.boxes), group)
    for box in access.boxes:
        if len(box) != len(type_.dims) or not _is_within(type_, box):
            raise StructureError(
                f"program {program.name!r}: {where} {label!r} touches {box} of "
                f"{access.resource}, which is {type_}",
                hint="boxes lie within their resource and have something in them",
                field=where,
            )
    check_int(f"program {program.name}", f"{where}.copy", access.copy, 0, copies - 1)


def _per_wave(program: Program, where: str, label: str, found: int, group: Group) -> StructureError:
    return StructureError(
        f"program {program.name!r}: {where} {label!r} has {found} boxes for {len(group.waves)} "
        "waves",
        hint="give none, one for all waves of the group, or one per wave",
        field=where,
    )
