"""Programs that were PROVED and whose kernels computed other numbers: right, or refused, now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom.declare import Loop, exp2
from pipeloom.declare.tensor import keep
from pipeloom.drive.trial import run_program
from pipeloom.judge.verify import verify
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.program import Access, Affine, Program, Space, TripCount, Work
from pipeloom.sync import synchronize
from pipeloom.write import EmitError, assemble, emit_program
from tests.unit.write.programs import lanes, row_sum, tile, with_resource


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


def test_part_of_a_register() -> None:
    loop = Loop("half", over="k")
    x = loop.stream("X", "f32", c=2, k=64)
    loop.store("out", x.to("bf16") + 0.5)
    program = synchronize(arrange(loop, GFX950, 1, strategy=in_order).program)
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
    refused(replace(row_sum(), plain=Affine(0, (("T", 4),))), "4 \\* T of them plain")
    least = replace(row_sum(), plain=Affine(0, (("T", 2),)), trips=(TripCount("T", 1),))
    refused(least, "plain trips, and a loop that runs at least once")


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
