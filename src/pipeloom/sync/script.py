"""A program without its synchronisation: what each wave executes, and the gaps between.

Groups whose steps differ only in the boxes they touch, in waits, and in barriers of their own
(those with a label, like a stagger) follow one *script*: what is derived stands at the same place
in all of them. A script is a list of rows, one per section; a row is a list of items: work, and
barriers that stay. Gap g of a row stands before its item g, the last one at its end. Into a gap
``assemble`` puts

    fences | waits that must be over before the barrier | barriers | waits of the next op | fences

Rows of different scripts correspond: scripts are padded with empty straight rows until loops stand
opposite loops, and every loop has a straight row on either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pipeloom.errors import StructureError
from pipeloom.program import (
    Affine,
    Barrier,
    Fence,
    Group,
    Priority,
    Program,
    Section,
    Step,
    Wait,
    Work,
)


@dataclass(frozen=True, slots=True)
class Doing:
    """Work, as each group of the script does it; ``slot`` is its place in the given section."""

    by_group: Mapping[int, Work]
    slot: int

    @property
    def work(self) -> Work:
        """The first group's."""
        return next(iter(self.by_group.values()))


@dataclass(frozen=True, slots=True)
class Kept:
    """A barrier that stays, in those groups that have it."""

    barrier: Barrier
    groups: frozenset[int]
    slot: int | None = None


Item = Doing | Kept
Token = Work | Barrier | Fence | Priority


@dataclass(frozen=True, slots=True)
class Around:
    """The fences of one gap, before and after the place of its synchronisation."""

    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A section: its items, and the fences of the gaps before each and at the end."""

    section: Section
    items: tuple[Item, ...]
    fences: tuple[Around, ...]

    @property
    def loops(self) -> bool:
        """Whether it is a loop."""
        return self.section.trips is not None

    def name(self, gap: int) -> str:
        """``[7] load A``: the item behind a gap, by its place in the section that was given."""
        item = self.items[gap]
        what = item.work.label if isinstance(item, Doing) else item.barrier.label or "barrier"
        return what if item.slot is None else f"[{item.slot}] {what}"


@dataclass(frozen=True, slots=True)
class Script:
    """What the given groups execute, but for synchronisation."""

    groups: tuple[int, ...]
    rows: tuple[Row, ...]


Place = tuple[int, int, int]
"""Script, row, gap."""


@dataclass(slots=True)
class Sync:
    """Waits and barriers by gap number; waits at ``2 * gap`` stand before the barriers of a gap, at
    ``2 * gap + 1`` behind them."""

    barriers: dict[int, int] = field(default_factory=dict)
    waits: dict[int, dict[str, int]] = field(default_factory=dict)

    def set_barriers(self, gap: int, count: int) -> None:
        """Have ``count`` barriers in a gap."""
        if count:
            self.barriers[gap] = count
        else:
            self.barriers.pop(gap, None)


@dataclass(frozen=True)
class Scripts:
    """All scripts of a program; gaps are numbered through."""

    program: Program
    scripts: tuple[Script, ...]

    @classmethod
    def of(cls, program: Program, keep_barriers: bool) -> Scripts:
        """Strip waits, and barriers too unless they are kept or a group's own."""
        tokens = [
            [_tokens(s.steps, keep_barriers) for s in group.sections] for group in program.groups
        ]
        by_key: dict[object, list[int]] = {}
        for number, group in enumerate(program.groups):
            heads = tuple(replace(s, steps=()) for s in group.sections)
            key = (heads, tuple(tuple(map(_alike, t.plain)) for t in tokens[number]))
            by_key.setdefault(key, []).append(number)
        scripts = []
        for groups in by_key.values():
            sections = program.groups[groups[0]].sections
            rows = tuple(
                _row(section, {g: tokens[g][at] for g in groups}, keep_barriers)
                for at, section in enumerate(sections)
            )
            scripts.append(Script(tuple(groups), rows))
        return cls(program, _padded(program, scripts))

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The place of every gap, by number."""
        return tuple(
            (s, r, p)
            for s, script in enumerate(self.scripts)
            for r, row in enumerate(script.rows)
            for p in range(len(row.items) + 1)
        )

    @cached_property
    def gap(self) -> Mapping[Place, int]:
        """The number of the gap at a place."""
        return {place: number for number, place in enumerate(self.places)}

    @cached_property
    def script_of(self) -> tuple[int, ...]:
        """The script of each group."""
        found = {g: s for s, script in enumerate(self.scripts) for g in script.groups}
        return tuple(found[g] for g in sorted(found))

    def gaps(self, script: int, row: int) -> range:
        """The numbers of the gaps of a row; the last is its end."""
        first = self.gap[script, row, 0]
        return range(first, first + len(self.scripts[script].rows[row].items) + 1)

    def assemble(self, sync: Sync) -> tuple[Group, ...]:
        """The program's groups with this synchronisation."""
        return tuple(
            replace(
                group,
                sections=tuple(
                    replace(row.section, steps=steps)
                    for r, row in enumerate(self.scripts[s].rows)
                    if (steps := tuple(self._steps(sync, s, r, number))) or row.section.name
                ),
            )
            for number, (group, s) in enumerate(
                zip(self.program.groups, self.script_of, strict=True)
            )
        )

    def _steps(self, sync: Sync, s: int, r: int, group: int) -> Iterator[Step]:
        row = self.scripts[s].rows[r]
        for gap, fences, item in zip(self.gaps(s, r), row.fences, (*row.items, None), strict=True):
            yield from fences.before
            yield from self._waits(sync, 2 * gap)
            for _ in range(sync.barriers.get(gap, 0)):
                yield Barrier()
            yield from self._waits(sync, 2 * gap + 1)
            yield from fences.after
            if isinstance(item, Doing):
                yield item.by_group[group]
            elif item is not None and group in item.groups:
                yield item.barrier

    def _waits(self, sync: Sync, slot: int) -> Iterator[Wait]:
        found = sync.waits.get(slot, {})
        for counter in self.program.target.counters:
            if counter.name in found:
                yield Wait(counter.name, found[counter.name])


