"""What a write needs so that it brings a value: the same in every trip and run, so worked out once.

Waves of a group run the same steps on different boxes, so most of what they need is the same but
for where its elements come from. A ``Spot`` is a place that several waves read alike, and a
``Supply`` says which spots a write of several waves rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeloom.judge.verify.deeds import FILES, Deed, Deeds, Key, WaveAccess
from pipeloom.judge.verify.views import View, behind, same_in, storage_cell, value_box
from pipeloom.program import Box, Node, Program, Space, Work
from pipeloom.program.tiles import contains


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """``cell`` of a place as ``waves`` of one group read it, each with its own view of the value.

    Waves stand together only where whatever one of them may find there each of them may.
    """

    space: Space | None
    key: Key
    cell: Box
    waves: tuple[int, ...]
    hows: tuple[View, ...]
    place: int
    """A number for ``key`` as ``waves`` see it: where it is the same, so are the writes."""


Over = tuple[View, ...]
"""How a condition lies over a place, in each of several waves."""
Asked = tuple[Spot, Over | None]
"""A spot, and how a condition under which alone it matters lies over it."""


@dataclass(frozen=True, slots=True, eq=False)
class Supply:
    """What a write of some waves rests on. ``source`` is what a copy moves.

    ``fits`` is False if the write surely is something else: another part of the value. ``rest``
    is where what it adds to must be, ``start`` the same place as that which a sum begins with lies
    there. ``memory`` is a copy's source outside of the workgroup.
    """

    node: Node
    waves: tuple[int, ...]
    hows: tuple[View, ...]
    fits: bool
    condition: tuple[str, Over] | None
    reduced: Box
    operands: tuple[tuple[str, Asked], ...] = ()
    rest: tuple[Asked, ...] = ()
    start: tuple[Asked, ...] = ()
    source: tuple[Asked, ...] = ()
    memory: WaveAccess | None = None
    straight: bool = True


Read = tuple[int, WaveAccess, Box, View, View | None]
Cohort = list[tuple[int, Deed, Box, View, View | None]]


class Plans:
    """Of one program."""

    def __init__(self, program: Program, deeds: Deeds) -> None:
        self.program = program
        self.deeds = deeds
        self._writes: dict[tuple[int, int], list[tuple[WaveAccess, Mapping[int, Box]]]] = {}
        self._alike: dict[tuple[int, Key], Mapping[int, object]] = {}
        self._registers: dict[tuple[int, int], tuple[frozenset[Key], tuple[Key, ...]]] = {}
        self._spots: dict[tuple[object, ...], Spot] = {}
        self._places: dict[tuple[Key, tuple[int, ...]], int] = {}
        self._plans: dict[tuple[object, ...], tuple[Supply, ...]] = {}
        self._owners: dict[tuple[int, Key, Box], dict[int, tuple[int, ...]]] = {}
        self._writers: dict[tuple[int, Key], list[tuple[bool, Mapping[int, Box]]]] = {}
        self._classes: dict[tuple[Box, ...], int] = {}
        for (number, step), mine in deeds.items():
            some = next(iter(mine.values()))
            self._writes[number, step] = [
                (touch, {wave: deed.targets[which][0].box for wave, deed in mine.items()})
                for which, (touch, _) in enumerate(some.targets)
            ]
            alike = mine[program.groups[number].waves[0]].alike
            for touch, boxes in self._writes[number, step]:
                same = self._writers.setdefault((number, touch.key), [])
                same.append((alike and touch.shared, boxes))

    def writes(self, group: int, step: Work) -> list[tuple[WaveAccess, Mapping[int, Box]]]:
        """What a step writes, with the box of each wave."""
        return self._writes[group, id(step)]

    def registers(self, group: int, step: Work) -> tuple[frozenset[Key], tuple[Key, ...]]:
        """The registers that a step reads, and those that are in flight from it on."""
        found = self._registers.get((group, id(step)))
        if found is None:
            deed = next(iter(self.deeds[group, id(step)].values()))
            loaded = deed.targets if step.counter is not None else ()
            found = self._registers[group, id(step)] = (
                frozenset(touch.key for touch in deed.of_registers),
                tuple(touch.key for touch, _ in loaded if touch.space in FILES),
            )
        return found

    def owners(
        self, groups: Iterable[int], wave: int, key: Key, cell: Box
    ) -> Mapping[int, tuple[int, ...]]:
        """Who writes a cell, by identity of the boxes of a step's write, of those that do.

        ``wave`` is -1 for all, of all ``groups``. Trips and runs share it.
        """
        found = self._owners.get((wave, key, cell))
        if found is None:
            found = self._owners[wave, key, cell] = {}
            for group in groups:
                for _, boxes in self._writers.get((group, key), ()):
                    waves = boxes if wave < 0 else [wave] if wave in boxes else []
                    mine = tuple(w for w in waves if contains(boxes[w], cell))
                    if mine:
                        found[id(boxes)] = mine
        return found

    def spot(
        self,
        space: Space | None,
        key: Key,
        cell: Box,
        waves: tuple[int, ...],
        hows: tuple[View, ...],
    ) -> Spot:
        """The one of that description."""
        at = key, cell, waves, hows
        found = self._spots.get(at)
        if found is None:
            place = self._places.setdefault((key, waves), len(self._places))
            found = self._spots[at] = Spot(space, key, cell, waves, hows, place)
        return found

    def spots(self, group: int, reads: Iterable[Read]) -> tuple[Asked, ...]:
        """Reads of one place by several waves, those that are alike together.

        In LDS, each of them may find what any wave has written, so they must see it alike.
        """
        found: dict[tuple[object, ...], list[Read]] = {}
        for read in reads:
            wave, touch, cell, how, over = read
            own = touch.space is not None and touch.space is not Space.LDS
            as_seen = over is None if own else (how, over)
            key = cell, self._class(group, touch)[wave], as_seen
            found.setdefault(key, []).append(read)
        return tuple(
            (
                self.spot(
                    together[0][1].space,
                    together[0][1].key,
                    together[0][2],
                    tuple(read[0] for read in together),
                    tuple(read[3] for read in together),
                ),
                _together([read[4] for read in together]),
            )
            for together in found.values()
        )

    def _class(self, group: int, touch: WaveAccess) -> Mapping[int, object]:
        """Which waves find the same in a place: by wave, equal for those.

        In registers, if they write the same boxes of it; in LDS, if their own writes are no other
        than those of any wave of the group.
        """
        found = self._alike.get((group, touch.key))
        if found is None:
            waves = self.program.groups[group].waves
            writes = self._writers.get((group, touch.key), [])
            if touch.space is None or (
                touch.space is Space.LDS and all(shared for shared, _ in writes)
            ):
                found = dict.fromkeys(waves)
            elif touch.space is Space.LDS:
                found = {wave: wave for wave in waves}
            else:
                own = {wave: tuple(boxes[wave] for _, boxes in writes) for wave in waves}
                known = self._classes
                found = {wave: known.setdefault(boxes, len(known)) for wave, boxes in own.items()}
            self._alike[group, touch.key] = found
        return found

    def of(
        self,
        group: int,
        step: Work,
        which: int,
        waves: tuple[int, ...],
        cell: Box | None,
        hows: tuple[View, ...],
        over: Over | None = None,
        spot: Spot | None = None,
    ) -> tuple[Supply, ...]:
        """What the write of ``cell`` by ``waves`` rests on, the value being seen as ``hows``.

        No cell means all that each wave writes; ``over`` is how a condition lies there. Waves whose
        steps differ in more than where their parts lie have plans of their own. A ``spot`` whose
        waves and views these are says so in one word: hashing all views takes longer than the rest.
        """
        seen_as = (waves, hows) if spot is None else spot
        at = id(step), which, cell, seen_as, over
        found = self._plans.get(at)
        if found is None:
            mine = self.deeds[group, id(step)]
            cohorts: dict[tuple[object, ...], Cohort] = {}
            for n, (wave, how) in enumerate(zip(waves, hows, strict=True)):
                deed = mine[wave]
                place = deed.targets[which][0].box if cell is None else cell
                cohort = cohorts.setdefault((deed.reduced,), [])
                cohort.append((wave, deed, place, how, None if over is None else over[n]))
            make = self._copy if step.is_copy else self._compute
            found = tuple(make(group, which, cohort) for cohort in cohorts.values())
            self._plans[at] = found
        return found

    def _copy(self, group: int, _: int, cohort: Cohort) -> Supply:
        deed = cohort[0][1]
        sources: list[Read] = []
        straight = True
        for wave, mine, cell, how, outer in cohort:
            over = outer if mine.condition is None else mine.condition[1]
            source, move = mine.source, mine.targets[0][1]
            found = behind(how, cell, move, source.box)
            if found is not None:
                back, place = found
                given = None if over is None else behind(over, cell, move, source.box)
                sources.append((wave, source, place, back, given and given[0]))
                straight &= source.space is not None or is_straight(place, back, source.dims)
        memory = deed.source if deed.source.space is None else None
        return Supply(
            deed.node,
            tuple(wave for wave, *_ in cohort),
            tuple(how for *_, how, _ in cohort),
            len(sources) == len(cohort),
            _condition(cohort),
            deed.reduced,
            operands=tuple(
                (deed.reads[n][0] or "", asked)
                for n in range(1, len(deed.reads))
                for asked in self.spots(
                    group,
                    [
                        (wave, touch, touch.box, lies, None)
                        for wave, mine, *_ in cohort
                        for _, touch, _, lies in (mine.reads[n],)
                    ],
                )
            ),
            source=() if memory is not None else self.spots(group, sources),
            memory=memory,
            straight=straight,
        )

    def _compute(self, group: int, which: int, cohort: Cohort) -> Supply:
        meaning, deed = self.program.meaning, cohort[0][1]
        node = deed.node
        reads: list[list[Read]] = [[] for _ in deed.reads]
        rest: list[Read] = []
        start: list[Read] = []
        fits = True
        for wave, mine, cell, how, _ in cohort:
            laid = mine.targets[which][1]
            fits &= same_in(cell, how, laid)
            part = value_box(laid, cell)
            work = dict(zip(mine.domain, (*part, *mine.reduced), strict=True))
            for mentions, (name, touch, _, lies) in zip(reads, mine.reads, strict=True):
                assert name is not None
                box = tuple(work[dim] for dim in meaning[name].type.dims)
                # the condition itself must be right whether it holds or not
                given = None if name == deed.step.when else self._given(mine, meaning[name], lies)
                mentions.append((wave, touch, storage_cell(lies, box, touch.box), lies, given))
            if mine.adds_to is not None:
                touch, lies = mine.adds_to
                place, given = storage_cell(lies, part, touch.box), self._given(mine, node, lies)
                rest.append((wave, touch, place, lies, given))
                dims = (node if node.init is None else meaning[node.init]).type.dims
                seen_as = tuple(lies[node.type.dims.index(dim)] for dim in dims)
                start.append((wave, touch, place, seen_as, given))
        return Supply(
            node,
            tuple(wave for wave, *_ in cohort),
            tuple(how for *_, how, _ in cohort),
            fits,
            _condition(cohort),
            deed.reduced,
            operands=tuple(
                (deed.reads[n][0] or "", asked)
                for n, mentions in enumerate(reads)
                for asked in self.spots(group, mentions)
            ),
            rest=self.spots(group, rest),
            start=self.spots(group, start),
        )

    def _given(self, deed: Deed, value: Node, laid: View) -> View | None:
        """A condition per element of a step, as one on the elements of an operand ``laid`` there.

        None where an operand's element serves several of the condition's: one may hold, one not.
        """
        if deed.condition is None:
            return None
        name, over = deed.condition
        where = dict(zip(value.type.dims, laid, strict=True))
        dims = self.program.meaning[name].type.dims
        if not all(dim in where or axis < 0 for dim, (axis, _) in zip(dims, over, strict=True)):
            return None
        return tuple(where.get(dim, how) for dim, how in zip(dims, over, strict=True))


def _condition(cohort: Cohort) -> tuple[str, Over] | None:
    """What may skip a step, as it lies over what each wave writes."""
    found = [deed.condition for _, deed, *_ in cohort if deed.condition is not None]
    return (found[0][0], tuple(laid for _, laid in found)) if found else None


def _together(views: list[View | None]) -> Over | None:
    """The views of several waves: they have one each, or none has."""
    found = tuple(view for view in views if view is not None)
    return found or None


def is_straight(cell: Box, how: View, dims: tuple[str, ...]) -> bool:
    """Whether ``cell`` of global memory lies there as the value does."""
    return same_in(cell, how, tuple((axis, 0) for axis in range(len(dims))))
