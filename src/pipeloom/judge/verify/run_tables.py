"""The tables of one run: who writes which place when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeloom.errors import StructureError
from pipeloom.judge.verify.dated_run import GroupWalk, Moment, walk_group
from pipeloom.judge.verify.deeds import Deed, Key
from pipeloom.judge.verify.supply import Plans
from pipeloom.judge.verify.wants import NOTHING, Identity, Wants
from pipeloom.program import Box, Node, NodeKind, Program, Region, Space, Work


@dataclass(slots=True, eq=False)
class WriteSite:
    """A write: the ``which``-th target of a step, with the box of each wave of the group.

    Where several groups make the same shared write, all their waves may make it together, so that
    each wrote a slice only: such sites are ``partners``. ``again`` are all writes of the same step,
    trip by trip, in which each wave has the same slice.
    """

    moment: Moment
    which: int
    shared: bool
    boxes: Mapping[int, Box]
    again: list[WriteSite]
    first_epoch: int
    """In which it is issued, by itself or by the first of its partners."""
    partners_retire: int = -1
    """The epoch in which the last of its partners retires."""
    partners: list[WriteSite] = field(default_factory=list)


@dataclass(slots=True)
class RunTables:
    """One run. Sites of a place are in program order, those of LDS group by group."""

    program: Program
    plans: Plans
    trips: Mapping[str, int]
    wants: Wants
    walks: list[GroupWalk]
    lds: dict[Key, list[WriteSite]] = field(default_factory=dict)
    registers: dict[tuple[int, Key], list[WriteSite]] = field(default_factory=dict)
    stores: list[WriteSite] = field(default_factory=list)
    starts: dict[str, float | None] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All trips of all loops."""
        return sum(self.trips.values())

    def deed(self, moment: Moment, wave: int) -> Deed:
        """What a step does in a wave."""
        return self.plans.deeds[moment.group, id(moment.step)][wave]

    def deciding(self, site: WriteSite, waves: tuple[int, ...]) -> tuple[int, ...]:
        """The waves whose write has to be looked at: one, where all bring the same."""
        return waves[:1] if self.deed(site.moment, waves[0]).alike else waves

    def iteration(self, node: Node, moment: Moment) -> int:
        """The iteration that a step of ``node`` serves; 0 outside of the loop."""
        if node.region is not Region.LOOP or node.kind in (NodeKind.RESIDENT, NodeKind.SCALAR):
            return 0
        if moment.iteration is None:
            where = self.name(moment)
            raise StructureError(
                f"{where} serves {node.name!r}, which has a value per iteration, but names none",
                hint="give the step an iteration",
                field=where,
            )
        return moment.iteration

    def memory(self, node: Node, moment: Moment) -> Identity:
        """Whose value a step finds in global memory under a node's name."""
        if node.kind is NodeKind.OUTPUT:
            return NOTHING
        if node.kind is NodeKind.CONSTANT:
            assert node.start is not None
            return ("#", node.start)
        return node.name, self.iteration(node, moment)

    def start(self, key: Key) -> Identity:
        """What a place holds before the first step."""
        start = self.starts[key[0]]
        return NOTHING if start is None else ("#", start)

    def last(self) -> Moment:
        """The last step of the first group that executes any; its first if none does."""
        for walk in self.walks:
            if walk.moments:
                return walk.moments[-1]
        sections = self.program.groups[0].sections
        at = next(i for i, section in enumerate(sections) if section.steps)
        return Moment(0, 0, at, 0, None, sections[at].steps[0], None, 0, 0, 0, 0)

    def name(self, moment: Moment) -> str:
        """``loop[12]``."""
        return f"{self.walks[moment.group].section(moment).name}[{moment.slot}]"


def build_run(plans: Plans, trips: Mapping[str, int], counter_stall: bool | None) -> RunTables:
    """Walk every group and note its writes."""
    program = plans.program
    walks = [walk_group(program, g, trips, counter_stall) for g in range(len(program.groups))]
    wants = Wants(program.meaning, program.iterations.at(trips), program.plain_at(trips))
    run = RunTables(program, plans, trips, wants, walks)
    run.starts = {r.name: r.start for r in program.resources}
    for number, walk in enumerate(walks):
        again: dict[tuple[int, int, int], list[WriteSite]] = {}
        for moment in walk.moments:
            if not isinstance(moment.step, Work):
                continue
            for which, (touch, boxes) in enumerate(plans.writes(number, moment.step)):
                same = again.setdefault((moment.section, moment.slot, which), [])
                site = WriteSite(moment, which, touch.shared, boxes, same, moment.issue_epoch)
                same.append(site)
                if touch.space is None:
                    run.stores.append(site)
                elif touch.space is Space.LDS:
                    run.lds.setdefault(touch.key, []).append(site)
                else:
                    run.registers.setdefault((number, touch.key), []).append(site)
    if len(walks) > 1:
        for sites in run.lds.values():
            _pair(sites)
    return run


def _pair(sites: list[WriteSite]) -> None:
    """Find the shared writes that several groups make alike: the n-th of one value to one box."""
    alike: dict[tuple[object, ...], list[WriteSite]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for site in sites:
        if site.shared and isinstance(site.moment.step, Work):
            step, moment = site.moment.step, site.moment
            name = (step.node, moment.iteration, step.is_copy, frozenset(site.boxes.values()))
            seen[moment.group, name] += 1
            alike.setdefault((*name, seen[moment.group, name]), []).append(site)
    for group in alike.values():
        for site in group:
            site.partners = [other for other in group if other is not site]
            site.first_epoch = min(other.moment.issue_epoch for other in group)
            others = (other.moment.retire_epoch for other in site.partners)
            site.partners_retire = max(others, default=-1)
