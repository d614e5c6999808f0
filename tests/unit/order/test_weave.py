"""Instructions woven in time: the same work, proved, and as fast as the machine's units allow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from itertools import pairwise
from math import prod

import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.declare.products import product
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.errors import OrderError
from pipeloom.judge.simulate import Kind, simulate
from pipeloom.judge.simulate.issued import usual_iterations
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.order.instructions import refinable, refine, unfit
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import (
    bound_of,
    choices,
    register_copies,
    structures,
    timed,
    variations,
    woven,
)
from pipeloom.order.roles import Loading
from pipeloom.order.tasks import Lowered
from pipeloom.order.weave import Weaver, _sums_before
from pipeloom.program import Barrier, Priority, Program, Region, Space, Unit, Work
from tests.unit.order.loops import gemm_with

GFX950 = target_for("gfx950")


def lowered_gemm(
    m: int, n: int, k: int, waves: int, dtype: str = "bf16", arch: str = "gfx950"
) -> Lowered:
    loop = gemm(m, n, k, dtype)
    return lower(loop.meaning, target_for(arch), loop.ops, loop.staged, waves)


SMALL = lowered_gemm(64, 64, 64, 4)


def work_of(lowered: Lowered) -> dict[tuple[str, Unit], int]:
    """Elements that tasks of a node cover, summed over waves, and instructions of every unit."""
    found: dict[tuple[str, Unit], int] = {}
    for task in lowered.of(Region.LOOP):
        issue = task.issues[0]
        waves = len(lowered.group(task.group).waves) if issue.unit is not Unit.LOAD_LDS else 1
        parts = task.parts if len(task.parts) > 1 else task.parts * waves
        size = sum(prod(stop - start for start, stop in box) for box in parts)
        found[task.node, issue.unit] = found.get((task.node, issue.unit), 0) + size
    return found


def test_what_full_loads_leave_over_comes_in_narrow_ones() -> None:
    """208 rows of 128 bytes are six and a half loads of 256 lanes by 16 bytes."""
    fine = refine(lowered_gemm(208, 256, 64, 4))
    loads = [t for t in fine.of(Region.LOOP) if t.node == "A" and t.counter == "vmcnt"]
    assert [t.issues[0].bytes for t in loads] == 6 * [16] + 2 * [4]
    rows = [t.parts[0][0] for t in loads]
    assert [row for start, stop in rows for row in range(start, stop)] == list(range(208))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "arch"), [("bf16", "gfx950"), ("fp8", "gfx950"), ("fp16", "gfx942")]
)
def test_instructions_do_the_same_work(groups: int, dtype: str, arch: str) -> None:
    coarse = lowered_gemm(128, 128, 128 if dtype == "fp8" else 64, 8, dtype, arch)
    fine = refine(coarse, groups)
    assert work_of(fine) == work_of(coarse)
    for task in fine.of(Region.LOOP):
        assert task.issues[0].count == 1
        assert task.issues[0].unit is Unit.MATRIX or task.entries == 1
    assert {t.group for t in fine.tasks} == {g.name for g in fine.groups}


@pytest.mark.parametrize(("dtype", "shape"), [("fp4", "32x32x64"), ("fp8", "16x16x128")])
def test_a_wave_has_two_issue_slots_behind_each_product(dtype: str, shape: str) -> None:
    """Block scales take a slot of every product, and loads of their own."""
    loop = product(64, 64, 256, dtype, blocks=True)
    lowered = lower(loop.meaning, GFX950, loop.ops, loop.staged, 4)
    products = [t.issues[0] for t in lowered.of(Region.LOOP) if t.issues[0].unit is Unit.MATRIX]
    assert all(issue.shape.startswith(shape) for issue in products)
    held = GFX950.mfma_operand_cycles.value + GFX950.mfma_scale_cycles.value
    room = GFX950.matrix_op(products[0].shape).cycles.value - held
    assert room >= 2 * GFX950.issue_cycles.value


@pytest.mark.parametrize("depth", [128, 256, 512])
def test_fragments_are_all_of_their_tile_and_no_more(depth: int) -> None:
    loop = product(64, 64, depth, "fp8", blocks=True)
    coarse = lower(loop.meaning, GFX950, loop.ops, loop.staged, 4)

    def elements(found: Lowered) -> Counter[str]:
        of: Counter[str] = Counter()
        for place in found.places:
            of[place.name.split(".")[0]] += prod(place.type.shape)
        return of

    assert elements(refine(coarse)) == elements(coarse)


def test_what_is_cut_to_single_instructions() -> None:
    loop = row_sum()
    assert not refinable(lower(loop.meaning, GFX950, loop.ops, loop.staged, 4))
    loop = gemm_with(staged="A")
    assert refinable(lower(loop.meaning, GFX950, loop.ops, loop.staged, 4))
    assert refinable(SMALL)
    loop = gemm_with(staged="")
    assert "staged" in unfit(lower(loop.meaning, GFX950, loop.ops, loop.staged, 4))
    loop = attention()
    assert refinable(lower(loop.meaning, GFX950, loop.ops, loop.staged, 4))


@pytest.mark.parametrize(
    ("shape", "waves", "pattern"),
    [
        ((64, 64, 64), 4, Pattern()),
        ((64, 64, 64), 4, Pattern(barriers=2)),
        ((128, 128, 64), 8, Pattern(groups=2, cluster=8, margin=0)),
    ],
)
def test_every_pattern_is_proved(shape: tuple[int, int, int], waves: int, pattern: Pattern) -> None:
    program = woven(lowered_gemm(*shape, waves), pattern)
    assert verify(program).proved, verify(program).summary()
    assert len(program.groups) == pattern.groups


def test_a_sum_is_whole_before_the_next_product_adds_to_it() -> None:
    """``c += a @ b; c += a @ d``, in steps of K that all of the first take before the second."""
    loop = Loop("twice", over="k")
    a, b, d = (loop.stream(x, "bf16", **{y: 64, "k": 64}).staged() for x, y in ("Am", "Bn", "Dn"))
    c = loop.carry("C", m=64, n=64)
    c += a @ b
    c += a @ d
    loop.store("out", c)
    program = woven(lower(loop.meaning, GFX950, loop.ops, loop.staged, 4), Pattern(barriers=2))
    assert verify(program).proved, verify(program).summary()


def test_products_that_add_to_one_result_are_no_neighbours() -> None:
    """The second would wait for the first, and the simulator of a program sees that."""
    target = target_for("gfx942")
    for m, apart in ((16, False), (32, True)):
        lowered = lowered_gemm(m, 16, 64, 1, "fp16", "gfx942")
        program = woven(lowered, Pattern(order=("rows", "columns", "depth")))
        trace = simulate(program, iterations=usual_iterations(program))
        starts, onto = [], []
        for event in trace.events:
            found = trace.instruction(event)
            if found.kind is Kind.MFMA:
                starts.append(event.start)
                onto.append(found.chain)
        assert all(one != two for one, two in pairwise(onto)) is apart
        length = target.matrix_op("16x16x16_f16").cycles.value
        late = 0 if apart else target.mfma_dependent_extra.value
        assert min(two - one for one, two in pairwise(starts)) == length + late


def assert_one_barrier_apart(program: Program) -> None:
    """The first of two groups, at the start of their loops and at the end."""
    before = [
        sum(isinstance(s, Barrier) for x in g.sections[:1] for s in x.steps) for g in program.groups
    ]
    behind = [
        sum(isinstance(s, Barrier) for x in g.sections[2:] for s in x.steps) for g in program.groups
    ]
    assert [g.sections[1].trips for g in program.groups] == ["T", "T"]
    assert (before[1] - before[0], behind[0] - behind[1]) == (1, 1)


def test_groups_in_step_may_start_one_barrier_apart() -> None:
    assert_one_barrier_apart(
        woven(lowered_gemm(128, 128, 64, 8), Pattern(groups=2, barriers=2, stagger=True))
    )


def test_groups_that_take_turns_start_one_barrier_apart() -> None:
    program = woven(lowered_gemm(128, 128, 64, 8), Pattern(groups=2, cluster=8, margin=0))
    assert_one_barrier_apart(program)
    labels = [
        [
            s.label.split(".")[0]
            for x in g.sections
            if x.trips
            for s in x.steps
            if isinstance(s, Work)
        ]
        for g in program.groups
    ]
    assert [x for x in labels[0] if "load" not in x] == [x for x in labels[1] if "load" not in x]


def test_a_woven_loop_reaches_its_bound() -> None:
    """The 4-wave GEMM in bf16: one barrier of a lone wave per K tile is all that is lost."""
    lowered = lowered_gemm(256, 256, 64, 4)
    bound, unit = bound_of(lowered)
    lost = GFX950.barrier_alone_cycles.value - (16 - GFX950.mfma_operand_cycles.value)
    assert (bound, unit) == (2048 + max(0, lost), "matrix unit")
    program = woven(lowered, Pattern(deep=1))
    trace = simulate(program, iterations=3 + 4 * 4)
    assert trace.steady_cycles_per_iteration / 4 < 1.005 * bound


def test_hurried_reads_free_lds_for_loads_that_take_long() -> None:
    """Two tiles of this K fill LDS on gfx942: what is read all the time cannot be loaded again."""
    lowered = lowered_gemm(96, 160, 64, 4, "fp16", "gfx942")
    bound, _ = bound_of(lowered)
    assert steady_cycles(woven(lowered, Pattern())) > 1.5 * bound
    program = woven(lowered, Pattern(barriers=3, span=80))
    assert steady_cycles(program) < 1.05 * bound
    assert verify(program).proved


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(OrderError, match="iterations are fewer"):
        woven(SMALL, Pattern(), k_tiles=1)
    with pytest.raises(OrderError, match="registers per lane"):
        woven(lowered_gemm(256, 256, 128, 4), Pattern())


@pytest.mark.parametrize(
    ("waves", "groups", "turns"), [(4, {1}, {0}), (8, {1, 2}, {0, 2, 4, 8}), (6, {1}, {0})]
)
def test_groups_and_turns_follow_from_the_waves(
    waves: int, groups: set[int], turns: set[int]
) -> None:
    """128 x 128 x 64 in 8 waves: 16 products of a wave, and its SIMD has another one."""
    lowered = lowered_gemm(*((128, 128) if waves != 6 else (96, 128)), 64, waves)
    found = list(structures(lowered))
    assert len(found) == len(set(found))
    assert {p.groups for p in found} == groups
    assert {p.cluster for p in found} == turns
    assert all(p.groups > 1 for p in found if p.cluster)


def test_a_variation_is_another_choice_of_one_kind() -> None:
    space = choices(lowered_gemm(128, 128, 64, 8))
    turns = Pattern(groups=2, cluster=4)
    found = list(variations(turns, space))
    assert found == list(variations(turns, space))
    changed = [
        [f.name for f in fields(p) if getattr(p, f.name) != getattr(turns, f.name)] for p in found
    ]
    assert all(len(names) == 1 for names in changed)
    kinds = {name for names in changed for name in names}
    assert {"loading", "priority", "order", "margin", "deep"} <= kinds
    assert not kinds & {"groups", "barriers", "stagger", "span"}, "turns have their own barriers"


@pytest.mark.parametrize("loading", Loading)
def test_whoever_loads_all_of_it_comes(loading: Loading) -> None:
    fine = refine(lowered_gemm(128, 128, 64, 8), 2, loading)
    loads = [t for t in fine.of(Region.LOOP) if t.issues[0].unit is Unit.LOAD_LDS]
    rows = sorted((t.node, row) for t in loads for row in range(*t.parts[0][0]))
    assert rows == [(node, row) for node in "AB" for row in range(128)]
    by = {name: [t.group for t in loads].count(name) for name in ("all 0", "all 1")}
    first, last = {Loading.FIRST: (1, 0), Loading.LAST: (0, 1)}.get(loading, (0.5, 0.5))
    assert (by["all 0"], by["all 1"]) == (first * len(loads), last * len(loads))


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern(groups=2, barriers=2, stagger=True),
        Pattern(groups=2, barriers=2, priority=True, loading=Loading.FIRST),
        Pattern(groups=2, cluster=4, priority=True, loading=Loading.BY_TILE),
    ],
    ids=str,
)
def test_offsets_priorities_and_loaders_are_proved(pattern: Pattern) -> None:
    lowered = lowered_gemm(128, 64, 64, 8)
    program = woven(lowered, pattern)
    assert verify(program).proved, verify(program).summary()
    steps = [s for g in program.groups for x in g.sections if x.trips for s in x.steps]
    assert any(isinstance(s, Priority) for s in steps) == pattern.priority


def test_four_waves_of_a_simd_may_be_four_groups() -> None:
    lowered = lowered_gemm(128, 128, 64, 16)
    assert {p.groups for p in structures(lowered)} == {1, 2, 4}
    program = woven(lowered, Pattern(groups=4, cluster=4))
    assert verify(program).proved, verify(program).summary()


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    code = (
        "from pipeloom.order.patterns import woven; from pipeloom.order.pattern import Pattern;"
        "from pipeloom.declare.kernels import gemm; from pipeloom.order.node_tasks import lower;"
        "from pipeloom.machine.chips import target_for; loop = gemm(64, 128, 64);"
        "low = lower(loop.meaning, target_for('gfx950'), loop.ops, loop.staged, 8);"
        "print(woven(low, Pattern(groups=2, barriers=2)).content_hash)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_a_lead_brings_reads_forward_by_as_many_cycles() -> None:
    fine = refine(SMALL)
    registers = register_copies(fine)
    wanted = [Weaver(fine, Pattern(lead=lead), registers)._reads(0)[0] for lead in (0, 64, 128)]
    assert wanted == [wanted[0], wanted[0] - 64, wanted[0] - 128]


def test_reads_come_in_the_order_in_which_products_first_ask_for_them() -> None:
    fine = refine(SMALL)
    weaver = Weaver(fine, Pattern(), register_copies(fine))
    reads = weaver.of(Unit.LDS_READ, 0)
    places = [weaver.tasks[i].writes[0].place for i in reads]
    uses = {place: (float(-n), float(n)) for n, place in enumerate(dict.fromkeys(places))}
    firsts = [uses[weaver.tasks[i].writes[0].place][0] for i in weaver._read_order(reads, uses)]
    assert len(set(firsts)) > 1
    assert firsts == sorted(firsts)


def test_sums_that_follow_each_other_are_counted() -> None:
    loop = Loop("three", over="k")
    c = loop.carry("C", "f32", start=0.0, m=64, n=64)
    x = loop.stream("X", "bf16", m=64, k=64)
    for name in ("A", "B", "D"):
        c += x @ loop.stream(name, "bf16", n=64, k=64)
    loop.store("out", c)
    sums = [n for n in loop.meaning.nodes if n.op == "matmul"]
    assert [_sums_before(loop.meaning, n) for n in sums] == [0, 1, 2]


def test_only_waves_that_are_alone_have_tiles_of_other_depths() -> None:
    assert {p.deep for p in structures(lowered_gemm(256, 256, 64, 8))} == {0}
    assert len({p.deep for p in structures(SMALL)}) > 1


def test_products_of_scaled_blocks_are_cut_to_instructions() -> None:
    loop = product(64, 64, 256, "fp8", blocks=True)
    lowered = lower(loop.meaning, GFX950, loop.ops, loop.staged, 4)
    assert refinable(lowered)
    assert len(refine(lowered).of(Region.LOOP)) > len(lowered.of(Region.LOOP))


def test_turns_divide_the_products_of_a_wave() -> None:
    """256 x 128 x 64 in 8 waves: 32 products of a wave."""
    assert choices(lowered_gemm(256, 128, 64, 8))["cluster"] == (0, 2, 4, 8, 16)


def test_a_read_may_come_in_the_last_moment() -> None:
    """Behind a barrier that leaves its latency before the first product, and not a cycle less."""
    fine = refine(SMALL)
    pattern, registers = Pattern(), register_copies(fine)
    weaver = Weaver(fine, pattern, registers)
    last = min(first for first, _ in weaver._uses(0).values()) - weaver.latency
    barrier = last - weaver.machine.barrier
    assert weaver._reads(0, [barrier]) == [last]
    with pytest.raises(OrderError, match="more than"):
        Weaver(fine, pattern, registers)._reads(0, [barrier + 1])


def test_a_tile_in_lds_is_free_again_at_a_barrier() -> None:
    """Of every tile, whose loads come at different times, at the one behind its last read."""
    found = timed(lowered_gemm(128, 128, 64, 4), Pattern(barriers=2))
    starts, ii = found.timetable.starts, found.timetable.ii
    count = len(found.loop.tasks)
    barriers = {start % ii for start in starts[count : count + found.loop.barriers]}
    tiles = [channel for channel in found.loop.problem.channels if channel.bytes]
    assert all(len({starts[i] for i in tile.fills}) > 1 for tile in tiles)
    for tile in tiles:
        ends = {starts[r.op] + r.hold for r in tile.readers}
        assert len(ends) == 1
        assert {end % ii for end in ends} <= barriers


@pytest.mark.parametrize(("pattern", "copies"), [(Pattern(), 2), (Pattern(barriers=2, span=50), 1)])
def test_a_tile_that_is_read_in_half_the_time_is_loaded_in_the_other(
    pattern: Pattern, copies: int
) -> None:
    program = woven(lowered_gemm(256, 256, 64, 4), pattern)
    assert {r.copies for r in program.resources if r.space is Space.LDS} == {copies}
