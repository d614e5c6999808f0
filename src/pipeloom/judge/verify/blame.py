"""Which two steps are to blame for a value that a place does not surely hold.

A read that can see a wrong write is a hazard between three steps: the write it is meant to see, the
wrong one, and itself. Which pair lacks order decides the kind:

    the meant write may come too late        raw       meant write, read
    the wrong write may come too early       war       read, wrong write
    the wrong write may land over the meant  war       wrong write, meant write
    the same in registers                    register
    no write is meant                        accounting, unwritten
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeloom.judge.verify.dated_run import Moment, happens_before
from pipeloom.judge.verify.deeds import Key
from pipeloom.judge.verify.findings import FindingKind
from pipeloom.judge.verify.obligations import Demand, Mismatch, Missing, Prover
from pipeloom.judge.verify.run_tables import RunTables, WriteSite
from pipeloom.judge.verify.sight import Owned
from pipeloom.judge.verify.wants import NOTHING, Identity, describe_identity
from pipeloom.program import Box, Space, Work
from pipeloom.program.tiles import describe_box


@dataclass(frozen=True, slots=True, eq=False)
class Hazard:
    """``second`` (in ``second_wave``) may meet ``first``; ``user`` consumes the damage.

    ``expected`` and ``seen`` say what the place should and may hold. ``is_output`` marks two writes
    that may land in either order.
    """

    kind: FindingKind
    first: Moment | None
    first_wave: int
    second: Moment
    second_wave: int
    where: str
    expected: str = ""
    seen: str = ""
    user: Moment | None = None
    user_wave: int = 0
    is_output: bool = False
    note: str = ""

    @property
    def same_wave(self) -> bool:
        """Whether one wave suffices."""
        return self.first_wave == self.second_wave


class Blame:
    """Turns what a proof lacks into hazards."""

    def __init__(self, run: RunTables, prover: Prover) -> None:
        self._run = run
        self._prover = prover
        self._places: dict[tuple[Key, Box], str] = {}

    def hazards(self) -> Iterator[Hazard]:
        """Of everything that the prover found wrong."""
        for wrong in self._prover.outcome.wrong:
            if wrong.demand.space is None:
                yield self._direct(wrong)
            elif wrong.demand.space is Space.LDS:
                yield from self._in_lds(wrong)
            else:
                yield from self._in_registers(wrong)
        for missing in self._prover.outcome.missing:
            yield self._missing(missing)

    def _hazard(
        self,
        wrong: Mismatch,
        kind: FindingKind,
        first: Moment | None,
        second: Moment,
        seen: Identity,
        waves: tuple[int, int],
        is_output: bool = False,
    ) -> Hazard:
        demand = wrong.demand
        is_copy = isinstance(demand.moment.step, Work) and demand.moment.step.is_copy
        user = (demand.user, demand.user_wave) if is_copy else (demand.moment, demand.wave)
        return Hazard(
            kind,
            first,
            waves[0],
            second,
            waves[1],
            self._where(demand, wrong.cell),
            str(demand.want),
            describe_identity(seen),
            *user,
            is_output,
        )

    def _where(self, demand: Demand, cell: Box) -> str:
        if demand.space is None:
            return demand.key[0]
        found = self._places.get((demand.key, cell))
        if found is None:
            found = self._places[demand.key, cell] = self._name(demand.key, cell)
        return found

    def _name(self, key: Key, cell: Box) -> str:
        name, copy = key
        resource = self._run.program.resource(name)
        kind = {Space.LDS: "LDS", Space.REGISTER: "registers", Space.SCALAR: "scalars"}
        number = f"[{copy}]" if resource.copies > 1 else ""
        part = "" if cell == resource.type.whole else describe_box(cell, resource.type.dims)
        what = "" if name.startswith("LDS") or "registers" in name else f"{kind[resource.space]} "
        return f"{what}{name}{number} {part}".strip()

    def _direct(self, wrong: Mismatch) -> Hazard:
        """A step that reads memory or stores: nobody else is involved."""
        demand = wrong.demand
        node = self._run.program.meaning[demand.key[0]]
        seen = NOTHING if node.kind.value == "output" else (node.name, demand.moment.iteration or 0)
        waves = (demand.wave, demand.wave)
        return self._hazard(wrong, FindingKind.ACCOUNTING, None, demand.moment, seen, waves)

    def _missing(self, missing: Missing) -> Hazard:
        output = self._run.program.meaning[missing.output]
        if missing.store is not None:
            moment, wave = missing.store, missing.wave
            where = f"{output.name} of iteration {missing.iteration}"
        else:
            stores = [
                s
                for s in self._run.stores
                if self._run.deed(s.moment, next(iter(s.boxes))).targets[s.which][0].key[0]
                == output.name
            ]
            moment = stores[-1].moment if stores else self._run.last()
            wave = self._run.walks[moment.group].group.waves[0]
            where = output.name
            if output.region.name == "LOOP":
                where += f" of iteration {missing.iteration}"
            assert missing.box is not None
            where = f"{where} {describe_box(missing.box, output.type.dims)}".strip()
        return Hazard(FindingKind.STORE, None, wave, moment, wave, where, expected=where, user=None)

    # --- LDS --------------------------------------------------------------------------------------

    def _meant(self, wrong: Mismatch) -> list[Owned]:
        demand = wrong.demand
        assert demand.space is not None
        writes = self._prover.sight.writes(
            demand.space, demand.key, wrong.cell, demand.moment.group, demand.wave
        )
        bad = {(item.site, owner) for item, owner in wrong.seen}
        claimed: list[Owned] = []
        possible: list[Owned] = []
        for site, owners in writes:
            rest = tuple(v for v in owners if (site, v) not in bad)
            alike = bool(rest) and self._run.deed(site.moment, rest[0]).alike
            may = [
                v
                for v in (rest[:1] if alike else rest)
                if any(map(demand.want.admits, self._prover.meant.may(site, (v,), wrong.cell)))
            ]
            said = [v for v in may if demand.want.admits(self._prover.meant.claim(site, v))]
            if said:
                claimed.append((site, rest if alike else tuple(said)))
            if may:
                possible.append((site, rest if alike else tuple(may)))
        return claimed or possible

    def _in_lds(self, wrong: Mismatch) -> Iterator[Hazard]:
        demand, cell = wrong.demand, wrong.cell
        read, wave = demand.moment, demand.wave
        meant = self._meant(wrong)
        told: set[tuple[WriteSite | None, bool]] = set()
        for item, owner in wrong.seen:
            if (item.site, owner == wave) in told:
                continue
            told.add((item.site, owner == wave))
            seen = self._identity(item.site, owner, cell, demand)
            past = None if item.site is None else item.site.moment
            if not meant:
                kind = FindingKind.ACCOUNTING
                if past is None and not self._run.lds.get(demand.key):
                    kind = FindingKind.UNWRITTEN
                yield self._hazard(wrong, kind, past, read, seen, (owner, wave))
                continue
            # another write by the same wave if there is one: that is the order it had in mind
            nearest = _nearest([w for w in meant if owner in w[1] and past] or meant, read)
            load = nearest[0].moment
            if past is not None and not _older(past, load):
                yield self._hazard(wrong, FindingKind.WAR, read, past, seen, (wave, owner))
                continue
            # the groups that fill a place together are all meant: blame one that is not in order
            team = [nearest, *(w for w in meant if w[0] in nearest[0].partners)]
            late = [
                (site.moment, [v for v in owners if not _precedes(site.moment, read, v == wave)])
                for site, owners in team
            ]
            load, owners = next((found for found in late if found[1]), (load, list(nearest[1])))
            if past is None or any(waves for _, waves in late):
                for v in _one_of_each(owners, wave):
                    yield self._hazard(wrong, FindingKind.RAW, load, read, seen, (v, wave))
                continue
            over = ((site.moment, v) for site, owners in team for v in owners)
            free = (w for w in over if not happens_before(past, w[0], w[1] == owner))
            load, v = next(free, (load, owners[0]))
            yield self._hazard(wrong, FindingKind.WAR, past, load, seen, (owner, v), True)

    def _identity(self, site: WriteSite | None, wave: int, cell: Box, demand: Demand) -> Identity:
        if site is None:
            return self._run.start(demand.key)
        may = [i for i in self._prover.meant.may(site, (wave,), cell) if not demand.want.admits(i)]
        return min(may, default=next(iter(self._prover.meant.may(site, (wave,), cell)), NOTHING))

    # --- registers --------------------------------------------------------------------------------

    def _in_registers(self, wrong: Mismatch) -> Iterator[Hazard]:
        demand, cell = wrong.demand, wrong.cell
        read, wave = demand.moment, demand.wave
        assert demand.space is not None
        writes = self._prover.sight.writes(demand.space, demand.key, cell, read.group, wave)
        past = [site for site, _ in writes if site.moment.issue < read.issue]
        bad = {item.site for item, _ in wrong.seen}
        waves = (wave, wave)
        step = read.step
        adds = isinstance(step, Work) and not step.is_copy and step.node == demand.want.name
        if not past and writes and adds and None in bad:
            # nothing is left that could add it: name the last step that might have
            last = writes[-1][0]
            yield replace(
                self._hazard(wrong, FindingKind.ACCOUNTING, None, last.moment, NOTHING, waves),
                note=f"{demand.want.missing} is never added",
            )
            return
        if not past:
            kind = FindingKind.REGISTER if writes else FindingKind.UNWRITTEN
            if demand.want.kind == "number" or None not in bad or self._starts(demand):
                kind = FindingKind.ACCOUNTING
            yield self._hazard(
                wrong, kind, None, read, self._identity(None, wave, cell, demand), waves
            )
            return
        last = past[-1]
        landed = happens_before(last.moment, read, True)
        brings = self._prover.meant.may(last, (wave,), cell)
        if last in bad and (landed or not any(map(demand.want.admits, brings))):
            seen = self._identity(last, wave, cell, demand)
            yield self._hazard(wrong, FindingKind.ACCOUNTING, last.moment, read, seen, waves)
        elif not landed:
            site = next((item.site for item, _ in wrong.seen if item.site is not last), last)
            seen = self._identity(site, wave, cell, demand)
            yield self._hazard(wrong, FindingKind.REGISTER, last.moment, read, seen, waves)
        else:
            for item, _ in wrong.seen:
                if item.site is not None:
                    seen = self._identity(item.site, wave, cell, demand)
                    yield self._hazard(
                        wrong,
                        FindingKind.REGISTER,
                        item.site.moment,
                        last.moment,
                        seen,
                        waves,
                        True,
                    )

    def _starts(self, demand: Demand) -> bool:
        return self._run.starts[demand.key[0]] is not None


def _nearest(meant: list[Owned], read: Moment) -> Owned:
    """Of several writes of the same value, the last one not after the read, else the first."""
    before = [w for w in meant if w[0].moment.issue_epoch <= read.issue_epoch]
    return before[-1] if before else meant[0]


def _precedes(load: Moment, read: Moment, same: bool) -> bool:
    return happens_before(load, read, same) and (not same or load.issue < read.issue)


def _older(one: Moment, other: Moment) -> bool:
    """Whether a write was issued before another, as far as that can be said."""
    if one.group == other.group:
        return one.issue < other.issue
    return one.issue_epoch < other.issue_epoch


def _one_of_each(waves: tuple[int, ...] | list[int], wave: int) -> Iterator[int]:
    """The wave itself if it is among them, and one other."""
    if wave in waves:
        yield wave
    yield from [v for v in waves if v != wave][:1]
