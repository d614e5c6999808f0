"""Operands that may change places: proved either way, for ops of which that is true."""

from __future__ import annotations

import pytest

from pipeloom.declare import Loop
from pipeloom.judge.execute import execute
from pipeloom.judge.verify import verify
from pipeloom.machine.dtypes import F32
from pipeloom.program import VOCABULARY, Access, Program, Work
from tests.unit.judge.verify.programs import changed, lowered


def swapped(op: str) -> Program:
    """A running value of products and the carry, whose step reads its two operands swapped."""
    loop = Loop("swapped", over="k")
    x, y = (loop.stream(name, F32, k=1, n=4) for name in "XY")
    total = loop.carry("total", F32, start=0, n=4)
    mixed = loop.apply(op, x, y, name="mixed", dtype=F32)
    total += mixed.sum("k")
    loop.store("out", total)
    base = lowered(loop.as_written)
    reads = reads_of(base, "mixed")
    return changed(base, "loop", "mixed", reads=reads[::-1])


def reads_of(program: Program, label: str) -> tuple[Access, ...]:
    steps = (step for _, _, step in program.groups[0].steps() if isinstance(step, Work))
    return next(step.reads for step in steps if step.label == label)


@pytest.mark.parametrize("op", ["add", "mul", "max", "min", "eq", "sub", "div", "gt"])
def test_proved_exactly_if_the_result_is_the_same(op: str) -> None:
    program = swapped(op)
    commutes = op in ("add", "mul", "max", "min", "eq")
    assert VOCABULARY[op].commutes is commutes
    assert verify(program).proved is commutes
    assert execute(program, trips=3).correct is commutes


def test_a_carry_may_change_places_with_what_is_added() -> None:
    loop = Loop("sum", over="k")
    x = loop.stream("X", F32, k=1, n=4)
    total = loop.carry("total", F32, start=0, n=4)
    loop.store("out", total.becomes(total * 0.5 + x.sum("k")))
    base = lowered(loop.as_written)
    label = next(n.name for n in loop.as_written.nodes if n.op == "add")
    reads = reads_of(base, label)
    assert verify(changed(base, "loop", label, reads=reads[::-1])).proved


def test_the_condition_of_a_step_stays_where_it_is() -> None:
    """It is read behind the operands, whichever of them comes first."""
    loop = Loop("sometimes", over="k")
    x, y = (loop.stream(name, F32, k=1, n=4) for name in "XY")
    total = loop.carry("total", F32, start=0, n=4)
    row, other = x.sum("k").named("row"), y.sum("k").named("other")
    with loop.when((row > other).named("big")):
        total = total.becomes((total + row).named("grown"))
    loop.store("out", total)
    base = lowered(loop.as_written)
    label = next(n.name for n in loop.as_written.nodes if n.when == "big")
    one, two, *rest = reads_of(base, label)
    assert [access.resource for access in rest][-1] == "r.big"
    assert verify(base).proved
    assert verify(changed(base, "loop", label, reads=(two, one, *rest))).proved


def test_one_operand_twice_is_not_a_swap() -> None:
    program = swapped("add")
    reads = reads_of(program, "mixed")
    for once in reads:
        assert not verify(changed(program, "loop", "mixed", reads=(once, once))).proved
