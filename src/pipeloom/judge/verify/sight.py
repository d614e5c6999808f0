"""What a read can see: the heart of the proof.

A place is written again and again: X1, X2, ... Whatever the latencies, a read R sees one of those Xi

    that do not surely come after R, and
    that no Xj surely covers: Xi happens before Xj and Xj happens before R;

and if no Xj surely comes before R, what stood there at the start. The set is exact in both
directions: any member can be brought about by some choice of latencies, because a write can be the
last before R unless another must lie between.

Of a shared write nobody knows which wave wrote a given byte, so it covers only if it does whichever
wave that was. Registers belong to one wave and are read at issue, so nothing issued later is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeloom.judge.verify.geometry import cells
from pipeloom.judge.verify.run import Key, Run, Site, holds
from pipeloom.judge.verify.walk import Moment, happens_before
from pipeloom.program import Box, Space
from pipeloom.program.tiles import overlap


class Seen(NamedTuple):
    """A write that may be what a read finds, made by any of ``waves``; None is the start."""

    site: Site | None
    waves: tuple[int, ...]


START = Seen(None, ())
Owned = tuple[Site, tuple[int, ...]]


class Sight:
    """Answers for one run, remembered."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._cells: dict[tuple[int, Space, Key, Box], list[Box]] = {}
        self._boxes: dict[tuple[int, Key], list[Box]] = {}
        self._owned: dict[tuple[int, Key, Box], list[Owned]] = {}
        self._last: dict[tuple[int, Key, Box], list[int]] = {}
        self._seen: dict[tuple[Key, Box, int, int, int], tuple[Seen, ...]] = {}

    def cells(self, space: Space, key: Key, box: Box, group: int, wave: int) -> list[Box]:
        """``box`` cut so that every write covers a piece wholly or not at all."""
        at = -1 if space is Space.LDS else wave
        found = self._cells.get((at, space, key, box))
        if found is None:
            boxes = self._boxes.get((at, key))
            if boxes is None:
                sites = self._sites(space, key, group)
                boxes = list(
                    dict.fromkeys(
                        b for s in sites for w, b in s.boxes.items() if at < 0 or w == wave
                    )
                )
                self._boxes[at, key] = boxes
            found = self._cells[at, space, key, box] = cells(
                box, [b for b in boxes if overlap(b, box) is not None]
            )
        return found

    def seen(
        self, space: Space, key: Key, cell: Box, moment: Moment, wave: int
    ) -> tuple[Seen, ...]:
        """What ``moment`` in ``wave`` may find in ``cell``, in program order."""
        at = key, cell, moment.group, moment.index, wave
        found = self._seen.get(at)
        if found is None:
            if space is Space.LDS:
                found = self._in_lds(key, cell, moment, wave)
            else:
                found = self._in_registers(key, cell, moment, wave)
            self._seen[at] = found
        return found

    def writes(self, space: Space, key: Key, cell: Box, group: int, wave: int) -> list[Owned]:
        """Every write of ``cell`` that concerns ``wave``, with the waves that make it."""
        at = -1 if space is Space.LDS else wave
        found = self._owned.get((at, key, cell))
        if found is None:
            found = []
            for site in self._sites(space, key, group):
                waves: Sequence[int] = tuple(site.boxes) if at < 0 else (wave,)
                owners = tuple(w for w in waves if holds(site, w, cell))
                if owners:
                    found.append((site, owners))
            self._owned[at, key, cell] = found
        return found

    def _sites(self, space: Space, key: Key, group: int) -> list[Site]:
        if space is Space.LDS:
            return self._run.lds.get(key, [])
        return self._run.registers.get((group, key), [])

    def _in_registers(self, key: Key, cell: Box, moment: Moment, wave: int) -> tuple[Seen, ...]:
        writes = self.writes(Space.REGISTER, key, cell, moment.group, wave)
        last = self._last.get((wave, key, cell))
        if last is None:  # the latest retirement of the first n writes
            last = [-1]
            for site, _ in writes:
                last.append(max(last[-1], site.moment.retire))
            self._last[wave, key, cell] = last
        covered = -1
        found: list[Seen] = []
        for n in range(len(writes) - 1, -1, -1):
            site = writes[n][0]
            if site.moment.issue >= moment.issue:
                continue
            if last[n + 1] <= covered:
                break
            if site.moment.retire > covered:
                found.append(Seen(site, (wave,)))
            if site.moment.retire <= moment.issue:
                covered = max(covered, site.moment.issue)
        if covered < 0:
            found.append(START)
        return tuple(reversed(found))

    def _in_lds(self, key: Key, cell: Box, moment: Moment, wave: int) -> tuple[Seen, ...]:
        writes = self.writes(Space.LDS, key, cell, moment.group, wave)
        sure: list[Owned] = []
        newest = -1
        for site, owners in writes:
            past = site.moment
            if any(p.moment.retire_epoch >= moment.issue_epoch for p in site.partners):
                continue
            if past.retire_epoch < moment.issue_epoch and owners != (wave,):
                sure.append((site, owners))
                first = min((p.moment.issue_epoch for p in site.partners), default=past.issue_epoch)
                newest = max(newest, min(first, past.issue_epoch))
            elif wave in owners and past is not moment and past.retire <= moment.issue:
                if not site.shared or owners == (wave,):
                    sure.append((site, (wave,)))
        found: list[Seen] = [] if sure else [START]
        # a shared write of several waves covers across waves or not at all: `newest` says it
        alone = [(site, owners) for site, owners in sure if not site.shared or len(owners) == 1]
        for site, owners in writes:
            if site.moment.retire_epoch < newest:
                continue
            others, own = [], []
            for owner in owners:
                same = owner == wave
                if same and site.moment is moment:
                    continue
                if happens_before(moment, site.moment, same):
                    continue
                if alone and any(_covers(late, site, owner) for late in alone):
                    continue
                (own if same else others).append(owner)
            if own:
                found.append(Seen(site, tuple(own)))
            if others:
                found.append(Seen(site, tuple(others)))
        return tuple(found)


def _covers(late: Owned, site: Site, owner: int) -> bool:
    """Whether the sure write ``late`` surely comes after that of ``owner``."""
    over, owners = late
    if over.shared and (over is site or site in over.partners):
        return False
    past = site.moment
    if any(past.retire_epoch >= p.moment.issue_epoch for p in over.partners):
        return False
    before = (
        not (over is site and v == owner) and happens_before(past, over.moment, v == owner)
        for v in owners
    )
    return all(before) if over.shared else any(before)
