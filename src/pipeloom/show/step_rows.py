"""The steps of a program as every table lists them: rows with a label and a role.

Groups of waves that do the same work in the same order are one *track* and share their rows; a row
that only some of them have (a barrier of its own, another wait) names those. Groups whose work
differs are tracks of their own.

    track 0: waves 0-7         loop[0]   read A0          role lds_read
                               loop[1]   lgkmcnt(0)       role wait
                               loop[2]   C.next[0,0]      role matrix
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from types import MappingProxyType

from pipeloom.program import (
    Barrier,
    Fence,
    Group,
    NodeKind,
    Priority,
    Program,
    Section,
    Space,
    Step,
    Unit,
    Wait,
    Work,
)

STYLES: Mapping[str, str] = MappingProxyType(
    {
        "load": "magenta",
        "store": "magenta",
        "lds_write": "blue",
        "lds_read": "cyan",
        "matrix": "bold green",
        "vector": "green",
        "move": "default",
        "wait": "yellow",
        "barrier": "bold red",
        "priority": "yellow",
        "fence": "bright_black",
    }
)
"""Role -> its style in the terminal."""


def label_of(step: Step) -> str:
    """What a step is called: its own label, or what it does."""
    match step:
        case Work():
            return step.label
        case Wait():
            return f"{step.counter}({step.count})"
        case Barrier():
            plain = "barrier" if step.name == "workgroup" else f"barrier {step.name}"
            return f"{plain} ({step.label})" if step.label else plain
        case Priority():
            return f"prio({step.level})"
        case Fence():
            return step.label or "fence"


def role_of(program: Program, step: Step) -> str:
    """Which kind of thing a step does; a key of ``STYLES``."""
    if not isinstance(step, Work):
        return type(step).TAG
    if not step.is_copy:
        if step.issues:
            return "matrix" if any(i.unit is Unit.MATRIX for i in step.issues) else "vector"
        return "matrix" if step.accumulates else "vector"
    # The first read is what is copied, a second one a condition; programs from files may lack one.
    ends = (accesses[0] if accesses else None for accesses in (step.reads, step.writes))
    source, target = (end and _space(program, end.resource) for end in ends)
    if source is NodeKind.STREAM or source is NodeKind.RESIDENT:
        return "load"
    if target is NodeKind.OUTPUT:
        return "store"
    if source is Space.LDS:
        return "lds_read"
    return "lds_write" if target is Space.LDS else "move"


def _space(program: Program, name: str) -> Space | NodeKind:
    for resource in program.resources:
        if resource.name == name:
            return resource.space
    return program.meaning[name].kind


def offset_text(program: Program, step: Step) -> str:
    """`` k+1``: of work for another iteration than the section's own."""
    shifted = isinstance(step, Work) and step.iteration
    return f" {program.meaning.over}{step.iteration:+d}" if shifted else ""  # type: ignore[union-attr]


def waves_text(waves: Sequence[int]) -> str:
    """``waves 0-3, 6``."""
    runs = []
    for _, run in groupby(enumerate(sorted(waves)), lambda pair: pair[1] - pair[0]):
        members = [wave for _, wave in run]
        runs.append(f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0]))
    return f"wave{'' if len(waves) == 1 else 's'} {', '.join(runs)}"


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as listed; ``slot`` is its place in the first group that has it.

    ``waves`` says which have it, where not all of the track do.
    """

    track: int
    section: Section
    slot: int
    step: Step
    label: str
    role: str
    waves: str = ""

    @property
    def name(self) -> str:
        """``loop[12]``."""
        return f"{self.section.name}[{self.slot}]"


@dataclass(frozen=True)
class Listing:
    """All rows, track by track; ``at`` leads from (group, section, slot) to the number of a row.

    ``waves`` are those of each track, ``group_of`` leads from a wave to its group.
    """

    waves: tuple[tuple[int, ...], ...]
    rows: tuple[StepRow, ...]
    at: Mapping[tuple[int, str, int], int]
    group_of: Mapping[int, int]

    def title(self, track: int) -> str:
        """``waves 0-3``; empty where all waves are one track."""
        return waves_text(self.waves[track]) if len(self.waves) > 1 else ""

    def name(self, number: int) -> str:
        """``loop[12]``, or ``loop[12] of waves 0-3`` where others do other work."""
        row = self.rows[number]
        title = self.title(row.track)
        return f"{row.name} of {title}" if title else row.name

    def lengths(self, track: int, section: str) -> str:
        """``11 or 12``: how many steps of a section a wave of the track has."""
        groups = {self.group_of[wave] for wave in self.waves[track]}
        found = {sum(key[:2] == (group, section) for key in self.at) for group in groups}
        return " or ".join(map(str, sorted(found)))

    def label(self, number: int) -> str:
        """The step in words."""
        return self.rows[number].label

    def find(self, wave: int, section: str, entry: int) -> int | None:
        """The number of a wave's step."""
        return self.at.get((self.group_of[wave], section, entry))

    def group(self, wave: int) -> int:
        """The wave's group."""
        return self.group_of[wave]

    def sections(self) -> Iterator[tuple[StepRow, list[int]]]:
        """The rows of one section of one track after the other, by number."""
        numbers = range(len(self.rows))
        for _, run in groupby(numbers, lambda n: (self.rows[n].track, self.rows[n].section.name)):
            found = list(run)
            yield self.rows[found[0]], found


