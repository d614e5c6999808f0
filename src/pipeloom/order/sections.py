"""Start times as sections: before, prologue, loop, epilogue, after.

With s stages and a loop unrolled u times (so that every rotating place has the same copy in every
trip), N = s - 1 + rest + u * T iterations: s - 1 are under way when the loop starts, and ``rest``
more stand at the head of the epilogue. All groups have the same sections, even where one has
nothing to do there, so that barriers can be placed in pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pipeloom.order.modulo import Expansion, Step, expand_modulo
from pipeloom.order.problem_builder import LoopProblem
from pipeloom.order.roles import WaveGroup
from pipeloom.order.strategy import Timetable
from pipeloom.order.tasks import Lowered, Task, Touch
from pipeloom.program.nodes import Region
from pipeloom.program.program import Affine, Group, Section
from pipeloom.program.resources import Resource, Space
from pipeloom.program.steps import Access, Barrier, Work

TRIPS, LOOP = "T", "loop"


@dataclass(frozen=True, slots=True)
class Phases:
    """The sections of every group, the storage with its copies, and how many iterations run."""

    groups: tuple[Group, ...]
    resources: tuple[Resource, ...]
    iterations: Affine
    stages: int
    unroll: int


def expand(loop: LoopProblem, timetable: Timetable) -> Expansion:
    """The rows of a timetable; raises ``OrderError`` if it breaks the problem."""
    return expand_modulo(loop.problem, timetable.ii, timetable.starts)


def _with_barriers(loop: LoopProblem, expansion: Expansion) -> Expansion:
    """Barriers in every row, whatever iterations there are: a row orders several of them."""
    first = len(loop.tasks)
    mine = range(first, first + loop.barriers)
    at = {s.op: s.cycle for s in expansion.kernel if s.op in mine and s.cycle < expansion.ii}

    def fill(steps: tuple[Step, ...], rows: int) -> tuple[Step, ...]:
        work = [s for s in steps if s.op < first]
        work += [
            Step(op, 0, row * expansion.ii + cycle)
            for row in range(rows)
            for op, cycle in at.items()
        ]
        return tuple(sorted(work, key=lambda s: s.cycle))

    rows = expansion.stages - 1
    return replace(
        expansion,
        prologue=fill(expansion.prologue, rows),
        kernel=fill(expansion.kernel, expansion.unroll),
        epilogues=tuple(fill(steps, rows + n) for n, steps in enumerate(expansion.epilogues)),
    )


def make_phases(lowered: Lowered, loop: LoopProblem, expansion: Expansion, rest: int = 0) -> Phases:
    """The sections for N of one residue: ``rest`` iterations beyond the least, 0 to unroll - 1."""
    copies: dict[str, int] = {}
    for place, count in zip(loop.channels, expansion.channel_copies, strict=True):
        copies[place] = max(count, copies.get(place, 1))
    base = expansion.stages - 1 + rest
    if loop.barriers:
        expansion = _with_barriers(loop, expansion)
    write = _Writer(lowered, loop.tasks, loop.barriers, copies, base)
    sections = [write.sections(group, expansion, rest) for group in lowered.groups]
    if loop.stagger:
        sections = [_staggered(s, n, len(sections), loop.stagger) for n, s in enumerate(sections)]
    used = {s.name for found in sections for s in found if s.steps or s.trips}
    return Phases(
        groups=tuple(
            Group(group.waves, tuple(s for s in found if s.name in used))
            for group, found in zip(lowered.groups, sections, strict=True)
        ),
        resources=tuple(
            Resource(
                name=name,
                space=p.space,
                type=p.type,
                copies=copies.get(p.name, 1),
                start=p.start,
                layout=p.layout,
            )
            for name, p in {p.storage or p.name: p for p in lowered.places}.items()
        ),
        iterations=Affine(base, ((TRIPS, expansion.unroll),)),
        stages=expansion.stages,
        unroll=expansion.unroll,
    )


def _staggered(sections: list[Section], group: int, groups: int, each: int) -> list[Section]:
    """A later group waits for the earlier ones to begin, and those for it to end."""
    meet = Barrier(label="stagger")
    found = list(sections)
    found[1] = replace(found[1], steps=(meet,) * (each * group) + found[1].steps)
    late = each * (groups - 1 - group)
    found[-2] = replace(found[-2], steps=found[-2].steps + (meet,) * late)
    return found


@dataclass
class _Writer:
    lowered: Lowered
    tasks: tuple[Task, ...]
    barriers: int
    copies: Mapping[str, int]
    base: int

    @cached_property
    def _per_iteration(self) -> set[str]:
        """The values that every iteration has of its own."""
        nodes = self.lowered.meaning.nodes
        return {n.name for n in nodes if n.region is Region.LOOP and not n.kind.is_number}

    def sections(self, group: WaveGroup, expansion: Expansion, rest: int) -> list[Section]:
        """Those of one group of waves; some may be empty."""
        ends = Affine(0, ((TRIPS, expansion.unroll),))
        return [
            Section(name="before", steps=self._before(group)),
            Section(name="prologue", steps=self._rows(group, expansion.prologue)),
            Section(
                name=LOOP,
                steps=self._rows(group, expansion.kernel),
                trips=TRIPS,
                advance=expansion.unroll,
            ),
            Section(
                name="epilogue", steps=self._rows(group, expansion.epilogues[rest]), first=ends
            ),
            Section(name="after", steps=self._outside(group, Region.AFTER)),
        ]

    def _rows(self, group: WaveGroup, steps: tuple[Step, ...]) -> tuple[Work | Barrier, ...]:
        """Ops behind the tasks are barriers, which all groups meet, and what is no step at all."""
        found: list[Work | Barrier] = []
        for step in steps:
            if step.op < len(self.tasks):
                task = self.tasks[step.op]
                if task.group == group.name:
                    found.append(self._work(task, step.iteration))
            elif step.op < len(self.tasks) + self.barriers:
                found.append(Barrier())
        return tuple(found)

    def _before(self, group: WaveGroup) -> tuple[Work | Barrier, ...]:
        """With a barrier behind what comes to LDS, if the loop has its own."""
        steps = self._outside(group, Region.BEFORE)
        staged = {r.name for r in self.lowered.places if r.space is Space.LDS}
        fills = tuple(s for s in steps if s.writes[0].resource in staged)
        if not (self.barriers and any(fills)):
            return steps
        return (*fills, Barrier(), *(s for s in steps if s not in fills))

    def _outside(self, group: WaveGroup, region: Region) -> tuple[Work, ...]:
        """Loads, which overlap; then piece by piece: what is stored frees registers early.

        What is as large as a result is loaded with its piece, so that registers do not fill up.
        """
        mine = [t for t in self.lowered.of(region) if t.group == group.name]
        cuts, nodes = self.lowered.shares.cuts, self.lowered.meaning
        large = max((len(t.piece) for t in mine), default=0)
        pieces = [tuple(dict(t.piece).get(c.dim, 0) for c in cuts) for t in mine]
        ranks = {piece: at for at, piece in enumerate(sorted(set(pieces)))}

        def key(task: Task) -> tuple[int, ...]:
            rank = ranks[tuple(dict(task.piece).get(c.dim, 0) for c in cuts)]
            if not (task.is_copy and nodes[task.node].kind.is_input):
                return (rank, 1)
            whole = len(task.piece) == large and len(nodes[task.node].type.dims) > 1
            return (rank if whole else -1, 0)

        mine.sort(key=key)
        return tuple(self._work(task, None) for task in mine)

    def _work(self, task: Task, iteration: int | None) -> Work:
        return Work(
            node=task.node,
            label=task.label,
            iteration=iteration,
            reads=tuple(self._access(t, iteration) for t in task.reads),
            writes=tuple(self._access(t, iteration) for t in task.writes),
            accumulates=tuple(self._access(t, iteration) for t in task.accumulates),
            parts=task.parts,
            is_copy=task.is_copy,
            counter=task.counter,
            entries=task.entries,
            issues=task.issues,
            when=task.when,
        )

    def _access(self, touch: Touch, iteration: int | None) -> Access:
        """After the loop, a carry is where iteration N would find it."""
        copies = self.copies.get(touch.place, 1)
        at = self.base if iteration is None else iteration
        meant = iteration is not None and touch.value in self._per_iteration
        place = self.lowered.place(touch.place)
        return Access(
            touch.place if place is None else place.storage or place.name,
            touch.boxes,
            copy=(at + touch.ahead) % copies,
            generation=at - touch.distance if meant else None,
            shared=touch.shared,
        )
