"""Who touches which storage, for which value: the claims of the steps, made absolute.

A *value* is a node of the meaning at an iteration; carried values are those of their updates, so
that two steps mean the same value iff the pairs are equal. What a step claims is believed here and
checked by the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeloom.program import Access, Box, Meaning, Node, NodeKind, Program, Region, Space, Work
from pipeloom.program.tiles import overlap, project
from pipeloom.sync.walk import Event

Value = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Touch:
    """An access of one event to storage; ``value`` is what it is meant to hold, where known.

    ``boxes`` and ``parts`` (of the value) have one entry for all waves, or one per wave.
    """

    group: int
    event: int
    gap: int
    ordinal: int
    resource: str
    copy: int
    boxes: tuple[Box, ...]
    value: Value | None
    parts: tuple[Box, ...]
    writes: bool
    reads: bool


class Touches:
    """The touches of a program's events, and how two of them relate."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._spaces = {r.name: r for r in program.resources}
        self._sizes = [len(group.waves) for group in program.groups]
        self._relations: dict[tuple[int, ...], tuple[bool, bool, bool]] = {}

    def of(self, group: int, number: int, event: Event, total: int) -> Iterator[Touch]:
        """The accesses of an event to resources, reads first; ``total`` iterations are computed."""
        for ordinal, (access, value, parts, reads, writes) in enumerate(
            _claims(self._program.meaning, event, total)
        ):
            resource = self._spaces.get(access.resource)
            if resource is None:
                continue  # global memory
            boxes = access.boxes or (resource.type.whole,)
            yield Touch(
                *(group, number, event.gap, ordinal, access.resource, access.copy),
                *(boxes, value, parts, writes, reads),
            )

    def is_lds(self, touch: Touch) -> bool:
        """Whether waves share what it touches."""
        return self._spaces[touch.resource].space is Space.LDS

    def start(self, touch: Touch) -> float | None:
        """What its resource holds before the first step."""
        return self._spaces[touch.resource].start

    def related(self, a: Touch, b: Touch) -> tuple[bool, bool, bool]:
        """Whether they overlap in one wave, in two different ones, and in parts of a value."""
        key = (a.group, a.gap, a.ordinal, b.group, b.gap, b.ordinal)
        found = self._relations.get(key)
        if found is None:
            found = self._relations[key] = self._relate(a, b)
        return found

    def _relate(self, a: Touch, b: Touch) -> tuple[bool, bool, bool]:
        same = cross = fits = False
        if (a.resource, a.copy) != (b.resource, b.copy):
            return same, cross, fits
        for v in range(self._sizes[a.group]):
            for w in range(self._sizes[b.group]):
                if overlap(_at(a.boxes, v), _at(b.boxes, w)) is None:
                    continue
                own = a.group == b.group and v == w
                same, cross = same or own, cross or not own
                fits = (
                    fits
                    or not a.parts
                    or not b.parts
                    or (overlap(_at(a.parts, v), _at(b.parts, w)) is not None)
                )
        return same, cross, fits


def _at(boxes: Sequence[Box], wave: int) -> Box:
    return boxes[wave] if len(boxes) > 1 else boxes[0]


Claim = tuple[Access, Value | None, tuple[Box, ...], bool, bool]


def _claims(meaning: Meaning, event: Event, total: int) -> Iterator[Claim]:
    """Each access of an event with its value, the parts of it, and whether it reads and writes."""
    work = event.work
    node = meaning[work.node]
    value = _value(meaning, work.node, event.iteration, total)
    if work.is_copy:
        for access in work.reads:
            yield access, value, work.parts, True, False
        for access in work.writes:
            yield access, value, work.parts, False, True
        return
    domain = meaning.domain(node)

    def parts(of: Node) -> tuple[Box, ...]:
        if not set(of.type.dims) <= set(domain.dims):
            return ()
        return tuple(project(part, domain.dims, of.type.dims) for part in work.parts)

    names = _operands(node, work)
    for number, access in enumerate(work.reads):
        if number < len(names):
            operand = meaning[names[number]]
            meant = _value(meaning, operand.name, event.iteration, total)
            yield access, meant, parts(operand), True, False
        else:
            yield access, None, (), True, False
    for access in work.accumulates:
        yield access, value, parts(node), True, True
    for access in work.writes:
        yield access, value, parts(node), False, True


def _operands(node: Node, work: Work) -> tuple[str, ...]:
    init = () if node.init is None or work.accumulates else (node.init,)
    rest = tuple(name for name in (node.otherwise, node.when) if name is not None)
    return (*node.uses, *init, *rest)


def _value(meaning: Meaning, name: str, iteration: int | None, total: int) -> Value:
    """Whose value ``name`` has; outside of iterations a carry has its last."""
    node = meaning[name]
    if node.kind is NodeKind.OUTPUT:
        return _value(meaning, node.uses[0], iteration, total)
    at = iteration
    if at is None:
        at = total if node.kind is NodeKind.CARRY else 0
    elif node.region is not Region.LOOP:
        at = 0
    if at < 0:
        return name, at
    return meaning.source(name, at) or (name, -1)
