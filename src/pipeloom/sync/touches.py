"""Who touches which storage, for which value: the claims of the steps, made absolute.

A *value* is a node of the meaning at an iteration; carried values are those of their updates, so
that two steps mean the same value iff the pairs are equal. What a step claims is believed here and
checked by the proof.

Registers are cut into *cells*, along all boxes that a wave touches: two accesses overlap iff they
have a cell in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from pipeloom.program import Access, Box, Meaning, NodeKind, Region, Space, Work
from pipeloom.program.tiles import overlap, project
from pipeloom.sync.script import Scripts

Value = tuple[str, int]
Claim = tuple[Access, str | None, bool, bool]


@dataclass(frozen=True, slots=True, eq=False)
class StorageTouch:
    """An access of a group's step to storage; ``node`` is whose value it is meant to hold.

    ``place`` is the resource and its copy; ``boxes`` has one entry for all waves, or one per wave.
    ``shape`` is the number of the group's boxes and parts of the value, in LDS.
    """

    number: int
    group: int
    place: tuple[str, int]
    boxes: tuple[Box, ...]
    node: str | None
    shape: int
    reads: bool
    writes: bool

    def box(self, wave: int) -> Box:
        """What the ``wave``-th wave of the group touches."""
        return _at(self.boxes, wave)


@dataclass(frozen=True, slots=True, eq=False)
class StepTouches:
    """A step of a group: its touches of registers and of LDS, reads first.

    ``stores`` says whether it writes an output; ``cells`` has, for every kind of wave, the cells of
    each touch of registers.
    """

    work: Work
    registers: tuple[StorageTouch, ...]
    lds: tuple[StorageTouch, ...]
    stores: bool
    cells: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)


class Touches:
    """The touches of all steps, by group and gap, and how two of them relate."""

    def __init__(self, scripts: Scripts) -> None:
        program = scripts.program
        self.meaning = program.meaning
        self.starts = {r.name: r.start for r in program.resources}
        self.sites: list[dict[int, StepTouches]] = []
        self.kinds: list[int] = []
        self._types = {r.name: r for r in program.resources}
        self._sizes = [len(group.waves) for group in program.groups]
        self._shapes: dict[tuple[int, tuple[Box, ...], tuple[Box, ...]], int] = {}
        self._relations: dict[tuple[int, int], tuple[bool, bool, bool]] = {}
        self._count = 0
        for group, s in enumerate(scripts.script_of):
            rows = range(len(scripts.scripts[s].rows))
            works = (pair for row in rows for pair in scripts.works(group, row))
            sites = {gap: self._site(group, work) for gap, work in works}
            self.kinds.append(_cut(list(sites.values())))
            self.sites.append(sites)

    def _site(self, group: int, work: Work) -> StepTouches:
        found: dict[bool, list[StorageTouch]] = {False: [], True: []}
        for access, node, reads, writes in _claims(self.meaning, work):
            touched = self._types.get(access.resource)
            if touched is not None:  # else it is global memory
                is_lds = touched.space is Space.LDS
                boxes = access.boxes or (touched.type.whole,)
                parts = _parts(self.meaning, work, node) if is_lds else ()
                shape = self._shapes.setdefault((group, boxes, parts), len(self._shapes))
                place = (access.resource, access.copy)
                touch = StorageTouch(self._count, group, place, boxes, node, shape, reads, writes)
                found[is_lds].append(touch)
                self._count += 1
        outputs = (a.resource for a in work.writes if a.resource in self.meaning)
        stores = any(self.meaning[name].kind is NodeKind.OUTPUT for name in outputs)
        return StepTouches(work, tuple(found[False]), tuple(found[True]), stores)

    def related(self, a: StorageTouch, b: StorageTouch) -> tuple[bool, bool, bool]:
        """Whether two touches of one place overlap in one wave, in two different ones, and in parts
        of a value."""
        key = (a.shape, b.shape)
        found = self._relations.get(key)
        if found is None:
            found = self._relations[key] = self._relate(*key)
        return found

    @cached_property
    def _by_wave(self) -> list[tuple[int, dict[tuple[Box, Box | None], set[int]]]]:
        """By shape, its group, and each box with its part, and the waves that have it."""
        found = []
        for group, boxes, parts in self._shapes:
            waves: dict[tuple[Box, Box | None], set[int]] = {}
            for wave in range(self._sizes[group]):
                key = (_at(boxes, wave), _at(parts, wave) if parts else None)
                waves.setdefault(key, set()).add(wave)
            found.append((group, waves))
        return found

    def _relate(self, a: int, b: int) -> tuple[bool, bool, bool]:
        same = cross = fits = False
        (group, mine), (other, theirs) = self._by_wave[a], self._by_wave[b]
        for (box, part), waves in mine.items():
            for (its_box, its_part), its_waves in theirs.items():
                if overlap(box, its_box) is not None:
                    alone = len(waves | its_waves) == 1
                    same = same or (group == other and not waves.isdisjoint(its_waves))
                    cross = cross or group != other or not alone
                    unknown = part is None or its_part is None
                    fits = fits or unknown or overlap(part or (), its_part or ()) is not None
        return same, cross, fits

    def value(self, name: str, iteration: int | None, total: int) -> Value:
        """Whose value ``name`` has; outside of iterations a carry has its last of ``total``."""
        node = self.meaning[name]
        if node.kind is NodeKind.OUTPUT:
            return self.value(node.uses[0], iteration, total)
        at = iteration
        if at is None:
            at = total if node.kind is NodeKind.CARRY else 0
        elif node.region is not Region.LOOP:
            at = 0
        if at < 0:
            return name, at
        return self.meaning.source(name, at) or (name, -1)


def _at(boxes: Sequence[Box], wave: int) -> Box:
    return boxes[wave] if len(boxes) > 1 else boxes[0]


def _cut(sites: Sequence[StepTouches]) -> int:
    """Give the sites of a group their cells, for one wave of each kind that uses other boxes.

    Returns how many kinds there are.
    """
    touches = [touch for site in sites for touch in site.registers]
    apart = [touch.boxes for touch in touches if len(touch.boxes) > 1]
    kinds: dict[tuple[Box, ...], int] = {}
    for wave in range(max(map(len, apart), default=1)):
        kinds.setdefault(tuple(boxes[wave] for boxes in apart), wave)
    for wave in kinds.values():
        cells = _cells(touches, wave)
        for site in sites:
            site.cells.append(tuple(cells[touch.number] for touch in site.registers))
    return len(kinds)


def _cells(touches: Sequence[StorageTouch], wave: int) -> dict[int, tuple[int, ...]]:
    """The cells of each touch, by number, in one wave."""
    boxes = dict.fromkeys((touch.place, touch.box(wave)) for touch in touches)
    cuts: dict[tuple[str, int], list[set[int]]] = {}
    for place, box in boxes:
        for axis, ends in zip(cuts.setdefault(place, [set() for _ in box]), box, strict=True):
            axis.update(ends)
    numbers: dict[tuple[object, ...], int] = {}
    found = {}
    for place, box in boxes:
        axes = zip(cuts[place], box, strict=True)
        spans = [[cut for cut in axis if low <= cut < high] for axis, (low, high) in axes]
        corners = product([place], *spans)
        found[place, box] = tuple(numbers.setdefault(c, len(numbers)) for c in corners)
    return {touch.number: found[touch.place, touch.box(wave)] for touch in touches}


def _claims(meaning: Meaning, work: Work) -> Iterator[Claim]:
    """Each access of a step, whose value it is meant to hold, and whether it reads and writes."""
    node = meaning[work.node]
    init = () if node.init is None or work.accumulates else (node.init,)
    rest = tuple(name for name in (node.otherwise, node.when) if name is not None)
    operands = (*node.uses, *init, *rest)
    for number, access in enumerate(work.reads):
        known = operands[number] if number < len(operands) else None
        yield access, work.node if work.is_copy else known, True, False
    for access in work.accumulates:
        yield access, work.node, True, True
    for access in work.writes:
        yield access, work.node, False, True


def _parts(meaning: Meaning, work: Work, name: str | None) -> tuple[Box, ...]:
    """The parts of a value that a step touches, by wave."""
    if work.is_copy or name is None:
        return work.parts if work.is_copy else ()
    domain, dims = meaning.domain(meaning[work.node]), meaning[name].type.dims
    if not set(dims) <= set(domain.dims):
        return ()
    return tuple(project(part, domain.dims, dims) for part in work.parts)
