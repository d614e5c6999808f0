"""Programs that were PROVED and whose kernels computed other numbers: right, or refused, now."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeloom.declare import Loop, exp2
from pipeloom.declare.functions import keep
from pipeloom.drive.trial import run_program
from pipeloom.errors import GraphError
from pipeloom.judge.verify import verify
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.program import (
    VOCABULARY,
    Access,
    Affine,
    Box,
    Layout,
    OpDef,
    Program,
    Reduce,
    Resource,
    Space,
    Step,
    TripCount,
    Work,
)
from pipeloom.sync import synchronize
from pipeloom.write import EmitError, assemble, emit_program
from pipeloom.write.lower.partial import check_parts, check_start
from pipeloom.write.lower.register_tiles import register_tile
from pipeloom.write.lower.templates import templates_of
from tests.unit.write.programs import lanes, row_sum, tile, with_resource
from tests.unit.write.test_emit_program_refusals import accept


def refused(program: Program, match: str) -> None:
    assert verify(program).proved
    with pytest.raises(EmitError, match=match):
        emit_program(program)


def moved(*moves: tuple[Access, Access]) -> Program:
    """The sum goes through these places before it is stored."""
    base = row_sum(columns=1024)
    (group,) = base.groups
    *others, store = group.sections
    copies = tuple(
        Work(node="total", label="move", iteration=None, is_copy=True, reads=(a,), writes=(b,))
        for a, b in moves
    )
    sections = (*others, replace(store, steps=(*copies, *store.steps)))
    spare = replace(base.resource("sum"), name="spare", start=None, type=tile("f32", b=1, c=1280))
    return replace(
        base,
        groups=(replace(group, sections=sections),),
        resources=(*base.resources, spare),
    )


def test_a_move_onto_what_it_still_reads() -> None:
    low, high = (Access("spare", (((0, 1), at),)) for at in ((0, 1024), (256, 1280)))
    refused(moved((Access("sum"), low), (low, high), (high, Access("sum"))), "still reads of spare")


def test_a_place_whose_dimensions_are_in_another_order() -> None:
    """By name, each part of a square tile goes to its mirror image; lowerings go by axis."""
    turned = tile("f32", k=1, b=1, c=256)
    refused(with_resource(row_sum(), "rows", type=turned), r"\('b', 'k', 'c'\) in rows")


def test_scalars_that_differ_from_lane_to_lane() -> None:
    refused(with_resource(row_sum(), "sum", space=Space.SCALAR), "one number for all lanes")
    loaded = with_resource(row_sum(), "rows", space=Space.SCALAR, layout=None)
    refused(loaded, "scalar registers")


def converted() -> Program:
    loop = Loop("half", over="k")
    loop.store("out", loop.stream("X", "f32", c=2, k=64).to("bf16") + 0.5)
    return synchronize(arrange(loop, GFX950, 1, strategy=in_order).program)


def test_a_place_that_is_wider_than_what_is_computed_there() -> None:
    wide = with_resource(converted(), "convert", type=tile("f32", c=2, k=64))
    refused(wide, "computes bf16 in convert")


def test_part_of_a_register() -> None:
    program = converted()
    for resource in program.resources:
        program = with_resource(program, resource.name, layout=lanes(1))

    def halves(step: Work) -> list[Work]:
        boxes = [((row, row + 1), (0, 64)) for row in range(2)]
        return [
            replace(
                step,
                parts=(box,),
                reads=(replace(step.reads[0], boxes=(box,)),),
                writes=(replace(step.writes[0], boxes=(box,)),),
            )
            for box in boxes
        ]

    (group,) = program.groups
    sections = tuple(
        replace(
            section,
            steps=tuple(
                part
                for step in section.steps
                for part in (
                    halves(step)
                    if isinstance(step, Work) and step.node == "convert"
                    else [replace(step, entries=1)]
                    if isinstance(step, Work) and step.counter
                    else [step]
                )
            ),
        )
        for section in group.sections
    )
    refused(replace(program, groups=(replace(group, sections=sections),)), "part of a register")


# --- trip counts ----------------------------------------------------------------------------------


def test_plain_iterations_that_no_launch_promises() -> None:
    both = replace(
        row_sum(),
        trips=(TripCount("M"), TripCount("T")),
        iterations=Affine(2, (("M", 2), ("T", 2))),
    )
    for program, match in (
        (replace(row_sum(), plain=Affine(0, (("T", 2),))), "has trip counts T"),
        (replace(both, plain=Affine(0, (("T", 4),))), "4 \\* T of them plain"),
        (replace(both, plain=Affine(0, (("T", 2),)), trips=(TripCount("M"), TripCount("T", 1))),
         "plain trips, and a loop that runs at least once"),
    ):  # fmt: skip
        with pytest.raises(EmitError, match=match):
            emit_program(program, judge=accept)


def test_a_small_size_runs_the_least_trips() -> None:
    loop = Loop("sums", over="k")
    total = loop.carry("S", c=16)
    total += exp2(keep(loop.stream("X", "f32", c=16, k=64), loop.left("k", 64), 1)).sum("k")
    loop.store("out", total + 0.0)
    program = synchronize(arrange(loop, GFX950, 1, strategy=in_order).program)
    kernel = emit_program(replace(program, trips=(TripCount("T", 3),)))
    sizes = [1, kernel.launch.least]
    found = [run_program(kernel, assemble(kernel), sizes={"c": 16, "k": size}) for size in sizes]
    assert all(trial.ok for trial in found)
    assert found[0].executed == found[1].executed


# --- lanes ----------------------------------------------------------------------------------------

PARTS = Layout("accumulator", (("side", 16), ("only", 0), ("partial", 1)))


def test_parts_of_a_sum_are_not_the_sum() -> None:
    program = with_resource(row_sum(), "sum", layout=PARTS)
    add, store = (
        next(s for _, _, s in program.groups[0].steps() if isinstance(s, Work) and s.label == label)
        for label in ("add 0", "store out")
    )
    check_parts(program, VOCABULARY, add)
    with pytest.raises(EmitError, match="lanes' parts"):
        check_parts(program, VOCABULARY, store)
    with pytest.raises(EmitError, match="in each lane"):
        check_start(replace(program.resource("sum"), start=1.0))
    scaled = replace(add, node="scaled", accumulates=(), writes=(Access("sum"),))
    meaning = program.meaning
    node = replace(
        meaning[add.node], name="scaled", op="neg", init=None, type=tile("f32", b=1, k=1, c=256)
    )
    program = replace(program, meaning=replace(meaning, nodes=(*meaning.nodes, node)))
    with pytest.raises(EmitError, match="lanes' parts"):
        check_parts(program, VOCABULARY, scaled)


def test_runs_along_k_are_of_elements_not_of_registers() -> None:
    """bf16 loaded singly takes a register each, and has runs of four all the same."""
    result = Resource(
        name="P",
        space=Space.REGISTER,
        type=tile("bf16", m=16, k=32),
        layout=Layout("accumulator", (("side", 16),)),
    )
    runs = {register_tile(result, single=single).run_bytes for single in (False, True)}
    assert runs == {8}


@pytest.mark.parametrize(
    "line",
    ["v_add_f32 {0}, 1.0, {0}", "v_swap_b32 {d}, {0}", "v_add_co_u32 {d}, vcc, {0}, {0}"],
)
def test_a_lowering_that_changes_more_than_its_result(line: str) -> None:
    with pytest.raises(EmitError, match=r"writes (an operand|two results)"):
        templates_of(OpDef("acme.odd", 1, lambda a: a, lowering=(line,)))


# --- addresses ------------------------------------------------------------------------------------


def test_past_the_end_of_two_dimensions() -> None:
    """Two offsets past every descriptor add up to one that is not."""
    loop = Loop("cube", over="k")
    total = loop.carry("S", b=1, m=8, n=64)
    total += loop.stream("X", "f32", b=1, k=1, m=8, n=64).sum("k")
    loop.store("out", total)
    kernel = emit_program(synchronize(arrange(loop, GFX950, 1, strategy=in_order).program))
    code = assemble(kernel)
    for n in (60, 59):  # four columns at a time, and one by one
        trial = run_program(kernel, code, sizes={"b": 2, "m": 7, "n": n, "k": kernel.launch.least})
        assert trial.ok, trial.summary()


# --- sums in parts --------------------------------------------------------------------------------


def halved(reduce: str, boxes: tuple[Box, ...] = (), between: Access | None = None) -> Program:
    """A row's sum in two steps, the second said to be at ``boxes``, or moved ``between``."""
    loop = Loop("halved", over="k")
    x = loop.stream("X", "f32", b=1, k=1, n=512)
    loop.store("out", x + loop.apply(reduce, x, over=("n",), name="row"))
    base = synchronize(arrange(loop, GFX950, 1, strategy=in_order).program)

    def parts(step: Work) -> list[Work]:
        (place,) = step.writes
        low, high = ((((0, 1), (0, 1), at),) for at in ((0, 256), (256, 512)))

        def half(part: tuple[Box, ...]) -> Work:
            return replace(step, parts=part, reads=(replace(step.reads[0], boxes=part),))

        def moved(source: Access, target: Access) -> Work:
            return replace(step, is_copy=True, parts=(), reads=(source,), writes=(target,))

        goes_on = replace(between or place, boxes=boxes)
        moves = [moved(place, goes_on), moved(goes_on, place)] if between else []
        last = replace(half(high), writes=(), accumulates=(goes_on,))
        return [half(low), *moves[:1], last, *moves[1:]]

    (group,) = base.groups
    sections = tuple(
        replace(
            section,
            steps=tuple(
                part
                for step in section.steps
                for part in (
                    parts(step) if isinstance(step, Work) and step.node == "row" else [step]
                )
            ),
        )
        for section in group.sections
    )
    spare = replace(base.resource("row"), name="spare")
    used = (spare,) if between else ()
    return replace(
        base,
        groups=(replace(group, sections=sections),),
        resources=(*base.resources, *used),
    )


