"""What a read can see: the heart of the proof.

A place is written again and again: X1, X2, ... Whatever the latencies, a read R sees one of those

    that do not surely come after R, and
    that no Xj surely covers: Xi happens before Xj and Xj happens before R;

and if no Xj surely comes before R, what stood there at the start. The set is exact in both
directions: any member can be brought about by some choice of latencies, because a write can be the
last before R unless another must lie between.

Of a shared write nobody knows which wave wrote a given byte, so it covers only if it does whichever
wave that was; but one step slices its box in every trip alike. Registers belong to one wave and are
read at issue, so nothing issued later is seen.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from pipeloom.judge.verify.dated_run import Moment, happens_before
from pipeloom.judge.verify.deeds import Key
from pipeloom.judge.verify.run_tables import RunTables, WriteSite
from pipeloom.judge.verify.supply import Spot
from pipeloom.judge.verify.views import cells
from pipeloom.program import Box, Space
from pipeloom.program.tiles import overlap


class Seen(NamedTuple):
    """A write that may be what a read finds, made by any of ``waves``; None is the start.

    In registers, several waves stand for as many reads, each of what its own wave wrote.
    """

    site: WriteSite | None
    waves: tuple[int, ...]


START = Seen(None, ())
Owned = tuple[WriteSite, tuple[int, ...]]


class _Dated:
    """Writes of registers with their dates: ``last`` is when the first n of them have retired,
    ``alone`` what is seen where one of them covers all that are older."""

    __slots__ = ("alone", "issues", "last", "writes")

    def __init__(self, writes: tuple[Owned, ...], waves: tuple[int, ...]) -> None:
        self.writes = writes
        self.issues = [site.moment.issue for site, _ in writes]
        self.alone = [(Seen(site, waves),) for site, _ in writes]
        self.last = [-1]
        for site, _ in writes:
            self.last.append(max(self.last[-1], site.moment.retire))


class Sight:
    """Answers for one run, remembered."""

    def __init__(self, run: RunTables) -> None:
        self._run = run
        self._cells: dict[tuple[int, Key, Box], list[Box]] = {}
        self._boxes: dict[tuple[int, Key], list[Box]] = {}
        self._owned: dict[tuple[int, Key, Box], tuple[Owned, ...]] = {}
        self._alike: dict[tuple[Owned, ...], tuple[Owned, ...]] = {}
        self._steps: dict[tuple[int, Key], dict[int, list[tuple[int, WriteSite]]]] = {}
        self._found: dict[tuple[int, Moment, int], tuple[Seen, ...]] = {}
        self._dated: dict[tuple[int, Box], _Dated] = {}
        self._seen: dict[tuple[int, Box, Moment], tuple[Seen, ...]] = {}
        self._cut: dict[Spot, list[Box]] = {}

    def cells(self, spot: Spot, group: int) -> list[Box]:
        """The spot's cell cut so that every write covers a piece wholly or not at all."""
        known = self._cut.get(spot)
        if known is not None:
            return known
        key, box, wave = spot.key, spot.cell, spot.waves[0]
        at = -1 if spot.space is Space.LDS else wave
        found = self._cells.get((at, key, box))
        if found is None:
            boxes = self._boxes.get((at, key))
            if boxes is None:
                sites = self._sites(spot.space, key, group)
                boxes = list(
                    dict.fromkeys(
                        b for s in sites for w, b in s.boxes.items() if at < 0 or w == wave
                    )
                )
                self._boxes[at, key] = boxes
            found = self._cells[at, key, box] = cells(
                box, [b for b in boxes if overlap(b, box) is not None]
            )
        self._cut[spot] = found
        return found

    def seen(self, spot: Spot, cell: Box, moment: Moment) -> tuple[Seen, ...]:
        """What ``moment`` may find in ``cell`` of the spot, in program order."""
        at = spot.place, cell, moment
        found = self._seen.get(at)
        if found is None:
            look = self._in_lds if spot.space is Space.LDS else self._in_registers
            found = self._seen[at] = look(spot, cell, moment)
        return found

    def writes(
        self, space: Space | None, key: Key, cell: Box, group: int, wave: int
    ) -> tuple[Owned, ...]:
        """Every write of ``cell`` that concerns ``wave``, with the waves that make it.

        Cells that have the same ones have the same tuple.
        """
        at = -1 if space is Space.LDS else wave
        found = self._owned.get((at, key, cell))
        if found is None:
            groups = range(len(self._run.walks)) if at < 0 else (group,)
            owners = self._run.plans.owners(groups, at, key, cell)
            repeated = self._repeated(space, key, group)
            writes = [
                (n, site, mine)
                for boxes, mine in owners.items()
                for n, site in repeated.get(boxes, ())
            ]
            writes.sort()
            found = tuple([(site, mine) for _, site, mine in writes])
            found = self._owned[at, key, cell] = self._alike.setdefault(found, found)
        return found

    def _repeated(
        self, space: Space | None, key: Key, group: int
    ) -> dict[int, list[tuple[int, WriteSite]]]:
        """The sites of a place with their numbers, by identity of their boxes: a step's own."""
        at = (-1 if space is Space.LDS else group), key
        found = self._steps.get(at)
        if found is None:
            found = self._steps[at] = {}
            for n, site in enumerate(self._sites(space, key, group)):
                found.setdefault(id(site.boxes), []).append((n, site))
        return found

    def _sites(self, space: Space | None, key: Key, group: int) -> list[WriteSite]:
        if space is Space.LDS:
            return self._run.lds.get(key, [])
        return self._run.registers.get((group, key), [])

    def _in_registers(self, spot: Spot, cell: Box, moment: Moment) -> tuple[Seen, ...]:
        dated = self._dated.get((spot.place, cell))
        if dated is None:
            writes = self.writes(spot.space, spot.key, cell, moment.group, spot.waves[0])
            dated = self._dated[spot.place, cell] = _Dated(writes, spot.waves)
        writes, last = dated.writes, dated.last
        newest = bisect_left(dated.issues, moment.issue) - 1
        if newest >= 0:
            past = writes[newest][0].moment
            if past.retire <= moment.issue and last[newest] <= past.issue:
                return dated.alone[newest]
        covered = -1
        found: list[Seen] = []
        for n in range(newest, -1, -1):
            if last[n + 1] <= covered:
                break
            past = writes[n][0].moment
            if past.retire > covered:
                found.append(Seen(writes[n][0], spot.waves))
            if past.retire <= moment.issue:
                covered = max(covered, past.issue)
        if covered < 0:
            found.append(START)
        return tuple(reversed(found))

    def _in_lds(self, spot: Spot, cell: Box, moment: Moment) -> tuple[Seen, ...]:
        wave = spot.waves[0]  # any: none of them is the only one to make a write
        writes = self.writes(Space.LDS, spot.key, cell, moment.group, wave)
        key = id(writes), moment, wave
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = tuple(_seen_in_lds(writes, moment, wave))
        return found


