"""A kernel of two waves and one tile, for tests that fit on one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import F32
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Fence,
    Group,
    Meaning,
    Node,
    NodeKind,
    Program,
    Region,
    Resource,
    Section,
    Space,
    Step,
    TileType,
    Wait,
    Work,
)

Litmus = Callable[..., Program]
A, B, C = (
    TileType(dims, shape, F32)
    for dims, shape in ((("m", "k"), (4, 2)), (("n", "k"), (2, 2)), (("m", "n"), (4, 2)))
)
HALVES = (((0, 2), (0, 2)), ((2, 4), (0, 2)))
MEANING = Meaning(
    "litmus",
    "k",
    (
        Node(name="A", kind=NodeKind.STREAM, type=A),
        Node(name="B", kind=NodeKind.STREAM, type=B),
        Node(name="C", kind=NodeKind.CARRY, type=C, uses=("C.next",), start=0.0),
        Node(name="C.next", kind=NodeKind.OP, type=C, op="matmul", uses=("A", "B"), init="C"),
        Node(name="out", kind=NodeKind.OUTPUT, type=C, uses=("C",), region=Region.AFTER),
    ),
)
HALF = TileType(("m", "k"), (2, 2), F32)
SUMS = TileType(("m", "n"), (2, 2), F32)
RESOURCES = (
    Resource(name="LDS A", space=Space.LDS, type=A),
    Resource(name="LDS B", space=Space.LDS, type=B),
    *(Resource(name=f"a{n or ''}", space=Space.REGISTER, type=HALF) for n in (0, 1)),
    *(Resource(name=f"b{n or ''}", space=Space.REGISTER, type=B) for n in (0, 1)),
    Resource(name="sums", space=Space.REGISTER, type=SUMS, start=0.0),
)


def _steps(words: list[str], waves: tuple[int, ...], read_entries: int) -> list[Step]:
    """``load.a3`` loads tile 3 of A together; ``read.a1`` fills the second register; ``vm4`` and
    ``lgkm0`` wait."""
    steps: list[Step] = []
    products = 0
    rows = tuple(HALVES[w] for w in waves)
    for word in words:
        name, _, what = word.partition(".")
        operand, number = what[:1].upper(), what[1:]
        if name == "load":
            steps.append(
                Work(
                    node=operand,
                    label=word,
                    iteration=int(number or 0),
                    reads=(Access(operand, shared=True),),
                    writes=(Access(f"LDS {operand}", shared=True),),
                    is_copy=True,
                    counter="vmcnt",
                    entries=4,
                )
            )
        elif name == "read":
            boxes = rows if operand == "A" else ()
            steps.append(
                Work(
                    node=operand,
                    label=word,
                    iteration=products,
                    reads=(Access(f"LDS {operand}", boxes),),
                    writes=(Access(what),),
                    parts=boxes,
                    is_copy=True,
                    counter="lgkmcnt",
                    entries=read_entries,
                )
            )
        elif name.startswith("mma"):
            steps.append(
                Work(
                    node="C.next",
                    label=word,
                    iteration=products,
                    reads=(Access("a" + name[3:]), Access("b" + name[3:])),
                    accumulates=(Access("sums"),),
                    parts=tuple((box[0], (0, 2), (0, 2)) for box in rows),
                )
            )
            products += 1
        elif name == "barrier":
            steps.append(Barrier())
        elif name == "fence":
            steps.append(Fence())
        else:
            counter = "vmcnt" if name.startswith("vm") else "lgkmcnt"
            steps.append(Wait(counter, int(name.removeprefix("vm").removeprefix("lgkm"))))
    parts = tuple((box[0], (0, 2)) for box in rows)
    steps.append(
        Work(
            node="C",
            label="store",
            iteration=None,
            reads=(Access("sums"),),
            writes=(Access("out", parts),),
            parts=parts,
            is_copy=True,
            counter="vmcnt",
            entries=1,
        )
    )
    return steps


@pytest.fixture(scope="session")
def litmus() -> Litmus:
    """A program of two waves in words. A word may name the only wave that has it: ``0:barrier``."""

    def make(text: str, tiles: int = 1, read_entries: int = 4) -> Program:
        words = text.split()
        alone = any(word[1] == ":" for word in words)
        groups = []
        for waves in ((0,), (1,)) if alone else ((0, 1),):
            own = [w[2:] if w[1] == ":" else w for w in words if w[1] != ":" or int(w[0]) in waves]
            steps = tuple(_steps(own, waves, read_entries))
            groups.append(Group(waves, (Section(name="all", steps=steps),)))
        return Program(
            name="litmus",
            meaning=MEANING,
            target=target_for("gfx950"),
            resources=RESOURCES,
            groups=tuple(groups),
            trips=(),
            iterations=Affine(tiles),
        )

    return make
