"""Every trip count from a few: a proof in which trips repeat can be stretched.

The proof of a run is local: each demand rests on the writes that a read can see, and these lie a
few trips before or after it. Take a loop that runs T trips and a cut behind its trip c. If the
demands on the trips around the cut are the same, up to a shift of the iteration, then put in a trip
after c: the demands on trips up to c stay as they are, those behind it move by one trip, and again
every demand rests on demands that are met. So the run of T + 1 trips has a proof, and the same cut.

What has to hold (``repeats``), with ``back`` and ``ahead`` how many trips across the cut a demand
reaches, and ``apart`` a distance in trips from which on all accesses are ordered by themselves:

    the demands on trips c - back + 1 .. c + ahead equal those one period earlier
    behind the cut, only values that are the same in every trip come from before the loop,
    and before it nothing comes from after the loop
    the cut is ``back + apart`` trips from the loop's start and ``ahead + apart`` from its end,
    so that what a read sees there does not depend on how many trips there are

More trips can only make an access retire earlier (each wait finds at least as many younger
entries), and more order only shrinks what a read can see. All groups must loop alike: one section
per trip count, the same barriers per trip, the same advance, later sections following on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from pipeloom.judge.verify.dated_run import NEVER, Moment
from pipeloom.judge.verify.deeds import Key
from pipeloom.judge.verify.obligations import Reliance, RunOutcome
from pipeloom.judge.verify.run_tables import RunTables, WriteSite
from pipeloom.judge.verify.wants import Want
from pipeloom.program import Barrier, Program, Section, Space, Work

MAX_PERIOD = 4

Cut = tuple[int, int]
"""A trip behind which trips can be put in, and how many at a time."""


@dataclass(frozen=True, slots=True)
class LoopShape:
    """Where each group has the loop of one trip count, and by how much a trip advances."""

    name: str
    sections: tuple[int, ...]
    advance: int


def loop_shape(program: Program, name: str) -> LoopShape | None:
    """The loop of a trip count, if all groups loop alike."""
    places, advances, barriers = [], set(), set()
    for group in program.groups:
        found = [i for i, s in enumerate(group.sections) if s.trips == name]
        if len(found) != 1:
            return None
        section = group.sections[found[0]]
        places.append(found[0])
        barriers.add(sum(isinstance(step, Barrier) for step in section.steps))
        if _serves(section):
            advances.add(section.advance)
    if len(advances) > 1 or len(barriers) > 1:
        return None
    advance = advances.pop() if advances else dict(program.iterations.factors).get(name, 0)
    if dict(program.iterations.factors).get(name, 0) != advance:
        return None
    for group, at in zip(program.groups, places, strict=True):
        for i, section in enumerate(group.sections):
            moves = dict(section.first.factors).get(name, 0)
            if _serves(section) and moves != (advance if i > at else 0):
                return None
    return LoopShape(name, tuple(places), advance)


def _serves(section: Section) -> bool:
    return any(isinstance(s, Work) and s.iteration is not None for s in section.steps)


def repeats(run: RunTables, outcome: RunOutcome, shape: LoopShape) -> Cut | None:
    """A cut and a period with which the run's proof can be stretched."""
    trips = run.trips[shape.name]
    if trips < 3:
        return None
    loop = _Loop(run, shape, trips)
    apart = loop.apart({edge.demand.key for edge in outcome.edges} & loop.touched())
    if apart is None or not loop.has_room(apart):
        return None
    for edge in outcome.edges:
        loop.add(edge)
    for period in range(1, MAX_PERIOD + 1):
        for cut in range(period, trips - 1):
            if loop.can_stretch(cut, period, apart):
                return cut, period
    return None


def is_settled(top: int, found: Sequence[tuple[int, Cut | None]]) -> bool:
    """Whether runs with up to ``top`` trips of a loop stand for all longer ones.

    ``found`` are their trips and cuts. A longer run is one of the last with trips put in, if these
    can all be stretched by one number of trips, and there are as many of them as it says.
    """
    period = max((cut[1] for at, cut in found if at == top and cut), default=1)
    return all(cut is not None and cut[1] in (1, period) for at, cut in found if at > top - period)


