"""What the steps from a declaration to an order give of many small loops: a row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from random import Random
from typing import Any

from benchmarks.kernel_results import bare, digest
from benchmarks.planned import planned_cycles
from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, gemm_gate, gemm_weights
from pipeloom.declare.products import product
from pipeloom.errors import ScheduleError
from pipeloom.machine.chips import target_for
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.order.instructions import refinable, refine, unfit
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import (
    choices,
    structures,
    timed,
    unit_times,
    variations,
    woven,
)
from pipeloom.order.task_problem import loop_problem
from pipeloom.order.tasks import Lowered
from pipeloom.program.nodes import Region
from tests.declarations.test_declarations import CASES
from tests.golden.rows.answers import answers
from tests.unit.order import loops as small

WAVES = (1, 2, 4, {"m": 2, "n": 2}, 8)
WOVEN: Mapping[str, tuple[Loop, str, int]] = {
    "gemm 64x32x32": (gemm(64, 32, 32), "gfx950", 4),
    "gemm 64x64x32 gfx942": (gemm(64, 64, 32), "gfx942", 8),
    "gemm fp8": (gemm(32, 32, 128, "fp8"), "gfx950", 4),
    "gate": (gemm_gate(32, 32, 32), "gfx950", 4),
    "i8 weights": (gemm_weights(32, 32, 64), "gfx950", 4),
    "mxfp4": (product(32, 32, 256, "fp4", blocks=True), "gfx950", 4),
    "attention": (attention(64, 32, 32), "gfx950", 4),
}
SMALL: tuple[Callable[[], Loop], ...] = (
    small.two_products,
    small.lazy_maximum,
    small.masked_rows,
    small.two_carries,
    small.scaled_sum,
    small.own_op,
    small.staged_sum,
    small.row_totals,
    small.last_value,
    small.product_and_row_sums,
    partial(small.resident_weights, staged=True),
)
GEMMS: tuple[Mapping[str, Any], ...] = (
    {},
    {"staged": "A", "bias": True},
    {"staged": "", "n": 128, "k": 64},
    {"m": 128, "n": 32},
)
PATTERNS = 24


def lowered_rows() -> dict[str, dict[str, str]]:
    """Declarations as tasks, with what these take, by how many waves share them."""
    makers = {case.name: case.declare for case in CASES}
    makers |= {f"loop {n}": make for n, make in enumerate(SMALL)}
    makers |= {f"gemm {n}": partial(small.gemm_with, **how) for n, how in enumerate(GEMMS)}
    found = {}
    for name, make in sorted(makers.items()):
        number = int(digest(name), 16)  # the same whatever others there are
        arch = ("gfx950", "gfx942")[number % 3 == 2]
        try:
            loop = make()
        except ScheduleError as error:
            found[name] = {"refused": " ".join(str(error).split())}
            continue
        waves = WAVES[number % len(WAVES)]
        found[name] = {f"{waves} waves, {arch}": "; ".join(_lowered(loop, arch, waves))}
    return found


def _lowered(loop: Loop, arch: str, waves: int | Mapping[str, int]) -> Iterator[str]:
    try:
        lowered = lower(loop.meaning, target_for(arch), loop.ops, loop.staged, waves)
    except ScheduleError as error:
        yield " ".join(str(error).split())
        return
    yield from _parts(lowered)
    try:
        problem = loop_problem(lowered)
        yield f"steps of {problem.quantum}, {digest(str(problem))}"
        found = arrange(loop, target_for(arch), waves, strategy=in_order)
    except ScheduleError as error:
        yield " ".join(str(error).split())
        return
    yield f"in order {digest(bare(found.program))}, {dict(found.barrier_gaps)}"
    yield f"{answers(found.program)}; {answers(lowered)}; {answers(problem)}"
    yield " ".join(found.program.provenance.notes)


def _parts(lowered: Lowered) -> Iterator[str]:
    cuts = ", ".join(f"{cut.waves} x {cut.share} along {cut.dim}" for cut in lowered.shares.cuts)
    counts = [len(lowered.of(region)) for region in Region]
    yield f"{cuts}; {counts} tasks, {len(lowered.places)} places"
    yield f"{digest(str([lowered.of(region) for region in Region]))} {digest(str(lowered.places))}"
    if refinable(lowered):
        yield ", ".join(f"{one.unit} {one.cycles:g}" for one in unit_times(lowered))
    else:
        yield unfit(lowered)


def woven_rows() -> dict[str, dict[str, str]]:
    """Loops woven in some of the ways that there are, in each of which one choice is drawn."""
    return {name: dict(_woven(Random(name), *what)) for name, what in WOVEN.items()}


def _woven(rng: Random, loop: Loop, arch: str, waves: int) -> Iterator[tuple[str, str]]:
    lowered = lower(loop.meaning, target_for(arch), loop.ops, loop.staged, waves)
    space = choices(lowered)
    yield "choices", ", ".join(f"{name} {values}" for name, values in space.items())
    yield "instructions", digest(str([refine(lowered).of(region) for region in Region]))
    shapes = list(structures(lowered))
    yield "structures", f"{len(shapes)}, {digest(str(shapes))}"
    for pattern in rng.choices(shapes, k=PATTERNS):
        near = list(variations(rng.choice([pattern, *variations(pattern, space)]), space))
        one = rng.choice(near)
        try:
            times = timed(lowered, one)
            program = woven(lowered, one, rng.choice((None, None, 3, 8)), times)
            said = f"{planned_cycles(lowered, one):g} cycles, {digest(bare(program))}"
        except ScheduleError as error:
            said = " ".join(str(error).split())
        yield pattern_name(one), f"of {len(near)}: {said}"


def pattern_name(pattern: Pattern) -> str:
    """What it chooses otherwise than a pattern does by default."""
    usual = Pattern()
    chosen = {f.name: getattr(pattern, f.name) for f in fields(pattern)}
    given = (f"{k}={v}" for k, v in chosen.items() if v != getattr(usual, k))
    return ", ".join(given) or "usual"
