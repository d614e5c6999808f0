"""Programs by hand for the pages: two groups with different work, two loops, vector ops."""

from __future__ import annotations

from pipeloom.machine.dtypes import BF16, F32
from pipeloom.machine.gfx950 import GFX950
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Group,
    Issue,
    Meaning,
    Node,
    NodeKind,
    OrderedBy,
    Program,
    Provenance,
    Region,
    Resource,
    Section,
    Space,
    Step,
    SyncMethod,
    TileType,
    TripCount,
    Unit,
    Wait,
    Work,
)

A = TileType(("m", "k"), (64, 32), BF16)
B = TileType(("n", "k"), (64, 32), BF16)
C = TileType(("m", "n"), (64, 64), F32)
MEANING = Meaning(
    "tiles",
    "k",
    (
        Node(name="A", kind=NodeKind.STREAM, type=A),
        Node(name="B", kind=NodeKind.STREAM, type=B),
        Node(name="C", kind=NodeKind.CARRY, type=C, uses=("sum",), start=0.0),
        Node(name="sum", kind=NodeKind.OP, type=C, op="matmul", uses=("A", "B"), init="C"),
        Node(
            name="scaled",
            kind=NodeKind.OP,
            type=C,
            op="mul",
            uses=("C", "C"),
            region=Region.AFTER,
        ),
        Node(name="out", kind=NodeKind.OUTPUT, type=C, uses=("scaled",), region=Region.AFTER),
    ),
)
RESOURCES = (
    Resource(name="LDS A", space=Space.LDS, type=A, copies=2),
    Resource(name="LDS B", space=Space.LDS, type=B, copies=2),
    Resource(name="a", space=Space.REGISTER, type=A),
    Resource(name="b", space=Space.REGISTER, type=B),
    Resource(name="c", space=Space.REGISTER, type=C, start=0.0),
)
BARRIER, WAITED = Barrier(), (Wait("vmcnt", 0), Barrier())


def _load(name: str, iteration: int) -> Work:
    return Work(
        node=name,
        label=f"fetch {name}",
        iteration=iteration,
        reads=(Access(name, shared=True),),
        writes=(Access(f"LDS {name}", copy=iteration % 2, shared=True),),
        is_copy=True,
        counter="vmcnt",
        entries=1,
        issues=(Issue(Unit.LOAD_LDS, 1, bytes=16),),
    )


def _read(name: str, iteration: int) -> Work:
    return Work(
        node=name,
        label=f"take {name}",
        iteration=iteration,
        reads=(Access(f"LDS {name}", copy=iteration % 2),),
        writes=(Access(name.lower()),),
        is_copy=True,
        counter="lgkmcnt",
        entries=1,
        issues=(Issue(Unit.LDS_READ, 1, bytes=16),),
        latency=64,
    )


def _product(iteration: int) -> Work:
    return Work(
        node="sum",
        label="my product",
        iteration=iteration,
        reads=(Access("a"), Access("b")),
        accumulates=(Access("c"),),
        issues=(Issue(Unit.MATRIX, 2, shape="16x16x32_f16"),),
        latency=16,
    )


def _use(iteration: int) -> tuple[Step, ...]:
    return (_read("A", iteration), _read("B", iteration), Wait("lgkmcnt", 0), _product(iteration))


def _loads(iteration: int) -> tuple[Step, ...]:
    return (_load("A", iteration), _load("B", iteration))


SCALE = Work(
    node="scaled",
    label="my scaling",
    iteration=None,
    reads=(Access("c"), Access("c")),
    writes=(Access("c"),),
    issues=(Issue(Unit.VECTOR, 4),),
)
STORE = Work(
    node="scaled",
    label="put out",
    iteration=None,
    reads=(Access("c"),),
    writes=(Access("out"),),
    is_copy=True,
    counter="vmcnt",
    entries=1,
    issues=(Issue(Unit.STORE, 1, bytes=16),),
)


def producer_consumer() -> Program:
    """Wave 0 loads, waves 1 to 4 compute: two K tiles per trip, LDS used in turn."""
    after = Affine(0, (("T", 2),))
    producer = (
        Section(name="fill", steps=(*_loads(0), *WAITED)),
        Section(
            name="steady",
            steps=(*_loads(1), *WAITED, BARRIER, *_loads(2), *WAITED, BARRIER),
            trips="T",
            advance=2,
        ),
        Section(name="drain", steps=(BARRIER,), first=after),
    )
    consumer = (
        Section(name="fill", steps=(BARRIER,)),
        Section(
            name="steady",
            steps=(BARRIER, *_use(0), BARRIER, BARRIER, *_use(1), BARRIER),
            trips="T",
            advance=2,
        ),
        Section(name="drain", steps=(*_use(0), BARRIER), first=after),
        Section(name="finish", steps=(SCALE, STORE)),
    )
    return Program(
        name="two jobs",
        meaning=MEANING,
        target=GFX950,
        resources=RESOURCES,
        groups=(Group((0,), producer), Group((1, 2, 3, 4), consumer)),
        trips=(TripCount("T"),),
        iterations=Affine(1, (("T", 2),)),
        provenance=Provenance(
            ordered=OrderedBy("by hand", 100, 90),
            synchronised=SyncMethod.PROVEN,
            notes=("written down",),
        ),
    )


def two_loops(*, least: int = 2) -> Program:
    """One group that runs a loop, then the same again: the first ``least`` times at least."""
    body = (*_loads(0), *WAITED, *_use(0), BARRIER)
    sections = (
        Section(name="first", steps=body, trips="S", advance=1),
        Section(name="second", steps=body, trips="T", first=Affine(0, (("S", 1),)), advance=1),
        Section(name="finish", steps=(SCALE, STORE)),
    )
    return Program(
        name="again",
        meaning=MEANING,
        target=GFX950,
        resources=RESOURCES,
        groups=(Group((0, 1), sections),),
        trips=(TripCount("S", least), TripCount("T")),
        iterations=Affine(0, (("S", 1), ("T", 1))),
    )


def straight() -> Program:
    """No loop at all, and nobody knows who ordered it."""
    steps = (*_loads(0), *WAITED, *_use(0), SCALE, STORE)
    return Program(
        name="once",
        meaning=MEANING,
        target=GFX950,
        resources=RESOURCES,
        groups=(Group((0,), (Section(name="all", steps=steps),)),),
        trips=(),
        iterations=Affine(1),
    )