@pytest.mark.parametrize(
    ("reduce", "boxes"),
    [("sum_squares", ()), ("sum", (((0, 1), (0, 1)),))],
    ids=["terms that are computed", "one place, said in two ways"],
)
def test_a_sum_in_parts(reduce: str, boxes: tuple[Box, ...]) -> None:
    program = halved(reduce, boxes)
    assert verify(program).proved
    kernel = emit_program(program)
    trial = run_program(kernel, assemble(kernel), sizes={"b": 1, "k": 1, "n": 512})
    assert trial.ok, trial.summary()


def test_part_of_a_sum_is_not_moved() -> None:
    """Each lane has a part of it, and the last step would join what was joined before."""
    refused(halved("sum", between=Access("spare")), "part of a sum that is elsewhere")


def test_parts_of_a_sum_are_joined_before_they_are_rounded() -> None:
    loop = Loop("rounded", over="k")
    scores = loop.resident("Q", "bf16", q=64, d=32) @ loop.stream("X", "bf16", k=16, d=32)
    total = loop.carry("S", q=64)
    total += scores.sum("k")
    loop.store("out", total.to("bf16") + 0.0)
    program = synchronize(arrange(loop, GFX950, 1, strategy=in_order).program)
    assert any(r.layout and "partial" in dict(r.layout.numbers) for r in program.resources)
    kernel = emit_program(program)
    sizes = {"q": 64, "d": 32, "k": kernel.launch.least}
    trial = run_program(kernel, assemble(kernel), sizes=sizes)
    assert trial.ok, trial.summary()


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inf", "true", "0x10", "\u00e4", "a: b", "a\ns_endpgm\n"])
def test_names_are_names_only(name: str) -> None:
    """They stand in metadata, in symbols and in comments, and none is an instruction."""
    program = row_sum()
    (group,) = program.groups

    def called(step: Step) -> Step:
        return replace(step, label=name) if isinstance(step, Work) else step

    sections = tuple(
        replace(section, steps=tuple(map(called, section.steps))) for section in group.sections
    )
    kernel = emit_program(
        replace(program, name=name, groups=(replace(group, sections=sections),)), name=name
    )
    trial = run_program(kernel, assemble(kernel), sizes={"b": 1, "k": 4, "c": 256})
    assert trial.ok, trial.summary()


