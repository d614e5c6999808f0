"""What cannot be written is refused by name, before anything is written."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import gemm
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import run_program
from pipeloom.judge.verify import Status, verify
from pipeloom.machine.dtypes import F32, FP16
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.program import (
    VOCABULARY,
    Access,
    Affine,
    Layout,
    OpDef,
    Program,
    Space,
    TileType,
    TripCount,
    Work,
)
from pipeloom.write import EmitError, GateError, assemble, emit_program
from pipeloom.write.lower.templates import templates_of
from tests.unit.write.programs import RELU, derived, row_sum, tile, with_resource, with_step


def accept(program: Program) -> Any:
    """A judge that proves everything: refusals here are the writer's own."""
    return SimpleNamespace(status=Status.PROVED, findings=())


def refused(program: Program, match: str) -> None:
    with pytest.raises(EmitError, match=match):
        emit_program(program, judge=accept)


def without_waits(program: Program) -> Program:
    groups = tuple(
        replace(
            g,
            sections=tuple(
                replace(s, steps=tuple(x for x in s.steps if x.TAG != "wait")) for s in g.sections
            ),
        )
        for g in program.groups
    )
    return replace(program, groups=groups)


def test_what_is_not_proved() -> None:
    racing = without_waits(row_sum())
    assert verify(racing).status is not Status.PROVED
    with pytest.raises(GateError, match="so it is not emitted"):
        emit_program(racing)


def test_a_layout_that_nobody_knows() -> None:
    refused(with_resource(row_sum(), "rows", layout=Layout("rings")), "layout 'rings'")
    refused(with_resource(row_sum(), "rows", layout=None), "has no layout")
    refused(with_resource(row_sum(), "rows", layout=Layout("operand")), "lacks its number 'side'")


def test_numbers_that_no_layout_has() -> None:
    refused(
        with_resource(row_sum(), "rows", layout=Layout("lanes", (("vector", 0),))), "vector = 0"
    )
    parts = Layout("lanes", (("vector", 4), ("partial", 1)))
    refused(with_resource(row_sum(), "rows", layout=parts), "holds parts of kind 1")


def test_an_operand_laid_out_along_another_dimension_than_it_is_summed() -> None:
    """A square tile fits either way, and would be multiplied transposed."""
    program, name = derived("attention", "gfx950"), "K tile"
    before = program.resource(name).layout
    assert before is not None
    for axis, match in ((0, "sums along 'keys'"), (2, "axis = 2")):
        layout = replace(before, numbers=(*before.numbers, ("axis", axis)))
        refused(with_resource(program, name, layout=layout), match)


def test_tiles_that_lanes_do_not_share() -> None:
    uneven = Layout("lanes", (("vector", 3),))
    refused(with_resource(row_sum(), "rows", layout=uneven), "do not share")


def test_elements_that_memory_cannot_hold() -> None:
    program = row_sum()
    nodes = tuple(
        replace(n, type=tile("fp6", **n.type.sizes)) if n.name == "X" else n
        for n in program.meaning.nodes
    )
    meaning = replace(program.meaning, nodes=nodes)
    refused(replace(program, meaning=meaning), r"X is fp6\(.*cannot load")


def test_scales_where_no_product_takes_them() -> None:
    program = row_sum()
    rows = tile("e8m0", **program.resource("rows").type.sizes)
    refused(with_resource(program, "rows", type=rows), "rows hold e8m0")
    whole = Layout("scales", (("side", 16), ("depth", 64)))
    refused(with_resource(program, "rows", type=tile("e8m0", m=16, k=64), layout=whole), "no rows")


def test_scales_in_lds() -> None:
    loop = Loop("scaled", over="k")
    c = loop.carry("C", m=64, n=64)
    a, b = loop.stream("A", "fp8", m=64, k=128), loop.stream("B", "fp8", n=64, k=128)
    s, t = loop.stream("S", "e8m0", m=64, k=128), loop.stream("T", "e8m0", n=64, k=128)
    c += loop.apply("scaled_matmul", a.staged(), b.staged(), s.staged(), t, over=("k",))
    loop.store("out", c)
    program = arrange(loop, GFX950, 4, strategy=in_order).program
    refused(program, "holds e8m0 in LDS")


