"""From the outputs backwards: what every place must hold, and whether it surely does.

Each store demands that what it reads is the value of its output. A demand is met by the writes that
the read can see (``sight``): a copy passes it on to its own source; a step that computes the value
demands its operands, and, if it adds to a place, what is left of the sum. So every step that an
output depends on is checked and no other; a step that nothing demands is dead work.

Demands that depend on each other in a circle are met: in a run, what a read finds was written
earlier, so a wrong value would have to come in somewhere, and is found there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pipeloom.errors import StructureError
from pipeloom.judge.verify.geometry import (
    View,
    behind,
    same_in,
    storage_cell,
    value_box,
)
from pipeloom.judge.verify.run import Deed, Key, Run, Site, Touch
from pipeloom.judge.verify.sight import Seen, Sight
from pipeloom.judge.verify.walk import Moment
from pipeloom.judge.verify.wants import NOTHING, Identity, Want, iteration_of
from pipeloom.program import Box, Node, NodeKind, Region, Space
from pipeloom.program.tiles import subtract

Assumed = tuple[str, int, View, bool]
"""A condition and its iteration, how it lies over the place asked, whether it is taken to hold."""


class Demand(NamedTuple):
    """``moment`` in ``wave`` reads ``cell`` of a place and must find ``want``, seen as ``how``.

    ``user`` and ``user_wave`` are the step for whose sake; ``assumed`` a condition under which
    alone it matters.
    """

    space: Space | None
    key: Key
    cell: Box
    how: View
    want: Want
    moment: Moment
    wave: int
    user: Moment
    user_wave: int
    assumed: Assumed | None


class Wrong(NamedTuple):
    """A demand that some writes it can see do not meet."""

    demand: Demand
    cell: Box
    seen: tuple[tuple[Seen, int], ...]
    """What is wrong: a write and the wave that makes it."""


class Edge(NamedTuple):
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
class Outcome:
    """Everything one run shows."""

    wrong: list[Wrong] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    used: set[tuple[int, int, int]] = field(default_factory=set)
    """(group, index, wave) of every step that an output depends on."""


class Prover:
    """Follows all demands of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._meaning = run.program.meaning
        self._wants = run.wants
        self.sight = Sight(run)
        self.outcome = Outcome()
        self._open: deque[Demand] = deque()
        self._known: set[tuple[object, ...]] = set()
        self._user: tuple[Moment, int] | None = None  # for whose sake the next demand is made
        self._types: set[tuple[str, str, float]] = set()
        self._supplied: set[tuple[object, ...]] = set()
        self._may: dict[tuple[int, int, int, int, Box], frozenset[Identity]] = {}

    def prove(self) -> Outcome:
        """Check the stores, then whatever they demand."""
        for site in self._run.stores:
            for wave in site.boxes:
                self._store(site, wave)
        self._check_stored()
        while self._open:
            self._meet(self._open.popleft())
        return self.outcome

    # --- stores -----------------------------------------------------------------------------------

    def _store(self, site: Site, wave: int) -> None:
        moment, deed = site.moment, self._run.deed(site.moment, wave)
        target = deed.targets[site.which][0]
        output = self._meaning[target.key[0]]
        iteration = iteration_of(output, moment.iteration, self._run.name(moment))
        if output.region is Region.LOOP and not 0 <= iteration < self._wants.iterations:
            self.outcome.missing.append(Missing(output.name, iteration, None, moment, wave))
            return
        used = self._meaning[output.uses[0]]
        want = self._wants.operand(output, used.name, iteration)
        how = tuple((output.type.dims.index(dim), 0) for dim in used.type.dims)
        self._user = moment, wave
        if not self._supply(site, wave, target.box, how, want, None):
            demand = Demand(
                None, target.key, target.box, how, want, moment, wave, moment, wave, None
            )
            self.outcome.wrong.append(Wrong(demand, target.box, ()))

    def _check_stored(self) -> None:
        """Every element of every output, of every iteration, is stored, whatever conditions say."""
        for output in self._meaning.outputs:
            rounds = self._wants.iterations if output.region is Region.LOOP else 1
            left: list[list[Box]] = [[output.type.whole] for _ in range(max(rounds, 0))]
            for site in self._run.stores:
                for wave, box in site.boxes.items():
                    deed = self._run.deed(site.moment, wave)
                    if deed.targets[site.which][0].key[0] != output.name or deed.condition:
                        continue
                    at = site.moment.iteration if output.region is Region.LOOP else 0
                    if at is not None and 0 <= at < rounds and left[at]:
                        left[at] = [piece for old in left[at] for piece in subtract(old, box)]
            for at, boxes in enumerate(left):
                if boxes:
                    self.outcome.missing.append(Missing(output.name, at, boxes[0], None, 0))

    # --- demands ----------------------------------------------------------------------------------

    def _demand(
        self,
        touch: Touch,
        cell: Box,
        how: View,
        want: Want,
        moment: Moment,
        wave: int,
        assumed: Assumed | None,
    ) -> None:
        """Ask a place for a value."""
        key = (touch.key, cell, how, want, moment.group, moment.index, wave, assumed)
        if key in self._known:
            return
        self._known.add(key)
        user, user_wave = self._user or (moment, wave)
        demand = Demand(
            touch.space, touch.key, cell, how, want, moment, wave, user, user_wave, assumed
        )
        if touch.space is not None:
            self._open.append(demand)
        elif not self._is_memory(touch, moment, cell, how, want):
            self.outcome.wrong.append(Wrong(demand, cell, ()))

    def _is_memory(self, touch: Touch, moment: Moment, cell: Box, how: View, want: Want) -> bool:
        if not want.admits(self._memory(touch, moment)):
            return False
        if want.kind == "number":
            return True
        straight = tuple((axis, 0) for axis in range(len(touch.dims)))
        return same_in(cell, how, straight)

    def _memory(self, touch: Touch, moment: Moment) -> Identity:
        node = self._meaning[touch.key[0]]
        if node.kind is NodeKind.OUTPUT:
            return NOTHING
        if node.kind is NodeKind.CONSTANT:
            assert node.start is not None
            return ("#", node.start)
        return node.name, iteration_of(node, moment.iteration, self._run.name(moment))

    def _meet(self, demand: Demand) -> None:
        """Every write that the read can see gives what it must find, or it is a finding."""
        space, key, moment, wave = demand.space, demand.key, demand.moment, demand.wave
        assert space is not None
        self._check_type(key[0], demand.want)
        self._user = moment, wave
        for cell in self.sight.cells(space, key, demand.cell, moment.group, wave):
            seen = self.sight.seen(space, key, cell, moment, wave)
            self.outcome.edges.append(Edge(demand, cell, seen))
            wrong = []
            suspects = self._suspects(seen, cell, demand.want)
            for item in seen:
                if item.site is None:
                    if not demand.want.admits(self._start(key)):
                        wrong.append((item, wave))
                    continue
                for owner in self._deciding(item.site, item.waves):
                    met = (item.site, owner) not in suspects and self._supply(
                        item.site, owner, cell, demand.how, demand.want, demand.assumed
                    )
                    if not met:
                        wrong.append((item, owner))
            if wrong:
                self.outcome.wrong.append(Wrong(demand, cell, tuple(wrong)))

    def _check_type(self, place: str, want: Want) -> None:
        """That a place can hold a value as it is; which numbers rounding changes is not decided."""
        if (place, want.name, want.number) in self._types:
            return
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

    def _deciding(self, site: Site, waves: tuple[int, ...]) -> tuple[int, ...]:
        """The waves whose write has to be looked at: one, where all bring the same."""
        return waves[:1] if self._run.deed(site.moment, waves[0]).alike else waves

    def _suspects(self, seen: tuple[Seen, ...], cell: Box, want: Want) -> set[tuple[Site, int]]:
        """Copies that are not worth following, because they are not what the read is meant to see.

        Following one would find the fault too, but at its source instead of here. A copy that
        surely brings something else is one; and one that may, beside another that is meant.
        """
        if len(seen) == 1 and seen[0].site is not None:
            deed = self._run.deed(seen[0].site.moment, seen[0].waves[0])
            if not deed.step.is_copy or deed.source.space is None:
                return set()
        copies = []
        meant_by_claim = meant = False
        for site, waves in seen:
            if site is None:
                continue
            deed = self._run.deed(site.moment, waves[0])
            if not deed.step.is_copy or deed.source.space is None:
                meant_by_claim |= any(map(want.admits, self.may(site, waves[0], cell)))
                continue
            for owner in waves:
                may = self.may(site, owner, cell)
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

    def claim(self, site: Site, wave: int) -> Identity:
        """Whose value a write brings if its step does what it says."""
        moment, deed = site.moment, self._run.deed(site.moment, wave)
        node = deed.node
        if not deed.step.is_copy:
            return node.name, iteration_of(node, moment.iteration, "")
        at = self._wants.iterations if moment.iteration is None else moment.iteration
        want = self._wants.value(node.name, at)
        if want.kind == "number":
            return "#", want.number
        return want.name, want.iteration - (want.kind == "sum")

    def _start(self, key: Key) -> Identity:
        start = self._run.starts[key[0]]
        return NOTHING if start is None else ("#", start)

    # --- what a write gives -----------------------------------------------------------------------

    def _supply(
        self, site: Site, wave: int, cell: Box, how: View, want: Want, assumed: Assumed | None
    ) -> bool:
        """Whether a write gives ``want`` there if its own demands are met; makes those demands.

        False if it is surely something else.
        """
        moment = site.moment
        deed = self._run.deed(moment, wave)
        self.outcome.used.add((moment.group, moment.index, wave))
        target, laid = deed.targets[site.which]
        if deed.condition is not None:
            name, over = deed.condition
            condition = name, moment.iteration or 0, over
            known = None
            if assumed is not None and assumed[:2] == condition[:2]:
                known = assumed[3] if same_in(cell, assumed[2], over) else None
            if known is not True and target.space is not None:
                self._skipped(deed, moment, wave, target, cell, how, want, (*condition, False))
            if known is False:
                return True
            assumed = (*condition, True)
        elif not deed.step.is_copy:
            assumed = None
        if deed.step.is_copy:
            return self._copied(site, deed, wave, cell, how, want, assumed)
        return self._computed(deed, moment, wave, cell, how, laid, want, assumed)

    def _skipped(
        self,
        deed: Deed,
        moment: Moment,
        wave: int,
        target: Touch,
        cell: Box,
        how: View,
        want: Want,
        assumed: Assumed,
    ) -> None:
        """If the step is skipped, the place must hold what it should already."""
        node = deed.node
        if not deed.step.is_copy and node.when == deed.step.when and node.otherwise is not None:
            at = iteration_of(node, moment.iteration, self._run.name(moment))
            if want.admits((node.name, at)):
                want = self._wants.operand(node, node.otherwise, at)
                dims = self._meaning[node.otherwise].type.dims
                how = tuple(how[node.type.dims.index(dim)] for dim in dims)
        self._demand(target, cell, how, want, moment, wave, assumed)

    def _copied(
        self,
        site: Site,
        deed: Deed,
        wave: int,
        cell: Box,
        how: View,
        want: Want,
        assumed: Assumed | None,
    ) -> bool:
        source, move = deed.source, deed.targets[0][1]
        moment = site.moment
        self._condition(deed, moment, wave)
        if want.kind == "number":
            how = ()
        found = behind(how, cell, move, source.box)
        if found is None:
            return False
        back, place = found
        if assumed is not None:
            over = behind(assumed[2], cell, move, source.box)
            assumed = None if over is None else (*assumed[:2], over[0], assumed[3])
        if source.space is None:
            return self._is_memory(source, moment, place, back, want)
        self._demand(source, place, back, want, moment, wave, assumed)
        return True

    def _computed(
        self,
        deed: Deed,
        moment: Moment,
        wave: int,
        cell: Box,
        how: View,
        laid: View,
        want: Want,
        assumed: Assumed | None,
    ) -> bool:
        node = deed.node
        at = iteration_of(node, moment.iteration, self._run.name(moment))
        before = self._wants.before(want, node, at, deed.reduced)
        if before is None or not same_in(cell, how, laid):
            return False
        part = value_box(laid, cell)
        once = (moment.group, moment.index, wave, part, assumed)
        if once not in self._supplied:
            self._supplied.add(once)
            self._operands(deed, moment, wave, at, part, assumed)
        if deed.adds_to is None:
            return node.init is None and before.kind == "number"
        touch, view_ = deed.adds_to
        place = storage_cell(view_, part, touch.box)
        self._demand(
            touch,
            place,
            self._seen_as(node, view_, before),
            before,
            moment,
            wave,
            self._given(assumed, node, view_),
        )
        return True

    def _seen_as(self, node: Node, laid: View, before: Want) -> View:
        """How what a sum begins with lies where ``node`` is ``laid``: its dimensions by name."""
        if node.init is None or before.kind == "number" or before.name == node.name:
            return laid
        dims = self._meaning[node.init].type.dims
        return tuple(laid[node.type.dims.index(dim)] for dim in dims)

    def _given(self, assumed: Assumed | None, value: Node, laid: View) -> Assumed | None:
        """A condition per element of a step, as one on the elements of an operand ``laid`` there.

        None where an operand's element serves several of the condition's: one may hold, one not.
        """
        if assumed is None:
            return None
        where = dict(zip(value.type.dims, laid, strict=True))
        dims = self._meaning[assumed[0]].type.dims
        if not all(
            dim in where or axis < 0 for dim, (axis, _) in zip(dims, assumed[2], strict=True)
        ):
            return None
        view = tuple(where.get(dim, how) for dim, how in zip(dims, assumed[2], strict=True))
        return (*assumed[:2], view, assumed[3])

    def _operands(
        self, deed: Deed, moment: Moment, wave: int, at: int, part: Box, assumed: Assumed | None
    ) -> None:
        """Every operand of ``part`` of the result, over all that the step reduces of it."""
        node = deed.node
        work = dict(zip(deed.domain, (*part, *deed.reduced), strict=True))
        for name, touch, _, laid in deed.reads:
            assert name is not None
            dims = self._meaning[name].type.dims
            box = tuple(work[dim] for dim in dims)
            want = self._wants.operand(node, name, at)
            # the condition itself must be right whether it holds or not
            given = None
            if name != deed.step.when:
                given = self._given(assumed, self._meaning[name], laid)
            cell = storage_cell(laid, box, touch.box)
            self._demand(touch, cell, laid, want, moment, wave, given)

    def _condition(self, deed: Deed, moment: Moment, wave: int) -> None:
        """That a copy runs where it should."""
        for name, touch, _, laid in deed.reads[1:]:
            assert name is not None
            node = self._meaning[name]
            want = self._wants.value(name, moment.iteration or 0)
            if node.region is Region.AFTER:
                want = self._wants.operand(node, name, 0)
            self._demand(touch, touch.box, laid, want, moment, wave, None)

    # --- whose value a write may hold -------------------------------------------------------------

    def may(self, site: Site, wave: int, cell: Box) -> frozenset[Identity]:
        """Whose value a write may bring, going by what each step says that it computes."""
        moment = site.moment
        key = moment.group, moment.index, site.which, wave, cell
        found = self._may.get(key)
        if found is not None:
            return found
        self._may[key] = frozenset()
        deed = self._run.deed(moment, wave)
        target = deed.targets[site.which][0]
        if not deed.step.is_copy:
            at = iteration_of(deed.node, moment.iteration, self._run.name(moment))
            found = frozenset({(deed.node.name, at)})
        elif deed.source.space is None:
            found = frozenset({self._memory(deed.source, moment)})
        else:
            back = behind((), cell, deed.targets[0][1], deed.source.box)
            assert back is not None
            found = self._may_hold(deed.source, back[1], moment, wave)
        if deed.condition is not None and target.space is not None:
            found |= self._may_hold(target, cell, moment, wave)
        self._may[key] = found
        return found

    def _may_hold(self, touch: Touch, box: Box, moment: Moment, wave: int) -> frozenset[Identity]:
        found: set[Identity] = set()
        assert touch.space is not None
        for cell in self.sight.cells(touch.space, touch.key, box, moment.group, wave):
            for item in self.sight.seen(touch.space, touch.key, cell, moment, wave):
                if item.site is None:
                    found.add(self._start(touch.key))
                else:
                    for owner in self._deciding(item.site, item.waves):
                        found |= self.may(item.site, owner, cell)
        return frozenset(found)
