"""From a declaration to a program that is proved, and that the executor cannot break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.drive import pipeline as driver
from pipeloom.errors import InternalError
from pipeloom.judge.execute import execute
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.in_order import in_order
from pipeloom.order.roles import Consumer, Producer
from pipeloom.order.strategy import Exact
from pipeloom.program import Barrier, Group, Program, SyncMethod, Wait
from tests.unit.order import loops
from tests.unit.order.test_arrange import CASES

pytestmark = pytest.mark.usefixtures("short_search")

QUICK = Exact(work_limit=1.0)


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_declaration_is_proved(name: str) -> None:
    declare, target, waves = CASES[name]
    program = pl.pipeline(declare(), target, waves, strategy=QUICK)
    assert program.provenance.synchronised is SyncMethod.PROVEN


def assert_executes(loop: Loop, program: Program) -> None:
    """Under the worst timing, whichever wave goes first."""
    for trips in (0, 1, 2):
        for order in ("forward", "reverse"):
            outcome = execute(program, trips=trips, order=order, ops=loop.ops)
            assert outcome.correct, outcome.describe()


@pytest.mark.parametrize(
    ("loop", "waves"),
    [
        (gemm(64, 64, 32), 4),
        (row_sum(), 1),
        (loops.lazy_maximum(), 1),
        (loops.resident_weights(staged=True), 2),
        (loops.own_op(), 2),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_executor_agrees(loop: Loop, waves: int) -> None:
    assert_executes(loop, pl.pipeline(loop, GFX950, waves, strategy=QUICK))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_executor_agrees_on_attention() -> None:
    loop = attention(64, 32, 32)
    program = pl.pipeline(loop, GFX950, 4, strategy=QUICK)
    assert execute(program, trips=1, order="reverse").correct


def test_producers_and_consumers_go_all_the_way() -> None:
    loop = gemm(64, 64, 32)
    program = pl.pipeline(loop, GFX950, groups=(Producer(1), Consumer(4)), strategy=QUICK)
    assert_executes(loop, program)

    def barriers(group: Group) -> int:
        return sum(isinstance(step, Barrier) for _, _, step in group.steps())

    producers, consumers = program.groups
    assert barriers(producers) == barriers(consumers) > 0


def test_no_loop_waits_for_loads_just_issued() -> None:
    """The timetable's gaps are taken: loads stay in flight across every barrier of the loop."""
    program = pl.pipeline(gemm(), GFX950, 4, strategy=pl.Exact())
    loop = next(s for s in program.groups[0].sections if s.trips)
    counts = [s.count for s in loop.steps if isinstance(s, Wait) and s.counter == "vmcnt"]
    assert counts
    assert min(counts) > 0


def test_a_wrong_program_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_waits(program: Program, **_: object) -> Program:
        groups = tuple(
            Group(
                g.waves,
                tuple(
                    replace(s, steps=tuple(x for x in s.steps if not isinstance(x, Wait)))
                    for s in g.sections
                ),
            )
            for g in program.groups
        )
        return replace(program, groups=groups)

    monkeypatch.setattr(driver, "synchronize", without_waits)
    with pytest.raises(InternalError, match="the pipeline of 'gemm' is wrong"):
        pl.pipeline(gemm(64, 64, 32), GFX950, 4, strategy=QUICK)


def test_what_cannot_be_woven_says_so() -> None:
    """And is ordered by the strategy that is given for that case alone."""
    loop = attention(64, 32, 32)
    program = pl.pipeline(loop, GFX950, {"q": 2}, otherwise=in_order)
    assert program.provenance.ordered is not None
    assert program.provenance.ordered.strategy == "in_order"
    assert "not woven" in program.provenance.notes[0]
    plain = pl.pipeline(row_sum(), GFX950, 1)
    assert "not woven" in plain.provenance.notes[0]


def test_a_product_of_which_nothing_is_staged() -> None:
    """No read of LDS says when its iteration begins, so a strategy orders it."""
    program = pl.pipeline(loops.gemm_with(staged="", m=32, n=32), GFX950, 2)
    assert "staged" in program.provenance.notes[0]
    assert pl.verify(program).proved
    emitted = pl.emit(program)
    assert pl.run(emitted, sizes={"m": 40, "n": 50, "k": emitted.k_min + emitted.k_step}).ok


def test_a_chip_by_name_and_a_function_for_a_loop() -> None:
    with pytest.raises(pl.ConfigError, match="unknown architecture 'gfx90a'"):
        pl.pipeline(gemm(64, 64, 32), "gfx90a", 4)
    with pytest.raises(pl.ConfigError, match="takes a Loop") as caught:
        pl.pipeline(gemm, "gfx950", 4)  # type: ignore[arg-type]
    assert "call it" in (caught.value.hint or "")


def test_derive_takes_a_chip_by_name() -> None:
    assert pl.derive(row_sum(), "gfx950", 1) is None


STRANGE: dict[str, tuple[str, Callable[[Any, Any], object]]] = {
    "derive a name": ("loop", lambda loop, a: pl.derive("gemm_tile", GFX950, 4)),  # type: ignore[arg-type]
    "derive for no chip": ("arch", lambda loop, a: pl.derive(loop, "gfx90a", 4)),
    "derive waves": ("pipeline.waves", lambda loop, a: pl.derive(loop, GFX950, "4")),  # type: ignore[arg-type]
    "pipeline waves": ("pipeline.waves", lambda loop, a: pl.pipeline(loop, GFX950, "4")),  # type: ignore[arg-type]
    "waves of groups": (
        "waves",
        lambda loop, a: pl.pipeline(loop, GFX950, "4", groups=(Producer(1), Consumer(4))),  # type: ignore[arg-type]
    ),
    "start": ("start", lambda loop, a: loop.carry("c", start="x", m=4)),
    "operand": ("operand", lambda loop, a: a + "x"),
    "product": ("matmul", lambda loop, a: a @ 3),
    "store a number": ("o", lambda loop, a: (loop.store("o", 3), pl.pipeline(loop, GFX950, 4))),
    "store a word": ("operand", lambda loop, a: loop.store("o", "x")),
    "condition": ("1", lambda loop, a: loop.when(True).__enter__()),
    "array": ("Q", lambda loop, a: loop.evaluate(Q=3)),
    "scalar": ("s", lambda loop, a: loop.evaluate({"s": 1.0})),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_argument_is_named(name: str) -> None:
    field, act = STRANGE[name]
    loop = gemm(64, 64, 32)
    a = Loop("other", over="k").stream("A", "f32", m=4, k=4)
    with pytest.raises(pl.ScheduleError) as caught:
        act(loop, a)
    assert caught.value.field == field
    assert caught.value.hint
