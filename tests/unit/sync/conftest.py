"""Small programs without synchronisation, and a checker that knows nothing of how it is derived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace

import pytest

from pipeloom.declare import Loop
from pipeloom.machine.gfx950 import GFX950
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Box,
    Group,
    Meaning,
    Program,
    Resource,
    Section,
    Space,
    Step,
    TileType,
    TripCount,
    Wait,
    Work,
)
from pipeloom.program.tiles import overlap


def gemm_meaning() -> Meaning:
    loop = Loop("gemm", over="k")
    a = loop.stream("A", "bf16", m=32, k=16)
    b = loop.stream("B", "bf16", n=32, k=16)
    c = loop.carry("C", "f32", m=32, n=32)
    c += a @ b
    loop.store("out", c)
    return loop.meaning


def load(name: str, iteration: int, copy: int, entries: int = 2) -> Work:
    return Work(
        node=name,
        label=f"load {name}",
        iteration=iteration,
        reads=(Access(name, shared=True),),
        writes=(Access(f"LDS {name}", copy=copy, shared=True),),
        is_copy=True,
        counter="vmcnt",
        entries=entries,
    )


def fragment(name: str, iteration: int, copy: int, waves: int) -> Work:
    """Rows of A are split among waves, B is read whole by each."""
    boxes: tuple[Box, ...] = ()
    if name == "A":
        rows = 32 // waves
        boxes = tuple(((w * rows, (w + 1) * rows), (0, 16)) for w in range(waves))
    return Work(
        node=name,
        label=f"read {name}",
        iteration=iteration,
        reads=(Access(f"LDS {name}", boxes, copy),),
        writes=(Access(f"{name} registers"),),
        parts=boxes,
        is_copy=True,
        counter="lgkmcnt",
        entries=4,
    )


def mma(iteration: int, waves: int) -> Work:
    rows = 32 // waves
    return Work(
        node="C.next",
        label="mma",
        iteration=iteration,
        reads=(Access("A registers"), Access("B registers")),
        accumulates=(Access("C registers"),),
        parts=tuple(((w * rows, (w + 1) * rows), (0, 32), (0, 16)) for w in range(waves)),
    )


def store(waves: int) -> Work:
    rows = 32 // waves
    parts = tuple(((w * rows, (w + 1) * rows), (0, 32)) for w in range(waves))
    return Work(
        node="C",
        label="store C",
        iteration=None,
        reads=(Access("C registers"),),
        writes=(Access("out", parts),),
        parts=parts,
        is_copy=True,
        counter="vmcnt",
        entries=1,
    )


def gemm_resources(meaning: Meaning, copies: int, waves: int) -> tuple[Resource, ...]:
    rows = 32 // waves
    a, b, c = (meaning[n].type for n in "ABC")

    def cut(tile: TileType, size: int) -> TileType:
        return replace(tile, shape=(size, *tile.shape[1:]))

    return (
        Resource(name="LDS A", space=Space.LDS, type=a, copies=copies),
        Resource(name="LDS B", space=Space.LDS, type=b, copies=copies),
        Resource(name="A registers", space=Space.REGISTER, type=cut(a, rows)),
        Resource(name="B registers", space=Space.REGISTER, type=b),
        Resource(name="C registers", space=Space.REGISTER, type=cut(c, rows), start=0.0),
    )


def loads(iteration: int, copies: int) -> list[Step]:
    return [load("A", iteration, iteration % copies), load("B", iteration, iteration % copies)]


def multiplies(iteration: int, copies: int, waves: int) -> list[Step]:
    at = iteration % copies
    reads: list[Step] = [fragment("A", iteration, at, waves), fragment("B", iteration, at, waves)]
    return [*reads, mma(iteration, waves)]


def gemm(copies: int, waves: int = 2) -> Program:
    """All waves load together, ``copies - 1`` iterations ahead."""
    meaning = gemm_meaning()
    ahead = copies - 1
    prologue = [s for i in range(ahead) for s in loads(i, copies)]
    body = [
        s for j in range(copies) for s in loads(j + ahead, copies) + multiplies(j, copies, waves)
    ]
    tail = [s for j in range(ahead) for s in multiplies(j, copies, waves)]
    after = Affine(0, (("T", copies),))
    sections = (
        Section(name="prologue", steps=tuple(prologue)),
        Section(name="loop", steps=tuple(body), trips="T", advance=copies),
        Section(name="epilogue", steps=(*tail, store(waves)), first=after),
    )
    return Program(
        name="gemm",
        meaning=meaning,
        target=GFX950,
        resources=gemm_resources(meaning, copies, waves),
        groups=(Group(tuple(range(waves)), sections),),
        trips=(TripCount("T"),),
        iterations=Affine(ahead, (("T", copies),)),
    )


def specialised(copies: int, consumers: int = 2, producers: int = 1) -> Program:
    """A group that loads, ``copies - 1`` iterations ahead, and one that multiplies."""
    meaning = gemm_meaning()
    ahead = copies - 1
    after = Affine(0, (("T", copies),))
    filling = [s for i in range(ahead) for s in loads(i, copies)]
    body = [s for j in range(copies) for s in loads(j + ahead, copies)]
    using = [s for j in range(copies) for s in multiplies(j, copies, consumers)]
    rest = [s for j in range(ahead) for s in multiplies(j, copies, consumers)]
    producer = (
        Section(name="fill", steps=tuple(filling)),
        Section(name="loads", steps=tuple(body), trips="T", advance=copies),
    )
    consumer = (
        Section(name="products", steps=tuple(using), trips="T", advance=copies),
        Section(name="rest", steps=(*rest, store(consumers)), first=after),
    )
    return Program(
        name="specialised",
        meaning=meaning,
        target=GFX950,
        resources=gemm_resources(meaning, copies, consumers),
        groups=(
            Group(tuple(range(producers)), producer),
            Group(tuple(range(producers, producers + consumers)), consumer),
        ),
        trips=(TripCount("T"),),
        iterations=Affine(ahead, (("T", copies),)),
    )


def row_sum() -> Program:
    """Loads to registers, a step ahead, two buffers of one wave's own: no barrier is needed."""
    loop = Loop("row_sum", over="k")
    x = loop.stream("X", "f32", k=4, m=8)
    s = loop.carry("S", "f32", m=8)
    s += x.sum("k")
    loop.store("out", s)
    meaning = loop.meaning

    def bring(i: int) -> Work:
        return Work(
            node="X",
            label="load X",
            iteration=i,
            reads=(Access("X"),),
            writes=(Access("X registers", copy=i % 2),),
            is_copy=True,
            counter="vmcnt",
            entries=3,
        )

    def add(i: int) -> Work:
        return Work(
            node="S.next",
            label="add",
            iteration=i,
            reads=(Access("X registers", copy=i % 2),),
            accumulates=(Access("S registers"),),
        )

    keep = Work(
        node="S",
        label="store S",
        iteration=None,
        reads=(Access("S registers"),),
        writes=(Access("out"),),
        is_copy=True,
        counter="vmcnt",
        entries=1,
    )
    sections = (
        Section(name="prologue", steps=(bring(0),)),
        Section(name="loop", steps=(bring(1), add(0), bring(2), add(1)), trips="T", advance=2),
        Section(name="epilogue", steps=(add(0), keep), first=Affine(0, (("T", 2),))),
    )
    return Program(
        name="row_sum",
        meaning=meaning,
        target=GFX950,
        resources=(
            Resource(name="X registers", space=Space.REGISTER, type=meaning["X"].type, copies=2),
            Resource(name="S registers", space=Space.REGISTER, type=meaning["S"].type, start=0.0),
        ),
        groups=(Group((0,), sections),),
        trips=(TripCount("T"),),
        iterations=Affine(1, (("T", 2),)),
    )


