"""Programs taken apart: scripts without waits, and without barriers unless they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeloom.errors import StructureError
from pipeloom.program import Barrier, Fence, Priority, Program, Section, Step, Wait, Work
from pipeloom.sync.script import Around, Doing, Item, Kept, Row, Script, Scripts

Token = Work | Barrier | Fence | Priority


def stripped(program: Program, keep_barriers: bool, apart: bool = False) -> Scripts:
    """Without waits, and without barriers too unless they are kept or a group's own.

    Groups that do the same have one script, or each its own if they are to be synchronised
    ``apart``.
    """
    tokens = [[_tokens(s.steps, keep_barriers) for s in group.sections] for group in program.groups]
    by_key: dict[object, list[int]] = {}
    for number, group in enumerate(program.groups):
        key: object = number
        if not apart:
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
    return Scripts(program, _padded(program, scripts))


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
        if not tokens.own:
            continue
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
    empty = Row(Section(name="", steps=()), (), (Around(),))
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
