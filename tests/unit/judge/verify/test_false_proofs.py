"""Programs that were PROVED and computed wrong numbers: each is refuted or refused now."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeloom.declare import Loop, maximum
from pipeloom.declare.functions import keep
from pipeloom.errors import ConfigError, GraphError, ScheduleError, SpecError, StructureError
from pipeloom.judge.execute import execute
from pipeloom.judge.verify import verify
from pipeloom.machine.dtypes import BF16, BOOL, DTYPES, F32, FP8, I8, I32, MXFP8
from pipeloom.program import (
    VOCABULARY,
    Access,
    Affine,
    Group,
    Meaning,
    Node,
    NodeKind,
    OpDef,
    Program,
    Reduce,
    Region,
    Resource,
    Step,
    TileType,
    TripCount,
    Work,
)
from tests.unit.judge.verify.programs import (
    BARRIER,
    ROW,
    changed,
    copy,
    edited,
    lowered,
    producer_consumer,
    register,
    row_sum_program,
    straight,
    wait,
)

LOW, HIGH = (((0, 4),),), (((4, 8),),)
SQUARE = TileType(("m", "n"), (4, 4), F32)
TURNED = TileType(("n", "m"), (4, 4), F32)


def step_of(steps: list[Step], node: str) -> int:
    return next(
        i for i, s in enumerate(steps) if isinstance(s, Work) and s.node == node and not s.is_copy
    )


def refuted(base: Program) -> None:
    """The executor shows the wrong number, and the verifier knows."""
    assert not execute(base, trips=2, explain=False).correct
    assert not verify(base).proved


# --- conditions -----------------------------------------------------------------------------------


def chosen() -> Meaning:
    """Two carries, each updated where a condition of its own holds, element by element."""
    loop = Loop("chosen", over="k")
    x = loop.stream("X", "f32", k=1, c=8)
    s = loop.carry("S", c=8)
    u = loop.carry("U", c=8)
    row = x.sum("k").named("row")
    big = (row > 1.0).named("big")
    with loop.when(big):
        u = u.becomes((u + row).named("grown"))
    with loop.when((row > -30.0).named("other")):
        s = s.becomes((s + row).named("sum"))
    loop.store("out", s)
    loop.store("chosen", u)
    return loop.as_written


def test_a_step_skipped_by_another_condition_than_its_node() -> None:
    """Where only the step's condition holds, it would write over what its node should be."""

    def again(steps: list[Step]) -> None:
        at = step_of(steps, "grown")
        step = steps[at]
        assert isinstance(step, Work)
        steps.insert(
            at + 1, replace(step, reads=(*step.reads[:-1], Access("r.other")), when="other")
        )

    base = edited(lowered(chosen()), 0, "loop", again)
    assert not execute(base, trips=2, explain=False).correct
    with pytest.raises(StructureError, match="skipped by 'other'"):
        verify(base)


def guarded(*moves: Step) -> Program:
    """Elements of ``row`` that are big go to R, somehow to R2, and from there back where big."""
    spare = [register(name, ROW) for name in ("R", "R2", "S2")]
    big = ("big", Access("r.big"))

    def detour(steps: list[Step]) -> None:
        at = max(step_of(steps, "big"), step_of(steps, "other"))
        steps[at + 1 : at + 1] = [
            copy("row", "r.row", "R", 0, when=big),
            *moves,
            copy("row", "R2", "S2", 0, when=big),
            *(replace(m, reads=(swap(m.writes[0], "S2"),), writes=(swap(m.reads[0], "r.row"),))
              for m in moves if isinstance(m, Work) and m.reads[0].resource == "R"),
        ]  # fmt: skip

    return edited(lowered(chosen(), spare), 0, "loop", detour)


def swap(access: Access, resource: str) -> Access:
    return replace(access, resource=resource)


def test_the_condition_of_other_elements() -> None:
    """Halves exchanged between two steps under one condition: each is skipped for the other's."""
    exchanged = [
        copy("row", Access("R", LOW), Access("R2", HIGH), 0),
        copy("row", Access("R", HIGH), Access("R2", LOW), 0),
        copy("row", Access("r.row", LOW), Access("S2", HIGH), 0),
        copy("row", Access("r.row", HIGH), Access("S2", LOW), 0),
    ]
    refuted(guarded(*exchanged))
    plain = [copy("row", "R", "R2", 0), copy("row", "r.row", "S2", 0)]
    right = guarded(*plain)
    assert verify(right).proved
    assert execute(right, trips=2, explain=False).correct


# --- dimensions -----------------------------------------------------------------------------------