# --- the checker ----------------------------------------------------------------------------------


@dataclass
class Done:
    wave: int
    work: Work
    iteration: int | None
    issue: int
    epoch: int
    slot: int
    retire: float = float("inf")
    retire_epoch: float = float("inf")

    def before(self, other: Done) -> bool:
        if self.wave == other.wave:
            return self.retire <= other.issue
        return self.retire_epoch < other.epoch


def executed(program: Program, trips: dict[str, int]) -> tuple[list[Done], list[int]]:
    """Every step of every wave, with when it retires; and each wave's barriers."""
    found: list[Done] = []
    barriers: list[int] = []
    for group in program.groups:
        for slot, wave in enumerate(group.waves):
            position = epoch = 0
            flying: dict[str, list[Done]] = {}
            for section in group.sections:
                for trip in range(trips[section.trips] if section.trips else 1):
                    for step in section.steps:
                        position += 1
                        if isinstance(step, Barrier):
                            epoch += 1
                        elif isinstance(step, Wait):
                            queue = flying.setdefault(step.counter, [])
                            limit = program.target.counter(step.counter).limit.value
                            if step.count < limit:
                                left = 0
                                for done in reversed(list(queue)):
                                    if left >= step.count:
                                        done.retire, done.retire_epoch = position, epoch
                                        queue.remove(done)
                                    left += done.work.entries
                        elif isinstance(step, Work):
                            at = step.iteration
                            if at is not None:
                                at += section.first.at(trips) + trip * section.advance
                            done = Done(wave, step, at, position, epoch, slot)
                            if step.counter is None:
                                done.retire, done.retire_epoch = position, epoch
                            else:
                                flying.setdefault(step.counter, []).append(done)
                            found.append(done)
            barriers.append(epoch)
    return found, barriers