def test_fewer_instructions_than_counted() -> None:
    refused(with_step(row_sum(), "load X -> 0", entries=2), "takes 1 vmcnt entries .* counts 2")


def test_stores_count_as_their_shortest_path() -> None:
    """Four single stores stand beside the wide one, but only one of the two ways is taken."""
    refused(with_step(row_sum(), "store out", entries=2), "store out takes 1 vmcnt entries")


def test_operands_in_other_lanes() -> None:
    refused(
        with_resource(row_sum(), "sum", layout=Layout("lanes", (("vector", 2),))),
        "do not hold all of what it sums",
    )


def test_conditional_work() -> None:
    """Only what changes a value element by element can be skipped."""
    program, rows = row_sum(), Access("rows")
    copy = with_step(program, "load X -> 0", when="X", reads=(Access("X"), rows))
    refused(copy, "runs only where 'X' holds")
    refused(with_step(program, "add 0", when="X", reads=(rows, rows)), "reduces only where 'X'")


def test_a_condition_that_is_no_truth_value() -> None:
    program = derived("attention", "gfx950")
    nodes = tuple(
        replace(n, type=replace(n.type, dtype=F32)) if n.name == "gt" else n
        for n in program.meaning.nodes
    )
    refused(
        replace(program, meaning=replace(program.meaning, nodes=nodes)),
        "by which steps are skipped",
    )


def test_computing_on_memory() -> None:
    direct = with_step(row_sum(), "add 0", reads=(Access("X"),), counter="vmcnt", entries=1)
    refused(direct, "in global memory")


def test_trip_counts_that_the_size_does_not_give() -> None:
    program = row_sum()
    refused(replace(program, trips=(TripCount("T"), TripCount("U"))), "has trip counts T, U")
    refused(replace(program, iterations=Affine(2)), "has trip counts T")


def test_waves_with_registers_of_their_own() -> None:
    program = derived("gemm", "gfx950")
    step = next(s for _, _, s in program.groups[0].steps() if getattr(s, "accumulates", ()))
    assert isinstance(step, Work)
    first, second = (((0, 16), (0, 32)),), (((0, 16), (32, 64)),)
    place = replace(step.reads[0], boxes=2 * first + 2 * second)
    reads = (place, step.reads[1])
    refused(with_step(program, step.label, reads=reads), "touch different registers")


def test_products_that_no_instruction_does() -> None:
    program = derived("gemm", "gfx950")
    operands = [r for r in program.resources if r.layout and r.layout.kind == "operand"]
    for resource in operands:
        program = with_resource(
            program, resource.name, layout=Layout("operand", (("side", 16), ("depth", 64)))
        )
    refused(program, "has no 16x16x64 matrix instruction for bf16")


def test_scratch_memory_that_does_not_fit() -> None:
    program = derived("gemm", "gfx950")
    lds = next(r for r in program.resources if r.space is Space.LDS)
    with pytest.raises(EmitError, match="bytes of LDS, but gfx950 has 163840"):
        emit_program(with_resource(program, lds.name, copies=40), judge=accept)


@pytest.mark.parametrize(
    ("lowering", "match"),
    [
        ((), "op 'acme.odd' has no lowering"),
        (("s_mov_b32 {d}, {0}",), "is no vector instruction"),
        (("v_mov_b32 {d}, {1}",), "takes {1} of 1 operand"),
        (("v_mov_b32 {d}, -{0}",), "has operand '-{0}'"),
        (("v_add_f32 {d}, {0}",), "does not fit v_add_f32"),
    ],
)
def test_lowerings_that_cannot_be_read(lowering: tuple[str, ...], match: str) -> None:
    with pytest.raises(EmitError, match=re.escape(match)):
        templates_of(OpDef("acme.odd", 1, lambda a: a, lowering=lowering))