class _Loop:
    """One loop of a run: what is demanded in each trip, and who reaches how far.

    What is demanded is written down only of trips that are compared: those around a cut.
    """

    def __init__(self, run: RunTables, shape: LoopShape, trips: int) -> None:
        self._run = run
        self._shape = shape
        self._trips = trips
        self._edges: list[list[Reliance]] = [[] for _ in range(trips)]
        self._demands: dict[int, set[Hashable]] = {}
        self._reaches: set[tuple[int, int]] = set()
        self._fixed: set[tuple[int, int]] = set()
        self._spread = self._output_spread()

    def _at(self, moment: Moment) -> int:
        """The trip; -1 before the loop, the number of trips after it."""
        section = self._shape.sections[moment.group]
        if moment.section == section:
            assert moment.trip is not None
            return moment.trip
        return -1 if moment.section < section else self._trips

    def add(self, edge: Reliance) -> None:
        """Note a demand and how far it reaches."""
        demand = edge.demand
        at = self._at(demand.moment)
        reaches = self._fixed if demand.want.is_fixed else self._reaches
        for site, _ in edge.seen:
            reaches.add((at, -1 if site is None else self._at(site.moment)))
        if 0 <= at < self._trips:
            self._edges[at].append(edge)

    def _demanded(self, trip: int) -> set[Hashable]:
        """What is demanded in a trip and what it rests on, counted from there."""
        found = self._demands.get(trip)
        if found is None:
            found = self._demands[trip] = {self._relative(edge, trip) for edge in self._edges[trip]}
        return found

    def _relative(self, edge: Reliance, at: int) -> Hashable:
        demand, cell, seen = edge
        moment, assumed = demand.moment, demand.assumed
        if assumed is not None:
            assumed = (assumed[0], assumed[1] - moment.base, *assumed[2:])
        sources = tuple([(self._name(site, at), waves) for site, waves in seen])
        want = _relative(demand.want, moment.base)
        return moment.group, moment.slot, demand.spot, cell, want, assumed, sources

    def _name(self, site: WriteSite | None, at: int) -> Hashable:
        if site is None:
            return None
        moment = site.moment
        there = self._at(moment)
        trip = there - at if 0 <= there < self._trips else moment.trip
        return moment.group, moment.section, moment.slot, site.which, trip

    def has_room(self, apart: int) -> bool:
        """Whether any cut is as far from both ends as all cuts must be, whatever is demanded."""
        return 2 * (self._spread + apart) < self._trips

    def can_stretch(self, cut: int, period: int, apart: int) -> bool:
        """Whether ``period`` more trips behind ``cut`` leave the proof as it is."""
        back, ahead = self._spread, self._spread
        for at, there in self._reaches:
            if (at > cut and there < 0) or (at <= cut and there >= self._trips):
                return False
            if at > cut >= there:
                back = max(back, cut - there + 1)
            elif at <= cut < there:
                ahead = max(ahead, there - cut)
        for at, there in self._fixed:
            if at <= cut and there >= self._trips:
                return False
            if at > cut >= there >= 0:
                back = max(back, cut - there + 1)
            elif at <= cut < there:
                ahead = max(ahead, there - cut)
        if cut < back + apart or self._trips - 1 - cut < ahead + apart:
            return False
        first = cut - max(back, 1) + 1
        return first >= period and all(
            self._demanded(t) == self._demanded(t - period) for t in range(first, cut + ahead + 1)
        )

    def _output_spread(self) -> int:
        """Over how many trips the stores of one iteration are spread."""
        steps = [
            step.iteration
            for number, at in enumerate(self._shape.sections)
            for step in self._run.program.groups[number].sections[at].steps
            if isinstance(step, Work)
            and step.iteration is not None
            and any(touch.space is None for touch, _ in self._run.plans.writes(number, step))
        ]
        if not steps or not self._shape.advance:
            return 0
        return -(-(max(steps) - min(steps)) // abs(self._shape.advance))

    def apart(self, keys: set[Key]) -> int | None:
        """From which distance in trips on accesses of ``keys`` are ordered in any case.

        Other places concern no output, or not this loop: what is in flight there may pile up, and
        trips that are put in do not meet it.
        """
        span = self._trips + 2
        first, last = [NEVER] * span, [-1] * span  # epochs of LDS, over all waves
        unordered = set[int]()
        spaces: dict[tuple[int, int], set[Space]] = {}
        for walk in self._run.walks:
            begin, end = [NEVER] * span, [-1] * span  # positions in the wave
            for moment in walk.moments:
                if not isinstance(moment.step, Work):
                    continue
                at = self._at(moment) + 1
                begin[at] = min(begin[at], moment.issue)
                step = moment.group, id(moment.step)
                touched = spaces.get(step)
                if touched is None:
                    touched = spaces[step] = self._touched(step, keys)
                if touched:
                    end[at] = max(end[at], moment.retire)
                if Space.LDS in touched:
                    first[at] = min(first[at], moment.issue_epoch)
                    last[at] = max(last[at], moment.retire_epoch)
            unordered |= _unordered(begin, end, strict=False)
        if self._run.program.waves > 1:
            unordered |= _unordered(first, last, strict=True)
        apart = max(unordered, default=0) + 1
        return apart if apart <= self._trips else None

    def touched(self) -> set[Key]:
        """Every place that the loop itself touches, in any group."""
        found = set[Key]()
        steps = {
            (moment.group, id(moment.step))
            for walk in self._run.walks
            for moment in walk.moments
            if isinstance(moment.step, Work) and 0 <= self._at(moment) < self._trips
        }
        for step in steps:
            deed = next(iter(self._run.plans.deeds[step].values()))
            found |= {touch.key for touch, _ in deed.targets}
            found |= {touch.key for _, touch, _, _ in deed.reads}
        return found

    def _touched(self, step: tuple[int, int], keys: set[Key]) -> set[Space]:
        """Where a step writes, and LDS if it reads there (registers are read at issue)."""
        deed = next(iter(self._run.plans.deeds[step].values()))
        found = {touch.space for touch, _ in deed.targets if touch.key in keys}
        reads = {touch.space for _, touch, _, _ in deed.reads if touch.key in keys}
        return {space for space in found | (reads & {Space.LDS}) if space is not None}


def _unordered(first: list[int], last: list[int], *, strict: bool) -> set[int]:
    """Distances at which what ends ``last`` in one trip meets what begins ``first`` in another."""
    found = set()
    for one, end in enumerate(last):
        for other in range(one + 1, len(first)):
            if end >= first[other] if strict else end > first[other]:
                found.add(other - one)
    return found


def _relative(want: Want, base: int) -> Want:
    if want.is_fixed:
        return want
    rest = tuple([(i - base, boxes) for i, boxes in want.rest])
    return Want(want.kind, want.name, want.iteration - base, rest, want.number)
