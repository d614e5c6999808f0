"""Small programs by hand: a loop lowered the plainest way, and steps to edit it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeloom.declare import Loop, exp2, maximum
from pipeloom.machine.dtypes import F32
from pipeloom.machine.gfx950 import GFX950
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Box,
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
    TripCount,
    Wait,
    Work,
)

T = Affine(0, (("T", 1),))
BARRIER = Barrier()


def wait(counter: str, count: int = 0) -> Wait:
    return Wait({"vm": "vmcnt", "lgkm": "lgkmcnt"}[counter], count)


def copy(
    node: str,
    source: Access | str,
    target: Access | str,
    iteration: int | None,
    counter: str | None = None,
    entries: int = 1,
    when: tuple[str, Access] | None = None,
    label: str = "",
) -> Work:
    reads = (Access(source) if isinstance(source, str) else source,)
    return Work(
        node=node,
        label=label or f"copy {node}",
        iteration=iteration,
        reads=reads if when is None else (*reads, when[1]),
        writes=(Access(target) if isinstance(target, str) else target,),
        is_copy=True,
        counter={"vm": "vmcnt", "lgkm": "lgkmcnt", None: None}[counter],
        entries=entries if counter else 0,
        when=None if when is None else when[0],
    )


def add_up(reads: list[str], to: str, iteration: int, node: str = "S.next", **more: object) -> Work:
    return Work(
        node=node,
        label=f"add {node}",
        iteration=iteration,
        reads=tuple(Access(r) for r in reads),
        accumulates=(Access(to),),
        **more,  # type: ignore[arg-type]
    )


def register(name: str, kind: TileType, start: float | None = None) -> Resource:
    return Resource(name=name, space=Space.REGISTER, type=kind, start=start)


def lds(name: str, kind: TileType, copies: int = 1) -> Resource:
    return Resource(name=name, space=Space.LDS, type=kind, copies=copies)


def program(
    meaning: Meaning,
    resources: list[Resource],
    groups: list[tuple[tuple[int, ...], list[Section]]],
    iterations: Affine = T,
    trips: tuple[TripCount, ...] = (TripCount("T"),),
) -> Program:
    return Program(
        name=meaning.name,
        meaning=meaning,
        target=GFX950,
        resources=tuple(resources),
        groups=tuple(Group(waves, tuple(sections)) for waves, sections in groups),
        trips=trips,
        iterations=iterations,
    )


def straight(name: str, *steps: Step, first: Affine | None = None) -> Section:
    return Section(name=name, steps=steps, first=first or Affine())


def looped(
    *steps: Step, advance: int = 1, trips: str = "T", first: Affine | None = None
) -> Section:
    return Section(
        name=f"loop {trips}" if trips != "T" else "loop",
        steps=steps,
        trips=trips,
        advance=advance,
        first=first or Affine(),
    )


Edit = Callable[[list[Step]], None]


def edited(base: Program, group: int, section: str, edit: Edit) -> Program:
    """With the steps of one section changed."""

    def changed(part: Section) -> Section:
        steps = list(part.steps)
        edit(steps)
        return replace(part, steps=tuple(steps))

    groups = [
        Group(
            g.waves,
            tuple(changed(s) if n == group and s.name == section else s for s in g.sections),
        )
        for n, g in enumerate(base.groups)
    ]
    return base.with_groups(tuple(groups), base.provenance)


def without(base: Program, group: int, section: str, slot: int) -> Program:
    return edited(base, group, section, lambda steps: steps.pop(slot))  # type: ignore[arg-type]


def changed(base: Program, section: str, label: str, **fields: object) -> Program:
    """With other fields in the step of that label."""

    def edit(steps: list[Step]) -> None:
        at = next(i for i, s in enumerate(steps) if isinstance(s, Work) and s.label == label)
        steps[at] = replace(steps[at], **fields)  # type: ignore[arg-type]

    return edited(base, 0, section, edit)


def lowered(meaning: Meaning, spare: list[Resource] | None = None) -> Program:
    """The plainest program: one wave, every value in registers of its own, in order."""
    resources = [
        register(f"r.{n.name}", n.type, n.start if n.kind is NodeKind.CARRY else None)
        for n in meaning.nodes
        if n.kind not in (NodeKind.OUTPUT, NodeKind.CONSTANT)
    ]
    parts: dict[Region, list[Step]] = {region: [] for region in Region}
    for node in meaning.nodes:
        steps = parts[node.region]
        at = 0 if node.region is Region.LOOP else None
        if node.kind in (NodeKind.STREAM, NodeKind.RESIDENT, NodeKind.SCALAR):
            steps += [copy(node.name, node.name, f"r.{node.name}", at, "vm"), wait("vm")]
        elif node.kind is NodeKind.OP:
            steps.append(
                Work(
                    node=node.name,
                    label=node.name,
                    iteration=at,
                    reads=tuple(_read(meaning[name]) for name in node.operands),
                    writes=(Access(f"r.{node.name}"),),
                )
            )
        elif node.kind is NodeKind.OUTPUT:
            source = f"r.{node.uses[0]}"
            steps.append(copy(node.name, source, node.name, at, "vm", label=f"store {node.name}"))
    parts[Region.LOOP] += [
        copy(n.name, f"r.{n.uses[0]}", f"r.{n.name}", 0, label=f"carry {n.name}")
        for n in meaning.nodes
        if n.kind is NodeKind.CARRY
    ]
    return program(
        meaning,
        [*resources, *(spare or [])],
        [
            (
                (0,),
                [
                    straight("before", *parts[Region.BEFORE]),
                    looped(*parts[Region.LOOP]),
                    straight("after", *parts[Region.AFTER]),
                ],
            )
        ],
    )


def _read(node: Node) -> Access:
    return Access(node.name if node.kind is NodeKind.CONSTANT else f"r.{node.name}")


def attention() -> Meaning:
    """Softmax(Q K^T) V with running maximum and sum, as every flash attention has it."""
    loop = Loop("attention", over="n")
    q = loop.resident("Q", "bf16", q=32, d=16)
    k = loop.stream("K", "bf16", n=16, d=16)
    v = loop.stream("V", "bf16", n=16, e=16)
    m = loop.carry("m", start=float("-inf"), q=32)
    total = loop.carry("l", q=32)
    o = loop.carry("O", q=32, e=16)
    s = (q @ k).named("S")
    top = maximum(m, s.max("n")).named("top")
    p = exp2(s - top).named("P")
    alpha = exp2(m - top).named("alpha")
    m.becomes(top)
    total = total.becomes(total * alpha + p.sum("n"))
    o = o.becomes(o * alpha + (p @ v).named("PV"))
    loop.store("out", o / total)
    return loop.as_written


ROW = TileType(("c",), (8,), F32)
TILE = TileType(("k", "c"), (1, 8), F32)


def row_sum() -> Meaning:
    loop = Loop("row_sum", over="k")
    x = loop.stream("X", "f32", k=1, c=8)
    s = loop.carry("S", c=8)
    s += x.sum("k")
    loop.store("out", s)
    return loop.as_written


def load_row(to: str, iteration: int) -> Work:
    return copy("X", "X", to, iteration, "vm", label=f"load {to}")


def row_sum_program(last: int = 3) -> Program:
    """examples/own_kernel.py: two registers take turns. ``last`` is a K offset, 3 if right."""
    resources = [register("R0", TILE), register("R1", TILE), register("sum", ROW, 0.0)]
    return program(
        row_sum(),
        resources,
        [
            (
                (0,),
                [
                    straight("prologue", load_row("R0", 0), load_row("R1", 1)),
                    looped(
                        wait("vm", 1),
                        add_up(["R0"], "sum", 0),
                        load_row("R0", 2),
                        wait("vm", 1),
                        add_up(["R1"], "sum", 1),
                        load_row("R1", last),
                        advance=2,
                    ),
                    straight(
                        "epilogue",
                        wait("vm", 0),
                        add_up(["R0"], "sum", 0),
                        add_up(["R1"], "sum", 1),
                        copy("out", "sum", "out", None, "vm", label="store"),
                        first=Affine(0, (("T", 2),)),
                    ),
                ],
            )
        ],
        iterations=Affine(2, (("T", 2),)),
    )


def producer_consumer() -> Program:
    """One wave fills LDS, two add up half of each row; one buffer, two barriers per trip."""
    halves: tuple[Box, ...] = (((0, 1), (0, 4)), ((0, 1), (4, 8)))
    parts: tuple[Box, ...] = (((0, 4), (0, 1)), ((4, 8), (0, 1)))
    outs: tuple[Box, ...] = (((0, 4),), ((4, 8),))
    half = TileType(("k", "c"), (1, 4), F32)
    resources = [
        lds("buffer", TILE),
        register("R", half),
        register("sum", TileType(("c",), (4,), F32), 0.0),
    ]
    produce = looped(
        copy("X", "X", Access("buffer", shared=True), 0, "vm", 4, label="fill"),
        wait("vm"),
        BARRIER,
        BARRIER,
    )
    consume = looped(
        BARRIER,
        copy("X", Access("buffer", halves), "R", 0, "lgkm", 1, label="fetch"),
        wait("lgkm"),
        BARRIER,
        add_up(["R"], "sum", 0, parts=parts),
    )
    store = Work(
        node="out",
        label="store",
        iteration=None,
        reads=(Access("sum"),),
        writes=(Access("out", outs),),
        is_copy=True,
        counter="vmcnt",
        entries=1,
    )
    return program(
        row_sum(),
        resources,
        [((0,), [produce]), ((1, 2), [consume, straight("end", store)])],
    )
