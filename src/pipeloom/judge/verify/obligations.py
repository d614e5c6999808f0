"""From the outputs backwards: what every place must hold, and whether it surely does.

Each store demands that what it reads is the value of its output. A demand is met by the writes that
the read can see (``sight``): a copy passes it on to its own source; a step that computes the value
demands its operands, and, if it adds to a place, what is left of the sum. So every step that an
output depends on is checked and no other; a step that nothing demands is dead work.

Demands that depend on each other in a circle are met: in a run, what a read finds was written
earlier, so a wrong value would have to come in somewhere, and is found there.

Waves that do the same are followed together (``supply.Spot``) as long as nothing is wrong; what is
wrong is looked at wave by wave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pipeloom.errors import StructureError
from pipeloom.judge.verify.dated_run import Moment, happens_before
from pipeloom.judge.verify.deeds import Key
from pipeloom.judge.verify.meant import Meant
from pipeloom.judge.verify.run_tables import RunTables, WriteSite
from pipeloom.judge.verify.sight import Seen, Sight
from pipeloom.judge.verify.supply import Asked, Over, Spot, Supply, is_straight
from pipeloom.judge.verify.views import View, same_in
from pipeloom.judge.verify.wants import Want
from pipeloom.program import Box, Node, Region, Space, Work
from pipeloom.program.tiles import subtract

Assumed = tuple[str, int, Over, bool]
"""A condition and its iteration, how it lies over the place asked, whether it is taken to hold."""

NOBODY: Set[tuple[WriteSite, int]] = frozenset()


class Demand(NamedTuple):
    """``moment`` reads ``spot`` in each of its waves and must find ``want`` there.

    ``user`` and ``user_waves`` are the step for whose sake; ``assumed`` a condition under which
    alone it matters.
    """

    spot: Spot
    want: Want
    moment: Moment
    user: Moment
    user_waves: tuple[int, ...]
    assumed: Assumed | None

    @property
    def space(self) -> Space | None:
        """Which memory; None for global memory and numbers."""
        return self.spot.space

    @property
    def key(self) -> Key:
        """The resource and its copy."""
        return self.spot.key

    @property
    def wave(self) -> int:
        """The first wave that reads."""
        return self.spot.waves[0]

    @property
    def user_wave(self) -> int:
        """The wave for whose sake the first one reads: itself, if it may be."""
        return self.wave if self.wave in self.user_waves else self.user_waves[0]


class Mismatch(NamedTuple):
    """A demand of one wave that some writes it can see do not meet."""

    demand: Demand
    cell: Box
    seen: tuple[tuple[Seen, int], ...]
    """What is wrong: a write and the wave that makes it."""


class Reliance(NamedTuple):
    """A demand on one cell and what it rests on."""

    demand: Demand
    cell: Box
    seen: tuple[Seen, ...]


@dataclass(slots=True)
class Missing:
    """Part of an output that no store writes, or that is stored where the output ends."""

    output: str
    iteration: int
    box: Box | None
    store: Moment | None
    wave: int


@dataclass(slots=True)
class RunOutcome:
    """Everything one run shows."""

    wrong: list[Mismatch] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    edges: list[Reliance] = field(default_factory=list)
    used: dict[Moment, set[int]] = field(default_factory=dict)
    """In which waves an output depends on a step."""


class Prover:
    """Follows all demands of one run; with ``quick``, until the first that is not met.

    What is wrong then is not told as well as it could be: ask again without.
    """

    def __init__(self, run: RunTables, quick: bool = False) -> None:
        self._run = run
        self._quick = quick
        self._meaning = run.program.meaning
        self._plans = run.plans
        self._wants = run.wants
        self.sight = Sight(run)
        self.meant = Meant(run, self.sight)
        self.outcome = RunOutcome()
        self._open: deque[Demand] = deque()
        self._known: set[tuple[object, ...]] = set()
        self._types: set[tuple[str, str, float]] = set()
        self._supplied: set[tuple[object, ...]] = set()
        self._user: tuple[Moment, tuple[int, ...]]  # for whose sake the next demand is made

    def prove(self) -> RunOutcome:
        """Check the stores, then whatever they demand."""
        for site in self._run.stores:
            self._store(site)
        self._check_stored()
        while self._open and not (self._quick and self.outcome.wrong):
            self._meet(self._open.popleft())
        return self.outcome

    # --- stores -----------------------------------------------------------------------------------

    def _stored(self, site: WriteSite) -> Node:
        step = site.moment.step
        assert isinstance(step, Work)
        touch, _ = self._plans.writes(site.moment.group, step)[site.which]
        return self._meaning[touch.key[0]]

    def _store(self, site: WriteSite) -> None:
        moment, waves = site.moment, tuple(site.boxes)
        output = self._stored(site)
        iteration = self._run.iteration(output, moment)
        if output.region is Region.LOOP and not 0 <= iteration < self._wants.iterations:
            for wave in waves:
                self.outcome.missing.append(Missing(output.name, iteration, None, moment, wave))
            return
        used = self._meaning[output.uses[0]]
        want = self._wants.operand(output, used.name, iteration)
        how = tuple((output.type.dims.index(dim), 0) for dim in used.type.dims)
        self._user = moment, waves
        if self._supply(site, waves, None, (how,) * len(waves), want, None):
            return
        for wave, box in site.boxes.items():
            self._user = moment, (wave,)
            if not self._supply(site, (wave,), box, (how,), want, None):
                spot = self._plans.spot(None, (output.name, 0), box, (wave,), (how,))
                self._wrong(Demand(spot, want, moment, moment, (wave,), None))

    def _check_stored(self) -> None:
        """Every element of every output, of every iteration, is stored, whatever conditions say."""
        for output in self._meaning.outputs:
            rounds = self._wants.iterations if output.region is Region.LOOP else 1
            left: list[list[Box]] = [[output.type.whole] for _ in range(max(rounds, 0))]
            for site in self._run.stores:
                step = site.moment.step
                assert isinstance(step, Work)
                if self._stored(site) is not output or step.when is not None:
                    continue
                at = site.moment.iteration if output.region is Region.LOOP else 0
                if at is not None and 0 <= at < rounds and left[at]:
                    for box in dict.fromkeys(site.boxes.values()):
                        left[at] = [piece for old in left[at] for piece in subtract(old, box)]
            for at, boxes in enumerate(left):
                if boxes:
                    self.outcome.missing.append(Missing(output.name, at, boxes[0], None, 0))

    # --- demands ----------------------------------------------------------------------------------

    def _demand(self, spot: Spot, want: Want, moment: Moment, assumed: Assumed | None) -> None:
        """Ask a place for a value."""
        key = spot, want, moment, assumed
        if key in self._known:
            return
        self._known.add(key)
        demand = Demand(spot, want, moment, *self._user, assumed)
        if spot.space is not None:
            self._open.append(demand)
            return
        node = self._meaning[spot.key[0]]
        good = want.admits(self._run.memory(node, moment))
        if good and want.kind != "number":
            good = is_straight(spot.cell, spot.hows[0], node.type.dims)
        if not good:
            for single in self._one_by_one(demand):
                self._wrong(single)

    def _one_by_one(self, demand: Demand) -> list[Demand]:
        """A demand of several waves as one of each, where that has not been made already."""
        spot = demand.spot
        if len(spot.waves) == 1:
            return [demand]
        found = []
        for n, (wave, how) in enumerate(zip(spot.waves, spot.hows, strict=True)):
            one = self._plans.spot(spot.space, spot.key, spot.cell, (wave,), (how,))
            given = _narrowed(demand.assumed, n)
            key = one, demand.want, demand.moment, given
            if key not in self._known:
                self._known.add(key)
                users = (wave,) if wave in demand.user_waves else demand.user_waves
                found.append(demand._replace(spot=one, user_waves=users, assumed=given))
        return found

    def _wrong(self, demand: Demand) -> None:
        self.outcome.wrong.append(Mismatch(demand, demand.spot.cell, ()))

    def _meet(self, demand: Demand) -> None:
        """Every write that the read can see gives what it must find, or it is a finding."""
        spot, want, moment = demand.spot, demand.want, demand.moment
        single = len(spot.waves) == 1
        if (spot.key[0], want.name, want.number) not in self._types:
            self._check_type(spot.key[0], want)
        self._user = moment, spot.waves
        sight, quick = self.sight, self._quick
        edges = []
        for cell in sight.cells(spot, moment.group):
            seen = sight.seen(spot, cell, moment)
            edges.append(Reliance(demand, cell, seen))
            wrong: list[tuple[Seen, int]] = []
            suspects = NOBODY if quick else self.meant.suspects(seen, cell, want, single)
            if suspects is None:
                break
            for item in seen:
                unmet = self._unmet(demand, item, cell, suspects)
                if unmet:
                    wrong += [(item, owner) for owner in unmet]
            if wrong and not single:
                break
            if wrong:
                self.outcome.wrong.append(Mismatch(demand, cell, tuple(wrong)))
        else:
            self.outcome.edges += edges
            return
        self._open.extendleft(reversed(self._one_by_one(demand)))

    def _check_type(self, place: str, want: Want) -> None:
        """That a place can hold a value as it is; which numbers rounding changes is not decided."""
        self._types.add((place, want.name, want.number))
        kind = self._run.program.resource(place).type.dtype
        if want.kind == "number":
            fits = want.number != want.number or float(kind.round(want.number)) == np.float32(
                want.number
            )
        else:
            fits = kind.holds(self._meaning[want.name].type.dtype)
        if not fits:
            raise StructureError(
                f"cannot decide program {self._run.program.name!r}: {place} is {kind}, which "
                f"rounds {want}",
                hint="keep a value in a place of its own type or a wider one; round it by an op "
                "of the meaning (convert)",
                field=place,
            )

    def _unmet(
        self, demand: Demand, item: Seen, cell: Box, suspects: Set[tuple[WriteSite, int]]
    ) -> tuple[int, ...]:
        """Of the waves that make a write, those that bring something else."""
        spot, want, site, hows = demand.spot, demand.want, item.site, demand.spot.hows
        assumed = demand.assumed
        if site is None:
            return () if want.admits(self._run.start(spot.key)) else spot.waves[:1]
        waves = item.waves
        # Whatever it brings, registers are undefined while a load is in flight.
        own = spot.space is not Space.LDS
        early = own and not happens_before(site.moment, demand.moment, True)
        if not own:
            waves = self._run.deciding(site, waves)
            hows = hows[:1] * len(waves)
            if assumed is not None:
                assumed = (*assumed[:2], assumed[2][:1] * len(waves), assumed[3])
        known = spot if own else None
        if not suspects and self._supply(site, waves, cell, hows, want, assumed, known):
            return waves if early else ()
        if len(waves) == 1 and not suspects:
            return waves
        return tuple(
            wave
            for n, (wave, how) in enumerate(zip(waves, hows, strict=True))
            if early
            or (site, wave) in suspects
            or not self._supply(site, (wave,), cell, (how,), want, _narrowed(assumed, n))
        )

    # --- what a write gives -----------------------------------------------------------------------

    def _supply(
        self,
        site: WriteSite,
        waves: tuple[int, ...],
        cell: Box | None,
        hows: tuple[View, ...],
        want: Want,
        assumed: Assumed | None,
        spot: Spot | None = None,
    ) -> bool:
        """Whether a write gives ``want`` there if its own demands are met; makes those demands.

        False if, in some of the waves, it is surely something else.
        """
        moment, step = site.moment, site.moment.step
        assert isinstance(step, Work)
        used = self.outcome.used.get(moment)
        if used is None:
            self.outcome.used[moment] = set(waves)
        else:
            used.update(waves)
        if want.kind == "number" and step.is_copy:
            hows, spot = ((),) * len(waves), None
        over = None if assumed is None or not step.is_copy else assumed[2]
        met = True
        for plan in self._plans.of(moment.group, step, site.which, waves, cell, hows, over, spot):
            given = assumed if step.is_copy else None
            if plan.condition is not None:
                name, laid = plan.condition
                condition = name, moment.iteration or 0
                known = None
                if assumed is not None and assumed[:2] == condition and cell is not None:
                    before = dict(zip(waves, assumed[2], strict=True))
                    same = {
                        same_in(cell, before[wave], view)
                        for wave, view in zip(plan.waves, laid, strict=True)
                    }
                    if len(same) > 1:  # what is known differs from wave to wave
                        met &= all(
                            self._supply(site, (wave,), cell, (how,), want, _narrowed(assumed, n))
                            for n, (wave, how) in enumerate(zip(waves, hows, strict=True))
                            if wave in plan.waves
                        )
                        continue
                    known = assumed[3] if same == {True} else None
                if known is not True:
                    self._skipped(plan, site, cell, want, condition)
                if known is False:
                    continue
                given = (*condition, laid, True)
            follow = self._copied if step.is_copy else self._computed
            met &= follow(plan, moment, want, given)
        return met

    def _skipped(
        self,
        plan: Supply,
        site: WriteSite,
        cell: Box | None,
        want: Want,
        condition: tuple[str, int],
    ) -> None:
        """If the step is skipped, the place must hold what it should already."""
        if cell is None or plan.condition is None:
            return  # an output: nothing reads it
        node, moment, step = plan.node, site.moment, site.moment.step
        assert isinstance(step, Work)
        hows = plan.hows
        if not step.is_copy and node.when == step.when and node.otherwise is not None:
            at = self._run.iteration(node, moment)
            if want.admits((node.name, at)):
                want = self._wants.operand(node, node.otherwise, at)
                dims = self._meaning[node.otherwise].type.dims
                hows = tuple(tuple(how[node.type.dims.index(d)] for d in dims) for how in hows)
        touch, _ = self._plans.writes(moment.group, step)[site.which]
        if touch.space is None:
            return
        laid = plan.condition[1]
        waves = zip(plan.waves, hows, laid, strict=True)
        reads = [(wave, touch, cell, how, over) for wave, how, over in waves]
        for spot, over in self._plans.spots(moment.group, reads):
            assert over is not None
            self._demand(spot, want, moment, (*condition, over, False))

    def _copied(self, plan: Supply, moment: Moment, want: Want, assumed: Assumed | None) -> bool:
        for name, (spot, _) in plan.operands:  # that it runs where it should
            node = self._meaning[name]
            condition = self._wants.value(name, moment.iteration or 0)
            if node.region is Region.AFTER:
                condition = self._wants.operand(node, name, 0)
            self._demand(spot, condition, moment, None)
        if not plan.fits:
            return False
        if plan.memory is not None:
            brings = self._run.memory(self._meaning[plan.memory.key[0]], moment)
            return want.admits(brings) and (plan.straight or want.kind == "number")
        for asked in plan.source:
            self._ask(asked, want, moment, assumed)
        return True

    def _computed(self, plan: Supply, moment: Moment, want: Want, assumed: Assumed | None) -> bool:
        node = plan.node
        at = self._run.iteration(node, moment)
        if self._wants.changes_nothing(node, at) and plan.fits:  # given the bounds that it compares
            for name, asked in plan.operands:
                if name == node.uses[0]:
                    self._ask(asked, want, moment, assumed)
                if name in node.uses[1:]:
                    self._ask(asked, self._wants.operand(node, name, at), moment, assumed)
            return True
        before = self._wants.before(want, node, at, plan.reduced)
        if before is None or not plan.fits:
            return False
        once = plan, moment, assumed
        if once not in self._supplied:  # every operand, over all that the step reduces of it
            self._supplied.add(once)
            for name, asked in plan.operands:
                self._ask(asked, self._wants.operand(node, name, at), moment, assumed)
        still = before.kind == "number" or before.name == node.name
        for asked in plan.rest if still else plan.start:
            self._ask(asked, before, moment, assumed)
        return bool(plan.rest) or (node.init is None and before.kind == "number")

    def _ask(self, asked: Asked, want: Want, moment: Moment, assumed: Assumed | None) -> None:
        """A demand that matters only where ``assumed`` is so, if that can be said of its place."""
        spot, over = asked
        if assumed is None:
            self._demand(spot, want, moment, None)
            return
        given = None
        if over is not None:
            given = (*assumed[:2], over, assumed[3])
        self._demand(spot, want, moment, given)


def _narrowed(assumed: Assumed | None, which: int) -> Assumed | None:
    """What is assumed, in one of its waves."""
    if assumed is None or len(assumed[2]) == 1:
        return assumed
    return (*assumed[:2], assumed[2][which : which + 1], assumed[3])
