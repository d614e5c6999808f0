"""Where a load may stand between barriers that stay.

A load ends the life of one generation of its bytes and begins that of the next: it must be issued
after the last read of the old one is over, everywhere, and be over before the first read of its
own. With fixed barriers that is a question of epochs alone (waits can always be added):

    X in wave v can be over before Y in wave w   iff   epoch of X in v  <  epoch of Y in w

All other work stays, so each load has a set of legal places of its own, and the fewest moves are
the loads that do not stand in theirs. Each moves to the earliest legal place of its row. A load
from a stretch between two barriers that computes nothing goes to another such stretch, behind its
reads: that keeps the turns of memory and matrix unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from pipeloom.program import Step, Work
from pipeloom.sync.flow import Flow
from pipeloom.sync.script import Around, Doing, Item, Kept, Place, Row
from pipeloom.sync.study import Study
from pipeloom.sync.walk import Execution

FAR = 1 << 40


@dataclass(slots=True)
class _Bounds:
    """What one load, in one pass, must come after and before: positions and epochs of its walk."""

    start: int
    epoch: Callable[[int, int], int]
    after: int = -1
    before: int = FAR
    after_epoch: int = -1
    before_epoch: int = FAR

    def admits(self, place: int) -> bool:
        """Whether the load may stand before item ``place`` of its row."""
        at = self.start + place
        return (
            self.after < at <= self.before
            and self.after_epoch < self.epoch(at, 0) < self.before_epoch
        )


class Places:
    """The legal places of every load into LDS, from the runs that matter.

    With ``loop_only`` barriers count only where both events are in one loop: rows that run once can
    be given more.
    """

    def __init__(self, study: Study, loop_only: bool = False) -> None:
        self._study = study
        self._bounds: dict[Place, list[_Bounds]] = {}
        for found in study.flows:
            for place, bounds in _bounds(study, found, loop_only):
                self._bounds.setdefault(place, []).append(bounds)

    def misplaced(self) -> list[Place]:
        """The loads that stand where no wait can make them right."""
        return [load for load in sorted(self._bounds) if not self._admits(load, load[2])]

    def settle(self, load: Place) -> int | None:
        """The place of its row that ``load`` should be put at; ``None`` if none is legal."""
        s, r, here = load
        row = self._study.scripts.scripts[s].rows[r]
        legal = [place for place in range(len(row.items) + 1) if self._admits(load, place)]
        stretches = list(_stretches(row))
        home = next(stretch for stretch in stretches if here in stretch)
        if not _computes(row, home):
            for stretch in stretches:
                inside = [place for place in legal if place in stretch]
                if inside and not _computes(row, stretch):
                    behind = 1 + max((p for p in stretch if _reads(row, p)), default=-1)
                    return next((place for place in inside if place >= behind), inside[0])
        return legal[0] if legal else None

    def _admits(self, load: Place, place: int) -> bool:
        return all(bounds.admits(place) for bounds in self._bounds[load])


def _stretches(row: Row) -> Iterator[range]:
    """The places between barriers; one before a barrier belongs to what the barrier ends."""
    first = 0
    for number, item in enumerate(row.items):
        if isinstance(item, Kept):
            yield range(first, number + 1)
            first = number + 1
    yield range(first, len(row.items) + 1)


def _item(row: Row, place: int) -> Item | None:
    return row.items[place] if place < len(row.items) else None


def _computes(row: Row, stretch: range) -> bool:
    return any(is_compute(_item(row, place)) for place in stretch)


def is_compute(item: Item | None) -> bool:
    """Whether it computes, rather than moves."""
    return isinstance(item, Doing) and not item.work.is_copy


def _reads(row: Row, place: int) -> bool:
    item = _item(row, place)
    return isinstance(item, Doing) and item.work.is_copy and not is_load(item.work)


def is_load(work: Work) -> bool:
    """Whether it is one that all waves make together: to LDS."""
    return any(access.shared for access in work.writes)


def _bounds(study: Study, found: Flow, loop_only: bool) -> Iterator[tuple[Place, _Bounds]]:
    """By place: what each load into LDS must come after and before, pass by pass."""
    scripts, run, gates = study.scripts, found.run, found.run.gates({})
    table: dict[int, _Bounds] = {}
    for rivals in found.rivals:
        read, write = run.events[rivals.read], run.events[rivals.write]
        if not is_load(write.work):
            continue
        start = run.issue[rivals.write] - scripts.places[write.gap][2]
        group = run.groups[rivals.write]
        bounds = table.setdefault(rivals.write, _Bounds(start, partial(gates.epoch, group)))
        at = run.issue[rivals.read] if rivals.same_wave else None
        epoch = gates.issue_epoch[rivals.read] if rivals.cross_wave else None
        if loop_only and not _in_one_loop(study, read, write):
            epoch = None
        if rivals.newer:
            bounds.after = max(bounds.after, -1 if at is None else at)
            bounds.after_epoch = max(bounds.after_epoch, -1 if epoch is None else epoch)
        else:
            bounds.before = min(bounds.before, FAR if at is None else at)
            bounds.before_epoch = min(bounds.before_epoch, FAR if epoch is None else epoch)
    for number, bounds in sorted(table.items(), key=itemgetter(0)):
        yield scripts.places[run.events[number].gap], bounds


def _in_one_loop(study: Study, read: Execution, write: Execution) -> bool:
    return read.row == write.row and study.scripts.scripts[0].rows[read.row].loops


def moved(row: Row, moves: Mapping[int, int]) -> Row:
    """Work put before other items of its row; the fences around it stay behind."""
    arriving: dict[int, list[Item]] = {}
    for number in sorted(moves):
        arriving.setdefault(moves[number], []).append(row.items[number])
    items: list[Item] = []
    fences: list[Around] = []
    left: tuple[Step, ...] = ()
    for number, (around, item) in enumerate(zip(row.fences, (*row.items, None), strict=True)):
        around = Around((*left, *around.before), around.after)
        for place, arrival in enumerate(arriving.get(number, ())):
            opening = Around()
            if place == 0 and not is_compute(item):
                # fences of compute are its own; others open the stretch
                opening, around = Around((*around.before, *around.after)), Around()
            items.append(arrival)
            fences.append(opening)
        left = (*around.before, *around.after) if number in moves else ()
        if number not in moves:
            fences.append(around)
            items.extend([] if item is None else [item])
    return Row(row.section, tuple(items), tuple(fences))
