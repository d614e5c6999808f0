"""Registers of a load in flight are not read, not even by work that no output depends on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from pipeloom.declare.kernels import gemm
from pipeloom.judge.execute import execute, replay
from pipeloom.judge.execute.executor import Executor
from pipeloom.judge.verify import FindingKind, proves, verify
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.program import Program, Work
from pipeloom.sync import synchronize


@cache
def whole() -> Program:
    return synchronize(arrange(gemm(32, 32, 32), GFX950, 1, strategy=in_order).program)


def with_dead_product(*, late: bool) -> Program:
    """A product once more, to registers that nobody reads: right behind its loads, or late."""
    program = whole()
    (group,) = program.groups
    section = next(s for s in reversed(group.sections) if any(map(_adds, s.steps)))
    at, product = next((n, s) for n, s in enumerate(section.steps) if _adds(s))
    assert isinstance(product, Work)
    operands = {access.resource for access in product.reads}
    fills = [
        n
        for n, s in enumerate(section.steps[:at])
        if isinstance(s, Work) and operands & {access.resource for access in s.writes}
    ]
    sum_ = product.accumulates[0]
    dead = replace(product, accumulates=(replace(sum_, resource="dead"),), label="dead")
    place = at if late else fills[-1] + 1
    steps = (*section.steps[:place], dead, *section.steps[place:])
    sections = (replace(s, steps=steps) if s is section else s for s in group.sections)
    return replace(
        program,
        resources=(*program.resources, replace(program.resource(sum_.resource), name="dead")),
        groups=(replace(group, sections=tuple(sections)),),
    )


def _adds(step: object) -> bool:
    return isinstance(step, Work) and bool(step.accumulates)


def test_dead_work_that_reads_a_load_in_flight_is_a_finding() -> None:
    program = with_dead_product(late=False)
    outcome = execute(program, trips=1, explain=True)
    assert outcome.correct
    assert not outcome.clean
    verdict = verify(program)
    assert not verdict.proved
    assert not proves(program)
    assert {finding.kind for finding in verdict.findings} == {FindingKind.REGISTER}
    executor = Executor(program)
    assert not any(replay(executor, finding).clean for finding in verdict.findings)


def test_dead_work_behind_the_wait_is_none() -> None:
    program = with_dead_product(late=True)
    assert verify(program).proved
    assert any(work.op.startswith("dead") for work in verify(program).dead_work)


def test_a_wait_is_placed_for_it() -> None:
    assert verify(synchronize(with_dead_product(late=False))).proved
