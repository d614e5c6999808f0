"""The dependence graph of a program's loops: ops, and what each must follow.

Within a group, data flow in the order of its steps: a read takes what the last writes to that
storage left (flow), and a write must follow the reads of what it replaces (anti). Between groups no
order of steps is given; there, values are matched by the iteration that the steps name. The
distance of an edge is in trips of the loop:

    load A k+1  ->  read A     distance 1: the load of the trip before
    read A      ->  mma        distance 0
    read A      ->  load A     anti, distance 0: the buffer that it read is loaded anew
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipeloom.dependence_times import DependenceTimes
from pipeloom.program import Access, Box, Program, Section, Space, Work
from pipeloom.program.tiles import overlap, subtract
from pipeloom.show.step_rows import Listing, offset_text

FLOW, ANTI, OUTPUT = range(3)
KINDS = ("flow", "anti", "output")


class GraphNode(NamedTuple):
    """A node of the graph; ``offset`` says for which iteration it works (`` k+1``)."""

    label: str
    role: str
    latency: int
    offset: str = ""


class GraphEdge(NamedTuple):
    """``consumer`` of trip t + distance must follow ``producer`` of trip t."""

    producer: int
    consumer: int
    kind: int = FLOW
    distance: int = 0


@dataclass(frozen=True)
class Graph(DependenceTimes):
    """Ops and edges, and when each op can start: in cycles, by the edges of distance 0 alone."""

    ops: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    @cached_property
    def latencies(self) -> tuple[int, ...]:
        """Cycles from the start of each op to its result."""
        return tuple(op.latency for op in self.ops)

    def within(self) -> Iterator[tuple[int, int]]:
        """Producer and consumer of every edge of distance 0."""
        return ((e.producer, e.consumer) for e in self.edges if e.distance == 0)

    @property
    def critical(self) -> tuple[int, ...]:
        """``critical_path``; none without latencies."""
        return self.critical_path if self.longest_path else ()


def graph_of(program: Program, listing: Listing) -> tuple[Graph, tuple[int, ...]]:
    """The graph of all loops, or of everything where there is none; and each row's op, or -1.

    A row outside of the loops stands for the op of its track with the same name; the n-th such row
    of a section for the n-th such op.
    """
    works = [n for n, row in enumerate(listing.rows) if isinstance(row.step, Work)]
    numbers = [n for n in works if listing.rows[n].section.trips is not None] or works
    op_of = {row: op for op, row in enumerate(numbers)}
    ops = []
    for n in numbers:
        row = listing.rows[n]
        latency = program.latency(row.step) if isinstance(row.step, Work) else 0
        ops.append(GraphNode(row.label, row.role, latency, offset_text(program, row.step)))
    bodies = list(_bodies(program, listing, op_of))
    edges = {edge for body in bodies for edge in _within(program, body)}
    edges |= {e for a in bodies for b in bodies if a is not b for e in _between(program, a, b)}
    others = sorted(edge for edge in edges if edge.producer != edge.consumer)
    return Graph(tuple(ops), tuple(others)), _ops_of_rows(listing, op_of)


def _ops_of_rows(listing: Listing, op_of: dict[int, int]) -> tuple[int, ...]:
    named: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, op in op_of.items():
        named[listing.rows[number].track, listing.rows[number].label].append(op)
    turn: dict[tuple[int, str, str], int] = defaultdict(int)
    found = []
    for number, row in enumerate(listing.rows):
        ops = named.get((row.track, row.label), []) if isinstance(row.step, Work) else []
        key = (row.track, row.section.name, row.label)
        found.append(op_of.get(number, ops[turn[key] % len(ops)] if ops else -1))
        turn[key] += 1
    return tuple(found)


Place = tuple[str, int]
"""A resource and a copy of it."""


@dataclass(frozen=True)
class _LoopBody:
    """The work of one loop of one group, or of a whole group without loops."""

    group: int
    waves: int
    section: Section
    steps: tuple[tuple[int, Work], ...]

    @property
    def loops(self) -> bool:
        return self.section.trips is not None

    def at(self, step: Work) -> int:
        """The iteration that a step works for in its first trip, without what all trips add."""
        return self.section.first.constant + (step.iteration or 0)


def _bodies(program: Program, listing: Listing, op_of: dict[int, int]) -> Iterator[_LoopBody]:
    for number, group in enumerate(program.groups):
        parts: dict[int, list[tuple[int, Work]]] = {}
        looped = any(section.trips is not None for section in group.sections)
        for at, section in enumerate(group.sections):
            for slot, step in enumerate(section.steps):
                op = op_of.get(listing.at[number, section.name, slot], -1)
                if op >= 0 and isinstance(step, Work):
                    parts.setdefault(at if looped else 0, []).append((op, step))
        for at, steps in parts.items():
            yield _LoopBody(number, len(group.waves), group.sections[at], tuple(steps))


def _boxes(
    program: Program, accesses: Sequence[Access], wave: int | None
) -> Iterator[tuple[Place, Box]]:
    """Which storage is touched: by one wave, or by any."""
    types = {resource.name: resource.type for resource in program.resources}
    for access in accesses:
        if access.resource in types:
            whole = types[access.resource].whole
            boxes = access.boxes if wave is None else (access.box(wave) or whole,)
            for box in boxes or (whole,):
                yield (access.resource, access.copy), box


def _is_lds(program: Program, place: Place) -> bool:
    return program.resource(place[0]).space is Space.LDS


def _within(program: Program, body: _LoopBody) -> Iterator[GraphEdge]:
    """Flow and anti-dependences in the order of the steps, wave by wave."""
    for wave in range(body.waves):
        reads, writes = [], []
        for _, step in body.steps:
            reads.append(list(_boxes(program, (*step.reads, *step.accumulates), wave)))
            writes.append(list(_boxes(program, (*step.writes, *step.accumulates), wave)))
            others = _boxes(program, step.writes, None)
            writes[-1] += [(place, box) for place, box in others if _is_lds(program, place)]
        touching: dict[Place, list[int]] = defaultdict(list)
        for at, (read, written) in enumerate(zip(reads, writes, strict=True)):
            for place in dict.fromkeys(place for place, _ in (*read, *written)):
                touching[place].append(at)
        for at, (op, _) in enumerate(body.steps):
            for place, box in reads[at]:
                rest = [box]
                for before, distance in _back(touching[place], at, body.loops):
                    if not rest:
                        break
                    found, rest = _taken(rest, place, writes[before])
                    if found:
                        yield GraphEdge(body.steps[before][0], op, FLOW, distance)
            for place, box in writes[at]:
                rest = [box]
                for before, distance in _back(touching[place], at, body.loops):
                    _, rest = _taken(rest, place, writes[before])
                    if not rest:
                        break
                    if _taken(rest, place, reads[before])[0]:
                        yield GraphEdge(body.steps[before][0], op, ANTI, distance)


def _back(touching: Sequence[int], at: int, loops: bool) -> Iterator[tuple[int, int]]:
    """Steps before ``at``, the last first, then those of the trip before; with their distance."""
    yield from ((n, 0) for n in reversed(touching) if n < at)
    if loops:
        yield from ((n, 1) for n in reversed(touching) if n >= at)


def _taken(
    wanted: Sequence[Box], place: Place, boxes: Sequence[tuple[Place, Box]]
) -> tuple[bool, list[Box]]:
    """Whether ``boxes`` hold any of what is wanted of a place, and what they leave."""
    rest, found = list(wanted), False
    for other, box in boxes:
        if other == place and any(overlap(part, box) is not None for part in rest):
            found = True
            rest = [piece for part in rest for piece in subtract(part, box)]
    return found, rest


def _between(program: Program, writer: _LoopBody, reader: _LoopBody) -> Iterator[GraphEdge]:
    """What one group reads of LDS that only another writes: by iteration, for want of an order."""
    advance = writer.section.advance
    own = {p for _, step in reader.steps for p, _ in _boxes(program, step.writes, None)}
    if writer.group == reader.group or advance != reader.section.advance:
        return
    for consumer, step in reader.steps:
        wanted = [w for w in _boxes(program, step.reads, None) if w[0] not in own]
        for producer, source in writer.steps:
            given = list(_boxes(program, source.writes, None))
            if not any(_is_lds(program, p) and _taken([b], p, given)[0] for p, b in wanted):
                continue
            ahead = writer.at(source) - reader.at(step)
            if not advance or ahead % advance == 0:
                yield GraphEdge(
                    producer, consumer, FLOW, max(ahead // advance, 0) if advance else 0
                )
            if advance:
                yield GraphEdge(consumer, producer, ANTI, max(-ahead // advance + 1, 0))
