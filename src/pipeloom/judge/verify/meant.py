"""Whose value a write is meant to bring, and whose it may: whom to blame, not what is right."""

from __future__ import annotations

from collections.abc import Iterable

from pipeloom.judge.verify.dated_run import Moment
from pipeloom.judge.verify.run_tables import RunTables, WriteSite
from pipeloom.judge.verify.sight import Seen, Sight
from pipeloom.judge.verify.supply import Asked
from pipeloom.judge.verify.wants import Identity, Want
from pipeloom.program import Box, Work


class Meant:
    """Answers for one run, remembered."""

    def __init__(self, run: RunTables, sight: Sight) -> None:
        self._run = run
        self._sight = sight
        self._may: dict[tuple[WriteSite, tuple[int, ...], Box], frozenset[Identity]] = {}

    def suspects(
        self, seen: tuple[Seen, ...], cell: Box, want: Want, single: bool
    ) -> set[tuple[WriteSite, int]] | None:
        """Copies that are not worth following, because they are not what the read is meant to see.

        Following one would find the fault too, but at its source instead of here. A copy that
        surely brings something else is one; and one that may, beside another that is meant. None
        if there may be such copies and the read is not of a ``single`` wave.
        """
        copies = []
        meant_by_claim = meant = False
        for site, waves in seen:
            if site is None:
                continue
            deed = self._run.deed(site.moment, waves[0])
            if not deed.step.is_copy or deed.source.space is None:
                if len(seen) > 1 and single:
                    meant_by_claim |= any(map(want.admits, self.may(site, waves[:1], cell)))
                continue
            if not single:
                if not all(map(want.admits, self.may(site, waves, cell))):
                    return None
                continue
            for owner in waves:
                may = self.may(site, (owner,), cell)
                good = sum(map(want.admits, may))
                claimed = want.admits(self.claim(site, owner))
                if good < len(may):
                    copies.append((site, owner, claimed, good > 0, len(may)))
                meant_by_claim |= claimed
                meant |= good > 0
        found = set()
        for site, owner, claimed, possible, count in copies:
            follow = claimed if meant_by_claim else possible if meant else count > 1
            if not follow or (not possible and count == 1):
                found.add((site, owner))
        return found

    def claim(self, site: WriteSite, wave: int) -> Identity:
        """Whose value a write brings if its step does what it says."""
        moment, deed = site.moment, self._run.deed(site.moment, wave)
        node = deed.node
        if not deed.step.is_copy:
            return node.name, self._run.iteration(node, moment)
        at = self._run.wants.iterations if moment.iteration is None else moment.iteration
        want = self._run.wants.value(node.name, at)
        if want.kind == "number":
            return "#", want.number
        return want.name, want.iteration - (want.kind == "sum")

    def may(self, site: WriteSite, waves: tuple[int, ...], cell: Box) -> frozenset[Identity]:
        """Whose value a write may bring, going by what each step says that it computes."""
        key = site, waves, cell
        found = self._may.get(key)
        if found is not None:
            return found
        self._may[key] = frozenset()
        moment, step, plans = site.moment, site.moment.step, self._run.plans
        assert isinstance(step, Work)
        if step.is_copy:
            made = plans.of(moment.group, step, site.which, waves, cell, ((),) * len(waves))
            memory = made[0].memory
            if memory is None:
                found = self._may_hold([asked for plan in made for asked in plan.source], moment)
            else:
                found = frozenset(
                    {self._run.memory(self._run.program.meaning[memory.key[0]], moment)}
                )
        else:
            found = frozenset(
                {(step.node, self._run.iteration(self._run.program.meaning[step.node], moment))}
            )
        touch, _ = plans.writes(moment.group, step)[site.which]
        if step.when is not None and touch.space is not None:
            reads = [(wave, touch, cell, (), None) for wave in waves]
            found |= self._may_hold(plans.spots(moment.group, reads), moment)
        self._may[key] = found
        return found

    def _may_hold(self, places: Iterable[Asked], moment: Moment) -> frozenset[Identity]:
        found: set[Identity] = set()
        for spot, _ in places:
            for cell in self._sight.cells(spot, moment.group):
                for site, waves in self._sight.seen(spot, cell, moment):
                    if site is None:
                        found.add(self._run.start(spot.key))
                    else:
                        found |= self.may(site, self._run.deciding(site, waves), cell)
        return frozenset(found)
