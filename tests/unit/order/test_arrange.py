"""Every kind of declaration, lowered and ordered, computes what it means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.drive.pipeline import pipeline
from pipeloom.errors import ScheduleError
from pipeloom.machine.dtypes import BF16
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.order.modulo import Objective
from pipeloom.order.strategy import Exact
from pipeloom.program import Program, Region, Space, Work
from pipeloom.program.block_values import evaluate_block
from pipeloom.program.tiles import overlap, volume
from tests.unit.order import loops
from tests.unit.order.lockstep import run_in_step

QUICK = Exact(work_limit=1.0)
SCALARS = {"scale": 0.125, "slack": 1.0, "s": 2.0}

CASES: dict[str, tuple[Callable[[], Loop], Target, int]] = {
    "gemm on one wave": (lambda: gemm(32, 64, 32), GFX950, 1),
    "gemm on two waves": (lambda: gemm(64, 96, 32), GFX950, 2),
    "gemm on four waves": (lambda: gemm(128, 64, 64), GFX950, 4),
    "gemm on eight waves": (lambda: gemm(64, 128, 32), GFX950, 8),
    "gemm on gfx942": (lambda: gemm(64, 64, 32), GFX942, 4),
    "gemm of fp8": (lambda: gemm(64, 64, 128, "fp8"), GFX950, 4),
    "gemm of fp4": (lambda: gemm(64, 64, 128, "fp4"), GFX950, 4),
    "gemm of f32": (lambda: gemm(64, 64, 32, "f32"), GFX942, 4),
    "one operand straight to registers": (lambda: loops.gemm_with(staged="A"), GFX950, 4),
    "both straight to registers": (lambda: loops.gemm_with(staged=""), GFX950, 2),
    "bias and relu": (lambda: loops.gemm_with(bias=True), GFX950, 4),
    "resident weights": (lambda: loops.resident_weights(staged=False), GFX950, 4),
    "resident weights through LDS": (lambda: loops.resident_weights(staged=True), GFX950, 2),
    "two kinds of product": (loops.two_products, GFX950, 4),
    "attention": (lambda: attention(64, 32, 32), GFX950, 4),
    "row sum": (row_sum, GFX950, 1),
    "row sum of several rows": (lambda: row_sum(1024, 4), GFX950, 2),
    "skipped update": (loops.lazy_maximum, GFX950, 1),
    "masked update": (loops.masked_rows, GFX950, 1),
    "two carries": (loops.two_carries, GFX950, 1),
    "element-wise": (loops.scaled_sum, GFX950, 4),
    "an op of one's own": (loops.own_op, GFX950, 2),
    "staged vector": (loops.staged_sum, GFX950, 2),
    "row totals": (loops.row_totals, GFX950, 4),
    "last value": (loops.last_value, GFX950, 1),
    "product and row sums": (loops.product_and_row_sums, GFX950, 2),
}


@pytest.fixture(scope="module", params=CASES, ids=lambda name: str(name))
def case(request: pytest.FixtureRequest) -> tuple[Loop, Program]:
    declare, target, waves = CASES[request.param]
    loop = declare()
    return loop, arrange(loop, target, waves, strategy=QUICK).program


def assert_computes(loop: Loop, program: Program, trips: int) -> None:
    """In step, it gives what NumPy does."""
    count = program.iterations.at({"T": trips})
    random = np.random.default_rng(count)
    tiles = {
        node.name: [
            random.integers(-3, 4, node.type.shape).astype(np.float32) for _ in range(max(count, 1))
        ]
        for node in loop.meaning.inputs
    }
    wanted = evaluate_block(loop.meaning, tiles, count, SCALARS, loop.ops)
    found = run_in_step(program, tiles, trips, SCALARS, loop.ops)
    for name, values in wanted.items():
        assert len(found[name]) == len(values)
        for got, value in zip(found[name], values, strict=True):
            np.testing.assert_allclose(got, value, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_it_computes_what_it_means(case: tuple[Loop, Program], trips: int) -> None:
    loop, program = case
    if program.iterations.at({"T": trips}) == 0:
        pytest.skip("no iterations")
    assert_computes(loop, program, trips)


def test_json_gives_it_back(case: tuple[Loop, Program]) -> None:
    _, program = case
    again = Program.from_json(program.to_json())
    assert again == program
    assert again.content_hash == program.content_hash


def test_every_task_runs_once_per_iteration(case: tuple[Loop, Program]) -> None:
    _, program = case
    for trips in (0, 2):
        count = program.iterations.at({"T": trips})
        found: Counter[tuple[str, int]] = Counter()
        for group in program.groups:
            for section in group.sections:
                for trip in range(trips if section.trips else 1):
                    first = section.first.at({"T": trips}) + trip * section.advance
                    found.update(
                        (step.label, first + step.iteration)
                        for step in section.steps
                        if isinstance(step, Work) and step.iteration is not None
                    )
        labels = {label for label, _ in found}
        assert found == Counter({(label, i): 1 for label in labels for i in range(count)})


def test_parts_tile_the_work(case: tuple[Loop, Program]) -> None:
    """The parts of a node's tasks are disjoint, or alike in several waves, and cover its domain."""
    _, program = case
    tasks = {s.label: s for g in program.groups for _, _, s in g.steps() if isinstance(s, Work)}
    for node in program.meaning.nodes:
        computed = [t for t in tasks.values() if t.node == node.name and not t.is_copy]
        boxes = {box for task in computed for box in task.parts}
        if computed:
            assert sum(map(volume, boxes)) == program.meaning.domain(node).elements
        assert all(a == b or overlap(a, b) is None for a in boxes for b in boxes)