def listing(program: Program) -> Listing:
    """The rows of a program."""
    tracks: dict[object, list[int]] = {}
    for number, group in enumerate(program.groups):
        tracks.setdefault(_work(group), []).append(number)
    rows: list[StepRow] = []
    at: dict[tuple[int, str, int], int] = {}
    for track, members in enumerate(tracks.values()):
        for parts in zip(*(program.groups[n].sections for n in members), strict=True):
            for step, slots in _merged([part.steps for part in parts]):
                first = min(slots)
                some = [w for n in slots for w in program.groups[members[n]].waves]
                waves = waves_text(some) if len(slots) < len(members) else ""
                label, role = label_of(step), role_of(program, step)
                at |= {(members[n], parts[0].name, slot): len(rows) for n, slot in slots.items()}
                rows.append(StepRow(track, parts[0], slots[first], step, label, role, waves))
    waves_of = tuple(
        tuple(w for n in members for w in program.groups[n].waves) for members in tracks.values()
    )
    group_of = {wave: n for n, group in enumerate(program.groups) for wave in group.waves}
    return Listing(waves_of, tuple(rows), at, group_of)


def _work(group: Group) -> object:
    """Equal for groups that do the same work in the same order."""
    return tuple(
        (s.name, s.trips, s.first, s.advance, tuple(_key(w) for w in s.steps if type(w) is Work))
        for s in group.sections
    )


def _key(step: Step) -> object:
    return (step.label, step.node, step.iteration) if isinstance(step, Work) else step


def _merged(parts: Sequence[Sequence[Step]]) -> list[tuple[Step, dict[int, int]]]:
    """The steps of one section of several groups, each with its slot in those that have it."""
    found = [(step, {0: slot}) for slot, step in enumerate(parts[0])]
    for number, steps in enumerate(parts[1:], start=1):
        mine, theirs = [_key(step) for step, _ in found], [_key(step) for step in steps]
        rows: list[tuple[Step, dict[int, int]]] = []
        for tag, a, b, c, d in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
            for offset, (step, slots) in enumerate(found[a:b]):
                rows.append((step, {**slots, number: c + offset} if tag == "equal" else slots))
            if tag != "equal":
                rows += [(steps[slot], {number: slot}) for slot in range(c, d)]
        found = rows
    return found


@dataclass(frozen=True, slots=True)
class SyncCounts:
    """Synchronisation in one section: entries of each wait counter, runs of adjacent waits,
    barriers, fences."""

    steps: int
    waits: Mapping[str, int]
    coalesced_waits: int
    barriers: int
    fences: int


def counts(section: Section) -> SyncCounts:
    """What a wave executes in one pass of a section."""
    kinds = Counter(type(step) for step in section.steps)
    waits = Counter(step.counter for step in section.steps if isinstance(step, Wait))
    runs = sum(key is Wait for key, _ in groupby(section.steps, type))
    return SyncCounts(len(section.steps), waits, runs, kinds[Barrier], kinds[Fence])


def main_loop(program: Program, group: Group) -> Section:
    """The loop of a group that a simulation runs for long; its last section without one."""
    return program.main_loop(group) or group.sections[-1]


def loop_counts(program: Program) -> SyncCounts:
    """Of the main loop of the group that synchronises most."""
    found = [counts(main_loop(program, group)) for group in program.groups]
    return max(found, key=lambda c: (c.coalesced_waits + c.barriers, c.steps))


def advance(program: Program) -> int:
    """How many iterations of the meaning one trip of the main loop computes."""
    return max(main_loop(program, group).advance for group in program.groups)


def tiles_text(program: Program, number: int) -> str:
    """``2 K tiles``: iterations by the name of the dimension that the kernel goes over."""
    over = program.meaning.over
    name = over.upper() if len(over) == 1 else over
    return f"{number} {name} tile{'' if number == 1 else 's'}"


def pace(program: Program, cycles: float) -> tuple[str, str]:
    """Cycles of a trip of the main loop as those of an iteration of the meaning, and the trip.

    ``("1092 cycles per K tile", "2185 per trip of 2 K tiles")``; the second says nothing where a
    trip is one iteration.
    """
    work = advance(program)
    name = tiles_text(program, 1).removeprefix("1 ")
    if work < 2:
        return f"{cycles:.0f} cycles per {name}", ""
    return (
        f"{cycles / work:.0f} cycles per {name}",
        f"{cycles:.0f} per trip of {tiles_text(program, work)}",
    )


def trip_counts(program: Program, trips: int) -> dict[str, int]:
    """All trip counts of a simulated run: the last one varies, the others are their least."""
    last = {program.trips[-1].name: trips} if program.trips else {}
    return program.min_trips | last