@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ({"b": 1, "k": 3, "c": 256}, r"along 'k' is 3.*2 \+ 2 \* T iterations of 1"),
        ({"b": 1, "k": 0, "c": 256}, "along 'k' is 0"),
        ({"b": 1, "k": 4}, "along 'c' is None"),
    ],
)
def test_sizes_that_the_kernel_cannot_compute(sizes: dict[str, int], match: str) -> None:
    launch = emit_program(row_sum()).launch
    assert launch is not None
    with pytest.raises(EmitError, match=match):
        launch.check(sizes)


def test_leading_dimensions() -> None:
    emitted = emit_program(derived("gemm", "gfx950"))
    launch = emitted.launch
    assert launch is not None
    sizes = {"m": 64, "n": 64, "k": emitted.k_min}
    with pytest.raises(EmitError, match="ld_A is 3, shorter than a row"):
        launch.check(sizes, {"A": 3})
    with pytest.raises(EmitError, match="rows are not 16-byte aligned"):
        launch.check(sizes, {"B": emitted.k_min + 1})
    with pytest.raises(EmitError, match="2 GiB or more"):
        launch.check(sizes, {"A": 1 << 26})
    with pytest.raises(EmitError, match="2 GiB or more"):  # (32, 63) would be (0, 0)
        launch.check({**sizes, "m": 1, "n": 63}, {"out": 1 << 25})
    launch.check({**sizes, "m": 1}, {"out": 1 << 24})


def test_strides_of_a_batch() -> None:
    """Rows of a later problem are aligned like those of the first."""
    loop = Loop("sums", over="k")
    total = loop.carry("S", "f32", b=1, c=512)
    total += loop.stream("X", "bf16", b=1, k=1, c=512).sum("k")
    loop.store("out", total)
    loop.batch("X", "out", over=("heads",))
    launch = emit_program(pipeline(loop, GFX950, 1, strategy=in_order)).launch
    sizes = {"b": 1, "k": launch.least, "c": 512, "heads": 2}
    launch.check(sizes, strides={"stride_X_heads": 514})
    with pytest.raises(EmitError, match=r"stride_X_heads is 513 .* 4-byte aligned"):
        launch.check(sizes, strides={"stride_X_heads": 513})


def test_arrays_of_one_dimension_have_an_end_too() -> None:
    """2^30 f32 make a descriptor of 0 bytes: reads would give zeros, and stores go nowhere."""
    loop = Loop("relu", over="k")
    loop.store("out", loop.apply(RELU, loop.stream("X", "f32", k=256)))
    program = pipeline(loop, GFX950, 1, strategy=in_order)
    launch = emit_program(program, ops=VOCABULARY.extended(RELU)).launch
    launch.check({"k": 2**29 - 256})
    for size in (2**29, 2**30):
        with pytest.raises(EmitError, match="2 GiB or more"):
            launch.check({"k": size})


def test_a_run_that_goes_wrong_says_so() -> None:
    """Without its waits the kernel multiplies what is not there yet."""
    emitted = emit_program(without_waits(row_sum()), judge=accept)
    trial = run_program(emitted, assemble(emitted), sizes={"b": 1, "k": 6, "c": 256})
    assert not trial.ok
    assert "WRONG" in trial.summary()


def test_two_types_that_no_instruction_takes_together() -> None:
    """From JSON, say, where products name no instruction: others are refused as programs."""
    program = pipeline(gemm(32, 32, 32), GFX950, 1, strategy=in_order)
    sections = tuple(
        replace(
            section,
            steps=tuple(
                replace(s, issues=()) if isinstance(s, Work) and s.accumulates else s
                for s in section.steps
            ),
        )
        for section in program.groups[0].sections
    )
    program = replace(program, groups=(replace(program.groups[0], sections=sections),))

    def typed(kind: TileType) -> TileType:
        return replace(kind, dtype=FP16)

    nodes = (replace(n, type=typed(n.type)) if n.name == "B" else n for n in program.meaning.nodes)
    mixed = replace(
        program,
        meaning=replace(program.meaning, nodes=tuple(nodes)),
        resources=tuple(
            replace(r, type=typed(r.type)) if "B" in r.name else r for r in program.resources
        ),
    )
    refused(mixed, "bf16 by fp16|fp16 by bf16")
