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
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from typing import Any

from pipeloom.checks import nearest
from pipeloom.errors import SpecError, StructureError
from pipeloom.machine.target import Target
from pipeloom.notebook import fragment
from pipeloom.plain import from_plain, to_plain
from pipeloom.program.meaning import Meaning
from pipeloom.program.provenance import UNKNOWN, Provenance
from pipeloom.program.resources import Resource
from pipeloom.program.steps import Barrier, Step, Unit, Wait, Work
from pipeloom.program.well_formed import check

FORMAT = 1
"""Of the JSON; a reader refuses any other. It counts published formats: before the first release
a new field with a default does not raise it, afterwards every change does."""


@dataclass(frozen=True, slots=True)
class Affine:
    """A number that depends on trip counts: a constant plus a factor for each of them."""

    constant: int = 0
    """The part that no trip count changes."""
    factors: tuple[tuple[str, int], ...] = ()
    """A factor for each trip count, by name."""

    def at(self, trips: Mapping[str, int]) -> int:
        """Its value for given trip counts.

        Args:
            trips: The trip counts by name.
        """
        return self.constant + sum(factor * trips[name] for name, factor in self.factors)

    def __str__(self) -> str:
        terms = [f"{f} * {n}" if f != 1 else n for n, f in self.factors]
        return " + ".join([str(self.constant)] * (self.constant != 0 or not terms) + terms)


@dataclass(frozen=True, slots=True)
class TripCount:
    """A number of trips that the launch decides."""

    name: str
    """What sections and ``Affine`` call it."""
    least: int = 0
    """The smallest value that a launch may pass. Proofs cover this value and every larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Steps in order: executed once, or the body of a loop."""

    name: str
    """What pages and messages call it: ``prologue``, ``loop``, ``epilogue``."""
    steps: tuple[Step, ...]
    """What each wave of the group executes, in issue order."""
    trips: str | None = None
    """The trip count that says how often it repeats; None for a section executed once."""
    first: Affine = Affine()
    """The iteration that its steps count from, in its first pass."""
    advance: int = 0
    """How many iterations each further trip adds."""

    def passes(self, trips: Mapping[str, int]) -> Iterator[tuple[int | None, int]]:
        """Every trip (None where it is no loop), and what iterations in it count from.

        Args:
            trips: The trip counts by name.
        """
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
    """Waves that execute the same sections."""

    waves: tuple[int, ...]
    """The waves of the workgroup by number. Waves on the same SIMD differ by the number of
    SIMDs."""
    sections: tuple[Section, ...]
    """What they execute, one after the other."""

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
    """What pages, files and messages call it."""
    meaning: Meaning
    """What it computes, as a graph of named values; every judge compares with it."""
    target: Target
    """The machine it is for."""
    resources: tuple[Resource, ...]
    """The LDS, registers and scalars that its steps touch."""
    groups: tuple[Group, ...]
    """Which waves execute which steps. Every wave of the workgroup is in one group."""
    trips: tuple[TripCount, ...]
    """The trip counts that a launch passes, at most one of them for the main loop (the last)."""
    iterations: Affine
    """How many iterations it computes, as a function of the trip counts."""
    provenance: Provenance = UNKNOWN
    """How it came about. No judge looks at it."""
    plain: Affine = Affine()
    """Iterations in which the launch sees to it that masks (``Meaning.masks``) change nothing; none
    where no trip that it counts is run."""

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def draft(cls, **fields: Any) -> Program:
        """A program whose fields nobody has checked, for a search that throws most of them away.

        Its ``with_groups`` gives drafts too; ``dataclasses.replace`` gives a checked program, which
        is all that may be handed out.

        Args:
            fields: All of a program's fields that have no default, and others.
        """
        program = object.__new__(cls)
        program.__dict__.update(_DEFAULTS | fields | {_DRAFT: True})
        return program

    @property
    def waves(self) -> int:
        """Waves of a workgroup."""
        return sum(len(group.waves) for group in self.groups)

    @property
    def min_trips(self) -> dict[str, int]:
        """The least value of each trip count."""
        return {count.name: count.least for count in self.trips}

    def plain_at(self, trips: Mapping[str, int]) -> int:
        """How many iterations have masks that change nothing.

        Args:
            trips: The trip counts by name.
        """
        runs = any(trips[name] for name, _ in self.plain.factors)
        return self.plain.at(trips) if runs else 0

    @property
    def step(self) -> int:
        """Iterations that one more trip of the last trip count takes."""
        return dict(self.iterations.factors).get(self.trips[-1].name, 0) if self.trips else 0

    def latency(self, step: Work) -> int:
        """Nominal cycles from issue to result: the step's own, or those of the target.

        Args:
            step: A step of this program.
        """
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

        Args:
            group: A group of this program.
        """
        loops = [section for section in group.sections if section.trips is not None]
        counted = [s for s in loops if s.trips == self.trips[-1].name]
        return next(reversed(counted or loops), None)

    def works(self) -> Iterator[tuple[Group, Section, Work]]:
        """Every step that does work, with its group and its section."""
        for group in self.groups:
            for section, _, step in group.steps():
                if isinstance(step, Work):
                    yield group, section, step

    def resource(self, name: str) -> Resource:
        """The resource of that name.

        Args:
            name: The resource's name.
        """
        found = self._by_name.get(name)
        if found is not None:
            return found
        raise StructureError(
            f"program {self.name!r} has no resource {name!r}",
            hint=nearest(name, [r.name for r in self.resources]),
            field=name,
        )

    @cached_property
    def _by_name(self) -> Mapping[str, Resource]:
        return {item.name: item for item in reversed(self.resources)}

    def with_groups(self, groups: tuple[Group, ...], provenance: Provenance) -> Program:
        """The same kernel with other steps.

        Args:
            groups: The groups that replace its own.
            provenance: How the new program came about.
        """
        if _DRAFT in self.__dict__:
            return Program.draft(**self.__dict__ | {"groups": groups, "provenance": provenance})
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
        """The program that ``to_dict`` described; raises ``SpecError`` naming a bad key.

        Args:
            data: What ``to_dict`` gave.
        """
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
        """The program that ``to_json`` wrote.

        Args:
            text: What ``to_json`` gave.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise SpecError(
                f"not a program: {error}", hint="give JSON that to_json wrote", field="format"
            ) from error
        return cls.from_dict(data)

    def _repr_html_(self) -> str:
        """For notebooks: a trip in time, and what each group executes, section by section."""
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
        return fragment(self.name, text, columns, rows, drawn=self)

    def __repr__(self) -> str:
        steps = sum(len(s.steps) for g in self.groups for s in g.sections)
        return (
            f"<Program {self.name}: {self.target.arch}, {self.waves} waves in "
            f"{len(self.groups)} group(s), {steps} steps, {self.content_hash[:12]}>"
        )


_DRAFT = "is_draft"
_DEFAULTS = {f.name: f.default for f in fields(Program) if f.default is not MISSING}


def _strip(plain: dict[str, Any] | list[Any], names: set[str]) -> None:
    if isinstance(plain, dict):
        for name in names & plain.keys():
            del plain[name]
    for value in plain.values() if isinstance(plain, dict) else plain:
        if isinstance(value, dict | list):
            _strip(value, names)