def products(*more: Node) -> Meaning:
    def node(name: str, kind: NodeKind, type_: TileType, *uses: str, **fields: object) -> Node:
        return Node(name=name, kind=kind, type=type_, uses=uses, **fields)  # type: ignore[arg-type]

    nodes = (
        node("A", NodeKind.STREAM, TileType(("k", "m"), (1, 4), F32)),
        node("B", NodeKind.STREAM, TileType(("k", "n"), (1, 4), F32)),
        node("Y", NodeKind.OP, TURNED, "B", "A", op="matmul"),
        node("Z", NodeKind.OP, SQUARE, "A", "B", op="matmul", init="Y"),
        node("C", NodeKind.CARRY, SQUARE, "D", start=0.0),
        node("D", NodeKind.OP, SQUARE, "C", "Z", op="add"),
        node("out", NodeKind.OUTPUT, SQUARE, "C", region=Region.AFTER),
    )
    return Meaning("products", "k", tuple({n.name: n for n in (*nodes, *more)}.values()))


def test_a_sum_that_begins_with_a_value_of_turned_dimensions() -> None:
    """Y lies in the place by its own dimensions, n first; the product adds m first."""
    place = register("P", TileType(("p", "q"), (4, 4), F32))

    def in_place(steps: list[Step]) -> None:
        for node, fields in (
            ("Y", {"writes": (Access("P"),)}),
            ("Z", {"reads": (Access("r.A"), Access("r.B")), "writes": (),
                   "accumulates": (Access("P"),)}),
            ("D", {"reads": (Access("r.C"), Access("P"))}),
        ):  # fmt: skip
            at = step_of(steps, node)
            steps[at] = replace(steps[at], **fields)

    assert verify(lowered(products())).proved
    refuted(edited(lowered(products(), [place]), 0, "loop", in_place))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Node(name="out", kind=NodeKind.OUTPUT, type=TURNED, uses=("C",), region=Region.AFTER),
         "same dimensions"),
        (Node(name="C", kind=NodeKind.CARRY, type=TURNED, uses=("D",), start=0.0),
         "same dimensions"),
        (Node(name="out", kind=NodeKind.OUTPUT, type=SQUARE, uses=("D",)), "same place"),
        (Node(name="out", kind=NodeKind.OUTPUT, type=SQUARE, uses=()), "stores 0 values"),
        (Node(name="A", kind=NodeKind.STREAM, type=TileType(("k", "m"), (1, 4), F32),
              region=Region.BEFORE), "not in the loop"),
        (Node(name="Z", kind=NodeKind.OP, op="matmul", type=SQUARE, uses=("A", "B"), init="A"),
         "does not fit"),
        (Node(name="Z", kind=NodeKind.OP, op="matmul", type=SQUARE, uses=("A", "B"), when="Y"),
         "only one of"),
        (Node(name="D", kind=NodeKind.OP, op="add", type=SQUARE, uses=("Z",)), "uses 1 value"),
        (Node(name="D", kind=NodeKind.OP, op="add", type=SQUARE, uses=("C", "Z"), init="C"),
         "adds nothing up"),
        (Node(name="A", kind=NodeKind.CONSTANT, type=TileType(("k", "m"), (1, 4), F32)),
         "no number"),
    ],
)  # fmt: skip
def test_a_meaning_that_says_two_things(wrong: Node, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        products(wrong)
    assert message in f"{caught.value} {caught.value.hint}"


# --- numbers --------------------------------------------------------------------------------------


def test_a_maximum_of_ones_own_does_not_begin_at_zero() -> None:
    top = OpDef("acme.top", 1, lambda a: a, Reduce.MAX)
    loop = Loop("top", over="k")
    x = loop.stream("X", "f32", k=2, c=1)
    s = loop.carry("S", start=-100.0, c=1)
    s = s.becomes(maximum(s, loop.apply(top, x, over=("k",), name="row")))
    loop.store("out", s + 0.0)

    def added(steps: list[Step]) -> None:
        at = step_of(steps, "row")
        steps[at : at + 1] = [
            copy("0", "0", "r.row", 0),
            replace(steps[at], writes=(), accumulates=(Access("r.row"),)),  # type: ignore[arg-type]
        ]

    right = lowered(loop.as_written)
    base = edited(right, 0, "loop", added)
    ops = VOCABULARY.extended(top)
    assert not execute(base, trips=1, ops=ops, explain=False).correct
    assert verify(right, ops=ops).proved
    assert not verify(base, ops=ops).proved


def test_constants_are_not_told_apart_by_six_digits() -> None:
    loop = Loop("fine", over="k")
    x = loop.stream("X", "f32", k=1, c=8)
    s = loop.carry("S", c=8)
    s = s.becomes(s + x.sum("k") * 1.0000001 * 1.0000009)
    loop.store("out", s)
    assert {n.start for n in loop.as_written.nodes if n.kind is NodeKind.CONSTANT} == {
        1.0000001,
        1.0000009,
    }
    base = lowered(loop.as_written)
    assert verify(base).proved
    assert execute(base, trips=2, explain=False).correct


def test_a_second_next_value_does_not_replace_the_first() -> None:
    loop = Loop("twice", over="k")
    x = loop.stream("X", "f32", k=1, c=8)
    s = loop.carry("S", c=8)
    row = x.sum("k")
    s.becomes(s + row)
    with pytest.raises(GraphError, match="second next value"):
        s.becomes(s + row + 1.0)


def narrow(base: Program, name: str) -> Program:
    def changed_type(resource: Resource) -> Resource:
        kind = replace(resource.type, dtype=BF16)
        return replace(resource, type=kind) if resource.name == name else resource

    return replace(base, resources=tuple(map(changed_type, base.resources)))


@pytest.mark.parametrize("place", ["R0", "sum"])
def test_a_place_that_rounds_what_it_must_hold(place: str) -> None:
    with pytest.raises(StructureError, match=f"{place} is bf16, which rounds"):
        verify(narrow(row_sum_program(), place))


@pytest.mark.parametrize("start", [float("nan"), -0.0, 1e300])
def test_a_start_that_is_not_one_number(start: float) -> None:
    with pytest.raises(ConfigError, match="starts at"):
        register("R", ROW, start)
    loop = Loop("start", over="k")
    s = loop.carry("S", start=start, c=8)
    s += loop.stream("X", "f32", k=1, c=8).sum("k")
    loop.store("out", s)
    with pytest.raises(ConfigError, match="starts at"):
        _ = loop.as_written


def test_workgroups_do_not_store_over_each_other() -> None:
    """The sum over all columns: with two blocks of columns each would store its own."""
    loop = Loop("both", over="k")
    x = loop.stream("X", "f32", k=1, r=4, c=8)
    s = loop.carry("S", r=4, c=8)
    s += x.sum("k")
    loop.store("out", s)
    loop.store("total", s.sum("c"))
    whole = np.ones((3, 8, 8))
    assert loop.evaluate(X=whole)["total"].tolist() == [24.0] * 8
    with pytest.raises(ConfigError, match="'c' is 9"):
        loop.evaluate(X=np.ones((3, 8, 9)))


def test_what_no_tile_reaches_is_not_left_out() -> None:
    loop = Loop("scores", over="k")
    q = loop.resident("Q", "bf16", q=4, d=8)
    x = loop.stream("X", "bf16", k=4, d=8)
    loop.store("out", q @ x)
    assert loop.evaluate(Q=np.ones((4, 8)), X=np.ones((8, 8)))["out"].shape == (4, 8)
    with pytest.raises(ConfigError, match="'d' is 16"):
        loop.evaluate(Q=np.ones((4, 16)), X=np.ones((8, 16)))


def test_a_start_that_its_place_rounds() -> None:
    loop = Loop("start", over="k")
    x = loop.stream("X", "bf16", k=1, c=8)
    s = loop.carry("S", "bf16", start=0.1, c=8)
    s = s.becomes((s + x.sum("k")).named("next"))
    loop.store("out", s)
    base = lowered(loop.as_written)
    with pytest.raises(StructureError, match=r"rounds the number 0\.1"):
        verify(base)


def test_what_a_type_holds() -> None:
    tables = [d for d in DTYPES if d.exponent and d.bits <= 16 and d.scale is None]
    for dtype in tables:
        values = dtype.decode(np.arange(1 << dtype.bits, dtype=np.uint16))
        values = values[~np.isnan(values)]
        for wide in (F32, *tables):
            same = bool((wide.round(values) == values).all())
            assert wide.holds(dtype) is same, (wide, dtype)
    assert not BF16.holds(F32)
    assert not F32.holds(I32)
    assert I32.holds(I8)
    assert BF16.holds(BOOL)
    assert not MXFP8.holds(FP8)


# --- masks ----------------------------------------------------------------------------------------


def test_a_mask_that_changes_nothing_compares_the_right_numbers() -> None:
    """Where the launch promises that a mask keeps everything, its step still computes it."""
    loop = Loop("masked", over="k")
    x = loop.stream("X", "f32", c=2, k=4)
    s = loop.carry("S", start=-100.0, c=2)
    s = s.becomes(maximum(s, keep(x, loop.left("k", 4), 1).named("kept").max("k")))
    loop.store("out", s + 0.0)

    def compares(place: str) -> Program:
        def edit(steps: list[Step]) -> None:
            at = step_of(steps, "kept")
            step = steps[at]
            assert isinstance(step, Work)
            steps[at] = replace(step, reads=(step.reads[0], Access(place), step.reads[2]))

        other = register("other", TileType(("k",), (4,), F32), -5.0)
        return edited(lowered(loop.as_written, [other]), 0, "loop", edit)

    plain = Affine(0, (("T", 1),))
    assert verify(replace(compares("k left"), plain=plain)).proved
    refuted(replace(compares("other"), plain=plain))


# --- registers ------------------------------------------------------------------------------------


def test_a_register_that_is_loaded_once_more() -> None:
    """Nobody may read it meanwhile, though the load brings what is there (emulator: in flight)."""
    base = row_sum_program()

    def again(steps: list[Step]) -> None:
        at = next(i for i, s in enumerate(steps) if isinstance(s, Work) and s.label == "load R0")
        steps.insert(1, replace(steps[at], iteration=0))  # type: ignore[arg-type]

    assert verify(base).proved
    refuted(edited(base, 0, "loop", again))


# --- slices ---------------------------------------------------------------------------------------


def filled(*early: Step) -> Program:
    """Two waves fill a buffer together, then each adds up its half."""
    base = producer_consumer()
    consume, end = base.groups[1].sections
    fill = base.groups[0].sections[0].steps[0]
    body = replace(consume, steps=(fill, wait("vm"), *consume.steps))
    before = straight("early", *early, first=Affine(1))
    return replace(base, groups=(Group((0, 1), (before, body, end)),))


def test_two_places_of_one_step_may_slice_differently() -> None:
    """An early fill that no barrier ends: only trips of one place have the same slices.

    The very same object stands in both places; from a file it would be two.
    """
    plain = filled()
    assert verify(plain).proved
    fill = plain.groups[0].sections[1].steps[0]
    base = filled(fill, wait("vm"))
    refuted(base)
    assert not verify(Program.from_json(base.to_json())).proved
    assert verify(filled(fill, wait("vm"), BARRIER)).proved


# --- what a program may not say -------------------------------------------------------------------


def shared(read: bool, write: bool) -> Program:
    def fetch(steps: list[Step]) -> None:
        step = steps[1]
        assert isinstance(step, Work)
        steps[1] = replace(
            step,
            reads=(Access("buffer", shared=read),),
            writes=(replace(step.writes[0], shared=write),),
        )

    return edited(producer_consumer(), 1, "loop", fetch)


@pytest.mark.parametrize(("read", "write"), [(True, False), (False, True), (True, True)])
def test_a_slice_per_wave_is_not_the_whole(read: bool, write: bool) -> None:
    with pytest.raises(StructureError, match=r"slice per wave|shares R"):
        shared(read, write)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trips": (TripCount("T"), TripCount("T", 5))}, "twice"),
        ({"trips": (TripCount("T", -1),)}, r"trips\.T\.least is -1"),
        ({"iterations": Affine(2, (("U", 2),))}, "counts trips by U"),
        ({"iterations": Affine(2, (("T", 1), ("T", 1)))}, "iterations is"),
    ],
)
def test_trip_counts_that_contradict_themselves(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        replace(row_sum_program(), **fields)  # type: ignore[arg-type]


def test_more_trips_than_can_be_walked() -> None:
    with pytest.raises(ScheduleError, match=r"trips\.T\.least"):
        replace(row_sum_program(), trips=(TripCount("T", 10**30),))


def test_boxes_with_nothing_in_them() -> None:
    for box in ((5, 3), (4, 4)):
        with pytest.raises(StructureError, match="touches"):
            changed(row_sum_program(), "epilogue", "store", reads=(Access("sum", ((box,),)),))


def test_a_step_that_writes_an_input() -> None:
    with pytest.raises(StructureError, match="writes the input 'X'"):
        changed(row_sum_program(), "loop", "load R0", writes=(Access("X"),))


@pytest.mark.parametrize("tag", [[], {}, None, "works"])
def test_a_step_of_no_known_kind(tag: object) -> None:
    plain = row_sum_program().to_dict()
    plain["groups"][0]["sections"][0]["steps"][0]["is"] = tag
    with pytest.raises(SpecError, match="says no is"):
        Program.from_dict(plain)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["r.X", "r.mul", "r.sum", "r.t.next"])
def test_one_element_in_a_place_for_two(name: str, axis: int) -> None:
    """What computes the other element? The executor refused it, or summed it too."""
    loop = Loop("one", over="k")
    total = loop.carry("t", F32, start=0, n=1)
    loop.store("out", total.becomes(total * 0.5 + loop.stream("X", F32, k=1, n=1).sum("k")))
    base = lowered(loop.as_written)
    assert verify(base).proved
    place = base.resource(name)
    shape = tuple(
        size + (n == axis % len(place.type.shape)) for n, size in enumerate(place.type.shape)
    )
    grown = replace(place, type=replace(place.type, shape=shape))
    resources = tuple(grown if r is place else r for r in base.resources)
    with pytest.raises(StructureError):
        verify(replace(base, resources=resources))