@dataclass(slots=True)
class _Tokens:
    """A section taken apart: what all groups of a script share, and what stood before the n-th."""

    plain: list[Token] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    own: list[tuple[int, Barrier]] = field(default_factory=list)
    stripped: set[int] = field(default_factory=set)


def _tokens(steps: Sequence[Step], keep_barriers: bool) -> _Tokens:
    found = _Tokens()
    slot = 0
    for step in steps:
        at = len(found.plain)
        if isinstance(step, Barrier) and step.label:
            found.own.append((at, step))
        elif isinstance(step, Wait) or (isinstance(step, Barrier) and not keep_barriers):
            found.stripped.add(at)
        else:
            found.plain.append(step)
            found.slots.append(slot)
        slot += not (isinstance(step, Barrier) and step.label)
    return found


def _alike(token: Token) -> object:
    """What two groups must have in common: all but the boxes that work touches."""
    if not isinstance(token, Work):
        return token
    accesses = [
        tuple((a.resource, a.copy, a.shared) for a in part)
        for part in (token.reads, token.writes, token.accumulates)
    ]
    flow = (token.node, token.iteration, token.is_copy, token.when, *accesses)
    return (*flow, token.counter, token.entries)


def _work(token: Token) -> Work:
    assert isinstance(token, Work)
    return token


def _row(section: Section, by_group: Mapping[int, _Tokens], keep_barriers: bool) -> Row:
    plain, slots = next((tokens.plain, tokens.slots) for tokens in by_group.values())
    everyone = frozenset(by_group)
    items: list[Item] = []
    fences: list[Around] = []
    before: list[Step] = []
    after: list[Step] | None = None

    def close(item: Item | None) -> None:
        nonlocal before, after
        if after is None and keep_barriers and isinstance(item, Doing):
            before, after = [], before
        fences.append(Around(tuple(before), tuple(after or ())))
        before, after = [], None
        if item is not None:
            items.append(item)

    for at in range(len(plain) + 1):
        if any(at in tokens.stripped for tokens in by_group.values()):
            if keep_barriers:
                before, after = [*before, *(after or ())], []
            else:
                after = [] if after is None else after
        for barrier in _own(at, by_group):
            close(barrier)
        if at == len(plain):
            close(None)
        elif isinstance(token := plain[at], Work):
            works = {g: _work(tokens.plain[at]) for g, tokens in by_group.items()}
            close(Doing(works, slots[at]))
        elif isinstance(token, Barrier):
            close(Kept(token, everyone, slots[at]))
        else:
            (before if after is None else after).append(token)
    return Row(replace(section, steps=()), tuple(items), tuple(fences))


def _own(at: int, by_group: Mapping[int, _Tokens]) -> Iterator[Kept]:
    """The groups' own barriers before token ``at``, equal ones as one."""
    found: dict[tuple[Barrier, int], set[int]] = {}
    for group, tokens in by_group.items():
        here = [barrier for place, barrier in tokens.own if place == at]
        for number, barrier in enumerate(here):
            found.setdefault((barrier, here[:number].count(barrier)), set()).add(group)
    for (barrier, _), groups in found.items():
        yield Kept(barrier, frozenset(groups))


def _padded(program: Program, scripts: Sequence[Script]) -> tuple[Script, ...]:
    """Straight rows between loops, equally many in all scripts."""
    stretches = [_stretches(script) for script in scripts]
    loops = [[row.section.trips for row in s.rows if row.loops] for s in scripts]
    if any(names != loops[0] for names in loops):
        raise StructureError(
            f"program {program.name!r}: its groups run different loops: {loops}",
            hint="every group needs the same loops in the same order, so that barriers can meet",
            field="groups",
        )
    empty = Row(Section(name="", steps=(), first=Affine()), (), (Around(),))
    padded = []
    for script, parts in zip(scripts, stretches, strict=True):
        looping = iter([row for row in script.rows if row.loops])
        rows: list[Row] = []
        for number, part in enumerate(parts):
            size = max(1, *(len(other[number]) for other in stretches))
            rows.extend([*part, *[empty] * (size - len(part))])
            rows.extend([next(looping)] if number + 1 < len(parts) else [])
        padded.append(Script(script.groups, tuple(rows)))
    return tuple(padded)


def _stretches(script: Script) -> list[list[Row]]:
    """The straight rows before, between and after the loops."""
    found: list[list[Row]] = [[]]
    for row in script.rows:
        if row.loops:
            found.append([])
        else:
            found[-1].append(row)
    return found