def _seen_in_lds(writes: tuple[Owned, ...], moment: Moment, wave: int) -> Iterator[Seen]:
    epoch = moment.issue_epoch
    sure = False
    newest = -1
    alone: list[Owned] = []
    for site, owners in writes:
        if site.partners_retire >= epoch:
            continue
        past = site.moment
        if past.retire_epoch < epoch and owners != (wave,):
            newest = max(newest, site.first_epoch)
        elif (
            wave in owners
            and past is not moment
            and past.retire <= moment.issue
            and (not site.shared or owners == (wave,))
        ):
            owners = (wave,)
        else:
            continue
        sure = True
        # a shared write of several waves covers across waves or not at all: `newest` says it
        if not site.shared or len(owners) == 1:
            alone.append((site, owners))
    if not sure:
        yield START
    for site, owners in writes:
        past = site.moment
        if past.retire_epoch < newest:
            continue
        late = _replacement(site) if site.shared else None
        for same in (True, False) if wave in owners else (False,):
            if (
                (same and past is moment)
                or happens_before(moment, past, same)
                or (late is not None and happens_before(late.moment, moment, same))
            ):
                continue
            waves = owners
            if wave in owners:
                waves = (wave,) if same else tuple(owner for owner in owners if owner != wave)
            if alone:
                waves = tuple(v for v in waves if not any(_covers(x, site, v) for x in alone))
            if waves:
                yield Seen(site, waves)


def _replacement(site: WriteSite) -> WriteSite | None:
    """The next write of the same step that surely comes after: each wave has the same slice."""
    past = site.moment
    for late in site.again:
        if late.moment.issue >= past.retire and late is not site:
            return late
    return None


def _covers(late: Owned, site: WriteSite, owner: int) -> bool:
    """Whether the sure write ``late`` surely comes after that of ``owner``."""
    over, owners = late
    if over.shared and (over is site or site in over.partners):
        return False
    past = site.moment
    if any(past.retire_epoch >= p.moment.issue_epoch for p in over.partners):
        return False
    before = (
        not (over.moment is past and v == owner) and happens_before(past, over.moment, v == owner)
        for v in owners
    )
    return all(before) if over.shared else any(before)