def test_it_fits_the_chip(case: tuple[Loop, Program]) -> None:
    _, program = case
    held = sum(r.bytes for r in program.resources if r.space is Space.LDS)
    assert held <= program.target.lds_kib.value * 1024


@pytest.mark.parametrize(
    ("arch", "waves", "k"), [(GFX950, 4, 64), (GFX950, 8, 64), (GFX942, 4, 32)]
)
def test_a_gemm_reaches_the_bound_of_the_matrix_unit(arch: Target, waves: int, k: int) -> None:
    ordered = arrange(gemm(256, 256, k), arch, waves).program.provenance.ordered
    assert ordered is not None
    assert (ordered.cycles, ordered.bound, ordered.proved) == (2048, 2048, True)


@pytest.mark.parametrize("k_tiles", [1, 2, 3, 4, 5, 9])
def test_an_order_for_any_number_of_iterations(k_tiles: int) -> None:
    loop = gemm(64, 64, 32)
    program = arrange(loop, GFX950, 4, k_tiles=k_tiles, strategy=QUICK).program
    base, (_, unroll) = program.iterations.constant, program.iterations.factors[0]
    assert base <= k_tiles
    assert (k_tiles - base) % unroll == 0
    assert_computes(loop, program, (k_tiles - base) // unroll)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_depth_limits_the_copies(depth: int) -> None:
    program = arrange(gemm(64, 64, 32), GFX950, 4, depth=depth, strategy=QUICK).program
    assert max(r.copies for r in program.resources) == depth


def test_stages_limit_the_overlap() -> None:
    loop = gemm(64, 64, 32)
    program = arrange(loop, GFX950, 4, stages=2, strategy=QUICK).program
    assert program.provenance.ordered is not None
    assert program.provenance.ordered.stages == 2
    assert_computes(loop, program, 2)


def test_slower_memory_takes_more_copies() -> None:
    def copies(latency: int) -> int:
        program = arrange(gemm(64, 64, 32), GFX950, 4, global_latency=latency).program
        return max(r.copies for r in program.resources if r.space is Space.LDS)

    assert copies(2000) > copies(300)


def test_waves_by_dimension() -> None:
    loop = gemm(64, 64, 32)
    program = arrange(loop, GFX950, {"m": 4}, strategy=QUICK).program
    assert program.waves == 4
    assert program.provenance.notes[-1] == "waves: 4 along m"
    assert_computes(loop, program, 1)


def test_the_exact_strategy_takes_objectives() -> None:
    both = Exact(work_limit=2.0, objectives=(Objective.STAGES, Objective.BUFFERS))
    program = arrange(gemm(64, 64, 32), GFX950, 4, strategy=both).program
    assert program.provenance.ordered is not None
    assert program.provenance.ordered.strategy == "modulo"


def test_sections_and_regions_agree() -> None:
    program = arrange(attention(64, 32, 32), GFX950, 4, strategy=QUICK).program
    names = [s.name for s in program.groups[0].sections]
    assert names == ["before", "prologue", "loop", "epilogue", "after"]
    for section in program.groups[0].sections:
        for step in section.steps:
            assert isinstance(step, Work)
            outside = program.meaning[step.node].region is not Region.LOOP
            assert (step.iteration is None) == (section.name in ("before", "after"))
            assert not outside or section.name in ("before", "after")


def test_accesses_name_the_iteration_of_what_changes_with_it() -> None:
    """Of a tile that every iteration has anew, the step's own; of one that stays, none."""
    program = arrange(loops.resident_weights(staged=False), GFX950, 4, strategy=QUICK).program
    found = [
        (access.resource, access.generation, step.iteration)
        for _, _, step in program.groups[0].steps()
        if isinstance(step, Work)
        for access in (*step.reads, *step.writes)
    ]
    assert {name for name, _, _ in found} > {"W tile", "X tile"}
    for name, generation, iteration in found:
        assert generation == (None if name.startswith("W") else iteration)


def test_a_staged_result_that_waves_divide_otherwise_is_refused() -> None:
    """C and the added output take it both ways, and four waves cut them along two dimensions."""
    loop = Loop("both", over="t")
    a, y = (loop.stream(name, BF16, t=16, d=32) for name in "AY")
    b = loop.resident("B", BF16, n=64, d=32)
    x = (a @ b).to(BF16).staged()
    c = loop.carry("C", n=64, d=32)
    c += x @ y
    loop.store("out", c)
    loop.store("dq", x @ b)
    loop.adds("dq")
    with pytest.raises(ScheduleError) as caught:
        pipeline(loop, "gfx950", waves=4, strategy=in_order)
    assert caught.value.field == "waves"
    with pytest.raises(ScheduleError):
        pipeline(loop, "gfx950", waves=1)
