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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from pipeloom.program import (
    Barrier,
    Group,
    Program,
    Section,
    Step,
    Unit,
    Wait,
    Work,
)
from pipeloom.program.costs import cost_of


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
    ``2 * gap + 1`` behind them. Barriers behind the gaps that are ``spared`` do not stay after all.
    """

    barriers: dict[int, int] = field(default_factory=dict)
    waits: dict[int, dict[str, int]] = field(default_factory=dict)
    spared: frozenset[int] = frozenset()

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

    def row(self, gap: int) -> Row:
        """The row of a gap."""
        s, r, _ = self.places[gap]
        return self.scripts[s].rows[r]

    def gaps(self, script: int, row: int) -> range:
        """The numbers of the gaps of a row; the last is its end."""
        first = self.gap[script, row, 0]
        return range(first, first + len(self.scripts[script].rows[row].items) + 1)

    @cached_property
    def work_before(self) -> tuple[int, ...]:
        """By gap, how much work of its row stands before it."""
        return tuple(
            count
            for script in self.scripts
            for row in script.rows
            for count in accumulate((isinstance(i, Doing) for i in row.items), initial=0)
        )

    def works(self, group: int, row: int) -> list[tuple[int, Work]]:
        """A group's work in a row, each with its gap."""
        s = self.script_of[group]
        items = zip(self.gaps(s, row), self.scripts[s].rows[row].items, strict=False)
        return [(gap, item.by_group[group]) for gap, item in items if isinstance(item, Doing)]

    def kept(self, group: int, row: int) -> list[int]:
        """The gaps of a row behind which a group has a barrier that stays."""
        s = self.script_of[group]
        items = zip(self.gaps(s, row), self.scripts[s].rows[row].items, strict=False)
        return [gap for gap, item in items if isinstance(item, Kept) and group in item.groups]

    def with_rows(self, change: Callable[[int, int, Row], Row]) -> Scripts:
        """With every row, of every script, changed."""
        changed = tuple(
            Script(script.groups, tuple(change(s, r, row) for r, row in enumerate(script.rows)))
            for s, script in enumerate(self.scripts)
        )
        return replace(self, scripts=changed)

    def assemble(self, sync: Sync, ahead: bool = False) -> tuple[Group, ...]:
        """The program's groups with this synchronisation.

        With ``ahead`` the waits of a barrier that stays stand before the product in front of it,
        which adds nothing to a counter: there they cost no time. So does one of two waits, where
        products leave a single slot each. Waits of one place come as the target lists its counters,
        or then by name.
        """
        return tuple(
            replace(
                group,
                sections=tuple(
                    replace(row.section, steps=steps)
                    for r, row in enumerate(self.scripts[s].rows)
                    if (steps := self._steps(sync, s, r, number, ahead)) or row.section.name
                ),
            )
            for number, (group, s) in enumerate(
                zip(self.program.groups, self.script_of, strict=True)
            )
        )

    def _steps(self, sync: Sync, s: int, r: int, group: int, ahead: bool) -> tuple[Step, ...]:
        row = self.scripts[s].rows[r]
        names = [counter.name for counter in self.program.target.counters]
        names = sorted(names) if ahead else names
        found: list[Step] = []

        def waits(slot: int) -> list[Wait]:
            counts = sync.waits.get(slot, {})
            return [Wait(name, counts[name]) for name in names if name in counts]

        for gap, fences, item in zip(self.gaps(s, r), row.fences, (*row.items, None), strict=True):
            found += fences.before
            found += waits(2 * gap)
            found += [Barrier()] * sync.barriers.get(gap, 0)
            at = len(found)
            if ahead and isinstance(item, Kept) and found and _is_uncounted(found[-1]):
                at -= 1
            due = waits(2 * gap + 1)
            while ahead and len(due) > 1 and (early := self._free_slot(found, due)) is not None:
                place, wait = early
                found.insert(place, wait)
                due.remove(wait)
                at += 1
            found[at:at] = due
            found += fences.after
            if isinstance(item, Doing):
                found.append(item.by_group[group])
            elif item is not None and group in item.groups and gap not in sync.spared:
                found.append(item.barrier)
        return tuple(found)

    def _free_slot(self, found: Sequence[Step], due: Sequence[Wait]) -> tuple[int, Wait] | None:
        """Where one of several waits may stand earlier: between two products with nothing between
        them and room for one instruction, with no step behind that the wait's counter counts."""
        at = len(found) - 1
        left = list(due)
        while at > 0 and left and isinstance(step := found[at], Work | Wait):
            left = [wait for wait in left if wait.counter != step.counter]
            if left and self._leaves_one(step) and self._leaves_one(found[at - 1]):
                return at, left[0]
            at -= 1
        return None

    def _leaves_one(self, step: Step) -> bool:
        """Whether it is a product behind which there is room for one instruction only."""
        target = self.program.target
        if not isinstance(step, Work) or [i.unit for i in step.issues] != [Unit.MATRIX]:
            return False
        cost = cost_of(Unit.MATRIX, target, op=target.matrix_op(step.issues[0].shape))
        return cost.matrix - cost.held < 2 * target.issue_cycles.value


def _is_uncounted(step: Step) -> bool:
    return isinstance(step, Work) and step.counter is None