@pytest.mark.parametrize(
    ("name", "judge"), [("c", "the declaration"), ("k", "the declaration"), ("ld_X", "the writer")]
)
def test_two_arguments_of_one_name(name: str, judge: str) -> None:
    """The later one was loaded over the other: the size of c was the bits of a float."""
    loop = Loop("mean", over="k")
    total = loop.carry("S", b=1, c=64)
    total += loop.stream("X", "f32", b=1, k=1, c=64).sum("k")
    loop.store("out", total * loop.scalar(name))
    if judge == "the declaration":
        with pytest.raises(GraphError, match=f"two arguments called '{name}'"):
            _ = loop.meaning
        return
    program = synchronize(arrange(loop, GFX950, 1, strategy=in_order).program)
    refused(program, f"two arguments called '{name}'")


def test_whether_any_number_is_true() -> None:
    """The bits of 1.0 and 2.0 together are those of infinity."""
    loop = Loop("any", over="k")
    x = loop.stream("X", "f32", b=1, k=1, n=256)
    loop.store("out", x + loop.apply(OpDef("acme.any", 1, lambda a: a, Reduce.ANY), x, over=("n",)))
    program = synchronize(arrange(loop, GFX950, 1, strategy=in_order).program, ops=loop.ops)
    with pytest.raises(EmitError, match="whether any of 'X' is true"):
        emit_program(program, ops=loop.ops)


def test_a_condition_is_all_of_its_instructions() -> None:
    """The comparison finds the opposite, and what follows turns it round."""
    lowering = ("v_cmp_gt_f32 vcc, {0}, {1}", "v_cndmask_b32 {d}, 1.0, 0, vcc")
    at_most = OpDef("acme.at_most", 2, np.less_equal, lowering=lowering, bool_result=True)
    loop = Loop("chosen", over="k")
    row = loop.stream("X", "f32", b=1, k=1, n=256).sum("k")
    total = loop.carry("S", b=1, n=256)
    with loop.when(loop.apply(at_most, row, total)):
        total = total.becomes(total + row + 1.0)
    loop.store("out", total)
    program = synchronize(arrange(loop, GFX950, 1, strategy=in_order).program, ops=loop.ops)
    kernel = emit_program(program, ops=loop.ops)
    sizes = {"b": 1, "k": kernel.launch.least, "n": 256}
    trial = run_program(kernel, assemble(kernel), sizes=sizes, ops=loop.ops)
    assert trial.ok, trial.summary()