def touched(program: Program, done: Done) -> Iterator[tuple[tuple[object, ...], Box, bool, bool]]:
    """Place, box, whether written, whether registers are only read at issue."""
    names = {r.name: r for r in program.resources}
    for accesses, writes in (
        (done.work.reads, False),
        (done.work.writes, True),
        (done.work.accumulates, True),
    ):
        for access in accesses:
            if access.resource in names:
                resource = names[access.resource]
                private = resource.space is not Space.LDS
                place = (access.resource, access.copy, done.wave if private else None)
                yield place, access.box(done.slot) or resource.type.whole, writes, private


def troubles(program: Program, most: int = 4) -> list[str]:
    """Conflicting accesses that nothing orders, and waves that meet different numbers of times."""
    found = []
    for values in product(range(most), repeat=len(program.trips)):
        trips = {c.name: c.least + v for c, v in zip(program.trips, values, strict=True)}
        steps, barriers = executed(program, trips)
        if len(set(barriers)) > 1:
            found.append(f"T={trips}: barriers {barriers}")
        table: dict[object, list[tuple[Done, Box, bool, bool]]] = {}
        for done in steps:
            for place, box, writes, private in touched(program, done):
                table.setdefault(place, []).append((done, box, writes, private))
        for rows in table.values():
            for i, (x, box, wx, private) in enumerate(rows):
                for y, other, wy, _ in rows[i + 1 :]:
                    if x is y or not (wx or wy) or overlap(box, other) is None:
                        continue
                    if x.work == y.work and x.iteration == y.iteration:
                        continue  # slices of one shared access
                    if private and not wx:
                        continue  # read at issue, in program order
                    if not (x.before(y) or y.before(x)):
                        found.append(
                            f"T={trips}: {x.work.label} {x.iteration} of wave {x.wave} "
                            f"and {y.work.label} {y.iteration} of wave {y.wave}"
                        )
        found.extend(_wrong(table.values(), trips))
    return found


Row = tuple[Done, Box, bool, bool]


def _wrong(tables: Iterable[list[Row]], trips: dict[str, int]) -> Iterator[str]:
    """Reads of LDS that do not see the iteration they are for."""
    for rows in tables:
        for read, box, writes, private in rows:
            if writes or private:
                continue
            sure = [
                w
                for w, other, is_write, _ in rows
                if is_write and overlap(box, other) is not None and w.before(read)
            ]
            last = [w for w in sure if not any(w is not v and w.before(v) for v in sure)]
            if {w.iteration for w in last} != {read.iteration}:
                yield (
                    f"T={trips}: {read.work.label} {read.iteration} of wave {read.wave} sees "
                    f"{[w.iteration for w in last]}"
                )


@pytest.fixture(scope="session")
def programs() -> SimpleNamespace:
    """Builders of small programs, and ``troubles``."""
    return SimpleNamespace(
        gemm=gemm, specialised=specialised, row_sum=row_sum, troubles=troubles, load=load
    )
